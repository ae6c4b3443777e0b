"""Batches of rows that are read piece by piece, dealt to lanes so that several processes can share the reading.

In each epoch the pieces are dealt to L lanes at random. A lane reads one block of rows at a time and gives them in
random order. A step takes rows from every lane, such that all lanes end together. So the shuffle buffer is one block
per lane, however many rows there are. Each process has some of the lanes; which ones changes nothing about the rows of
any step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from choqolate.network.batches import BATCH_ORDER_SEED, TrainingBatch

N_LANES = 8


class RowRange(NamedTuple):
    """Rows that a lane reads in one go: those from ``start`` to ``stop``, in one row group of the source."""

    group: int
    start: int
    stop: int


class RowSource(Protocol):
    """Rows that are not in memory.

    Attributes:
        row_groups: number of rows in each row group.
    """

    @property
    def row_groups(self) -> Sequence[int]: ...

    def read(self, piece: RowRange) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows of a piece, some at a time: raw scores ``(n, M)`` and class numbers ``(n,)``."""
        ...

    def as_tensors(self, scores: np.ndarray, numbers: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """Turn rows into inputs, targets and weights of a batch."""
        ...


class LaneBatches:
    """Batches of a source that is read piece by piece.

    Args:
        source: the rows.
        batch_size: rows per step, on average; all steps have about as many.
        lanes: the lanes of this process; by default all.
        n_lanes: number of all lanes.
    """

    def __init__(self, source: RowSource, batch_size: int, lanes: range | None = None, n_lanes: int = N_LANES) -> None:
        self.source, self.lanes, self.n_lanes = source, range(n_lanes) if lanes is None else lanes, n_lanes
        self.n_rows = sum(source.row_groups)
        self.n_steps = math.ceil(self.n_rows / batch_size)
        self.pieces = cut(source.row_groups, n_lanes)

    def epochs(self, count: int) -> Iterator[Iterable[TrainingBatch]]:
        """Yield the batches of each of so many epochs; they are the same in every training."""
        return map(self._epoch, range(count))

    def _epoch(self, number: int) -> Iterator[TrainingBatch]:
        order = np.random.default_rng([BATCH_ORDER_SEED, number]).permutation(len(self.pieces))
        dealt = [[self.pieces[place] for place in order[lane :: self.n_lanes]] for lane in range(self.n_lanes)]
        sizes = [sum(piece.stop - piece.start for piece in pieces) for pieces in dealt]
        counts = rows_per_step(sizes, self.n_steps)
        own = {
            lane: _Lane(self.source, dealt[lane], np.random.default_rng([BATCH_ORDER_SEED, number, lane]))
            for lane in self.lanes
        }
        for step in np.flatnonzero(counts.sum(axis=0)):
            taken = [part for lane, rows in own.items() for part in rows.take(counts[lane, step])]
            yield self._batch(taken, int(counts[:, step].sum()))

    def _batch(self, taken: Sequence[tuple[np.ndarray, np.ndarray]], n_rows: int) -> TrainingBatch:
        if not taken:
            none = torch.empty(0)
            return TrainingBatch(none, none, none, share=0.0)
        scores, numbers = (np.concatenate(column) for column in zip(*taken, strict=True))
        return TrainingBatch(*self.source.as_tensors(scores, numbers), share=len(scores) / n_rows)


class _Lane:
    """The rows of some pieces, those of each block in random order."""

    def __init__(self, source: RowSource, pieces: Iterable[RowRange], rng: np.random.Generator) -> None:
        self._blocks = (block for piece in pieces for block in source.read(piece))
        self._rng = rng
        self._scores, self._numbers = np.empty((0, 0)), np.empty(0)
        self._order = np.empty(0, dtype=np.intp)  # of the rows that are left of the block

    def take(self, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield so many rows, in one part or more."""
        while count > 0:
            if not len(self._order):
                del self._scores, self._numbers  # before the next block is read
                self._scores, self._numbers = next(self._blocks)
                self._order = self._rng.permutation(len(self._scores))
            rows, self._order = self._order[:count], self._order[count:]
            yield self._scores[rows], self._numbers[rows]
            count -= len(rows)


def cut(row_groups: Sequence[int], n_lanes: int) -> list[RowRange]:
    """Cut rows into pieces: row groups, or parts of them if there are fewer groups than lanes.

    >>> [tuple(piece) for piece in cut([3, 0, 4], n_lanes=4)]
    [(0, 0, 1), (0, 1, 3), (2, 3, 5), (2, 5, 7)]
    """
    parts = math.ceil(n_lanes / max(1, sum(rows > 0 for rows in row_groups)))
    pieces, start = [], 0
    for group, rows in enumerate(row_groups):
        borders = [start + part * rows // parts for part in range(parts + 1)]
        pieces += [RowRange(group, *ends) for ends in pairwise(borders) if ends[0] < ends[1]]
        start += rows
    return pieces


def rows_per_step(sizes: Sequence[int], n_steps: int) -> np.ndarray:
    r"""How many rows each lane gives to each step ``(L, S)``, so that all lanes end with the last step.

    Lane l has given :math:`\lfloor n_l s / S + (l + 1/2) / L \rfloor` of its n_l rows after s steps: as evenly as
    whole numbers can be, and not all lanes one more at the same step.

    >>> rows_per_step([6, 3], n_steps=3)
    array([[2, 2, 2],
           [1, 1, 1]])
    """
    n_lanes = len(sizes)
    steps = np.arange(n_steps + 1)
    offsets = (2 * np.arange(n_lanes) + 1) * n_steps
    given = (2 * n_lanes * np.asarray(sizes)[:, None] * steps + offsets[:, None]) // (2 * n_lanes * n_steps)
    return np.diff(given, axis=1)
