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
    typer.Option(
        "--data", metavar="NAME", help="Bundled data set: birds (drawn images). Used if no other data are given."
    ),
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
FewNodes = Annotated[int, typer.Option("--nodes", metavar="N", min=1, help="Number of nodes.")]
Epochs = Annotated[
    int | None,
    typer.Option(
        "--epochs",
        metavar="N",
        min=1,
        help="Training epochs of every method. Default: 100 with the paper's settings; tuned methods have a budget of "
        "steps instead.",
        show_default=False,
    ),
]
_BUDGET = "1000 steps on all rows; with more than 2048 rows, 3000 steps on 512 rows each"
Steps = Annotated[
    int | None,
    typer.Option("--steps", metavar="N", min=1, help="Training steps of every tuned method.", show_default=_BUDGET),
]
OwnSteps = Annotated[
    int | None,
    typer.Option(
        "--steps",
        metavar="N",
        min=1,
        help="With --also: training steps of your own estimator, if it has this parameter.",
        show_default=_BUDGET,
    ),
]
Also = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE:CLASS",
        help="An estimator of your own to compare with all others; can be repeated. With an attribute tuning_grid (a "
        "dictionary from parameters to values), it is tuned like the other methods.",
        show_default=False,
    ),
]
Spurious = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Text file with one spurious concept per line; by default, the concepts marked as spurious in the scores.",
        show_default=False,
    ),
]
Embeddings = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Embeddings of the images, for Ortho-Proj and Ortho-Cali.", show_default=False),
]
Images = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder to which the paths in the scores are relative. Needed for CBDebug with augmentation, which "
        "encodes most training images again.",
        show_default=False,
    ),
]
Others = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Scores of the same images for other names, to draw random names from.",
        show_default=False,
    ),
]
RuleName = Annotated[
    Rule,
    typer.Option(
        "--rule",
        metavar="RULE",
        help="Rule for choosing hyperparameters on validation rows: accuracy (the highest), or sparsest (the largest "
        "Gini within one point of the highest accuracy; also tunes the temperature of the row CHOQOLATE).",
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
        help="Compare only these methods, without controls: choqolate, choqolate-auto, pcbm, pscbm, "
        "sparse-autoencoder, slr-avd, logistic, l1-logistic, l1-logistic-refitted, or an estimator of your own as "
        "module:Class; can be repeated. The first method is compared with all others.",
        show_default=False,
    ),
]
ControlEmbeddings = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Embeddings of the images, for controls with everyday names and with random directions of the embedding "
        "space.",
        show_default=False,
    ),
]
