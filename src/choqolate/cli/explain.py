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
    pictures: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where the pictures of SCORES are, if they have moved.", show_default=False
        ),
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
    from choqolate.cli.terminal import open_console, printable_name
    from choqolate.concepts.scores import ConceptScores
    from choqolate.persistence import load
    from choqolate.pictures import score_pictures
    from choqolate.report.model import check_page, write_report
    from choqolate.suspects import find_suspects

    if output is not None:
        check_page(output)
    classifier = load(model)
    table = None if scores is None else ConceptScores.load(scores)
    if pictures is not None and table is None:
        raise ChoqolateError("expected --scores with --pictures, which says where theirs are; to explain one, --image")
    if backbone is not None and not image:
        raise ChoqolateError("expected --image with --backbone, which encodes it")
    console = open_console()
    suspects = None if table is None or table.labels is None else find_suspects(classifier, table)
    own = score_pictures(classifier, image, backbone=backbone) if image else None
    if own is not None:
        show.show_pictures(console, classifier, own)
    if table is not None or own is None:
        show.show_model(console, model, classifier, table, suspects, brief=output is not None)
    if output is not None:
        write_report(
            classifier,
            table,
            output,
            images=own if own is not None else (),
            root=pictures,
            title=f"The model “{printable_name(model.name or model)}” explained",
            names=(str(model), str(scores or "SCORES")),
            suspects=suspects,
            verbose=True,
        )
        console.print(f"\nThe report is in {printable_name(output)}.", markup=False, soft_wrap=True)
    show.show_next_steps(model, classifier, scores, suspects, page=output is None)
