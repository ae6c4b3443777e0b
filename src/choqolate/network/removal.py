"""Post-hoc concept removal (CHOQ-PCR): edits of the first layer, and what they change.

Everything here works on scaled inputs ``u (B, M)``, on nodes and on inputs by index; names and scaling are the
classifier's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp
from torch import Tensor

from choqolate.errors import ChoqolateError
from choqolate.integral import AdditiveCapacity, Capacity, PairwiseCapacity
from choqolate.integral.capacity import as_shares

MODES = ("rescale", "canonical", "impute")
SMALL_REMAINDER = 0.05  # retained mass below which a node is hardly the one that was trained
_CANCELLATION = 1e-6  # retained mass below which 1 - mass loses too many digits


@dataclass(frozen=True)
class Edit:
    """One removal: which concepts, in which nodes (``None``: all), and how."""

    concepts: tuple[str, ...]
    nodes: tuple[int, ...] | None = None
    mode: str = "rescale"


@dataclass(frozen=True)
class Removal:
    """What was removed, and what each node lost and kept, relative to the model as it was trained.

    Attributes:
        edits: the removals in the order in which they were made.
        concepts: all removed concepts.
        mass_lost: weight of the terms that went, a node ``(N,)``; under ``"impute"``, that were frozen.
        mass_retained: weight of the terms that stayed, ``(N,)``, before it was rescaled to one.
        shapley_lost: Shapley values of the removed concepts in each node, summed, ``(N,)``.
        involved: weight of all terms that involve each removed concept, ``(N, K)``: :math:`2 Shap_j - a_j`.
        shapley: Shapley value of each removed concept, ``(N, K)``.
        class_shift: what recalibration adds to the class scores ``(C,)``; zeros without it.
    """

    edits: tuple[Edit, ...]
    concepts: tuple[str, ...]
    mass_lost: np.ndarray
    mass_retained: np.ndarray
    shapley_lost: np.ndarray
    involved: np.ndarray
    shapley: np.ndarray
    class_shift: np.ndarray

    def __str__(self) -> str:
        lines = [f"removed: {', '.join(self.concepts)}", "node  mass lost  retained  Shapley lost"]
        rows = zip(self.mass_lost, self.mass_retained, self.shapley_lost, strict=True)
        lines += [f"{n:4d}  {lost:9.1%}  {kept:8.1%}  {share:12.1%}" for n, (lost, kept, share) in enumerate(rows)]
        if self.class_shift.any():
            lines.append("class scores shifted by " + ", ".join(f"{shift:+.4f}" for shift in self.class_shift))
        return "\n".join(lines)


@dataclass(frozen=True)
class Nodes:
    """The first layer after edits: its capacities, and the inputs that each node sees frozen at their mean.

    Attributes:
        capacity: ``N`` capacities over ``M`` inputs.
        frozen: mask ``(N, M)``.
        means: training means of the inputs ``(M,)``.
    """

    capacity: Capacity
    frozen: Tensor
    means: Tensor

    @classmethod
    def unedited(cls, capacity: Capacity, means: Tensor) -> Nodes:
        return cls(capacity, torch.zeros(capacity.shape, dtype=torch.bool), means)

    def remove(self, removed: Tensor, mode: str) -> tuple[Nodes, Tensor]:
        """The nodes without the inputs in the mask ``(N, M)``, and the mass ``(N,)`` that was not zeroed in each."""
        if mode == "impute":
            return Nodes(self.capacity, self.frozen | removed, self.means), torch.ones(
                len(removed), dtype=self.means.dtype
            )
        capacity, retained = self.capacity.without(removed, canonical=mode == "canonical")
        return Nodes(capacity, self.frozen, self.means), retained

    def values(self, u: Tensor) -> Tensor:
        """Node values ``(B, N)``."""
        out = u.new_empty(len(u), self.capacity.shape[0])
        for nodes, capacity, seen in self.views(u):
            out[:, nodes] = capacity.integrate(seen)
        return out

    def moving_mass(self) -> Tensor:
        """Mass ``(N,)`` of the terms that involve nothing frozen."""
        return self.capacity.without(self.frozen)[1]

    def attributions(self) -> Tensor:
        """Shares ``(N, M)``, zero for what is frozen; rows sum to one unless all that has weight is frozen."""
        return as_shares(self.capacity.attributions().masked_fill(self.frozen, 0.0))

    def local_shapley(self, u: Tensor, baseline: Tensor) -> Tensor:
        """Exact attributions ``(B, N, M)`` of each node's change from the baseline ``(B, M)``."""
        out = u.new_empty(len(u), *self.capacity.shape)
        for nodes, capacity, seen in self.views(u):
            start = torch.where(self.frozen[nodes[0]], self.means, baseline)
            out[:, nodes] = capacity.local_shapley(seen, start)
        return out

    def views(self, u: Tensor) -> Iterator[tuple[Tensor, Capacity, Tensor]]:
        """Nodes that see the same inputs frozen: their indices, their capacities, and the inputs as they see them."""
        if not self.frozen.any():
            yield torch.arange(self.capacity.shape[0]), self.capacity, u
            return
        patterns, member_of = self.frozen.unique(dim=0, return_inverse=True)
        for index, pattern in enumerate(patterns):
            nodes = torch.nonzero(member_of == index)[:, 0]
            yield nodes, self.capacity.select(nodes), torch.where(pattern, self.means, u)


