"""Training rows that stay in their file: what is measured of all of them, and the batches that they give."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import Tensor

from choqolate._util.checks import check_classes, check_ranges, warn_constant
from choqolate._util.progress import item_bar
from choqolate.data.score_file import ScoreFile
from choqolate.errors import ChoqolateWarning
from choqolate.estimators.side_by_side import Statistics
from choqolate.network.fitted import FittedNetwork
from choqolate.network.lanes import RowRange, pool_rows
from choqolate.network.scaling import MinMax

_READ_BYTES = 1 << 22  # of scores at a time, for each lane
_MIXED = 0.5  # share of the rows whose class should be in the pools at any time


def class_shares(rows: ScoreFile) -> tuple[np.ndarray, np.ndarray]:
    """The classes of labeled rows, in the order that labels in memory would give them, and their shares ``(C,)``.

    Raises:
        ChoqolateError: if there are fewer than two.
    """
    counts = np.bincount(rows.codes.labels, minlength=len(rows.classes))
    present = np.flatnonzero(counts)
    names = np.array(rows.classes)[present]
    order = np.argsort(names)
    check_classes(names[order])
    return names[order], counts[present][order] / counts.sum()


def measure(rows: ScoreFile, *, verbose: bool = False) -> Statistics:
    """Measure training rows in one pass: classes and their shares, range and mean of each concept."""
    classes, shares = class_shares(rows)
    low, high = np.full(len(rows.concepts), np.inf), np.full(len(rows.concepts), -np.inf)
    total = np.zeros(len(rows.concepts))
    with item_bar(len(rows), "measuring training rows", enabled=verbose) as advance:
        for _, scores in rows.arrays():
            np.minimum(low, scores.min(axis=0), out=low)
            np.maximum(high, scores.max(axis=0), out=high)
            total += scores.sum(axis=0, dtype=np.float64)
            advance(len(scores))
    concepts = list(rows.concepts)
    scaling = MinMax(low, high)
    check_ranges(scaling.low, scaling.high, concepts)
    warn_constant([concepts[j] for j in np.flatnonzero(scaling.constant)])
    means = scaling((total / len(rows))[None])[0]  # scaling is linear within the range
    return Statistics(classes, scaling, means, shares)


def warn_sorted(rows: ScoreFile, n_lanes: int) -> None:
    """Warn if rows of a class follow each other in a file so large that its lanes cannot mix the classes.

    At a time the pools of the lanes hold rows of some row groups, drawn at random. There should be rows of most classes
    among them, weighted by their size.
    """
    bounds = [ends for ends in pairwise([0, *accumulate(rows.row_groups)]) if ends[0] < ends[1]]
    share = max(n_lanes / len(bounds), n_lanes * pool_rows(rows.row_bytes) / len(rows))
    if share >= 1:
        return
    n_groups = np.zeros(len(rows.classes))  # that have rows of each class
    for start, stop in bounds:
        n_groups[np.unique(rows.codes.labels[start:stop])] += 1
    present = 1 - (1 - share) ** n_groups
    if present @ np.bincount(rows.codes.labels, minlength=len(rows.classes)) < _MIXED * len(rows):
        warnings.warn(
            f"Rows of a class follow each other in {rows.path.name}, so that steps mix only about {present.sum():.0f} "
            f"of {np.count_nonzero(n_groups)} classes, which may cost accuracy. Shuffle the rows of the manifest "
            "before you score the images.",
            ChoqolateWarning,
            stacklevel=4,
        )


@dataclass(frozen=True, eq=False)
class FileRows:
    """The training rows of a file as a source of batches, see :class:`~choqolate.network.lanes.RowSource`.

    Attributes:
        rows: the rows for training.
        untrained: a network without parameters that knows their classes and scaling.
        weights: weight of each class ``(C,)``; their mean over the rows is one.
        device, dtype: of the batches.
    """

    rows: ScoreFile
    untrained: FittedNetwork
    weights: np.ndarray
    device: torch.device
    dtype: torch.dtype

    def to(self, device: torch.device) -> FileRows:
        """The same rows in batches on another device."""
        return replace(self, device=device)

    @property
    def row_groups(self) -> tuple[int, ...]:
        return self.rows.row_groups

    @property
    def row_bytes(self) -> int:
        return self.rows.row_bytes

    @cached_property
    def _numbers(self) -> np.ndarray:
        """Number of each class of the file among those of the network; -1 for classes without training rows."""
        place = {name: number for number, name in enumerate(self.untrained.classes.tolist())}
        return np.array([place.get(name, -1) for name in self.rows.classes])

    def read(self, piece: RowRange) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        blocks, stop = self.rows.arrays([piece.group], n_bytes=_READ_BYTES), piece.start
        while stop < piece.stop:
            where, scores = next(blocks)
            start, stop = max(where.start, piece.start), min(where.stop, piece.stop)
            if stop >= piece.stop:
                blocks.close()  # it holds the whole block
            if start >= stop:
                continue
            if stop - start < len(scores):
                scores = scores[start - where.start : stop - where.start].copy()
            yield scores, self._numbers[self.rows.codes.labels[start:stop]]
            del scores  # before the next block is read

    def as_tensors(self, scores: np.ndarray, numbers: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        inputs = self.untrained.as_inputs(self.untrained.scaling(scores))
        targets, weights = torch.from_numpy(numbers), torch.from_numpy(self.weights[numbers])
        return inputs.to(self.device, self.dtype), targets.to(self.device), weights.to(self.device, self.dtype)
