"""The two kernels of the pairwise integral against the formula written out, and against each other."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from choqolate.integral import PairwiseCapacity, blocked, native, operators, tensor_cache
from choqolate.integral.native import native_status, without_native
from choqolate.integral.operators import integrate_pairs


def random_matrix(n_nodes: int, n_inputs: int, seed: int = 0) -> torch.Tensor:
    theta = torch.randn(n_nodes, n_inputs**2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return theta.softmax(1).view(n_nodes, n_inputs, n_inputs)


def direct(u: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Eq. (2) written out: gather both members of each pair, minimum and maximum."""
    a, b, c = PairwiseCapacity(w).weights()
    j, l = torch.triu_indices(u.shape[1], u.shape[1], 1)
    return u @ a.T + torch.minimum(u[:, j], u[:, l]) @ b.T + torch.maximum(u[:, j], u[:, l]) @ c.T


def values_of(u: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return integrate_pairs(u, w, softmax=False)[0]


@pytest.fixture(params=["as shipped", "tiny blocks, tiles and four threads"])
def blocking(request, monkeypatch):
    if request.param != "as shipped":
        monkeypatch.setattr(operators, "_FORMULA_UP_TO", 0)
        monkeypatch.setattr(blocked, "_CPU_WORKSPACE", 200)
        monkeypatch.setattr(blocked, "_CHUNK", 4)
        monkeypatch.setattr(blocked, "_GROUP_WEIGHTS", 600)
        threads = torch.get_num_threads()
        torch.set_num_threads(4)
        yield
        torch.set_num_threads(threads)
    else:
        yield


@pytest.mark.parametrize("p", [1, 2, 7, 17, 33, 64])
@pytest.mark.parametrize("n_rows", [1, 9])
def test_kernel_equals_the_formula_and_its_gradients(p, n_rows, kernel, blocking):
    u = torch.rand(n_rows, p, dtype=torch.float64, requires_grad=True)
    w = random_matrix(3, p).requires_grad_()
    values, expected = values_of(u, w), direct(u, w)
    torch.testing.assert_close(values, expected, rtol=1e-12, atol=1e-14)
    direction = torch.rand_like(expected)
    ours = torch.autograd.grad((values * direction).sum(), [u, w])
    theirs = torch.autograd.grad((expected * direction).sum(), [u, w])
    for mine, its in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("p", [1, 6, 20])
@pytest.mark.parametrize("softmax", [False, True])
def test_gradcheck(p, softmax, kernel):
    u = torch.rand(4, p, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(2, p, p, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda u, w: [x for x in integrate_pairs(u, w, softmax=softmax) if x is not None], (u, weights), fast_mode=p > 6
    )


def test_gradients_at_ties_are_shared_as_pytorch_shares_them(kernel):
    u = torch.full((2, 20), 0.5, dtype=torch.float64, requires_grad=True)
    w = random_matrix(2, 20)
    (ours,) = torch.autograd.grad(values_of(u, w).sum(), u)
    (theirs,) = torch.autograd.grad(direct(u, w).sum(), u)
    torch.testing.assert_close(ours, theirs)


def test_kernel_skips_gradients_that_nobody_asked_for(monkeypatch, kernel):
    def expensive(*_):
        raise AssertionError("nobody asked for this gradient")

    u, w = torch.rand(4, 20, dtype=torch.float64), random_matrix(2, 20)
    module = native if kernel == "native" else blocked
    monkeypatch.setattr(module, "input_gradient", expensive)
    values_of(u, w.clone().requires_grad_()).sum().backward()
    monkeypatch.undo()
    monkeypatch.setattr(module, "weight_gradient", expensive)
    values_of(u.clone().requires_grad_(), w).sum().backward()


def test_kernel_leaves_its_arguments_alone(kernel):
    for n_inputs in (1, 60):
        u, w = torch.rand(512, n_inputs, dtype=torch.float64, requires_grad=True), random_matrix(2, n_inputs)
        before = u.detach().clone(), w.clone()
        values_of(u, w.requires_grad_()).sum().backward()
        assert torch.equal(u, before[0])
        assert torch.equal(w, before[1])


def test_same_bits_each_time_and_with_any_number_of_threads(kernel):
    u, theta = torch.rand(700, 90, requires_grad=True), torch.randn(11, 90, 90, requires_grad=True)

    def run(threads):
        torch.set_num_threads(threads)
        values, mass = integrate_pairs(u, theta, softmax=True)
        return values, mass, *torch.autograd.grad((values.square().sum() + mass.sum()), [u, theta])

    threads = torch.get_num_threads()
    try:
        first, again, other = run(2), run(2), run(3)
    finally:
        torch.set_num_threads(threads)
    for one, two in zip(first, again, strict=True):
        assert torch.equal(one, two)
    if kernel == "native":
        for one, two in zip(first, other, strict=True):
            assert torch.equal(one, two)


def strided(x: torch.Tensor, layout: str) -> torch.Tensor:
    """The same numbers, laid out differently in memory."""
    if layout == "transposed":
        return x.mT.contiguous().mT
    if layout == "spread":
        wide = x.new_full((*x.shape[:-1], 2 * x.shape[-1] + 1), float("nan"))
        wide[..., 1::2] = x
        return wide[..., 1::2]
    return x


def run_both(u, theta, g, g_mass, softmax):
    def run():
        values, mass = integrate_pairs(u, theta, softmax=softmax)
        loss = (values * g).sum() + (0 if mass is None else (mass * g_mass).sum())
        return values, *torch.autograd.grad(loss, [u, theta])

    natively = run()
    with without_native():
        return natively, run()


@pytest.mark.skipif(not native_status().in_use, reason=f"no native kernel: {native_status().reason}")
@settings(max_examples=50)
@given(
    st.sampled_from([torch.float32, torch.float64]),
    st.booleans(),
    st.one_of(st.integers(1, 40), st.integers(41, 300)),
    st.one_of(st.integers(1, 20), st.integers(21, 200)),
    st.one_of(st.integers(0, 70), st.integers(500, 530), st.integers(71, 1100)),
    st.sampled_from([(), (1,), (3,)]),
    st.sampled_from(["plain", "transposed", "spread"]),
    st.integers(1, 3),
    st.integers(0, 2**31),
)
def test_native_and_fallback_agree(dtype, softmax, inputs, nodes, rows, stacks, layout, threads, seed):
    while inputs**2 * nodes * max(rows, 1) > 8e6:  # large in one direction at a time, so that it stays quick
        inputs, nodes, rows = (inputs + 1) // 2, (nodes + 1) // 2, rows // 2
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*stacks, *shape, dtype=dtype, generator=generator)

    u = strided(draw(rows, inputs).sigmoid(), layout).requires_grad_()
    theta, g, g_mass = draw(nodes, inputs, inputs).requires_grad_(), strided(draw(rows, nodes), layout), draw(nodes)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        natively, otherwise = run_both(u, theta, g, g_mass, softmax)
    finally:
        torch.set_num_threads(before)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    for mine, its in zip(natively, otherwise, strict=True):
        scale = its.abs().max().item() if its.numel() else 0.0
        torch.testing.assert_close(mine, its, rtol=tolerance, atol=tolerance * scale)


def test_nan_and_infinite_parameters_do_not_pass_for_numbers(kernel):
    u = torch.rand(5, 20)
    for bad in (float("nan"), float("inf")):
        theta = torch.randn(3, 20, 20)
        theta[1, 4, 7] = bad
        values, mass = integrate_pairs(u, theta, softmax=True)
        assert values[:, 1].isnan().all()
        assert mass[1].isnan()
        assert values[:, [0, 2]].isfinite().all()
        assert mass[[0, 2]].isfinite().all()
    theta = torch.randn(3, 20, 20)
    assert integrate_pairs(u.where(u < u.max(), torch.nan), theta, softmax=True)[0].isnan().any(1).sum() == 1


def test_parameters_far_apart_underflow_to_zero(kernel):
    for dtype in (torch.float32, torch.float64):
        theta = torch.full((1, 20, 20), -2000.0, dtype=dtype)
        theta[0, 3, 3] = 2000
        theta[0, 5, 5] = -torch.inf
        u = torch.rand(6, 20, dtype=dtype)
        values, mass = integrate_pairs(u, theta, softmax=True)
        assert torch.equal(values[:, 0], u[:, 3])
        assert mass.item() == 0


@pytest.mark.skipif(not native_status().in_use, reason=f"no native kernel: {native_status().reason}")
def test_more_workspace_than_is_kept_between_calls():
    u = torch.rand(2, 1_500, requires_grad=True)
    theta = torch.randn(8, 1_500, 1_500, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert native._prepare(u, theta, True)[2].numel() > tensor_cache._MOST_KEPT
    for mine, its in zip(*run_both(u, theta, torch.rand(2, 8), torch.rand(8), softmax=True), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-5, atol=1e-5 * its.abs().max().item())
