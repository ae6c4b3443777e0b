"""From checked scores and labels to trained networks, one run or many side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor

from choqolate._util.checks import check_classes, check_unique, warn_blind, warn_constant
from choqolate._util.device import pick_device
from choqolate._util.progress import epoch_bar
from choqolate.errors import ChoqolateError
from choqolate.estimators.concept_estimator import fit_scaling
from choqolate.network.fitted import FittedNetwork
from choqolate.network.module import ChoqolateNetwork
from choqolate.network.training import Objective, train

if TYPE_CHECKING:
    from choqolate.estimators.classifier import ChoqolateClassifier

DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class TrainingSet:
    """Rows to train on, and the network that will be fitted to them, still without parameters."""

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    untrained: FittedNetwork


class RunSpec(NamedTuple):
    """What tells runs that are trained side by side from each other."""

    seed: int
    temperature: float


class Trained(NamedTuple):
    """What came of a run."""

    network: FittedNetwork
    history: dict[str, np.ndarray]


def prepare_training(
    classifier: ChoqolateClassifier, X: np.ndarray, y: np.ndarray, concepts: list[str], sample_weight: Any
) -> TrainingSet:
    """Scale the scores ``X (n, M)``, number the labels ``y (n,)``, and gather what the fitted network keeps of them."""
    check_unique(classifier.architecture.input_names(concepts))
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    present = weights > 0
    X, y, weights = X[present], y[present], weights[present]
    classes, targets = np.unique(y, return_inverse=True)
    check_classes(classes)
    warn_blind(X.shape[1], classifier.n_nodes, len(classes), classifier.bipolar)
    scaling, constant = fit_scaling(X, concepts)
    warn_constant(constant)
    z = scaling(X)
    network = FittedNetwork(
        architecture=classifier.architecture,
        concepts=tuple(concepts),
        classes=classes,
        scaling=scaling,
        concept_means=np.average(z, axis=0, weights=weights),
        label_shares=np.bincount(targets, weights, len(classes)) / weights.sum(),
        parameters={},
    )
    weights = weights * _class_weights(classifier.class_weight, network, y)[targets]
    weights = weights / weights.mean()
    return TrainingSet(network.as_inputs(z), torch.from_numpy(targets), torch.from_numpy(weights), network)


def _class_weights(class_weight: str | dict[Any, float] | None, network: FittedNetwork, y: np.ndarray) -> np.ndarray:
    """Weight of each class ``(C,)``; ``"balanced"`` counts a row of weight two as two rows."""
    if class_weight is None:
        return np.ones(len(network.classes))
    if class_weight == "balanced":
        return 1 / (len(network.classes) * network.label_shares)
    weights: np.ndarray = compute_class_weight(class_weight, classes=network.classes, y=y)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ChoqolateError(f"expected class weights of at least 0, some above it, got {class_weight}")
    return weights


def train_side_by_side(classifier: ChoqolateClassifier, data: TrainingSet, wanted: Sequence[RunSpec]) -> list[Trained]:
    """Train the wanted runs in one pass over the data, with the parameters of the classifier."""
    device, dtype = pick_device(classifier.device), DTYPES[classifier.dtype]
    temperatures = torch.tensor([run.temperature for run in wanted], device=device, dtype=dtype)[:, None, None]
    network = ChoqolateNetwork(
        data.inputs.shape[1],
        classifier.n_nodes,
        len(data.untrained.classes),
        seeds=[run.seed for run in wanted],
        interactions=classifier.interactions,
        rank=classifier.rank,
        free_weights=classifier.free_weights,
        dtype=dtype,
    ).to(device)
    label = "training" if len(wanted) == 1 else f"training {len(wanted)} runs"
    with epoch_bar(classifier.epochs, label, enabled=classifier.verbose) as on_epoch:
        histories = train(
            network,
            data.inputs.to(device, dtype),
            data.targets.to(device),
            data.weights.to(device, dtype),
            Objective(temperatures, classifier.l1, classifier.l1_on),
            epochs=classifier.epochs,
            batch_size=classifier.batch_size,
            learning_rate=classifier.learning_rate,
            track=classifier.track,
            on_epoch=on_epoch,
        )
    return [
        Trained(replace(data.untrained, parameters=network.parameters_of(index)), history.as_arrays())
        for index, history in enumerate(histories)
    ]
