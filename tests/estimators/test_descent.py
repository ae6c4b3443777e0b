from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from choqolate.baselines import PCBM
from choqolate.estimators.descent import ElasticNet, ProximalAdam, apply_layer, draw_layers
from tests.baselines.methods import noisy_labels, scale

SHAPES = [(3, 4, 5), (3, 4), (3,)]


def draw(shapes=SHAPES, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]


def loss_of(parameters, step):
    """Something bumpy that changes from step to step, as batches do."""
    return sum(((theta - 0.1 * step).square() + theta.sin() * (step + 1)).sum() for theta in parameters)


@pytest.mark.parametrize("penalised", [False, True])
def test_without_penalty_it_is_adam_step_by_step(penalised):
    rates = [0.1, 0.01, 0.5]
    ours, theirs = draw(), draw()
    net = ElasticNet(torch.zeros(3).double(), torch.zeros(3).double(), ours[:2]) if penalised else None
    adam = ProximalAdam(ours, torch.tensor(rates, dtype=torch.float64), net)
    oracles = []
    for run, rate in enumerate(rates):
        own = [theta[run].detach().clone().requires_grad_() for theta in theirs]
        oracles.append((own, torch.optim.Adam(own, lr=rate)))
    for step in range(25):
        for theta in ours:
            theta.grad = None
        loss_of(ours, step).backward()
        adam.step()
        for run, (own, oracle) in enumerate(oracles):
            oracle.zero_grad()
            loss_of(own, step).backward()
            oracle.step()
            for theta, expected in zip(ours, own, strict=True):
                np.testing.assert_allclose(theta[run].detach(), expected.detach(), rtol=1e-10, atol=1e-13)


@settings(max_examples=5, deadline=None)
@given(
    target=st.lists(st.floats(-2, 2), min_size=4, max_size=4),
    l1=st.floats(0.05, 1.5),
    l2=st.floats(0.0, 2.0),
)
def test_the_limit_is_the_minimum_of_the_penalised_objective(target, l1, l2):
    curvature = torch.tensor([0.5, 1.0, 2.0, 4.0], dtype=torch.float64)
    target = torch.tensor(target, dtype=torch.float64)
    theta = torch.full((2, 4), 0.7, dtype=torch.float64, requires_grad=True)
    strengths = torch.tensor([l1, 0.0], dtype=torch.float64), torch.tensor([l2, 0.0], dtype=torch.float64)
    adam = ProximalAdam([theta], torch.tensor([0.1, 0.1], dtype=torch.float64), ElasticNet(*strengths, [theta]))
    for _ in range(500):
        theta.grad = None
        (curvature / 2 * (theta - target).square()).sum().backward()
        adam.step()
    pull = curvature * target  # of a separable quadratic the minimum is known
    expected = pull.sign() * (pull.abs() - l1).clamp(min=0) / (curvature + l2)
    np.testing.assert_allclose(theta[0].detach(), expected, atol=1e-4)
    assert (theta[0] == 0)[pull.abs() < 0.99 * l1].all()
    np.testing.assert_allclose(theta[1].detach(), target, atol=1e-4)


def test_only_the_covered_parameters_are_penalised():
    W, b = torch.full((1, 2), 0.01, requires_grad=True), torch.full((1, 2), 0.01, requires_grad=True)
    W.grad, b.grad = torch.full((1, 2), 1e-3), torch.full((1, 2), 1e-3)
    adam = ProximalAdam([W, b], torch.tensor([1e-3]), ElasticNet(torch.tensor([1.0]), torch.tensor([0.0]), [W]))
    adam.step()
    assert (W == 0).all()
    np.testing.assert_allclose(b.detach(), 0.009, rtol=1e-4)


def test_a_penalty_by_hand():
    W, V = torch.tensor([[[1.0, -2.0]], [[0.0, 3.0]]]), torch.tensor([[[4.0]], [[-1.0]]])
    net = ElasticNet(torch.tensor([0.1, 1.0]), torch.tensor([2.0, 0.0]), [W, V])
    assert net.values().tolist() == pytest.approx([0.1 * 7 + 1 + 4 + 16, 4.0])


def test_forgetting_starts_the_moments_anew():
    theta = torch.tensor([[1.0, 1.0]], requires_grad=True)
    adam = ProximalAdam([theta], torch.tensor([0.1]))
    theta.grad = torch.tensor([[5.0, 5.0]])
    adam.step()
    adam.forget(theta, torch.tensor([[True, False]]))
    theta.grad = torch.zeros(1, 2)
    adam.step()
    assert theta[0, 0].item() == pytest.approx(0.9)  # at rest, while the other one goes on
    assert theta[0, 1].item() < 0.85


def test_layers_of_runs_are_those_of_torch():
    W, b = draw_layers([torch.Generator().manual_seed(seed) for seed in (3, 4)], [5, 2])
    x = torch.rand(7, 5, dtype=torch.float64)
    own = torch.stack([x, x + 1])
    for run in (0, 1):
        expected = torch.nn.functional.linear(x, W[run], b[run])
        torch.testing.assert_close(apply_layer(x, W, b)[run], expected)
        expected = torch.nn.functional.linear(x + run, W[run], b[run])
        torch.testing.assert_close(apply_layer(own, W, b)[run], expected)


def test_the_loss_of_the_history_counts_the_penalty():
    X, y = noisy_labels()
    model = PCBM(n_nodes=4, penalty=0.3, l1_ratio=0.6, epochs=1, learning_rate=1e-12, batch_size=90).fit(X, y)
    W, V = model.node_attributions_, model.class_attributions_
    scores = (scale(X, X) @ W.T + model.node_intercepts_) @ V.T + model.class_intercepts_
    cross_entropy = np.mean(np.log(np.exp(scores).sum(1)) - scores[np.arange(300), y])
    net = sum(0.6 * np.abs(U).sum() + 0.2 * (U**2).sum() for U in (W, V))
    assert model.history_["loss"] == pytest.approx([cross_entropy + 0.3 * net], abs=1e-8)
