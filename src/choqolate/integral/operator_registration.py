"""What operators need to be registered with PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def one_by_one(operator: Callable[..., Tensor | tuple[Tensor, ...]]) -> Callable[..., Any]:
    """Make a vmap rule that calls an operator for each mapped element and stacks its results.

    It serves gradients, which are mapped by ``torch.autograd.grad(..., is_grads_batched=True)`` alone.

    Args:
        operator: takes tensors and other values, returns one tensor or a tuple of them.

    Returns:
        A rule for ``torch.library.register_vmap``.
    """

    def rule(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        def part(index: int) -> list[Any]:
            return [x if dim is None else x.select(dim, index) for x, dim in zip(args, in_dims, strict=True)]

        results: list[Any] = [operator(*part(index)) for index in range(info.batch_size)]
        if isinstance(results[0], Tensor):
            return torch.stack(results), 0
        stacked = tuple(torch.stack(outputs) for outputs in zip(*results, strict=True))
        return stacked, (0,) * len(stacked)

    return rule