def values_without_each(nodes: Nodes, u: Tensor, groups: Sequence[Sequence[int]], mode: str) -> Tensor:
    r"""Node values ``(B, N, G)`` after removing each group of inputs alone (a concept; with its absence, two inputs).

    Removal of one input costs the terms that involve it, so from one pass of :meth:`Capacity.involvement`,

    .. math:: h^{-j}(u) = \frac{h(u) - I_j(u; u)}{1 - (2\,\mathrm{Shap}_j - a_j)}.
    """
    out = u.new_empty(len(u), nodes.capacity.shape[0], len(groups))
    for members, capacity, seen in nodes.views(u):
        out[:, members] = _values_without_each(capacity, seen, nodes.means, groups, mode)
    return out


def _values_without_each(
    capacity: Capacity, u: Tensor, means: Tensor, groups: Sequence[Sequence[int]], mode: str
) -> Tensor:
    before = capacity.integrate(u)[:, :, None]
    lost = _involvement_of_groups(capacity, u, u, groups)
    if mode == "impute":
        return before - lost + _involvement_of_groups(capacity, u, means.expand_as(u), groups)
    remaining, mass = before - lost, mass_of_groups(capacity, groups)
    if mode == "canonical":
        freed, freed_mass = _freed_by_groups(capacity, u, groups)
        remaining, mass = remaining + freed, mass - freed_mass
    if capacity.free:
        return remaining
    out = remaining / (1 - mass)
    for node, group in torch.nonzero(1 - mass < _CANCELLATION).tolist():
        removed = torch.zeros(1, capacity.shape[1], dtype=torch.bool)
        removed[0, list(groups[group])] = True
        alone, _ = capacity.select([node]).without(removed, canonical=mode == "canonical")
        out[:, node, group] = alone.integrate(u)[:, 0]
    return out


def _involvement_of_groups(capacity: Capacity, u: Tensor, v: Tensor, groups: Sequence[Sequence[int]]) -> Tensor:
    """Terms that involve a member of the group, with the members at ``v`` and all else at ``u``: ``(B, N, G)``."""
    single = capacity.involvement(u, v)
    first, second = _members(groups)
    total = single[:, :, first]
    if second is not None:
        b, c = _pair_weights(capacity, first, second)
        # each member counted the pair once, against the other's value in u; it is there once, with both at v
        total = total + single[:, :, second]
        for x, y, sign in ((v, u, -1), (u, v, -1), (v, v, +1)):
            low = torch.minimum(x[:, first], y[:, second])[:, None]
            high = torch.maximum(x[:, first], y[:, second])[:, None]
            total = total + sign * (b * low + c * high)
    return total


def mass_of_groups(capacity: Capacity, groups: Sequence[Sequence[int]]) -> Tensor:
    """Weight ``(N, G)`` of the terms that involve a member of each group."""
    mass = capacity.involved_mass()
    first, second = _members(groups)
    if second is None:
        return mass[:, first]
    b, c = _pair_weights(capacity, first, second)
    return mass[:, first] + mass[:, second] - b - c  # the pair of both members counts once


def absolute(capacity: Capacity) -> Capacity:
    """Free weights by size and as shares; capacities as they are."""
    if isinstance(capacity, PairwiseCapacity) and capacity.free:
        return PairwiseCapacity(as_shares(capacity.w.abs().flatten(1)).view_as(capacity.w))
    if isinstance(capacity, AdditiveCapacity) and capacity.free:
        return AdditiveCapacity(as_shares(capacity.a.abs()))
    return capacity


