"""Multinomial logistic regression with an l1 penalty, along a path of penalties, and refitted without it.

Solved with SciPy's L-BFGS-B on full batches: with W = P - N and P, N >= 0 the penalty is linear, and bounds make zeros
exact. On tables of concept scores this is ten times as fast as scikit-learn's "saga", and it can be told when to stop.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from choqolate.errors import ChoqolateWarning

LOOSE_TOLERANCE = 3e-5  # of the gradient: smaller ones change no accuracy
_MOST_STEPS = 5_000
_SPARSEST = 0.7  # of the penalty at which half of the classes have no weight at all
_SMALLEST_SHARE = 1e-6  # of a class among the rows, for its first intercept


class LinearWeights(NamedTuple):
    """Weights ``(C, M)`` and intercepts ``(C,)`` of a linear classifier."""

    W: np.ndarray
    b: np.ndarray

    def predict(self, Z: np.ndarray) -> np.ndarray:
        """Class indices ``(n,)`` of scaled scores ``(n, M)``."""
        predicted: np.ndarray = (Z @ self.W.T + self.b).argmax(axis=1)
        return predicted


class SoftmaxRegression:
    r"""Mean cross-entropy :math:`\sum_i w_i \, \mathrm{CE}_i`, :math:`\sum_i w_i = 1`, and the penalized fits to it.

    Columns are centered inside, which changes nothing but the intercepts and the number of steps.

    Args:
        Z: scaled scores ``(n, M)``.
        targets: class indices ``(n,)``.
        n_classes: C; some classes may have no rows.
        weights: sample weights ``(n,)``; all alike by default.

    >>> Z, targets = np.array([[0.0, 0.3], [0.1, 0.9], [0.9, 0.2], [1.0, 0.8]]), np.array([0, 0, 1, 1])
    >>> regression = SoftmaxRegression(Z, targets, 2)
    >>> fitted = next(regression.l1_path([0.05]))
    >>> (fitted.W != 0).tolist(), fitted.predict(Z).tolist()
    ([[True, False], [True, False]], [0, 0, 1, 1])
    """

    def __init__(self, Z: np.ndarray, targets: np.ndarray, n_classes: int, weights: np.ndarray | None = None) -> None:
        weights = np.ones(len(Z)) if weights is None else weights
        self.weights = weights / weights.sum()
        self.means = self.weights @ Z
        self.X = np.hstack([Z - self.means, np.ones((len(Z), 1))])  # the last column is for the intercepts
        self.targets, self.rows = targets, np.arange(len(Z))
        self.shape = n_classes, self.X.shape[1]

    def l1_path(self, penalties: Iterable[float], tolerance: float = 1e-2) -> Iterator[LinearWeights]:
        r"""Minimize the loss plus :math:`\lambda |W|_1` for each λ, one after the other; intercepts are free.

        The optimum is that of scikit-learn's ``LogisticRegression`` with an l1 penalty and C = 1 / (n λ).

        Args:
            penalties: the values of λ, at best from large to small: each fit starts from the last one.
            tolerance: share of λ by which a gradient may miss its optimality condition.

        Warns:
            ChoqolateWarning: if a fit has not converged.
        """
        from scipy.optimize import Bounds

        low, high = np.zeros((2, *self.shape)), np.full((2, *self.shape), np.inf)
        low[0, :, -1], high[1, :, -1] = -np.inf, 0.0  # an intercept is P alone
        bounds = Bounds(low.ravel(), high.ravel())
        theta = np.zeros((2, *self.shape))
        theta[0] = self._no_weights()
        for penalty in penalties:
            price = np.full(self.shape, float(penalty))
            price[:, -1] = 0.0

            def objective(flat: np.ndarray, price: np.ndarray = price) -> tuple[float, np.ndarray]:
                positive, negative = flat.reshape(2, *self.shape)
                loss, gradient = self._loss(positive - negative)
                penalized = loss + float((price * (positive + negative)).sum())
                return penalized, np.stack([price + gradient, price - gradient]).ravel()

            theta = _minimize(objective, theta.ravel(), tolerance * penalty, bounds).reshape(2, *self.shape)
            yield self._as_weights(theta[0] - theta[1])

    def l2_fits(
        self, penalties: Iterable[float], selected: np.ndarray | None = None, tolerance: float = 1e-6
    ) -> list[LinearWeights]:
        r"""Minimize the loss plus :math:`\frac{\lambda}{2} |W|^2` for each λ, one after the other; intercepts are free.

        With all weights, the optimum is that of scikit-learn's ``LogisticRegression`` with C = 1 / (n λ).

        Args:
            penalties: the values of λ, at best from large to small.
            selected: which weights may be other than zero ``(C, M)``; all by default.
            tolerance: largest gradient.

        Warns:
            ChoqolateWarning: if a fit has not converged.
        """
        free = np.ones(self.shape, dtype=bool)
        if selected is not None:
            free[:, :-1] = selected
        theta, fits = self._no_weights(), []
        for penalty in penalties:
            price = np.full(self.shape, float(penalty))
            price[:, -1] = 0.0

            def objective(some: np.ndarray, price: np.ndarray = price) -> tuple[float, np.ndarray]:
                whole = np.zeros(self.shape)
                whole[free] = some
                loss, gradient = self._loss(whole)
                return loss + float((price * whole**2).sum()) / 2, (gradient + price * whole)[free]

            theta[free] = _minimize(objective, theta[free], tolerance)
            fits.append(self._as_weights(theta.copy()))
        return fits

    def penalty_path(self, count: int) -> np.ndarray:
        """Values of λ from large to small, each half as large as the last one, on the :meth:`penalty_scale`."""
        return _SPARSEST * self.penalty_scale() * 0.5 ** np.arange(count)

    def penalty_scale(self) -> float:
        """The λ of the l1 penalty from which on half of the classes have no weight at all.

        A frequent class, which is the last to lose its weights, says little about the others.
        """
        _, gradient = self._loss(self._no_weights())
        return float(np.median(np.abs(gradient[:, :-1]).max(axis=1)))

    def _loss(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss at weights and intercepts ``(C, M + 1)``, and its gradient."""
        values = self.X @ theta.T
        values -= values.max(axis=1, keepdims=True)
        own = values[self.rows, self.targets]
        np.exp(values, out=values)
        sums = values.sum(axis=1)
        loss = float(self.weights @ (np.log(sums) - own))
        values *= (self.weights / sums)[:, None]
        values[self.rows, self.targets] -= self.weights
        return loss, values.T @ self.X

    def _no_weights(self) -> np.ndarray:
        """The best parameters ``(C, M + 1)`` without any weight."""
        theta = np.zeros(self.shape)
        shares = np.bincount(self.targets, self.weights, self.shape[0])
        theta[:, -1] = np.log(np.maximum(shares, _SMALLEST_SHARE))
        return theta

    def _as_weights(self, theta: np.ndarray) -> LinearWeights:
        W = theta[:, :-1]
        return LinearWeights(W, theta[:, -1] - W @ self.means)


def _minimize(
    objective: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    tolerance: float,
    bounds: Any = None,
) -> np.ndarray:
    from scipy.optimize import minimize

    if not start.size:
        return start
    limits = dict(maxiter=_MOST_STEPS, maxfun=2 * _MOST_STEPS, gtol=tolerance, ftol=0.0)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=limits)
    if found.status == 1:  # 2 is a line search at the limit of rounding
        message = f"Logistic regression did not converge in {found.nit:,} steps: its accuracy may be too low."
        warnings.warn(message, ChoqolateWarning, stacklevel=3)
    return np.asarray(found.x)
