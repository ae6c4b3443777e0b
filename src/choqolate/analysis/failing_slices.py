"""Suspects without groups: concepts that separate the images of a class on which a model fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from choqolate._util.text import counted, listed
from choqolate.analysis.evaluation import held_out, spurious_concepts
from choqolate.data.rows import class_index, class_places
from choqolate.estimators.table_inputs import inputs
from choqolate.estimators.table_training import training_rows
from choqolate.explain.model_protocols import check_choquet_model
from choqolate.explain.redundancy import correlated_groups
from choqolate.metrics import Proportion, concept_correlation
from choqolate.metrics.intervals import TOO_FEW, difference_intervals, fisher_p_values
from choqolate.network.scaling import ScaledRows

if TYPE_CHECKING:
    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.classifier import ChoqolateClassifier

SIBLINGS = 0.6  # mean correlation within classes of concepts that are one suspect
MOST_CONCEPTS = 400  # that are ranked and looked at for siblings
LEVEL = 0.05  # chance of even one gap that is due to chance among those called beyond chance


class FailingSlice(NamedTuple):
    """Images of one class that have, or lack, a concept, and on which a model fails more often than on the others.

    Attributes:
        label: the class.
        concept: the concept.
        present: whether the failing images have the concept; otherwise they lack it.
        failing: share of these images that are classified correctly.
        others: the same for the other images of the class.
        interval: 95% interval of the gap between the two, corrected for the number of slices that were tried.
        p_value: of Fisher's exact test of the gap, corrected for the number of slices that were tried.
        association: correlation of the concept's scores with the class, on training rows.
        mistakes: indices of the failing images that are misclassified, among the rows that were used.
    """

    label: str
    concept: str
    present: bool
    failing: Proportion
    others: Proportion
    interval: tuple[float, float]
    p_value: float
    association: float
    mistakes: tuple[int, ...]

    @property
    def gap(self) -> float:
        """By how much accuracy is lower on the failing images."""
        return self.others.value - self.failing.value

    @property
    def beyond_chance(self) -> bool:
        """Whether the gap is more than chance."""
        return self.p_value < LEVEL

    @property
    def images(self) -> str:
        """The failing images, in words.

        >>> water = FailingSlice("gull", "sea", False, Proportion(4, 20), Proportion(19, 20), (0.3, 0.9), 0.0, 0.5, ())
        >>> water.images, round(water.gap, 2)
        ('images of “gull” without “sea”', 0.75)
        """
        return f"images of “{self.label}” {'with' if self.present else 'without'} “{self.concept}”"


@dataclass(frozen=True, repr=False)
class MistakeSuspect:
    """Correlated concepts, and the images on which the model seems to fail because of them.

    Attributes:
        concepts: their names, the one with the clearest gap first (highest lower end of the interval).
        slices: the failing images of each class, split by the concept that separates them best; the clearest gap first.
        share: of the concepts in the model, through the Shapley values of both layers; all concepts sum to one.
        spurious: whether all of them are marked as spurious.
    """

    concepts: tuple[str, ...]
    slices: tuple[FailingSlice, ...]
    share: float
    spurious: bool

    def __repr__(self) -> str:
        return f"MistakeSuspect({listed(self.concepts, 3)}: {100 * self.slices[0].gap:.0f} points)"

    @property
    def question(self) -> str:
        """What the model does, and what a person has to answer."""
        worst = self.slices[0]
        right = f"it is correct on {worst.failing.hits:,} of {worst.failing.rows:,}"
        others = f"but on {worst.others.hits:,} of the other {worst.others.rows:,} images of the class"
        return f"The model fails more often on {worst.images}: {right}, {others}. Should “{worst.concept}” matter?"


@dataclass(frozen=True, repr=False)
class FailingSlices:
    """Concepts that separate the images on which a model fails, found from labels alone.

    Attributes:
        suspects: concepts whose gap is beyond chance, ranked by the lower end of its interval.
        ranking: names of the concepts, the most suspect first, beyond chance or not.
        strongest: the slice with the clearest gap, beyond chance or not; ``None`` if no slice was tried or no image is
            misclassified.
        tried: number of slices that were tried.
        rows: the rows that were used.
        chosen: which rows these are, in words.
    """

    suspects: tuple[MistakeSuspect, ...]
    ranking: tuple[str, ...]
    strongest: FailingSlice | None
    tried: int
    rows: ConceptScores
    chosen: str

    def __repr__(self) -> str:
        return f"FailingSlices({counted(len(self.suspects), 'suspect')}; {counted(self.tried, 'slice')} tried)"

    @cached_property
    def concepts(self) -> tuple[str, ...]:
        """All suspected concepts, in the order of the suspects."""
        return tuple(name for one in self.suspects for name in one.concepts)

    def verdict(self) -> str:
        """Say in one sentence what was found, or why nothing was."""
        if not self.tried:
            needed = f"at least {TOO_FEW} images of a class with a concept and {TOO_FEW} without it"
            return f"Too few images: {needed} are needed."
        tried = f"{counted(self.tried, 'slice')} tried on {counted(len(self.rows), 'image')}"
        if self.suspects:
            return f"{counted(len(self.suspects), 'suspect')} beyond chance ({tried})."
        if self.strongest is None:
            return f"No image is misclassified ({tried})."
        gap = f"the clearest gap, {100 * self.strongest.gap:.1f} points on {self.strongest.images}"
        return f"No concept explains the mistakes: {gap}, may be due to chance ({tried})."


def find_failing_slices(model: ChoqolateClassifier, table: ConceptScores) -> FailingSlices:
    r"""Find concepts that separate the images of a class on which a model fails from its other images.

    Only labels are needed. For every class r and concept j, training rows give the mean score of the class,
    :math:`\mu`, and the mean over the other classes, :math:`\mu'`. Images of the class whose score lies on the far side
    of the midpoint, :math:`(\mu + \mu') / 2`, look like the other classes with respect to the concept: waterbirds
    without water, landbirds with water. If the model is correct on fewer of them than on the other images of the class,
    it relies on the concept or on something correlated with it. The data cannot say whether it should; a person must.

    Both sides of a slice need ten images. A gap is beyond chance by Fisher's exact test, Bonferroni-corrected for the
    number of slices tried: the probability of reporting even one gap that is due to chance is at most 5%. Suspects are
    ranked by the lower end of the interval of the gap (Newcombe's, with the same correction). Concepts whose scores
    have a mean correlation of at least 0.6 within the classes form one suspect.

    Args:
        model: a fitted classifier.
        table: scores with labels. Groups are not used. Validation rows are used if each class has at least
            twenty, otherwise the held-out rows.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 2000)
    >>> water = np.where(rng.random(2000) < 0.9, y, 1 - y)
    >>> scores = np.stack([y + rng.normal(0, 0.7, 2000), water + rng.normal(0, 0.2, 2000)], 1)
    >>> from choqolate import ConceptScores, fit_scores
    >>> table = ConceptScores(scores, ["webbed feet", "sea"], labels=np.array(["wren", "gull"])[y])
    >>> model = fit_scores(table, n_nodes=4, bipolar=True, epochs=30)
    >>> find_failing_slices(model, table).suspects[0]
    MistakeSuspect('sea': ...)
    """
    check_choquet_model(model, "to find suspects")
    rows, chosen = _rows(model, table)
    counts = _SliceCounts(model, table, rows)
    best: np.ndarray = counts.low.max(axis=0)
    beyond: np.ndarray = np.any(counts.beyond, axis=0)
    order = np.lexsort((-best, ~beyond))[:MOST_CONCEPTS]
    suspects = [counts.suspect(members) for members in counts.siblings(order[beyond[order]])]
    ranking = tuple(counts.names[j] for j in order if best[j] > -1)
    return FailingSlices(tuple(suspects), ranking, counts.strongest(), counts.tried, rows, chosen)


class _SliceCounts:
    """The slices of all classes and concepts, counted."""

    def __init__(self, model: ChoqolateClassifier, table: ConceptScores, rows: ConceptScores) -> None:
        self.names, self.labels = model.concepts_, list(class_index(model.classes_))
        self.marked = set(spurious_concepts(model, table))
        self.shares = model.concept_shares_
        train = _training(model, table, rows)
        self._train, self._classes = _scaled(model, train), class_places(train.labels, model.classes_)
        self._scores, self._truth = _scaled(model, rows), class_places(rows.labels, model.classes_)
        self._right = np.asarray(model.predict(inputs(model, rows)) == model.classes_[self._truth])
        n_classes, n_concepts = len(self.labels), len(self.names)
        self.middle, self.above = self._middles()
        self.off = np.zeros((2, n_classes, n_concepts))  # of the failing side: right, all
        self.on = np.zeros((2, n_classes, n_concepts))
        for r in range(n_classes):
            right = self._right[self._truth == r]
            off = self.is_off(r)
            self.off[:, r] = right.astype(float) @ off, off.sum(0)
            self.on[:, r] = right.sum() - self.off[0, r], len(right) - self.off[1, r]
        possible = (np.minimum(self.off[1], self.on[1]) >= TOO_FEW) & self._known[:, None] & _in_use(model)
        self.tried = int(possible.sum())
        counts = self.on[0], self.on[1], self.off[0], self.off[1]
        low, high = difference_intervals(*counts, confidence=1 - LEVEL / max(self.tried, 1))
        self.low, self.high = np.where(possible, low, -1.0), high
        self.p_values = np.ones_like(low)
        likely = possible & (self.off[0] * self.on[1] < self.on[0] * self.off[1])  # there is a gap at all
        p_values = fisher_p_values(*(count[likely] for count in counts))
        self.p_values[likely] = np.minimum(p_values * self.tried, 1.0)
        self.beyond = self.p_values < LEVEL

    def _middles(self) -> tuple[np.ndarray, np.ndarray]:
        """Between the mean of each class and that of the others ``(C, M)``, and whether the class lies above it."""
        n_classes = len(self.labels)
        self._known = np.bincount(self._classes, minlength=n_classes) > 0
        means = np.full((n_classes, len(self.names)), np.nan)
        for r in np.flatnonzero(self._known):
            means[r] = self._train[self._classes == r].mean(0)
        total, n_others = np.nansum(means, axis=0), max(int(self._known.sum()) - 1, 1)
        others = (total - np.where(self._known[:, None], means, 0.0)) / n_others
        means = np.where(self._known[:, None], means, others)
        return (means + others) / 2, means > others

    def is_off(self, r: int, concepts: slice | list[int] = slice(None)) -> np.ndarray:
        """Which images of a class ``(n_r, M)`` look like the other classes with respect to each concept."""
        scores = self._scores.columns(concepts, self._truth == r)
        off: np.ndarray = (scores > self.middle[r, concepts]) != self.above[r, concepts]
        return off

    def slice_of(self, r: int, j: int) -> FailingSlice:
        """The slice of one class and one concept."""
        own = np.flatnonzero(self._truth == r)
        failing = own[self.is_off(r, [j])[:, 0] & ~self._right[own]]
        return FailingSlice(
            label=self.labels[r],
            concept=self.names[j],
            present=not self.above[r, j],
            failing=Proportion(*(int(count) for count in self.off[:, r, j])),
            others=Proportion(*(int(count) for count in self.on[:, r, j])),
            interval=(float(self.low[r, j]), float(self.high[r, j])),
            p_value=float(self.p_values[r, j]),
            association=_correlation(self._train.columns([j])[:, 0], self._classes == r),
            mistakes=tuple(failing.tolist()),
        )

    def siblings(self, suspected: np.ndarray) -> Iterator[list[int]]:
        """Suspected concepts ``(K,)`` that are correlated within classes, in the order of the first ones."""
        if len(suspected) < 2:
            yield from ([int(j)] for j in suspected)
            return
        inner = self._train.columns(suspected)
        for r in np.flatnonzero(self._known):
            inner[self._classes == r] -= inner[self._classes == r].mean(0)
        correlation = np.nan_to_num(concept_correlation(inner)) if len(inner) > 1 else np.eye(len(suspected))
        labels = correlated_groups(correlation, SIBLINGS)
        for label in dict.fromkeys(labels.tolist()):
            yield suspected[labels == label].tolist()

    def suspect(self, members: Sequence[int]) -> MistakeSuspect:
        """One suspect of concepts by index, the one with the clearest gap first."""
        low = np.where(self.beyond[:, members], self.low[:, members], -np.inf)
        found = [(r, members[int(low[r].argmax())]) for r in np.flatnonzero(np.isfinite(low).any(axis=1))]
        slices = [self.slice_of(int(r), j) for r, j in found]
        names = tuple(self.names[j] for j in members)
        return MistakeSuspect(
            concepts=names,
            slices=tuple(sorted(slices, key=lambda one: -one.interval[0])),
            share=float(self.shares[members].sum()),
            spurious=all(name in self.marked for name in names),
        )

    def strongest(self) -> FailingSlice | None:
        """The slice whose gap has the highest lower end, if there are mistakes."""
        if not self.tried or self._right.all():
            return None
        r, j = np.unravel_index(int(self.low.argmax()), self.low.shape)
        return self.slice_of(int(r), int(j))


def _scaled(model: ChoqolateClassifier, rows: ConceptScores) -> ScaledRows:
    return ScaledRows(model.checked_scores(inputs(model, rows)), model.scaling_)


def _in_use(model: ChoqolateClassifier) -> np.ndarray:
    """Mask ``(M,)`` of the concepts that were not removed from all nodes: the others cannot matter any more."""
    gone: np.ndarray = np.all(model.network_.gone.numpy(), axis=0)
    return ~gone[: len(model.concepts_)]


def _training(model: ChoqolateClassifier, table: ConceptScores, rows: ConceptScores) -> ConceptScores:
    """The training rows of a table that are labeled with a class of the model; if there are none, the given rows."""
    known, train = class_index(model.classes_), training_rows(model, table)
    if train.labels is None:
        return rows
    mask = np.array([label in known for label in train.labels.tolist()], dtype=bool)
    return train.take(mask) if mask.any() else rows


def _rows(model: ChoqolateClassifier, table: ConceptScores) -> tuple[ConceptScores, str]:
    """Validation rows, so that test rows stay unseen when concepts are chosen, if there are enough of them."""
    labelled = table.labelled()
    if labelled.rows.has_part("val"):
        validation = labelled.part("val")
        counts = Counter(validation.labels.tolist())
        known = class_index(model.classes_)
        if set(counts) <= set(known) and min(counts[name] for name in known) >= 2 * TOO_FEW:
            return validation, "val rows of the table"
    return held_out(model, table)


def _correlation(scores: np.ndarray, members: np.ndarray) -> float:
    """Correlation of scores ``(n,)`` with a mask; 0 if one of them is constant."""
    if scores.std() == 0 or members.all() or not members.any():
        return 0.0
    return float(np.corrcoef(scores, members)[0, 1])
