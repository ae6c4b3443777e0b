"""What a table of scores gives to a model: rows to measure it on, and concepts to remove."""

from __future__ import annotations

import warnings

from choqolate.analysis.evaluation import Evaluation, evaluate, has_held_out, spurious_concepts
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.explain.protocols import ConceptModel


def evaluate_parts(model: ConceptModel, table: ConceptScores) -> dict[str, Evaluation]:
    """Measure a model on the table that it was trained on: on the rows for training, and on those held out.

    If there are no held-out rows, or the model cannot be measured on them, a warning says so.

    Args:
        model: a fitted classifier, ours or a baseline.
        table: scores with labels.

    Returns:
        Evaluations by name: ``"training"`` and, where possible, ``"held out"``.

    >>> import numpy as np
    >>> from choqolate.estimators.table_training import fit_scores
    >>> scores = np.random.default_rng(0).random((40, 3))
    >>> table = ConceptScores(scores, ["sea", "oak", "crest"], labels=["duck", "owl"] * 20)
    >>> results = evaluate_parts(fit_scores(table, epochs=5), table)
    >>> {name: result.rows for name, result in results.items()}
    {'training': 28, 'held out': 12}
    """
    results = {"training": evaluate(model, table, "train")}
    problem: object = "all rows with a label are for training"
    if has_held_out(table):
        try:
            return results | {"held out": evaluate(model, table)}
        except ChoqolateError as error:  # the model is fine, what to measure it on is not
            problem = error
    warnings.warn(f"not evaluated on held-out rows: {problem}", ChoqolateWarning, stacklevel=2)
    return results


def marked_concepts(model: ConceptModel, *tables: ConceptScores) -> list[str]:
    """List the concepts of a model that it or a table marks as spurious, as :func:`spurious_concepts` does.

    Raises:
        ChoqolateError: if there are none.
    """
    marked = spurious_concepts(model, *tables)
    if not marked:
        raise ChoqolateError(
            "expected concepts marked as spurious, neither the model nor the scores given mark any: name them"
        )
    return marked
