"""Where the training loop takes its batches from: rows in memory, or any other source of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from choqolate.integral.expected_minimum import SortedInputs, sort_inputs

# One stream of batches for every run of every model: runs that see the same batches can share their features.
BATCH_ORDER_SEED = 0
SHUFFLES = ("common", "seed")
_PRESORT_BYTES = 1 << 30


def epochs_for(steps: int, n_rows: int, batch_size: int) -> int:
    """The fewest epochs in which training makes at least so many steps.

    >>> epochs_for(1_000, n_rows=1_128, batch_size=512)  # three steps per epoch
    334
    """
    return math.ceil(steps / math.ceil(n_rows / batch_size))


class TrainingBatch(NamedTuple):
    """The rows of one step, or the part of them that this process has.

    Attributes:
        inputs: ``(B, M)`` in [0, 1], on the device and in the precision of the network.
        targets: class indices ``(B,)``.
        weights: sample weights ``(B,)``; ``(R, B)`` gives each run weights of its own.
        presorted: the inputs in sorted order, if they are known; only factored layers use it.
        share: the part of all rows of the step that these are; below 1 where other processes have the rest.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    presorted: SortedInputs | None = None
    share: float = 1.0


def order_seed(shuffle: str, seed: int) -> int:
    """Seed of the order of batches: one for all runs (``"common"``), or one for each ``"seed"`` of a run.

    It is not the run's seed itself, which draws the initial parameters: the two are independent.

    >>> [order_seed("common", seed) for seed in (1, 2)], order_seed("seed", 1) == order_seed("seed", 2)
    ([0, 0], False)
    """
    if shuffle == "common":
        return BATCH_ORDER_SEED
    return int(np.random.SeedSequence([BATCH_ORDER_SEED, seed]).generate_state(1)[0])


class Batches(Protocol):
    """A source of batches.

    Attributes:
        n_rows: rows per epoch, over all processes.
        n_steps: steps per epoch.
    """

    @property
    def n_rows(self) -> int: ...

    @property
    def n_steps(self) -> int: ...

    def epochs(self, count: int) -> Iterator[Iterable[TrainingBatch]]:
        """Yield the batches of each of so many epochs."""
        ...


class RowsInMemory:
    """Batches of rows that are all in memory, in a new order in each epoch.

    Args:
        inputs: ``(n, M)`` in [0, 1].
        targets: class indices ``(n,)``.
        weights: sample weights ``(n,)`` with mean one; ``(R, n)`` gives each run weights of its own.
        batch_size: rows per step; the last step of an epoch has the rest.
        presort: sort the inputs once for all epochs, where memory allows.
        seed: of the orders, see :func:`order_seed`.

    >>> source = RowsInMemory(torch.rand(5, 3), torch.tensor([0, 1, 0, 1, 0]), torch.ones(5), batch_size=2)
    >>> [[len(batch.targets) for batch in epoch] for epoch in source.epochs(2)]
    [[2, 2, 1], [2, 2, 1]]
    """

    def __init__(
        self,
        inputs: Tensor,
        targets: Tensor,
        weights: Tensor,
        batch_size: int,
        *,
        presort: bool = False,
        seed: int = BATCH_ORDER_SEED,
    ) -> None:
        self.seed = seed
        self.inputs, self.targets, self.weights, self.batch_size = inputs, targets, weights, batch_size
        fits = 3 * inputs.numel() * inputs.element_size() <= _PRESORT_BYTES
        self.presorted = sort_inputs(inputs) if presort and fits else None

    @property
    def n_rows(self) -> int:
        return len(self.inputs)

    @property
    def n_steps(self) -> int:
        return math.ceil(self.n_rows / self.batch_size)

    def epochs(self, count: int) -> Iterator[Iterable[TrainingBatch]]:
        """Yield the batches of each of so many epochs; the orders are the same in every training with this seed."""
        order = torch.Generator().manual_seed(self.seed)
        for _ in range(count):
            several = self.n_rows > self.batch_size
            rows = torch.randperm(self.n_rows, generator=order) if several else torch.arange(self.n_rows)
            yield map(self._batch, rows.to(self.inputs.device).split(self.batch_size))

    def _batch(self, rows: Tensor) -> TrainingBatch:
        presorted = None if self.presorted is None else self.presorted[rows]
        return TrainingBatch(self.inputs.index_select(0, rows), self.targets[rows], self.weights[..., rows], presorted)