def _freed_by_groups(capacity: Capacity, u: Tensor, groups: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """What canonical removal gives to the kept members of broken pairs: values ``(B, N, G)`` and mass ``(N, G)``."""
    n_nodes = capacity.shape[0]
    values = u.new_zeros(len(u), n_nodes, len(groups))
    mass = u.new_zeros(n_nodes, len(groups))
    for index, group in enumerate(groups):
        for member in group:
            b, c = capacity.pairs(slice(member, member + 1))
            common = torch.minimum(b, c)[:, 0]
            common[:, list(group)] = 0.0
            values[:, :, index] += u @ common.T
            mass[:, index] += common.sum(1)
    return values, mass


def _members(groups: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor | None]:
    first = torch.tensor([group[0] for group in groups])
    return first, torch.tensor([group[1] for group in groups]) if len(groups[0]) == 2 else None


def _pair_weights(capacity: Capacity, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Weights b and c, each ``(N, G)``, of the pairs (first, second)."""
    columns = []
    for j, l in zip(first.tolist(), second.tolist(), strict=True):
        b, c = capacity.pairs(slice(j, j + 1))
        columns.append((b[:, 0, l], c[:, 0, l]))
    b_columns, c_columns = zip(*columns, strict=True)
    return torch.stack(b_columns, 1), torch.stack(c_columns, 1)


def match_shares(scores: np.ndarray, shares: np.ndarray) -> np.ndarray:
    r"""The shift s of the class scores for which the arg-max shares come nearest to the given ones.

    The shift minimises the convex function :math:`\sum_i \max_r (o_{ir} + s_r) - n \sum_r \pi_r s_r`, whose gradient
    is the difference between predicted and wanted counts. It is minimised with a soft maximum that hardens step by
    step, then class by class.

    Args:
        scores: class scores ``(n, C)``.
        shares: wanted shares ``(C,)``, summing to one.

    Returns:
        The shift ``(C,)``, with mean zero.

    >>> scores = np.array([[0.5, 0.4], [0.6, 0.5], [0.7, 0.5], [0.9, 0.1]])  # class 0 everywhere
    >>> (scores + match_shares(scores, np.array([0.5, 0.5]))).argmax(1)
    array([1, 1, 0, 0])
    """
    n_rows, n_classes = scores.shape
    if n_rows < n_classes:
        raise ChoqolateError(f"expected at least as many rows as classes ({n_classes}) to recalibrate on, got {n_rows}")
    wanted = shares * n_rows
    shift, best, best_error = np.zeros(n_classes), np.zeros(n_classes), np.inf

    def soft_maximum(s: np.ndarray, softness: float) -> tuple[float, np.ndarray]:
        logits = (scores + s) / softness
        level = logsumexp(logits, axis=1, keepdims=True)
        value = softness * level.sum() - wanted @ s
        return value / n_rows, (np.exp(logits - level).sum(0) - wanted) / n_rows

    for softness in max(float(scores.std()), 1e-6) * 4.0 ** -np.arange(8.0):
        options = {"maxiter": 30}
        shift = minimize(soft_maximum, shift, args=(softness,), jac=True, method="L-BFGS-B", options=options).x
    for _ in range(20):
        error = float(np.abs(_counts(scores + shift) - wanted).sum())
        if error >= best_error:
            break
        best, best_error = shift.copy(), error
        shift = _match_class_by_class(scores, shift, wanted)
    return best - best.mean()


def _counts(scores: np.ndarray) -> np.ndarray:
    return np.bincount(scores.argmax(1), minlength=scores.shape[1])


def _match_class_by_class(scores: np.ndarray, shift: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    shift, shifted = shift.copy(), scores + shift
    for r in range(len(shift)):
        others = np.delete(shifted, r, axis=1).max(1)
        needed = np.sort(others - scores[:, r])  # the shift from which each row goes to class r
        steps = np.concatenate([[needed[0] - 1.0], needed, [needed[-1] + 1.0]])
        possible = np.flatnonzero(np.diff(steps) > 0)  # counts of rows that some shift gives: ties go together
        count = possible[np.abs(possible - wanted[r]).argmin()]
        shift[r] = (steps[count] + steps[count + 1]) / 2
        shifted[:, r] = scores[:, r] + shift[r]
    return shift
