"""Batches from lanes: every row once per epoch, and the same steps whoever reads which lane."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from choqolate.network import lanes
from choqolate.network.lanes import LaneBatches, cut, rows_per_step


class NumberedRows:
    """Rows that are their own numbers, read a few at a time."""

    row_bytes = 8

    def __init__(self, row_groups, block_rows):
        self.row_groups, self.block_rows = row_groups, block_rows

    def read(self, piece):
        starts = np.concatenate([[0], np.cumsum(self.row_groups)])
        assert starts[piece.group] <= piece.start < piece.stop <= starts[piece.group + 1]
        for start in range(piece.start, piece.stop, self.block_rows):
            numbers = np.arange(start, min(start + self.block_rows, piece.stop))
            yield numbers[:, None], numbers

    def as_tensors(self, scores, numbers):
        assert np.array_equal(scores[:, 0], numbers)
        return torch.from_numpy(scores), torch.from_numpy(numbers), torch.ones(len(numbers))


GROUPS = st.lists(st.integers(0, 40), min_size=1, max_size=20).filter(any)


@settings(max_examples=50, deadline=None)
@given(
    row_groups=GROUPS,
    block_rows=st.integers(1, 50),
    batch_size=st.integers(1, 60),
    workers=st.sampled_from([2, 4, 8]),
    pool_rows=st.integers(1, 100),
)
def test_every_row_is_seen_once_per_epoch_in_steps_that_do_not_depend_on_the_workers(
    row_groups, block_rows, batch_size, workers, pool_rows
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes, "POOL_BYTES", 8 * pool_rows)
        check_steps(row_groups, block_rows, batch_size, workers)


def check_steps(row_groups, block_rows, batch_size, workers):
    source = NumberedRows(row_groups, block_rows)
    alone = LaneBatches(source, batch_size)
    each = 8 // workers
    parts = [LaneBatches(source, batch_size, range(rank * each, (rank + 1) * each)) for rank in range(workers)]
    for whole, *shared in zip(alone.epochs(2), *(part.epochs(2) for part in parts), strict=True):
        seen = Counter()
        n_steps = 0
        for step, *others in zip(whole, *shared, strict=True):
            together = [row for batch in others for row in batch.targets.tolist()]
            assert sorted(together) == sorted(step.targets.tolist())
            assert step.share == 1
            for batch in others:
                assert batch.share == pytest.approx(len(batch.targets) / len(together))
            seen.update(together)
            n_steps += 1
        assert seen == Counter(range(sum(row_groups)))
        assert n_steps <= alone.n_steps == -(-sum(row_groups) // batch_size)


def test_epochs_differ_and_are_the_same_in_every_training():
    def orders(seed=0):
        source = LaneBatches(NumberedRows([30] * 12, 100), batch_size=32, seed=seed)
        return [torch.cat([batch.targets for batch in epoch]).tolist() for epoch in source.epochs(2)]

    first, second = orders()
    assert first != second
    assert orders() == [first, second]
    assert all(sorted(order) == sorted(first) and order not in (first, second) for order in orders(seed=7))


@pytest.mark.parametrize(("pooled_groups", "mixed"), [(1, 8), (5, 30)])
def test_a_step_mixes_rows_of_as_many_row_groups_as_the_pools_hold(monkeypatch, pooled_groups, mixed):
    """Of 80 row groups, each of them a class; 400 rows drawn from 40 groups alike would have rows of almost all."""
    monkeypatch.setattr(lanes, "POOL_BYTES", 8 * 100 * pooled_groups)
    steps = list(next(LaneBatches(NumberedRows([100] * 80, 100), batch_size=400).epochs(1)))
    for batch in steps[: len(steps) // 2]:  # in the end the pools run empty
        assert len({row // 100 for row in batch.targets.tolist()}) >= mixed


@given(sizes=st.lists(st.integers(0, 500), min_size=1, max_size=12).filter(any), batch_size=st.integers(1, 600))
def test_lanes_give_their_rows_evenly_and_end_together(sizes, batch_size):
    n_steps = -(-sum(sizes) // batch_size)
    counts = rows_per_step(sizes, n_steps)
    assert counts.shape == (len(sizes), n_steps)
    assert counts.sum(axis=1).tolist() == sizes
    for size, given_rows in zip(sizes, counts, strict=True):
        assert set(given_rows.tolist()) <= {size // n_steps, -(-size // n_steps)}


@given(row_groups=GROUPS, n_lanes=st.integers(1, 12))
def test_pieces_cover_all_rows_and_are_enough_for_all_lanes(row_groups, n_lanes):
    pieces = cut(row_groups, n_lanes)
    assert [row for piece in pieces for row in range(piece.start, piece.stop)] == list(range(sum(row_groups)))
    if min(rows for rows in row_groups if rows) >= n_lanes:
        assert len(pieces) >= n_lanes
