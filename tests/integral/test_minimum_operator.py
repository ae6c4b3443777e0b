"""The operator behind a factored layer, also with inputs that were sorted before."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import choqolate as cq
from choqolate.integral import expected_minimum
from choqolate.integral.expected_minimum import sort_inputs
from choqolate.integral.factored import FactoredCapacity
from choqolate.integral.minimum_operator import expect_minima
from choqolate.integral.native import native_status, without_native

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of PyTorch's tools

N_INPUTS = 70  # several runs of running sums


def by_definition(u, p, q):
    return torch.einsum("cj,cl,bjl->bc", p, q, torch.minimum(u[:, :, None], u[:, None, :]))


@pytest.fixture
def parts():
    """u, p and q."""
    generator = torch.Generator().manual_seed(1)
    u, p, q = (torch.rand(rows, N_INPUTS, generator=generator, dtype=torch.float64) for rows in (5, 3, 3))
    return u, p / p.sum(1, keepdim=True), q / q.sum(1, keepdim=True)


@pytest.mark.parametrize("presorted", [False, True])
def test_is_registered_as_pytorch_wants_it(parts, presorted):
    u, p, q = parts
    inputs = sort_inputs(u)
    order = (inputs.order, inputs.gaps) if presorted else (None, None)
    free = (x.clone().requires_grad_() for x in (u.T.contiguous().T, p, q))
    torch.library.opcheck(torch.ops.choqolate.expected_minimum.default, (*free, *order))
    gradients = torch.ops.choqolate.expected_minimum_gradients.default
    torch.library.opcheck(gradients, (u, p, q, *order, torch.rand(5, 3, dtype=u.dtype), presorted, True))


def first_and_second_gradients(function, parts):
    parts = [x.clone().requires_grad_() for x in parts]
    values = function(*parts)
    first = torch.autograd.grad(values.square().sum(), parts, create_graph=True)
    return values, *first, *torch.autograd.grad(sum(x.square().sum() for x in first), parts)


def test_presorted_inputs_have_all_derivatives(parts):
    u, p, q = parts
    inputs, directions = sort_inputs(u), tuple(torch.rand_like(x) for x in parts)

    def presorted(u, p, q):
        return expect_minima(u, p, q, inputs)

    torch.testing.assert_close(
        first_and_second_gradients(presorted, parts), first_and_second_gradients(by_definition, parts)
    )
    torch.testing.assert_close(
        torch.func.jvp(presorted, parts, directions), torch.func.jvp(by_definition, parts, directions)
    )
    torch.testing.assert_close(
        torch.func.vmap(presorted, (None, 0, None))(u, p[:, None], q[:1]),
        by_definition(u, p, q[:1].expand(3, -1)).T[..., None],
    )


def test_maps_over_inputs_that_were_sorted_one_by_one(parts):
    u, p, q = parts
    inputs = sort_inputs(u)
    operator = torch.func.vmap(torch.ops.choqolate.expected_minimum, (0, None, None, 0, 0))
    values = operator(u[:, None], p, q, inputs.order[:, None], inputs.gaps[:, None])
    torch.testing.assert_close(values[:, 0], by_definition(u, p, q))


def test_a_compiled_layer_takes_presorted_inputs():
    layer = cq.ChoquetLayer(N_INPUTS, 4, "factored", rank=2, dtype=torch.float64)
    u = torch.rand(9, N_INPUTS, dtype=torch.float64)

    def values_and_gradients(function, *inputs):
        values, mass = function(*inputs)
        return values, mass, *torch.autograd.grad(values.square().sum() + mass.sum(), list(layer.parameters()))

    compiled = torch.compile(layer.integrate_with_mass, fullgraph=True, backend="aot_eager")
    expected = values_and_gradients(layer.integrate_with_mass, u)
    torch.testing.assert_close(values_and_gradients(compiled, u, sort_inputs(u)), expected)
    torch.testing.assert_close(values_and_gradients(layer.integrate_with_mass, u, sort_inputs(u)), expected)


def random_capacity(dtype):
    generator = torch.Generator().manual_seed(2)
    shapes = (2, 5), (2, N_INPUTS), (2, 2, N_INPUTS), (2, 2, N_INPUTS)
    return [torch.randn(shape, generator=generator).softmax(-1).to(dtype) for shape in shapes]


@pytest.mark.parametrize("presorted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_that_of_weights_and_values_alone(dtype, presorted):
    weights, u = random_capacity(dtype), torch.rand(6, N_INPUTS).to(dtype)
    values = FactoredCapacity(*weights).integrate_sorted(u, sort_inputs(u) if presorted else None)
    single = FactoredCapacity(*(part.float() for part in weights)).integrate(u.float())
    assert torch.equal(values, single.to(dtype))


def test_autocasting_changes_nothing(parts):
    weights, parts = random_capacity(torch.float32), [x.float() for x in parts]

    def values_and_gradients():
        free = [x.clone().requires_grad_() for x in parts]
        minima = expect_minima(*free)
        return FactoredCapacity(*weights).integrate(parts[0]), minima, *torch.autograd.grad(minima.sum(), free)

    expected = values_and_gradients()
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(values_and_gradients(), expected, rtol=0, atol=0)


def values_and_gradients(u, p, q, g, presorted):
    free = [x.detach().requires_grad_() for x in (u, p, q)]
    values = expect_minima(*free, sort_inputs(u) if presorted else None)
    return values, *torch.autograd.grad((values * g).sum(), free)


@pytest.mark.parametrize("precisions", ["sdss", "sdds", "ssds", "ssdd", "dsss", "dsds", "dddd"])
def test_values_and_gradients_have_the_precision_of_the_inputs(kernel, parts, precisions):
    """Of u, p, q and the sorted inputs, each in single (s) or double (d) precision."""
    dtypes = [torch.float32 if one == "s" else torch.float64 for one in precisions]
    u, p, q = (x.to(dtype).requires_grad_() for x, dtype in zip(parts, dtypes, strict=False))
    for inputs in (None, sort_inputs(u.to(dtypes[3]))):
        values = expect_minima(u, p, q, inputs)
        gradients = torch.autograd.grad(values.square().sum(), (u, p, q))
        assert [x.dtype for x in (values, *gradients)] == [u.dtype, *dtypes[:3]]
        exact = [x.detach().double().requires_grad_() for x in (u, p, q)]
        expected = by_definition(*exact)
        slopes = torch.autograd.grad(expected.square().sum(), exact)
        for mine, its in zip((values, *gradients), (expected, *slopes), strict=True):
            torch.testing.assert_close(mine.double(), its, rtol=1e-5, atol=1e-5 * float(its.abs().max()))


def test_other_rows_or_inputs_than_those_sorted_are_refused(kernel, parts):
    u, p, q = parts
    layer = cq.ChoquetLayer(N_INPUTS, 2, "factored", rank=2)
    for call in (
        lambda: expect_minima(u, p, q, sort_inputs(u[:2])),
        lambda: expect_minima(u[:2], p, q, sort_inputs(u)),
        lambda: expect_minima(u, p, q, sort_inputs(u[:, :-1])),
        lambda: layer.integrate_with_mass(u, sort_inputs(u[:2])),
    ):
        with pytest.raises(cq.ChoqolateError, match="Expected sorted inputs of the same"):
            call()
    for wrong in ((u, p[:, :-1], q[:, :-1]), (u, p, q[:2])):
        with pytest.raises(cq.ChoqolateError, match=r"Expected inputs \(B, M\)"):
            expect_minima(*wrong)


@pytest.mark.skipif(not native_status().in_use, reason=f"no native kernel: {native_status().reason}")
@settings(max_examples=40)
@given(
    st.sampled_from([torch.float32, torch.float64]),
    st.one_of(st.integers(1, 70), st.integers(71, 400)),
    st.one_of(st.integers(1, 20), st.integers(21, 70)),
    st.one_of(st.integers(0, 8), st.integers(60, 90)),
    st.sampled_from(["plain", "transposed", "ties"]),
    st.booleans(),
    st.integers(1, 5),
    st.integers(0, 2**31),
)
def test_native_and_fallback_agree(dtype, n_inputs, n_terms, n_rows, layout, presorted, threads, seed):
    generator = torch.Generator().manual_seed(seed)
    u, p, q, g = (
        torch.rand(shape, generator=generator, dtype=dtype)
        for shape in ((n_rows, n_inputs), (n_terms, n_inputs), (n_terms, n_inputs), (n_rows, n_terms))
    )
    p, q, g = p / p.sum(1, keepdim=True), q / q.sum(1, keepdim=True), g - 0.5
    if layout == "transposed":
        u, p, q, g = (x.T.contiguous().T for x in (u, p, q, g))
    elif layout == "ties":
        u = (3 * u).floor() / 2  # zeros among them
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        natively = values_and_gradients(u, p, q, g, presorted)
    finally:
        torch.set_num_threads(before)
    with without_native():
        otherwise = values_and_gradients(u, p, q, g, presorted)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    for mine, its in zip(natively, otherwise, strict=True):
        scale = its.abs().max().item() if its.numel() else 0.0
        torch.testing.assert_close(mine, its, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("n_inputs", [1, 31, 32, 33, 100])
def test_kernels_equal_the_definition_and_its_gradients(kernel, n_inputs, monkeypatch):
    monkeypatch.setattr(expected_minimum, "_WORKSPACE", 900)  # several chunks of rows, several groups of terms
    generator = torch.Generator().manual_seed(n_inputs)
    u, p, q, g = (
        torch.rand(shape, generator=generator, dtype=torch.float64)
        for shape in ((41, n_inputs), (21, n_inputs), (21, n_inputs), (41, 21))
    )
    free = [x.clone().requires_grad_() for x in (u, p, q)]
    expected = by_definition(*free)
    expected = expected, *torch.autograd.grad((expected * g).sum(), free)
    for presorted in (False, True):
        torch.testing.assert_close(values_and_gradients(u, p, q, g, presorted), expected, rtol=1e-12, atol=1e-12)


def test_single_precision_rounds_like_a_few_additions_however_many_inputs_there_are(kernel):
    generator = torch.Generator().manual_seed(3)
    u, p, q = (torch.rand(rows, 20_000, generator=generator) for rows in (3, 2, 2))
    p, q = p / p.sum(1, keepdim=True), q / q.sum(1, keepdim=True)
    exact = expect_minima(u.double(), p.double(), q.double())
    assert ((expect_minima(u, p, q) - exact).abs() <= 8 * torch.finfo(torch.float32).eps * exact).all()


def test_weight_gradients_of_many_rows_round_like_a_few_additions(kernel):
    generator = torch.Generator().manual_seed(4)
    u, p, q = (torch.rand(rows, 40, generator=generator) for rows in (2000, 80, 80))
    g = torch.ones(2000, 80)  # slopes of one sign: rounding adds up
    p, q = p / p.sum(1, keepdim=True), q / q.sum(1, keepdim=True)
    exact = values_and_gradients(*(x.double() for x in (u, p, q, g)), False)
    for mine, its in zip(values_and_gradients(u, p, q, g, False)[2:], exact[2:], strict=True):
        assert (mine - its).norm() <= 4 * torch.finfo(torch.float32).eps * its.norm()


def test_native_bits_do_not_depend_on_the_number_of_threads(kernel):
    if kernel != "native":
        pytest.skip("PyTorch divides its work by the number of threads")
    u, p, q, g = (torch.rand(shape) for shape in ((70, 900), (40, 900), (40, 900), (70, 40)))  # enough to divide
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = values_and_gradients(u, p, q, g, False)
        torch.set_num_threads(3)
        together = values_and_gradients(u, p, q, g, False)
    finally:
        torch.set_num_threads(before)
    for one, two in zip(alone, together, strict=True):
        assert torch.equal(one, two)
