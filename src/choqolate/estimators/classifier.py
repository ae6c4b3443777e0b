"""CHOQOLATE as a scikit-learn estimator: scaling, training, reading, editing."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight, check_is_fitted
from torch import Tensor

from choqolate._util.checks import check_choice, check_classes, check_number, check_unique, warn_blind, warn_constant
from choqolate._util.device import pick_device
from choqolate._util.progress import epoch_bar
from choqolate.errors import ChoqolateError
from choqolate.estimators.concept_estimator import ConceptEstimator, check_seeds
from choqolate.estimators.editing import Editing
from choqolate.explain.local import LocalExplanation
from choqolate.explain.node_names import name_nodes
from choqolate.integral import Capacity
from choqolate.integral.layer import INTERACTIONS, as_capacity, raw_shapes, training_bytes
from choqolate.network.module import ChoqolateNetwork, second_layer
from choqolate.network.removal import Nodes
from choqolate.network.training import Objective, train

if TYPE_CHECKING:
    from sklearn.utils import Tags

DTYPES = {"float32": torch.float32, "float64": torch.float64}
_SIDE_BY_SIDE_BYTES = 2 << 30  # parameters of runs trained together, with all that training keeps beside them


class _Run(NamedTuple):
    seed: int
    temperature: float


@dataclass(frozen=True)
class _TrainingSet:
    inputs: Tensor
    targets: Tensor
    weights: Tensor


class ChoqolateClassifier(Editing, ConceptEstimator, ClassifierMixin, TransformerMixin, BaseEstimator):
    r"""Two layers of 2-additive Choquet integrals: concept scores to a few nodes to classes.

    Scores are min-max scaled with the training range and clipped to [0, 1]. Training minimises Eq. (4) of the paper
    with Adam. Predictions are computed in float64 on the CPU.

    Args:
        n_nodes: number of nodes; ``None`` connects concepts to classes directly.
        temperature: T of the class softmax; small is accurate, large is sparse.
        l1: strength of the penalty on interaction weights; 0 for none.
        epochs, batch_size, learning_rate: of the training loop.
        interactions: ``"pairwise"`` (every pair of concepts), ``"factored"`` (linear in the number of concepts) or
            ``"none"`` (weighted means).
        rank: number of products, for ``"factored"``.
        bipolar: count the absence of a concept, 1 - z, as an input of its own, named "not <concept>".
        free_weights: drop the softmax on the weights (an ablation: no valid integrals any more).
        l1_on: ``"first"`` layer or ``"all"``.
        class_weight: ``None``, ``"balanced"`` or a dictionary from class to weight.
        track: keep the node attributions of every epoch in ``history_``.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ...: where to train.
        dtype: ``"float32"`` or ``"float64"``: precision of the training.
        verbose: show a progress bar while training (on a terminal).
        random_state: seed of the initial parameters. The order of the batches is the same for all seeds.

    Attributes:
        classes_: the class labels ``(C,)``.
        concepts_: names of the M concepts; of the columns if ``X`` had some, else x0, x1, ...
        input_names_: names of the first layer's inputs: the concepts, with ``bipolar`` their absences too.
        node_attributions_: Shapley values ``(N, M)`` (``(N, 2M)`` with ``bipolar``); rows sum to one.
        class_attributions_: Shapley values of the nodes in each class ``(C, N)``.
        history_: arrays ``loss`` and ``accuracy`` ``(epochs,)``; with ``track`` also ``node_attributions``
            ``(epochs, N, M)``.
        removal_: what was removed since training, or ``None``.
        concept_means_: training means of the scaled scores ``(M,)``.
        label_shares_: share of each class among the training labels ``(C,)``.
        provenance_: where the training scores came from, as JSON has it (backbone, vocabulary, data); empty after
            ``fit``, saved with the model.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> clf = ChoqolateClassifier(n_nodes=4).fit(X, y)
    >>> clf.score(X, y) > 0.9
    True
    >>> clf.node_attributions_.shape, clf.class_attributions_.shape
    ((4, 13), (3, 4))
    >>> edited = clf.remove_concepts("alcohol")
    >>> edited.node_attributions_[:, 0].max()
    np.float64(0.0)
    """

    def __init__(
        self,
        n_nodes: int | None = 8,
        *,
        temperature: float = 0.005,
        l1: float = 0.01,
        epochs: int = 100,
        batch_size: int = 512,
        learning_rate: float = 0.1,
        interactions: str = "pairwise",
        rank: int = 4,
        bipolar: bool = False,
        free_weights: bool = False,
        l1_on: str = "first",
        class_weight: str | dict[Any, float] | None = None,
        track: bool = False,
        device: str = "auto",
        dtype: str = "float32",
        verbose: bool = False,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_nodes = n_nodes
        self.temperature = temperature
        self.l1 = l1
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.interactions = interactions
        self.rank = rank
        self.bipolar = bipolar
        self.free_weights = free_weights
        self.l1_on = l1_on
        self.class_weight = class_weight
        self.track = track
        self.device = device
        self.dtype = dtype
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # the checks' data have two features, of which a Choquet network sees only the order
        tags.classifier_tags.poor_score = True
        return tags

    # ------------------------------------------------------------------ training

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ChoqolateClassifier:
        """Train on raw concept scores ``X (n, M)`` and labels ``y (n,)``."""
        data = self._prepare(X, y, sample_weight)
        return self._train(data, [_Run(self._seed(), self.temperature)])[0]

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> _TrainingSet:
        """Check parameters and data, and keep what scaling and names need."""
        self._check_parameters()
        X, y = self._validate(X, y)
        self._name_inputs()
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        present = weights > 0
        X, y, weights = X[present], y[present], weights[present]
        self.classes_, targets = np.unique(y, return_inverse=True)
        check_classes(self.classes_)
        warn_blind(X.shape[1], self.n_nodes, len(self.classes_), self.bipolar)
        warn_constant(self._fit_range(X))
        self.concept_means_ = np.average(self._scale(X), axis=0, weights=weights)
        self.label_shares_ = np.bincount(targets, weights, len(self.classes_)) / weights.sum()
        weights = weights * self._class_weights(y)[targets]
        return _TrainingSet(
            self._as_inputs(self._scale(X)), torch.from_numpy(targets), torch.from_numpy(weights / weights.mean())
        )

    def _class_weights(self, y: np.ndarray) -> np.ndarray:
        """Weight of each class ``(C,)``; ``"balanced"`` counts a row of weight two as two rows."""
        if self.class_weight is None:
            return np.ones(len(self.classes_))
        if self.class_weight == "balanced":
            return 1 / (len(self.classes_) * self.label_shares_)
        weights: np.ndarray = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
            raise ChoqolateError(f"expected class weights of at least 0, some above it, got {self.class_weight}")
        return weights

    def _train(self, data: _TrainingSet, wanted: Sequence[_Run]) -> list[ChoqolateClassifier]:
        """Train the wanted runs side by side; the first is this estimator itself."""
        device, dtype = pick_device(self.device), DTYPES[self.dtype]
        temperatures = torch.tensor([run.temperature for run in wanted], device=device, dtype=dtype)[:, None, None]
        network = ChoqolateNetwork(
            data.inputs.shape[1],
            self.n_nodes,
            len(self.classes_),
            seeds=[run.seed for run in wanted],
            interactions=self.interactions,
            rank=self.rank,
            free_weights=self.free_weights,
            dtype=dtype,
        ).to(device)
        label = "training" if len(wanted) == 1 else f"training {len(wanted)} runs"
        with epoch_bar(self.epochs, label, enabled=self.verbose) as on_epoch:
            histories = train(
                network,
                data.inputs.to(device, dtype),
                data.targets.to(device),
                data.weights.to(device, dtype),
                Objective(temperatures, self.l1, self.l1_on),
                epochs=self.epochs,
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                track=self.track,
                on_epoch=on_epoch,
            )
        runs = [self, *(copy.copy(self) for _ in wanted[1:])]
        for index, (run, history) in enumerate(zip(runs, histories, strict=True)):
            run.history_, run.temperature = history.as_arrays(), wanted[index].temperature
            run._set_parameters(network.parameters_of(index))
        return runs

    def _set_parameters(self, parameters: dict[str, Tensor]) -> None:
        self.parameters_ = parameters
        self.edits_ = ()
        self.class_shift_ = np.zeros(len(self.classes_))
        self.provenance_: dict[str, Any] = {}
        self._apply_edits()

    def _trained_layers(self) -> tuple[Nodes, Capacity | None]:
        """Both layers as trained, in float64: the nodes without edits, and the classes (``None`` if one layer)."""
        raw = {name: theta.to(torch.float64) for name, theta in self.parameters_.items()}
        node_raw = {name[6:]: theta for name, theta in raw.items() if name.startswith("nodes.")}
        nodes = as_capacity(node_raw, self.interactions, free_weights=self.free_weights)
        means = self._as_inputs(self.concept_means_[None])[0]
        if self.n_nodes is None:
            return Nodes.unedited(nodes, means), None
        second = second_layer(self.interactions)
        classes = as_capacity({"theta": raw["classes.theta"]}, second, free_weights=self.free_weights)
        return Nodes.unedited(nodes, means), classes

    # ------------------------------------------------------------------ prediction

    def transform(self, X: Any) -> np.ndarray:
        """Node values ``(n, N)`` in [0, 1]."""
        u = self._inputs(X)
        values: np.ndarray = self._nodes.values(u).numpy()
        return values if self.free_weights else values.clip(0.0, 1.0)  # sums of weights may round to above one

    def class_scores(self, X: Any) -> np.ndarray:
        """Outputs of the second layer ``(n, C)``, with the shift of a recalibration if there was one."""
        u = self._inputs(X)
        return self._score_nodes(self._nodes.values(u)).numpy() + self.class_shift_

    def _score_nodes(self, values: Tensor) -> Tensor:
        return values if self._classes is None else self._classes.integrate(values)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities ``(n, C)``: softmax of the class scores over the temperature."""
        return torch.from_numpy(self.class_scores(X)).div(self.temperature).softmax(1).numpy()

    def explain(self, X: Any, *, baseline: str = "zero") -> LocalExplanation:
        """Exact local attributions of each row, relative to a baseline: ``"zero"``, or the training ``"mean"``."""
        check_choice("baseline", baseline, ("zero", "mean"))
        u = self._inputs(X)
        level = np.zeros_like(self.concept_means_) if baseline == "zero" else self.concept_means_
        start = self._as_inputs(level[None])
        values, origin = self._nodes.values(u), self._nodes.values(start)
        if self._classes is None:
            node_to_class = torch.diag_embed(values - origin)
        else:
            node_to_class = self._classes.local_shapley(values, origin)
        return LocalExplanation(
            concept_to_node=self._nodes.local_shapley(u, start).numpy(),
            node_to_class=node_to_class.numpy(),
            node_values=values.numpy(),
            class_scores=self._score_nodes(values).numpy(),
            inputs=u.numpy(),
            node_baseline=origin[0].numpy(),
            class_baseline=self._score_nodes(origin)[0].numpy(),
            class_shift=self.class_shift_,
            concepts=tuple(self.input_names_),
            nodes=self.node_names_,
            classes=tuple(self.classes_.tolist()),
            baseline=baseline,
        )

    @property
    def node_names_(self) -> tuple[str, ...]:
        """A name for each node, from the concepts that lead it; without nodes, the classes."""
        check_is_fitted(self)
        if self._classes is None:
            return tuple(str(label) for label in self.classes_.tolist())
        return name_nodes(self.node_attributions_, self.input_names_)

    @property
    def n_parameters_(self) -> int:
        r"""Number of trained parameters; of two pairwise layers :math:`N M^2 + C N^2`."""
        check_is_fitted(self)
        return sum(theta.numel() for theta in self.parameters_.values())

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of :meth:`transform`: node0, node1, ...; without nodes, the classes."""
        check_is_fitted(self)
        names = self.classes_ if self._classes is None else [f"node{n}" for n in range(len(self.node_attributions_))]
        return np.asarray([str(name) for name in names], dtype=object)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a folder, see :func:`choqolate.estimators.model_folder.save`."""
        from choqolate.estimators.model_folder import save

        save(self, path)

    # ------------------------------------------------------------------ inputs

    def _check_parameters(self) -> None:
        if self.n_nodes is not None:
            check_number("n_nodes", self.n_nodes, minimum=1, whole=True)
        self._check_loop_parameters()
        check_number("rank", self.rank, minimum=1, whole=True)
        check_number("temperature", self.temperature, minimum=0, strict=True)
        check_number("l1", self.l1, minimum=0)
        check_choice("interactions", self.interactions, INTERACTIONS)
        check_choice("l1_on", self.l1_on, ("first", "all"))
        check_choice("dtype", self.dtype, tuple(DTYPES))

    def _name_inputs(self) -> None:
        absences = [f"not {name}" for name in self.concepts_] if self.bipolar else []
        self.input_names_ = self.concepts_ + absences
        check_unique(self.input_names_)

    def _inputs(self, X: Any) -> Tensor:
        """Raw scores to inputs of the first layer, ``(n, M)`` or ``(n, 2M)``, float64."""
        return self._as_inputs(self._scaled(X))

    def _as_inputs(self, z: np.ndarray) -> Tensor:
        return torch.from_numpy(np.concatenate([z, 1 - z], axis=1) if self.bipolar else np.ascontiguousarray(z))


