"""One image or many: what each concept and each node did for a score, as plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import torch

from choqolate._util.checks import check_choice
from choqolate._util.text import counted, listed
from choqolate.data.rows import class_index
from choqolate.errors import ChoqolateError
from choqolate.network.fitted import FittedNetwork

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STILL = 1e-12  # a node that moved less has not moved: what is left is rounding
_OF_ROWS = ("concept_to_node", "node_to_class", "node_values", "class_scores", "inputs")


class Share(NamedTuple):
    """What one concept or node contributes to a number: its name, the contribution, and its own value."""

    name: str
    value: float
    level: float


@dataclass(frozen=True, repr=False)
class Attribution:
    """Contributions of K concepts (or nodes) to one number of each of n inputs; they sum to its change.

    Attributes:
        values: the contributions ``(n, K)``; a row sums to ``end - start``.
        start: the number at the baseline ``(n,)``.
        end: the number itself ``(n,)``.
        levels: values of the concepts, scaled to [0, 1], or of the nodes ``(n, K)``.
        names: of the K concepts or nodes.
        subjects: what the number is, a text for each input ``(n,)``.
        baseline: ``"zero"`` or ``"mean"``: what the inputs are compared with; empty if not known.

    >>> gull = Attribution(
    ...     values=np.array([[0.3, -0.1]]),
    ...     start=np.array([0.2]),
    ...     end=np.array([0.4]),
    ...     levels=np.array([[0.9, 0.6]]),
    ...     names=("webbed feet", "forest"),
    ...     subjects=("score of waterbird",),
    ... )
    >>> gull
    Attribution(1 input, 2 names, score of waterbird: 0.200 -> 0.400)
    >>> gull.leading()
    [Share(name='webbed feet', value=0.3, level=0.9), Share(name='forest', value=-0.1, level=0.6)]
    >>> gull.others(most=1)
    (1, -0.1)
    """

    values: np.ndarray
    start: np.ndarray
    end: np.ndarray
    levels: np.ndarray
    names: tuple[str, ...]
    subjects: tuple[str, ...]
    baseline: str = ""

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        sizes = f"{counted(len(self), 'input')}, {counted(len(self.names), 'name')}"
        if len(self) != 1:
            return f"Attribution({sizes})"
        return f"Attribution({sizes}, {self.subjects[0]}: {self.start[0]:.3f} -> {self.end[0]:.3f})"

    def leading(self, row: int = 0, most: int = 10) -> list[Share]:
        """The ``most`` largest contributions to the number of one input, by size; zeros are left out."""
        order = np.argsort(-np.abs(self.values[row]), kind="stable")[:most]
        return [
            Share(self.names[j], float(self.values[row, j]), float(self.levels[row, j]))
            for j in order
            if self.values[row, j] != 0
        ]

    def others(self, row: int = 0, most: int = 10) -> tuple[int, float]:
        """How many contributions there are beyond the leading ones, and what they sum to."""
        leading = self.leading(row, most)
        number = int(np.count_nonzero(self.values[row])) - len(leading)
        return number, float(self.end[row] - self.start[row]) - sum(share.value for share in leading)

    def plot_waterfall(self, row: int = 0, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw how one number came about, see :func:`choqolate.plots.waterfall`."""
        from choqolate.plots import waterfall

        return waterfall(self, row, ax=ax, **options)


