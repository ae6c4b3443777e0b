from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import shapiq
import torch
from hypothesis import given
from hypothesis import strategies as st

import choqolate as cq
from tests.integral.strategies import inputs_for, integrals, pairs_of

pytestmark = pytest.mark.usefixtures("kernel")
close = {"rtol": 1e-10, "atol": 1e-12}


def by_definition(u: torch.Tensor, a, b, c) -> float:
    """The Choquet integral as a sum over sorted values against the capacity of the upper level sets."""
    capacity = cq.capacity_table(a, b, c)
    order = torch.argsort(u, descending=True).tolist()
    levels = [*u[order].tolist(), 0.0]
    return sum((high - low) * capacity[tuple(sorted(order[: k + 1]))] for k, (high, low) in enumerate(pairwise(levels)))


@given(st.data())
def test_equals_the_sum_of_sorted_values_against_the_capacity(data):
    weights = data.draw(integrals())
    u = data.draw(inputs_for(weights[0].shape[1]))
    values = cq.choquet(u, *weights)
    expected = [[by_definition(row, *(w[n] for w in weights)) for n in range(2)] for row in u]
    np.testing.assert_allclose(values, expected, **close)


@given(st.data())
def test_capacity_is_monotone_and_normalised(data):
    weights = data.draw(integrals())
    p = weights[0].shape[1]
    for n in range(2):
        table = cq.capacity_table(*(w[n] for w in weights))
        assert table[()] == 0
        assert table[tuple(range(p))] == pytest.approx(1)
        for subset, value in table.items():
            for more in set(range(p)) - set(subset):
                assert table[tuple(sorted((*subset, more)))] >= value - 1e-12


@given(st.data())
def test_monotone_bounded_and_idempotent(data):
    weights = data.draw(integrals())
    p = weights[0].shape[1]
    u, step = data.draw(inputs_for(p)), data.draw(inputs_for(p))
    values = cq.choquet(u, *weights)
    assert (cq.choquet(u + step, *weights) >= values - 1e-12).all()
    assert (values >= u.min(1, keepdim=True).values - 1e-12).all()
    assert (values <= u.max(1, keepdim=True).values + 1e-12).all()
    level = torch.full((1, p), 0.37, dtype=torch.float64)
    np.testing.assert_allclose(cq.choquet(level, *weights), np.full((1, 2), 0.37), **close)


@given(st.data(), st.floats(0.1, 3), st.floats(-1, 1))
def test_a_common_scale_and_shift_pass_through(data, scale, shift):
    weights = data.draw(integrals())
    u = data.draw(inputs_for(weights[0].shape[1]))
    moved = cq.choquet(scale * u + shift, *weights)
    np.testing.assert_allclose(moved, scale * cq.choquet(u, *weights) + shift, rtol=1e-9, atol=1e-10)


@given(st.data())
def test_shapley_values_and_interactions_equal_those_of_shapiq(data):
    weights = data.draw(integrals(min_inputs=2, max_inputs=6))
    p = weights[0].shape[1]
    for n in range(2):
        a, b, c = (w[n] for w in weights)
        table = cq.capacity_table(a, b, c)

        def capacity(coalitions, table=table):
            return np.array([table[tuple(np.flatnonzero(row).tolist())] for row in coalitions])

        exact = shapiq.ExactComputer(game=capacity, n_players=p)
        shapley = exact(index="SV", order=1)
        interactions = exact(index="SII", order=2)
        np.testing.assert_allclose(cq.shapley_values(a, b, c), [shapley[(j,)] for j in range(p)], atol=1e-9)
        np.testing.assert_allclose(cq.interaction_indices(b, c), [interactions[q] for q in pairs_of(p)], atol=1e-9)


@given(st.data())
def test_moebius_transform_rebuilds_the_integral(data):
    weights = data.draw(integrals())
    u = data.draw(inputs_for(weights[0].shape[1]))
    m = cq.moebius_transform(*weights)
    low = torch.stack([torch.minimum(u[:, j], u[:, l]) for j, l in pairs_of(u.shape[1])] or [u[:, 0] * 0], 1)
    pairs = m.pairs if m.pairs.shape[1] else torch.zeros(2, 1, dtype=torch.float64)
    np.testing.assert_allclose(u @ m.singles.T + low @ pairs.T, cq.choquet(u, *weights), **close)


@given(st.data())
def test_canonical_form_changes_neither_values_nor_shapley(data):
    weights = data.draw(integrals())
    u = data.draw(inputs_for(weights[0].shape[1]))
    canonical = cq.canonical_form(*weights)
    np.testing.assert_allclose(cq.choquet(u, *canonical), cq.choquet(u, *weights), **close)
    np.testing.assert_allclose(cq.shapley_values(*canonical), cq.shapley_values(*weights), **close)
    assert (torch.minimum(canonical[1], canonical[2]) == 0).all()
    assert all((w >= 0).all() for w in canonical)
    np.testing.assert_allclose(sum(w.sum(1) for w in canonical), np.ones(2), **close)


@given(st.data())
def test_shapley_values_sum_to_one(data):
    weights = data.draw(integrals(max_inputs=20))
    np.testing.assert_allclose(cq.shapley_values(*weights).sum(1), np.ones(2), **close)


