from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch
from sklearn.datasets import load_wine

import choqolate as cq
from choqolate.integral.native import without_native
from choqolate.network.adam import Adam
from choqolate.network.architecture import Architecture
from choqolate.network.module import ChoqolateNetwork


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_is_that_of_pytorch_bit_for_bit(dtype):
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, 50, 50), (7,), (1, 1)]
    ours = [torch.randn(shape, dtype=dtype, generator=generator) for shape in shapes]
    theirs = [torch.nn.Parameter(theta.clone()) for theta in ours]
    mine, its = Adam(ours, 0.1), torch.optim.Adam(theirs, lr=0.1, fused=True)
    for _ in range(20):
        gradients = [torch.randn(shape, dtype=dtype, generator=generator) for shape in shapes]
        gradients[0] = gradients[0].mT  # as autograd returns some of them
        gradients[1] = gradients[1][:1].expand(7)
        for theta, gradient in zip(theirs, gradients, strict=True):
            theta.grad = gradient.clone(memory_format=torch.contiguous_format)
        mine.step(gradients)
        its.step()
    for theta, other in zip(ours, theirs, strict=True):
        assert torch.equal(theta, other)


@pytest.mark.parametrize("options", [{}, {"interactions": "none"}, {"interactions": "factored"}])
@pytest.mark.parametrize("free_weights", [False, True])
@pytest.mark.parametrize("native", [True, False])
def test_training_takes_the_steps_of_pytorch(options, free_weights, native):
    if free_weights and options.get("interactions") == "factored":
        pytest.skip("factored weights are never free")
    X, y = load_wine(return_X_y=True)
    settings = dict(n_nodes=4, l1=0.0, dtype="float64", temperature=0.1, free_weights=free_weights, **options)
    with nullcontext() if native else without_native():
        clf = cq.ChoqolateClassifier(epochs=3, **settings).fit(X, y)
        network = ChoqolateNetwork(
            Architecture(4, free_weights=free_weights, **options), 13, 3, seeds=[0], dtype=torch.float64
        )
        optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
        z = torch.from_numpy((X - X.min(0)) / (X.max(0) - X.min(0)))
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(z)[0] / 0.1, torch.from_numpy(y)).backward()
            optimizer.step()
    for name, theta in network.parameters_of(0).items():
        torch.testing.assert_close(clf.parameters_[name], theta, rtol=1e-9, atol=1e-10)


def test_a_fit_does_not_load_the_compiler_of_pytorch():
    code = (
        "import sys, numpy as np, choqolate as cq\n"
        "X, y = np.random.default_rng(0).random((40, 20)), np.arange(40) % 2\n"
        "for form in ('pairwise', 'factored'):\n"
        "    cq.ChoqolateClassifier(epochs=1, interactions=form).fit(X, y).predict(X)\n"
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
