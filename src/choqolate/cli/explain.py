"""The command that explains a model: explain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from choqolate.cli.application import app
from choqolate.cli.model import ModelFolder
from choqolate.errors import ChoqolateError


@app.command()
def explain(
    model: ModelFolder,
    scores: Annotated[
        Path | None,
        typer.Option(metavar="SCORES", help="Look at it on this table of concept scores.", show_default=False),
    ] = None,
    image: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Explain this picture, from its pixels; can be repeated.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write a report, one HTML page.", show_default=False),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where the pictures of SCORES are now.", show_default=False),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Encoder for --image, if it has moved.", show_default=False),
    ] = None,
) -> None:
    """Show what a model does: its nodes, its pictures, its suspects; or what it makes of a new picture.

    Example: [bold]choqolate explain model --scores scores.parquet -o report.html[/]

    Example: [bold]choqolate explain model --image photo.jpg[/]
    """
    from choqolate.cli import show_explain as show
    from choqolate.cli.terminal import open_console, printable_name, show_next
    from choqolate.concepts.scores import ConceptScores
    from choqolate.files import check_output
    from choqolate.persistence import load
    from choqolate.report.model import write_report

    if output is not None:
        check_output(output)
    classifier = load(model)
    table = None if scores is None else ConceptScores.load(scores)
    if images is not None and table is None:
        raise ChoqolateError("expected --scores with --images, which says where their pictures are; for one, --image")
    console = open_console()
    files = image or []
    if files:
        from choqolate.pictures import score_pictures

        show.show_pictures(console, classifier, score_pictures(classifier, files, backbone=backbone))
    elif output is None:
        show.show_model(console, model, classifier, table)
        page: list[str | Path] = ["explain", model, "--scores", scores or "SCORES", "-o", "report.html"]
        show_next("The model is", model, page, ["explain", model, "--image", "PHOTO"])
    if output is not None:
        write_report(
            classifier,
            table,
            output,
            images=files,
            root=images,
            backbone=backbone,
            title=f"The model “{printable_name(model.name or model)}” explained",
            verbose=True,
        )
        console.print(f"\nThe report is in {printable_name(output)}.", markup=False, soft_wrap=True)
