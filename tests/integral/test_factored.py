from __future__ import annotations

from itertools import combinations
from math import factorial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from choqolate.integral import expected_minimum
from choqolate.integral.expected_minimum import sort_inputs
from choqolate.integral.factored import FactoredCapacity

TIGHT = dict(rtol=0, atol=1e-12)


def simplex(shape: tuple[int, ...], generator: torch.Generator, spread: float = 1.0, sparse: bool = False) -> Tensor:
    w = (spread * torch.randn(shape, generator=generator, dtype=torch.float64)).softmax(-1)
    if sparse:
        w = w * (torch.rand(shape, generator=generator) < 0.5)
        w[..., -1] += (w.sum(-1) == 0).double()
    return w / w.sum(-1, keepdim=True)


def make(n_nodes: int, rank: int, n_inputs: int, seed: int = 0, **options) -> FactoredCapacity:
    generator = torch.Generator().manual_seed(seed)
    terms = (n_nodes, rank, n_inputs)
    shapes = (n_nodes, 1 + 2 * rank), (n_nodes, n_inputs), terms, terms
    return FactoredCapacity(*(simplex(shape, generator, **options) for shape in shapes))


def cast(capacity: FactoredCapacity, dtype: torch.dtype) -> FactoredCapacity:
    return FactoredCapacity(*(part.to(dtype) for part in (capacity.m, capacity.a, capacity.p, capacity.q)))


@st.composite
def capacities(draw: st.DrawFn, min_inputs: int = 1, max_inputs: int = 7) -> FactoredCapacity:
    sizes = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(min_inputs, max_inputs))
    spread, sparse = draw(st.sampled_from([0.1, 1.0, 8.0])), draw(st.booleans())
    return make(*sizes, seed=draw(st.integers(0, 2**31)), spread=spread, sparse=sparse)


