"""The options of commands that measure controls, and what they ask for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    from choqolate.analysis.controls import Controls
    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.classifier import ChoqolateClassifier

WithControls = Annotated[
    bool,
    typer.Option(
        "--controls",
        help="Compare with controls: models with the same settings, trained on random names and random directions. "
        "Also measure logistic regression on all scores (the ceiling) and what is left of removed concepts.",
    ),
]
Others = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="With --controls: scores of the same images for other names, to draw random names from.",
        show_default=False,
    ),
]
EmbeddingsFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="With --controls: embeddings of the images, for random everyday names and for random directions of the "
        "embedding space.",
        show_default=False,
    ),
]
DRAWS = 3
Draws = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="With --controls: number of random draws. One draw is too few for a conclusion.",
        show_default=str(DRAWS),
    ),
]


def check_control_options(
    controls: bool, others: Path | None, embeddings: Path | None, draws: int | None = None
) -> None:
    """Find out before the work that an option is of no use."""
    for name, given in {"--others": others, "--embeddings": embeddings, "--draws": draws}.items():
        if given is not None and not controls:
            raise ChoqolateError(f"{name} has no effect without --controls. Add --controls.")
    for name, value in {"--others": others, "--embeddings": embeddings}.items():
        if value is not None and not value.exists():
            raise ChoqolateError(
                f"Expected {name} to be an existing file or folder, but {value} does not exist. Check the path."
            )


def measure_controls(
    model: ChoqolateClassifier, table: ConceptScores, others: Path | None, embeddings: Path | None, draws: int | None
) -> Controls:
    """Measure the controls of a model, with a progress bar."""
    from choqolate.analysis.controls import run_controls
    from choqolate.concepts.embedding import Embeddings
    from choqolate.data.scores import ConceptScores

    return run_controls(
        model,
        table,
        others=None if others is None else ConceptScores.load(others),
        embeddings=None if embeddings is None else Embeddings.load(embeddings),
        seeds=range(draws or DRAWS),
        verbose=True,
    )
