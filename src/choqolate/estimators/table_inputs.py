"""Scores of a table as the inputs of a model: its concepts, found by name."""

from __future__ import annotations

from typing import Any

from choqolate._util.text import listed
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError


def inputs(model: Any, table: ConceptScores) -> Any:
    """Scores for the methods of any fitted estimator, ours or another, the columns found by name.

    Args:
        model: with ``concepts_``; one that was fitted on a data frame gets a data frame.
        table: scores of all its concepts, in any order.

    Raises:
        ChoqolateError: if the table lacks a concept of the model.
    """
    known = set(table.concepts)
    missing = [name for name in model.concepts_ if name not in known]
    if missing:
        raise ChoqolateError(
            f"expected scores of all {len(model.concepts_)} concepts of the model, the table has no "
            f"{listed(missing)}: score the images with the model's vocabulary"
        )
    chosen = table.select(model.concepts_)
    return chosen.frame if hasattr(model, "feature_names_in_") else chosen.scores
