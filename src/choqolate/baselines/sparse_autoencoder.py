"""A sparse autoencoder of concept scores, and a linear head on its units."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from choqolate.errors import ChoqolateError
from choqolate.estimators.bottleneck import Bottleneck
from choqolate.estimators.descent import Descent, DescentObjective, ProximalAdam, apply_layer, as_arrays, draw_layers

_CHECKS = (0.25, 0.5, 0.75)  # parts of the epochs after which dead units are resampled: the last get time to learn
_REVIVED = 0.2  # norm of a resampled encoder row, in mean norms of the living ones


class SparseAutoencoder(Bottleneck):
    r"""Sparse autoencoder (Bricken et al. 2023) of the concept scores, then a linear head on its units.

    First :math:`f = \mathrm{ReLU}(W_e (z - c) + b_e)` and :math:`z' = W_d f + c` minimise

    .. math:: \frac{1}{M} |z' - z|^2 + \lambda \sum_n f_n

    in the mean over the rows: the squared error is a mean over concepts, the penalty a sum over units. As with the
    authors, c starts at the geometric median of the scores, the columns of :math:`W_d` keep length one (the gradient
    loses its part along each column, and columns are normalised after each step), and dead units are resampled: after
    a quarter, a half and three quarters of the epochs, a unit that is zero for every training row starts again from a
    row drawn with a chance that goes with its squared error squared. Its decoder column becomes the direction of
    that row from c, its encoder row 0.2 times as long as those of living units are on average, its bias zero. Then a
    head is trained on f, without penalty. The number of units, few instead of very many, and the head are our
    adaptation: methods are compared at the same width.

    ``node_attributions_`` are the encoder's weights, ``node_intercepts_`` what is left of the encoder,
    :math:`b_e - W_e c`. A row's exact attributions are integrated gradients along the straight line from the baseline.

    Args:
        n_nodes: number of units N; an autoencoder cannot do without.
        penalty: λ.

    The other parameters and attributes are those of :class:`~choqolate.baselines.Bottleneck`, and

    Attributes:
        decoder_: :math:`W_d`, ``(M, N)``.
        center_: c ``(M,)``.
        history_: has ``reconstruction`` too, the loss of the first stage ``(epochs,)``.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = SparseAutoencoder(n_nodes=4, epochs=200).fit(X, y)
    >>> model.score(X, y) > 0.9, bool((model.transform(X) >= 0).all())
    (True, True)
    """

    decoder_: np.ndarray
    center_: np.ndarray

    def __init__(
        self,
        n_nodes: int = 8,
        *,
        penalty: float = 3e-4,
        epochs: int = 100,
        steps: int | None = None,
        batch_size: int = 512,
        learning_rate: float = 0.01,
        device: str = "auto",
        verbose: bool = False,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        super().__init__(
            n_nodes,
            epochs=epochs,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            device=device,
            verbose=verbose,
            random_state=random_state,
        )
        self.penalty = penalty

    def _check_parameters(self) -> None:
        if self.n_nodes is None:
            raise ChoqolateError("expected n_nodes to be a whole number, got None: an autoencoder has hidden units")
        super()._check_parameters()

    def _learn(self, training: Descent) -> list[dict[str, Any]]:
        _, n_units, n_classes = self._widths(training.z.shape[1])
        autoencoder = Autoencoder(training, n_units)
        encodings = training.minimise(autoencoder, "encoding")
        heads, histories = training.learn_layers(autoencoder.encode_rows, [n_units, n_classes])
        fitted = []
        for parameters, encoding, head, history in zip(
            as_arrays(autoencoder.parameters), encodings, heads, histories, strict=True
        ):
            W, b, decoder, center = parameters
            own = self._fitted([W, b - W @ center, *head], history) | {"decoder_": decoder, "center_": center}
            own["n_parameters_"] = sum(theta.size for theta in (*parameters, *head))
            own["history_"]["reconstruction"] = np.array(encoding.loss)
            fitted.append(own)
        return fitted

    def _activate(self, sums: np.ndarray) -> np.ndarray:
        return np.maximum(sums, 0.0)

    def _slopes(self, sums: np.ndarray, start: np.ndarray) -> np.ndarray:
        change = sums - start
        moved = change != 0
        steepness = (self._activate(sums) - self._activate(start)) / np.where(moved, change, 1.0)
        slopes: np.ndarray = np.where(moved, steepness, sums > 0)
        return slopes


class Autoencoder(DescentObjective):
    """The first stage of R runs, see :class:`SparseAutoencoder`.

    Attributes:
        W, b: of the encoder ``(R, N, M)`` and ``(R, N)``.
        decoder: columns of length one ``(R, M, N)``.
        center: c ``(R, M)``.
    """

    rewinds = False  # units are resampled: an earlier loss is that of other units

    def __init__(self, training: Descent, n_units: int) -> None:
        self.z, self.penalty, self.generators = training.z, training.penalty, training.generators
        n_concepts = self.z.shape[1]
        draws = draw_layers(self.generators, [n_concepts, n_units, n_concepts])
        self.W, b, decoder, center = (theta.to(self.z.device) for theta in draws)
        self.b, self.decoder = torch.zeros_like(b), F.normalize(decoder, dim=1)
        self.center = torch.from_numpy(geometric_median(self.z.cpu().numpy())).to(center).expand_as(center).clone()
        self.parameters = (self.W, self.b, self.decoder, self.center)
        self.checks = list(_CHECKS)

    def encode(self, z: Tensor) -> Tensor:
        """Units ``(R, B, N)`` of scaled scores ``(B, M)``."""
        return apply_layer(z, self.W, self.b - (self.W @ self.center[:, :, None])[:, :, 0]).relu()

    @torch.no_grad()
    def encode_rows(self, rows: Tensor) -> Tensor:
        """Units of training rows, as features of a head."""
        return self.encode(self.z[rows])

    def measure(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        z = self.z[rows]
        units = self.encode(z)
        errors = self.squared_errors(z, units) / z.shape[1]
        return (errors + self.penalty[:, None] * units.sum(2)).mean(1), None

    def squared_errors(self, z: Tensor, units: Tensor) -> Tensor:
        r"""Squared errors ``(R, B)``, with x = z - c: :math:`|W_d f - x|^2 = f \cdot (W_d' W_d f - 2 W_d' x) + |x|^2`.

        So nothing is as large as the scores of all runs.
        """
        transposed = self.decoder.transpose(1, 2)
        shadows = apply_layer(z, transposed, -(transposed @ self.center[:, :, None])[:, :, 0])
        lengths = z.square().sum(1) - 2 * self.center @ z.T + self.center.square().sum(1, keepdim=True)
        return (units * (units @ (transposed @ self.decoder) - 2 * shadows)).sum(2) + lengths

    @torch.no_grad()
    def before_step(self) -> None:
        gradient = self.decoder.grad
        assert gradient is not None
        gradient -= self.decoder * (self.decoder * gradient).sum(1, keepdim=True)

    @torch.no_grad()
    def after_step(self) -> None:
        self.decoder.copy_(F.normalize(self.decoder, dim=1))

    def after_epoch(self, done: float, optimizer: ProximalAdam) -> None:
        if self.checks and self.checks[0] <= done < 1:
            self.checks = [check for check in self.checks if check > done]
            self.revive(optimizer)

    @torch.no_grad()
    def revive(self, optimizer: ProximalAdam) -> None:
        """Resample the units that are zero for every training row."""
        for run, generator in enumerate(self.generators):  # one by one: all rows of all runs may be too many
            W, center, decoder = self.W[run], self.center[run], self.decoder[run]
            units = F.linear(self.z - center, W, self.b[run]).relu()
            alive = units.any(0)
            offsets = self.z - center
            errors = (units @ decoder.T - offsets).square().sum(1)
            chances = (errors.square() * offsets.any(1)).cpu()
            number = min(int((~alive).sum()), int(chances.count_nonzero()))
            if number == 0 or not chances.isfinite().all():
                continue
            rows = torch.multinomial(chances, number, generator=generator).to(W.device)
            dead = (~alive).nonzero()[:number, 0]
            directions = F.normalize(offsets[rows], dim=1)
            length = W[alive].norm(dim=1).mean() if alive.any() else 1.0
            W[dead], decoder[:, dead], self.b[run, dead] = _REVIVED * length * directions, directions.T, 0.0
            self._forget(optimizer, run, dead)

    def _forget(self, optimizer: ProximalAdam, run: int, units: Tensor) -> None:
        fresh = torch.zeros_like(self.b, dtype=torch.bool)
        fresh[run, units] = True
        for theta, where in ((self.W, fresh[:, :, None]), (self.b, fresh), (self.decoder, fresh[:, None])):
            optimizer.forget(theta, where)


def geometric_median(points: np.ndarray, *, tolerance: float = 1e-10, most: int = 500) -> np.ndarray:
    """The point with the smallest sum of distances to the rows ``(n, M)``: Weiszfeld's iteration from the mean.

    A step that lands on a row follows Vardi and Zhang (2000).

    >>> geometric_median(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [9.0, 9.0]])).round(3)
    array([1., 1.])
    """
    middle: np.ndarray = points.mean(axis=0)
    for _ in range(most):
        distances = np.linalg.norm(points - middle, axis=1)
        away = distances > 0
        if not away.any():
            break
        weights = 1 / distances[away]
        pulled = weights @ points[away] / weights.sum()
        force = np.linalg.norm(weights @ (points[away] - middle))
        held = min(1.0, (~away).sum() / force) if force > 0 else 1.0  # rows at the middle hold it there
        step = (1 - held) * (pulled - middle)
        middle = middle + step
        if np.linalg.norm(step) <= tolerance:
            break
    return middle
