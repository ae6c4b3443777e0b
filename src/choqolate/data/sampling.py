"""A fixed sample of the rows of a table: the same rows on every machine, whatever holds them."""

from __future__ import annotations

import numpy as np

from choqolate._util.checks import check_number

SAMPLE_ROWS = 20_000
SAMPLE_BYTES = 1 << 28
"""How many rows, and bytes of scores, a sample has at most unless it is asked for others."""

_CLASS_ROWS = 20  # that each class has in a sample, if it has as many at all


def sample_size(n_rows: int, row_bytes: int, n_bytes: int = SAMPLE_BYTES) -> int:
    """How many rows a sample has at most, given the size of the scores of one.

    >>> sample_size(20_000, row_bytes=200_000)
    1342
    """
    return min(n_rows, max(1, n_bytes // max(1, row_bytes)))


def sample_mask(numbers: np.ndarray, labels: np.ndarray, n_rows: int, row_bytes: int, n_bytes: int) -> np.ndarray:
    """Choose rows by a hash of their numbers, such that no class is left out.

    Up to 20 rows of each class are chosen first, as long as that is at most half of the sample, and at least one row
    as long as there is room for one of each. All others are chosen from all rows alike.

    Args:
        numbers: of the rows to choose from ``(n,)``.
        labels: number of each row's class ``(n,)``; -1 for none.
        n_rows: how many to choose at most.
        row_bytes: size of the scores of one row.
        n_bytes: size of the scores of all chosen rows at most; one row is chosen in any case.

    Returns:
        The mask ``(n,)`` of the chosen rows.

    >>> alike = np.zeros(10, dtype=int)
    >>> np.flatnonzero(sample_mask(np.arange(10), alike, n_rows=3, row_bytes=8, n_bytes=80)).tolist()
    [2, 4, 6]
    >>> one_of_its_kind = np.arange(10) == 9
    >>> np.flatnonzero(sample_mask(np.arange(10), one_of_its_kind, n_rows=3, row_bytes=8, n_bytes=80)).tolist()
    [2, 4, 9]
    """
    check_number("n_rows", n_rows, minimum=1, whole=True)
    size = sample_size(n_rows, row_bytes, n_bytes)
    if len(numbers) <= size:
        return np.ones(len(numbers), dtype=bool)
    keys = _mixed(numbers) >> np.uint64(1)
    chosen = np.argpartition(keys, size)[:size]
    rare = _rare_rows(labels, chosen, keys)
    if len(rare):
        keys |= np.uint64(1 << 63)
        keys[rare] ^= np.uint64(1 << 63)  # these come first
        chosen = np.argpartition(keys, size)[:size]
    mask = np.zeros(len(numbers), dtype=bool)
    mask[chosen] = True
    return mask


def _rare_rows(labels: np.ndarray, chosen: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The rows to choose first, of the classes that have too few among those chosen, by index."""
    labels = labels.astype(np.int32)
    n_codes = labels.max(initial=-1) + 1
    counts, found = (np.bincount(part[part >= 0], minlength=n_codes) for part in (labels, labels[chosen]))
    n_classes = max(1, int(np.count_nonzero(counts)))
    wanted = max(1, min(_CLASS_ROWS, len(chosen) // (2 * n_classes)))
    is_rare = np.append(found < np.minimum(wanted, counts), False)  # the last one for rows without a class
    rows = np.flatnonzero(is_rare[labels])
    rows = rows[np.lexsort((keys[rows], labels[rows]))]
    firsts = np.searchsorted(labels[rows], labels[rows])
    return rows[np.arange(len(rows)) - firsts < wanted]


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """A hash of whole numbers ``(n,)``: the finalizer of SplitMix64."""
    z = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = z ^ (z >> np.uint64(31))
    return mixed
