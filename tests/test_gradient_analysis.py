"""The example on the gradient of one Choquet layer: its formulas against autograd, and all of it on a tiny table."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import choqolate as cq
from tests.scripts import load_example

example = load_example("gradient_analysis")


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
    phi = example.features(torch.tensor([[0.3, 0.1, 0.2]]))
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

    phi = example.features(u)
    parts = example.factors(theta, phi, targets, temperature)
    penalty = example.penalty_gradient(parts.weights, n_inputs, l1)
    singly = example.sample_gradients(parts, phi)
    tolerance = dict(rtol=1e-9, atol=1e-12 / temperature)
    for row, ours in enumerate(singly):
        torch.testing.assert_close(ours + penalty, torch.func.grad(loss)(theta, slice(row, row + 1)), **tolerance)
    ours = example.mean_gradient(parts, phi)
    torch.testing.assert_close(ours, singly.mean(0), **tolerance)
    torch.testing.assert_close(ours + penalty, torch.func.grad(loss)(theta), **tolerance)


def test_gradient_of_one_sample_by_hand():
    # two concepts at 1 and 0, equal weights: both integrals are 1/2, both classes equally likely
    u, theta = torch.tensor([[1.0, 0.0]]), torch.zeros(2, 4)
    phi = example.features(u)
    parts = example.factors(theta, phi, torch.tensor([0]), temperature=0.5)
    expected = torch.tensor([[-1.0, 1.0, 1.0, -1.0], [1.0, -1.0, -1.0, 1.0]]) / 8  # 2 · 1/2 · 1/4 · 1/2
    torch.testing.assert_close(example.mean_gradient(parts, phi), expected)


def test_penalty_pushes_pairs_down_and_singles_up_by_nothing_in_sum():
    weights = problem(4, 3)[2].softmax(1)
    gradient = example.penalty_gradient(weights, 4, l1=0.5)
    assert (gradient[:, :4] < 0).all()
    assert (gradient[:, 4:] > 0).all()
    torch.testing.assert_close(gradient.sum(1), torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize("n_inputs", [4, 20])  # few inputs and many take different ways through the layer
@pytest.mark.parametrize("l1", [0.0, 0.5])
def test_the_ways_to_the_gradient_agree(n_inputs, l1):
    u, targets, _ = problem(n_inputs, 3, n_rows=30)
    for temperature in example.CHECKED:
        found = example.check_gradients(u, targets, temperature, l1)
        assert len(found) == 4
        exact = [relative for way, (_, relative) in found.items() if way != "finite differences"]
        assert max(exact) < 1e-11
        assert found["finite differences"][1] < 1e-5


def test_difference_sees_a_wrong_gradient():
    assert example.difference(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0])) == (2.0, 0.5)


def test_finite_differences_of_a_polynomial():
    theta = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    found = example.finite_differences(lambda t: (t**2).sum(), theta, [3, 0])
    torch.testing.assert_close(found, torch.tensor([8.0, 2.0], dtype=torch.float64))


def test_training_is_that_of_the_classifier():
    table = tiny_table()
    u, targets = example.inputs_and_targets(table)
    course = example.follow_training(u, targets, epochs=3)
    options = dict(n_nodes=None, epochs=3, l1=0.0, dtype="float64", track=True, device="cpu")
    for run, temperature in enumerate(example.TEMPERATURES):
        model = cq.ChoqolateClassifier(temperature=temperature, **options).fit(table.frame, table.labels)
        np.testing.assert_allclose(course.shapley(run)[1:], model.history_["node_attributions"], atol=1e-9)


def test_relations_of_an_anchor():
    correlation = np.array([[1, 0.9, 0.1, -0.8, 0.5]] * 5)
    assert example.relations(correlation, 0) == [0, 1, 4, 2, 3]


def test_everything_on_a_tiny_table(tmp_path, capsys):
    example.main(tmp_path / "new", tiny_table(), epochs=4)
    said = capsys.readouterr().out
    assert "60 rows, 5 concepts, 25 features for each of 3 classes" in said
    assert "nan" not in said
    names = ["factors", "freezing", "temperature", "anchors"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(f"{name}.png" for name in names)
    assert all(str(tmp_path / "new" / f"{name}.png") in said for name in names)
