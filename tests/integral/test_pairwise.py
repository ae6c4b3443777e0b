from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import choqolate as cq
from choqolate.integral import AdditiveCapacity, Capacity, PairwiseCapacity
from tests.integral.strategies import inputs_for, integrals, pairs_of

pytestmark = pytest.mark.usefixtures("kernel")


@given(st.data())
def test_weights_make_the_round_trip(data):
    weights = data.draw(integrals())
    for given_, back in zip(weights, PairwiseCapacity.from_weights(*weights).weights(), strict=True):
        assert torch.equal(given_, back)


@given(st.data())
def test_involvement_equals_its_double_loop(data):
    weights = data.draw(integrals())
    p = weights[0].shape[1]
    u, v = data.draw(inputs_for(p)), data.draw(inputs_for(p))
    a, b, c = weights
    expected = a[None] * v[:, None]
    for index, (j, l) in enumerate(pairs_of(p)):
        for member, other in ((j, l), (l, j)):
            low, high = torch.minimum(v[:, member], u[:, other]), torch.maximum(v[:, member], u[:, other])
            expected[:, :, member] += low[:, None] * b[:, index] + high[:, None] * c[:, index]
    torch.testing.assert_close(PairwiseCapacity.from_weights(*weights).involvement(u, v), expected)


def removed_by_hand(weights, gone: set[int], canonical: bool):
    """Removal on lists of numbers, node by node, as the paper's text says it."""
    a, b, c = weights
    p = a.shape[1]
    out = []
    for n in range(len(a)):
        own = [float(x) if j not in gone else 0.0 for j, x in enumerate(a[n])]
        low, high = b[n].tolist(), c[n].tolist()
        for index, (j, l) in enumerate(pairs_of(p)):
            if not gone & {j, l}:
                continue
            if canonical:
                for kept in {j, l} - gone:
                    own[kept] += min(low[index], high[index])
            low[index] = high[index] = 0.0
        total = sum(own) + sum(low) + sum(high)
        assume(total > 1e-9)
        out.append((np.array(own) / total, np.array(low) / total, np.array(high) / total, total))
    return out


@given(st.data(), st.booleans())
def test_removal_equals_removal_by_hand(data, canonical):
    weights = data.draw(integrals(min_inputs=2))
    p = weights[0].shape[1]
    gone = data.draw(st.sets(st.integers(0, p - 1), min_size=1, max_size=p - 1))
    mask = torch.zeros(2, p, dtype=torch.bool)
    mask[:, list(gone)] = True
    expected = removed_by_hand(weights, gone, canonical)
    edited, retained = PairwiseCapacity.from_weights(*weights).without(mask, canonical=canonical)
    for n, (a, b, c, total) in enumerate(expected):
        assert retained[n].item() == pytest.approx(total)
        for mine, hand in zip(edited.weights(), (a, b, c), strict=True):
            np.testing.assert_allclose(mine[n], hand, atol=1e-12)


@given(st.data())
def test_removal_keeps_the_ratios_of_the_remaining_weights(data):
    weights = data.draw(integrals(min_inputs=3))
    p = weights[0].shape[1]
    mask = torch.zeros(2, p, dtype=torch.bool)
    mask[:, 0] = True
    edited, retained = PairwiseCapacity.from_weights(*weights).without(mask)
    assume((retained > 1e-9).all())
    keep_pair = torch.tensor([0 not in pair for pair in pairs_of(p)])
    after = edited.weights()
    for before, now in zip(
        (weights[0][:, 1:], weights[1][:, keep_pair], weights[2][:, keep_pair]),
        (after[0][:, 1:], after[1][:, keep_pair], after[2][:, keep_pair]),
        strict=True,
    ):
        torch.testing.assert_close(now * retained[:, None], before, rtol=1e-10, atol=1e-14)


@given(st.data())
def test_canonical_removal_does_not_depend_on_how_the_integral_is_written(data):
    weights = data.draw(integrals(min_inputs=3))
    p = weights[0].shape[1]
    u = data.draw(inputs_for(p))
    mask = torch.zeros(2, p, dtype=torch.bool)
    mask[:, data.draw(st.integers(0, p - 1))] = True
    one, kept = PairwiseCapacity.from_weights(*weights).without(mask, canonical=True)
    other, _ = PairwiseCapacity.from_weights(*cq.canonical_form(*weights)).without(mask)
    assume((kept > 1e-9).all())
    torch.testing.assert_close(one.integrate(u), other.integrate(u), rtol=1e-9, atol=1e-10)


