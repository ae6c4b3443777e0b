"""Sparse capacities do what the same weights in a full matrix do, and the heaviest terms are the heaviest."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from choqolate.integral import AdditiveCapacity, PairwiseCapacity, SparseCapacity, Terms, factored
from tests.integral.strategies import inputs_for, integrals, pairs_of
from tests.integral.test_factored import capacities, make

TIGHT = dict(rtol=0, atol=1e-12)


def sparse_of(full) -> SparseCapacity:
    """All terms of a capacity, as a list."""
    return SparseCapacity.of_terms([full.terms(n) for n in range(full.shape[0])], full.shape[1])


def all_terms(capacity, node):
    """Every term that is not zero, by the weights a, b and c: {(first, second, is_max): weight}."""
    a, b, c = (part[node].tolist() for part in capacity.weights())
    terms = {(j, j, False): weight for j, weight in enumerate(a)}
    for index, (j, l) in enumerate(pairs_of(len(a))):
        terms |= {(j, l, False): b[index], (j, l, True): c[index]}
    return {term: weight for term, weight in terms.items() if weight}


def listed(terms):
    return list(zip(*(part.tolist() for part in terms[:3]), strict=True)), terms.weight.numpy()


@given(st.data())
def test_every_operation_equals_that_of_the_full_matrix(data):
    weights = data.draw(integrals(min_inputs=2))
    full = PairwiseCapacity.from_weights(*weights)
    sparse, p = sparse_of(full), weights[0].shape[1]
    u, v = data.draw(inputs_for(p)), data.draw(inputs_for(p))
    assert sparse.shape == full.shape
    assert_close(sparse.integrate(u), full.integrate(u), **TIGHT)
    assert_close(sparse.involvement(u, v), full.involvement(u, v), **TIGHT)
    assert_close(sparse.local_shapley(u, v), full.local_shapley(u, v), **TIGHT)
    for name in ("shapley", "singles", "interaction_mass", "attributions", "involved_mass", "n_terms"):
        assert_close(getattr(sparse, name)(), getattr(full, name)(), **TIGHT)
    for rows in (slice(None), slice(1, 2), torch.tensor([p - 1, 0])):
        for mine, its in zip(sparse.pairs(rows), full.pairs(rows), strict=True):
            assert_close(mine, its, **TIGHT)
    for mine, its in zip(sparse.weights(), full.weights(), strict=True):
        assert_close(mine, its, **TIGHT)
    assert_close(sparse.integrate_common(u), full.integrate_common(u), **TIGHT)
    first, second = torch.tensor(pairs_of(p)).T
    for one, other in ((first, second), (second, first), (first[:1].repeat(2), second[:1].repeat(2))):
        assert_close(sparse.pairs_between(one, other), full.pairs_between(one, other), **TIGHT)
    for nodes in ([1], [1, 0, 1], slice(0, 1), torch.tensor([1])):
        assert_close(sparse.select(nodes).integrate(u), full.select(nodes).integrate(u), **TIGHT)


@given(st.data(), st.booleans())
def test_edits_equal_those_of_the_full_matrix(data, canonical):
    full = PairwiseCapacity.from_weights(*data.draw(integrals(min_inputs=2)))
    sparse, shape = sparse_of(full), full.shape
    entries = st.lists(st.booleans(), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])
    removed = torch.tensor(data.draw(entries)).view(shape)
    factors = torch.where(removed, 0.3, torch.where(removed.roll(1), 2.5, 1.0)).double()
    for (mine, kept), (its, retained) in (
        (sparse.without(removed, canonical=canonical), full.without(removed, canonical=canonical)),
        (sparse.reweighted(factors), full.reweighted(factors)),
    ):
        assert_close(kept, retained, **TIGHT)
        left = retained > 1e-9
        assert mine.shapley()[retained == 0].isnan().any(1).all()
        some = left.nonzero()[:, 0]
        assert_close(mine.select(some).weights(), its.select(some).weights(), rtol=1e-9, atol=1e-12)


def test_edits_that_touch_nothing_change_no_bit():
    sparse = sparse_of(PairwiseCapacity(torch.rand(2, 4, 4, dtype=torch.float64).flatten(1).softmax(1).view(2, 4, 4)))
    nothing = torch.zeros(2, 4, dtype=torch.bool)
    for edited, mass in (sparse.without(nothing), sparse.reweighted(torch.ones(2, 4, dtype=torch.float64))):
        assert torch.equal(edited.weight, sparse.weight)
        assert mass.tolist() == [1.0, 1.0]


def test_integrals_are_differentiable_in_weights_and_inputs():
    full = PairwiseCapacity(
        torch.rand(2, 3, 3, dtype=torch.float64).flatten(1).softmax(1).view(2, 3, 3).requires_grad_()
    )
    u = torch.rand(4, 3, dtype=torch.float64, requires_grad=True)
    gradients = (
        torch.autograd.grad(capacity.integrate(u).square().sum(), (full.w, u), retain_graph=True)
        for capacity in (full, sparse_of(full))
    )
    for mine, its in zip(*gradients, strict=True):
        assert_close(mine, its)


def test_rows_are_taken_in_blocks(monkeypatch):
    sparse = sparse_of(PairwiseCapacity(torch.rand(2, 5, 5, dtype=torch.float64).flatten(1).softmax(1).view(2, 5, 5)))
    u, v = torch.rand(2, 7, 5, dtype=torch.float64)
    whole = sparse.integrate(u), sparse.involvement(u, v)
    monkeypatch.setattr("choqolate.integral.sparse._VALUES", 100)  # two rows at a time
    assert_close((sparse.integrate(u), sparse.involvement(u, v)), whole)
    transposed = [x.T.contiguous().T for x in (u, v)]
    assert_close((sparse.integrate(transposed[0]), sparse.involvement(*transposed)), whole)
    assert sparse.integrate(u[:0]).shape == (0, 2)


def check_heaviest(capacity, node, most, mass):
    expected = sorted(all_terms(capacity, node).values(), reverse=True)
    by_mass = int(np.searchsorted(np.cumsum(expected), mass - 1e-12)) + 1 if mass < np.inf else len(expected)
    n_expected = min(len(expected), by_mass, len(expected) if most is None else most)
    names, weights = listed(capacity.terms(node, most, mass))
    np.testing.assert_allclose(weights, expected[:n_expected], rtol=0, atol=1e-13)
    known = all_terms(capacity, node)
    np.testing.assert_allclose([known[name] for name in names], weights, rtol=0, atol=1e-13)
    assert len(set(names)) == len(names)


limits = st.one_of(st.none(), st.integers(1, 60)), st.one_of(st.just(np.inf), st.floats(0.01, 0.999))


@given(st.data(), *limits)
def test_the_heaviest_terms_of_a_full_matrix(data, most, mass):
    weights = data.draw(integrals())
    full = PairwiseCapacity.from_weights(*weights)
    for capacity in (full, sparse_of(full), AdditiveCapacity(weights[0] / weights[0].sum(1, keepdim=True))):
        check_heaviest(capacity, 1, most, mass)
        assert capacity.n_terms().tolist() == [len(all_terms(capacity, node)) for node in range(2)]


@given(capacities(max_inputs=9), *limits, st.sampled_from([8, 400, 9 << 19]))
def test_the_heaviest_terms_of_products_are_found_without_looking_at_all(capacity, most, mass, workspace):
    original = factored.fitting
    try:
        factored.fitting = lambda size: max(1, workspace // size)  # blocks of one row, of a few, of all
        check_heaviest(capacity, 0, most, mass)
    finally:
        factored.fitting = original
    assert capacity.n_terms().tolist() == [len(all_terms(capacity, node)) for node in range(capacity.shape[0])]


@pytest.fixture
def looked_at(monkeypatch):
    """Sizes of the blocks of pairs that are computed."""
    sizes = []
    products = factored.FactoredCapacity._products
    monkeypatch.setattr(
        factored.FactoredCapacity,
        "_products",
        lambda self, rows: sizes.append(len(rows) * self.shape[1]) or products(self, rows),
    )
    return sizes


@pytest.mark.parametrize("spread", [6.0, 1.0, 0.1, 0.01, 0.0])  # from a few heavy inputs to all alike
def test_few_pairs_of_many_inputs_are_looked_at(looked_at, spread):
    capacity = make(1, 3, 3_000, spread=spread)
    ten = capacity.terms(0, 10)
    assert sum(looked_at) < 3_000**2 / 20
    b, c = capacity.pairs(slice(None))
    everything = torch.cat([capacity.singles()[0], b[0].triu().flatten(), c[0].triu().flatten()])
    assert_close(ten.weight, everything.topk(10).values)


def test_blocks_of_pairs_fit_the_workspace(looked_at, monkeypatch):
    monkeypatch.setattr(factored, "fitting", lambda size: max(1, 20_000 // size))
    capacity = make(1, 2, 400, spread=1.0)
    assert len(capacity.terms(0).weight) == capacity.n_terms()[0]
    assert max(looked_at) <= 20_000


def test_signed_weights_are_ranked_by_size():
    w = torch.tensor([[[1.0, -2.0], [3.0, 0.0]]], dtype=torch.float64)
    terms = PairwiseCapacity(w, free=True).terms(0)
    assert listed(terms)[0] == [(0, 1, True), (0, 1, False), (0, 0, False)]
    assert terms.weight.tolist() == [3.0, -2.0, 1.0]


@settings(max_examples=20)
@given(st.data())
def test_kept_terms_are_within_the_dropped_mass_of_the_whole(data):
    weights = data.draw(integrals(min_inputs=2))
    full, p = PairwiseCapacity.from_weights(*weights), weights[0].shape[1]
    u = data.draw(inputs_for(p, n_rows=20))
    kept = [full.terms(node, 3) for node in range(2)]
    mass = torch.stack([terms.weight.sum() for terms in kept])
    short = SparseCapacity.of_terms([t._replace(weight=t.weight / m) for t, m in zip(kept, mass, strict=True)], p)
    assert ((short.integrate(u) - full.integrate(u)).abs() <= 1 - mass + 1e-12).all()
    assert_close(short.shapley().sum(1), torch.ones(2, dtype=torch.float64), **TIGHT)
    assert short.n_terms().max() <= 3


def test_terms_that_are_given_twice_are_added():
    twice = Terms.of_singles(torch.tensor([0.25, 0.25]))
    capacity = SparseCapacity.of_terms([twice.and_also(twice)], 2)
    assert capacity.weight.tolist() == [0.5, 0.5]
    with pytest.raises(IndexError):
        capacity.terms(1)
