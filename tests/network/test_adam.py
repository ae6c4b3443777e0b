from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from choqolate.network.adam import Adam


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_is_that_of_pytorch_bit_for_bit(dtype):
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, 50, 50), (7,), (1, 1)]
    ours = [torch.randn(shape, dtype=dtype, generator=generator) for shape in shapes]
    theirs = [torch.nn.Parameter(theta.clone()) for theta in ours]
    mine, its = Adam(ours, 0.1), torch.optim.Adam(theirs, lr=0.1, fused=True)
    for _ in range(20):
        gradients = [torch.randn(shape, dtype=dtype, generator=generator) for shape in shapes]
        for theta, gradient in zip(theirs, gradients, strict=True):
            theta.grad = gradient
        mine.step(gradients)
        its.step()
    for theta, other in zip(ours, theirs, strict=True):
        assert torch.equal(theta, other)


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
