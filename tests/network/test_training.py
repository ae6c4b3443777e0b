"""The loss of the training loop against PyTorch's own."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from choqolate.network.adam import Adam
from choqolate.network.architecture import Architecture
from choqolate.network.batches import RowsInMemory
from choqolate.network.module import ChoqolateNetwork
from choqolate.network.training import Objective, train


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


@pytest.mark.parametrize(
    "architecture", [Architecture(3), Architecture(None, "factored", rank=2), Architecture(2, "none")]
)
def test_the_penalty_on_parameters_is_the_sum_of_their_absolute_values(architecture):
    network = ChoqolateNetwork(architecture, 5, 2, seeds=[4, 7, 9], dtype=torch.float64)
    _, node_mass, class_mass = network.scores(torch.rand(6, 5, dtype=torch.float64))
    found = Objective(l1=0.3, l1_on="parameters").penalty(network, node_mass, class_mass)
    own = [network.parameters_of(run).values() for run in range(3)]
    assert found.tolist() == pytest.approx([0.3 * sum(theta.abs().sum().item() for theta in run) for run in own])


def trained(inputs, targets, weights, seeds, **options):
    """The parameters of each run after a short training in one batch."""
    network = ChoqolateNetwork(Architecture(3), inputs.shape[1], 2, seeds=seeds, dtype=torch.float64)
    options = {"epochs": 20, "learning_rate": 0.1} | options
    train(network, RowsInMemory(inputs, targets, weights, options.pop("batch_size", 1000)), Objective(0.1), **options)
    return [network.parameters_of(run) for run in range(len(seeds))]


@pytest.fixture
def rows():
    generator = torch.Generator().manual_seed(1)
    inputs = torch.rand(60, 5, generator=generator, dtype=torch.float64)
    return inputs, (inputs[:, 0] > inputs[:, 1]).long()


def test_the_cosine_schedule_is_that_of_pytorch(rows):
    inputs, targets = rows
    network = ChoqolateNetwork(Architecture(3), 5, 2, seeds=[4], dtype=torch.float64)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    for _ in range(20):
        optimizer.zero_grad()
        scores, node_mass, _ = network.scores(inputs)
        (F.cross_entropy(scores[0] / 0.1, targets) + 0.01 * node_mass.sum()).backward()
        optimizer.step()
        schedule.step()
    (ours,) = trained(inputs, targets, torch.ones(60).double(), [4], schedule="cosine")
    for name, theta in network.parameters_of(0).items():
        torch.testing.assert_close(ours[name], theta, rtol=1e-8, atol=1e-9)


def test_the_schedule_runs_over_all_steps_of_all_epochs(rows):
    """In batches, too, the last step is the smallest: what is left of the rate is spread over steps, not epochs."""
    seen = []

    class Watched(Adam):
        def step(self, gradients):
            seen.append(self.learning_rate)
            super().step(gradients)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("choqolate.network.training.Adam", Watched)
        trained(*rows, torch.ones(60).double(), [0], schedule="cosine", epochs=3, batch_size=25)
    assert len(seen) == 9
    assert seen == sorted(seen, reverse=True)
    assert seen[0] == 0.1
    assert seen[-1] == pytest.approx(0.1 * (1 + math.cos(math.pi * 8 / 9)) / 2)


def test_a_run_with_weights_of_its_own_trains_on_its_rows_alone(rows):
    """Rows of weight zero are as if they were not there, and the other runs do not notice."""
    inputs, targets = rows
    folds = torch.arange(60) % 3
    weights = torch.stack([(folds != fold).double() for fold in range(3)])
    together = trained(inputs, targets, weights / weights.mean(1, keepdim=True), [0, 1, 2])
    for fold, ours in enumerate(together):
        kept = folds != fold
        (alone,) = trained(inputs[kept], targets[kept], torch.ones(40).double(), [fold])
        for name, theta in alone.items():
            torch.testing.assert_close(ours[name], theta, rtol=1e-8, atol=1e-9)
