from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import choqolate as cq
from choqolate.integral import PairwiseCapacity

pytestmark = pytest.mark.usefixtures("kernel")
FORMS = ["pairwise", "factored", "none"]


def a_layer(interactions: str, n_inputs: int = 6, n_nodes: int = 3, **options) -> cq.ChoquetLayer:
    generator = torch.Generator().manual_seed(1)
    return cq.ChoquetLayer(n_inputs, n_nodes, interactions, generator=generator, dtype=torch.float64, **options)


@pytest.mark.parametrize("interactions", FORMS)
@given(seed=st.integers(0, 1000), learning_rate=st.sampled_from([0.1, 10.0]))
def test_integrals_stay_valid_after_any_training(interactions, seed, learning_rate):
    torch.manual_seed(seed)
    layer = a_layer(interactions)
    optimizer = torch.optim.Adam(layer.parameters(), lr=learning_rate)
    for _ in range(5):
        optimizer.zero_grad()
        (layer(torch.rand(8, 6).double()) * torch.randn(8, 3)).sum().backward()
        optimizer.step()
    a, b, c = (w.detach() for w in layer.weights())
    assert min(w.min() for w in (a, b, c)) >= 0
    torch.testing.assert_close(a.sum(1) + b.sum(1) + c.sum(1), torch.ones(3).double())
    torch.testing.assert_close(layer.shapley().sum(1), torch.ones(3).double())
    torch.testing.assert_close(layer.shapley(), cq.shapley_values(*layer.weights()))
    u, more = torch.rand(8, 6).double(), torch.rand(8, 6).double()
    values = layer(u)
    assert (layer(u + more) >= values - 1e-12).all()
    assert (values >= u.min(1, keepdim=True).values - 1e-12).all()
    assert (values <= u.max(1, keepdim=True).values + 1e-12).all()
    np.testing.assert_allclose(layer(torch.full((1, 6), 0.3).double()).detach(), np.full((1, 3), 0.3))


@pytest.mark.parametrize("interactions", FORMS)
def test_layer_is_the_integral_of_its_weights(interactions):
    layer = a_layer(interactions)
    u = torch.rand(2, 5, 6, dtype=torch.float64)
    assert layer(u).shape == (2, 5, 3)
    torch.testing.assert_close(layer(u), cq.choquet(u, *layer.weights()))


@pytest.mark.parametrize("interactions", FORMS)
def test_gradients_of_all_parameters_and_of_the_input(interactions):
    layer = a_layer(interactions, n_inputs=20 if interactions == "pairwise" else 5)
    u = torch.rand(3, layer.in_features, dtype=torch.float64, requires_grad=True)
    names, values = zip(*layer.named_parameters(), strict=True)

    def run(u, *parameters):
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (u,))

    assert torch.autograd.gradcheck(run, (u, *values), fast_mode=True)


@pytest.mark.parametrize("interactions", FORMS)
def test_values_and_interaction_mass_at_once_have_the_gradients_of_both(interactions):
    layer, u = a_layer(interactions, n_inputs=30), torch.rand(7, 30, dtype=torch.float64)
    values, mass = layer.integrate_with_mass(u)
    a, b, c = layer.weights()
    torch.testing.assert_close(mass, b.sum(1) + c.sum(1))
    slope, price = torch.rand(7, 3).double(), torch.rand(3).double()
    at_once = torch.autograd.grad((values * slope).sum() + (mass * price).sum(), list(layer.parameters()))
    written_out = (cq.choquet(u, a, b, c) * slope).sum() + ((b + c).sum(1) * price).sum()
    for mine, its in zip(
        at_once, torch.autograd.grad(written_out, list(layer.parameters()), allow_unused=True), strict=True
    ):
        torch.testing.assert_close(mine, its, rtol=1e-8, atol=1e-12)


def features(u: torch.Tensor) -> torch.Tensor:
    """phi(u) of Eq. (5): coordinates, minima, maxima."""
    j, l = torch.triu_indices(len(u), len(u), 1)
    return torch.cat([u, torch.minimum(u[j], u[l]), torch.maximum(u[j], u[l])])


