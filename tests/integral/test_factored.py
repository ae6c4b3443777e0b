from __future__ import annotations

import numpy as np
import pytest
import shapiq
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from choqolate.integral import FactoredCapacity, PairwiseCapacity, factored
from choqolate.integral.factored import sort_inputs
from tests.integral.strategies import inputs_for

close = {"rtol": 1e-10, "atol": 1e-12}


def random_capacity(p: int, rank: int, n_nodes: int = 2, seed: int = 0, spread: float = 1.0) -> FactoredCapacity:
    generator = torch.Generator().manual_seed(seed)
    shapes = (n_nodes, 1 + 2 * rank), (n_nodes, p), (n_nodes, rank, p), (n_nodes, rank, p)
    return FactoredCapacity(
        *((spread * torch.randn(shape, generator=generator, dtype=torch.float64)).softmax(-1) for shape in shapes)
    )


@st.composite
def capacities(draw: st.DrawFn, min_inputs: int = 1, max_inputs: int = 7):
    p, rank = draw(st.integers(min_inputs, max_inputs)), draw(st.integers(1, 3))
    return random_capacity(p, rank, seed=draw(st.integers(0, 2**31)), spread=draw(st.sampled_from([0.1, 1.0, 6.0])))


def dense(capacity: FactoredCapacity) -> PairwiseCapacity:
    """The same capacities, with the products multiplied out pair by pair."""
    m, a, p, q = capacity.m, capacity.a, capacity.p, capacity.q
    n_nodes, rank, n_inputs = p.shape
    w = torch.zeros(n_nodes, n_inputs, n_inputs, dtype=torch.float64)
    for n in range(n_nodes):
        w[n].diagonal().copy_(m[n, 0] * a[n])
        for r in range(rank):
            low, high = m[n, 1 + r], m[n, 1 + rank + r]
            for j in range(n_inputs):
                w[n, j, j] += (low + high) * p[n, r, j] * q[n, r, j]
                for l in range(j + 1, n_inputs):
                    both = p[n, r, j] * q[n, r, l] + p[n, r, l] * q[n, r, j]
                    w[n, j, l] += low * both
                    w[n, l, j] += high * both
    return PairwiseCapacity(w)


@given(st.data())
def test_is_the_pairwise_integral_of_its_products(data):
    capacity = data.draw(capacities())
    u, v = (data.draw(inputs_for(capacity.shape[1])) for _ in range(2))
    full = dense(capacity)
    torch.testing.assert_close(capacity.integrate(u), full.integrate(u), **close)
    torch.testing.assert_close(capacity.integrate_sorted(u, sort_inputs(u)), full.integrate(u), **close)
    torch.testing.assert_close(capacity.shapley(), full.shapley(), **close)
    torch.testing.assert_close(capacity.singles(), full.singles(), **close)
    torch.testing.assert_close(capacity.interaction_mass(), full.interaction_mass(), **close)
    torch.testing.assert_close(capacity.involvement(u, v), full.involvement(u, v), **close)
    torch.testing.assert_close(capacity.local_shapley(u, v), full.local_shapley(u, v), **close)
    for mine, its in zip(capacity.weights(), full.weights(), strict=True):
        torch.testing.assert_close(mine, its, **close)
    torch.testing.assert_close(capacity.shapley().sum(1), torch.ones(2).double())


@given(st.data())
def test_monotone_bounded_and_idempotent(data):
    capacity = data.draw(capacities(max_inputs=12))
    p = capacity.shape[1]
    u, more = data.draw(inputs_for(p)), data.draw(inputs_for(p))
    values = capacity.integrate(u)
    assert (capacity.integrate(u + more) >= values - 1e-12).all()
    assert (values >= u.min(1, keepdim=True).values - 1e-12).all()
    assert (values <= u.max(1, keepdim=True).values + 1e-12).all()
    level = torch.full((1, p), 0.37, dtype=torch.float64)
    np.testing.assert_allclose(capacity.integrate(level), np.full((1, 2), 0.37), rtol=1e-12)


def test_local_shapley_equals_shapiq():
    capacity, p = random_capacity(5, 2), 5
    x, y = torch.rand(2, 1, p, dtype=torch.float64)

    def game(coalitions):
        present = torch.from_numpy(np.asarray(coalitions, dtype=bool))
        return capacity.integrate(torch.where(present, y, x))[:, 1].numpy()

    exact = shapiq.ExactComputer(game=game, n_players=p)(index="SV", order=1)
    np.testing.assert_allclose(capacity.local_shapley(y, x)[0, 1], [exact[(j,)] for j in range(p)], atol=1e-10)