def test_an_emptied_node_is_nan_with_nothing_retained():
    a = torch.tensor([[1.0, 0.0], [0.5, 0.5]], dtype=torch.float64)
    mask = torch.tensor([[True, False], [True, False]])
    for capacity in (AdditiveCapacity(a), PairwiseCapacity(torch.diag_embed(a))):
        edited, retained = capacity.without(mask)
        assert retained.tolist() == [0.0, 0.5]
        assert edited.shapley()[0].isnan().all()
        assert edited.shapley()[1].tolist() == [0.0, 1.0]


def test_free_weights_are_set_to_zero_and_not_rescaled():
    w = torch.tensor([[[1.0, -2.0], [3.0, 4.0]]], dtype=torch.float64)
    edited, retained = PairwiseCapacity(w, free=True).without(torch.tensor([[True, False]]))
    assert edited.w.tolist() == [[[0.0, 0.0], [0.0, 4.0]]]
    assert retained.item() == pytest.approx(0.4)
    assert PairwiseCapacity(w, free=True).interaction_mass().item() == 5.0
    edited, retained = AdditiveCapacity(w[:, 0], free=True).without(torch.tensor([[True, False]]))
    assert edited.a.tolist() == [[0.0, -2.0]]
    assert retained.item() == pytest.approx(2 / 3)


@given(st.data())
def test_additive_capacity_is_the_pairwise_one_without_pairs(data):
    a, b, c = data.draw(integrals(min_inputs=2))
    p = a.shape[1]
    a = (a + 0.1) / (a + 0.1).sum(1, keepdim=True)
    additive, full = AdditiveCapacity(a), PairwiseCapacity.from_weights(a, 0 * b, 0 * c)
    u, v = data.draw(inputs_for(p)), data.draw(inputs_for(p))
    torch.testing.assert_close(additive.integrate(u), full.integrate(u))
    torch.testing.assert_close(additive.involvement(u, v), full.involvement(u, v))
    torch.testing.assert_close(additive.local_shapley(u, v), full.local_shapley(u, v))
    torch.testing.assert_close(additive.shapley(), full.shapley())
    torch.testing.assert_close(additive.interaction_mass(), full.interaction_mass())
    for mine, its in zip(additive.weights(), full.weights(), strict=True):
        torch.testing.assert_close(mine, its)
    mask = torch.zeros(2, p, dtype=torch.bool)
    mask[0, 0] = mask[1, 1] = True
    torch.testing.assert_close(additive.without(mask)[0].a, full.without(mask)[0].singles())


@given(st.data())
def test_local_shapley_values_of_four_minima_are_those_of_the_involvements(data):
    n_rows, n_inputs, same = data.draw(st.integers(0, 5)), data.draw(st.integers(1, 6)), data.draw(st.booleans())
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    w = torch.randn(3, n_inputs, n_inputs, dtype=torch.float64)
    w[:, :, 0] = 0.0 if data.draw(st.booleans()) else w[:, :, 0]
    capacity = PairwiseCapacity(w, free=True)
    u = torch.rand(n_rows, n_inputs, dtype=torch.float64)
    baseline = torch.rand(1 if same else n_rows, n_inputs, dtype=torch.float64)
    by_involvement = Capacity.local_shapley(capacity, u, baseline)
    torch.testing.assert_close(capacity.local_shapley(u, baseline), by_involvement)


def test_local_shapley_values_are_the_same_in_blocks(monkeypatch):
    capacity = PairwiseCapacity(torch.rand(2, 9, 9, dtype=torch.float64))
    u, baseline = torch.rand(7, 9, dtype=torch.float64), torch.rand(7, 9, dtype=torch.float64)
    whole = capacity.local_shapley(u, baseline)
    for size in (1, 20, 100):
        monkeypatch.setattr("choqolate.integral.pairwise._SHAPLEY_VALUES", size)
        torch.testing.assert_close(capacity.local_shapley(u, baseline), whole)