def fit_runs(
    X: Any,
    y: Any,
    seeds: Iterable[int],
    *,
    temperatures: Iterable[float] | None = None,
    sample_weight: Any = None,
    **parameters: Any,
) -> list[ChoqolateClassifier]:
    """Train one classifier for each seed, side by side in one pass over the data.

    The features of the first layer do not depend on the run, so twenty runs cost as much as a few. A run is the same
    as if it had been trained alone, up to rounding (in float64, to about 1e-10).

    Args:
        X: raw concept scores ``(n, M)``.
        y: labels ``(n,)``.
        seeds: the ``random_state`` of each run.
        temperatures: train all seeds at each of these temperatures, in the same pass; runs of one follow each other.
        sample_weight: weights ``(n,)``.
        **parameters: any other parameter of :class:`ChoqolateClassifier`.

    >>> from sklearn.datasets import load_wine
    >>> wine = load_wine(return_X_y=True)
    >>> [run.random_state for run in fit_runs(*wine, seeds=range(3), n_nodes=4, epochs=2)]
    [0, 1, 2]
    >>> runs = fit_runs(*wine, seeds=range(2), temperatures=[0.005, 0.02], n_nodes=4, epochs=2)
    >>> [(run.temperature, run.random_state) for run in runs]
    [(0.005, 0), (0.005, 1), (0.02, 0), (0.02, 1)]
    """
    seeds = check_seeds(seeds, parameters)
    prototype = ChoqolateClassifier(**parameters)
    if temperatures is not None and "temperature" in parameters:
        raise ChoqolateError("expected temperature=... or temperatures=..., got both: leave one out")
    wanted = [_Run(seed, T) for T in _temperatures(temperatures, prototype.temperature) for seed in seeds]
    data = prototype._prepare(X, y, sample_weight)
    together = _runs_at_once(prototype, data.inputs.shape[1])
    runs: list[ChoqolateClassifier] = []
    for start in range(0, len(wanted), together):
        runs += copy.copy(prototype)._train(data, wanted[start : start + together])
    for run, (seed, _) in zip(runs, wanted, strict=True):
        run.random_state = seed
    return runs


def _temperatures(temperatures: Iterable[float] | None, usual: float) -> list[float]:
    if temperatures is not None and not isinstance(temperatures, Iterable):
        raise ChoqolateError(f"expected temperatures to be several, such as [0.005, 0.02], got {temperatures!r}")
    several = [usual] if temperatures is None else list(temperatures)
    if not several:
        raise ChoqolateError("expected at least one temperature, got none")
    for temperature in several:
        check_number("temperatures", temperature, minimum=0, strict=True)
    return several


def _runs_at_once(prototype: ChoqolateClassifier, n_inputs: int) -> int:
    """How many runs fit side by side into the memory meant for them."""
    width = prototype.n_nodes or len(prototype.classes_)
    shapes = raw_shapes(n_inputs, width, prototype.interactions, prototype.rank)
    n_weights = sum(math.prod(shape) for shape in shapes.values())
    return max(1, _SIDE_BY_SIDE_BYTES // training_bytes(n_weights, DTYPES[prototype.dtype]))
