"""One Choquet layer while it trains, epoch by epoch, and the factors of its gradient."""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from choqolate.analysis.gradient_factors import Factors, factors, features, in_paper_order, mean_gradient, pull
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.integral import shapley_values
from choqolate.metrics import attribution_gini, concept_correlation
from choqolate.network.architecture import Architecture
from choqolate.network.batches import RowsInMemory
from choqolate.network.module import ChoqolateNetwork
from choqolate.network.scaling import MinMax
from choqolate.network.training import Objective, train

TEMPERATURES = (0.001, 0.005, 0.05, 1.0)
PAPER, PLAIN = 1, 3
"""Places of the paper's temperature and of the softmax without any."""

EPOCHS, BATCH_SIZE, LEARNING_RATE = 100, 512, 0.1
SMALL = 0.01
"""Of the mean at the start: below it, a weight or a gradient has all but gone."""

_MOST_ROWS, _MOST_CONCEPTS, _MOST_CLASSES = 1_000, 48, 8  # seconds, not minutes; 48 concepts are 2,304 features
_FEW = 512  # rows times classes, enough for the mean of deviations


class GradientRows(NamedTuple):
    """Rows to watch a layer on.

    Attributes:
        u: scores ``(n, p)`` in [0, 1], in float64.
        targets: class indices ``(n,)``.
        concepts: names of the p concepts.
        classes: names of the classes.
    """

    u: Tensor
    targets: Tensor
    concepts: tuple[str, ...]
    classes: tuple[str, ...]

    @classmethod
    def of(cls, table: ConceptScores) -> GradientRows:
        """Scaled scores of at most 1,000 labelled rows, evenly spread, 48 concepts and eight classes.

        Of more classes, those with most rows are taken; of more concepts, those whose scores differ most between the
        classes, relative to their variance. Concepts that are constant on these rows are left out.

        Raises:
            ChoqolateError: if there are fewer than three concepts or two classes.
        """
        table = table.labelled()
        assert table.labels is not None
        counts = Counter(table.labels.tolist())
        kept = sorted(counts, key=lambda name: -counts[name])[:_MOST_CLASSES]
        rows = np.flatnonzero(np.isin(table.labels, kept))
        rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(_MOST_ROWS, len(rows))).astype(int))]
        labels = table.labels[rows].tolist()
        classes = tuple(name for name in table.classes if name in set(labels))
        scores, targets = table.scores[rows].astype(np.float64), np.array([classes.index(name) for name in labels])
        concepts = _telling(scores, targets)
        if len(concepts) < 3 or len(classes) < 2:
            raise ChoqolateError(
                "Expected at least two classes and three concepts whose scores differ, but there are "
                f"{len(classes)} and {len(concepts)}. Choose another table."
            )
        u = MinMax.fit(scores[:, concepts])(scores[:, concepts])
        names = tuple(table.concepts[j] for j in concepts)
        return cls(torch.from_numpy(u), torch.from_numpy(targets), names, classes)


def _telling(scores: np.ndarray, targets: np.ndarray) -> list[int]:
    """The concepts to look at, in their order: none that is constant, and those that tell classes apart the most."""
    varying = np.flatnonzero(np.ptp(scores, axis=0) > 0)
    if len(varying) <= _MOST_CONCEPTS:
        return varying.tolist()
    X = scores[:, varying]
    means = np.stack([X[targets == number].mean(0) for number in range(targets.max() + 1)])
    between = means[targets].var(axis=0) / X.var(axis=0)
    return varying[np.sort(np.argsort(-between, kind="stable")[:_MOST_CONCEPTS])].tolist()


class Course(NamedTuple):
    """A training as it went, one run for each of ``TEMPERATURES``.

    Attributes:
        rows: that it was on.
        theta: at the start and after each epoch ``(epochs + 1, runs, C, p²)``.
        parts: the factors of the gradient over all rows, by run and by epoch.
        phi: the features of the rows ``(n, p²)``.
    """

    rows: GradientRows
    theta: Tensor
    parts: list[list[Factors]]
    phi: Tensor

    def shapley(self, run: int) -> np.ndarray:
        """Shapley values ``(epochs + 1, C, p)`` of the concepts in each class."""
        n_inputs = math.isqrt(self.phi.shape[1])
        n_pairs = n_inputs * (n_inputs - 1) // 2
        sizes = [n_inputs, n_pairs, n_pairs]
        return np.stack([shapley_values(*now.weights.split(sizes, dim=-1)).numpy() for now in self.parts[run]])

    def pulls(self, run: int) -> np.ndarray:
        """Pull on the concepts as single features of the last class ``(epochs + 1, p)``."""
        n_inputs = math.isqrt(self.phi.shape[1])
        return np.stack([pull(now, self.phi)[-1, :n_inputs].numpy() for now in self.parts[run]])


