"""The fitted, edited network: what was trained, what was done to it since, and what follows from both."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from choqolate._util.checks import find_concepts
from choqolate._util.recalibration import match_shares
from choqolate._util.text import counted, listed
from choqolate.errors import ChoqolateError, NothingLeftError
from choqolate.integral import Capacity
from choqolate.integral.layer import as_capacity
from choqolate.network.architecture import Architecture
from choqolate.network.edits import (
    Edit,
    Recalibrate,
    Remove,
    Restore,
    Reweight,
    Simplify,
    affected_concepts,
    changed_factors,
    edits_in_force,
)
from choqolate.network.removal import Nodes
from choqolate.network.removal_report import Removal, factors_in_nodes, report_removal
from choqolate.network.scaling import MinMax
from choqolate.network.simplification import Simplification, bound_scores, simplify, split_history

SMALL_REMAINDER = 0.05  # retained mass below which a node is hardly the one that was trained


class _State(NamedTuple):
    """What follows from the parameters and the edits in force."""

    nodes: Nodes
    gone: Tensor  # mask (N, M) of removed inputs
    retained: Tensor  # mass (N,) that removals left of the trained weights, frozen terms included
    moving: Tensor  # the same without the frozen terms
    latest: Tensor  # mass (N,) that the latest edit left of the weights before it
    held: Tensor  # mass (N,) that simplifications since the latest removal left


@dataclass(frozen=True, eq=False)
class FittedNetwork:
    """Two trained layers of Choquet integrals over named concepts, and the edits made since.

    The parameters are those of the training and are never changed; everything else is derived from them and from the
    edits, in float64. Methods that edit return another network.

    Attributes:
        architecture: how the layers are built.
        concepts: names of the M concepts.
        classes: labels of the C classes.
        scaling: range of the training scores.
        concept_means: training means of the scaled scores ``(M,)``.
        label_shares: share of each class among the training labels ``(C,)``.
        parameters: the unconstrained parameters of both layers, by name.
        edits: what was done since training, in order.
    """

    architecture: Architecture
    concepts: tuple[str, ...]
    classes: np.ndarray
    scaling: MinMax
    concept_means: np.ndarray
    label_shares: np.ndarray
    parameters: Mapping[str, Tensor]
    edits: tuple[Edit, ...] = ()

    def __repr__(self) -> str:
        sizes = f"{counted(len(self.concepts), 'concept')}, {counted(self.n_nodes, 'node')}"
        classes = counted(len(self.classes), "class", "classes")
        return f"FittedNetwork({sizes}, {classes}, {counted(len(self.edits), 'edit')})"

    # ------------------------------------------------------------------ names and sizes

    @property
    def n_nodes(self) -> int:
        """Number of nodes N; without nodes, of classes."""
        return self.architecture.width(len(self.classes))

    @property
    def one_layer(self) -> bool:
        """Whether concepts are connected to classes directly; the nodes are the classes then."""
        return self.architecture.n_nodes is None

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs of the first layer."""
        return self.architecture.input_names(self.concepts)

    def inputs_of(self, concepts: Iterable[int]) -> list[int]:
        """Inputs of the first layer that stand for concepts: themselves, with ``bipolar`` their absences too."""
        own = list(concepts)
        return [*own, *(len(self.concepts) + index for index in own)] if self.architecture.bipolar else own

    @cached_property
    def identity(self) -> str:
        """SHA-256 of what was trained: equal for networks that differ in their edits alone."""
        digest = hashlib.sha256(f"({self.architecture.key}, {self.concepts!r}, {self.classes.tolist()!r})".encode())
        digest.update(self.scaling.low.tobytes() + self.scaling.high.tobytes() + self.concept_means.tobytes())
        for name in sorted(self.parameters):
            digest.update(name.encode() + self.parameters[name].to(torch.float64).contiguous().numpy().tobytes())
        return digest.hexdigest()

    # ------------------------------------------------------------------ state

    @cached_property
    def edits_in_force(self) -> tuple[Edit, ...]:
        """The edits that count: restorations have taken back what they name."""
        return edits_in_force(self.edits)

    @property
    def is_edited(self) -> bool:
        """Whether anything differs from the network as it was trained."""
        return bool(self.edits_in_force)

    @cached_property
    def _state(self) -> _State:
        nodes = self.trained_nodes()
        ones = torch.ones(self.n_nodes, dtype=torch.float64)
        state = _State(nodes, torch.zeros_like(nodes.frozen), retained=ones, moving=ones, latest=ones, held=ones)
        for edit in self.edits_in_force:
            state = self._after(state, edit)
        return state

    def _after(self, state: _State, edit: Edit) -> _State:
        """What follows from a state and one more edit in force."""
        ones = torch.ones_like(state.held)
        if isinstance(edit, Simplify):
            capacity, left = simplify(state.nodes.capacity, edit)
            return state._replace(nodes=replace(state.nodes, capacity=capacity), latest=ones, held=state.held * left)
        if not isinstance(edit, Remove | Reweight):
            return state._replace(latest=ones)
        factors = self._factors(changed_factors(edit), edit.nodes)
        removed = factors == 0
        if isinstance(edit, Remove):
            nodes, kept = state.nodes.remove(removed, edit.mode)
        else:
            nodes, kept = state.nodes.reweight(factors)
        gone, retained = state.gone | removed, state.retained * kept
        _check_left(edit, gone, retained)
        still = state.nodes.moving_mass()
        moving = state.moving * torch.where(still > 0, kept * nodes.moving_mass() / still, 1.0)
        return _State(nodes, gone, retained, moving, latest=kept, held=ones)

    def _factors(self, factors: Mapping[str, float], nodes: tuple[int, ...] | None) -> Tensor:
        """Factors of the inputs ``(N, M)``: one where an edit does not reach."""
        of_concepts = torch.ones(len(self.concepts), dtype=torch.float64)
        of_concepts[find_concepts(factors, self.concepts)] = torch.tensor([*factors.values()], dtype=torch.float64)
        table = torch.ones(self.n_nodes, len(self.input_names), dtype=torch.float64)
        table[slice(None) if nodes is None else list(nodes)] = of_concepts.repeat(1 + self.architecture.bipolar)
        return table

    def trained_nodes(self) -> Nodes:
        """The first layer as it was trained, in float64."""
        raw = {
            name[6:]: theta.to(torch.float64) for name, theta in self.parameters.items() if name.startswith("nodes.")
        }
        capacity = as_capacity(raw, self.architecture.interactions, free_weights=self.architecture.free_weights)
        return Nodes.unedited(capacity, self.as_inputs(self.concept_means[None])[0])

    @property
    def nodes(self) -> Nodes:
        """The first layer after all edits."""
        return self._state.nodes

    @property
    def gone(self) -> Tensor:
        """Mask ``(N, M)`` of the inputs that were removed from each node."""
        return self._state.gone

    @property
    def retained(self) -> Tensor:
        """Mass ``(N,)`` that removals and reweightings left of the trained weights; frozen terms count as left."""
        return self._state.retained

    @property
    def class_layer(self) -> Capacity | None:
        """The second layer after all edits, in float64; ``None`` without nodes."""
        return self._classes[0]

    @cached_property
    def _classes(self) -> tuple[Capacity | None, Tensor]:
        """The second layer, and the mass ``(C,)`` that the latest simplifications left of it."""
        held = torch.ones(len(self.classes), dtype=torch.float64)
        if self.one_layer:
            return None, held
        raw = {"theta": self.parameters["classes.theta"].to(torch.float64)}
        capacity = as_capacity(raw, self.architecture.class_kind, free_weights=self.architecture.free_weights)
        for edit in self.edits_in_force:
            if isinstance(edit, Simplify) and edit.classes:
                capacity, left = simplify(capacity, edit, "class")
                held = held * left
            elif isinstance(edit, Remove | Reweight):
                held = torch.ones_like(held)
        return capacity, held

    @cached_property
    def class_shift(self) -> np.ndarray:
        """What the latest recalibration adds to the class scores ``(C,)``; zeros without one."""
        shifts = [edit.shift for edit in self.edits_in_force if isinstance(edit, Recalibrate)]
        return np.array(shifts[-1] if shifts else np.zeros(len(self.classes)), dtype=np.float64)

    @cached_property
    def node_attributions(self) -> np.ndarray:
        """Shapley values of the inputs in each node ``(N, M)``; rows sum to one."""
        return self.nodes.attributions().numpy()

    @cached_property
    def class_attributions(self) -> np.ndarray:
        """Shapley values of the nodes in each class ``(C, N)``; without nodes the identity."""
        return np.eye(len(self.classes)) if self.class_layer is None else self.class_layer.attributions().numpy()

    @cached_property
    def removal(self) -> Removal | None:
        """What the nodes lost by edits; ``None`` if nothing is removed or reweighted."""
        edits = self.edits_in_force
        if not affected_concepts(edits):
            return None
        factors = factors_in_nodes(edits, self.n_nodes)
        removed = [name for name, of_nodes in factors.items() if (of_nodes == 0).any()]
        where = find_concepts(removed, self.concepts) if removed else []
        scaled = {name: of_nodes[(of_nodes != 0) & (of_nodes != 1)] for name, of_nodes in factors.items()}
        return report_removal(
            self._nodes_before_removal(),
            self.gone,
            self._state.moving,
            edits=edits,
            inputs_of={name: self.inputs_of([index]) for name, index in zip(removed, where, strict=True)},
            reweighted={name: (float(some.min()), float(some.max())) for name, some in scaled.items() if some.numel()},
            class_shift=self.class_shift,
        )

    def _nodes_before_removal(self) -> Nodes:
        """The first layer before the first removal or reweighting in force: simplified, if that came before it."""
        earlier = tuple(itertools.takewhile(lambda edit: not isinstance(edit, Remove | Reweight), self.edits_in_force))
        return replace(self, edits=earlier).nodes

    @cached_property
    def simplification(self) -> Simplification | None:
        """What the latest simplification dropped, and what that can change at most; ``None`` without one."""
        earlier, latest, later = split_history(self.edits_in_force)
        if not latest:
            return None
        before = replace(self, edits=earlier)
        after = replace(self, edits=(*earlier, *latest)) if affected_concepts(later) else self
        dropped, class_dropped = 1 - after._state.held, 1 - after._classes[1]
        layers = [one.class_layer for one in (before, after)]
        of_classes = [np.zeros(0, dtype=np.int64) if layer is None else layer.n_terms().numpy() for layer in layers]
        return Simplification(
            edits=tuple(edit for edit in latest if isinstance(edit, Simplify)),
            terms_before=before.nodes.capacity.n_terms().numpy(),
            terms=after.nodes.capacity.n_terms().numpy(),
            mass_dropped=dropped.numpy(),
            class_terms_before=of_classes[0],
            class_terms=of_classes[1],
            class_mass_dropped=class_dropped.numpy(),
            bound=bound_scores(after.class_layer, dropped, class_dropped).numpy(),
        )

    @property
    def small_remainders(self) -> dict[int, float]:
        """Nodes of which the latest edit left little, and the share of the trained weight that they keep."""
        small = (self._state.retained < SMALL_REMAINDER) & (self._state.latest < 1)
        return {n: float(self._state.retained[n]) for n in torch.nonzero(small)[:, 0].tolist()}

    # ------------------------------------------------------------------ values

    def as_inputs(self, z: np.ndarray) -> Tensor:
        """Scaled scores ``(n, M)`` as inputs of the first layer; with ``bipolar``, ``(n, 2M)``."""
        whole = np.concatenate([z, 1 - z], axis=1) if self.architecture.bipolar else np.ascontiguousarray(z)
        return torch.from_numpy(whole)

    def node_values(self, u: Tensor) -> Tensor:
        """Node values ``(n, N)`` of inputs ``u``."""
        return self.nodes.values(u)

    def score_nodes(self, values: Tensor) -> Tensor:
        """Outputs of the second layer ``(n, C)`` for node values, without the shift of a recalibration."""
        return values if self.class_layer is None else self.class_layer.integrate(values)

    def class_scores(self, u: Tensor) -> np.ndarray:
        """Class scores ``(n, C)`` of inputs ``u``, with the shift of a recalibration."""
        scores: np.ndarray = self.score_nodes(self.node_values(u)).numpy() + self.class_shift
        return scores

    # ------------------------------------------------------------------ editing

    def edited(self, *edits: Edit) -> FittedNetwork:
        """The network after further edits.

        Raises:
            ChoqolateError: for unknown concepts or nodes.
            NothingLeftError: if a node would be left with nothing.
        """
        other = self
        for edit in edits:
            other = other._edited(edit)
        return other

    def _edited(self, edit: Edit) -> FittedNetwork:
        self._check(edit)
        other = replace(self, edits=(*self.edits, edit))
        if not isinstance(edit, Restore):  # all edits before it stay in force, so its state follows from theirs
            other.__dict__["edits_in_force"] = (*self.edits_in_force, edit)
            other.__dict__["_state"] = self._after(self._state, edit)
        other._state, other._classes  # noqa: B018  # an impossible edit is an error now, not in a prediction
        return other

    def _check(self, edit: Edit) -> None:
        if isinstance(edit, Remove | Reweight):
            find_concepts(edit.concepts if isinstance(edit, Remove) else edit.factors, self.concepts)
            check_nodes(edit.nodes, self.n_nodes)
        if isinstance(edit, Restore) and edit.concepts is not None:
            affected = affected_concepts(self.edits_in_force)
            if not affected:
                raise ChoqolateError("Nothing was removed or reweighted, so there is nothing to restore.")
            find_concepts(edit.concepts, affected, known="removed or reweighted were")
        if isinstance(edit, Simplify) and self.architecture.free_weights:
            raise ChoqolateError(
                "Expected weights that sum to one to simplify, but this model has free weights, for which no bound "
                "holds. Train with free_weights=False."
            )
        if isinstance(edit, Recalibrate) and len(edit.shift) != len(self.classes):
            raise ChoqolateError(f"Expected a shift of {len(self.classes)} class scores, got {len(edit.shift)}.")

    def recalibration(self, z: np.ndarray, **computed_on: object) -> Recalibrate:
        """The recalibration of this state of the network on scaled scores ``z (n, M)``.

        The class scores are shifted so that the shares of the predicted classes come as near as possible to the shares
        of the training labels.

        Args:
            z: scaled scores.
            **computed_on: what is known of them, see :class:`~choqolate.network.edits.Recalibrate`.
        """
        scores = self.score_nodes(self.node_values(self.as_inputs(z))).numpy()
        shift = match_shares(scores, self.label_shares)
        return Recalibrate(tuple(shift.tolist()), rows=len(z), **computed_on)  # type: ignore[arg-type]

    def undone(self) -> FittedNetwork:
        """The network before its latest edit, exactly.

        Raises:
            ChoqolateError: if there is none.
        """
        if not self.edits:
            raise ChoqolateError("This model has no edits, so there is nothing to undo.")
        return replace(self, edits=self.edits[:-1])

    def as_trained(self) -> FittedNetwork:
        """The network without any edit."""
        return replace(self, edits=())


