"""Logistic regression on all concept scores: dense as the ceiling, sparse as the reference to beat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from choqolate._util.checks import check_number
from choqolate.baselines.softmax_regression import LOOSE_TOLERANCE, LinearWeights, SoftmaxRegression
from choqolate.estimators.bottleneck import Bottleneck
from choqolate.network.training import History

_TOLERANCE = 1e-3  # share of the l1 penalty by which a gradient may miss its optimality condition


class _Logistic(Bottleneck):
    """Concepts to classes directly, solved to the optimum instead of trained step by step.

    Nothing is drawn at random, and all is computed on the CPU: ``device``, ``verbose`` and ``random_state`` change
    nothing. They are parameters so that these methods can take the place of any other baseline.
    """

    n_nodes = None

    def _check_parameters(self) -> None:
        raise NotImplementedError

    def _solve(
        self, runs: Sequence[Any], regression: SoftmaxRegression
    ) -> Iterator[tuple[LinearWeights, dict[str, Any]]]:
        """For each run, weights and intercepts over scaled scores, and further attributes."""
        raise NotImplementedError

    def _train(self, runs: Sequence[Any], X: np.ndarray, targets: np.ndarray) -> list[dict[str, Any]]:
        regression = SoftmaxRegression(self.scaling_(X), targets, len(self.classes_))
        with threadpool_limits(1):  # the products are small: threads would wait for each other most of the time
            return [self._fitted(weights, History()) | further for weights, further in self._solve(runs, regression)]


class LogisticRidge(_Logistic):
    r"""Logistic regression on all concepts, the ceiling: what a linear model reaches if it need not be sparse.

    .. math:: \mathrm{CE} + \frac{\lambda}{2} |W|^2

    The optimum is that of scikit-learn's ``LogisticRegression`` with C = 1 / (n λ) on the scaled scores. It does not
    depend on a seed.

    Args:
        penalty: λ, for a loss that is a mean over rows; intercepts are not penalized.
        device, verbose, random_state: as other baselines have them; they change nothing here.

    The attributes are those of :class:`~choqolate.baselines.Bottleneck` with ``n_nodes=None``; ``history_`` is empty.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = LogisticRidge().fit(X, y)
    >>> model.score(X, y), model.node_attributions_.shape
    (1.0, (3, 13))
    """

    def __init__(
        self,
        *,
        penalty: float = 1e-4,
        device: str = "auto",
        verbose: bool = False,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.penalty = penalty
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_number("penalty", self.penalty, minimum=0)

    def _solve(
        self, runs: Sequence[Any], regression: SoftmaxRegression
    ) -> Iterator[tuple[LinearWeights, dict[str, Any]]]:
        for run in runs:
            (weights,) = regression.l2_fits([run.penalty])
            yield weights, {}


class LogisticLasso(_Logistic):
    r"""Logistic regression with an l1 penalty, on request refitted on the concepts that each class selects.

    .. math:: \mathrm{CE} + \lambda |W|_1, \qquad \lambda = s\,\lambda_{1/2}

    λ is relative to :math:`\lambda_{1/2}`, the penalty from which on half of the classes have no weight at all, so the
    same values of s make a path from sparse to dense on any data: ``[0.7 * 0.5**k for k in range(14)]``. Several
    strengths side by side are solved along the path, each from the solution before. The optimum is
    that of scikit-learn's ``LogisticRegression`` with an l1 penalty and C = 1 / (n λ) on the scaled scores. It does not
    depend on a seed.

    Args:
        strength: s. Higher values leave fewer concepts per class.
        refit: λ of the l2 penalty of a second fit, in which only the weights that the first one left may be other than
            zero: an l1 penalty shrinks what it selects, and next to no penalty (such as 1e-5) undoes it. ``None``: the
            first fit is the model.
        device, verbose, random_state: as other baselines have them; they change nothing here.

    The attributes are those of :class:`~choqolate.baselines.Bottleneck` with ``n_nodes=None``, where ``history_`` is
    empty and ``n_parameters_`` counts all weights, zeros too; and

    Attributes:
        penalty_: λ, for a loss that is a mean over rows.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = LogisticLasso(strength=0.2, refit=1e-3).fit(X, y)
    >>> (model.node_attributions_ != 0).sum(axis=1), model.score(X, y) > 0.95
    (array([2, 3, 4]), True)
    """

    of_a_run = ("random_state", "strength", "refit")
    penalty_: float

    def __init__(
        self,
        *,
        strength: float = 0.1,
        refit: float | None = None,
        device: str = "auto",
        verbose: bool = False,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.strength = strength
        self.refit = refit
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_number("strength", self.strength, minimum=0, strict=True)
        if self.refit is not None:
            check_number("refit", self.refit, minimum=0)

    def _solve(
        self, runs: Sequence[Any], regression: SoftmaxRegression
    ) -> Iterator[tuple[LinearWeights, dict[str, Any]]]:
        strengths = sorted({run.strength for run in runs}, reverse=True)
        penalties = [strength * regression.penalty_scale() for strength in strengths]
        path = dict(zip(strengths, regression.l1_path(penalties, _TOLERANCE), strict=True))
        for run in runs:
            weights = path[run.strength]
            if run.refit is not None:
                (weights,) = regression.l2_fits([run.refit], weights.W != 0, LOOSE_TOLERANCE)
            yield weights, {"penalty_": penalties[strengths.index(run.strength)]}
