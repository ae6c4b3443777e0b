"""Batches of rows in memory: every row once per epoch, in an order that is the same in every training."""

from __future__ import annotations

import torch

from choqolate.integral.expected_minimum import sort_inputs
from choqolate.network.batches import RowsInMemory, order_seed


def test_the_order_of_rows_in_memory_is_one_stream_of_permutations():
    inputs, targets = torch.rand(7, 3), torch.arange(7)
    source = RowsInMemory(inputs, targets, torch.arange(14.0).view(2, 7), batch_size=3)
    order = torch.Generator().manual_seed(0)
    for epoch in source.epochs(3):
        rows = torch.randperm(7, generator=order)
        batches = list(epoch)
        assert [len(batch.targets) for batch in batches] == [3, 3, 1]
        assert torch.equal(torch.cat([batch.targets for batch in batches]), rows)
        assert torch.equal(torch.cat([batch.inputs for batch in batches]), inputs[rows])
        assert torch.equal(torch.cat([batch.weights for batch in batches], dim=1)[1], 7.0 + rows)
        assert all(batch.share == 1 and batch.presorted is None for batch in batches)


def test_each_seed_has_an_order_of_its_own_on_request():
    def orders(shuffle, seed):
        options = dict(batch_size=8, seed=order_seed(shuffle, seed))
        source = RowsInMemory(torch.rand(30, 2), torch.arange(30), torch.ones(30), **options)
        return [tuple(number for batch in epoch for number in batch.targets.tolist()) for epoch in source.epochs(2)]

    own = [orders("seed", seed) for seed in range(5)]
    assert len({order for epochs in own for order in epochs}) == 10
    assert all(sorted(order) == list(range(30)) for epochs in own for order in epochs)
    assert orders("seed", 3) == own[3]
    assert orders("common", 3) == orders("common", 4) != own[0]


def test_rows_that_fit_one_batch_keep_their_order():
    source = RowsInMemory(torch.rand(4, 2), torch.arange(4), torch.ones(4), batch_size=4)
    assert [[batch.targets.tolist() for batch in epoch] for epoch in source.epochs(2)] == [[[0, 1, 2, 3]]] * 2


def test_inputs_are_sorted_once_for_all_epochs_on_request():
    inputs = torch.rand(6, 4)
    source = RowsInMemory(inputs, torch.arange(6), torch.ones(6), batch_size=4, presort=True)
    for batch in next(source.epochs(1)):
        expected = sort_inputs(batch.inputs)
        assert torch.equal(batch.presorted.order, expected.order)
        assert torch.equal(batch.presorted.gaps, expected.gaps)
