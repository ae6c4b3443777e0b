"""The command that writes a model card: card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from choqolate.cli.application import app
from choqolate.cli.arguments import Columns, ModelFolder, names_columns


@app.command()
@names_columns
def card(
    model: ModelFolder,
    columns: Columns,
    scores: Annotated[
        Path | None,
        typer.Option(
            metavar="SCORES",
            help="Measure the model, and the effect of each edit, on the held-out rows of this table.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Markdown file to write (.md). By default, the card is printed."
        ),
    ] = None,
) -> None:
    """Write a model card: training data, accuracy with intervals, nodes as formulas, and the history of edits.

    Example: [bold]choqolate card model --scores scores.parquet -o card.md[/]
    """
    from choqolate.cli.terminal import load_table, note_existing, open_console, printable_name, say, show_start

    show_start("reading", *(path for path in (model, scores) if path is not None))
    from choqolate.estimators.model_folder import load
    from choqolate.report.model_card import check_card, model_card, write_card

    if output is not None:
        check_card(output)
    classifier = load(model)
    table = None if scores is None else load_table(scores, columns)
    name = model.resolve().name
    if output is None:
        say(model_card(classifier, table, name=name), end="")
        return
    note_existing(output)
    write_card(classifier, table, output, name=name)
    open_console().print(f"The model card is in {printable_name(output)}.", markup=False, soft_wrap=True)