@st.composite
def inputs_for(draw: st.DrawFn, capacity: FactoredCapacity, n_rows: int = 3) -> Tensor:
    """Rows in [0, 1], some with ties."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    u = torch.rand(n_rows, capacity.shape[1], generator=generator, dtype=torch.float64)
    return (u * 4).round() / 4 if draw(st.booleans()) else u


def by_definition(capacity: FactoredCapacity, u: Tensor) -> Tensor:
    """The mixture of expectations, each a sum over all j and l; plain differentiable PyTorch."""
    rank = capacity.p.shape[1]
    joint = capacity.p[..., :, None] * capacity.q[..., None, :]
    low = torch.einsum("nrjl,bjl->bnr", joint, torch.minimum(u[:, :, None], u[:, None, :]))
    high = torch.einsum("nrjl,bjl->bnr", joint, torch.maximum(u[:, :, None], u[:, None, :]))
    terms = torch.cat([(u @ capacity.a.mT)[..., None], low, high], -1)
    assert terms.shape[-1] == 1 + 2 * rank
    return (terms * capacity.m).sum(-1)


def from_weights(a: Tensor, b: Tensor, c: Tensor, u: Tensor) -> Tensor:
    j, l = torch.triu_indices(u.shape[1], u.shape[1], 1)
    return u @ a.mT + torch.minimum(u[:, j], u[:, l]) @ b.mT + torch.maximum(u[:, j], u[:, l]) @ c.mT


def gradients(capacity: FactoredCapacity, u: Tensor, integrate=FactoredCapacity.integrate) -> list[Tensor]:
    """Of u and of the logarithms of the weights: off the simplex, equal integrals are different formulas."""
    parts = [u.clone(), *(part.log() for part in vars(capacity).values())]
    values = integrate(
        FactoredCapacity(*(part.requires_grad_().softmax(-1) for part in parts[1:])), parts[0].requires_grad_()
    )
    weights = torch.linspace(-1, 2, values.numel(), dtype=values.dtype).view_as(values)
    return list(torch.autograd.grad((values * weights).sum(), parts))


class TestIntegral:
    @given(st.data())
    def test_is_the_mixture_of_expected_minima_and_maxima(self, data):
        capacity = data.draw(capacities())
        u = data.draw(inputs_for(capacity))
        assert_close(capacity.integrate(u), by_definition(capacity, u), **TIGHT)
        assert_close(capacity.integrate(u), from_weights(*capacity.weights(), u), **TIGHT)

    @given(st.data())
    def test_lies_between_the_smallest_and_the_largest_input(self, data):
        capacity = data.draw(capacities())
        u = data.draw(inputs_for(capacity))
        values = capacity.integrate(u)
        assert (values >= u.amin(1, keepdim=True) - 1e-12).all()
        assert (values <= u.amax(1, keepdim=True) + 1e-12).all()

    @given(st.data())
    def test_grows_with_every_input(self, data):
        capacity = data.draw(capacities())
        u, more = data.draw(inputs_for(capacity)), data.draw(inputs_for(capacity))
        assert (capacity.integrate(torch.maximum(u, more)) >= capacity.integrate(u) - 1e-12).all()

    @given(capacities(), st.floats(0, 1))
    def test_of_equal_inputs_is_their_value(self, capacity, t):
        u = torch.full((2, capacity.shape[1]), t, dtype=torch.float64)
        assert_close(capacity.integrate(u), torch.full((2, capacity.shape[0]), t, dtype=torch.float64), **TIGHT)

    @given(capacities(), st.integers(0, 2**31), st.floats(-1, 1), st.floats(0.1, 3))
    def test_follows_a_common_shift_and_scale(self, capacity, seed, shift, scale):
        u = torch.rand(3, capacity.shape[1], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        assert_close(capacity.integrate(scale * u + shift), scale * capacity.integrate(u) + shift, **TIGHT)

    @pytest.mark.parametrize("n_inputs", [1, 2, 31, 32, 33, 64, 65, 200])
    def test_has_no_seams_where_running_sums_are_cut(self, n_inputs):
        capacity = make(2, 3, n_inputs)
        u = torch.rand(4, n_inputs, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        assert_close(capacity.integrate(u), by_definition(capacity, u), **TIGHT)
        for ours, theirs in zip(gradients(capacity, u), gradients(capacity, u, by_definition), strict=True):
            assert_close(ours, theirs, **TIGHT)

    def test_of_a_stack_is_the_stack_of_integrals(self):
        one, two = make(2, 2, 5, seed=1), make(2, 2, 5, seed=2)
        stack = FactoredCapacity(*(torch.stack([getattr(one, x), getattr(two, x)]) for x in "mapq"))
        u = torch.rand(2, 3, 5, dtype=torch.float64)
        assert stack.shape == (2, 5)
        assert_close(stack.integrate(u), torch.stack([one.integrate(u[0]), two.integrate(u[1])]))
        assert_close(stack.shapley(), torch.stack([one.shapley(), two.shapley()]))
        assert_close(stack.interaction_mass(), torch.stack([one.interaction_mass(), two.interaction_mass()]))

    def test_of_no_rows_is_empty(self):
        assert make(2, 3, 5).integrate(torch.empty(0, 5, dtype=torch.float64)).shape == (0, 2)

    @pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
    def test_works_without_gradients(self, mode):
        capacity, u = make(2, 3, 5), torch.rand(4, 5, dtype=torch.float64)
        with mode():
            values = capacity.integrate(u)
        assert_close(values, by_definition(capacity, u), **TIGHT)

    def test_keeps_single_precision_with_many_inputs(self):
        capacity = make(3, 2, 5000, spread=3.0)
        u = torch.rand(8, 5000, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        error = (cast(capacity, torch.float32).integrate(u.float()).double() - capacity.integrate(u)).abs().max()
        assert error < 8 * torch.finfo(torch.float32).eps


class TestGradient:
    @pytest.mark.parametrize("n_inputs", [1, 3, 40])
    def test_agrees_with_finite_differences(self, n_inputs):
        capacity = make(2, 2, n_inputs, seed=3)
        u = torch.rand(3, n_inputs, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
        parts = [part.requires_grad_() for part in (u, capacity.m, capacity.a, capacity.p, capacity.q)]
        assert torch.autograd.gradcheck(lambda u, *weights: FactoredCapacity(*weights).integrate(u), parts)

    @given(st.data())
    def test_with_respect_to_the_weights_is_that_of_the_definition_also_at_ties(self, data):
        capacity = data.draw(capacities())
        u = data.draw(inputs_for(capacity))
        ours, theirs = gradients(capacity, u), gradients(capacity, u, by_definition)
        for x, y in zip(ours[1:], theirs[1:], strict=True):
            assert_close(x, y, **TIGHT)

    @given(capacities(min_inputs=2))
    def test_with_respect_to_tied_inputs_is_shared_among_them(self, capacity):
        u = torch.full((1, capacity.shape[1]), 0.5, dtype=torch.float64, requires_grad=True)
        for node in range(capacity.shape[0]):
            (slope,) = torch.autograd.grad(capacity.integrate(u)[0, node], u)
            assert_close(slope.sum(), torch.ones((), dtype=torch.float64), **TIGHT)
            assert (slope >= -1e-12).all()

    def test_in_single_precision_is_close_to_that_in_double(self):
        capacity = make(2, 3, 500)
        u = torch.rand(16, 500, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        for x, y in zip(gradients(cast(capacity, torch.float32), u.float()), gradients(capacity, u), strict=True):
            assert_close(x.double(), y, rtol=1e-4, atol=1e-5)

    def test_of_the_inputs_alone(self):
        capacity, u = make(2, 3, 50), torch.rand(4, 50, dtype=torch.float64)
        free = u.clone().requires_grad_()
        weights = torch.linspace(-1, 2, 8, dtype=torch.float64).view(4, 2)
        (slope,) = torch.autograd.grad((capacity.integrate(free) * weights).sum(), free)
        assert_close(slope, gradients(capacity, u)[0], **TIGHT)

    def test_of_a_gradient_agrees_with_finite_differences(self):
        capacity = make(2, 2, 4, seed=3)
        u = torch.rand(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
        parts = [part.requires_grad_() for part in (u, capacity.m, capacity.a, capacity.p, capacity.q)]
        assert torch.autograd.gradgradcheck(lambda u, *weights: FactoredCapacity(*weights).integrate(u), parts)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @given(st.data())
    def test_is_the_same_where_it_can_be_differentiated_again_also_at_ties(self, dtype, data):
        capacity = cast(data.draw(capacities()), dtype)
        u = data.draw(inputs_for(capacity)).to(dtype).requires_grad_()
        once = torch.autograd.grad(capacity.integrate(u).sum(), u)
        again = torch.autograd.grad(capacity.integrate(u).sum(), u, create_graph=True)
        assert_close(again, once, rtol=0, atol=16 * torch.finfo(dtype).eps)


class TestChunks:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("workspace", [1, 100, 1_000, 10_000])
    def test_change_nothing(self, monkeypatch, dtype, workspace):
        capacity = cast(make(3, 2, 70), dtype)
        u = torch.rand(9, 70, dtype=dtype, generator=torch.Generator().manual_seed(1))
        whole = [capacity.integrate(u), capacity.involvement(u, u.flip(0)), *gradients(capacity, u)]
        removed = torch.arange(70).expand(3, -1) % 3 == 0
        whole += [*vars(capacity.without(removed, canonical=True)[0]).values()]
        monkeypatch.setattr(expected_minimum, "_WORKSPACE", workspace)
        parts = [capacity.integrate(u), capacity.involvement(u, u.flip(0)), *gradients(capacity, u)]
        parts += [*vars(capacity.without(removed, canonical=True)[0]).values()]
        for x, y in zip(parts, whole, strict=True):
            assert_close(x, y, rtol=0, atol=64 * torch.finfo(dtype).eps)

    def test_give_what_the_definition_gives(self, monkeypatch):
        monkeypatch.setattr(expected_minimum, "_WORKSPACE", 5_000)  # three rows or six terms at a time
        capacity, u = make(5, 2, 200), torch.rand(9, 200, dtype=torch.float64)
        assert_close(capacity.integrate(u), by_definition(capacity, u), **TIGHT)
        assert_close(gradients(capacity, u), gradients(capacity, u, by_definition), **TIGHT)


class TestSortedInputs:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @given(st.data())
    def test_give_the_same_values_and_gradients(self, dtype, data):
        capacity = cast(data.draw(capacities()), dtype)
        u = data.draw(inputs_for(capacity)).to(dtype)
        inputs = sort_inputs(u)
        for x, y in zip(
            gradients(capacity, u, lambda c, u: c.integrate_sorted(u, inputs)), gradients(capacity, u), strict=True
        ):
            assert torch.equal(x, y)
        assert torch.equal(capacity.integrate_sorted(u, inputs), capacity.integrate(u))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_are_in_descending_order(self, dtype):
        u = torch.randn(5, 1000, dtype=dtype, generator=torch.Generator().manual_seed(0))
        u[:, ::7] = 0.25
        u[:, 1::7] = 0.0
        u[:, 2::7] = -0.0
        inputs = sort_inputs(u)
        values = u.gather(1, inputs.order.long())
        assert torch.equal(values, u.sort(dim=1, descending=True).values)
        assert torch.equal(inputs.order.long().sort(dim=1).values, torch.arange(1000).expand(5, -1))
        assert_close(inputs.gaps.flip(1).cumsum(1).flip(1), values)

    def test_select_rows(self):
        capacity, u = make(2, 2, 6), torch.rand(8, 6, dtype=torch.float64)
        inputs, batch = sort_inputs(u), torch.tensor([5, 0, 5])
        assert torch.equal(capacity.integrate_sorted(u[batch], inputs[batch]), capacity.integrate(u[batch]))
        assert torch.equal(capacity.integrate_sorted(u[2:4], inputs[2:4]), capacity.integrate(u[2:4]))

    def test_do_not_carry_gradients(self):
        inputs = sort_inputs(torch.rand(2, 3, requires_grad=True))
        assert not inputs.gaps.requires_grad


class TestWeights:
    @given(capacities())
    def test_are_nonnegative_and_sum_to_one(self, capacity):
        a, b, c = capacity.weights()
        assert min(x.min().item() for x in (a, b, c) if x.numel()) >= 0
        assert_close(a.sum(1) + b.sum(1) + c.sum(1), torch.ones(len(a), dtype=torch.float64), **TIGHT)
        assert_close(capacity.interaction_mass(), b.sum(1) + c.sum(1), **TIGHT)

    @given(capacities())
    def test_give_the_shapley_values(self, capacity):
        b, c = capacity.pairs(slice(None))
        shapley = capacity.shapley()
        assert_close(shapley, capacity.singles() + (b + c).sum(2) / 2, **TIGHT)
        assert_close(shapley.sum(1), torch.ones(len(shapley), dtype=torch.float64), **TIGHT)
        assert_close(capacity.involved_mass(), capacity.singles() + (b + c).sum(2), **TIGHT)

    @given(capacities(min_inputs=3), st.integers(0, 2))
    def test_of_some_rows_are_those_rows(self, capacity, start):
        for some, whole in zip(capacity.pairs(slice(start, start + 1)), capacity.pairs(slice(None)), strict=True):
            assert_close(some, whole[:, start : start + 1], **TIGHT)
            assert not whole.diagonal(dim1=1, dim2=2).any()

    def test_of_one_input(self):
        capacity = make(2, 2, 1)
        a, b, c = capacity.weights()
        assert_close(a, torch.ones(2, 1, dtype=torch.float64))
        assert b.shape == c.shape == (2, 0)
        assert_close(capacity.interaction_mass(), torch.zeros(2, dtype=torch.float64), **TIGHT)

    def test_of_chosen_nodes(self):
        capacity, u = make(4, 2, 5), torch.rand(3, 5, dtype=torch.float64)
        for nodes in ([2, 0], slice(1, 3), torch.tensor([3, 1])):
            assert_close(capacity.select(nodes).integrate(u), capacity.integrate(u)[:, nodes], **TIGHT)


def involvement_by_definition(capacity: FactoredCapacity, u: Tensor, v: Tensor) -> Tensor:
    n_nodes, n_inputs = capacity.shape
    a, (b, c) = capacity.singles(), capacity.pairs(slice(None))
    out = torch.empty(len(u), n_nodes, n_inputs, dtype=u.dtype)
    for j in range(n_inputs):
        out[:, :, j] = a[:, j] * v[:, j, None]
        for l in range(n_inputs):
            low, high = torch.minimum(v[:, j], u[:, l]), torch.maximum(v[:, j], u[:, l])
            out[:, :, j] += low[:, None] * b[:, j, l] + high[:, None] * c[:, j, l]
    return out


def shapley_by_enumeration(capacity: FactoredCapacity, y: Tensor, x: Tensor) -> Tensor:
    """Shapley values of the game that moves a coalition's inputs from x to y, over all coalitions."""
    n_inputs = len(y)
    out = torch.zeros(capacity.shape, dtype=y.dtype)
    for j in range(n_inputs):
        others = [l for l in range(n_inputs) if l != j]
        for size in range(n_inputs):
            share = factorial(size) * factorial(n_inputs - size - 1) / factorial(n_inputs)
            for coalition in combinations(others, size):
                before = x.clone()
                before[list(coalition)] = y[list(coalition)]
                after = before.clone()
                after[j] = y[j]
                difference = capacity.integrate(torch.stack([after, before])).diff(dim=0)[0]
                out[:, j] -= share * difference
    return out


