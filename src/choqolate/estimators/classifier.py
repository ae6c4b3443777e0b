"""CHOQOLATE as a scikit-learn estimator: hyperparameters and training."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from choqolate._util.checks import check_choice, check_number
from choqolate.data.provenance import Provenance
from choqolate.errors import ChoqolateError
from choqolate.estimators.concept_estimator import PRECISIONS
from choqolate.estimators.editable_estimator import EditableEstimator
from choqolate.estimators.search import search
from choqolate.estimators.search_record import AUTO, MAY_BE_AUTO, Search
from choqolate.estimators.side_by_side import (
    DTYPES,
    RunSpec,
    Statistics,
    Trained,
    TrainingSet,
    prepare_training,
    train_side_by_side,
)
from choqolate.estimators.table_inputs import complete_groups
from choqolate.integral.layer import INTERACTIONS
from choqolate.network.architecture import CLASS_INTERACTIONS, Architecture
from choqolate.network.batches import SHUFFLES
from choqolate.network.cluster_start import STARTS
from choqolate.network.training import PENALIZED, SCHEDULES

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from choqolate.data.scores import ConceptScores

    TrainRuns = Callable[["ChoqolateClassifier", TrainingSet, Sequence[RunSpec]], list[Trained]]


USUAL_RANK = 4


class ChoqolateClassifier(EditableEstimator):
    r"""Two layers of 2-additive Choquet integrals: concept scores to a few nodes to classes.

    Scores are min-max scaled with the training range and clipped to [0, 1]. Training minimises Eq. (4) of the paper
    with Adam. Predictions are computed in float64 on the CPU.

    Args:
        n_nodes: number of nodes; ``None`` connects concepts to classes directly; ``"auto"`` searches.
        temperature: T of the class softmax. Lower values favor accuracy, higher values favor sparsity; ``"auto"``
            searches.
        l1: strength of the penalty on interaction weights; 0 for none.
        epochs, batch_size, learning_rate: of the training loop.
        interactions: ``"pairwise"`` (every pair of concepts), ``"factored"`` (linear in the number of concepts) or
            ``"none"`` (weighted means); ``"auto"`` searches.
        class_interactions: of the second layer, ``"pairwise"`` or ``"none"``; by default ``"none"`` if that is what
            ``interactions`` is, else ``"pairwise"``.
        rank: number of products, for ``"factored"``; ``"auto"`` searches, where factored interactions are tried.
        bipolar: count the absence of a concept, 1 - z, as an input of its own, named "not <concept>". By default off,
            and part of the search if anything is ``"auto"``.
        init: ``"random"``, or ``"clusters"``: each node starts with 80% of its weight on one cluster of correlated
            concepts, see :class:`~choqolate.network.cluster_start.ClusterStart`. By default random, with ``"auto"``
            clusters. Without nodes, the start is random.
        schedule: ``"constant"`` learning rate, or ``"cosine"``: it falls to zero. By default constant, with ``"auto"``
            cosine.
        sparsity: with ``"auto"``, take the most accurate setting with at least this Attribution Gini.
        free_weights: drop the softmax on the weights (an ablation: no valid integrals any more).
        l1_on: the interaction weights of the ``"first"`` layer, or of ``"all"`` layers; or the unconstrained
            ``"parameters"`` of both layers, which drives all weights of a node to the same value (an ablation).
        class_weight: ``None``, ``"balanced"`` or a dictionary from class to weight.
        track: keep the node attributions of every epoch in ``history_``.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ...: where to train.
        dtype: ``"float32"`` or ``"float64"``: precision of the training.
        verbose: show progress on stderr while training.
        random_state: seed of the initial parameters.
        shuffle: ``"common"``: the order of the batches is the same for all seeds, so that runs side by side share their
            work; or ``"seed"``: each seed has an order of its own, which takes one pass over the data per seed.

    Attributes:
        classes_: the class labels ``(C,)``.
        concepts_: names of the M concepts; of the columns if ``X`` had some, else x0, x1, ...
        input_names_: names of the first layer's inputs: the concepts, with ``bipolar`` their absences too.
        node_attributions_: Shapley values ``(N, M)`` (``(N, 2M)`` with ``bipolar``); rows sum to one.
        concept_attributions_: Shapley values per concept ``(N, M)``: with ``bipolar``, presence and absence added.
        class_attributions_: Shapley values of the nodes in each class ``(C, N)``.
        network_: the fitted network with its edits, see :class:`~choqolate.network.fitted.FittedNetwork`.
        search_: what was tried if anything was ``"auto"``, and why the choice was made, a
            :class:`~choqolate.estimators.search_record.Search`; else ``None``.
        temperature_: ``temperature`` or, if that is ``"auto"``, what was chosen.
        calibration_: the temperature of the probabilities and how it was fitted, a
            :class:`~choqolate.estimators.calibration.Calibration`; ``None`` unless :meth:`calibrate` or
            :func:`~choqolate.fit_scores` made one.
        probability_temperature_: the calibrated temperature, else ``temperature_``.
        reference_: what training rows look like, for the flags of :meth:`predict_table`; ``None`` for fewer than 20.
        history_: arrays ``loss`` and ``accuracy`` ``(epochs,)``; with ``track`` also ``node_attributions``
            ``(epochs, N, M)``.
        edits_: what was done to the model since training, in order; ``undo`` takes the last one back.
        removal_: what was removed or reweighted since training, or ``None``.
        simplification_: what was simplified since training and what that can change at most, or ``None``.
        class_shift_: what recalibration adds to the class scores ``(C,)``.
        concept_means_: training means of the scaled scores ``(M,)``.
        label_shares_: share of each class among the training labels ``(C,)``.
        provenance_: where the training scores came from, a :class:`~choqolate.data.provenance.Provenance`; nothing is
            known of it after ``fit``. It is saved with the model.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> clf = ChoqolateClassifier(n_nodes=4).fit(X, y)
    >>> clf.score(X, y) > 0.9
    True
    >>> clf.node_attributions_.shape, clf.class_attributions_.shape
    ((4, 13), (3, 4))
    >>> edited = clf.remove_concepts("alcohol")
    >>> float(edited.node_attributions_[:, 0].max())
    0.0
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> found = ChoqolateClassifier(n_nodes="auto", temperature="auto", interactions="auto").fit(X, y)
    >>> found.score(X, y) > 0.9, found.search_.choice.accuracy > 0.9
    (True, True)
    """

    history_: dict[str, np.ndarray]

    def __init__(
        self,
        n_nodes: int | str | None = 8,
        *,
        temperature: float | str = 0.005,
        l1: float = 0.01,
        epochs: int = 100,
        batch_size: int = 512,
        learning_rate: float = 0.1,
        interactions: str = "pairwise",
        class_interactions: str | None = None,
        rank: int | str = USUAL_RANK,
        bipolar: bool | None = None,
        init: str | None = None,
        schedule: str | None = None,
        sparsity: float | None = None,
        free_weights: bool = False,
        l1_on: str = "first",
        class_weight: str | dict[Any, float] | None = None,
        track: bool = False,
        device: str = "auto",
        dtype: str = "float32",
        verbose: bool = False,
        random_state: int | np.random.RandomState | None = 0,
        shuffle: str = "common",
    ) -> None:
        self.n_nodes = n_nodes
        self.temperature = temperature
        self.l1 = l1
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.interactions = interactions
        self.class_interactions = class_interactions
        self.rank = rank
        self.bipolar = bipolar
        self.init = init
        self.schedule = schedule
        self.sparsity = sparsity
        self.free_weights = free_weights
        self.l1_on = l1_on
        self.class_weight = class_weight
        self.track = track
        self.device = device
        self.dtype = dtype
        self.verbose = verbose
        self.random_state = random_state
        self.shuffle = shuffle

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # the checks' data have two features, of which a Choquet network sees only the order
        tags.classifier_tags.poor_score = True
        return tags

    # ------------------------------------------------------------------ training

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> ChoqolateClassifier:
        """Train on raw concept scores ``X (n, M)`` and labels ``y (n,)``.

        Args:
            X: scores; an array, a DataFrame or :class:`~choqolate.ConceptScores`.
            y: labels.
            sample_weight: weights ``(n,)``.
            groups: group of each row ``(n,)``, by default that of ``X`` if it knows. Only the search uses groups:
                they count equally in the accuracy that it compares. Weights count in training only.
        """
        return self.fit_prepared(*self.prepare(X, y, sample_weight, groups))

    def fit_prepared(self, data: TrainingSet, seed: int, train: TrainRuns = train_side_by_side) -> ChoqolateClassifier:
        """Search if anything is left to it, then train.

        Args:
            data: what :meth:`prepare` gives.
            seed: of the initial parameters.
            train: trains a classifier without ``"auto"`` on data, one run for each :class:`RunSpec`.
        """
        found = search(self, data, seed) if self.is_searching else None
        settings = self if found is None else self.with_settings(found.settings)
        self.keep(train(settings, data, [RunSpec(seed, settings.temperature_)])[0], found)
        return self

    def prepare(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, *, known: Statistics | None = None
    ) -> tuple[TrainingSet, int]:
        """Check parameters and rows as :meth:`fit` does; what it trains on, and its seed.

        Of a sample, ``known`` are the statistics of all rows that it was drawn from.
        """
        self._check_parameters()
        groups = complete_groups(X, warn=self.is_searching) if groups is None else groups
        data = prepare_training(*self._validate(X, y, PRECISIONS), sample_weight, self.class_weight, groups, known)
        return data, self._seed()

    def keep(self, trained: Trained, found: Search | None = None) -> None:
        """Take over what one run gave."""
        self.network_, self.history_, self.reference_ = trained
        self.search_, self.stability_, self.calibration_, self.measured_ = found, None, None, None
        self.provenance_ = Provenance()

    def with_settings(self, settings: dict[str, Any]) -> ChoqolateClassifier:
        """A copy with other parameters, in which nothing is left to a search; it is not trained again."""
        if self.rank == AUTO:
            settings = {"rank": USUAL_RANK, **settings}
        resolved: ChoqolateClassifier = copy.copy(self).set_params(sparsity=None, **settings)
        return resolved

    @property
    def trained_settings(self) -> dict[str, Any]:
        """The parameters of a classifier that trains the same network without a search."""
        settings = self if self.search_ is None else self.with_settings(self.search_.settings)
        spelled_out = {"bipolar": bool(settings.bipolar), "init": settings.start, "schedule": settings.rate_schedule}
        return settings.get_params() | spelled_out

    # ------------------------------------------------------------------ files

    def apply_edits(self, path: str | PathLike[str], *, recalibrate: Any = None) -> Self:
        """A copy with the edits of a file, see :func:`choqolate.estimators.edits_file.apply_edits`."""
        from choqolate.estimators.edits_file import apply_edits

        return apply_edits(self, path, recalibrate=recalibrate)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a folder, see :func:`choqolate.estimators.model_folder.save`."""
        from choqolate.estimators.model_folder import save

        save(self, path)

    def export_onnx(self, path: str | PathLike[str]) -> None:
        """Write the model to an ONNX file, see :func:`choqolate.estimators.onnx_file.export_onnx`."""
        from choqolate.estimators.onnx_file import export_onnx

        export_onnx(self, path)

    def studio(self, scores: ConceptScores | str | PathLike[str], *, height: int = 800, **options: Any) -> Any:
        """Show the studio of this classifier in a notebook, see :func:`choqolate.studio.show_studio`."""
        from choqolate.studio.notebook import show_studio

        return show_studio(self, scores, height=height, **options)

    # ------------------------------------------------------------------ parameters

    @property
    def is_searching(self) -> bool:
        """Whether any parameter is left to a search."""
        return any(isinstance(value, str) and value == AUTO for value in map(self.__dict__.get, MAY_BE_AUTO))

    @property
    def temperature_(self) -> float:
        """The temperature of the training: ``temperature`` or, if that is ``"auto"``, what was chosen."""
        if self.temperature == AUTO and self.search_ is not None:
            return self.search_.choice.temperature
        if self.temperature == AUTO:
            raise ChoqolateError("The temperature is left to a search, but none was made. Fit the classifier again.")
        return float(self.temperature)

    @property
    def start(self) -> str:
        """How nodes start: ``init``, or what it stands for by default."""
        return self.init or ("clusters" if self.is_searching else "random")

    @property
    def rate_schedule(self) -> str:
        """How the learning rate moves: ``schedule``, or what it stands for by default."""
        return self.schedule or ("cosine" if self.is_searching else "constant")

    @property
    def architecture(self) -> Architecture:
        """How the layers of the network are built; it is not known before a search."""
        return Architecture(
            self.n_nodes,
            self.interactions,
            USUAL_RANK if self.rank == AUTO else int(self.rank),
            self.free_weights,
            bool(self.bipolar),
            self.class_interactions,
        )

    def _check_parameters(self) -> None:
        self._check_loop_parameters()
        for name in MAY_BE_AUTO:
            if isinstance(getattr(self, name), str) and getattr(self, name) == AUTO:
                continue
            if name == "interactions":
                check_choice(name, self.interactions, (*INTERACTIONS, AUTO))
            elif getattr(self, name) is not None or name != "n_nodes":
                whole = name in ("n_nodes", "rank")
                check_number(name, getattr(self, name), minimum=int(whole), whole=whole, strict=not whole)
        if self.rank == AUTO and self.interactions not in ("factored", AUTO):
            raise ChoqolateError(
                f"rank='auto' needs factored interactions, but interactions is {self.interactions!r}. Set it to "
                "'factored' or 'auto', or give no rank."
            )
        check_number("l1", self.l1, minimum=0)
        check_choice("l1_on", self.l1_on, PENALIZED)
        check_choice("shuffle", self.shuffle, SHUFFLES)
        check_choice("dtype", self.dtype, tuple(DTYPES))
        for name, choices in (("class_interactions", CLASS_INTERACTIONS), ("init", STARTS), ("schedule", SCHEDULES)):
            if getattr(self, name) is not None:
                check_choice(name, getattr(self, name), choices)
        if not isinstance(self.bipolar, bool | np.bool_ | None):
            raise ChoqolateError(f"Expected bipolar to be True, False or None, got {self.bipolar!r}.")
        if self.sparsity is not None:
            check_number("sparsity", self.sparsity, minimum=0)
            if self.sparsity > 1:
                raise ChoqolateError(f"Expected sparsity to be a Gini of at most 1, got {self.sparsity!r}.")
            if not self.is_searching:
                raise ChoqolateError("sparsity needs a search. Set n_nodes, temperature or interactions to 'auto'.")
        if self.free_weights and (self.is_searching or self.start == "clusters"):
            raise ChoqolateError(
                "free_weights drops the softmax, which 'auto' and init='clusters' rely on. Give n_nodes, temperature "
                "and interactions, and leave init random."
            )
