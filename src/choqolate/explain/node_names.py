"""The concepts that lead a node, and the names that nodes get from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from choqolate import metrics
from choqolate.network.architecture import absence_name

_MOST = 3  # concepts in a name
_LEAST = 0.5  # of the leading concept's share, to be named beside it


def leading(names: Sequence[str], values: np.ndarray, most: int) -> list[tuple[str, float]]:
    """Pick the names with the largest values, by size, each with its value; zeros are left out.

    Args:
        names: of concepts, or of classes.
        values: their attributions ``(M,)``.
        most: how many at most.

    >>> leading(["sea", "lake", "crest"], np.array([0.2, 0.0, -0.8]), most=3)
    [('crest', -0.8), ('sea', 0.2)]
    """
    order = np.argsort(-np.abs(values), kind="stable")[:most]
    return [(names[j], float(values[j])) for j in order if values[j] != 0]


def absence_shares(attributions: np.ndarray, n_concepts: int) -> np.ndarray | None:
    """Compute which share of each concept's attribution is that of its absence.

    Args:
        attributions: of the inputs, ``(N, M)`` or, for presence followed by absence, ``(N, 2M)``.
        n_concepts: M.

    Returns:
        Shares ``(N, M)`` in [0, 1], zero where a concept has no attribution; ``None`` if absences are no inputs.

    >>> absence_shares(np.array([[0.3, 0.2, 0.1, 0.4]]), n_concepts=2).round(3)
    array([[0.25 , 0.667]])
    """
    if attributions.shape[1] == n_concepts:
        return None
    totals = metrics.per_concept(attributions, n_concepts)
    absences: np.ndarray = np.abs(attributions[:, n_concepts:])
    return np.divide(absences, totals, out=np.zeros_like(totals), where=totals > 0)


def as_used(concepts: Sequence[str], absence: np.ndarray | None) -> tuple[str, ...]:
    """Names of the M concepts as one node uses them: "not sea" where absence has the greater part.

    Args:
        concepts: their names.
        absence: the share of absence of each ``(M,)``; ``None`` if absences are no inputs.

    >>> as_used(["sea", "lake"], np.array([0.25, 0.667]))
    ('sea', 'not lake')
    """
    if absence is None:
        return tuple(concepts)
    return tuple(absence_name(name) if part > 0.5 else name for name, part in zip(concepts, absence, strict=True))


def name_nodes(attributions: np.ndarray, concepts: Sequence[str], absence: np.ndarray | None = None) -> tuple[str, ...]:
    """A name for each node ``(N,)``: its leading concept, and up to two more with at least half of its share.

    Nodes that would have the same name get one more concept each, and a number if they read the same ones.

    Args:
        attributions: Shapley values or weights per concept ``(N, M)``; their size counts.
        concepts: names of the M concepts.
        absence: the share of absence in each attribution ``(N, M)``, see :func:`absence_shares`.

    >>> W = np.array([[0.6, 0.4, 0.0], [0.1, 0.0, 0.9], [0.0, 0.2, 0.8], [0.0, 0.0, 0.0]])
    >>> name_nodes(W, ["sea", "lake", "webbed feet"])
    ('sea, lake', 'webbed feet, sea', 'webbed feet, lake', 'nothing')
    >>> name_nodes(W[:1], ["sea", "lake", "webbed feet"], absence=np.array([[0.9, 0.0, 0.0]]))
    ('not sea, lake',)
    """
    sizes = np.abs(attributions)
    order = np.argsort(-sizes, axis=1, kind="stable")
    counts = [_leading(size, ranks) for size, ranks in zip(sizes, order, strict=True)]
    used = [as_used(concepts, None if absence is None else absence[node]) for node in range(len(sizes))]

    def names() -> list[str]:
        chosen = zip(used, order, counts, strict=True)
        return [", ".join(words[j] for j in ranks[:n]) or "nothing" for words, ranks, n in chosen]

    first = names()
    shared = {name for name, count in Counter(first).items() if count > 1}
    for node, name in enumerate(first):
        here = counts[node]
        if name in shared and 0 < here < sizes.shape[1] and sizes[node, order[node, here]] > 0:
            counts[node] += 1
    return tuple(_numbered(names()))


def _leading(sizes: np.ndarray, ranks: np.ndarray) -> int:
    """How many of the ranked concepts belong into the name."""
    top = sizes[ranks[:_MOST]]
    return 0 if not top[0] else int((top >= _LEAST * top[0]).sum())


def _numbered(names: Sequence[str]) -> list[str]:
    """Names of which each occurs once: the second of the same name ends with (2)."""
    taken, numbered = set(names), []
    for name in names:
        number, free = 2, name
        while free in numbered or (free != name and free in taken):
            number, free = number + 1, f"{name} ({number})"
        numbered.append(free)
    return numbered
