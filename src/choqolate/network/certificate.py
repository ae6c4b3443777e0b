"""Certificates: the rows for which a simplification provably keeps the predicted class."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from choqolate._util.text import counted
from choqolate.errors import ChoqolateError
from choqolate.integral import Capacity
from choqolate.integral.capacity import pair_indices
from choqolate.network.edits import Remove, Reweight, Simplify
from choqolate.network.fitted import FittedNetwork
from choqolate.network.removal import Nodes
from choqolate.network.simplification import split_history

_VALUES = 1 << 22  # values of terms held at a time
_ROUNDING = 1e-12  # a lead must exceed this


@dataclass(frozen=True, repr=False, eq=False)
class Certificate:
    r"""Rows that provably keep their predicted class after a simplification, and rows that actually keep it.

    A row is certified if no terms of the dropped weight could have led to another class before the simplification.
    Let :math:`h'` be the value of a simplified node that dropped the weight e, and u the inputs of the row. The value
    before was between :math:`(1 - e) h' + e \min_j u_j` and :math:`(1 - e) h' + e \max_j u_j`. The lead of the
    predicted class over another one is a signed sum of terms, each of which increases with the node values. Its least
    value takes positive terms at the lower ends and negative terms at the upper ends. If it is above zero for all other
    classes, the class cannot have changed. This certifies every row whose margin exceeds the sum of the bounds of the
    two classes, and more.

    Attributes:
        bound: no class score moves by more than this ``(C,)``, for any image.
        certified: whether each row is certified ``(n,)``.
        unchanged: whether each row had the same predicted class before the simplification ``(n,)``, measured.
        node_change: the largest change of a node's value on these rows.
    """

    bound: np.ndarray
    certified: np.ndarray
    unchanged: np.ndarray
    node_change: float

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.certified)

    @property
    def share(self) -> float:
        """Share of the rows that are certified."""
        return float(self.certified.mean())

    @property
    def agreement(self) -> float:
        """Share of the rows with the same predicted class as before the simplification."""
        return float(self.unchanged.mean())

    def __repr__(self) -> str:
        return f"Certificate({counted(self.rows, 'row')}, {self.share:.1%} certified, {self.agreement:.1%} unchanged)"

    def __str__(self) -> str:
        rows = counted(self.rows, "row")
        return (
            f"{self.share:.1%} of {rows} provably keep their predicted class; {self.agreement:.1%} kept it in fact. "
            f"No class score moves by more than {self.bound.max():.4f} on any image. On these rows, no node moved by "
            f"more than {self.node_change:.4f}."
        )


def certify(network: FittedNetwork, z: np.ndarray) -> Certificate:
    """Compare a simplified network with itself before the latest simplification, later recalibrations included.

    Args:
        network: simplified.
        z: scaled scores ``(n, M)``.

    Raises:
        ChoqolateError: if it is not simplified, or concepts were removed or reweighted after that.
    """
    found = network.simplification
    if found is None:
        raise ChoqolateError("Expected a simplified model to certify, but nothing was simplified. Call simplify first.")
    earlier, latest, later = split_history(network.edits_in_force)
    if any(isinstance(edit, Remove | Reweight) for edit in later):
        raise ChoqolateError(
            "Expected the simplification to be the latest change of the nodes, but concepts were removed or reweighted "
            "after it, and a certificate is about the simplification alone. Certify the model before that edit (undo), "
            "or simplify after it."
        )
    others = (edit for edit in (*latest, *later) if not isinstance(edit, Simplify))
    before = replace(network, edits=(*earlier, *others))
    dropped, class_dropped = torch.from_numpy(found.mass_dropped), torch.from_numpy(found.class_mass_dropped)
    shift = torch.from_numpy(network.class_shift)
    certified, unchanged, node_change = [], [], 0.0
    for u in network.as_inputs(z).split(max(1, _VALUES // network.n_nodes**2)):
        values, old_values = network.node_values(u), before.node_values(u)
        predicted = (network.score_nodes(values) + shift).argmax(1)
        low, high = _input_range(network.nodes, u)
        least, most = ((1 - dropped) * values + dropped * end for end in (low, high))
        leads = _least_leads(network.class_layer, least, most, predicted, class_dropped)
        leads = leads + shift[predicted, None] - shift
        leads.scatter_(1, predicted[:, None], torch.inf)
        certified.append(leads.min(1).values > _ROUNDING)
        unchanged.append(predicted == (before.score_nodes(old_values) + shift).argmax(1))
        node_change = max(node_change, float((values - old_values).abs().max()))
    return Certificate(found.bound, torch.cat(certified).numpy(), torch.cat(unchanged).numpy(), node_change)


def _input_range(nodes: Nodes, u: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest and the largest input of each row, as each node sees them, ``(B, N)``."""
    low, high = (u.new_empty(len(u), nodes.capacity.shape[0]) for _ in range(2))
    for members, _, seen in nodes.views(u):
        low[:, members], high[:, members] = (end[:, None] for end in seen.aminmax(dim=1))
    return low, high


def _least_leads(
    class_layer: Capacity | None, low: Tensor, high: Tensor, predicted: Tensor, class_dropped: Tensor
) -> Tensor:
    """The least lead ``(B, C)`` that the predicted class can have over each class, for node values in a range.

    Args:
        class_layer: the second layer, which dropped ``class_dropped (C,)`` of its weight.
        low, high: ends of the range ``(B, N)``.
        predicted: class index of each row ``(B,)``.
        class_dropped: see above.
    """
    rows = torch.arange(len(low))
    if class_layer is None:
        return low[rows, predicted][:, None] - high
    weights = _weights_of_values(class_layer) * (1 - class_dropped)[:, None]
    lowest, highest = _values(class_layer, low), _values(class_layer, high)
    leads = low.new_empty(len(low), len(weights))
    for label in predicted.unique():
        own = torch.nonzero(predicted == label)[:, 0]
        more = weights[label] - weights  # what both classes weigh alike cancels
        leads[own] = lowest[own] @ more.clamp(min=0).T + highest[own] @ more.clamp(max=0).T
    dropped_own = class_dropped[predicted] * low.amin(1)  # dropped terms lie between the least and the largest node
    return leads + dropped_own[:, None] - class_dropped * high.amax(1, keepdim=True)


def _weights_of_values(capacity: Capacity) -> Tensor:
    """Weights ``(N, T)`` of the :func:`_values`."""
    return torch.cat(capacity.weights(), 1) if capacity.interaction_mass().any() else capacity.singles()


def _values(capacity: Capacity, u: Tensor) -> Tensor:
    """Inputs and, if there are interactions, the minima and maxima of all pairs ``(B, T)``."""
    if not capacity.interaction_mass().any():
        return u
    first, second = (u[:, members] for members in pair_indices(u.shape[1]))
    return torch.cat([u, torch.minimum(first, second), torch.maximum(first, second)], 1)
