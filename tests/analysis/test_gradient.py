"""The gradient of one Choquet layer: the formulas against autograd and by hand, and the training they watch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import choqolate as cq
from choqolate.analysis import gradient_course, gradient_factors
from choqolate.analysis.gradient_course import TEMPERATURES, GradientRows, follow_training, relations


def problem(n_inputs, n_classes, n_rows=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    u = torch.rand(n_rows, n_inputs, generator=generator, dtype=torch.float64)
    targets = torch.randint(n_classes, (n_rows,), generator=generator)
    theta = 2 * torch.randn(n_classes, n_inputs**2, generator=generator, dtype=torch.float64)
    return u, targets, theta


def tiny_table(n_rows=60, n_concepts=5, n_classes=3):
    rng = np.random.default_rng(0)
    labels = np.arange(n_rows) % n_classes
    scores = rng.uniform(size=(n_rows, n_concepts))
    scores[np.arange(n_rows), labels] += 1.0
    return cq.ConceptScores(scores, [f"c{j}" for j in range(n_concepts)], labels=[f"k{label}" for label in labels])


def test_features_are_singles_then_minima_then_maxima():
    phi = gradient_factors.features(torch.tensor([[0.3, 0.1, 0.2]]))
    expected = torch.tensor([[0.3, 0.1, 0.2, 0.1, 0.2, 0.1, 0.3, 0.3, 0.2]])
    assert torch.equal(phi, expected)


@settings(max_examples=15)
@given(
    st.integers(2, 6), st.integers(2, 4), st.sampled_from([1.0, 0.1, 0.005]), st.floats(0, 1), st.integers(0, 2**31 - 1)
)
def test_gradient_is_that_of_autograd(n_inputs, n_classes, temperature, l1, seed):
    u, targets, theta = problem(n_inputs, n_classes, seed=seed)
    pairs = n_inputs * (n_inputs - 1) // 2

    def loss(theta, rows=slice(None)):
        a, b, c = theta.softmax(1).split([n_inputs, pairs, pairs], dim=1)
        return F.cross_entropy(cq.choquet(u[rows], a, b, c) / temperature, targets[rows]) + l1 * (b.sum() + c.sum())

    phi = gradient_factors.features(u)
    parts = gradient_factors.factors(theta, phi, targets, temperature)
    penalty = gradient_factors.penalty_gradient(parts.weights, n_inputs, l1)
    singly = gradient_factors.sample_gradients(parts, phi)
    tolerance = dict(rtol=1e-9, atol=1e-12 / temperature)
    for row, ours in enumerate(singly):
        torch.testing.assert_close(ours + penalty, torch.func.grad(loss)(theta, slice(row, row + 1)), **tolerance)
    ours = gradient_factors.mean_gradient(parts, phi)
    torch.testing.assert_close(ours, singly.mean(0), **tolerance)
    torch.testing.assert_close(ours + penalty, torch.func.grad(loss)(theta), **tolerance)


def test_gradient_of_one_sample_by_hand():
    # two concepts at 1 and 0, equal weights: both integrals are 1/2, both classes equally likely
    u, theta = torch.tensor([[1.0, 0.0]]), torch.zeros(2, 4)
    phi = gradient_factors.features(u)
    parts = gradient_factors.factors(theta, phi, torch.tensor([0]), temperature=0.5)
    expected = torch.tensor([[-1.0, 1.0, 1.0, -1.0], [1.0, -1.0, -1.0, 1.0]]) / 8  # 2 · 1/2 · 1/4 · 1/2
    torch.testing.assert_close(gradient_factors.mean_gradient(parts, phi), expected)


def test_penalty_pushes_pairs_down_and_singles_up_by_nothing_in_sum():
    weights = problem(4, 3)[2].softmax(1)
    gradient = gradient_factors.penalty_gradient(weights, 4, l1=0.5)
    assert (gradient[:, :4] < 0).all()
    assert (gradient[:, 4:] > 0).all()
    torch.testing.assert_close(gradient.sum(1), torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize("n_inputs", [4, 20])  # few inputs and many take different ways through the layer
@pytest.mark.parametrize("l1", [0.0, 0.5])
def test_the_ways_to_the_gradient_agree(n_inputs, l1):
    u, targets, _ = problem(n_inputs, 3, n_rows=30)
    for temperature in (1.0, 0.1, 0.005):
        found = gradient_factors.check_gradients(u, targets, temperature, l1)
        assert len(found) == 4
        exact = [relative for way, (_, relative) in found.items() if way != "finite differences"]
        assert max(exact) < 1e-11
        assert found["finite differences"][1] < 1e-5


def test_difference_sees_a_wrong_gradient():
    assert gradient_factors.difference(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0])) == (2.0, 0.5)


def test_finite_differences_of_a_polynomial():
    theta = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    found = gradient_factors.finite_differences(lambda t: (t**2).sum(), theta, [3, 0])
    torch.testing.assert_close(found, torch.tensor([8.0, 2.0], dtype=torch.float64))


def test_training_is_that_of_the_classifier():
    table = tiny_table()
    course = follow_training(GradientRows.of(table), epochs=3)
    options = dict(n_nodes=None, epochs=3, l1=0.0, dtype="float64", track=True, device="cpu")
    for run, temperature in enumerate(TEMPERATURES):
        model = cq.ChoqolateClassifier(temperature=temperature, **options).fit(table.frame, table.labels)
        np.testing.assert_allclose(course.shapley(run)[1:], model.history_["node_attributions"], atol=1e-9)


def test_relations_of_an_anchor():
    correlation = np.array([[1, 0.9, 0.1, -0.8, 0.5]] * 5)
    assert relations(correlation, 0) == [0, 1, 4, 2, 3]


def test_sizes_of_the_factors_are_those_of_the_gradients_of_the_rows():
    rows = GradientRows.of(tiny_table())
    course = follow_training(rows, epochs=2)
    sizes = gradient_course.factor_sizes(course, run=2)
    for epoch, parts in enumerate(course.parts[2]):
        assert sizes["error"][epoch] == pytest.approx(float(parts.error.abs().mean()))
        deviations = (course.phi[:, None] - parts.values[:, :, None]).abs()
        assert sizes["deviation"][epoch] == pytest.approx(float(deviations.mean()))
        weighted = (deviations * parts.weights).sum(2).mean()
        assert sizes["weighted deviation"][epoch] == pytest.approx(float(weighted))
    step = gradient_course.step_of(course, run=2, epoch=2)
    mean = gradient_factors.sample_gradients(course.parts[2][1], course.phi).mean(0)[-1]
    np.testing.assert_allclose(step.gradients, mean.abs(), atol=1e-15)


def test_of_many_rows_concepts_and_classes_those_are_watched_that_tell_the_most():
    rng = np.random.default_rng(0)
    labels = np.array([f"k{number}" for number in range(9)] + ["k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8"] * 200)
    scores = rng.normal(size=(len(labels), 60))
    telling = rng.permutation(60)[:48]
    scores[:, telling] += 3 * rng.normal(size=(9, 48))[[int(label[1]) for label in labels]]
    scores[:, 5] = 0.25
    rows = GradientRows.of(cq.ConceptScores(scores, [f"c{j}" for j in range(60)], labels=labels))
    assert rows.classes == tuple(f"k{number}" for number in range(1, 9))  # the class with one row is left out
    assert rows.u.shape == (1_000, 48)
    assert "c5" not in rows.concepts
    assert {f"c{j}" for j in telling} - {"c5"} <= set(rows.concepts)
    assert (rows.u.min(), rows.u.max()) == (0, 1)


def test_tables_with_nothing_to_watch_are_refused():
    scores = np.tile([[0.1, 0.2, 0.3], [0.2, 0.2, 0.1]], (5, 1))
    table = cq.ConceptScores(scores, ["a", "b", "c"], labels=["x", "y"] * 5)
    with pytest.raises(cq.ChoqolateError, match="three concepts whose scores differ, but there are 2 and 2"):
        GradientRows.of(table)
