"""The concepts that lead a node, and the names that nodes get from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

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


def name_nodes(attributions: np.ndarray, concepts: Sequence[str]) -> tuple[str, ...]:
    """A name for each node ``(N,)``: its leading concept, and up to two more with at least half of its share.

    Nodes that would have the same name get one more concept each, and a number if they read the same ones.

    Args:
        attributions: Shapley values or weights ``(N, M)``; their size counts.
        concepts: names of the M concepts.

    >>> W = np.array([[0.6, 0.4, 0.0], [0.1, 0.0, 0.9], [0.0, 0.2, 0.8], [0.0, 0.0, 0.0]])
    >>> name_nodes(W, ["sea", "lake", "webbed feet"])
    ('sea, lake', 'webbed feet, sea', 'webbed feet, lake', 'nothing')
    """
    sizes = np.abs(attributions)
    order = np.argsort(-sizes, axis=1, kind="stable")
    counts = [_leading(size, ranks) for size, ranks in zip(sizes, order, strict=True)]

    def names() -> list[str]:
        return [", ".join(concepts[j] for j in ranks[:n]) or "nothing" for ranks, n in zip(order, counts, strict=True)]

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
