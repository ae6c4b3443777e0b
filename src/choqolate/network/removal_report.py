"""What every node lost by edits, relative to the network as it was trained."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from choqolate._util.text import counted
from choqolate.network.edits import Edit, Remove, Reweight, changed_factors
from choqolate.network.removal import Nodes, absolute, mass_of_groups


@dataclass(frozen=True, repr=False)
class Removal:
    """What was removed or reweighted, and what each node lost and kept, relative to the model as it was trained.

    Attributes:
        edits: the edits in force, in the order in which they were made.
        concepts: the K removed concepts.
        mass_lost: weight of the terms that are gone, per node ``(N,)``; under ``"impute"``, that are frozen. Below zero
            where factors above one added weight.
        mass_retained: weight of the terms that stayed ``(N,)``, before it was rescaled to one.
        shapley_lost: Shapley values of the removed concepts in each node, summed, ``(N,)``.
        involved: weight of all terms that involve each removed concept, ``(N, K)``: :math:`2 Shap_j - a_j`.
        shapley: Shapley value of each removed concept, ``(N, K)``.
        class_shift: what recalibration adds to the class scores ``(C,)``; zeros without it.
        reweighted: smallest and largest factor, over the nodes, of the concepts that were reweighted, by name.
    """

    edits: tuple[Edit, ...]
    concepts: tuple[str, ...]
    mass_lost: np.ndarray
    mass_retained: np.ndarray
    shapley_lost: np.ndarray
    involved: np.ndarray
    shapley: np.ndarray
    class_shift: np.ndarray
    reweighted: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __repr__(self) -> str:
        parts = [counted(len(self.concepts), "concept") + " removed"]
        parts += [f"{len(self.reweighted):,} reweighted"] if self.reweighted else []
        return f"Removal({', '.join(parts)}; nodes keep {self.mass_retained.min():.0%} or more)"

    def __str__(self) -> str:
        lines = [f"removed: {', '.join(self.concepts)}"] if self.concepts else []
        if self.reweighted:
            factors = ", ".join(f"{name} by {factor_text(*ends)}" for name, ends in self.reweighted.items())
            lines.append(f"reweighted: {factors}")
        lines.append("node  mass lost  retained  Shapley lost")
        rows = zip(self.mass_lost, self.mass_retained, self.shapley_lost, strict=True)
        lines += [f"{n:4d}  {lost:9.1%}  {kept:8.1%}  {share:12.1%}" for n, (lost, kept, share) in enumerate(rows)]
        if self.class_shift.any():
            lines.append("class scores shifted by " + ", ".join(f"{shift:+.4f}" for shift in self.class_shift))
        return "\n".join(lines)


def factor_text(low: float, high: float) -> str:
    """One factor, or the ends of a range where nodes have different ones.

    >>> factor_text(0.3, 0.3), factor_text(2, 3)
    ('0.3', '2 to 3')
    """
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def factors_in_nodes(edits: Iterable[Edit], n_nodes: int) -> dict[str, Tensor]:
    """For each concept that edits in force affect, the product of its factors in each node ``(N,)``."""
    factors: dict[str, Tensor] = {}
    for edit in edits:
        if isinstance(edit, Remove | Reweight):
            for name, factor in changed_factors(edit).items():
                own = torch.ones(n_nodes, dtype=torch.float64)
                own[slice(None) if edit.nodes is None else list(edit.nodes)] = factor
                factors[name] = factors[name] * own if name in factors else own
    return factors


def report_removal(
    trained: Nodes,
    gone: Tensor,
    retained: Tensor,
    *,
    edits: tuple[Edit, ...],
    inputs_of: dict[str, Sequence[int]],
    reweighted: dict[str, tuple[float, float]],
    class_shift: np.ndarray,
) -> Removal:
    """Compare edited nodes with the trained ones.

    Args:
        trained: the nodes before all edits.
        gone: mask ``(N, M)`` of the removed inputs.
        retained: mass ``(N,)`` that the nodes kept.
        edits: those in force.
        inputs_of: the inputs of each removed concept.
        reweighted: smallest and largest factor of the reweighted concepts.
        class_shift: of the class scores ``(C,)``.
    """
    n_nodes, groups = trained.capacity.shape[0], list(inputs_of.values())
    shapley = involved = torch.zeros(n_nodes, 0, dtype=torch.float64)
    if groups:
        where = torch.stack([gone[:, inputs[0]] for inputs in groups], 1)  # (N, K)
        shares = trained.capacity.attributions()
        shapley = torch.stack([shares[:, list(inputs)].sum(1) for inputs in groups], 1) * where
        involved = mass_of_groups(absolute(trained.capacity), groups) * where
    return Removal(
        edits=edits,
        concepts=tuple(inputs_of),
        mass_lost=(1 - retained).numpy(),
        mass_retained=retained.numpy(),
        shapley_lost=shapley.sum(1).numpy(),
        involved=involved.numpy(),
        shapley=shapley.numpy(),
        class_shift=class_shift,
        reweighted=reweighted,
    )