@given(st.data())
def test_local_shapley_equals_shapiq_and_sums_to_the_change(data):
    weights = data.draw(integrals(min_inputs=2, max_inputs=5))
    p = weights[0].shape[1]
    u, baseline = data.draw(inputs_for(p)), data.draw(inputs_for(p))
    local = cq.local_shapley_values(u, baseline, *weights)
    change = cq.choquet(u, *weights) - cq.choquet(baseline, *weights)
    np.testing.assert_allclose(local.sum(2), change, atol=1e-12)
    row, n = 0, 1

    def game(coalitions):
        present = torch.from_numpy(np.asarray(coalitions, dtype=bool))
        mixed = torch.where(present, u[row], baseline[row])
        return cq.choquet(mixed, *weights)[:, n].numpy()

    exact = shapiq.ExactComputer(game=game, n_players=p)(index="SV", order=1)
    np.testing.assert_allclose(local[row, n], [exact[(j,)] for j in range(p)], atol=1e-9)


@given(st.data())
def test_local_values_from_zero_to_one_are_the_global_ones(data):
    weights = data.draw(integrals())
    p = weights[0].shape[1]
    local = cq.local_shapley_values(torch.ones(1, p).double(), torch.zeros(p).double(), *weights)
    np.testing.assert_allclose(local[0], cq.shapley_values(*weights), **close)


def test_takes_any_leading_shape_and_the_weights_of_one_integral():
    a, b, c = (torch.tensor(w).double() for w in ([0.2, 0.1, 0.1], [0.1, 0.1, 0.1], [0.1, 0.1, 0.1]))
    u = torch.rand(2, 3, 5, 3).double()
    one = cq.choquet(u, a, b, c)
    assert one.shape == (2, 3, 5)
    np.testing.assert_allclose(cq.choquet(u, a[None], b[None], c[None])[..., 0], one)
    assert cq.choquet(u[0, 0, 0], a, b, c).shape == ()


@pytest.mark.parametrize("p", [3, 40])
def test_gradients_for_inputs_and_weights(p):
    generator = torch.Generator().manual_seed(0)
    n_pairs = p * (p - 1) // 2
    shapes = [(3, p), (2, p), (2, n_pairs), (2, n_pairs)]
    tensors = [torch.rand(s, generator=generator, dtype=torch.float64, requires_grad=True) for s in shapes]
    assert torch.autograd.gradcheck(cq.choquet, tensors, fast_mode=p > 10)


@pytest.mark.parametrize(
    ("u", "a", "b", "c", "message"),
    [
        ((2, 4), (3,), (3,), (3,), r"\(\.\.\., 3\).*got \(2, 4\)"),
        ((2, 3), (3,), (2,), (3,), r"b \(2,\).*must be \(3,\)"),
        ((2, 3), (2, 3), (3,), (3,), r"must be \(2, 3\)"),
        ((2, 3), (1, 2, 3), (3,), (3,), "expected a of shape"),
    ],
)
def test_wrong_shapes_are_named(u, a, b, c, message):
    with pytest.raises(cq.ChoqolateError, match=message):
        cq.choquet(torch.rand(u), torch.rand(a), torch.rand(b), torch.rand(c))


@pytest.mark.parametrize("p", [3, 30])
def test_empty_batches_pass_through(p):
    n_pairs = p * (p - 1) // 2
    weights = torch.rand(2, p, requires_grad=True), torch.rand(2, n_pairs), torch.rand(2, n_pairs)
    values = cq.choquet(torch.rand(0, p), *weights)
    assert values.shape == (0, 2)
    values.sum().backward()
    assert not weights[0].grad.any()
    assert cq.local_shapley_values(torch.rand(0, p), torch.zeros(p), *weights).shape == (0, 2, p)


def test_local_values_of_one_integral_and_any_leading_shape():
    weights = [torch.rand(3), torch.rand(3), torch.rand(3)]
    u = torch.rand(4, 5, 3)
    one = cq.local_shapley_values(u, torch.zeros(3), *weights)
    assert one.shape == (4, 5, 3)
    several = cq.local_shapley_values(u, torch.zeros(3), *(w[None] for w in weights))
    torch.testing.assert_close(several[..., 0, :], one)


def test_other_errors():
    a = torch.rand(3)
    with pytest.raises(cq.ChoqolateError, match=r"floating tensors of one type, got ndarray.*torch.as_tensor"):
        cq.choquet(a, a.numpy(), a.numpy(), a.numpy())
    with pytest.raises(cq.ChoqolateError, match=r"u to be a tensor of .* like the weights, got .*64"):
        cq.choquet(a.double(), a, a, a)
    with pytest.raises(cq.ChoqolateError, match=r"baseline to be a tensor of .* like the weights, got float"):
        cq.local_shapley_values(a, 0.0, a, a, a)
    with pytest.raises(cq.ChoqolateError, match=r"baseline of shape \(\.\.\., 3\)"):
        cq.local_shapley_values(a, a[:2], a, a, a)
    with pytest.raises(cq.ChoqolateError, match="one shape"):
        cq.interaction_indices(torch.rand(3), torch.rand(2))
    with pytest.raises(cq.ChoqolateError, match="at most 20 inputs"):
        cq.capacity_table(torch.rand(21), torch.rand(210), torch.rand(210))
