"""The training loop of Eq. (4), for one run or for many side by side."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from choqolate.errors import ChoqolateError
from choqolate.integral import ChoquetLayer
from choqolate.integral.expected_minimum import SortedInputs, sort_inputs
from choqolate.network.adam import Adam
from choqolate.network.module import ChoqolateNetwork

# One stream of batches for every run of every model: runs that see the same batches can share their features.
BATCH_ORDER_SEED = 0
_PRESORT_BYTES = 1 << 30
SCHEDULES = ("constant", "cosine")


@dataclass(frozen=True)
class Objective:
    r"""Eq. (4): cross-entropy of :math:`\mathrm{softmax}(o / T)` plus ``l1`` on the interaction weights.

    ``l1_on`` is ``"first"`` (the paper's) or ``"all"`` (both layers; with free weights the weights a as well). A tensor
    ``(R, 1, 1)`` gives each run a temperature of its own.
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
    """What one run recorded, one entry per epoch; ``node_attributions`` only on request."""

    loss: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    node_attributions: list[np.ndarray] = field(default_factory=list)

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
    inputs: Tensor,
    targets: Tensor,
    weights: Tensor,
    objective: Objective,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    schedule: str = "constant",
    track: bool = False,
    on_epoch: Callable[[int, float], None] | None = None,
) -> list[History]:
    """Train all runs of the network with Adam; return one history each.

    Args:
        network: on the device and in the precision of ``inputs``.
        inputs: ``(n, M)`` in [0, 1].
        targets: class indices ``(n,)``.
        weights: sample weights ``(n,)`` with mean one; ``(R, n)`` gives each run weights of its own.
        objective: what to minimise.
        epochs, batch_size, learning_rate: how.
        schedule: ``"constant"``, or ``"cosine"`` for a learning rate that falls to zero.
        track: record the node attributions after every epoch.
        on_epoch: called with the epoch's number and its mean loss.

    Raises:
        ChoqolateError: if the loss of a run stops being a finite number.
    """
    n_rows, n_runs = len(inputs), len(network.seeds)
    parameters = list(network.parameters())
    optimizer = Adam(parameters, learning_rate)
    n_steps, step = epochs * math.ceil(n_rows / batch_size), 0
    order = torch.Generator().manual_seed(BATCH_ORDER_SEED)
    presorted = _presort(network, inputs)
    histories = [History() for _ in range(n_runs)]
    for epoch in range(epochs):
        rows = torch.randperm(n_rows, generator=order) if n_rows > batch_size else torch.arange(n_rows)
        rows = rows.to(inputs.device)
        loss_sum, hits = inputs.new_zeros(n_runs), inputs.new_zeros(n_runs)
        for batch in rows.split(batch_size):
            y, weight = targets[batch], weights[..., batch]
            optimizer.learning_rate = learning_rate * rate_factor(schedule, step / n_steps)
            step += 1
            u = inputs.index_select(0, batch)
            scores, node_mass, class_mass = network.scores(u, presorted[batch] if presorted is not None else None)
            losses = objective.fit_term(scores, y, weight)
            if objective.l1:
                losses = losses + objective.penalty(network, node_mass, class_mass)
            # runs share no parameter, so the gradient of the sum is that of each
            optimizer.step(torch.autograd.grad(losses.sum(), parameters))
            loss_sum.add_(losses.detach(), alpha=len(batch))
            hits += (scores.detach().argmax(-1) == y).sum(1)
        _record(histories, loss_sum / n_rows, hits / n_rows, network.seeds, epoch)
        if track:
            for history, attributions in zip(histories, network.node_attributions().cpu().numpy(), strict=True):
                history.node_attributions.append(attributions)
        if on_epoch is not None:
            on_epoch(epoch, float(np.mean([history.loss[-1] for history in histories])))
    _check_parameters(network)
    return histories


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


def _presort(network: ChoqolateNetwork, inputs: Tensor) -> SortedInputs | None:
    """The inputs of a factored layer in sorted order, once for all epochs, where memory allows."""
    if network.nodes.interactions != "factored" or 3 * inputs.numel() * inputs.element_size() > _PRESORT_BYTES:
        return None
    return sort_inputs(inputs)
