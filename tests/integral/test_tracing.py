"""Whatever is traced, an eager computation afterwards gives the numbers that it gave before."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import choqolate as cq
from choqolate.integral import PairwiseCapacity

SIZES = (13, 67)  # all pairs at once, and in blocks; no other test has them, so nothing is kept for them yet


def export(layer, u):
    torch.export.export(layer, (u,), strict=False)


def export_strictly(layer, u):
    torch.export.export(layer, (u,), strict=True)


def compile_it(layer, u):
    torch.compile(layer, backend="aot_eager")(u).sum().backward()


def run_on_fake_tensors(layer, u):
    with FakeTensorMode():
        cq.ChoquetLayer(layer.in_features, layer.out_features)(torch.rand(u.shape)).sum().backward()


def make_a_graph(layer, u):
    weights = layer.capacity().w.detach()
    make_fx(lambda w, x: PairwiseCapacity(w).integrate(x), tracing_mode="symbolic")(weights, u)


def values_and_gradient(layer, u):
    layer.zero_grad()
    values = layer(u)
    values.square().sum().backward()
    return values.detach(), layer.theta.grad


def plain_values_and_gradient(layer, u):
    """The same by the formula, pair by pair."""
    theta = layer.theta.detach().clone().requires_grad_()
    w = theta.flatten(1).softmax(1).view_as(theta)
    j, l = torch.triu_indices(layer.in_features, layer.in_features, 1)
    low, high = torch.minimum(u[:, j], u[:, l]), torch.maximum(u[:, j], u[:, l])
    values = u @ w.diagonal(dim1=1, dim2=2).T + low @ w[:, j, l].T + high @ w[:, l, j].T
    values.square().sum().backward()
    return values.detach(), theta.grad


@pytest.mark.parametrize("trace", [export, export_strictly, compile_it, run_on_fake_tensors, make_a_graph])
@pytest.mark.filterwarnings("ignore")  # of the tracers, which are not ours
def test_nothing_that_was_traced_is_kept_for_eager_calls(trace):
    X, y = load_wine(return_X_y=True)

    def fit():
        return cq.ChoqolateClassifier(n_nodes=3, epochs=2, bipolar=True).fit(X, y).node_attributions_

    def trace_then_compute():
        for size in SIZES:
            layer, u = cq.ChoquetLayer(size, 3), torch.rand(40, size)
            with suppress(Exception):  # a tracer may refuse the layer, but must leave nothing behind
                trace(layer, u)
            computed, expected = values_and_gradient(layer, u), plain_values_and_gradient(layer, u)
            torch.testing.assert_close(computed, expected)
        return fit()

    with ThreadPoolExecutor(1) as fresh, ThreadPoolExecutor(1) as other:  # a new thread has no workspace yet
        np.testing.assert_array_equal(fresh.submit(trace_then_compute).result(), other.submit(fit).result())
