"""The command that predicts the place that each image of COCO shows: places."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from choqolate.cli.application import app
from choqolate.cli.data_commands import BackboneName, BatchSize, DeviceName, Precision, PrecisionName, Workers


@app.command()
def places(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="Copy of COCO (train2017, val2017), folder of embeddings, or file with a Places365 classifier's 365 "
            "scores per image (.npz, .parquet, .csv).",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="CSV",
            help="New CSV file with the columns image, place and model.",
            show_default=False,
        ),
    ],
    backbone: BackboneName = None,
    device: DeviceName = "auto",
    precision: PrecisionName = Precision.auto,
    embeddings: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder for embeddings; by default in the user's cache."),
    ] = None,
    workers: Workers = None,
    batch_size: BatchSize = None,
) -> None:
    """Predict the place that each COCO image shows, as a pseudo-label for its location class. Resumable.

    Each image gets the most similar of the 365 scene names of Places365 or, if SOURCE holds scores of a classifier, the
    one with the highest score.

    Example: [bold]choqolate places COCO/ -o coco.places.csv[/]
    """
    from choqolate.cli.terminal import show_start

    show_start("reading", source)
    from choqolate.cli.show_data import show_places
    from choqolate.concepts.scene_places import predict_places

    predicted = predict_places(
        source,
        backbone,
        output=output,
        device=device,
        precision=precision.value,
        embeddings=embeddings,
        workers=workers,
        batch_size=batch_size,
        verbose=True,
    )
    show_places(predicted, source, output)
