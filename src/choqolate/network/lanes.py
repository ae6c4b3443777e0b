"""Batches of rows that are read piece by piece, dealt to lanes so that several processes can share the reading.

In each epoch the pieces are dealt to L lanes at random. A lane holds a pool of rows, draws from it at random, and fills
it up with the next rows of its pieces. A step takes rows from every lane, such that all lanes end together. So the
shuffle buffer is a pool of fixed size per lane, however many rows there are, and a step mixes rows of as many pieces as
the pools hold. Each process has some of the lanes; which ones changes nothing about the rows of any step.
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
POOL_BYTES = 1 << 25
"""Size of the scores in the pool of one lane."""


class RowRange(NamedTuple):
    """Rows that a lane reads in one go: those from ``start`` to ``stop``, in one row group of the source."""

    group: int
    start: int
    stop: int


class RowSource(Protocol):
    """Rows that are not in memory.

    Attributes:
        row_groups: number of rows in each row group.
        row_bytes: size of the scores of one row.
    """

    @property
    def row_groups(self) -> Sequence[int]: ...

    @property
    def row_bytes(self) -> int: ...

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
        seed: of all draws, see :func:`~choqolate.network.batches.order_seed`.
    """

    def __init__(
        self,
        source: RowSource,
        batch_size: int,
        lanes: range | None = None,
        n_lanes: int = N_LANES,
        seed: int = BATCH_ORDER_SEED,
    ) -> None:
        self.seed = seed
        self.source, self.lanes, self.n_lanes = source, range(n_lanes) if lanes is None else lanes, n_lanes
        self.n_rows = sum(source.row_groups)
        self.n_steps = math.ceil(self.n_rows / batch_size)
        self.pieces = cut(source.row_groups, n_lanes)

    def epochs(self, count: int) -> Iterator[Iterable[TrainingBatch]]:
        """Yield the batches of each of so many epochs; they are the same in every training with this seed."""
        return map(self._epoch, range(count))

    def _epoch(self, number: int) -> Iterator[TrainingBatch]:
        order = np.random.default_rng([self.seed, number]).permutation(len(self.pieces))
        dealt = [[self.pieces[place] for place in order[lane :: self.n_lanes]] for lane in range(self.n_lanes)]
        sizes = [sum(piece.stop - piece.start for piece in pieces) for pieces in dealt]
        counts = rows_per_step(sizes, self.n_steps)
        own = {
            lane: _Lane(
                (block for piece in dealt[lane] for block in self.source.read(piece)),
                min(sizes[lane], pool_rows(self.source.row_bytes)),
                np.random.default_rng([self.seed, number, lane]),
            )
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
    """Rows that come block by block, mixed in a pool.

    Args:
        blocks: raw scores ``(n, M)`` and class numbers ``(n,)``.
        size: number of rows in the pool; a larger block is a pool of its own.
        rng: draws from the pool.
    """

    def __init__(self, blocks: Iterator[tuple[np.ndarray, np.ndarray]], size: int, rng: np.random.Generator) -> None:
        self._blocks, self._size, self._rng = blocks, size, rng
        self._pool: list[np.ndarray] = []  # scores and class numbers; only the first rows are held
        self._n_held = 0
        self._next = next(blocks, None)  # it waits for room in the pool

    def take(self, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield so many rows, in one part or more."""
        while count > 0:
            self._fill()
            drawn = self._rng.choice(self._n_held, min(count, self._n_held), replace=False)
            scores, numbers = (column[drawn] for column in self._pool)
            yield scores, numbers
            count -= len(drawn)
            self._n_held -= len(drawn)
            holes = drawn[drawn < self._n_held]
            left = np.setdiff1d(np.arange(self._n_held, self._n_held + len(drawn)), drawn, assume_unique=True)
            for column in self._pool:
                column[holes] = column[left]

    def _fill(self) -> None:
        """Take in as many blocks as there is room for, and at least one where no rows are left."""
        while self._next is not None:
            stop = self._n_held + len(self._next[0])
            if not self._pool or stop > len(self._pool[0]):
                if self._n_held:
                    return
                self._pool.clear()  # before there is a larger one
                self._pool += [np.empty((max(self._size, stop), *part.shape[1:]), part.dtype) for part in self._next]
            for column, part in zip(self._pool, self._next, strict=True):
                column[self._n_held : stop] = part
            self._n_held, self._next = stop, None  # before the next one is read
            self._next = next(self._blocks, None)


def pool_rows(row_bytes: int) -> int:
    """How many rows the pool of one lane holds.

    >>> pool_rows(4_000)
    8388
    """
    return max(1, POOL_BYTES // max(1, row_bytes))


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
