"""The command that shortens the formulas of a model: simplify."""

from __future__ import annotations

from typing import Annotated

import typer

from choqolate.cli.application import app
from choqolate.cli.arguments import Columns, ModelFolder, as_options, names_columns
from choqolate.cli.model_commands import EditedFolder, MeasureOn
from choqolate.errors import ChoqolateError


@app.command()
@names_columns
def simplify(
    model: ModelFolder,
    output: EditedFolder,
    columns: Columns,
    terms: Annotated[
        int | None,
        typer.Option(metavar="N", help="Keep the N heaviest terms of each node.", show_default=False),
    ] = None,
    mass: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Keep this share of the weight of each node, such as 0.99, with as few terms as possible.",
            show_default=False,
        ),
    ] = None,
    classes: Annotated[bool, typer.Option("--classes", help="Also simplify the second layer, by the same rule.")] = (
        False
    ),
    scores: MeasureOn = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Reason for the edit, saved with the model.", show_default=False)
    ] = None,
    author: Annotated[
        str | None, typer.Option(metavar="NAME", help="Author of the edit, saved with the model.", show_default=False)
    ] = None,
) -> None:
    """Shorten the formulas of a trained model and bound how much that can change.

    Each node keeps its heaviest terms, rescaled to sum to one. Pass either --terms or --mass.

    With --scores, the command also reports how many rows provably keep their predicted class.

    Example: [bold]choqolate simplify model -o short --terms 10 --scores scores.parquet[/]
    """
    from choqolate.cli.terminal import load_table, note_existing, open_console, show_next, show_start

    show_start("reading", *(path for path in (model, scores) if path is not None))
    from choqolate.analysis.comparison import compare_evaluations
    from choqolate.analysis.evaluation import evaluate, held_out
    from choqolate.cli import show_formulas as show
    from choqolate.cli.show_model import show_comparison
    from choqolate.estimators.model_folder import check_model_folder, load
    from choqolate.network.edits import Note

    if (terms is None) == (mass is None):
        raise ChoqolateError("Expected either --terms or --mass. Pass one of them, such as --terms 10.")
    check_model_folder(output)
    before = load(model)
    table = None if scores is None else load_table(scores, columns)
    note = None if author is None and reason is None else Note(author, reason=reason)
    after = before.simplify(terms, mass, classes=classes, note=note)
    found = after.simplification_
    assert found is not None
    measured = None
    if table is not None and table.labels is not None:
        measured = compare_evaluations(*(evaluate(one, table, concept_counts=()) for one in (before, after)))
    proof = None
    if table is not None:
        proof = after.certify(table if measured is None else held_out(after, table)[0])
    note_existing(output)
    after.save(output)
    console = open_console()
    show.show_simplification(console, after, found)
    if proof is not None:
        show.show_certificate(console, proof)
    if measured is not None:
        show_comparison(console, measured)
    show_next(
        "The model is",
        output,
        ["eval", output, scores or "SCORES", *as_options(columns)],
        ["explain", output, "--scores", scores or "SCORES", "-o", f"{output}.html", *as_options(columns)],
    )
