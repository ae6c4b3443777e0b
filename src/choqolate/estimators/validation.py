"""Which rows settings and methods are compared on: folds that are held out in turn, and accuracy on them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from choqolate import metrics

if TYPE_CHECKING:
    from choqolate.estimators.side_by_side import TrainingSet

N_FOLDS = 3
_ENOUGH_ROWS = 1_400  # validation rows; more folds are not trained for more of them


@dataclass(frozen=True, eq=False)
class Validation:
    """Rows that are held out in turn; everything that is compared is measured on these.

    Attributes:
        folds: number of each row's fold ``(n,)``.
        held_out: the folds that are held out, each while a model is trained on all other rows.
        groups: group of each row ``(n,)``; ``None`` if not known.
    """

    folds: np.ndarray
    held_out: tuple[int, ...]
    groups: np.ndarray | None

    @property
    def seen(self) -> np.ndarray:
        """Which rows are held out at some time ``(n,)``."""
        return np.isin(self.folds, self.held_out)

    @property
    def seen_groups(self) -> np.ndarray | None:
        """Groups of these rows; ``None`` if not known."""
        return None if self.groups is None else self.groups[self.seen]

    def first(self) -> Validation:
        """The first of the held-out folds only."""
        return replace(self, held_out=self.held_out[:1])

    def splits(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows to train on and rows that are held out, by index, fold by fold."""
        for fold in self.held_out:
            yield np.flatnonzero(self.folds != fold), np.flatnonzero(self.folds == fold)

    def accuracy(self, correct: np.ndarray) -> float:
        """Share of the held-out rows that are correct ``(n,)``; where groups are known, its mean over them."""
        return float(np.mean([part.mean() for part in self._parts(correct)]))

    def standard_error(self, correct: np.ndarray) -> float:
        """Standard error of :meth:`accuracy`."""
        parts = self._parts(correct)
        return math.sqrt(sum(part.mean() * (1 - part.mean()) / len(part) for part in parts)) / len(parts)

    def interval(self, correct: np.ndarray) -> tuple[float, float]:
        """95% interval of :meth:`accuracy`, from those of the groups (Wilson)."""
        return metrics.mean_interval(metrics.Proportion(int(part.sum()), len(part)) for part in self._parts(correct))

    def _parts(self, correct: np.ndarray) -> list[np.ndarray]:
        hits, groups = correct[self.seen], self.seen_groups
        return [hits] if groups is None else [hits[groups == group] for group in sorted(set(groups), key=str)]


def hold_out(data: TrainingSet) -> Validation:
    """Divide rows into folds, always in the same way: rows of a class, and of a group, are spread evenly.

    Args:
        data: the rows. With few of them every fold is held out in turn, with many only some.
    """
    strata = (
        data.targets
        if data.groups is None
        else np.unique(
            [f"{target}/{group}" for target, group in zip(data.targets, data.groups, strict=True)], return_inverse=True
        )[1]
    )
    folds = stratified_folds(strata, N_FOLDS)
    needed = min(N_FOLDS, len(folds), math.ceil(_ENOUGH_ROWS / (len(folds) / N_FOLDS)))
    return Validation(folds, tuple(range(needed)), data.groups)


def stratified_folds(strata: np.ndarray, n_folds: int) -> np.ndarray:
    """Give each row a fold ``(n,)``, always the same one; the rows of each stratum are spread evenly.

    >>> stratified_folds(np.array([0, 0, 0, 0, 1, 1]), 2)
    array([0, 1, 1, 0, 1, 0])
    """
    order = np.random.default_rng(0).permutation(len(strata))
    order = order[np.argsort(strata[order], kind="stable")]
    folds = np.empty(len(strata), dtype=int)
    folds[order] = np.arange(len(strata)) % n_folds
    return folds
