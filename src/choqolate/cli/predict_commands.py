"""Commands that use a trained model: predict, drift."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from choqolate.cli.application import app
from choqolate.cli.arguments import Columns, ModelFolder, names_columns


@app.command()
@names_columns
def predict(
    model: ModelFolder,
    columns: Columns,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="Table of concept scores, or images: a folder, a file, a CSV list, or embeddings.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="File to write, .csv or .parquet.")
    ] = Path("predictions.csv"),
    abstain: Annotated[
        float | None,
        typer.Option(
            metavar="ACCURACY",
            help="Target accuracy, such as 0.95. The model abstains on rows whose probability is too low to reach it.",
            show_default=False,
        ),
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            metavar="SCORES",
            help="Labeled scores to calibrate on before predicting, for example after an edit.",
            show_default=False,
        ),
    ] = None,
    backbone: Annotated[
        str | None, typer.Option(metavar="NAME", help="Encoder to use if the model's has moved.", show_default=False)
    ] = None,
    embeddings: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder for image embeddings. Default: a shared cache.", show_default=False
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Processes that decode images.", show_default=False)
    ] = None,
) -> None:
    """Predict classes for images or scores, with probabilities, reasons, and flags for review. Resumable.

    Example: [bold]choqolate predict model IMAGES/ -o predictions.csv --abstain 0.95[/]
    """
    from choqolate.cli.terminal import load_table, note_existing, open_console, open_table, show_start

    show_start("reading", model, source)
    from choqolate.analysis.predicting import check_predictions_file, predict_source
    from choqolate.cli import show_predictions as show
    from choqolate.estimators.model_folder import load

    check_predictions_file(output, source, calibrate)
    found = predict_source(
        load(model),
        open_table(source, [], columns) if columns else source,
        abstain=abstain,
        calibrate=load_table(calibrate, columns) if columns and calibrate is not None else calibrate,
        backbone=backbone,
        embeddings=embeddings,
        workers=workers,
        verbose=True,
    )
    note_existing(output)
    found.save(output)
    show.show_predictions(open_console(), found, output)


@app.command()
@names_columns
def drift(
    model: ModelFolder,
    columns: Columns,
    first: Annotated[
        Path,
        typer.Argument(metavar="A", help="Reference scores, such as those of the training images.", show_default=False),
    ],
    second: Annotated[Path, typer.Argument(metavar="B", help="Scores to compare with A.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Compare two tables of concept scores: which concepts and predictions differ beyond chance.

    Example: [bold]choqolate drift model scores-2023.parquet scores-2024.parquet[/]
    """
    from choqolate.cli.terminal import load_table, open_console, say_json, show_start

    show_start("reading", model, first, second)
    from choqolate.analysis.drift import compare_tables
    from choqolate.estimators.model_folder import load

    found = compare_tables(load(model), load_table(first, columns), load_table(second, columns))
    if as_json:
        say_json(found.as_dict())
        return
    from choqolate.cli import show_predictions as show

    show.show_drift(open_console(), found)
