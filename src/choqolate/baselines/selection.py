"""Which concepts a partially shared bottleneck keeps, and which classes own them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from choqolate.errors import ChoqolateError

_TOP = 4  # scores whose mean says how well a concept is seen


@dataclass(frozen=True)
class Selection:
    """What became of every concept.

    Attributes:
        owners: the kept concepts in their order, each with the classes that own it.
        merged: representatives, each with the concepts merged into it.
        dropped: concepts that are not seen well enough on the images of their classes.
        surplus: concepts of a single class that has enough better ones.
        columns: indices of the kept concepts ``(K,)``.
        owned: which class owns which kept concept ``(K, C)``.
    """

    owners: dict[str, tuple[Any, ...]]
    merged: dict[str, tuple[str, ...]]
    dropped: tuple[str, ...]
    surplus: tuple[str, ...]
    columns: np.ndarray = field(repr=False)
    owned: np.ndarray = field(repr=False)

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of the kept concepts ``(K,)``."""
        return tuple(self.owners)


def select_concepts(
    X: np.ndarray,
    targets: np.ndarray,
    concepts: Sequence[str],
    classes: Sequence[Any],
    *,
    min_score: float | None,
    merge: float,
    per_class: int,
) -> Selection:
    """Drop concepts that are not seen, merge those that say the same, keep all shared ones and the best unique ones.

    The best are those with the largest mean score on the rows of their class.

    Args:
        X: raw scores of the training rows ``(n, M)``.
        targets: class indices ``(n,)``.
        concepts, classes: names of the M concepts and the C classes.
        min_score: what the mean of the four best scores of a concept on rows of its classes has to reach; with
            ``None`` no concept is dropped.
        merge: cosine of two concepts' scores over the rows from which on they say the same.
        per_class: how many concepts a class keeps for itself alone.

    Raises:
        ChoqolateError: if no concept is left.

    >>> X = np.array([[0.3, 0.3, 0.1, 0.2], [0.3, 0.3, 0.1, 0.1], [0.1, 0.1, 0.1, 0.3], [0.1, 0.1, 0.1, 0.2]])
    >>> select_concepts(X, np.array([0, 0, 1, 1]), ["fin", "gill", "moon", "fur"], ["fish", "cat"],
    ...                 min_score=0.2, merge=0.999, per_class=5)
    Selection(owners={'fin': ('fish',), 'fur': ('cat',)}, merged={'fin': ('gill',)}, dropped=('moon',), surplus=())
    """
    owned = find_owners(X, targets, len(classes))
    comparable = standardise_unless(X, min_score)
    worth = _mean_of_best(comparable, owned[:, targets].T)
    seen = np.full(len(concepts), True) if min_score is None else worth >= min_score
    if not seen.any():
        raise ChoqolateError(
            f"expected a concept whose best scores reach min_score={min_score:g}, the best reach {worth.max():.3g}: "
            "these may be no cosines, use min_score=None"
        )
    groups = merge_concepts(X, np.flatnonzero(seen), merge)
    united: dict[int, np.ndarray] = {j: np.asarray(owned[[j, *members]].any(0)) for j, members in groups.items()}
    columns = _keep(united, class_means(comparable, targets, len(classes)), per_class)
    return Selection(
        owners={concepts[j]: _pick(classes, united[j]) for j in columns},
        merged={concepts[j]: tuple(concepts[k] for k in groups[j]) for j in columns if groups[j]},
        dropped=_pick(concepts, ~seen),
        surplus=tuple(concepts[j] for j in sorted(set(groups) - set(columns))),
        columns=np.array(columns),
        owned=np.stack([united[j] for j in columns]),
    )


def find_owners(X: np.ndarray, targets: np.ndarray, n_classes: int) -> np.ndarray:
    """Which class owns which concept ``(M, C)``.

    Those whose mean score lies above the mean of all by a standard deviation; in any case the one with the best mean.

    >>> find_owners(np.array([[3.0, 1.0], [0.0, 0.0], [0.0, 0.1]]), np.array([0, 1, 2]), 3)
    array([[ True, False, False],
           [ True, False, False]])
    """
    means = class_means(X, targets, n_classes)
    owned: np.ndarray = means > (X.mean(axis=0) + X.std(axis=0))[:, None]
    owned[np.arange(len(means)), means.argmax(axis=1)] = True
    return owned


def class_means(X: np.ndarray, targets: np.ndarray, n_classes: int) -> np.ndarray:
    """Mean score of each concept on the rows of each class ``(M, C)``."""
    return np.stack([X[targets == r].mean(axis=0) for r in range(n_classes)], axis=1)


def merge_concepts(X: np.ndarray, candidates: np.ndarray, merge: float) -> dict[int, list[int]]:
    """Representatives among the candidate columns, each with those that say the same, the largest group first.

    >>> merge_concepts(np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]]), np.arange(3), 0.99)
    {0: [2], 1: []}
    """
    scores = X[:, candidates]
    lengths = np.linalg.norm(scores, axis=0)
    unit = scores / np.where(lengths > 0, lengths, 1.0)
    alike = unit.T @ unit >= merge
    np.fill_diagonal(alike, True)
    groups: dict[int, list[int]] = {}
    while alike.any():
        first = int(alike.sum(axis=1).argmax())
        members = np.flatnonzero(alike[first])
        groups[int(candidates[first])] = [int(candidates[j]) for j in members if j != first]
        alike[members], alike[:, members] = False, False
    return groups


def concept_labels(X: np.ndarray, targets: np.ndarray, selection: Selection, min_score: float | None) -> np.ndarray:
    """One where the class of a row owns the concept and its score passes, else zero ``(n, K)``.

    A score passes from ``min_score`` on; without one, above the mean of its concept.
    """
    scores = standardise_unless(X, min_score)[:, selection.columns]
    passes = scores > 0 if min_score is None else scores >= min_score
    labels: np.ndarray = (passes & selection.owned.T[targets]).astype(np.float64)
    return labels


def standardise_unless(X: np.ndarray, min_score: float | None) -> np.ndarray:
    """Scores that can be compared between concepts: as they are if one bound holds for all, else standardised."""
    if min_score is not None:
        return X
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _pick(names: Sequence[Any], mask: np.ndarray) -> tuple[Any, ...]:
    return tuple(name for name, wanted in zip(names, mask, strict=True) if wanted)


def _mean_of_best(scores: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Mean of the four best of the counted scores of each concept ``(M,)``; of all if they are fewer."""
    best = -np.sort(-np.where(counted, scores, -np.inf), axis=0)[:_TOP]
    there = np.isfinite(best)
    return np.where(there, best, 0.0).sum(axis=0) / there.sum(axis=0)


def _keep(united: dict[int, np.ndarray], means: np.ndarray, per_class: int) -> list[int]:
    """All concepts of several classes, and of each class those that it alone owns with the largest class means."""
    kept = [j for j, owners in united.items() if owners.sum() > 1]
    for r in range(len(next(iter(united.values())))):
        alone = [j for j, owners in united.items() if owners.sum() == 1 and owners[r]]
        kept += sorted(alone, key=lambda j: (-means[j, r], j))[:per_class]
    return sorted(kept)