@pytest.fixture(params=["as shipped", "tiny workspace"])
def workspace(request, monkeypatch):
    if request.param == "tiny workspace":
        monkeypatch.setattr(factored, "_WORKSPACE", 60)


@pytest.mark.parametrize("p", [1, 2, 6, 40])
@pytest.mark.parametrize("presorted", [False, True])
def test_gradients(p, presorted, workspace):
    capacity = random_capacity(p, 2)
    u = torch.rand(3, p, dtype=torch.float64, requires_grad=True)
    parts = [part.clone().requires_grad_() for part in (capacity.m, capacity.a, capacity.p, capacity.q)]

    def run(u, *parts):
        return FactoredCapacity(*parts).integrate_sorted(u, sort_inputs(u) if presorted else None)

    assert torch.autograd.gradcheck(run, (u, *parts), fast_mode=p > 6)


@pytest.mark.parametrize("p", [7, 33, 100])
def test_parts_of_the_work_add_up_to_the_whole(p, monkeypatch):
    capacity, (u, v) = random_capacity(p, 3, n_nodes=5), torch.rand(2, 11, p, dtype=torch.float64)
    whole = capacity.integrate(u), capacity.involvement(u, v)
    monkeypatch.setattr(factored, "_WORKSPACE", 2 * p)
    torch.testing.assert_close(capacity.integrate(u), whole[0], **close)
    torch.testing.assert_close(capacity.involvement(u, v), whole[1], **close)


def test_sorting_single_precision_orders_every_kind_of_number():
    u = torch.tensor([[0.5, -1.0, 0.0, -0.0, 2.5, 1e-40, -1e-40, 0.5]])
    inputs = sort_inputs(u)
    assert u[0, inputs.order[0].long()].tolist() == sorted(u[0].tolist(), reverse=True)
    rows = sort_inputs(torch.rand(5, 9))[torch.tensor([3, 1])]
    assert rows.order.shape == rows.gaps.shape == (2, 9)


def test_single_precision_is_as_good_as_it_can_be():
    capacity, u = random_capacity(3000, 2), torch.rand(4, 3000)
    exact = capacity.integrate(u.double())
    single = FactoredCapacity(*(part.float() for part in (capacity.m, capacity.a, capacity.p, capacity.q)))
    torch.testing.assert_close(single.integrate(u).double(), exact, rtol=2e-6, atol=0)


@given(st.data(), st.booleans())
def test_removal_is_that_of_the_pairwise_integral(data, canonical):
    capacity = data.draw(capacities(min_inputs=2))
    p = capacity.shape[1]
    mask = torch.zeros(2, p, dtype=torch.bool)
    for n in range(2):
        gone = data.draw(st.sets(st.integers(0, p - 1), max_size=p - 1))
        mask[n, list(gone)] = True
    edited, retained = capacity.without(mask, canonical=canonical)
    full, kept = dense(capacity).without(mask, canonical=canonical)
    assume((kept > 1e-6).all())
    torch.testing.assert_close(retained, kept, rtol=1e-8, atol=1e-12)
    u = data.draw(inputs_for(p))
    torch.testing.assert_close(edited.integrate(u), full.integrate(u), rtol=1e-8, atol=1e-10)
    for mine, its in zip(edited.weights(), full.weights(), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-7, atol=1e-10)
    for part in (edited.m, edited.a, edited.p, edited.q):
        torch.testing.assert_close(part.sum(-1), torch.ones_like(part.sum(-1)))


def test_terms_left_empty_are_dropped_and_empty_nodes_are_nan():
    one, other = torch.tensor([1.0, 0.0, 0.0]).double(), torch.tensor([0.0, 1.0, 0.0]).double()
    m = torch.tensor([[0.4, 0.3, 0.3], [0.0, 0.5, 0.5]]).double()
    a = torch.stack([other, other])
    terms = torch.stack([one, one])[:, None]
    edited, retained = FactoredCapacity(m, a, terms, terms).without(torch.tensor([[True, False, False]] * 2))
    assert retained.tolist() == pytest.approx([0.4, 0.0])
    assert edited.m[0].tolist() == [1.0, 0.0, 0.0]
    assert edited.shapley()[0].tolist() == [0.0, 1.0, 0.0]
    assert edited.m[1].isnan().all()
