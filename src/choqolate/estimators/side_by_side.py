"""From checked scores and labels to trained networks, one run or many side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor

from choqolate._util.checks import as_labels, check_classes, check_unique, warn_blind, warn_constant
from choqolate._util.device import pick_device
from choqolate._util.progress import epoch_bar
from choqolate.errors import ChoqolateError
from choqolate.estimators.concept_estimator import fit_scaling
from choqolate.estimators.training_reference import TrainingReference
from choqolate.integral.expected_minimum import slices
from choqolate.integral.layer import training_bytes
from choqolate.network.architecture import Architecture
from choqolate.network.batches import Batches, RowsInMemory, order_seed
from choqolate.network.cluster_start import ClusterStart, rows_to_cluster
from choqolate.network.fitted import FittedNetwork
from choqolate.network.module import ChoqolateNetwork
from choqolate.network.scaling import MinMax, ScaledRows
from choqolate.network.training import History, Objective, train

if TYPE_CHECKING:
    from choqolate.estimators.classifier import ChoqolateClassifier

_SIDE_BY_SIDE_BYTES = 2 << 30  # parameters of runs trained together, with all that training keeps beside them
_BLOCK_VALUES = 1 << 23  # inputs in float64 at a time: 64 MB
DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Rows to train on, and what a fitted network keeps of them.

    Attributes:
        scaled: scores ``(n, M)``; indexing gives scaled rows.
        targets: class indices ``(n,)``.
        weights: sample weights ``(n,)`` with mean one.
        groups: group of each row ``(n,)``; ``None`` if not known.
        concepts, classes, scaling, concept_means, label_shares: see :class:`FittedNetwork`.
    """

    scaled: ScaledRows
    targets: np.ndarray
    weights: np.ndarray
    groups: np.ndarray | None
    concepts: tuple[str, ...]
    classes: np.ndarray
    scaling: MinMax
    concept_means: np.ndarray
    label_shares: np.ndarray
    _starts: dict[tuple[int, int], ClusterStart] = field(default_factory=dict)

    @cached_property
    def reference(self) -> TrainingReference | None:
        """What these rows look like, to recognize others; ``None`` if they are too few."""
        return TrainingReference.fit(self.scaled, self.targets)

    def inputs(self, architecture: Architecture, dtype: torch.dtype) -> Tensor:
        """Inputs of the first layer ``(n, M)``; with ``bipolar``, ``(n, 2M)``."""
        n_rows, n_inputs = len(self.scaled), architecture.n_inputs(len(self.concepts))
        network, inputs = self.fitted(architecture), torch.empty(n_rows, n_inputs, dtype=dtype)
        for rows in slices(n_rows, _BLOCK_VALUES // n_inputs):
            inputs[rows] = network.as_inputs(self.scaled[rows]).to(dtype)
        return inputs

    def cluster_start(self, architecture: Architecture) -> ClusterStart:
        """Clusters of the inputs for the nodes of an architecture; they are found once."""
        n_nodes, n_inputs = architecture.width(len(self.classes)), architecture.n_inputs(len(self.concepts))
        key = n_nodes, n_inputs
        if key not in self._starts:
            rows = self.scaled[rows_to_cluster(len(self.scaled), n_inputs)]
            self._starts[key] = ClusterStart.fit(self.fitted(architecture).as_inputs(rows).numpy(), n_nodes)
        return self._starts[key]

    def fitted(self, architecture: Architecture, parameters: Mapping[str, Tensor] | None = None) -> FittedNetwork:
        """The network that was trained on these rows; without parameters, only its names and sizes can be used."""
        return FittedNetwork(
            architecture=architecture,
            concepts=self.concepts,
            classes=self.classes,
            scaling=self.scaling,
            concept_means=self.concept_means,
            label_shares=self.label_shares,
            parameters=parameters or {},
        )


class Statistics(NamedTuple):
    """What a fitted network keeps of its training rows, see :class:`FittedNetwork`."""

    classes: np.ndarray
    scaling: MinMax
    concept_means: np.ndarray
    label_shares: np.ndarray

    @classmethod
    def of(cls, network: FittedNetwork) -> Statistics:
        """Those of the rows that a network was trained on."""
        return cls(*(getattr(network, name) for name in cls._fields))


class RunSpec(NamedTuple):
    """What tells runs that are trained side by side from each other.

    Attributes:
        seed: of the initial parameters.
        temperature: of the class softmax.
        fold: the rows of this number in ``folds`` are held out.
    """

    seed: int
    temperature: float
    fold: int | None = None


class Trained(NamedTuple):
    """What came of a run, and what its training rows look like."""

    network: FittedNetwork
    history: dict[str, np.ndarray]
    reference: TrainingReference | None


def prepare_training(
    X: np.ndarray,
    y: np.ndarray,
    concepts: list[str],
    sample_weight: Any,
    class_weight: str | dict[Any, float] | None,
    groups: Any = None,
    known: Statistics | None = None,
) -> TrainingSet:
    """Scale the scores ``X (n, M)``, number the labels ``y (n,)``, and gather what the fitted network keeps of them.

    Of a sample, ``known`` are the statistics of all rows that it was drawn from.
    """
    check_unique(concepts)
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if groups is not None:
        groups = np.array([str(group) for group in as_labels(groups, "groups", len(X))], dtype=object)
    present = weights > 0
    if not present.any():  # scikit-learn says so too, but not in older versions
        raise ChoqolateError("Expected sample weights with at least one non-zero weight, but all of them are zero.")
    if not present.all():
        X, y, weights = X[present], y[present], weights[present]
    classes, targets = np.unique(y, return_inverse=True)
    if known is None:
        check_classes(classes)
        scaling, constant = fit_scaling(X, concepts)
        warn_constant(constant, stacklevel=6)
        scaled = ScaledRows(X, scaling)
        shares = np.bincount(targets, weights, len(classes)) / weights.sum()
        known = Statistics(classes, scaling, scaled.means(weights), shares)
    else:
        targets, scaled = np.searchsorted(known.classes, classes)[targets], ScaledRows(X, known.scaling)
    weights = weights * class_weights(class_weight, known.classes, known.label_shares)[targets]
    return TrainingSet(
        scaled=scaled,
        targets=targets,
        weights=weights / weights.mean(),
        groups=None if groups is None else groups[present],
        concepts=tuple(concepts),
        **known._asdict(),
    )


def class_weights(class_weight: str | dict[Any, float] | None, classes: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Weight of each class ``(C,)``; ``"balanced"`` counts a row of weight two as two rows."""
    if class_weight is None:
        return np.ones(len(classes))
    if class_weight == "balanced":
        return 1 / (len(classes) * shares)
    weights: np.ndarray = compute_class_weight(class_weight, classes=classes, y=classes)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ChoqolateError(f"expected class weights of at least 0, some above it, got {class_weight}")
    return weights


def train_side_by_side(classifier: ChoqolateClassifier, data: TrainingSet, wanted: Sequence[RunSpec]) -> list[Trained]:
    """Train the wanted runs with the parameters of the classifier, in one pass over the data for each order of it."""
    architecture = classifier.architecture
    check_architecture(architecture, data)
    trained: dict[int, Trained] = {}
    for places in _sharing_batches(classifier, wanted):
        network, histories = train_network(classifier, data, [wanted[place] for place in places])
        for index, (place, history) in enumerate(zip(places, histories, strict=True)):
            fitted = data.fitted(architecture, network.parameters_of(index))
            trained[place] = Trained(fitted, history.as_arrays(), data.reference)
    return [trained[place] for place in range(len(wanted))]


def batch_order(classifier: ChoqolateClassifier, wanted: Sequence[RunSpec]) -> int:
    """Seed of the order of batches that all wanted runs share."""
    (seed,) = {order_seed(classifier.shuffle, run.seed) for run in wanted}
    return seed


def _sharing_batches(classifier: ChoqolateClassifier, wanted: Sequence[RunSpec]) -> list[list[int]]:
    """Places of the runs that can be trained on the same batches."""
    passes: dict[int, list[int]] = {}
    for place, run in enumerate(wanted):
        passes.setdefault(order_seed(classifier.shuffle, run.seed), []).append(place)
    return list(passes.values())


def check_architecture(architecture: Architecture, data: TrainingSet) -> None:
    """Names of inputs must differ, and the network should be able to see differences between rows."""
    check_unique(architecture.input_names(data.concepts))
    warn_blind(len(data.concepts), architecture.n_nodes, len(data.classes), architecture.bipolar)


def train_network(
    classifier: ChoqolateClassifier,
    data: TrainingSet,
    wanted: Sequence[RunSpec],
    *,
    folds: np.ndarray | None = None,
    label: str = "training",
) -> tuple[ChoqolateNetwork, list[History]]:
    """Train one network that holds all wanted runs.

    Args:
        classifier: its parameters are used, except for its temperature and its seed.
        data: rows.
        wanted: the runs; of one seed if each seed has an order of batches of its own.
        folds: number of each row's fold ``(n,)``, for runs that hold out one of them.
        label: what a progress bar says.
    """
    device, dtype = pick_device(classifier.device), DTYPES[classifier.dtype]
    architecture = classifier.architecture
    start = cluster_start(classifier, data)
    batches = RowsInMemory(
        data.inputs(architecture, dtype).to(device),
        torch.from_numpy(data.targets).to(device),
        torch.from_numpy(_weights(data, wanted, folds)).to(device, dtype),
        classifier.batch_size,
        presort=architecture.interactions == "factored",
        seed=batch_order(classifier, wanted),
    )
    label = label if len(wanted) == 1 else f"{label} {len(wanted)} runs"
    with epoch_bar(classifier.epochs, label, enabled=classifier.verbose) as report:
        return train_on(
            batches, classifier, len(data.concepts), len(data.classes), wanted, start, device=device, report=report
        )


def cluster_start(classifier: ChoqolateClassifier, data: TrainingSet) -> ClusterStart | None:
    """Where nodes start; ``None`` for a random start."""
    architecture = classifier.architecture
    if classifier.start != "clusters" or architecture.n_nodes is None:
        return None
    return data.cluster_start(architecture)


def train_on(
    batches: Batches,
    classifier: ChoqolateClassifier,
    n_concepts: int,
    n_classes: int,
    wanted: Sequence[RunSpec],
    start: ClusterStart | None,
    *,
    device: torch.device,
    **options: Any,
) -> tuple[ChoqolateNetwork, list[History]]:
    """Train one network that holds all wanted runs on any source of batches; options are those of :func:`train`."""
    dtype = DTYPES[classifier.dtype]
    seeds = [run.seed for run in wanted]
    network = ChoqolateNetwork(
        classifier.architecture, n_concepts, n_classes, seeds=seeds, start=start, dtype=dtype
    ).to(device)
    temperatures = torch.tensor([run.temperature for run in wanted], device=device, dtype=dtype)[:, None, None]
    histories = train(
        network,
        batches,
        Objective(temperatures, classifier.l1, classifier.l1_on),
        epochs=classifier.epochs,
        learning_rate=classifier.learning_rate,
        schedule=classifier.rate_schedule,
        track=classifier.track,
        **options,
    )
    return network, histories


def runs_at_once(classifier: ChoqolateClassifier, n_concepts: int, n_classes: int) -> int:
    """How many runs fit side by side into the memory meant for them."""
    shapes = classifier.architecture.shapes(n_concepts, n_classes)
    n_weights = sum(math.prod(shape) for shape in shapes.values())
    return max(1, _SIDE_BY_SIDE_BYTES // training_bytes(n_weights, DTYPES[classifier.dtype]))


def _weights(data: TrainingSet, wanted: Sequence[RunSpec], folds: np.ndarray | None) -> np.ndarray:
    """Weights ``(n,)``, or ``(R, n)`` with zeros for the rows that a run holds out."""
    if folds is None:
        return data.weights
    weights = np.stack([data.weights * (folds != run.fold) for run in wanted])
    if not weights.any(axis=1).all():
        raise ChoqolateError(
            "Expected rows with a weight above 0 in every part of the training rows, but too few have one. Give "
            "n_nodes, temperature and interactions instead of 'auto'."
        )
    return weights / weights.mean(axis=1, keepdims=True)
