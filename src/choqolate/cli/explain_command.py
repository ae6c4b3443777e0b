"""The command that explains a model: explain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from choqolate.cli.application import app
from choqolate.cli.arguments import Columns, ModelFolder, as_options, names_columns
from choqolate.cli.control_options import (
    Draws,
    EmbeddingsFolder,
    Others,
    WithControls,
    check_control_options,
    measure_controls,
)
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    from rich.console import Console

    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.classifier import ChoqolateClassifier


@app.command()
@names_columns
def explain(
    model: ModelFolder,
    columns: Columns,
    scores: Annotated[
        Path | None,
        typer.Option(metavar="SCORES", help="Table of concept scores to explain the model on.", show_default=False),
    ] = None,
    image: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Image file to explain; can be repeated.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write a report to this HTML file.", show_default=False),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="OTHER",
            help="Compare with this model, node by node and, with --scores, on each image where the two disagree.",
            show_default=False,
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder with the images of SCORES, if they have moved.", show_default=False
        ),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Encoder for --image, if the folder of the encoder has moved.", show_default=False
        ),
    ] = None,
    controls: WithControls = False,
    others: Others = None,
    embeddings: EmbeddingsFolder = None,
    draws: Draws = None,
) -> None:
    """Show what a model does: its nodes, images and suspect concepts. With --image, explain a new image.

    Example: [bold]choqolate explain model --scores scores.parquet -o report.html[/]

    Example: [bold]choqolate explain model --scores scores.parquet --controls -o report.html[/]

    Example: [bold]choqolate explain model --image photo.jpg[/]

    Example: [bold]choqolate explain edited --against model --scores scores.parquet -o difference.html[/]
    """
    from choqolate.cli.terminal import load_table, note_existing, open_console, printable_name, show_start

    check_control_options(controls, others, embeddings, draws)
    show_start("reading", *(path for path in (model, against, scores) if path is not None))
    from choqolate.analysis.suspects import find_suspects
    from choqolate.cli import show_explanation as show
    from choqolate.cli.show_controls import show_controls
    from choqolate.concepts.new_images import score_for_model
    from choqolate.estimators.model_folder import load
    from choqolate.report.model_page import check_page, write_report

    if output is not None:
        check_page(output)
    classifier = load(model)
    table = None if scores is None else load_table(scores, columns)
    if images is not None and table is None:
        raise ChoqolateError("expected --scores with --images, which says where theirs are; to explain one, --image")
    if backbone is not None and not image:
        raise ChoqolateError("expected --image with --backbone, which encodes it")
    if controls and table is None:
        raise ChoqolateError("Expected --scores with --controls, because controls are trained on its rows.")
    if controls and against is not None:
        raise ChoqolateError("Expected --controls or --against, but got both. Run the command once for each.")
    if against is not None and image:
        raise ChoqolateError("Expected --against or --image, but got both. Explain the image with each model.")
    console = open_console()
    if against is not None:
        _compare(console, load(against), classifier, table, (against, model), output, images)
        return
    found = measure_controls(classifier, table, others, embeddings, draws) if controls and table is not None else None
    suspects = None if table is None or table.labels is None else find_suspects(classifier, table, verbose=True)
    own = score_for_model(classifier, image, backbone=backbone) if image else None
    if own is not None:
        show.show_images(console, classifier, own)
    if table is not None or own is None:
        show.show_model(console, model, classifier, table, suspects, brief=output is not None)
    if found is not None:
        show_controls(console, found)
    if output is not None:
        note_existing(output)
        write_report(
            classifier,
            table,
            output,
            images=own if own is not None else (),
            root=images,
            title=f"The model “{printable_name(model.name or model)}” explained",
            names=(str(model), str(scores or "SCORES")),
            suspects=suspects,
            controls=found,
            verbose=True,
        )
        console.print(f"\nThe report is in {printable_name(output)}.", markup=False, soft_wrap=True)
    show.show_next_steps(model, classifier, scores, suspects, page=output is None, given=as_options(columns))


def _compare(
    console: Console,
    other: ChoqolateClassifier,
    classifier: ChoqolateClassifier,
    table: ConceptScores | None,
    folders: tuple[Path, Path],
    output: Path | None,
    images: Path | None,
) -> None:
    """Show a model beside another one that it is compared with, and write the page if one is wanted."""
    from choqolate.analysis.model_difference import compare_models
    from choqolate.cli.show_difference import show_difference
    from choqolate.cli.terminal import note_existing, printable_name
    from choqolate.report.difference_page import write_difference

    found = compare_models(other, classifier, table)
    names = tuple(printable_name(folder.name or folder) for folder in folders)
    if names[0] == names[1]:
        names = tuple(printable_name(folder) for folder in folders)
    show_difference(console, found, (names[0], names[1]))
    if output is not None:
        note_existing(output)
        write_difference(
            other, classifier, table, output, names=(names[0], names[1]), root=images, difference=found, verbose=True
        )
        console.print(f"\nThe page is in {printable_name(output)}.", markup=False, soft_wrap=True)
