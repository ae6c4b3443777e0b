"""Scores of a table as the inputs of a model: its concepts, found by name."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate._util.checks import as_labels
from choqolate._util.text import counted, listed
from choqolate.data.rows import class_places
from choqolate.data.score_file import Table
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError, DoubtfulChoiceWarning

if TYPE_CHECKING:
    import pandas as pd


def inputs(model: Any, table: ConceptScores) -> Any:
    """Scores for the methods of any fitted estimator, ours or another, the columns found by name.

    Args:
        model: with ``concepts_``; one that was fitted on a data frame gets a data frame.
        table: scores of all its concepts, in any order.

    Raises:
        ChoqolateError: if the table lacks a concept of the model.
    """
    return as_inputs(model, select_inputs(model, table))


def as_inputs(model: Any, chosen: ConceptScores) -> Any:
    """Scores that :func:`select_inputs` chose, in the form that the methods of an estimator take."""
    return frame_view(chosen) if hasattr(model, "feature_names_in_") else chosen.scores


def select_inputs(model: Any, table: Table) -> Table:
    """The concepts of a model, in its order.

    Raises:
        ChoqolateError: if the table lacks one.
    """
    known = set(table.concepts)
    missing = [name for name in model.concepts_ if name not in known]
    if missing:
        raise ChoqolateError(
            f"expected scores of all {len(model.concepts_)} concepts of the model, the table has no "
            f"{listed(missing)}: score the images with the model's vocabulary"
        )
    return table if table.concepts == tuple(model.concepts_) else table.select(model.concepts_)


def frame_view(table: ConceptScores) -> pd.DataFrame:
    """The scores as a data frame with a column for each concept: the table's own memory, only to be read."""
    import pandas as pd

    return pd.DataFrame(table.scores, columns=list(table.concepts), copy=False)


def known_rows(model: Any, table: ConceptScores, y: Any, groups: Any) -> tuple[ConceptScores, Any, Any]:
    """The rows of a table whose label is known, their labels as the model has them, and their groups.

    Args:
        model: with ``classes_``.
        table: scores, at best with labels and groups.
        y: a label for every row of the table, in place of the table's own.
        groups: a group for every row of the table, in place of the table's own; of these, rows without a group are
            left out if others have one.

    Raises:
        ChoqolateError: if there are no labels, or the model does not know one.
    """
    rows = np.flatnonzero(table.rows.labelled()) if y is None else np.arange(len(table))
    if groups is None:
        rows = rows[table.rows.take(rows).grouped()]
    known = table.take(rows)
    labels = model.classes_[class_places(known.labels, model.classes_)] if y is None else _at(rows, y, "y", len(table))
    return known, labels, known.groups if groups is None else _at(rows, groups, "groups", len(table))


def _at(rows: np.ndarray, values: Any, name: str, n_rows: int) -> list[Any]:
    checked = as_labels(values, name, n_rows)
    return [checked[row] for row in rows]


def complete_groups(X: Any, *, warn: bool = False) -> np.ndarray | None:
    """The group of each row, if ``X`` is a table that knows it of every row; else ``None``.

    Args:
        X: what a classifier is fitted on.
        warn: say so if groups are left out of account because some rows have none.
    """
    if not isinstance(X, ConceptScores) or X.groups is None:
        return None
    lacking = sum(group is None for group in X.groups)
    if lacking and warn:
        verb = "has" if lacking == 1 else "have"
        message = f"{lacking:,} of {counted(len(X), 'row')} {verb} no group, so the search takes no account of groups."
        warnings.warn(message, DoubtfulChoiceWarning, stacklevel=4)
    return None if lacking else X.groups
