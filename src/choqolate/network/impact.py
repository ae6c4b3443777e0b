"""The effect of removing each concept alone, all concepts in one pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from choqolate.network.fitted import FittedNetwork
from choqolate.network.removal import values_without_each

_VALUES = 1 << 22  # node values held at a time


def hits_without_each(
    network: FittedNetwork, u: Tensor, truth: np.ndarray, members: Sequence[np.ndarray], mode: str
) -> np.ndarray:
    """Count the rows of each group that are classified right, with all concepts and without each of them.

    Args:
        network: fitted.
        u: inputs ``(n, M)``.
        truth: class index of each row ``(n,)``.
        members: a mask ``(n,)`` for each of the G groups.
        mode: of the removal.

    Returns:
        Counts ``(G, 1 + M)``: the first column with all concepts. NaN where a removal would leave a node with nothing.
    """
    groups = [network.inputs_of([index]) for index in range(len(network.concepts))]
    hits = np.zeros((len(members), 1 + len(groups)))
    hits[:, 1:][:, [_would_empty_a_node(network, inputs) for inputs in groups]] = np.nan
    step = max(1, _VALUES // (len(groups) * max(network.n_nodes, len(network.classes))))
    for start in range(0, len(u), step):
        rows = slice(start, start + step)
        before = network.node_values(u[rows])[:, :, None]
        without = values_without_each(network.nodes, u[rows], groups, mode)
        hits[:, 1:][:, without.isnan().any(0).any(0).numpy()] = np.nan
        right = _predict(network, torch.cat([before, without], 2)) == truth[rows, None]
        hits += np.stack([right[member[rows]].sum(0) for member in members])
    return hits


def _predict(network: FittedNetwork, values: Tensor) -> np.ndarray:
    """Predicted class indices ``(B, G)`` from node values ``(B, N, G)``."""
    flat = values.transpose(1, 2).flatten(0, 1)
    scores = network.score_nodes(flat).numpy() + network.class_shift
    predicted: np.ndarray = scores.argmax(1).reshape(len(values), -1)
    return predicted


def _would_empty_a_node(network: FittedNetwork, inputs: Sequence[int]) -> bool:
    gone = network.gone.clone()
    gone[:, list(inputs)] = True
    return bool(gone.all(1).any())
