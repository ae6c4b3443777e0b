"""Which pairs of concepts a node reads together, and which one for the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from choqolate.integral import AdditiveCapacity, Capacity

_FIRST_LOOK, _LAST_LOOK = 64, 1024  # leading concepts whose pairs are looked at, at first and at most
_NOTABLE = 0.001  # index of a pair that matters at all


@dataclass(frozen=True)
class Interaction:
    r"""A pair of inputs and its interaction index :math:`I_{jl} = b_{jl} - c_{jl}`, from -1 to 1.

    Above zero the two complement each other: it takes both. Below zero one can stand in for the other.
    """

    first: str
    second: str
    index: float

    @property
    def notable(self) -> bool:
        """Whether it is worth showing."""
        return abs(self.index) >= _NOTABLE

    @property
    def kind(self) -> str:
        """``"complement"`` or ``"substitute"``."""
        return "complement" if self.index > 0 else "substitute"


def strongest_interactions(
    capacity: Capacity, names: Sequence[str], most: int, frozen: Tensor | None = None
) -> tuple[tuple[Interaction, ...], ...]:
    r"""The ``most`` pairs of each of N capacities whose index is largest in size; those with none are left out.

    Weights are nonnegative, so :math:`|I_{jl}| \le b_{jl} + c_{jl} \le 2 \min(Shap_j, Shap_l)`: pairs of concepts with
    small Shapley values need not be looked at. Of larger vocabularies, the pairs of the 1,024 concepts with the largest
    Shapley values are. Free weights have no such bound: all these pairs are looked at.

    Args:
        capacity: ``N`` capacities over ``M`` inputs.
        names: of the M inputs.
        most: how many pairs a node.
        frozen: mask ``(N, M)`` of inputs that do not vary, and so do not interact.
    """
    if isinstance(capacity, AdditiveCapacity) or capacity.shape[1] < 2 or not most:
        return ((),) * capacity.shape[0]
    found = []
    for node in range(capacity.shape[0]):
        still = None if frozen is None else frozen[node]
        found.append(tuple(_strongest(capacity.select([node]), names, most, still)))
    return tuple(found)


def _strongest(capacity: Capacity, names: Sequence[str], most: int, frozen: Tensor | None) -> list[Interaction]:
    sizes = capacity.shapley()[0].abs()
    if frozen is not None:
        sizes = sizes.masked_fill(frozen, 0.0)
    ranked = torch.argsort(sizes, descending=True, stable=True)[:_LAST_LOOK]
    n_looked = len(ranked) if capacity.free else min(_FIRST_LOOK, len(ranked))
    while True:
        chosen = ranked[:n_looked].sort().values
        b, c = capacity.pairs_among(chosen)
        index = (b - c)[0]
        if frozen is not None:
            still = frozen[chosen]
            index = index.masked_fill(still[:, None] | still[None, :], 0.0)
        above = torch.triu_indices(n_looked, n_looked, 1)
        values = index[above[0], above[1]].numpy()
        order = np.argsort(-np.abs(values), kind="stable")[:most]
        least = abs(values[order[-1]]) if len(order) == most else 0.0
        if n_looked == len(ranked) or 2 * float(sizes[ranked[n_looked]]) <= least:
            break
        n_looked = min(2 * n_looked, len(ranked))
    pairs = ((chosen[above[0][k]], chosen[above[1][k]], values[k]) for k in order.tolist())
    return [Interaction(names[int(j)], names[int(l)], float(value)) for j, l, value in pairs if value != 0]
