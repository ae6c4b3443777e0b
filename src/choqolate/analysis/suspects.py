"""Suspects: concepts that a model would be better without, or relies on without need."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from choqolate import metrics
from choqolate._util.progress import item_bar
from choqolate._util.text import counted
from choqolate.analysis.evaluation import held_out, spurious_concepts
from choqolate.analysis.failing_slices import FailingSlices, find_failing_slices
from choqolate.data.rows import class_places
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.estimators.table_inputs import inputs, select_inputs
from choqolate.explain.impact import predict_without_sets, removal_impact
from choqolate.explain.model_protocols import check_choquet_model
from choqolate.explain.redundancy import check_redundancy
from choqolate.metrics import PairedChange

if TYPE_CHECKING:
    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.classifier import ChoqolateClassifier

HELPS = 0.01  # gain of the worst group from which a removal helps it,
IMAGES = 3  # if it is as many of its images at least: fewer are chance
FEWEST = 30  # images of the worst group, below which nothing is claimed of it
TESTED = 20  # helpful removals with a paired test
ENOUGH = 50  # images of the smallest group for the validation rows to do
COSTS = 0.005  # loss of accuracy below which a removal hardly costs anything
RELIES = 2.0  # times the mean share, from which a model relies on a concept
TOGETHER = 0.6  # mean correlation of concepts that are removed together as well
MOST_GROUPS = 40  # groups tried
LEADING = 1_000  # concepts that groups are looked for around, if there are many
QUESTIONED = 3  # failing slices whose concepts are suspected where there are no groups
HELPFUL, IDLE = "helps the worst group", "relied on, hardly needed"


class Suspect(NamedTuple):
    """One concept, or several that rise and fall together: their share in the model, and what their removal would do.

    ``share`` is that of the concepts in all classes, both layers' Shapley values chained; shares of all concepts sum to
    one. ``worst_group_change`` is NaN without groups. ``reason`` is ``HELPFUL`` or ``IDLE``. ``paired`` is the change
    of the group that is worst now, row by row: of the first twenty that help, else ``None``.
    """

    concepts: tuple[str, ...]
    share: float
    accuracy_change: float
    worst_group_change: float
    spurious: bool
    reason: str
    paired: PairedChange | None = None


@dataclass(frozen=True, repr=False)
class Suspects:
    """Suspected concepts, those whose removal helps the worst group most first.

    Attributes:
        found: the suspects.
        rows: number of rows that removals were measured on.
        chosen: which rows these are, in words.
        needed: gain of the worst group from which a removal counts as helpful; ``None`` without groups, or if the worst
            group is too small.
        too_few: number of validation images in the smallest group, if they were not used because of it.
        mode: how concepts were removed.
        worst_group: name of the worst group and number of its rows; ``None`` without groups.
        tried: number of removals tried.
        failing: concepts that set the misclassified images of a class apart, from labels alone, see
            :func:`~choqolate.analysis.failing_slices.find_failing_slices`.
    """

    found: tuple[Suspect, ...]
    rows: int
    chosen: str
    needed: float | None
    too_few: int | None
    mode: str
    worst_group: tuple[str, int] | None = None
    tried: int = 0
    failing: FailingSlices | None = None

    def __repr__(self) -> str:
        found = f"{len(self.helpful)} that help the worst group, {len(self.idle)} hardly needed"
        return f"Suspects({found}; {counted(self.rows, 'row')})"

    @property
    def helpful(self) -> tuple[Suspect, ...]:
        """Those whose removal helps the worst group."""
        return tuple(one for one in self.found if one.reason == HELPFUL)

    @property
    def unclear(self) -> bool:
        """Whether the worst group has too few rows (under 30) to tell what helps it."""
        return self.worst_group is not None and self.worst_group[1] < FEWEST

    @property
    def idle(self) -> tuple[Suspect, ...]:
        """Those that the model relies on and hardly needs on these rows."""
        return tuple(one for one in self.found if one.reason == IDLE)

    @property
    def to_remove(self) -> tuple[str, ...]:
        """All concepts whose removal, alone or with their likes, helps the worst group."""
        return tuple(dict.fromkeys(name for one in self.helpful for name in one.concepts))

    @property
    def suspected(self) -> tuple[str, ...]:
        """The concepts to look at: those to remove if groups tell, else those of the first three failing slices."""
        if self.to_remove or self.failing is None:
            return self.to_remove
        return tuple(name for one in self.failing.suspects[:QUESTIONED] for name in one.concepts)


def find_suspects(
    model: ChoqolateClassifier, table: ConceptScores, *, mode: str = "rescale", verbose: bool = False
) -> Suspects:
    """Concepts whose removal helps the worst group, or hardly costs accuracy although the model relies on them.

    Every concept is removed alone; and since concepts that mean the same stand in for each other, so that none of them
    seems to matter, concepts with a mean correlation of at least 0.6 are removed together as well: forty groups, those
    with the largest share. Of more than 2,000 concepts, groups are looked for around the 1,000 with the largest share.

    A removal helps if the worst group gains at least one point, and three of its images; of a worst group with fewer
    than 30 images nothing is claimed. It hardly costs anything if accuracy falls by less than half a point; that is
    worth knowing of concepts with at least twice the mean share.
    Removals are measured on the validation rows if their groups are large enough (50 rows), so that test rows stay
    unseen when concepts are chosen; else on the held-out rows, and numbers on those rows are optimistic afterwards.

    Without groups the worst group is not known. What sets the misclassified images of each class apart is looked for
    in any case, from labels alone, and stands in ``failing``.

    Args:
        model: a fitted classifier.
        table: scores with labels, at best with groups.
        mode: as in ``remove_concepts``.
        verbose: show progress on stderr.
    """
    check_choquet_model(model, "to find suspects")
    rows, chosen, too_few = _rows(model, table)
    trial = _Trial(model, rows, mode, verbose)
    marked = set(spurious_concepts(model, table))
    single = removal_impact(model.network_, trial.z, trial.truth, trial.groups, mode=mode, verbose=verbose)
    alone = {
        concept: (float(row["accuracy_change"]), float(row.get("worst_group_change", math.nan)))
        for concept, row in single.to_dict("index").items()
    }
    helpful, idle = [], []
    removals = [*(((name,), change) for name, change in alone.items()), *trial.groups_of(table)]
    for concepts, (accuracy, worst) in removals:
        share = trial.share(concepts)
        spurious = all(name in marked for name in concepts)
        best_alone = max((alone[name][1] for name in concepts if not math.isnan(alone[name][1])), default=-math.inf)
        if worst >= trial.needed - 1e-9 and (len(concepts) == 1 or worst > best_alone + 1e-9):
            helpful.append(Suspect(concepts, share, accuracy, worst, spurious, HELPFUL))
        elif len(concepts) == 1 and share >= RELIES / len(alone) and accuracy > -COSTS:
            idle.append(Suspect(concepts, share, accuracy, worst, spurious, IDLE))
    helpful.sort(key=lambda one: (-one.worst_group_change, -one.share))
    idle.sort(key=lambda one: -one.share)
    tests = trial.paired([one.concepts for one in helpful[:TESTED]]) if helpful else []
    helpful[:TESTED] = [one._replace(paired=test) for one, test in zip(helpful[:TESTED], tests, strict=True)]
    needed = None if math.isinf(trial.needed) else trial.needed
    with item_bar(1, "looking for failing slices", enabled=verbose) as advance:
        failing = find_failing_slices(model, table)
        advance(1)
    return Suspects(
        (*helpful, *idle),
        len(rows),
        chosen,
        needed,
        too_few,
        mode,
        worst_group=trial.worst_group,
        tried=len(removals),
        failing=failing,
    )


class _Trial:
    """Rows to try removals on, and how the model does on them now."""

    def __init__(self, model: ChoqolateClassifier, rows: ConceptScores, mode: str, verbose: bool) -> None:
        self.model, self.rows, self.mode, self.verbose = model, rows, mode, verbose
        self.z = model.scale(inputs(model, rows))
        self.truth = model.classes_[class_places(rows.labels, model.classes_)].tolist()
        self.groups = rows.groups
        self._u = model.network_.as_inputs(self.z)
        self._predicted = model.network_.class_scores(self._u).argmax(1)
        self.accuracy, self.worst, self.worst_group = self._measure(self._predicted)
        size = 0 if self.worst_group is None else self.worst_group[1]
        self.needed = max(HELPS, IMAGES / size) if size >= FEWEST else math.inf
        self.shares = dict(zip(model.concepts_, model.concept_shares_.tolist(), strict=True))

    def share(self, concepts: Sequence[str]) -> float:
        """Share of the concepts in the whole model."""
        return sum(self.shares[name] for name in concepts)

    def _measure(self, predicted: np.ndarray) -> tuple[float, float, tuple[str, int] | None]:
        """Accuracy, that of the worst group, its name and the number of its rows."""
        labels = self.model.classes_[predicted].tolist()
        accuracy = metrics.accuracy(self.truth, labels)
        if self.groups is None:
            return accuracy, math.nan, None
        by_group = metrics.group_accuracies(self.truth, labels, self.groups)
        worst = min(by_group, key=lambda name: by_group[name])
        return accuracy, by_group[worst], (str(worst), Counter(self.groups.tolist())[worst])

    def paired(self, several: Sequence[Sequence[str]]) -> list[PairedChange | None]:
        """What removals change in the group that is worst now, row by row; ``None`` for those that cannot be made."""
        assert self.groups is not None
        assert self.worst_group is not None
        members = np.flatnonzero(self.groups == self.worst_group[0])
        truth = np.array(self.truth)[members]
        before = self.model.classes_[self._predicted[members]] == truth
        after = predict_without_sets(self.model.network_, self._u[members], several, self.mode)
        return [
            None if one is None else metrics.paired_change(before, self.model.classes_[one] == truth) for one in after
        ]

    def groups_of(self, table: ConceptScores) -> Iterator[tuple[tuple[str, ...], tuple[float, float]]]:
        """Concepts that rise and fall together, and what removing them at once changes; those with most share first."""
        if math.isinf(self.needed) or len(self.rows) < 2:
            return
        scores = select_inputs(self.model, table)
        with item_bar(1, "looking for related concepts", enabled=self.verbose) as advance:
            related = check_redundancy(scores, group_at=TOGETHER, leading=leading_concepts(self.model)).groups
            advance(1)
        tried = [one.concepts for one in sorted(related, key=lambda group: -self.share(group.concepts))[:MOST_GROUPS]]
        without_them = predict_without_sets(self.model.network_, self._u, tried, self.mode, verbose=self.verbose)
        for concepts, predicted in zip(tried, without_them, strict=True):
            if predicted is not None:
                accuracy, worst, _ = self._measure(predicted)
                yield concepts, (accuracy - self.accuracy, worst - self.worst)


def leading_concepts(model: ChoqolateClassifier, most: int = LEADING) -> list[str]:
    """The concepts with the largest share in the model, the largest first."""
    names, ranked = model.concepts_, np.argsort(-model.concept_shares_, kind="stable")[:most]
    return [names[j] for j in ranked]


def without(model: ChoqolateClassifier, concepts: Sequence[str], mode: str = "rescale") -> ChoqolateClassifier | None:
    """The model without the concepts, only to be tried; ``None`` if a node would be left with nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChoqolateWarning)
        try:
            return model.remove_concepts(concepts, mode=mode)
        except ChoqolateError:
            return None


def _rows(model: ChoqolateClassifier, table: ConceptScores) -> tuple[ConceptScores, str, int | None]:
    """The rows to try on, which they are, and the size of the smallest validation group if it is too small.

    Where groups are known of some rows, only those count.
    """
    labelled, too_few = table.labelled(), None
    if labelled.rows.has_part("val"):
        validation = labelled.part("val").grouped()
        smallest = ENOUGH if validation.groups is None else min(Counter(validation.groups.tolist()).values())
        if smallest >= ENOUGH:
            return validation, "val rows of the table", None
        too_few = smallest
    rows, chosen = held_out(model, table)
    return rows.grouped(), chosen, too_few
