"""The smallest set of concepts without which an image would be put into another class."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from choqolate._util.checks import check_choice, check_number
from choqolate._util.text import listed
from choqolate.data.rows import class_index
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.explain.model_protocols import ChoquetModel, check_choquet_model
from choqolate.integral import Capacity
from choqolate.network.fitted import FittedNetwork
from choqolate.network.removal import MODES, Nodes

EXACT_UP_TO = 3  # concepts: all sets of so many are tried
MOST_SETS = 4_000_000  # of one size that are tried: those of three of 289 concepts
_BLOCK = 1 << 15  # sets whose scores are computed at a time
_ROUNDING = 1e-12  # a lead that is smaller is a tie
_NOTHING = 1e-9  # retained mass of a node that is nothing but rounding


@dataclass(frozen=True)
class Counterfactual:
    """What had to go for the prediction to change.

    Attributes:
        concepts: the concepts to remove; empty if no set was found.
        before: the class predicted with all concepts.
        after: the class predicted without them; ``None`` if no set was found.
        method: ``"exact"``: no smaller set does it, and none of the same size gives the new class a larger lead;
            of those searched; ``"greedy"``: grown one by one from the best three, so a smaller set may do;
            ``"none"``: nothing was found.
        searched: how many concepts sets were made of: all that can be removed, or the most influential ones.
        complete: whether these are all of them.
        most: how many concepts a set was allowed to have.
        lead_before: by how much the score of the class before is ahead of the best other class; with a target, by how
            much the best class is ahead of the target.
        lead_after: the same after the removal: below zero.
        mode: how concepts were removed, as in ``remove_concepts``.
    """

    concepts: tuple[str, ...]
    before: object
    after: object
    method: str
    searched: int
    complete: bool
    most: int
    lead_before: float
    lead_after: float
    mode: str

    def __str__(self) -> str:
        among = "" if self.complete else f" among the {self.searched:,} most influential concepts"
        if self.method == "none":
            sets = "no single concept" if self.most == 1 else f"no set of up to {self.most} concepts"
            return f"{sets} was found{among} whose removal changes the prediction {self.before}"
        how = f"no smaller set does it{among}" if self.method == "exact" else f"found greedily{among}: fewer may do"
        said = (
            f"if the model did not read {listed(self.concepts, 20)}, it would say {self.after} instead of {self.before}"
        )
        return f"{said} ({how})"


def find_counterfactual(
    model: ChoquetModel,
    x: Any,
    *,
    target: object = None,
    mode: str = "rescale",
    most: int = 12,
    most_sets: int = MOST_SETS,
) -> Counterfactual:
    r"""The smallest set of concepts whose removal from the model changes its prediction for one image.

    All sets of one, two and three concepts are tried; if none of them does it, the best three are extended one by one.
    A node without the set J keeps, of its value and of its weight, what involves none of them:

    .. math:: h^{-J}(u) = \frac{h - \sum_{j \in J} A_j + \sum_{j<l \in J} B_{jl}}
        {1 - \sum_{j \in J} D_j + \sum_{j<l \in J} E_{jl}}

    (A, B: terms that involve a concept, a pair; D, E: their weight), so a set costs a few additions. Sets that leave a
    node with nothing, or with less than a billionth of its weight, are passed over. Where there would be more than
    ``most_sets`` sets of three, only the concepts with the largest shares are tried, and the result says so.

    Args:
        model: a fitted classifier.
        x: raw scores of one image, ``(1, M)`` or ``(M,)``, or a data frame or :class:`~choqolate.ConceptScores` with
            one row.
        target: the class to get to; by default any other one.
        mode: how concepts are removed, as in :meth:`ChoqolateClassifier.remove_concepts`.
        most: how many concepts to remove at most.
        most_sets: how many sets of one size to try at most; four million are those of three of 289 concepts.

    >>> from sklearn.datasets import load_wine
    >>> from choqolate import ChoqolateClassifier
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = ChoqolateClassifier(n_nodes=4, epochs=30).fit(X, y)
    >>> found = find_counterfactual(model, X.iloc[:1])
    >>> edited = model.remove_concepts(found.concepts)
    >>> bool(found.before != found.after == edited.predict(X.iloc[:1])[0])
    True
    """
    check_choquet_model(model, "to find a counterfactual")
    check_choice("mode", mode, MODES)
    check_number("most", most, minimum=1, whole=True)
    check_number("most_sets", most_sets, minimum=1, whole=True)
    named = isinstance(x, ConceptScores) or hasattr(x, "columns")
    u = model.network_.as_inputs(model.scale(x if named else np.atleast_2d(np.asarray(x))))
    if len(u) != 1:
        raise ChoqolateError(f"expected the scores of one image, got {len(u)} rows: take them one by one")
    search = _Search(model.network_, u, mode, target, most, most_sets)
    best: tuple[int, ...] = ()
    method = "exact"
    for size in range(1, min(most, len(search.concepts)) + 1):
        if size <= EXACT_UP_TO:
            lead, best = search.best_set(size)
        else:
            method = "greedy"
            lead, best = search.best_extension(best)
        if lead < -_ROUNDING:
            return search.result(best, method)
        if not best:  # every set leaves a node with nothing
            break
    return search.result((), "none")


class _Search:
    """Sets of concepts for one image: scores without them, from tables made once."""

    def __init__(self, network: FittedNetwork, u: Tensor, mode: str, target: object, most: int, most_sets: int) -> None:
        self.network, self.mode, self.most = network, mode, most
        scores = self._scores(network.node_values(u))
        self.before = int(scores[0].argmax())
        self.target = None if target is None else self._check_target(target)
        self.lead_before = float(self._lead(scores)[0])
        self.concepts, self.complete = self._candidates(most_sets)
        self.tables = _tables(network.nodes, u, [network.inputs_of([j]) for j in self.concepts], mode)

    def _check_target(self, target: object) -> int:
        index = class_index(self.network.classes)
        left = [name for name, place in index.items() if place != self.before]
        if str(target) not in left:
            raise ChoqolateError(f"expected a target among the other classes {listed(left)}, got {target!r}")
        return index[str(target)]

    def _candidates(self, most_sets: int) -> tuple[list[int], bool]:
        """The concepts that sets are made of, those with the largest share in a node first; and whether it is all."""
        network = self.network
        largest = network.node_attributions.max(0).reshape(-1, len(network.concepts)).max(0)
        ranked = np.argsort(-largest, kind="stable").tolist()
        gone = network.gone.all(0).tolist()
        present = [j for j in ranked if not gone[j]]
        room = len(present)
        while math.comb(room, min(self.most, EXACT_UP_TO)) > most_sets:
            room -= 1
        return present[:room], room == len(present)

    def _scores(self, values: Tensor) -> np.ndarray:
        scores: np.ndarray = self.network.score_nodes(values).numpy() + self.network.class_shift
        return scores

    def _lead(self, scores: np.ndarray) -> np.ndarray:
        """By how much the class before is ahead of all others; with a target, the best other class of the target."""
        if self.target is None:
            return scores[:, self.before] - np.delete(scores, self.before, 1).max(1)
        return np.delete(scores, self.target, 1).max(1) - scores[:, self.target]

    def best_set(self, size: int) -> tuple[float, tuple[int, ...]]:
        """The set of so many concepts, by position, with which the lead is smallest."""
        return self._best(_all_sets(len(self.concepts), size))

    def best_extension(self, chosen: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
        """The given set and the one more concept with which the lead is smallest."""
        others = [k for k in range(len(self.concepts)) if k not in chosen]
        return self._best(iter([torch.tensor([(*chosen, k) for k in others], dtype=torch.long)]))

    def _best(self, blocks: Iterator[Tensor]) -> tuple[float, tuple[int, ...]]:
        lead: float = math.inf
        best: tuple[int, ...] = ()
        for sets in blocks:
            values, valid = self.tables.values(sets)
            promising = valid & self._leave_something(sets) & (self._least_lead(values) < lead)
            sets, values = sets[promising], values[promising]
            if len(sets):
                leads = self._lead(self._scores(values))
                if leads.min() < lead:
                    lead, best = float(leads.min()), tuple(sets[int(leads.argmin())].tolist())
        return lead, best

    def _leave_something(self, sets: Tensor) -> Tensor:
        """Whether every node keeps a concept ``(S,)``, those counted that are frozen or were removed before."""
        left = ~self.network.gone[:, : len(self.network.concepts)]
        return (left.sum(1)[:, None] > left[:, self.concepts][:, sets].sum(-1)).all(0)

    def _least_lead(self, values: Tensor) -> Tensor:
        """A bound from below of the lead ``(S,)``, without the second layer, which is the larger part of the work.

        An integral rises at most as much as the input that rises most, and falls at most as
        much as the one that falls most.
        """
        if self.network.architecture.free_weights:
            return torch.full((len(values),), -math.inf, dtype=values.dtype)
        change = values - self.tables.value
        return self.lead_before - change.amax(1).clamp(min=0) + change.amin(1).clamp(max=0)

    def result(self, positions: tuple[int, ...], method: str) -> Counterfactual:
        labels, names = self.network.classes.tolist(), self.network.concepts
        after, lead = None, math.nan
        if positions:
            values, _ = self.tables.values(torch.tensor([positions]))
            scores = self._scores(values)
            after, lead = labels[int(scores[0].argmax())], float(self._lead(scores)[0])
        return Counterfactual(
            concepts=tuple(names[self.concepts[k]] for k in positions),
            before=labels[self.before],
            after=after,
            method=method,
            searched=len(self.concepts),
            complete=self.complete,
            most=self.most,
            lead_before=self.lead_before,
            lead_after=lead,
            mode=self.mode,
        )


@dataclass(frozen=True)
class _Tables:
    """What N nodes lose with each of K concepts and get back for each pair: values (A, B) and weight (D, E)."""

    value: Tensor  # (N,)
    A: Tensor  # (N, K)
    B: Tensor  # (N, K, K)
    D: Tensor  # (N, K)
    E: Tensor  # (N, K, K)
    rescaled: bool

    def values(self, sets: Tensor) -> tuple[Tensor, Tensor]:
        """Node values ``(S, N)`` without each of the sets ``(S, k)``, and whether every node keeps something."""
        numerator = self.value[:, None] - self.A[:, sets].sum(-1)
        mass = 1 - self.D[:, sets].sum(-1)
        for first, second in combinations(range(sets.shape[1]), 2):
            numerator += self.B[:, sets[:, first], sets[:, second]]
            mass += self.E[:, sets[:, first], sets[:, second]]
        if not self.rescaled:
            return numerator.T, torch.ones(len(sets), dtype=torch.bool)
        return (numerator / mass).T, (mass > _NOTHING).all(0)


def _tables(nodes: Nodes, u: Tensor, groups: Sequence[Sequence[int]], mode: str) -> _Tables:
    """Tables for one image ``u (1, M)``; a group holds the inputs of a concept: itself, or with its absence two."""
    n_nodes, n_groups = nodes.capacity.shape[0], len(groups)
    size, wide = (n_nodes, n_groups), (n_nodes, n_groups, n_groups)
    value, A, B, D, E = (u.new_zeros(shape) for shape in ((n_nodes,), size, wide, size, wide))
    for members, capacity, seen in nodes.views(u):
        value[members] = capacity.integrate(seen)[0]
        terms = _of_inputs(capacity, seen[0], nodes.means, torch.tensor(groups).T.flatten(), mode)
        A[members], B[members], D[members], E[members] = _of_groups(*terms, n_groups)
    return _Tables(value, A, B, D, E, rescaled=mode != "impute" and not nodes.capacity.free)


def _of_inputs(
    capacity: Capacity, u: Tensor, means: Tensor, inputs: Tensor, mode: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A ``(N, I)``, B ``(N, I, I)``, D and E of the inputs listed."""
    b, c = capacity.pairs_among(inputs)

    def pair(first: Tensor, second: Tensor) -> Tensor:
        return b * torch.minimum(first[:, None], second) + c * torch.maximum(first[:, None], second)

    at, mean = u[inputs], means[inputs]
    A = capacity.involvement(u[None], u[None])[0][:, inputs]
    B = pair(at, at)
    if mode == "impute":
        A = A - capacity.involvement(u[None], means[None])[0][:, inputs]
        return A, B - pair(mean, at) - pair(at, mean) + pair(mean, mean), torch.zeros_like(A), torch.zeros_like(B)
    D, E = capacity.involved_mass()[:, inputs], b + c
    if mode == "canonical":
        for place, one in enumerate(inputs.split(1)):  # the weights of all pairs at once may not fit
            freed = torch.minimum(*capacity.pairs(one))[:, 0]
            A[:, place] -= freed @ u
            D[:, place] -= freed.sum(-1)
        common = torch.minimum(b, c)
        B, E = B - common * (at[:, None] + at), E - 2 * common
    return A, B, D, E


