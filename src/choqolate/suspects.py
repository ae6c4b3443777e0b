"""Suspects: concepts that a model relies on and would be better, or no worse, without."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from choqolate.evaluation import held_out, inputs, spurious_concepts
from choqolate.validation import check_number

if TYPE_CHECKING:
    from choqolate.classifier import ChoqolateClassifier
    from choqolate.concepts.scores import ConceptScores

HELPS = 0.01  # gain of the worst group from which a removal helps it,
PICTURES = 3  # if it is as many pictures of the smallest group at least: fewer are chance
ENOUGH = 50  # pictures of the smallest group for the validation rows to do
COSTS = 0.005  # loss of accuracy below which a removal hardly costs anything
RELIES = 2.0  # times the mean share, from which a model relies on a concept


HELPFUL, IDLE = "its removal helps the worst group", "relied on, but hardly needed"


class Suspect(NamedTuple):
    """A concept, its share in the model, and what its removal alone would do.

    ``share`` is that of the concept in all classes, both layers' Shapley values chained; shares of all concepts sum to
    one. ``worst_group_change`` is NaN without groups. ``reasons`` say in words why it is suspected.
    """

    concept: str
    share: float
    accuracy_change: float
    worst_group_change: float
    spurious: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Suspects:
    """Suspected concepts, those whose removal helps the worst group most first.

    Attributes:
        found: the suspects.
        rows: number of rows that removals were measured on.
        chosen: which rows these are, in words.
        smallest_group: number of rows of the smallest group; ``None`` without groups.
        mode: how concepts were removed.
    """

    found: tuple[Suspect, ...]
    rows: int
    chosen: str
    smallest_group: int | None
    mode: str

    @property
    def helpful(self) -> tuple[str, ...]:
        """The concepts whose removal helps the worst group."""
        return tuple(one.concept for one in self.found if HELPFUL in one.reasons)


def find_suspects(
    model: ChoqolateClassifier, table: ConceptScores, *, mode: str = "rescale", most: int = 20
) -> Suspects:
    """Concepts whose removal, each alone, helps the worst group, or hardly costs accuracy although the model uses them.

    A removal helps if the worst group gains at least one point, and three pictures of the smallest group. It hardly
    costs anything if accuracy falls by less than half a point; that is worth knowing of concepts with at least twice
    the mean share in the model. Removals are measured on the validation rows if their groups are large enough (50
    rows), so that test rows stay unseen when concepts are chosen; else on the held-out rows.

    Args:
        model: a fitted classifier.
        table: scores with labels, at best with groups.
        mode: as in ``remove_concepts``.
        most: how many suspects to keep.
    """
    check_number("most", most, minimum=1, whole=True)
    rows, chosen = _rows(model, table)
    labels = {str(label): label for label in model.classes_.tolist()}
    assert rows.labels is not None
    truth = [labels.get(label, label) for label in rows.labels.tolist()]
    groups = _groups(rows)
    smallest = None if groups is None else min(Counter(groups.tolist()).values())
    helps = HELPS if smallest is None else max(HELPS, PICTURES / smallest)
    impact = model.removal_impact(inputs(model, rows), truth, groups, mode=mode)
    marked = set(spurious_concepts(model, table))
    n_concepts = len(model.concepts_)
    shares = (model.class_attributions_.mean(0) @ model.node_attributions_).reshape(-1, n_concepts).sum(0)
    lost = impact["accuracy_change"].to_numpy()
    gained = np.full(n_concepts, math.nan) if groups is None else impact["worst_group_change"].to_numpy()
    found, relied_on = [], RELIES * shares.sum() / n_concepts
    for j, concept in enumerate(model.concepts_):
        reasons = tuple(_reasons(gained[j] >= helps, shares[j] >= relied_on and lost[j] > -COSTS))
        if reasons:
            numbers = (float(shares[j]), float(lost[j]), float(gained[j]))
            found.append(Suspect(concept, *numbers, concept in marked, reasons))
    found.sort(key=lambda one: (-one.worst_group_change if HELPFUL in one.reasons else 0.0, -one.share))
    return Suspects(tuple(found[:most]), len(rows), chosen, smallest, mode)


def _rows(model: ChoqolateClassifier, table: ConceptScores) -> tuple[ConceptScores, str]:
    labelled = table.labelled()
    if labelled.split is not None and (labelled.split == "val").any():
        validation = labelled.part("val")
        groups = _groups(validation)
        if groups is None or min(Counter(groups.tolist()).values()) >= ENOUGH:
            return validation, "val rows of the table"
    return held_out(model, table)


def _groups(rows: ConceptScores) -> np.ndarray | None:
    """The group of every row; ``None`` if some have none."""
    return None if rows.groups is None or any(group is None for group in rows.groups) else rows.groups


def _reasons(helpful: bool, idle: bool) -> Iterator[str]:
    if helpful:
        yield HELPFUL
    if idle:
        yield IDLE
