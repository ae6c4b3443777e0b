"""What tracing leaves behind: eager computations as they were, and programs that run elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import choqolate as cq
from choqolate.integral import blocked, formula, pairwise
from choqolate.integral.tensor_cache import kept

# all pairs at once, in blocks, and as products
FORMS = (("pairwise", 13), ("pairwise", 67), ("factored", 59))


@pytest.fixture
def nothing_kept(monkeypatch):
    """As in a new process: what other tests left behind must not hide what would be kept wrongly."""
    for module, name in ((formula, "_signs"), (blocked, "_upper_triangle"), (pairwise, "_cell_of_weight")):
        monkeypatch.setattr(module, name, kept(8)(getattr(module, name).__wrapped__))


def export(layer, u):
    torch.export.export(layer, (u,), strict=False)


def export_strictly(layer, u):
    torch.export.export(layer, (u,), strict=True)


def compile_it(layer, u):
    torch.compile(layer, backend="aot_eager")(u).sum().backward()


def run_on_fake_tensors(layer, u):
    with FakeTensorMode():
        again = cq.ChoquetLayer(layer.in_features, layer.out_features, layer.interactions)
        again(torch.rand(u.shape)).sum().backward()


def make_a_graph(layer, u):
    capacity = layer.capacity()
    parts = [part.detach() for part in vars(capacity).values() if isinstance(part, torch.Tensor)]
    make_fx(lambda x, *parts: type(capacity)(*parts).integrate(x), tracing_mode="symbolic")(u, *parts)


def values_and_gradients(layer, u):
    layer.zero_grad()
    values = layer(u)
    values.square().sum().backward()
    return values.detach(), *(theta.grad for theta in layer.parameters())


def plain_values_and_gradients(layer, u):
    """The same by the formula, pair by pair."""
    parameters = [theta.detach().clone().requires_grad_() for theta in layer.parameters()]
    low, high = torch.minimum(u[:, :, None], u[:, None, :]), torch.maximum(u[:, :, None], u[:, None, :])
    if layer.interactions == "factored":
        m, a, p, q = (theta.softmax(-1) for theta in parameters)
        minima, maxima = (torch.einsum("nrj,nrl,bjl->bnr", p, q, pairs) for pairs in (low, high))
        values = (torch.cat([(u @ a.T)[..., None], minima, maxima], -1) * m).sum(-1)
    else:
        w = parameters[0].flatten(1).softmax(1).view_as(parameters[0])
        values = torch.einsum("njl,bjl->bn", w.triu(), low) + torch.einsum("njl,bjl->bn", w.tril(-1), high)
    values.square().sum().backward()
    return values.detach(), *(theta.grad for theta in parameters)


@pytest.mark.parametrize("trace", [export, export_strictly, compile_it, run_on_fake_tensors, make_a_graph])
@pytest.mark.filterwarnings("ignore")  # of the tracers, which are not ours
def test_nothing_that_was_traced_is_kept_for_eager_calls(trace, nothing_kept):
    X, y = load_wine(return_X_y=True)

    def fit():
        return cq.ChoqolateClassifier(n_nodes=3, epochs=2, bipolar=True).fit(X, y).node_attributions_

    def trace_then_compute():
        for interactions, size in FORMS:
            layer, u = cq.ChoquetLayer(size, 3, interactions), torch.rand(40, size)
            with suppress(Exception):  # a tracer may refuse the layer, but must leave nothing behind
                trace(layer, u)
            computed, expected = values_and_gradients(layer, u), plain_values_and_gradients(layer, u)
            torch.testing.assert_close(computed, expected)
        return fit()

    with ThreadPoolExecutor(1) as fresh, ThreadPoolExecutor(1) as other:  # a new thread has no workspace yet
        np.testing.assert_array_equal(fresh.submit(trace_then_compute).result(), other.submit(fit).result())


@pytest.mark.parametrize("size", [11, 31])
def test_nothing_that_was_transformed_is_kept_for_the_next_transform(size, nothing_kept):
    layer, u = cq.ChoquetLayer(size, 3, dtype=torch.float64), torch.rand(5, size, dtype=torch.float64)

    def loss(u):
        return layer(u).square().sum()

    first, again = torch.func.grad(loss)(u), torch.func.grad(loss)(u)
    torch.testing.assert_close(again, first, rtol=0, atol=0)
    inside = torch.func.grad(lambda u: torch.func.grad(loss)(u).square().sum())(u)
    x = u.clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss(x), x, create_graph=True)
    torch.testing.assert_close(slope, first)
    torch.testing.assert_close(inside, *torch.autograd.grad(slope.square().sum(), x))


def test_an_exported_program_is_loaded_in_another_process(tmp_path):
    layer, u = cq.ChoquetLayer(20, 3), torch.rand(4, 20)
    torch.export.save(torch.export.export(layer, (u,)), tmp_path / "layer.pt2")
    torch.save(u, tmp_path / "u.pt")
    code = (
        "import sys, torch, choqolate.integral\n"
        "layer = torch.export.load(sys.argv[1] + '/layer.pt2').module()\n"
        "print(layer(torch.load(sys.argv[1] + '/u.pt')).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    torch.testing.assert_close(torch.tensor(json.loads(done.stdout)), layer(u).detach())
