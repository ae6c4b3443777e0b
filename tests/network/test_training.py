"""The loss of the training loop against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from choqolate.network.training import Objective


@pytest.fixture
def problem():
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(3, 7, 4, generator=generator, dtype=torch.float64)
    targets, weights = torch.randint(4, (7,), generator=generator), torch.rand(7, generator=generator).double()
    return scores.requires_grad_(), targets, weights


def plain(scores, targets, weights, temperature):
    """Run by run with PyTorch's cross-entropy."""
    temperatures = torch.as_tensor(temperature, dtype=scores.dtype).expand(len(scores), 1, 1)
    losses = [F.cross_entropy(run / t, targets, reduction="none") for run, t in zip(scores, temperatures, strict=True)]
    return (torch.stack(losses) * weights).mean(1)


@pytest.mark.parametrize(
    "temperature", [0.5, 0.005, torch.tensor([0.005, 0.05, 1.0], dtype=torch.float64).view(3, 1, 1)]
)
def test_cross_entropy_and_its_gradient_are_those_of_pytorch(problem, temperature):
    scores = problem[0]
    ours, expected = Objective(temperature).fit_term(*problem), plain(*problem, temperature)
    torch.testing.assert_close(ours, expected)
    direction = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    torch.testing.assert_close(
        torch.autograd.grad((ours * direction).sum(), scores), torch.autograd.grad((expected * direction).sum(), scores)
    )


def test_cross_entropy_passes_gradcheck(problem):
    scores, targets, weights = problem
    assert torch.autograd.gradcheck(lambda x: Objective(0.3).fit_term(x, targets, weights), scores)


def test_cross_entropy_of_scores_far_apart_stays_finite():
    scores = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]], requires_grad=True)
    losses = Objective(1e-4).fit_term(scores, torch.tensor([0, 0]), torch.ones(2))
    assert losses.item() == pytest.approx(5000)
    (gradient,) = torch.autograd.grad(losses.sum(), scores)
    torch.testing.assert_close(gradient, torch.tensor([[[0.0, 0.0], [-5000.0, 5000.0]]]))
