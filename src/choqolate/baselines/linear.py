"""The linear concept bottleneck: two linear layers, as wide as the network they are compared with."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from choqolate.device import pick_device
from choqolate.errors import ChoqolateError
from choqolate.estimator import ConceptEstimator, check_seeds
from choqolate.explain.local import LocalExplanation
from choqolate.explain.names import name_nodes
from choqolate.progress import epoch_bar
from choqolate.training import BATCH_ORDER_SEED, History
from choqolate.validation import check_choice, check_classes, check_number, find_concepts, warn_constant


class LinearBottleneck(ConceptEstimator, ClassifierMixin, TransformerMixin, BaseEstimator):
    r"""Concept scores to a few nodes to classes, both layers linear: :math:`h = Wz + b`, :math:`o = Vh + d`.

    Our own baseline, after concept bottleneck models: the same scaled scores, the same number of nodes and the same
    order of batches as :class:`~choqolate.ChoqolateClassifier`, with no constraint on the weights and nothing between
    the layers. Scores are min-max scaled with the training range and clipped to [0, 1]. Training minimises the
    cross-entropy with Adam, in float64.

    Args:
        n_nodes: number of nodes N.
        epochs, batch_size, learning_rate: of the training loop.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ...: where to train.
        verbose: show a progress bar while training (on a terminal).
        random_state: seed of the initial parameters. The order of the batches is the same for all seeds.

    Attributes:
        classes_: the class labels ``(C,)``.
        concepts_: names of the M concepts; of the columns if ``X`` had some, else x0, x1, ...
        node_attributions_: W, the signed weights of the first layer ``(N, M)``.
        node_intercepts_: b ``(N,)``.
        class_attributions_: V, the signed weights of the second layer ``(C, N)``.
        class_intercepts_: d ``(C,)``.
        history_: arrays ``loss`` and ``accuracy`` ``(epochs,)``.
        removed_: names of the concepts frozen since training.
        concept_means_: training means of the scaled scores ``(M,)``.
        provenance_: where the training scores came from; empty after ``fit``.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = LinearBottleneck(n_nodes=4).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.node_attributions_.shape, model.class_attributions_.shape
    ((4, 13), (3, 4))
    """

    node_attributions_: np.ndarray
    node_intercepts_: np.ndarray
    class_attributions_: np.ndarray
    class_intercepts_: np.ndarray
    removed_: tuple[str, ...]
    provenance_: dict[str, Any]

    def __init__(
        self,
        n_nodes: int = 8,
        *,
        epochs: int = 100,
        batch_size: int = 512,
        learning_rate: float = 0.01,
        device: str = "auto",
        verbose: bool = False,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_nodes = n_nodes
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train on raw concept scores ``X (n, M)`` and labels ``y (n,)``."""
        z, targets = self._prepare(X, y)
        return self._train(z, targets, [self._seed()])[0]

    def _prepare(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Check parameters and data, and keep what scaling and names need; scaled scores and class indices."""
        check_number("n_nodes", self.n_nodes, minimum=1, whole=True)
        self._check_loop_parameters()
        X, y = self._validate(X, y)
        self.classes_, targets = np.unique(y, return_inverse=True)
        check_classes(self.classes_)
        warn_constant(self._fit_range(X))
        z = self._scale(X)
        self.concept_means_ = z.mean(axis=0)
        return z, targets

    def _train(self, z: np.ndarray, targets: np.ndarray, seeds: Sequence[int]) -> list[Self]:
        """Train one run for each seed side by side; the first is this estimator itself."""
        device = pick_device(self.device)
        network = _LinearNetwork(z.shape[1], self.n_nodes, len(self.classes_), seeds).to(device)
        label = "training" if len(seeds) == 1 else f"training {len(seeds)} runs"
        with epoch_bar(self.epochs, label, enabled=self.verbose) as on_epoch:
            histories = _minimise(
                network,
                torch.from_numpy(z).to(device),
                torch.from_numpy(targets).to(device),
                epochs=self.epochs,
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                on_epoch=on_epoch,
            )
        runs = [self, *(copy.copy(self) for _ in seeds[1:])]
        W, b, V, d = (theta.detach().cpu().numpy() for theta in (network.W, network.b, network.V, network.d))
        for index, (run, history) in enumerate(zip(runs, histories, strict=True)):
            run.history_ = history.as_arrays()
            run.node_attributions_, run.node_intercepts_ = W[index].copy(), b[index].copy()
            run.class_attributions_, run.class_intercepts_ = V[index].copy(), d[index].copy()
            run.removed_, run.provenance_ = (), {}
        return runs

    def transform(self, X: Any) -> np.ndarray:
        """Node values ``(n, N)``, of any size and sign."""
        return self._node_values(X)

    def class_scores(self, X: Any) -> np.ndarray:
        """Outputs of the second layer ``(n, C)``: the logits."""
        scores: np.ndarray = self._node_values(X) @ self.class_attributions_.T + self.class_intercepts_
        return scores

    def _node_values(self, X: Any) -> np.ndarray:
        """What :meth:`transform` gives, as an array whatever ``set_output`` says."""
        values: np.ndarray = self._scaled(X) @ self.node_attributions_.T + self.node_intercepts_
        return values

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities ``(n, C)``: softmax of the class scores."""
        probabilities: np.ndarray = softmax(self.class_scores(X), axis=1)
        return probabilities

    def explain(self, X: Any, *, baseline: str = "zero") -> LocalExplanation:
        r"""Exact local attributions of each row, as our own classifier gives them.

        Of a linear layer they are :math:`W_{nj} (z_j - x_j)`, x the baseline: ``"zero"``, or the training ``"mean"``.
        """
        check_choice("baseline", baseline, ("zero", "mean"))
        z = self._scaled(X)
        start = np.zeros_like(self.concept_means_) if baseline == "zero" else self.concept_means_
        values, origin = (at @ self.node_attributions_.T + self.node_intercepts_ for at in (z, start))
        scores, first = (at @ self.class_attributions_.T + self.class_intercepts_ for at in (values, origin))
        return LocalExplanation(
            concept_to_node=self.node_attributions_ * (z - start)[:, None],
            node_to_class=self.class_attributions_ * (values - origin)[:, None],
            node_values=values,
            class_scores=scores,
            inputs=z,
            node_baseline=origin,
            class_baseline=first,
            class_shift=np.zeros(len(self.classes_)),
            concepts=tuple(self.concepts_),
            nodes=name_nodes(self.node_attributions_, self.concepts_),
            classes=tuple(self.classes_.tolist()),
            baseline=baseline,
        )

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of :meth:`transform`: node0, node1, ..."""
        check_is_fitted(self)
        return np.asarray([f"node{n}" for n in range(len(self.node_attributions_))], dtype=object)

    def remove_concepts(self, names: str | Iterable[str]) -> Self:
        r"""A copy in which the given concepts are frozen at their training mean; this model is untouched.

        A linear model has no weights to rescale, so this is what removal can mean for it: the frozen part
        :math:`W_j \bar z_j` moves into the intercepts, and what the concept scores on a picture counts no more.

        Raises:
            ChoqolateError: for unknown names.

        >>> X, y = np.array([[0.0, 1.0], [1.0, 0.0], [0.2, 0.3], [0.9, 0.4]]), [0, 1, 0, 1]
        >>> model = LinearBottleneck(n_nodes=2, epochs=5).fit(X, y).remove_concepts("x1")
        >>> model.removed_, model.node_attributions_[:, 1]
        (('x1',), array([0., 0.]))
        """
        check_is_fitted(self)
        frozen = find_concepts(names, self.concepts_)
        edited = copy.copy(self)
        edited.node_intercepts_ = (
            self.node_intercepts_ + self.node_attributions_[:, frozen] @ self.concept_means_[frozen]
        )
        edited.node_attributions_ = self.node_attributions_.copy()
        edited.node_attributions_[:, frozen] = 0.0
        edited.removed_ = tuple(dict.fromkeys([*self.removed_, *(self.concepts_[j] for j in frozen)]))
        return edited


def fit_linear_runs(X: Any, y: Any, seeds: Iterable[int], **parameters: Any) -> list[LinearBottleneck]:
    """Train one linear bottleneck for each seed, side by side in one pass over the data.

    A run is the same as if it had been trained alone, up to rounding.

    Args:
        X: raw concept scores ``(n, M)``.
        y: labels ``(n,)``.
        seeds: the ``random_state`` of each run.
        **parameters: any other parameter of :class:`LinearBottleneck`.

    >>> from sklearn.datasets import load_wine
    >>> runs = fit_linear_runs(*load_wine(return_X_y=True), seeds=range(3), n_nodes=4, epochs=2)
    >>> [run.random_state for run in runs]
    [0, 1, 2]
    """
    seeds = check_seeds(seeds, parameters)
    prototype = LinearBottleneck(**parameters)
    z, targets = prototype._prepare(X, y)
    runs = prototype._train(z, targets, seeds)
    for run, seed in zip(runs, seeds, strict=True):
        run.random_state = seed
    return runs


class _LinearNetwork(nn.Module):
    """R networks side by side, each drawn from its own seed as ``nn.Linear`` draws: uniform on ±1/sqrt(inputs)."""

    W: nn.Parameter  # (R, N, M)
    b: nn.Parameter  # (R, N)
    V: nn.Parameter  # (R, C, N)
    d: nn.Parameter  # (R, C)

    def __init__(self, n_inputs: int, n_nodes: int, n_classes: int, seeds: Sequence[int]) -> None:
        super().__init__()
        shapes = {"W": (n_nodes, n_inputs), "b": (n_nodes,), "V": (n_classes, n_nodes), "d": (n_classes,)}
        bounds = {"W": n_inputs**-0.5, "b": n_inputs**-0.5, "V": n_nodes**-0.5, "d": n_nodes**-0.5}
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        for name, shape in shapes.items():
            draws = [torch.rand(shape, generator=generator, dtype=torch.float64) for generator in generators]
            self.register_parameter(name, nn.Parameter((2 * torch.stack(draws) - 1) * bounds[name]))

    def forward(self, z: Tensor) -> Tensor:
        """Class scores ``(R, B, C)`` of scaled scores ``z (B, M)``."""
        nodes = F.linear(z, self.W.flatten(0, 1), self.b.flatten())  # (B, R * N): one product for all runs
        nodes = nodes.unflatten(1, self.b.shape).transpose(0, 1)
        return torch.baddbmm(self.d[:, None], nodes, self.V.transpose(1, 2))


def _minimise(
    network: _LinearNetwork,
    z: Tensor,
    targets: Tensor,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    on_epoch: Callable[[int, float], None] | None,
) -> list[History]:
    """Minimise the cross-entropy of all runs with Adam; return one history each."""
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate, fused=True)
    order = torch.Generator().manual_seed(BATCH_ORDER_SEED)
    histories = [History() for _ in network.W]
    for epoch in range(epochs):
        rows = torch.randperm(len(z), generator=order).to(z.device)
        loss_sum, hits = z.new_zeros(len(histories)), z.new_zeros(len(histories))
        for batch in rows.split(batch_size):
            y = targets[batch]
            scores = network(z[batch])
            losses = F.cross_entropy(scores.permute(1, 2, 0), y[:, None].expand(-1, len(histories)), reduction="none")
            optimizer.zero_grad()
            losses.mean(0).sum().backward()  # runs share no parameter, so the sum leaves each its own gradient
            optimizer.step()
            loss_sum += losses.detach().sum(0)
            hits += (scores.detach().argmax(-1) == y).sum(1)
        for history, loss, accuracy in zip(histories, (loss_sum / len(z)).tolist(), hits / len(z), strict=True):
            history.loss.append(loss)
            history.accuracy.append(float(accuracy))
        if on_epoch is not None:
            on_epoch(epoch, float(loss_sum.mean()) / len(z))
    if not all(theta.isfinite().all() for theta in network.parameters()):
        raise ChoqolateError("training ended with parameters that are not finite: lower learning_rate")
    return histories
