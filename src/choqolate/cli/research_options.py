"""The options of commands that compare methods."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class BundledData(StrEnum):
    """Data that come with the package."""

    birds = "birds"


class Rule(StrEnum):
    """How hyperparameters are chosen."""

    accuracy = "accuracy"
    sparsest = "sparsest"


OwnScores = Annotated[
    Path | None,
    typer.Argument(
        metavar="SCORES",
        help="Table of concept scores, .parquet or .csv; without it, drawn birds.",
        show_default=False,
    ),
]
DataName = Annotated[
    BundledData | None,
    typer.Option("--data", metavar="NAME", help="birds, which are drawn; the default without SCORES or --root."),
]
Seeds = Annotated[
    int | None,
    typer.Option(
        "--seeds",
        metavar="N",
        min=1,
        help="Runs per method and setting. By default as in the paper: 20, and 5 in sweeps.",
        show_default=False,
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="A first impression: three runs, short sweeps, fewer birds.")]
Nodes = Annotated[
    int,
    typer.Option(
        "--nodes", metavar="N", min=0, help="Number of nodes of every method. 0 connects concepts to classes directly."
    ),
]
FewNodes = Annotated[int, typer.Option("--nodes", metavar="N", min=1, help="Nodes.")]
Epochs = Annotated[
    int | None,
    typer.Option(
        "--epochs",
        metavar="N",
        min=1,
        help="Passes over the training rows, of every method; by default 100 with the paper's settings, and a budget "
        "of steps (--steps) for methods whose parameters are chosen.",
        show_default=False,
    ),
]
Steps = Annotated[
    int | None,
    typer.Option(
        "--steps",
        metavar="N",
        min=1,
        help="Training steps of every method whose parameters are chosen.",
        show_default="1000 of all rows, or 3000 of 512 rows if there are more than 2048",
    ),
]
Also = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE:CLASS",
        help="An estimator of your own beside all others; can be repeated. With an attribute tuning_grid (a dictionary "
        "from parameters to values), it is tuned like the others.",
        show_default=False,
    ),
]
Spurious = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Text file with one spurious concept per line; by default those that SCORES marks."
    ),
]
Embeddings = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Vectors of the images, for Ortho-Proj and Ortho-Cali.", show_default=False),
]
Images = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder that the paths in SCORES start from, for CBDebug with augmentation, which encodes most training "
        "images again.",
        show_default=False,
    ),
]
Others = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Scores of the same images for other names, for the control with random names.",
        show_default=False,
    ),
]
RuleName = Annotated[
    Rule,
    typer.Option(
        "--rule",
        metavar="RULE",
        help="How learning rate and penalty are chosen on validation rows: accuracy (the best), or sparsest (the "
        "largest Gini within a point of the best; this also chooses the temperature of the row with the paper's "
        "settings).",
    ),
]
Processes = Annotated[
    int | None,
    typer.Option("--processes", metavar="N", min=1, help="Number of training processes.", show_default="one per core"),
]


Methods = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Only these, without controls: choqolate, choqolate-auto, pcbm, pscbm, sparse-autoencoder, slr-avd, "
        "logistic, l1-logistic, l1-logistic-refitted, or an estimator of your own as module:Class; can be repeated. "
        "The first is compared with the others.",
        show_default=False,
    ),
]
ControlEmbeddings = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Embeddings of the images, for controls with everyday names and with directions of their space.",
        show_default=False,
    ),
]