def check_nodes(nodes: Iterable[object] | None, n_nodes: int) -> tuple[int, ...] | None:
    """Indices of nodes, sorted, each once; ``None`` stands for all nodes."""
    if nodes is None:
        return None
    chosen = tuple(nodes)
    numbers = [int(n) for n in chosen if isinstance(n, int | np.integer) and not isinstance(n, bool)]
    if not chosen or len(numbers) < len(chosen) or not all(0 <= n < n_nodes for n in numbers):
        raise ChoqolateError(f"Expected indices of nodes from 0 to {n_nodes - 1}, got {list(chosen)}.")
    return tuple(sorted(set(numbers)))


def _check_left(edit: Edit, gone: Tensor, retained: Tensor) -> None:
    """A node must keep something."""
    empty = torch.nonzero(gone.all(1))[:, 0].tolist()
    if empty:
        names = listed(affected_concepts([edit]))
        raise NothingLeftError(f"Removing {names} would leave node {empty[0]} without any concept. Keep at least one.")
    nothing = torch.nonzero(~((retained > 0) & retained.isfinite()))[:, 0].tolist()
    if nothing:
        raise NothingLeftError(
            f"Node {nothing[0]} is made of the removed concepts alone, so nothing is left to rescale. Use "
            "mode='impute', or leave this node out with nodes=..."
        )
