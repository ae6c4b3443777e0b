r"""Simplification: nodes keep their heaviest terms, with a bound on how much that can change.

Let a node :math:`h` keep the terms of weight :math:`1 - e` and drop the others. With :math:`h'` the kept terms,
rescaled, and :math:`d` the weighted mean of the dropped ones,

.. math:: h = (1 - e)\, h' + e\, d, \qquad \min_j u_j \le d \le \max_j u_j,

because every term is an input, or the minimum or maximum of two. So :math:`|h - h'| \le e` for inputs in [0, 1].

A term of the second layer, an input or the minimum or maximum of two, moves by no more than the input that moves
most. So if no node n moves by more than :math:`e_n`, the score of a class moves by no more than

.. math:: \sum_j a_j e_j + \sum_{j<l} (b_{jl} + c_{jl}) \max(e_j, e_l) \le \max_n e_n,

the integral with all weights of pairs on the maximum, at e. If the second layer drops terms of weight f too, its scores
move by f more, for the same reason as the nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from choqolate._util.text import counted
from choqolate.errors import ChoqolateError
from choqolate.integral import Capacity, SparseCapacity
from choqolate.integral.functional import choquet
from choqolate.network.edits import Edit, Recalibrate, Simplify

MOST_TERMS = 1_000_000  # of a node: more are neither short nor quick
_CLASSES_AT_A_TIME = 64


@dataclass(frozen=True, repr=False, eq=False)
class Simplification:
    """What nodes keep of their terms, and how far that can move their values and the class scores, whatever the image.

    Attributes:
        edits: the simplifications that this is about: the latest, and those before it with no removal or reweighting
            in between.
        terms_before, terms: number of terms of each node before and after ``(N,)``.
        mass_dropped: weight e of the terms that were dropped ``(N,)``. The value of a node moves by no more than this.
        class_terms_before, class_terms: number of terms of each class in the second layer ``(C,)``; none without nodes.
        class_mass_dropped: weight that the second layer dropped ``(C,)``; zeros unless it was simplified too.
        bound: no class score moves by more than this ``(C,)``; at most the largest ``mass_dropped`` plus
            ``class_mass_dropped``.
    """

    edits: tuple[Simplify, ...]
    terms_before: np.ndarray
    terms: np.ndarray
    mass_dropped: np.ndarray
    class_terms_before: np.ndarray
    class_terms: np.ndarray
    class_mass_dropped: np.ndarray
    bound: np.ndarray

    def __repr__(self) -> str:
        most = counted(int(self.terms.max()), "term")
        return f"Simplification(at most {most} per node; class scores move by at most {self.bound.max():.3g})"

    def __str__(self) -> str:
        lines = ["node  terms before  terms  weight dropped"]
        rows = zip(self.terms_before, self.terms, self.mass_dropped, strict=True)
        lines += [f"{n:4d}  {before:12,}  {after:5,}  {mass:14.2%}" for n, (before, after, mass) in enumerate(rows)]
        return "\n".join([*lines, f"no class score moves by more than {self.bound.max():.4f}"])


def simplify(capacity: Capacity, edit: Simplify, what: str = "node") -> tuple[SparseCapacity, Tensor]:
    """The heaviest terms of each of N capacities, rescaled, and the mass ``(N,)`` that they had before.

    Args:
        capacity: nonnegative weights that sum to one.
        edit: how many terms, or how much of the mass.
        what: what each capacity stands for, in an error.

    Raises:
        ChoqolateError: if the mass takes more than a million terms.
    """
    most, mass = edit.max_terms or MOST_TERMS, math.inf if edit.mass is None else edit.mass
    kept, masses = [], []
    for node, n_terms in enumerate(capacity.n_terms().tolist()):
        terms = capacity.terms(node, most, mass)
        held = float(terms.weight.sum()) if len(terms.weight) < n_terms else 1.0  # of all terms exactly one
        if edit.mass is not None and held < edit.mass - 1e-9:
            raise ChoqolateError(
                f"Expected at most {MOST_TERMS:,} terms, but {what} {node} needs more to keep {100 * edit.mass:g}% of "
                "its weight. Use max_terms instead."
            )
        kept.append(terms._replace(weight=terms.weight / held))
        masses.append(held)
    return SparseCapacity.of_terms(kept, capacity.shape[1]), torch.tensor(masses, dtype=torch.float64)


def split_history(edits: Sequence[Edit]) -> tuple[tuple[Edit, ...], tuple[Edit, ...], tuple[Edit, ...]]:
    """Edits in force before, at and after the latest simplification.

    Simplifications that follow each other count as one; recalibrations between them do not part them. Without a
    simplification all edits come before it.

    >>> from choqolate.network.edits import Remove
    >>> before, at, after = split_history([Simplify(20), Remove(("sea",)), Simplify(10), Recalibrate((0.1, -0.1))])
    >>> [len(part) for part in (before, at, after)]
    [2, 1, 1]
    """
    end = max((place for place, edit in enumerate(edits, start=1) if isinstance(edit, Simplify)), default=0)
    if not end:
        return tuple(edits), (), ()
    start = end - 1
    while start and isinstance(edits[start - 1], Simplify | Recalibrate):
        start -= 1
    return tuple(edits[:start]), tuple(edits[start:end]), tuple(edits[end:])


def bound_scores(class_layer: Capacity | None, node_change: Tensor, class_dropped: Tensor) -> Tensor:
    """How far class scores move at most ``(C,)``.

    Args:
        class_layer: the second layer; ``None`` if the nodes are the classes.
        node_change: how far the nodes move at most ``(N,)``.
        class_dropped: weight that the second layer dropped ``(C,)``.
    """
    if class_layer is None:
        return node_change
    if not class_layer.interaction_mass().any():
        return class_layer.integrate(node_change[None])[0] + class_dropped
    parts = []
    for classes in torch.arange(class_layer.shape[0]).split(_CLASSES_AT_A_TIME):
        a, b, c = class_layer.select(classes).weights()
        parts.append(choquet(node_change, a, torch.zeros_like(b), b + c))
    return torch.cat(parts) + class_dropped
