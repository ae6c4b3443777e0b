"""Suspects as plain data for the page: found without the covered rows, in the words of the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate._util.numbers import decimal
from choqolate._util.text import counted
from choqolate.analysis.interval_text import judged_text, p_text, percent_range, share_text
from choqolate.analysis.suspects import Suspects, find_suspects
from choqolate.studio.row_choice import AUDIT, COVERED, RowChoice

if TYPE_CHECKING:
    from choqolate.analysis.failing_slices import FailingSlice, MistakeSuspect
    from choqolate.analysis.suspects import Suspect
    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.classifier import ChoqolateClassifier

MOST_LISTED = 200  # suspects of a kind, the first ones


def find_uncovered_suspects(
    model: ChoqolateClassifier, table: ConceptScores, choice: RowChoice, *, verbose: bool = False
) -> Suspects | None:
    """Look for suspects on the audit rows; covered rows are not looked at. ``None`` if no audit row has a label."""
    if not len(_audited(choice)):
        return None
    names = [str(label) for label in model.classes_.tolist()]
    split = np.full(len(table), None, dtype=object)
    for index, name in enumerate(choice.splits):
        split[choice.split == index] = "train" if name == "train" else None
    split[choice.role == AUDIT] = "val"
    labels = [None if place < 0 else names[place] for place in choice.label]
    uncovered = np.flatnonzero(choice.role != COVERED)
    rows = table.with_columns(split=split, labels=labels, classes=()).take(uncovered)
    return find_suspects(model, rows, verbose=verbose)


def suspect_entries(found: Suspects, choice: RowChoice) -> dict[str, Any]:
    """All that the page says of suspects.

    Args:
        found: by :func:`find_uncovered_suspects`.
        choice: the rows; those of failing slices are given by their place in its order, if they are loaded.
    """
    place = np.full(len(choice), -1, dtype=np.int64)
    place[choice.order[: choice.loaded]] = np.arange(choice.loaded)
    failing = [] if found.failing is None else found.failing.suspects
    return {
        "chosen": choice.audit,
        "rows": found.rows,
        "worst_group": None if found.worst_group is None else list(found.worst_group),
        "unclear": found.unclear,
        "needed": found.needed,
        "tried": found.tried,
        "mode": found.mode,
        "helpful": [_entry(one, found.rows) for one in found.helpful[:MOST_LISTED]],
        "idle": [_entry(one, found.rows) for one in found.idle[:MOST_LISTED]],
        "n_helpful": len(found.helpful),
        "n_idle": len(found.idle),
        "to_remove": list(found.to_remove),
        "verdict": "" if found.failing is None else found.failing.verdict(),
        "failing": [_failing_entry(one, place[_audited(choice)]) for one in failing],
    }


def _audited(choice: RowChoice) -> np.ndarray:
    """Row numbers of the labeled audit rows, in the order of the table, as failing slices count them."""
    return np.flatnonzero((choice.role == AUDIT) & (choice.label >= 0))


def _entry(one: Suspect, rows: int) -> dict[str, Any]:
    worst = one.worst_group_change
    change = f"accuracy {decimal(100 * one.accuracy_change, 1, signed=True)} points on {counted(rows, 'image')}"
    return {
        "concepts": list(one.concepts),
        "share": one.share,
        "accuracy_change": one.accuracy_change,
        "worst_group_change": None if math.isnan(worst) else worst,
        "spurious": one.spurious,
        "text": change if one.paired is None else judged_text(one.paired),
    }


def _failing_entry(one: MistakeSuspect, places: np.ndarray) -> dict[str, Any]:
    worst = one.slices[0]
    loaded: Sequence[int] = [int(place) for place in places[list(worst.mistakes)] if place >= 0]
    return {
        "class": worst.label,
        "concepts": list(one.concepts),
        "question": one.question,
        "rows": loaded,
        "mistakes": len(worst.mistakes),
        "share": one.share,
        "spurious": one.spurious,
        "text": _gap_text(worst),
    }


def _gap_text(worst: FailingSlice) -> str:
    """Both accuracies and the gap between them, as in the report."""
    p = p_text(worst.p_value)
    gap = f"gap {decimal(100 * worst.gap, 1)} points ({percent_range(worst.interval)}), p {p if '<' in p else f'= {p}'}"
    return f"{share_text(worst.failing)} correct, other images of the class {share_text(worst.others)}; {gap}"
