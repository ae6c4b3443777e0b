"""A start of training at which each node favors inputs that belong together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from choqolate import metrics
from choqolate.integral import ChoquetLayer

STARTS = ("random", "clusters")
HEAD_START = 0.8  # share of a node's initial weight that lies inside its cluster
MOST_LEAVES = 2_000  # inputs that are clustered pair by pair; more are first gathered around so many centers
_MOST_ROWS, _FEWER_ROWS = 5_000, 500  # rows that correlations are computed on; with more inputs than leaves


@dataclass(frozen=True)
class ClusterStart:
    r"""A head start of each node on one cluster of correlated inputs.

    Node n belongs to cluster n modulo K. The parameters :math:`\theta` of all terms inside its cluster are raised by

    .. math:: \beta = \log \frac{(T - t)\, s}{t\, (1 - s)}

    where t of the T terms lie inside, so that these begin with the share :math:`s = 0.8` of the node's weight, whatever
    the size of the cluster. Where they have more anyway, nothing is raised. No labels are needed.

    Attributes:
        clusters: the cluster of each input ``(M,)``, numbered from 0 to K - 1.

    >>> correlated = np.array([[0.0, 0.1, 1.0, 0.8], [0.5, 0.5, 0.1, 0.0], [1.0, 0.9, 0.6, 0.5]])
    >>> ClusterStart.fit(correlated, n_nodes=2).clusters
    tensor([0, 0, 1, 1])
    """

    clusters: Tensor

    @classmethod
    def fit(cls, inputs: np.ndarray, n_nodes: int) -> ClusterStart:
        """Cluster inputs ``(n, M)`` by their correlation: one cluster per node, at most one per two inputs.

        Of many rows only those that :func:`rows_to_cluster` picks are needed.
        """
        inputs = inputs[rows_to_cluster(*inputs.shape)]
        n_clusters = max(1, min(n_nodes, inputs.shape[1] // 2))
        return cls(torch.from_numpy(_cluster(inputs, n_clusters)))

    @torch.no_grad()
    def apply(self, layer: ChoquetLayer, nodes: slice) -> None:
        """Raise the parameters of some nodes of a layer in place."""
        theta = dict(layer.named_parameters())
        own = torch.arange(nodes.stop - nodes.start, device=self.clusters.device) % (int(self.clusters.max()) + 1)
        inside = self.clusters == own[:, None]  # (N, M)
        if layer.interactions == "pairwise":
            theta["theta"][nodes] += _raised(inside[:, :, None] & inside[:, None, :]).to(theta["theta"])
            return
        for name in ("theta", "theta_a", "theta_p", "theta_q"):
            if name in theta:
                raised = _raised(inside)
                theta[name][nodes] += (raised if theta[name].ndim == 2 else raised[:, None]).to(theta[name])


def rows_to_cluster(n_rows: int, n_inputs: int) -> np.ndarray:
    """Indices of the rows that inputs are clustered on, evenly spread: fewer if there are very many inputs."""
    rows = _spread(n_rows, _MOST_ROWS)
    return rows if n_inputs <= MOST_LEAVES else rows[_spread(len(rows), _FEWER_ROWS)]


def _spread(n_rows: int, most: int) -> np.ndarray:
    return np.linspace(0, n_rows - 1, min(n_rows, most)).astype(int)


def _raised(inside: Tensor) -> Tensor:
    """What is added to the parameters of each node: beta inside its cluster, 0 elsewhere."""
    terms = inside[0].numel()
    count = inside.flatten(1).sum(1).double()
    odds = HEAD_START / (1 - HEAD_START)
    beta = ((terms - count) / count * odds).clamp_min(1.0).log()
    return inside * beta.view(-1, *[1] * (inside.ndim - 1))


def _cluster(inputs: np.ndarray, n_clusters: int) -> np.ndarray:
    """Clusters of the inputs ``(M,)``, numbered in the order of their first member, by complete linkage."""
    from scipy.cluster.hierarchy import fcluster, linkage

    gathered, members = _gathered(inputs)
    distances = 1 - np.nan_to_num(metrics.concept_correlation(gathered))
    if len(distances) > 1:
        tree = linkage(distances[np.triu_indices(len(distances), 1)], method="complete")
        found = fcluster(tree, n_clusters, criterion="maxclust")[members]
    else:
        found = np.ones(inputs.shape[1], dtype=int)
    _, first, numbers = np.unique(found, return_index=True, return_inverse=True)
    order: np.ndarray = np.argsort(np.argsort(first))[numbers].astype(np.int64)
    return order


def _gathered(inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The columns to cluster, and the column that stands for each input: itself or, of very many, a k-means center."""
    n_inputs = inputs.shape[1]
    if n_inputs <= MOST_LEAVES:
        return inputs, np.arange(n_inputs)
    from sklearn.cluster import MiniBatchKMeans

    columns = inputs - inputs.mean(axis=0)
    columns /= np.maximum(np.linalg.norm(columns, axis=0), math.sqrt(np.finfo(float).tiny))
    means = MiniBatchKMeans(MOST_LEAVES, n_init=1, max_iter=5, init="random", random_state=0, batch_size=8_192)
    members = means.fit_predict(columns.T)
    used, members = np.unique(members, return_inverse=True)
    return means.cluster_centers_[used].T, members