@dataclass(frozen=True, repr=False)
class LocalExplanation:
    r"""Exact Shapley attributions of n inputs, layer by layer, relative to a baseline.

    Each layer's attributions are its exact Shapley values. Their chain from concepts to classes,

    .. math:: \chi_{irj} = \sum_n \phi_{irn} \frac{\phi_{inj}}{h_{in} - h^0_n},

    gives each concept its share of what the nodes contribute. It sums exactly to the change of the class score, but it
    is **not** the Shapley value of the composed function of two layers: it is called a chain, and nothing else.

    With ``bipolar`` the arrays have presence and absence of a concept apart. :meth:`for_class`, :meth:`contrast` and
    :meth:`for_node` add the two, one name per concept. The sum is exact as well: integrals without interactions beyond
    pairs give a concept and its absence, taken as one player, the sum of their Shapley values.

    Attributes:
        concept_to_node: ``(n, N, M)``; over the concepts they sum to the node values minus ``node_baseline``.
        node_to_class: ``(n, C, N)``; over the nodes they sum to the class scores minus ``class_baseline``.
        node_values: ``(n, N)``.
        class_scores: ``(n, C)``, without the shift of a recalibration.
        inputs: scaled scores of the M inputs ``(n, M)``.
        node_baseline: ``(N,)``, the node values at the baseline.
        class_baseline: ``(C,)``, the class scores at the baseline.
        class_shift: ``(C,)``, what a recalibration adds to the class scores; zeros without one.
        concepts: names of the M inputs of the first layer; with ``bipolar`` absences follow, "not <concept>".
        nodes: names of the N nodes, from their leading concepts.
        classes: names of the C classes.
        baseline: ``"zero"`` or ``"mean"``: what the images are compared with.
        bipolar: whether the second half of the inputs are the absences of the first half.
    """

    concept_to_node: np.ndarray
    node_to_class: np.ndarray
    node_values: np.ndarray
    class_scores: np.ndarray
    inputs: np.ndarray
    node_baseline: np.ndarray
    class_baseline: np.ndarray
    class_shift: np.ndarray
    concepts: tuple[str, ...]
    nodes: tuple[str, ...]
    classes: tuple[object, ...]
    baseline: str = "zero"
    bipolar: bool = False

    def __len__(self) -> int:
        return len(self.node_values)

    def __repr__(self) -> str:
        n_concepts = len(self.concepts) // (2 if self.bipolar else 1)
        sizes = f"{counted(n_concepts, 'concept')}, {counted(len(self.nodes), 'node')}"
        sizes += f", {counted(len(self.classes), 'class', 'classes')}"
        inputs = counted(len(self), "input")
        said = f", predicted {self.predicted[0]!r}" if len(self) == 1 else ""
        return f"LocalExplanation({inputs}{said}; {sizes}; baseline {self.baseline})"

    def take(self, rows: int | slice | Sequence[int] | np.ndarray) -> Self:
        """The explanation of some of the inputs."""
        chosen = [rows] if isinstance(rows, int | np.integer) else rows
        return replace(self, **{name: getattr(self, name)[chosen] for name in _OF_ROWS})

    @cached_property
    def ranking(self) -> np.ndarray:
        """Indices of the classes ``(n, C)``, the predicted one first."""
        return np.argsort(-(self.class_scores + self.class_shift), axis=1, kind="stable")

    @property
    def predicted(self) -> tuple[object, ...]:
        """The predicted class of each input ``(n,)``."""
        return tuple(self.classes[r] for r in self.ranking[:, 0])

    @cached_property
    def concept_to_class(self) -> np.ndarray:
        """The chain from concepts to classes ``(n, C, M)``: all classes at once, so mind the size."""
        return (self.node_to_class * self._per_change[:, None]) @ self.concept_to_node

    @cached_property
    def _per_change(self) -> np.ndarray:
        """One over the change of each node ``(n, N)``; nothing where it did not change."""
        change = self.node_values - self.node_baseline
        moved = np.abs(change) > _STILL
        return np.where(moved, 1 / np.where(moved, change, 1.0), 0.0)

    def for_class(self, label: object = None, *, by: str = "concepts") -> Attribution:
        """What made the score of a class; by default of the class that was predicted for each input.

        Args:
            label: one class for all inputs.
            by: ``"concepts"`` (the chain) or ``"nodes"`` (exact Shapley values).
        """
        r = self._indices(label, self.ranking[:, 0])
        rows, names = np.arange(len(self)), [str(self.classes[index]) for index in r]
        start = (self.class_baseline + self.class_shift)[r]
        end = (self.class_scores + self.class_shift)[rows, r]
        return self._attribution(self.node_to_class[rows, r], start, end, [f"score of {name}" for name in names], by)

    def contrast(self, label: object = None, other: object = None, *, by: str = "concepts") -> Attribution:
        """Why one class rather than another: what made the lead of its score over the other's.

        Args:
            label: the one; by default the class that was predicted for each input.
            other: the other; by default, of the other classes, the one with the highest score.
            by: ``"concepts"`` (the chain) or ``"nodes"`` (exact Shapley values).
        """
        if len(self.classes) < 2:
            raise ChoqolateError("expected at least two classes to compare, this model has one")
        first = self._indices(label, self.ranking[:, 0])
        best_other = np.where(self.ranking[:, 0] == first, self.ranking[:, 1], self.ranking[:, 0])
        second = self._indices(other, best_other)
        if label is None and other is not None:  # the other was predicted: then against the best of the rest
            first = np.where(first == second, self.ranking[:, 1], first)
        if (first == second).any():
            raise ChoqolateError(f"expected two different classes to compare, got {label!r} twice")
        rows, scores = np.arange(len(self)), self.class_scores + self.class_shift
        start = self.class_baseline + self.class_shift
        subjects = [
            f"{self.classes[one]} rather than {self.classes[two]}" for one, two in zip(first, second, strict=True)
        ]
        shares = self.node_to_class[rows, first] - self.node_to_class[rows, second]
        return self._attribution(
            shares, start[first] - start[second], scores[rows, first] - scores[rows, second], subjects, by
        )

    def for_node(self, node: int) -> Attribution:
        """What made the value of a node: exact Shapley values of the concepts."""
        if not 0 <= node < len(self.nodes):
            raise ChoqolateError(f"expected a node from 0 to {len(self.nodes) - 1}, got {node}")
        start = np.full(len(self), self.node_baseline[node])
        subjects = (f"value of node {node} ({self.nodes[node]})",) * len(self)
        return self._by_concept(self.concept_to_node[:, node], start, self.node_values[:, node], subjects)

    def _attribution(
        self, of_nodes: np.ndarray, start: np.ndarray, end: np.ndarray, subjects: Sequence[str], by: str
    ) -> Attribution:
        check_choice("by", by, ("concepts", "nodes"))
        if by == "nodes":
            return Attribution(of_nodes, start, end, self.node_values, self.nodes, tuple(subjects), self.baseline)
        values = ((of_nodes * self._per_change)[:, None] @ self.concept_to_node)[:, 0]
        return self._by_concept(values, start, end, subjects)

    def _by_concept(
        self, values: np.ndarray, start: np.ndarray, end: np.ndarray, subjects: Sequence[str]
    ) -> Attribution:
        """Contributions of the inputs, where presence and absence of a concept are added."""
        levels, names = self.inputs, self.concepts
        if self.bipolar:
            half = len(names) // 2
            values, levels, names = values[:, :half] + values[:, half:], levels[:, :half], names[:half]
        return Attribution(values, start, end, levels, names, tuple(subjects), self.baseline)

    def _indices(self, label: object, default: np.ndarray) -> np.ndarray:
        """Index of a class for every input; of the default ones without a label."""
        if label is None:
            return default
        index = class_index(self.classes)
        if str(label) not in index:
            raise ChoqolateError(f"expected one of the classes {listed(list(index))}, got {label!r}")
        return np.full(len(self), index[str(label)])