def follow_training(rows: GradientRows, epochs: int = EPOCHS) -> Course:
    """Train one layer at each temperature, side by side: the same parameters at the start, the same batches, Adam.

    There is no penalty, as in the paper's sweep over temperatures: what becomes sparse does so by the gradient alone.
    """
    u, targets = rows.u, rows.targets
    n_runs, n_classes = len(TEMPERATURES), len(rows.classes)
    network = ChoqolateNetwork(Architecture(None), u.shape[1], n_classes, seeds=[0] * n_runs, dtype=u.dtype)
    kept: list[Tensor] = []

    def keep(_epochs_done: float, loss: float | None) -> None:
        if loss is not None:  # an epoch has ended
            kept.append(current())

    def current() -> Tensor:
        theta: Tensor = network.nodes.theta
        return in_paper_order(theta.detach().unflatten(0, (n_runs, n_classes)))

    kept.append(current())
    objective = Objective(torch.tensor(TEMPERATURES, dtype=u.dtype)[:, None, None], l1=0.0)
    batches = RowsInMemory(u, targets, torch.ones_like(u[:, 0]), BATCH_SIZE)
    train(network, batches, objective, epochs=epochs, learning_rate=LEARNING_RATE, report=keep)
    theta, phi = torch.stack(kept), features(u)
    parts = [
        [factors(now, phi, targets, temperature) for now in theta[:, run]]
        for run, temperature in enumerate(TEMPERATURES)
    ]
    return Course(rows, theta, parts, phi)


# ---------------------------------------------------------------------- what shows


def factor_sizes(course: Course, run: int) -> dict[str, np.ndarray]:
    """Sizes of the factors at the start and after each epoch, over rows, features and classes.

    Returns:
        ``error`` and ``deviation``: mean absolute values; ``weighted deviation``: the same by the weights;
        ``small weights`` and ``small gradients``: the share below ``SMALL`` times the mean at the start.
    """
    parts, phi = course.parts[run], course.phi
    few = max(1, _FEW // len(course.rows.classes))
    gradients = torch.stack([mean_gradient(now, phi).abs() for now in parts])
    weights = torch.stack([now.weights for now in parts])
    deviations = torch.stack([(phi[:few, None] - now.values[:few, :, None]).abs().mean(0) for now in parts])
    sizes = {
        "error": torch.stack([now.error.abs().mean() for now in parts]),
        "small weights": (weights < SMALL * weights[0].mean()).double().mean((1, 2)),
        "small gradients": (gradients < SMALL * gradients[0].mean()).double().mean((1, 2)),
        "deviation": deviations.mean((1, 2)),
        "weighted deviation": (deviations * weights).sum(2).mean(1),
    }
    return {name: size.numpy() for name, size in sizes.items()}


class Step(NamedTuple):
    """What became of the features of the last class in one epoch, each ``(p²,)``.

    Attributes:
        weights, pulls: at its start.
        moved: how far Adam took theta in it.
    """

    weights: np.ndarray
    pulls: np.ndarray
    moved: np.ndarray

    @property
    def gradients(self) -> np.ndarray:
        """Sizes of the gradients at the start of the epoch."""
        return np.abs(self.weights * self.pulls)


def step_of(course: Course, run: int, epoch: int) -> Step:
    """The features of the last class in an epoch, counted from 1."""
    parts = course.parts[run][epoch - 1]
    moved = (course.theta[epoch, run] - course.theta[epoch - 1, run])[-1].abs()
    return Step(parts.weights[-1].numpy(), pull(parts, course.phi)[-1].numpy(), moved.numpy())


class AtEnd(NamedTuple):
    """Of one run when training ends, on the rows trained on.

    Attributes:
        quiet: share of the time with a mean error below 0.1.
        confidence: mean highest probability.
        accuracy: share of rows whose class has the highest score.
        gini: mean Attribution Gini of the classes.
        on_pairs: weight of the interactions in the last class.
    """

    quiet: float
    confidence: float
    accuracy: float
    gini: float
    on_pairs: float


def at_end(course: Course, run: int) -> AtEnd:
    """What a run has come to."""
    parts = course.parts[run]
    values, errors = parts[-1].values, [float(now.error.abs().mean()) for now in parts]
    return AtEnd(
        quiet=float(np.mean(np.less(errors, 0.1))),
        confidence=float((values / parts[-1].temperature).softmax(-1).amax(-1).mean()),
        accuracy=float((values.argmax(-1) == course.rows.targets).double().mean()),
        gini=float(attribution_gini(course.shapley(run)[-1]).mean()),
        on_pairs=float(parts[-1].weights[-1, len(course.rows.concepts) :].sum()),
    )


class Anchor(NamedTuple):
    """The concept that leads the last class at the end.

    Attributes:
        concept: its index.
        share: its Shapley value.
        relation: its correlation with every concept ``(p,)``.
        shown: itself, its two nearest relatives, the least related concept and the most opposed one.
    """

    concept: int
    share: float
    relation: np.ndarray
    shown: list[int]


def anchor_of(course: Course, run: int) -> Anchor:
    """The anchor of a run."""
    shares = course.shapley(run)[-1, -1]
    concept = int(shares.argmax())
    correlation = concept_correlation(course.rows.u.numpy())
    return Anchor(concept, float(shares[concept]), correlation[concept], relations(correlation, concept))


def relations(correlation: np.ndarray, anchor: int) -> list[int]:
    """The anchor, its two nearest relatives, the least related concept and the most opposed one.

    >>> relations(np.array([[1, 0.9, 0.1, -0.8, 0.5]] * 5), 0)
    [0, 1, 4, 2, 3]
    """
    others = [j for j in np.argsort(-correlation[anchor]).tolist() if j != anchor]
    least = min(others, key=lambda j: abs(correlation[anchor, j]))
    return list(dict.fromkeys([anchor, *others[:2], least, others[-1]]))
