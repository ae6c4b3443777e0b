"""The start of training at which each node favors one cluster of correlated inputs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import choqolate as cq
from choqolate.integral import ChoquetLayer
from choqolate.network import cluster_start
from choqolate.network.architecture import Architecture
from choqolate.network.cluster_start import ClusterStart
from choqolate.network.module import ChoqolateNetwork
from tests.small_tables import bird_scores


def planted(sizes, n_rows=200, noise=0.2, seed=0):
    """Scores of families of concepts: the members of a family follow one hidden factor."""
    rng = np.random.default_rng(seed)
    factors = rng.random((n_rows, len(sizes)))
    family = np.repeat(np.arange(len(sizes)), sizes)
    order = rng.permutation(len(family))
    return factors[:, family[order]] + noise * rng.random((n_rows, len(family))), family[order]


def same_partition(one, other):
    return len(set(zip(one, other, strict=True))) == len(set(one)) == len(set(other))


def layer_at_zero(n_inputs, n_nodes, interactions):
    layer = ChoquetLayer(n_inputs, n_nodes, interactions, rank=2, dtype=torch.float64)
    with torch.no_grad():
        for theta in layer.parameters():
            theta.zero_()
    return layer


@given(st.lists(st.integers(2, 6), min_size=2, max_size=5), st.integers(0, 5))
def test_families_of_concepts_are_found_without_labels(sizes, seed):
    inputs, family = planted(sizes, seed=seed)
    assert same_partition(ClusterStart.fit(inputs, n_nodes=len(sizes)).clusters.tolist(), family.tolist())


@pytest.mark.parametrize("interactions", ["pairwise", "factored", "none"])
def test_most_of_the_weight_of_each_node_lies_inside_its_cluster(interactions):
    clusters = torch.tensor([0, 0, 1, 1, 1, 2, 3, 3, 3, 3, 3, 3])
    layer = layer_at_zero(12, 6, interactions)
    ClusterStart(clusters).apply(layer, slice(0, 6))
    for node in range(6):
        own = clusters == node % 4
        if interactions == "pairwise":
            w = layer.theta[node].flatten().softmax(0).view(12, 12)
            assert w[own][:, own].sum().item() == pytest.approx(0.8)
            assert len(set(w[own][:, own].flatten().tolist())) == 1
        else:
            names = ["theta"] if interactions == "none" else ["theta_a", "theta_p", "theta_q"]
            for name in names:
                shares = getattr(layer, name)[node].softmax(-1)
                torch.testing.assert_close(shares[..., own].sum(-1), torch.full_like(shares[..., 0], 0.8))


def test_a_cluster_that_has_more_anyway_is_not_lowered():
    layer = layer_at_zero(6, 1, "none")
    ClusterStart(torch.tensor([0, 0, 0, 0, 0, 1])).apply(layer, slice(0, 1))
    assert layer.theta.tolist() == [[0.0] * 6]


def test_more_nodes_than_clusters_share_them_and_runs_start_alike():
    inputs, _ = planted([3, 3])
    start = ClusterStart.fit(inputs, n_nodes=5)
    assert sorted(set(start.clusters.tolist())) == [0, 1, 2]  # at most one cluster per two inputs
    network = ChoqolateNetwork(Architecture(5, "none"), 6, 2, seeds=[0, 1], start=start, dtype=torch.float64)
    plain = ChoqolateNetwork(Architecture(5, "none"), 6, 2, seeds=[0, 1], dtype=torch.float64)
    raised = network.nodes.theta - plain.nodes.theta  # the seeds draw the same numbers
    torch.testing.assert_close(raised[:5], raised[5:])
    for node in range(5):
        assert (raised[node] > 0.1).tolist() == (start.clusters == node % 3).tolist()


def test_absence_of_a_concept_goes_with_its_opposites():
    rng = np.random.default_rng(0)
    sea = rng.random(300)
    z = np.stack([sea, 1 - sea + 0.05 * rng.random(300)], axis=1)
    clusters = ClusterStart.fit(np.concatenate([z, 1 - z], axis=1), n_nodes=2).clusters.tolist()
    assert clusters == [0, 1, 1, 0]  # sea with "not land", land with "not sea"


@pytest.mark.parametrize("n_inputs", [1, 2, 3])
def test_few_inputs_and_constant_ones_have_a_start(n_inputs):
    inputs = np.random.default_rng(0).random((50, n_inputs))
    inputs[:, 0] = 0.0
    start = ClusterStart.fit(inputs, n_nodes=4)
    layer = layer_at_zero(n_inputs, 4, "pairwise")
    start.apply(layer, slice(0, 4))
    assert layer.theta.isfinite().all()


def test_very_many_inputs_are_gathered_first(monkeypatch):
    monkeypatch.setattr(cluster_start, "MOST_LEAVES", 30)
    inputs, family = planted([40, 40, 40], noise=0.02)
    assert same_partition(ClusterStart.fit(inputs, n_nodes=3).clusters.tolist(), family.tolist())


@pytest.mark.parametrize("interactions", ["pairwise", "factored", "none"])
def test_nodes_recur_more_than_from_a_random_start(interactions):
    inputs, family = planted([4, 4, 4, 4], n_rows=400, noise=0.6)
    y = (inputs[:, family == 0].mean(1) + inputs[:, family == 1].mean(1) > 1.3).astype(int)
    y += 2 * (inputs[:, family == 2].mean(1) > 0.8)
    options = dict(n_nodes=4, interactions=interactions, schedule="cosine", epochs=60, temperature=0.05)
    match = {
        init: cq.node_stability(cq.fit_runs(inputs, y, range(4), init=init, **options)).match
        for init in ("random", "clusters")
    }
    assert match["clusters"] > match["random"]


def test_without_nodes_the_start_is_random():
    X, y, _ = bird_scores()
    one, other = (
        cq.ChoqolateClassifier(n_nodes=None, init=init, epochs=3).fit(X, y) for init in ("random", "clusters")
    )
    assert (one.node_attributions_ == other.node_attributions_).all()


def test_free_weights_have_no_cluster_start():
    X, y, _ = bird_scores()
    with pytest.raises(cq.ChoqolateError, match="free_weights drops the softmax"):
        cq.ChoqolateClassifier(free_weights=True, init="clusters").fit(X, y)
