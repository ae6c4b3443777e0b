"""What the removal of each concept alone would do to accuracy, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from choqolate._util.checks import as_labels, check_same_kind
from choqolate._util.progress import item_bar
from choqolate.errors import ChoqolateError
from choqolate.network.edits import Remove
from choqolate.network.fitted import FittedNetwork
from choqolate.network.removal import CANCELLATION, Nodes, WithoutEach, mass_of_groups

if TYPE_CHECKING:
    import pandas as pd

_VALUES = 1 << 22  # node values held at a time
_ROUNDING = 1e-9  # of class scores


def removal_impact(
    network: FittedNetwork, z: np.ndarray, y: Any, groups: Any = None, *, mode: str, verbose: bool = False
) -> pd.DataFrame:
    """Accuracy, and that of the worst group, after removing each concept alone.

    Args:
        network: fitted.
        z: scaled scores ``(n, M)``.
        y: labels ``(n,)``.
        groups: group of each row ``(n,)``.
        mode: of the removal.
        verbose: show progress on stderr.

    Returns:
        One row per concept: ``accuracy`` and ``accuracy_change``; with groups also ``worst_group`` and
        ``worst_group_change``. NaN where the removal would leave a node with nothing.
    """
    import pandas as pd

    truth = _class_indices(y, network.classes, len(z))
    members = _members(groups, len(z))
    hits = hits_without_each(network, network.as_inputs(z), truth, members, mode, verbose=verbose)
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
    network: FittedNetwork,
    u: Tensor,
    truth: np.ndarray,
    members: Sequence[np.ndarray],
    mode: str,
    *,
    verbose: bool = False,
) -> np.ndarray:
    """Count the rows of each group that are classified right, with all concepts and without each of them.

    A removal moves a node by no more than the weight that involves the concept, and a class by no more than its nodes.
    So a row whose class leads by more than twice that weight keeps it, and is not looked at again.

    Args:
        network: fitted.
        u: inputs ``(n, M)``.
        truth: class index of each row ``(n,)``.
        members: a mask ``(n,)`` for each of the G groups.
        mode: of the removal.
        verbose: show progress on stderr.

    Returns:
        Counts ``(G, 1 + M)``: the first column with all concepts. NaN where a removal would leave a node with nothing.
    """
    groups = [network.inputs_of([index]) for index in range(len(network.concepts))]
    scores = _class_scores(network, network.node_values(u))
    lead, reach = _lead(scores), _reach(network, groups)
    right = scores.argmax(1) == truth
    hits = np.repeat([[right[member].sum()] for member in members], 1 + len(groups), axis=1).astype(float)
    hits[:, 1:][:, _would_empty_a_node(network, groups)] = np.nan
    unsure, each = np.flatnonzero(lead <= reach.max()), WithoutEach(network.nodes, groups, mode)
    step = max(1, _VALUES // (len(groups) * max(network.n_nodes, len(network.classes))))
    with item_bar(len(unsure), "removing each concept alone", enabled=verbose) as advance:
        for start in range(0, len(unsure), step):
            rows = unsure[start : start + step]
            without = each.values(u[rows])
            hits[:, 1:][:, without.isnan().any(0).any(0).numpy()] = np.nan
            row, concept = np.nonzero(lead[rows, None] <= reach)
            other = _class_scores(network, without[row, :, concept]).argmax(1)
            change = (other == truth[rows[row]]).astype(float) - right[rows[row]]
            for member, counts in zip(members, hits, strict=True):
                counts[1:] += np.bincount(concept, weights=change * member[rows[row]], minlength=len(groups))
            advance(len(rows))
    return hits


def _class_scores(network: FittedNetwork, values: Tensor) -> np.ndarray:
    """Class scores ``(n, C)`` of node values ``(n, N)``."""
    scores: np.ndarray = network.score_nodes(values).numpy() + network.class_shift
    return scores


def _lead(scores: np.ndarray) -> np.ndarray:
    """By how much the best class of each row is ahead of the next ``(n,)``."""
    if scores.shape[1] < 2:
        return np.full(len(scores), np.inf)
    second, best = np.partition(scores, -2, axis=1)[:, -2:].T
    return best - second


def _reach(network: FittedNetwork, groups: Sequence[Sequence[int]]) -> np.ndarray:
    """The most that the removal of each group of inputs can take from a lead ``(M,)``; free weights have no bound."""
    if network.architecture.free_weights:
        return np.full(len(groups), np.inf)
    weight: Tensor = mass_of_groups(network.nodes.capacity, groups).amax(0)
    return 2 * weight.numpy() + _ROUNDING


def _would_empty_a_node(network: FittedNetwork, groups: Sequence[Sequence[int]]) -> np.ndarray:
    """Whether a node would be left with no input without each group ``(M,)``."""
    there = ~network.gone
    emptied: np.ndarray = (there[:, torch.tensor(groups)].sum(-1) == there.sum(1)[:, None]).any(0).numpy()
    return emptied


def predict_without_sets(
    network: FittedNetwork, u: Tensor, sets: Sequence[Sequence[str]], mode: str, *, verbose: bool = False
) -> list[np.ndarray | None]:
    """Predict classes after removing each of several sets of concepts, by index ``(n,)``.

    Removals that rescale are computed for all sets in one pass over the rows, see :func:`_values_without_sets`.

    Args:
        network: fitted.
        u: inputs ``(n, M)``.
        sets: concepts to remove at once.
        mode: of the removal.
        verbose: show progress on stderr.

    Returns:
        One array per set; ``None`` if a node would be left with nothing.
    """
    found: list[np.ndarray | None] = [None] * len(sets)
    at_once: dict[int, Tensor] = {}
    place = {name: index for index, name in enumerate(network.concepts)}
    for index, concepts in enumerate(sets):
        edited = _without(network, concepts, mode)  # one at a time: each has weights of its own
        if edited is None:
            continue
        if mode == "rescale" and not network.architecture.free_weights and edited.retained.min() > CANCELLATION:
            at_once[index] = torch.tensor(network.inputs_of([place[name] for name in concepts]))
            found[index] = np.empty(len(u), dtype=np.int64)
        else:
            found[index] = edited.class_scores(u).argmax(1)
    step = max(1, _VALUES // (network.n_nodes * u.shape[1]))
    with item_bar(len(u), "removing related concepts together", enabled=verbose) as advance:
        for start in range(0, len(u), step) if at_once else ():
            rows = slice(start, min(start + step, len(u)))
            values = _values_without_sets(network.nodes, u[rows], list(at_once.values()))
            for index, some in zip(at_once, values, strict=True):
                found[index][rows] = _class_scores(network, some).argmax(1)  # type: ignore[index]
            advance(rows.stop - start)
    return found


def _without(network: FittedNetwork, concepts: Sequence[str], mode: str) -> FittedNetwork | None:
    try:
        return network.edited(Remove(tuple(concepts), mode=mode))
    except ChoqolateError:
        return None


def _values_without_sets(nodes: Nodes, u: Tensor, sets: Sequence[Tensor]) -> list[Tensor]:
    r"""Node values ``(B, N)`` without each set J of inputs, rescaled; what a pair within J takes counts once.

    .. math:: h^{-J}(u) = \frac{h(u) - \sum_{j \in J} I_j(u; u)
        + \sum_{j<l \in J} b_{jl} \min(u_j, u_l) + c_{jl} \max(u_j, u_l)}
        {1 - \sum_{j \in J} D_j + \sum_{j<l \in J} (b_{jl} + c_{jl})}

    with :math:`I_j` and :math:`D_j` the terms that involve an input and their weight.
    """
    out = [u.new_empty(len(u), nodes.capacity.shape[0]) for _ in sets]
    for members, capacity, seen in nodes.views(u):
        value, involved, weight = capacity.integrate(seen), capacity.involvement(seen, seen), capacity.involved_mass()
        for inputs, values in zip(sets, out, strict=True):
            pairs, pair_weight = capacity.integrate_pairs_among(seen, inputs)
            left = 1 - weight[:, inputs].sum(-1) + pair_weight
            lost = involved[:, :, inputs].sum(-1) - pairs
            values[:, members] = (value - lost) / left
    return out
