"""Training R runs side by side: Adam with an elastic net that leaves exact zeros."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from choqolate._util.progress import epoch_bar
from choqolate.errors import ChoqolateError
from choqolate.network.batches import BATCH_ORDER_SEED
from choqolate.network.training import History, Objective

_BETAS, _EPS = (0.9, 0.999), 1e-8  # Adam's usual ones
_LOST = 1.25  # times the loss of its best epoch: from here on a run goes back there
_CROSS_ENTROPY = Objective(temperature=1.0, l1=0.0)


def draw_layers(generators: Sequence[torch.Generator], widths: Sequence[int]) -> list[Tensor]:
    """Weights ``(R, out, in)`` and intercepts ``(R, out)`` of linear layers, one run for each generator.

    They are drawn as ``nn.Linear`` draws: uniform on ±1/sqrt(inputs).

    >>> W, b, V, d = draw_layers([torch.Generator().manual_seed(seed) for seed in (0, 1)], [5, 3, 2])
    >>> W.shape, d.shape
    (torch.Size([2, 3, 5]), torch.Size([2, 2]))
    """
    layers = []
    for n_inputs, n_outputs in pairwise(widths):
        for shape in ((n_outputs, n_inputs), (n_outputs,)):
            draws = [torch.rand(shape, generator=generator, dtype=torch.float64) for generator in generators]
            layers.append((2 * torch.stack(draws) - 1) * n_inputs**-0.5)
    return layers


def apply_layer(x: Tensor, W: Tensor, b: Tensor) -> Tensor:
    """Outputs ``(R, B, out)`` of a linear layer, from inputs ``(B, in)`` that all runs share or ``(R, B, in)``."""
    if x.ndim == 2:
        return F.linear(x, W.flatten(0, 1), b.flatten()).unflatten(1, b.shape).transpose(0, 1)  # one product for all
    return torch.baddbmm(b[:, None], x, W.transpose(1, 2))


class DescentObjective:
    """What R runs minimise, and over which parameters, each of shape ``(R, ...)``.

    The hooks around a step do nothing unless a method needs them.

    Attributes:
        parameters: what is changed in place.
        rewinds: whether a run may go back to its best epoch at the end; not for parameters that hooks set to something
            else.
    """

    parameters: Sequence[Tensor]
    rewinds: bool = True

    def measure(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Mean loss of each run ``(R,)`` over some rows and, of a classifier, how many of them are right ``(R,)``."""
        raise NotImplementedError

    def before_step(self) -> None:
        """Change gradients."""

    def after_step(self) -> None:
        """Bring parameters back to where they belong."""

    def after_epoch(self, done: float, optimizer: ProximalAdam) -> None:
        """Look at the parameters when this part of all epochs is done, in (0, 1]."""