@pytest.mark.parametrize("n_inputs", [5, 30])
@pytest.mark.parametrize("temperature", [1.0, 0.05])
def test_gradient_is_that_of_proposition_1_and_corollary_1(n_inputs, temperature):
    layer = a_layer("pairwise", n_inputs=n_inputs, n_nodes=4)
    u, label = torch.rand(n_inputs, dtype=torch.float64), 2
    scores = layer(u)
    F.cross_entropy(scores[None] / temperature, torch.tensor([label])).backward()
    probability = (scores / temperature).softmax(0).detach()
    phi, w = features(u), torch.cat(layer.weights(), 1).detach()
    error = probability - F.one_hot(torch.tensor(label), 4)
    expected = error[:, None] * w * (phi[None] - scores.detach()[:, None]) / temperature
    gradient = torch.cat(PairwiseCapacity(layer.theta.grad).weights(), 1)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize(
    ("interactions", "n_inputs"), [("pairwise", 5), ("pairwise", 20), ("none", 5), ("factored", 5)]
)
def test_stack_is_independent_layers_side_by_side(interactions, n_inputs):
    stack = a_layer(interactions, n_inputs=n_inputs, stack=4)
    u = torch.rand(4, 2, 7, n_inputs, dtype=torch.float64)
    values, weights = stack(u), stack.weights()
    assert values.shape == (4, 2, 7, 3)
    for index in range(4):
        alone = cq.ChoquetLayer(n_inputs, 3, interactions, dtype=torch.float64)
        alone.load_state_dict({name: theta[index] for name, theta in stack.state_dict().items()})
        torch.testing.assert_close(values[index], alone(u[index]))
        for mine, its in zip(weights, alone.weights(), strict=True):
            torch.testing.assert_close(mine[index], its)
    with pytest.raises(cq.ChoqolateError, match=rf"shape \(4, \.\.\., {n_inputs}\), got \(2, {n_inputs}\)"):
        stack(torch.rand(2, n_inputs))


@pytest.mark.parametrize("n_inputs", [7, 30])
def test_inference_mode_leaves_nothing_behind_that_training_trips_over(n_inputs):
    with torch.inference_mode():
        cq.ChoquetLayer(n_inputs, 2)(torch.rand(600, n_inputs))
    layer = cq.ChoquetLayer(n_inputs, 2)
    layer(torch.rand(900, n_inputs)).sum().backward()
    assert layer.theta.grad.isfinite().all()


def test_free_weights_are_the_parameters():
    u = torch.rand(4, 6, dtype=torch.float64)
    layer = a_layer("none", free_weights=True)
    torch.testing.assert_close(layer(u), u @ layer.theta.T)
    layer = a_layer("pairwise", free_weights=True)
    phi = torch.stack([features(row) for row in u])
    torch.testing.assert_close(layer(u), phi @ torch.cat(PairwiseCapacity(layer.theta).weights(), 1).T)


def test_a_seed_means_the_same_in_every_precision():
    single, double = (
        cq.ChoquetLayer(4, 2, generator=torch.Generator().manual_seed(3), dtype=dtype)
        for dtype in (torch.float32, torch.float64)
    )
    torch.testing.assert_close(single.theta.double(), double.theta, rtol=1e-6, atol=1e-7)


def test_is_a_module_like_any_other():
    model = torch.nn.Sequential(torch.nn.Linear(4, 30), torch.nn.Sigmoid(), cq.ChoquetLayer(30, 3))
    model(torch.rand(5, 4)).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    again = cq.ChoquetLayer(30, 3)
    again.load_state_dict(model[2].state_dict())
    assert torch.equal(again.theta, model[2].theta)
    assert "30, 3, interactions='pairwise'" in repr(model)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((4, 2, "all"), {}, "one of pairwise, factored, none, got 'all'"),
        ((0, 2), {}, "at least one input"),
        ((2.0, 2), {}, "at least one input and one output, got 2.0 and 2"),
        ((4, 0), {}, "at least one input"),
        ((4, 2, "factored"), {"rank": 0}, "rank of at least 1"),
        ((4, 2, "factored"), {"free_weights": True}, "pairwise or none"),
        ((200_000, 8), {}, r"320,000,000,000 weights.*GiB.*interactions='factored'"),
    ],
)
def test_impossible_layers_say_why(arguments, options, message):
    with pytest.raises(cq.ChoqolateError, match=message):
        cq.ChoquetLayer(*arguments, **options)


def test_much_memory_is_announced():
    with pytest.warns(cq.ChoqolateWarning, match=r"4000 inputs are 128,000,000 weights.*2\.9 GiB.*factored"):
        layer = cq.ChoquetLayer(4000, 8, device="meta")  # no numbers are drawn there
    assert layer.theta.is_meta


def test_wrong_input_width_is_named():
    with pytest.raises(cq.ChoqolateError, match=r"got \(\)"):
        cq.ChoquetLayer(4, 2)(torch.tensor(1.0))
    with pytest.raises(cq.ChoqolateError, match=r"\(\.\.\., 4\), got \(3, 5\)"):
        cq.ChoquetLayer(4, 2)(torch.rand(3, 5))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("interactions", FORMS)
def test_cuda_computes_the_same(interactions):
    layer, u = a_layer(interactions, n_inputs=40), torch.rand(600, 40, dtype=torch.float64)
    expected = layer(u)
    torch.testing.assert_close(layer.cuda()(u.cuda()).cpu(), expected)
