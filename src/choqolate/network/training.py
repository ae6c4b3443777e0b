"""The training loop of Eq. (4), for one run or for many side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from choqolate.errors import ChoqolateError
from choqolate.integral import ChoquetLayer
from choqolate.network.adam import Adam
from choqolate.network.batches import Batches, TrainingBatch
from choqolate.network.module import ChoqolateNetwork

SCHEDULES = ("constant", "cosine")
PENALIZED = ("first", "all", "parameters")


@dataclass(frozen=True)
class Objective:
    r"""Eq. (4): cross-entropy of :math:`\mathrm{softmax}(o / T)` plus ``l1`` on the interaction weights.

    ``l1_on`` is ``"first"`` (the paper's), ``"all"`` (both layers; with free weights the weights a as well) or
    ``"parameters"`` (the unconstrained parameters of both layers, instead of weights). A tensor ``(R, 1, 1)`` gives
    each run a temperature of its own.
    """

    temperature: float | Tensor = 0.005
    l1: float = 0.01
    l1_on: str = "first"

    def fit_term(self, scores: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Weighted cross-entropy of each run ``(R,)``, from scores ``(R, B, C)``. Differentiable once, in scores."""
        losses: Tensor = _CrossEntropy.apply(scores, targets, weights, self.temperature)
        return losses

    def penalty(self, network: ChoqolateNetwork, node_mass: Tensor, class_mass: Tensor | None) -> Tensor:
        """The l1 term of each run ``(R,)``, from the interaction mass of nodes ``(R, N)`` and classes ``(R, C)``."""
        if self.l1_on == "parameters":
            return self.l1 * network.parameter_norm()
        total = node_mass.sum(1)
        if self.l1_on == "all":
            total = total + _singles_norm(network.nodes).view_as(node_mass).sum(1)
            if network.classes is not None and class_mass is not None:
                total = total + (class_mass + _singles_norm(network.classes).view_as(class_mass)).sum(1)
        return self.l1 * total


class _CrossEntropy(torch.autograd.Function):
    """The mean over the rows of ``weights * -log softmax(scores / temperature)`` at the targets.

    Its gradient, ``(softmax - 1 at the target) * weights / (B * temperature)``, comes out of the same passes over the
    scores, which PyTorch's own operations would read and write more often.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, targets: Tensor, weights: Tensor, temperature: float | Tensor) -> Tensor:
        at_target = targets.expand(len(scores), -1)[..., None]
        slopes = (scores / temperature).log_softmax(-1)
        losses = slopes.gather(-1, at_target).squeeze(-1).mul_(weights).mean(1).neg_()
        slopes.exp_().scatter_add_(-1, at_target, slopes.new_full((), -1.0).expand(at_target.shape))
        slopes *= weights[..., None] / (weights.shape[-1] * temperature)
        ctx.save_for_backward(slopes)
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None, None]:
        (slopes,) = ctx.saved_tensors
        return slopes * g[:, None, None], None, None, None


def _singles_norm(layer: ChoquetLayer) -> Tensor:
    """The l1 norm of the weights a of each node, where it is not a constant less the interaction mass."""
    if layer.free_weights:
        return layer.capacity().singles().abs().sum(-1)
    theta = next(layer.parameters())
    return theta.new_zeros((layer.stack or 1) * layer.out_features)


@dataclass
class History:
    """What one run recorded, one entry per epoch; ``node_attributions`` only on request.

    ``went_back`` says whether it ended with the parameters of an earlier epoch.
    """

    loss: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    node_attributions: list[np.ndarray] = field(default_factory=list)
    went_back: bool = False

    def as_arrays(self) -> dict[str, np.ndarray]:
        named = {"loss": np.array(self.loss), "accuracy": np.array(self.accuracy)}
        if self.node_attributions:
            named["node_attributions"] = np.stack(self.node_attributions)
        return named


def rate_factor(schedule: str, progress: float) -> float:
    r"""Factor of the learning rate after a share t of all steps: one, or :math:`(1 + \cos \pi t) / 2`.

    >>> [rate_factor("cosine", t) for t in (0.0, 0.5, 1.0)]
    [1.0, 0.5, 0.0]
    """
    return 1.0 if schedule == "constant" else (1 + math.cos(math.pi * progress)) / 2


def train(
    network: ChoqolateNetwork,
    batches: Batches,
    objective: Objective,
    *,
    epochs: int,
    learning_rate: float,
    schedule: str = "constant",
    track: bool = False,
    report: Callable[[float, float | None], None] | None = None,
    add_up: Callable[[Sequence[Tensor]], Sequence[Tensor]] | None = None,
) -> list[History]:
    """Train all runs of the network with Adam; return one history each.

    Args:
        network: on the device and in the precision of the batches.
        batches: the rows of each step.
        objective: what to minimise.
        epochs, learning_rate: how.
        schedule: ``"constant"``, or ``"cosine"`` for a learning rate that falls to zero.
        track: record the node attributions after every epoch.
        report: called after every step with the number of epochs that are done, a fraction of one included, and the
            mean loss of the last one if it has just ended.
        add_up: gives the sums of tensors over all processes that train this network, each on its own rows.

    Raises:
        ChoqolateError: if the loss of a run stops being a finite number.
    """
    parameters = list(network.parameters())
    optimizer = Adam(parameters, learning_rate)
    n_steps, step = epochs * batches.n_steps, 0
    histories = [History() for _ in network.seeds]
    for epoch, steps in enumerate(batches.epochs(epochs)):
        loss_sum, hits = (parameters[0].new_zeros(len(histories)) for _ in range(2))
        for batch in steps:
            optimizer.learning_rate = learning_rate * rate_factor(schedule, step / n_steps)
            step += 1
            losses, right, gradients = _measure(network, objective, batch, parameters)
            if add_up is not None:
                gradients = add_up(gradients)
            optimizer.step(gradients)
            loss_sum.add_(losses, alpha=len(batch.targets))
            hits += right
            del batch  # not beside the next one in memory
            if report is not None:
                report(step / batches.n_steps, None)
        if add_up is not None:
            loss_sum, hits = add_up([loss_sum, hits])
        _record(histories, loss_sum / batches.n_rows, hits / batches.n_rows, network.seeds, epoch)
        if track:
            for history, attributions in zip(histories, network.node_attributions().cpu().numpy(), strict=True):
                history.node_attributions.append(attributions)
        if report is not None:
            report(epoch + 1, float(np.mean([history.loss[-1] for history in histories])))
    _check_parameters(network)
    return histories


def _measure(
    network: ChoqolateNetwork, objective: Objective, batch: TrainingBatch, parameters: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Sequence[Tensor]]:
    """Loss and number of correct rows of each run ``(R,)``, and the gradient of every parameter.

    Gradients count by the batch's share of the rows of the step. The shares of all processes sum to one, so the sum of
    their gradients is that of the whole step, with the penalty in it once.
    """
    if not len(batch.targets):
        none = parameters[0].new_zeros(len(network.seeds))
        return none, none, [torch.zeros_like(theta) for theta in parameters]
    scores, node_mass, class_mass = network.scores(batch.inputs, batch.presorted)
    losses = objective.fit_term(scores, batch.targets, batch.weights)
    if objective.l1:
        losses = losses + objective.penalty(network, node_mass, class_mass)
    # runs share no parameter, so the gradient of the sum is that of each
    total = losses.sum() if batch.share == 1 else losses.sum() * batch.share
    gradients = torch.autograd.grad(total, parameters)
    return losses.detach(), (scores.detach().argmax(-1) == batch.targets).sum(1), gradients


def _check_parameters(network: ChoqolateNetwork) -> None:
    """The last step comes after the last loss."""
    if not all(theta.isfinite().all() for theta in network.parameters()):
        raise ChoqolateError("training ended with parameters that are not finite: lower learning_rate")


def _record(histories: list[History], losses: Tensor, accuracies: Tensor, seeds: tuple[int, ...], epoch: int) -> None:
    for history, loss, accuracy, seed in zip(histories, losses.tolist(), accuracies.tolist(), seeds, strict=True):
        if not np.isfinite(loss):
            raise ChoqolateError(
                f"the loss became {loss} in epoch {epoch + 1} (random_state={seed}), training cannot go on: "
                "lower learning_rate, raise temperature, or use dtype='float64'"
            )
        history.loss.append(loss)
        history.accuracy.append(accuracy)