def _of_groups(A: Tensor, B: Tensor, D: Tensor, E: Tensor, n_groups: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same for concepts of one input or two: what a group loses counts the pair of its own members once."""
    n_members = A.shape[1] // n_groups

    def sums(single: Tensor, pair: Tensor) -> tuple[Tensor, Tensor]:
        blocks = pair.unflatten(1, (n_members, n_groups)).unflatten(3, (n_members, n_groups))
        within = blocks.diagonal(dim1=2, dim2=4).sum((1, 2)) / 2  # B is zero where both members are the same
        return single.unflatten(1, (n_members, n_groups)).sum(1) - within, blocks.sum((1, 3))

    (A, B), (D, E) = sums(A, B), sums(D, E)
    return A, B, D, E


def _all_sets(n: int, size: int) -> Iterator[Tensor]:
    """All sets of so many of n positions ``(S, size)``, block by block."""
    if size == 1:
        yield torch.arange(n)[:, None]
        return
    if size == 2:
        yield from torch.triu_indices(n, n, 1).T.split(_BLOCK)
        return
    for first in range(n - 2):
        rest = torch.triu_indices(n - first - 1, n - first - 1, 1).T + first + 1
        for pairs in rest.split(_BLOCK):
            yield torch.cat([torch.full((len(pairs), 1), first), pairs], 1)
