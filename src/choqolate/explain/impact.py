"""What the removal of each concept alone would do to accuracy, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate._util.checks import as_labels, check_same_kind
from choqolate.network.fitted import FittedNetwork
from choqolate.network.impact import hits_without_each

if TYPE_CHECKING:
    import pandas as pd


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
