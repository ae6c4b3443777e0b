"""Plain PyTorch implementations, to measure against: gather, minimum and maximum, concatenate, one product."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ObviousLayer(nn.Module):
    """Eq. (2) and (A1) of the paper, literally: w = softmax(theta), C(u) = <w, phi(u)>."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__()
        self.theta = nn.Parameter(0.1 * torch.randn(n_outputs, n_inputs**2))
        self.n_inputs = n_inputs
        j, l = torch.triu_indices(n_inputs, n_inputs, 1)
        self.register_buffer("first", j)
        self.register_buffer("second", l)

    def forward(self, u: Tensor) -> tuple[Tensor, Tensor]:
        w = self.theta.softmax(1)
        x, y = u[:, self.first], u[:, self.second]
        phi = torch.cat([u, torch.minimum(x, y), torch.maximum(x, y)], 1)
        return phi @ w.T, w[:, self.n_inputs :].sum()


class NodeByNode(nn.Module):
    """One module per integral, each with its own features: the definition that the package NeurHCI publishes.

    A module gathers all pairs as ``(B, pairs, 2)``, takes minimum and maximum over the last axis, concatenates, and
    applies a linear layer whose weights are a softmax.
    """

    class Node(nn.Module):
        """A single integral."""

        def __init__(self, n_inputs: int) -> None:
            super().__init__()
            self.theta = nn.Parameter(torch.randn(1, n_inputs**2))

        def forward(self, u: Tensor) -> Tensor:
            members = u[:, torch.combinations(torch.arange(u.shape[1]))]
            phi = torch.cat([u, members.min(2).values, members.max(2).values], 1)
            return F.linear(phi, self.theta.softmax(1))

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__()
        self.nodes = nn.ModuleList([self.Node(n_inputs) for _ in range(n_outputs)])

    def forward(self, u: Tensor) -> Tensor:
        return torch.cat([node(u) for node in self.nodes], 1)


def fit(X: Tensor, y: Tensor, n_classes: int, *, epochs: int, n_nodes: int = 8, batch_size: int = 512) -> None:
    """The training loop of the paper with two obvious layers."""
    nodes, classes = ObviousLayer(X.shape[1], n_nodes), ObviousLayer(n_nodes, n_classes)
    optimizer = torch.optim.Adam([*nodes.parameters(), *classes.parameters()], lr=0.1)
    for _ in range(epochs):
        for batch in torch.randperm(len(X)).split(batch_size):
            values, interactions = nodes(X[batch])
            scores, _ = classes(values)
            loss = F.cross_entropy(scores / 0.005, y[batch]) + 0.01 * interactions
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
