"""The optimizer of the training loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8


class Adam:
    r"""Adam without weight decay: one pass over each parameter per step.

    .. math:: \theta \leftarrow \theta - \eta \hat m / (\sqrt{\hat v} + \epsilon)

    The numbers are those of ``torch.optim.Adam(fused=True)``. But the first optimizer of ``torch.optim`` in a process
    loads PyTorch's compiler, which takes longer than many fits.

    Args:
        parameters: contiguous tensors to change in place.
        learning_rate: :math:`\eta`.

    >>> theta = torch.tensor([1.0, 2.0])
    >>> Adam([theta], learning_rate=0.1).step([torch.tensor([3.0, -0.5])])
    >>> theta
    tensor([0.9000, 2.1000])
    """

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float) -> None:
        self.parameters, self.learning_rate = list(parameters), learning_rate
        self.means = [torch.zeros_like(theta) for theta in self.parameters]
        self.squares = [torch.zeros_like(theta) for theta in self.parameters]
        self.steps = torch.zeros((), dtype=torch.float32, device=self.parameters[0].device)

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Change the parameters, given the gradient of each."""
        self.steps += 1
        torch._fused_adam_(
            self.parameters,
            [gradient.contiguous() for gradient in gradients],  # the operation reads memory in order
            self.means,
            self.squares,
            [],
            [self.steps] * len(self.parameters),
            lr=self.learning_rate,
            beta1=_BETA1,
            beta2=_BETA2,
            weight_decay=0.0,
            eps=_EPS,
            amsgrad=False,
            maximize=False,
        )
