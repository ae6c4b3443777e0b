"""A whole model: what each node reads, what it counts for, which concepts go together, which nodes are alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from choqolate import metrics
from choqolate._util.checks import check_number, find_concepts
from choqolate._util.text import counted
from choqolate.data.rows import class_index
from choqolate.errors import ChoqolateError
from choqolate.explain.interactions import Interaction, strongest_interactions
from choqolate.explain.model_protocols import ConceptModel
from choqolate.explain.node_names import absence_shares, as_used, leading, name_nodes
from choqolate.explain.node_stability import NodeStability
from choqolate.network.architecture import absence_name
from choqolate.network.fitted import FittedNetwork

if TYPE_CHECKING:
    from matplotlib.axes import Axes


ALIKE = 0.8  # share of the attributions that two nodes have in common, from which they are near duplicates
SAME_VALUES = 0.98  # correlation of their values, from which they are too


class NodePair(NamedTuple):
    r"""Two nodes that are nearly the same.

    ``overlap`` is the share of their attributions that they have in common, :math:`\sum_j \min(w_j, w'_j)` over the
    inputs, where presence and absence of a concept are two; ``correlation`` that of their values on the rows given, NaN
    without rows.
    """

    first: int
    second: int
    overlap: float
    correlation: float


@dataclass(frozen=True, repr=False)
class ModelExplanation:
    """What a model with N nodes over M concepts does for C classes, whatever the image.

    Attributes:
        node_attributions: Shapley values per concept ``(N, M)``, rows sum to one; of linear baselines, signed weights.
            With ``bipolar``, presence and absence of a concept are added.
        class_attributions: Shapley values of the nodes in each class ``(C, N)``; of linear baselines, signed weights.
        concepts: names of the M concepts.
        classes: names of the C classes.
        nodes: names of the N nodes, from their leading concepts: "not sea" where absence has the greater part.
        spurious: those of the concepts that are known to be spurious.
        interactions: the strongest pairs of inputs of each node ``(N,)``; with ``bipolar`` absences are inputs of their
            own, "not <concept>". Empty for baselines.
        node_interactions: the strongest pairs of nodes of each class ``(C,)``.
        duplicates: pairs of nodes that are nearly the same; empty where the nodes are the classes.
        one_layer: whether concepts are connected to classes directly; the nodes are the classes then.
        history: node attributions per concept of every epoch ``(epochs, N, M)`` if training kept them
            (``track=True``).
        absence: the share of the concept's absence in each of the ``node_attributions`` ``(N, M)``, in [0, 1];
            ``None`` if absences are no inputs of the model.
        stability: whether the nodes, as they were trained, recur over seeds; ``None`` if nobody has measured it, and
            where the nodes are the classes.
    """

    node_attributions: np.ndarray
    class_attributions: np.ndarray
    concepts: tuple[str, ...]
    classes: tuple[str, ...]
    nodes: tuple[str, ...]
    spurious: tuple[str, ...] = ()
    interactions: tuple[tuple[Interaction, ...], ...] = ()
    node_interactions: tuple[tuple[Interaction, ...], ...] = ()
    duplicates: tuple[NodePair, ...] = ()
    one_layer: bool = False
    history: np.ndarray | None = None
    absence: np.ndarray | None = None
    stability: NodeStability | None = None

    def __repr__(self) -> str:
        sizes = f"{counted(len(self.concepts), 'concept')}, {counted(len(self.nodes), 'node')}"
        sizes += f", {counted(len(self.classes), 'class', 'classes')}"
        return f"ModelExplanation({sizes}; nodes: {' | '.join(self.nodes)})"

    @property
    def concept_to_class(self) -> np.ndarray:
        """Share of every concept in every class ``(C, M)``: both layers' attributions, chained (a product)."""
        return self.class_attributions @ self.node_attributions

    @property
    def gini(self) -> np.ndarray:
        """Attribution Gini of each node ``(N,)``: near one where it reads few concepts."""
        return metrics.attribution_gini(self.node_attributions)

    def leading(self, node: int, most: int = 10) -> list[tuple[str, float]]:
        """The concepts that a node reads most, with their attributions; zeros are left out.

        A concept is listed once, as "not sea" where its absence has the greater part.
        """
        return leading(self.names_in(node), self.node_attributions[node], most)

    def names_in(self, node: int) -> tuple[str, ...]:
        """Names of the M concepts as a node uses them: "not sea" where absence has the greater part."""
        return as_used(self.concepts, None if self.absence is None else self.absence[node])

    def names_of(self, concepts: Iterable[str], node: int) -> set[str]:
        """Names of some of the concepts as a node uses them, such as of those that are spurious."""
        wanted = set(concepts)
        return {used for name, used in zip(self.concepts, self.names_in(node), strict=True) if name in wanted}

    def input_attributions(self, node: int) -> dict[str, float]:
        """Attributions of a node by input: with ``bipolar``, presence and absence of a concept apart."""
        values = self.node_attributions[node]
        if self.absence is None:
            return dict(zip(self.concepts, values.tolist(), strict=True))
        parts = zip(self.concepts, values.tolist(), self.absence[node].tolist(), strict=True)
        apart = {name: (value * (1 - part), value * part) for name, value, part in parts}
        absent = {absence_name(name): absence for name, (_, absence) in apart.items()}
        return {name: presence for name, (presence, _) in apart.items()} | absent

    def plot_words(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw a word cloud of every node, see :func:`choqolate.plots.word_clouds`."""
        from choqolate.plots import word_clouds

        return word_clouds(self, ax=ax, **options)

    def plot_bars(self, node: int, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the leading concepts of a node, see :func:`choqolate.plots.attribution_bars`."""
        from choqolate.plots import attribution_bars

        return attribution_bars(self, node, ax=ax, **options)

    def plot_flow(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw what flows from the nodes to the classes, see :func:`choqolate.plots.class_flow`."""
        from choqolate.plots import class_flow

        return class_flow(self, ax=ax, **options)

    def plot_interactions(self, node: int, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the pairs of concepts of a node, see :func:`choqolate.plots.interaction_graph`."""
        from choqolate.plots import interaction_graph

        return interaction_graph(self, node, ax=ax, **options)

    def plot_dynamics(self, node: int, concepts: Sequence[str] | None = None, ax: Axes | None = None) -> Axes:
        """Draw a node's attributions over the epochs, see :func:`choqolate.plots.training_dynamics`."""
        from choqolate.plots import training_dynamics

        return training_dynamics(self, node, concepts, ax=ax)


def explain_model(
    model: ConceptModel, X: Any = None, *, spurious: str | Iterable[str] | None = None, most: int = 20
) -> ModelExplanation:
    """Explain a fitted classifier, ours or a baseline, as a whole.

    Args:
        model: with ``node_attributions_`` and ``class_attributions_``.
        X: raw scores ``(n, M)``, to find nodes whose values are nearly the same, too.
        spurious: concepts known to be spurious; by default those that the model's provenance marks.
        most: interactions to keep, for each node and each class.

    >>> from sklearn.datasets import load_wine
    >>> from choqolate import ChoqolateClassifier
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> wine = explain_model(ChoqolateClassifier(n_nodes=4, epochs=20).fit(X, y), X)
    >>> wine.node_attributions.shape, wine.class_attributions.shape, len(wine.interactions[0])
    ((4, 13), (3, 4), 20)
    >>> wine.leading(0)[0][0] in wine.nodes[0]
    True
    """
    if isinstance(model, str | PathLike):
        raise ChoqolateError(f"expected a fitted model, got the path {model}: choqolate.load reads it")
    check_is_fitted(model)
    check_number("most", most, minimum=0, whole=True)
    concepts, inputs = tuple(model.concepts_), tuple(getattr(model, "input_names_", model.concepts_))
    classes = tuple(class_index(model.classes_))
    one_layer = bool(getattr(model, "one_layer_", False))
    of_inputs = model.node_attributions_
    attributions, absence = metrics.per_concept(of_inputs, len(concepts)), absence_shares(of_inputs, len(concepts))
    nodes = classes if one_layer else name_nodes(attributions, concepts, absence)
    if spurious is None:
        known = set(model.provenance_.vocabulary.spurious or ())
    else:
        named = [spurious] if isinstance(spurious, str) else list(spurious)
        known = {concepts[j] for j in find_concepts(named, concepts)} if named else set()
    within, between = _interactions(model, inputs, nodes, most)
    return ModelExplanation(
        node_attributions=attributions,
        class_attributions=model.class_attributions_,
        concepts=concepts,
        classes=classes,
        nodes=nodes,
        spurious=tuple(name for name in concepts if name in known),
        interactions=within,
        node_interactions=between,
        duplicates=() if one_layer else tuple(_duplicates(of_inputs, None if X is None else model.transform(X))),
        one_layer=one_layer,
        history=_history(model),
        absence=absence,
        stability=None if one_layer else _stability(model),
    )


def _history(model: Any) -> np.ndarray | None:
    """Node attributions per concept of every epoch, if training kept them."""
    history: np.ndarray | None = getattr(model, "history_", {}).get("node_attributions")
    if history is None or not len(history):
        return history
    epochs, n_nodes, n_inputs = history.shape
    per_concept = metrics.per_concept(history.reshape(-1, n_inputs), len(model.concepts_))
    return per_concept.reshape(epochs, n_nodes, -1)


def _stability(model: Any) -> NodeStability | None:
    """Whether the nodes recur over seeds, checked to be about as many nodes as the model has."""
    found: NodeStability | None = getattr(model, "stability_", None)
    n_nodes = len(model.node_attributions_)
    if found is not None and found.recurrence.shape[1] != n_nodes:
        raise ChoqolateError(
            f"Expected stability_ to be of {n_nodes} nodes but got {found.recurrence.shape[1]}. "
            "Measure it for this model with node_stability."
        )
    return found


def _interactions(
    model: Any, inputs: tuple[str, ...], nodes: tuple[str, ...], most: int
) -> tuple[tuple[tuple[Interaction, ...], ...], tuple[tuple[Interaction, ...], ...]]:
    """Of the nodes and of the classes; nothing for models that have none."""
    network: FittedNetwork | None = getattr(model, "network_", None)
    if network is None:
        return ((),) * len(nodes), ((),) * len(model.classes_)
    within = strongest_interactions(network.nodes.capacity, inputs, most, network.nodes.frozen)
    if network.class_layer is None:
        return within, ((),) * len(model.classes_)
    return within, strongest_interactions(network.class_layer, nodes, most)


def _duplicates(attributions: np.ndarray, values: np.ndarray | None) -> list[NodePair]:
    """Pairs of nodes that are alike, by input: a node of "sea" and a node of "not sea" are opposites."""
    totals = np.abs(attributions).sum(1, keepdims=True)
    shares = attributions / np.where(totals > 0, totals, 1.0)
    correlation = None
    if values is not None and len(values) > 1:
        correlation = metrics.concept_correlation(values)
    found = []
    for first in range(len(shares)):
        for second in range(first + 1, len(shares)):
            one, other = shares[first], shares[second]
            overlap = float(np.minimum(np.abs(one), np.abs(other))[one * other > 0].sum())
            together = math.nan if correlation is None else float(correlation[first, second])
            if overlap >= ALIKE or together >= SAME_VALUES:
                found.append(NodePair(first, second, overlap, together))
    return found
