"""What the baselines share: concept scores to a few nodes to classes, trained, read and edited in the same way."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from typing import Any, Self, TypeVar

import numpy as np
import torch
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from choqolate import metrics
from choqolate._util.checks import check_choice, check_classes, check_number, find_concepts, warn_constant
from choqolate._util.device import pick_device
from choqolate._util.text import listed
from choqolate.data.provenance import Provenance
from choqolate.errors import ChoqolateError
from choqolate.estimators.concept_estimator import ConceptEstimator, fit_scaling
from choqolate.estimators.descent import Descent
from choqolate.explain.local import LocalExplanation
from choqolate.network.batches import epochs_for
from choqolate.network.training import History


class Bottleneck(ConceptEstimator, ClassifierMixin, TransformerMixin, BaseEstimator):
    r"""Concept scores to nodes to classes: :math:`h = \sigma(Wz + b)`, :math:`o = Vh + d`.

    The base of all baselines. A method brings along how it is trained (:meth:`_learn`) and, unless they are the
    identity, what its nodes read (:meth:`_units`) and what becomes of the sum (:meth:`_activate`). Scores are min-max
    scaled with the training range and clipped to [0, 1], batches come in the same order for all methods, and all is
    computed in float64.

    Args:
        n_nodes: number of nodes N; ``None`` connects concepts to classes directly.
        epochs, batch_size, learning_rate: of the training loop (of each of its stages).
        steps: training budget in steps, instead of ``epochs``: each stage runs the fewest whole epochs that make at
            least this many steps.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ...: where to train.
        verbose: show progress on stderr while training.
        random_state: seed of the initial parameters. The order of the batches is the same for all seeds.

    Attributes:
        classes_: the class labels ``(C,)``.
        concepts_: names of the M concepts; of the columns if ``X`` had some, else x0, x1, ...
        node_attributions_: W, the signed weights of the first layer ``(N, M)``; without nodes ``(C, M)``.
        node_intercepts_: b ``(N,)``.
        class_attributions_: V, the signed weights of the second layer ``(C, N)``; without nodes the identity.
        class_intercepts_: d ``(C,)``.
        n_parameters_: how many numbers were trained, all of them counted.
        history_: arrays ``loss`` (with the penalty, if there is one) and ``accuracy`` ``(epochs,)``.
        went_back_: whether the loss of a stage ended more than a quarter above its lowest, so that it went back to the
            epoch where it was lowest.
        late_decrease_: relative decrease of the loss late in training, the largest of all stages: near zero if they
            have converged. See :func:`~choqolate.metrics.late_decrease`.
        removed_: names of the concepts frozen since training.
        concept_means_: training means of the scaled scores ``(M,)``.
        provenance_: where the training scores came from; nothing is known of it after ``fit``.
    """

    of_a_run = ("random_state", "learning_rate", "penalty")  # parameters in which runs side by side may differ
    penalty: float = 0.0  # methods that have one take it as a parameter
    l1_ratio: float = 1.0
    node_attributions_: np.ndarray
    node_intercepts_: np.ndarray
    class_attributions_: np.ndarray
    class_intercepts_: np.ndarray
    concept_means_: np.ndarray
    n_parameters_: int
    history_: dict[str, np.ndarray]
    went_back_: bool
    removed_: tuple[str, ...]

    def __init__(
        self,
        n_nodes: int | None = 8,
        *,
        epochs: int = 100,
        steps: int | None = None,
        batch_size: int = 512,
        learning_rate: float = 0.01,
        device: str = "auto",
        verbose: bool = False,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_nodes = n_nodes
        self.epochs = epochs
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    # ------------------------------------------------------------------ what a method brings along

    def _check_parameters(self) -> None:
        if self.n_nodes is not None:
            check_number("n_nodes", self.n_nodes, minimum=1, whole=True)
        self._check_loop_parameters()
        if self.steps is not None:
            check_number("steps", self.steps, minimum=1, whole=True)
        check_number("penalty", self.penalty, minimum=0)
        check_number("l1_ratio", self.l1_ratio, minimum=0)
        if self.l1_ratio > 1:
            raise ChoqolateError(f"expected l1_ratio to be a number from 0 to 1, got {self.l1_ratio!r}")

    def _train(self, runs: Sequence[Bottleneck], X: np.ndarray, targets: np.ndarray) -> list[dict[str, Any]]:
        """What is fitted in each of several runs like this one, on the data that this one has seen: by descent."""
        return self._learn(_descent(runs, X, targets))

    def _learn(self, training: Descent) -> list[dict[str, Any]]:
        """Train all runs of one kind; return what is fitted in each: its layers, ``n_parameters_``, ``history_``."""
        layers, histories = training.learn_layers(
            lambda rows: training.z[rows], self._widths(training.z.shape[1]), self.l1_ratio
        )
        return [self._fitted(own, history) for own, history in zip(layers, histories, strict=True)]

    def _widths(self, n_inputs: int) -> list[int]:
        """Numbers of inputs, nodes (if there are any) and classes."""
        return [n_inputs, *([] if self.n_nodes is None else [self.n_nodes]), len(self.classes_)]

    def _fitted(self, layers: Sequence[np.ndarray], history: History) -> dict[str, Any]:
        """Linear layers as fitted attributes; a single one stands for the nodes, and its nodes are the classes."""
        n_classes = len(self.classes_)
        W, b, V, d = layers if len(layers) == 4 else (*layers, np.eye(n_classes), np.zeros(n_classes))
        return {
            "node_attributions_": W,
            "node_intercepts_": b,
            "class_attributions_": V,
            "class_intercepts_": d,
            "n_parameters_": sum(theta.size for theta in layers),
            "history_": history.as_arrays(),
            "went_back_": history.went_back,
        }

    def _units(self, z: np.ndarray) -> np.ndarray:
        """What the nodes read ``(n, M)``, a column for each concept, from scaled scores."""
        return z

    def _activate(self, sums: np.ndarray) -> np.ndarray:
        """Node values from weighted sums, entry by entry."""
        return sums

    def _slopes(self, sums: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Change of the node values per change of the weighted sums, on the way from ``start``."""
        return np.ones_like(sums)

    # ------------------------------------------------------------------ training

    def fit(self, X: Any, y: Any) -> Self:
        """Train on raw concept scores ``X (n, M)`` and labels ``y (n,)``."""
        train_together([self], *self.prepare(X, y))
        return self

    def prepare(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Check parameters and data, and keep what scaling and names need; raw scores and class indices."""
        self._check_parameters()
        X, y, self.concepts_ = self._validate(X, y)
        self.classes_, targets = np.unique(y, return_inverse=True)
        check_classes(self.classes_)
        self.scaling_, constant = fit_scaling(X, self.concepts_)
        warn_constant(constant)
        self.concept_means_ = self.scaling_(X).mean(axis=0)
        return X, targets

    @property
    def late_decrease_(self) -> float:
        """Relative decrease of the training loss from the second-to-last tenth of the epochs to the last."""
        check_is_fitted(self)
        stages = [losses for name, losses in self.history_.items() if name != "accuracy" and len(losses)]
        return max(map(metrics.late_decrease, stages), default=math.nan)

    # ------------------------------------------------------------------ prediction

    def transform(self, X: Any) -> np.ndarray:
        """Node values ``(n, N)``; without nodes, the class scores."""
        return self._node_values(X)

    def class_scores(self, X: Any) -> np.ndarray:
        """Outputs of the second layer ``(n, C)``: the logits."""
        scores: np.ndarray = self._node_values(X) @ self.class_attributions_.T + self.class_intercepts_
        return scores

    def _node_values(self, X: Any) -> np.ndarray:
        """What :meth:`transform` gives, as an array whatever ``set_output`` says."""
        return self._activate(self._sums(self._units(self.scale(X))))

    def _sums(self, units: np.ndarray) -> np.ndarray:
        sums: np.ndarray = units @ self.node_attributions_.T + self.node_intercepts_
        return sums

    def node_inputs(self, X: Any) -> np.ndarray:
        """Inputs of the nodes ``(n, M)``, one column per concept: scaled scores, or the units of a method."""
        return self._units(self.scale(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities ``(n, C)``: softmax of the class scores."""
        probabilities: np.ndarray = softmax(self.class_scores(X), axis=1)
        return probabilities

    def explain(self, X: Any, *, baseline: str = "zero") -> LocalExplanation:
        r"""Exact local attributions of each row, as our own classifier gives them.

        Of a linear layer they are :math:`W_{nj} (z_j - x_j)`, x the baseline: ``"zero"``, or the training ``"mean"``.
        """
        check_choice("baseline", baseline, ("zero", "mean"))
        z = self.scale(X)
        start = np.zeros((1, z.shape[1])) if baseline == "zero" else self.concept_means_[None]
        (units, sums), (first_units, first_sums) = ((u, self._sums(u)) for u in (self._units(z), self._units(start)))
        values, origin = self._activate(sums), self._activate(first_sums)
        scores, first_scores = (at @ self.class_attributions_.T + self.class_intercepts_ for at in (values, origin))
        of_sums = self.node_attributions_ * (units - first_units)[:, None]
        return LocalExplanation(
            concept_to_node=of_sums * self._slopes(sums, first_sums)[:, :, None],
            node_to_class=self.class_attributions_ * (values - origin)[:, None],
            node_values=values,
            class_scores=scores,
            inputs=z,
            node_baseline=origin[0],
            class_baseline=first_scores[0],
            class_shift=np.zeros(len(self.classes_)),
            concepts=tuple(self.concepts_),
            nodes=self.node_names_,
            classes=tuple(self.classes_.tolist()),
            baseline=baseline,
        )

    # ------------------------------------------------------------------ editing

    def remove_concepts(self, names: str | Iterable[str]) -> Self:
        r"""A copy in which the given concepts are frozen at their training mean; this model is untouched.

        A linear model has no weights to rescale, so this is what removal can mean for it: the frozen part
        :math:`W_j \bar z_j` moves into the intercepts, and what the concept scores on an image counts no more.

        Raises:
            ChoqolateError: for unknown names.

        >>> from choqolate.baselines import LinearBottleneck
        >>> X, y = np.array([[0.0, 1.0], [1.0, 0.0], [0.2, 0.3], [0.9, 0.4]]), [0, 1, 0, 1]
        >>> model = LinearBottleneck(n_nodes=2, epochs=5).fit(X, y).remove_concepts("x1")
        >>> model.removed_, model.node_attributions_[:, 1]
        (('x1',), array([0., 0.]))
        """
        check_is_fitted(self)
        frozen = find_concepts(names, self.concepts_)
        edited = copy.copy(self)
        edited._freeze(frozen)
        edited.removed_ = tuple(dict.fromkeys([*self.removed_, *(self.concepts_[j] for j in frozen)]))
        return edited

    def _freeze(self, frozen: Sequence[int]) -> None:
        """Move what the given units are worth at the mean of the training scores into the intercepts."""
        means = self._units(self.concept_means_[None])[0]
        self.node_intercepts_ = self.node_intercepts_ + self.node_attributions_[:, frozen] @ means[frozen]
        self.node_attributions_ = self.node_attributions_.copy()
        self.node_attributions_[:, frozen] = 0.0


Method = TypeVar("Method", bound=Bottleneck)


def fit_together(estimators: Iterable[Method], X: Any, y: Any) -> list[Method]:
    """Fit several estimators of one method side by side, in one pass over the data.

    A run is the same as if it had been fitted alone, up to rounding (about 1e-10).

    Args:
        estimators: of the same class; only ``random_state``, ``learning_rate`` and ``penalty`` may differ.
        X: raw concept scores ``(n, M)``.
        y: labels ``(n,)``.

    Returns:
        The estimators themselves, fitted.

    Raises:
        ChoqolateError: if there are none, or they differ in something else.

    >>> from sklearn.datasets import load_wine
    >>> from choqolate.baselines import PCBM
    >>> grid = [PCBM(n_nodes=4, epochs=2, penalty=penalty) for penalty in (1e-5, 1e-3)]
    >>> [model.penalty for model in fit_together(grid, *load_wine(return_X_y=True))]
    [1e-05, 0.001]
    """
    runs = list(estimators)
    check_alike(runs)
    train_together(runs, *runs[0].prepare(X, y))
    return runs


def check_alike(runs: Sequence[Bottleneck]) -> None:
    """Runs side by side share all but their seed, learning rate and penalty."""
    if not runs:
        raise ChoqolateError("expected at least one estimator, got none")
    kinds = sorted({type(run).__name__ for run in runs})
    if len(kinds) > 1 or not isinstance(runs[0], Bottleneck):
        raise ChoqolateError(f"expected baselines of one kind, got {listed(kinds)}: fit each kind by itself")
    if len({id(run) for run in runs}) < len(runs):
        raise ChoqolateError("expected different estimators, got one of them twice: use sklearn.base.clone")
    first = runs[0].get_params()
    for run in runs[1:]:
        differing = [
            name for name, value in run.get_params().items() if name not in runs[0].of_a_run and value != first[name]
        ]
        if differing:
            may = ", ".join(runs[0].of_a_run)
            raise ChoqolateError(
                f"Expected estimators that differ only in {may}, but they differ in {listed(differing)}. Fit them one "
                "by one."
            )
        run._check_parameters()


def train_together(runs: Sequence[Bottleneck], X: np.ndarray, targets: np.ndarray) -> None:
    """Train runs that are alike, of which the first has seen the data already."""
    first = runs[0]
    seen = {name: value for name, value in vars(first).items() if name.endswith("_")}  # names, classes, ranges
    for run, fitted in zip(runs, first._train(runs, X, targets), strict=True):
        for stale in [name for name in vars(run) if name.endswith("_") and name not in seen]:
            delattr(run, stale)
        for name, value in (seen | fitted).items():
            setattr(run, name, value)
        run.removed_, run.provenance_ = (), Provenance()


def _descent(runs: Sequence[Bottleneck], X: np.ndarray, targets: np.ndarray) -> Descent:
    """The training of runs that are alike, of which the first has seen the data already."""
    first, device = runs[0], pick_device(runs[0].device)

    def of_runs(values: Iterable[float]) -> Tensor:
        return torch.tensor(list(values), dtype=torch.float64, device=device)

    return Descent(
        X=X,
        z=torch.from_numpy(first.scaling_(X)).to(device),
        targets=torch.from_numpy(targets).to(device),
        generators=[torch.Generator().manual_seed(run._seed()) for run in runs],
        learning_rate=of_runs(run.learning_rate for run in runs),
        penalty=of_runs(run.penalty for run in runs),
        epochs=first.epochs if first.steps is None else epochs_for(first.steps, len(X), first.batch_size),
        batch_size=first.batch_size,
        verbose=first.verbose,
    )