def explain_rows(
    network: FittedNetwork, z: np.ndarray, nodes: tuple[str, ...], *, baseline: str = "zero"
) -> LocalExplanation:
    """Exact Shapley attributions of rows, layer by layer.

    Args:
        network: fitted.
        z: scaled scores ``(n, M)``.
        nodes: names of the N nodes.
        baseline: what the rows are compared with: ``"zero"``, or the training ``"mean"``.
    """
    check_choice("baseline", baseline, ("zero", "mean"))
    u = network.as_inputs(z)
    level = np.zeros_like(network.concept_means) if baseline == "zero" else network.concept_means
    start = network.as_inputs(level[None])
    values, origin = network.node_values(u), network.node_values(start)
    if network.class_layer is None:
        node_to_class = torch.diag_embed(values - origin)
    else:
        node_to_class = network.class_layer.local_shapley(values, origin)
    return LocalExplanation(
        concept_to_node=network.nodes.local_shapley(u, start).numpy(),
        node_to_class=node_to_class.numpy(),
        node_values=values.numpy(),
        class_scores=network.score_nodes(values).numpy(),
        inputs=u.numpy(),
        node_baseline=origin[0].numpy(),
        class_baseline=network.score_nodes(origin)[0].numpy(),
        class_shift=network.class_shift,
        concepts=network.input_names,
        nodes=nodes,
        classes=tuple(network.classes.tolist()),
        baseline=baseline,
        bipolar=network.architecture.bipolar,
    )