class Classification(DescentObjective):
    """Cross-entropy of linear layers.

    Args:
        features: inputs of the given rows, ``(B, in)`` or ``(R, B, in)``.
        targets: class indices ``(n,)``.
        layers: weights and intercepts of one layer or more, as :func:`draw_layers` gives them.
    """

    def __init__(self, features: Callable[[Tensor], Tensor], targets: Tensor, layers: Sequence[Tensor]) -> None:
        self.features, self.targets, self.parameters = features, targets, layers

    def measure(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        values, y = self.features(rows), self.targets[rows]
        for W, b in zip(self.parameters[::2], self.parameters[1::2], strict=True):
            values = apply_layer(values, W, b)
        losses = _CROSS_ENTROPY.fit_term(values, y, torch.ones_like(y, dtype=values.dtype))
        return losses, (values.detach().argmax(-1) == y).sum(1)


@dataclass(frozen=True)
class ElasticNet:
    r"""The penalty :math:`\lambda_1 |W|_1 + \frac{\lambda_2}{2} |W|^2` of each run, over some of its parameters.

    Attributes:
        l1, l2: the strengths ``(R,)``.
        weights: the penalised parameters, the very tensors that the objective has.
    """

    l1: Tensor
    l2: Tensor
    weights: Sequence[Tensor]

    def values(self) -> Tensor:
        """The penalty of each run ``(R,)``."""
        flat = torch.cat([W.detach().flatten(1) for W in self.weights], dim=1)
        return self.l1 * flat.abs().sum(1) + self.l2 / 2 * flat.square().sum(1)

    def covers(self, theta: Tensor) -> bool:
        return any(theta is W for W in self.weights)


class ProximalAdam:
    r"""Adam for runs with a learning rate each, and an elastic net whose zeros are exact.

    The squares join the gradient. The absolute values are a proximal step in Adam's metric: after
    :math:`\hat\theta = \theta - \eta \hat m / s` with :math:`s = \sqrt{\hat v} + \epsilon`,

    .. math:: \theta \leftarrow \mathrm{sign}(\hat\theta) \max(|\hat\theta| - \eta \lambda_1 / s, 0).

    A fixed point is one of the true objective, whatever the metric: a gradient of at most :math:`\lambda_1` keeps a
    zero where it is. A subgradient in the loss would hover around zero and never reach it, and the methods compared
    here were published with solvers that do. Without a penalty this is ``torch.optim.Adam``.

    Args:
        parameters: tensors ``(R, ...)`` that require gradients.
        learning_rate: of each run ``(R,)``.
        penalty: over some of the parameters.

    >>> W = torch.tensor([[0.5, -0.001], [0.5, -0.001]], requires_grad=True)  # two runs, the second penalised
    >>> net = ElasticNet(l1=torch.tensor([0.0, 1.0]), l2=torch.zeros(2), weights=[W])
    >>> (W * W).sum().backward()
    >>> ProximalAdam([W], torch.tensor([0.1, 0.1]), net).step()
    >>> W.detach()
    tensor([[0.4000, 0.0990],
            [0.3000, 0.0000]])
    """

    def __init__(self, parameters: Sequence[Tensor], learning_rate: Tensor, penalty: ElasticNet | None = None) -> None:
        self.parameters, self.learning_rate, self.penalty, self.steps = parameters, learning_rate, penalty, 0
        self.moments = [(torch.zeros_like(theta), torch.zeros_like(theta)) for theta in parameters]

    @torch.no_grad()
    def step(self) -> None:
        self.steps += 1
        unbias_m, unbias_v = (1 - beta**self.steps for beta in _BETAS)
        for theta, (m, v) in zip(self.parameters, self.moments, strict=True):
            assert theta.grad is not None
            penalty = self.penalty if self.penalty is not None and self.penalty.covers(theta) else None
            gradient = theta.grad if penalty is None else theta.grad + _of_runs(penalty.l2, theta) * theta
            m.lerp_(gradient, 1 - _BETAS[0])
            v.mul_(_BETAS[1]).addcmul_(gradient, gradient, value=1 - _BETAS[1])
            reach = _of_runs(self.learning_rate, theta) / ((v / unbias_v).sqrt_() + _EPS)
            theta -= reach * m / unbias_m
            if penalty is not None:
                threshold = _of_runs(penalty.l1, theta) * reach
                theta -= theta.clamp(-threshold, threshold)

    def forget(self, theta: Tensor, where: Tensor) -> None:
        """Start the moments of a parameter again where the mask says so."""
        for parameter, moments in zip(self.parameters, self.moments, strict=True):
            if parameter is theta:
                for moment in moments:
                    moment.masked_fill_(where, 0.0)


def _of_runs(values: Tensor, theta: Tensor) -> Tensor:
    """A value for each run ``(R,)``, ready to meet a parameter ``(R, ...)``."""
    return values.view(-1, *[1] * (theta.ndim - 1))


@dataclass(frozen=True)
class Descent:
    """R runs to be trained side by side: data that they share, and what each has of its own.

    Attributes:
        X, z: raw and scaled scores ``(n, M)``.
        targets: class indices ``(n,)``.
        generators: one for each run, from its seed; all that is random in a run comes from it.
        learning_rate: of each run ``(R,)``.
        penalty: λ of each run ``(R,)``; on what, the method says.
        epochs, batch_size: how long, and rows per step. The order of the rows is the same for all.
        verbose: show progress on stderr.
    """

    X: np.ndarray
    z: Tensor
    targets: Tensor
    generators: Sequence[torch.Generator]
    learning_rate: Tensor
    penalty: Tensor
    epochs: int
    batch_size: int
    verbose: bool = False

    def learn_layers(
        self, features: Callable[[Tensor], Tensor], widths: Sequence[int], l1_ratio: float | None = None
    ) -> tuple[list[list[np.ndarray]], list[History]]:
        """Weights and intercepts of the linear layers that classify the features, and the history, of each run.

        With ``l1_ratio`` the weights are penalised, with so much of the penalty on their absolute values.
        """
        layers = [theta.to(self.z.device) for theta in draw_layers(self.generators, widths)]
        objective = Classification(features, self.targets, layers)
        net = None if l1_ratio is None else self.elastic_net(layers[::2], l1_ratio)
        histories = self.minimise(objective, "training", net)
        return as_arrays(layers), histories

    def elastic_net(self, weights: Sequence[Tensor], l1_ratio: float) -> ElasticNet | None:
        """The penalty of each run over some weights, so much of it on their absolute values; ``None`` for none."""
        if not bool(self.penalty.any()):
            return None
        return ElasticNet(self.penalty * l1_ratio, self.penalty * (1 - l1_ratio), weights)

    def minimise(self, objective: DescentObjective, label: str, penalty: ElasticNet | None = None) -> list[History]:
        """Minimise an objective of all runs, plus the penalty; one history each.

        Adam at a constant rate may lose what it had reached shortly before the end. So a run whose loss over all rows
        is more than a quarter higher than at the beginning of its best epoch goes back there.

        Raises:
            ChoqolateError: if parameters stop being finite numbers.
        """
        for theta in objective.parameters:
            theta.requires_grad_()
        optimizer = ProximalAdam(objective.parameters, self.learning_rate, penalty)
        order = torch.Generator().manual_seed(BATCH_ORDER_SEED)
        histories = [History() for _ in self.generators]
        lowest = _Lowest(objective.parameters, len(histories)) if objective.rewinds else None
        label = label if len(histories) == 1 else f"{label} ({len(histories)} runs)"
        with epoch_bar(self.epochs, label, enabled=self.verbose) as report:
            for epoch in range(self.epochs):
                before = [theta.detach().clone() for theta in objective.parameters] if lowest is not None else []
                losses, accuracies = self._pass(objective, optimizer, order)
                if lowest is not None:
                    lowest.keep(before, losses)
                for history, loss in zip(histories, losses.tolist(), strict=True):
                    history.loss.append(loss)
                if accuracies is not None:
                    for history, accuracy in zip(histories, accuracies.tolist(), strict=True):
                        history.accuracy.append(accuracy)
                objective.after_epoch((epoch + 1) / self.epochs, optimizer)
                if report is not None:
                    report(epoch + 1, float(losses.mean()))
        if not all(theta.isfinite().all() for theta in objective.parameters):
            raise ChoqolateError("training ended with parameters that are not finite: lower learning_rate")
        if lowest is not None:
            for history, went_back in zip(histories, self._go_back(objective, lowest, penalty), strict=True):
                history.went_back = went_back
        return histories

    @torch.no_grad()
    def _go_back(self, objective: DescentObjective, lowest: _Lowest, penalty: ElasticNet | None) -> list[bool]:
        """Give each run the parameters of its best epoch if its loss over all rows is now much higher; which were."""
        last = [theta.detach().clone() for theta in objective.parameters]
        loss = self._loss(objective, penalty)
        for theta, kept in zip(objective.parameters, lowest.parameters, strict=True):
            theta.copy_(kept)
        stays = loss <= _LOST * self._loss(objective, penalty)  # not where the last loss overflowed
        for theta, own in zip(objective.parameters, last, strict=True):
            theta[stays] = own[stays]
        found: list[bool] = (~stays).tolist()
        return found

    @torch.no_grad()
    def _loss(self, objective: DescentObjective, penalty: ElasticNet | None) -> Tensor:
        """The mean loss of each run ``(R,)`` over all rows, with the penalty."""
        loss_sum = torch.zeros_like(self.learning_rate)
        for rows in torch.arange(len(self.z), device=self.z.device).split(self.batch_size):
            loss_sum += objective.measure(rows)[0] * len(rows)
        return loss_sum / len(self.z) + (0.0 if penalty is None else penalty.values())

    def _pass(
        self, objective: DescentObjective, optimizer: ProximalAdam, order: torch.Generator
    ) -> tuple[Tensor, Tensor | None]:
        """One epoch: mean loss and, of a classifier, accuracy of each run ``(R,)``, every batch before its step."""
        n_rows = len(self.z)
        loss_sum, hit_sum = torch.zeros_like(self.learning_rate), torch.zeros_like(self.learning_rate)
        for rows in torch.randperm(n_rows, generator=order).to(self.z.device).split(self.batch_size):
            losses, hits = objective.measure(rows)
            for theta in objective.parameters:
                theta.grad = None
            losses.sum().backward()  # runs share no parameter, so the sum leaves each its own gradient
            penalty = 0.0 if optimizer.penalty is None else optimizer.penalty.values()
            loss_sum += (losses.detach() + penalty) * len(rows)
            hit_sum += 0.0 if hits is None else hits
            objective.before_step()
            optimizer.step()
            objective.after_step()
        return loss_sum / n_rows, None if hits is None else hit_sum / n_rows


class _Lowest:
    """Parameters of R runs from the beginning of the epoch in which the mean loss of each was lowest."""

    def __init__(self, parameters: Sequence[Tensor], n_runs: int) -> None:
        self.parameters = [theta.detach().clone() for theta in parameters]
        self.losses = torch.full((n_runs,), torch.inf, dtype=torch.float64, device=self.parameters[0].device)

    def keep(self, parameters: Sequence[Tensor], losses: Tensor) -> None:
        """Take the parameters of the runs that have a lower loss with them."""
        lower = losses < self.losses
        self.losses = torch.where(lower, losses, self.losses)
        for kept, theta in zip(self.parameters, parameters, strict=True):
            kept[lower] = theta[lower]


def as_arrays(parameters: Sequence[Tensor]) -> list[list[np.ndarray]]:
    """The parameters of each run, as copies of its own, from tensors ``(R, ...)``."""
    arrays = [theta.detach().cpu().numpy() for theta in parameters]
    return [[theta[run].copy() for theta in arrays] for run in range(len(arrays[0]))]
