"""A fixed sample of the rows of a table: the same rows on every machine, whatever holds them."""

from __future__ import annotations

import numpy as np

from choqolate._util.checks import check_number

SAMPLE_ROWS = 20_000
SAMPLE_BYTES = 1 << 28
"""How many rows, and bytes of scores, a sample has at most unless it is asked for others."""


def sample_mask(numbers: np.ndarray, n_rows: int, row_bytes: int, n_bytes: int) -> np.ndarray:
    """Choose rows by a hash of their numbers.

    Args:
        numbers: of the rows to choose from ``(n,)``.
        n_rows: how many to choose at most.
        row_bytes: size of the scores of one row.
        n_bytes: size of the scores of all chosen rows at most; one row is chosen in any case.

    Returns:
        The mask ``(n,)`` of the chosen rows.

    >>> np.flatnonzero(sample_mask(np.arange(10), n_rows=3, row_bytes=8, n_bytes=80)).tolist()
    [2, 4, 6]
    """
    check_number("n_rows", n_rows, minimum=1, whole=True)
    size = min(n_rows, max(1, n_bytes // row_bytes))
    if len(numbers) <= size:
        return np.ones(len(numbers), dtype=bool)
    mask = np.zeros(len(numbers), dtype=bool)
    mask[np.argpartition(_mixed(numbers), size)[:size]] = True
    return mask


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """A hash of whole numbers ``(n,)``: the finalizer of SplitMix64."""
    z = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = z ^ (z >> np.uint64(31))
    return mixed