class TestInvolvement:
    @given(st.data())
    def test_is_the_sum_of_the_terms_with_the_input(self, data):
        capacity = data.draw(capacities())
        u, v = data.draw(inputs_for(capacity)), data.draw(inputs_for(capacity))
        assert_close(capacity.involvement(u, v), involvement_by_definition(capacity, u, v), **TIGHT)
        assert_close(capacity.involvement(u, u), involvement_by_definition(capacity, u, u), **TIGHT)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_takes_transposed_and_expanded_inputs(self, dtype):
        capacity, u, v = cast(make(2, 2, 5), dtype), torch.rand(5, 3, dtype=dtype).T, torch.rand(5, dtype=dtype)
        expected = involvement_by_definition(capacity, u, v.repeat(3, 1))
        assert_close(capacity.involvement(u, v.expand(3, -1)), expected)
        assert_close(capacity.integrate(u), by_definition(capacity, u))
        assert_close(capacity.integrate(v.expand(3, -1)), by_definition(capacity, v.expand(3, -1)))

    @given(st.data())
    def test_gives_local_shapley_values_that_sum_to_the_difference(self, data):
        capacity = data.draw(capacities())
        u, baseline = data.draw(inputs_for(capacity)), data.draw(inputs_for(capacity))
        values = capacity.local_shapley(u, baseline)
        assert_close(values.sum(2), capacity.integrate(u) - capacity.integrate(baseline), **TIGHT)

    @pytest.mark.parametrize("seed", range(3))
    def test_gives_the_local_shapley_values_of_all_coalitions(self, seed):
        capacity = make(2, 2, 4, seed=seed)
        x, y = torch.rand(2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        assert_close(capacity.local_shapley(y[None], x[None])[0], shapley_by_enumeration(capacity, y, x), **TIGHT)

    @given(capacities())
    def test_from_zero_to_one_gives_the_global_shapley_values(self, capacity):
        ones = torch.ones(1, capacity.shape[1], dtype=torch.float64)
        assert_close(capacity.local_shapley(ones, 0 * ones)[0], capacity.shapley(), **TIGHT)


def removal_by_definition(capacity: FactoredCapacity, removed: Tensor, canonical: bool) -> tuple[Tensor, ...]:
    """a, b and c after removal, and the retained mass, pair by pair."""
    a, b, c = (w.clone() for w in capacity.weights())
    n_inputs = capacity.shape[1]
    for node, mask in enumerate(removed.tolist()):
        for pair, (j, l) in enumerate(torch.triu_indices(n_inputs, n_inputs, 1).T.tolist()):
            if mask[j] or mask[l]:
                common = torch.minimum(b[node, pair], c[node, pair])
                if canonical:
                    a[node, j] += common
                    a[node, l] += common
                b[node, pair] = c[node, pair] = 0
        a[node, removed[node]] = 0
    retained = a.sum(1) + b.sum(1) + c.sum(1)
    return a / retained[:, None], b / retained[:, None], c / retained[:, None], retained


@pytest.mark.parametrize("canonical", [False, True])
class TestRemoval:
    @given(st.data())
    def test_is_that_of_all_pairs(self, canonical, data):
        capacity = data.draw(capacities(min_inputs=2))
        n_nodes, n_inputs = capacity.shape
        rows = st.lists(st.booleans(), min_size=n_inputs, max_size=n_inputs)
        removed = torch.tensor(data.draw(st.lists(rows, min_size=n_nodes, max_size=n_nodes)))  # may differ by node
        a, b, c, expected = removal_by_definition(capacity, removed, canonical)
        edited, retained = capacity.without(removed, canonical=canonical)
        assert_close(retained, expected, **TIGHT)
        # a row that keeps next to nothing loses digits by the division
        for ours, theirs in zip(edited.weights(), (a, b, c), strict=True):
            assert_close(ours, theirs, equal_nan=True, rtol=1e-9, atol=1e-11)
        for part in (edited.a, edited.p, edited.q):
            some_left = ~removed.all(1)
            sums = part.sum(-1)[some_left]
            assert_close(sums, torch.ones_like(sums), **TIGHT)

    def test_drops_terms_that_are_left_empty(self, canonical):
        capacity = FactoredCapacity(
            m=torch.tensor([[0.2, 0.1, 0.3, 0.2, 0.2]], dtype=torch.float64),
            a=torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64),
            p=torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]], dtype=torch.float64),
            q=torch.tensor([[[0.0, 0.5, 0.5], [0.0, 0.0, 1.0]]], dtype=torch.float64),
        )
        removed = torch.tensor([[True, False, False]])  # all of a, and p of the first term
        edited, retained = capacity.without(removed, canonical=canonical)
        # the first term has b = 0.1 / 2 and c = 0.2 / 2 with each of the others: min(b, c) is theirs in canonical form
        expected = [0.1, 0.0, 0.3, 0.0, 0.2] if canonical else [0.0, 0.0, 0.3, 0.0, 0.2]
        assert_close(retained, torch.tensor([sum(expected)], dtype=torch.float64), **TIGHT)
        assert_close(edited.m, torch.tensor([expected], dtype=torch.float64) / sum(expected), **TIGHT)
        assert_close(edited.a, torch.tensor([[0.0, 0.5, 0.5]], dtype=torch.float64), **TIGHT)
        assert not edited.shapley()[:, 0].any()

    def test_of_everything_in_a_node_gives_nan_there(self, canonical):
        capacity = make(2, 2, 3)
        removed = torch.tensor([[True, True, True], [False, False, False]])
        edited, retained = capacity.without(removed, canonical=canonical)
        assert retained[0] == 0
        assert edited.m[0].isnan().all()
        u = torch.rand(2, 3, dtype=torch.float64)
        assert edited.integrate(u)[:, 0].isnan().all()
        assert_close(edited.integrate(u)[:, 1], capacity.integrate(u)[:, 1], **TIGHT)

    def test_of_nothing_changes_nothing(self, canonical):
        capacity = make(2, 2, 3)
        edited, retained = capacity.without(torch.zeros(2, 3, dtype=torch.bool), canonical=canonical)
        assert_close(retained, torch.ones(2, dtype=torch.float64), **TIGHT)
        assert_close(list(vars(edited).values()), list(vars(capacity).values()), **TIGHT)

    def test_one_by_one_is_removal_at_once(self, canonical):
        capacity = make(2, 2, 6)
        one, two = torch.zeros(2, 2, 6, dtype=torch.bool)
        one[:, 1], two[:, 4] = True, True
        step, first = capacity.without(one, canonical=canonical)
        step, second = step.without(two, canonical=canonical)
        at_once, retained = capacity.without(one | two, canonical=canonical)
        assert_close(first * second, retained, **TIGHT)
        assert_close(step.weights(), at_once.weights(), **TIGHT)
