"""What the removal of each concept alone would do to accuracy, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from choqolate._util.checks import as_labels, check_same_kind
from choqolate.network.fitted import FittedNetwork
from choqolate.network.removal import values_without_each

if TYPE_CHECKING:
    import pandas as pd

_VALUES = 1 << 22  # node values held at a time


def removal_impact(network: FittedNetwork, z: np.ndarray, y: Any, groups: Any = None, *, mode: str) -> pd.DataFrame:
    """Accuracy, and that of the worst group, after removing each concept alone.

    Args:
        network: fitted.
        z: scaled scores ``(n, M)``.
        y: labels ``(n,)``.
        groups: group of each row ``(n,)``.
        mode: of the removal.

    Returns:
        One row per concept: ``accuracy`` and ``accuracy_change``; with groups also ``worst_group`` and
        ``worst_group_change``. NaN where the removal would leave a node with nothing.
    """
    import pandas as pd

    truth = _class_indices(y, network.classes, len(z))
    members = _members(groups, len(z))
    hits = hits_without_each(network, network.as_inputs(z), truth, members, mode)
    sizes = np.array([member.sum() for member in members])
    columns = {"accuracy": hits.sum(0) / sizes.sum()}
    if groups is not None:
        columns["worst_group"] = (hits / sizes[:, None]).min(0)
    table = {}
    for name, values in columns.items():
        table[name], table[f"{name}_change"] = values[1:], values[1:] - values[0]
    return pd.DataFrame(table, index=pd.Index(network.concepts, name="concept"))


def _class_indices(y: Any, classes: np.ndarray, n_rows: int) -> np.ndarray:
    """Class index of each row ``(n,)``, -1 for classes that the model does not know."""
    known = {label: index for index, label in enumerate(classes.tolist())}
    labels = as_labels(y, "y", n_rows)
    check_same_kind(labels, list(known), "y")
    return np.array([known.get(label, -1) for label in labels])


def _members(groups: Any, n_rows: int) -> list[np.ndarray]:
    """A mask of the rows of each group; one of all rows without groups."""
    membership = [0] * n_rows if groups is None else as_labels(groups, "groups", n_rows)
    position = {group: index for index, group in enumerate(dict.fromkeys(membership))}
    index = np.array([position[group] for group in membership])
    return [index == group for group in range(len(position))]


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
