"""Nodes found again in other runs, and the weight on pairs: against loops, and against the layer's own."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import choqolate as cq
from choqolate import metrics

seeds = st.integers(0, 2**32 - 1)


def cosine(v, w):
    return sum(abs(a * b) for a, b in zip(v, w, strict=True)) / (np.linalg.norm(v) * np.linalg.norm(w))


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(2, 4), st.floats(0.3, 0.99))
def test_recurrence_is_that_of_the_best_of_all_pairings(seed, n_runs, threshold):
    runs = np.random.default_rng(seed).normal(size=(n_runs, 3, 4))
    found = metrics.node_recurrence(runs, threshold)
    for r, one in enumerate(runs):
        values = []
        for other in (other for s, other in enumerate(runs) if s != r):
            best = max(permutations(range(3)), key=lambda p: sum(cosine(one[n], other[p[n]]) for n in range(3)))
            values.append([cosine(one[n], other[best[n]]) for n in range(3)])
        np.testing.assert_allclose(found.similarity[r], np.mean(values, axis=0), atol=1e-12)
        np.testing.assert_allclose(found.recurrence[r], np.mean(np.array(values) >= threshold, axis=0), atol=1e-12)


def test_the_stability_of_runs_is_this_metric():
    X = np.random.default_rng(0).random((60, 5))
    runs = cq.fit_runs(X, np.arange(60) % 3, seeds=range(3), n_nodes=3, epochs=3)
    found, said = metrics.node_recurrence([run.node_attributions_ for run in runs]), cq.node_stability(runs)
    np.testing.assert_array_equal(found.recurrence, said.recurrence)
    np.testing.assert_array_equal(found.similarity, said.similarity)


def test_nodes_without_weights_do_not_count():
    """Methods become sparse by giving nodes up: those that are left may well recur."""
    sparse = np.vstack([np.eye(5), np.zeros((3, 5))])

    found = metrics.node_recurrence([sparse, sparse[::-1], sparse])

    assert np.nanmean(found.recurrence) == np.nanmean(found.similarity) == 1
    assert np.isnan(found.recurrence).sum(axis=1).tolist() == [3, 3, 3]
    np.testing.assert_array_equal(np.isnan(found.similarity[1]), [True] * 3 + [False] * 5)
    lost = metrics.node_recurrence([np.eye(2), np.diag([1.0, 0.0])])
    np.testing.assert_array_equal(lost.recurrence, [[1, 0], [1, np.nan]])


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([np.eye(3)], "runs: expected at least two runs to compare, got 1"),
        ([np.eye(3), np.eye(4)], r"runs: expected the same number .* got \(3, 3\), \(4, 4\)"),
        ([np.eye(2), np.full((2, 2), np.inf)], "runs: expected finite numbers"),
    ],
)
def test_runs_that_cannot_be_compared(runs, message):
    with pytest.raises(cq.ChoqolateError, match=message):
        metrics.node_recurrence(runs)


@pytest.mark.parametrize("options", [{}, {"interactions": "none"}, {"interactions": "factored", "rank": 2}])
def test_interaction_mass_is_that_of_the_layer(options):
    torch.manual_seed(0)
    layer = cq.ChoquetLayer(5, 3, dtype=torch.float64, **options)
    with torch.no_grad():
        for theta in layer.parameters():
            theta += torch.randn_like(theta)
    found = metrics.interaction_mass(*layer.weights())
    np.testing.assert_allclose(found, layer.capacity().interaction_mass().detach(), atol=1e-12)
    assert (found == 0).all() == (options.get("interactions") == "none")


def test_interaction_mass_is_a_share_of_sizes():
    a, b, c = [2.0, -1.0, 0.0], [-1.0, 0.0, 2.0], [0.0, 0.0, -2.0]
    assert metrics.interaction_mass(a, b, c) == pytest.approx(5 / 8)
    np.testing.assert_allclose(metrics.interaction_mass([a, a], [b, b], [c, np.zeros(3)]), [5 / 8, 3 / 6])
    assert np.isnan(metrics.interaction_mass([0.0], [], []))
    assert metrics.interaction_mass([1.0], [], []) == 0
    with pytest.raises(cq.ChoqolateError, match=r"c: expected shape \(3,\), a weight for each pair, got \(2,\)"):
        metrics.interaction_mass(a, b, c[:2])
