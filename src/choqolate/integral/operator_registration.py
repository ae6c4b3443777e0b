"""What operators need to be registered with PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad

F = TypeVar("F", bound=Callable[..., Any])

_PLAIN = (Tensor, torch.nn.Parameter)

# Whether a transform of torch.func, a mode such as that of fake tensors, or a mapped gradient is at work. PyTorch
# has no public name for these; where a version lacks one, the answer is yes.
transforms_active: Callable[[], bool] = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
_modes_active: Callable[[], int] = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)
_is_mapped: Callable[[Tensor], bool] = getattr(torch._C._functorch, "is_legacy_batchedtensor", lambda _: True)


def is_intercepted(*tensors: Tensor | None) -> bool:
    """Whether an operator on these tensors has to go through PyTorch's dispatcher.

    That is so if something intercepts calls of operators, or if a tensor is more than numbers in memory.
    """
    if transforms_active() or _modes_active() or torch.jit.is_tracing():
        return True
    return any(x is not None and not _is_plain(x) for x in tensors)


def _is_plain(x: Tensor) -> bool:
    lazy = x.is_neg() or x._is_zerotensor()  # numbers that are not, or not yet, in memory
    return type(x) in _PLAIN and not (lazy or x.is_meta or _is_mapped(x))


def has_tangent(*tensors: Tensor | None) -> bool:
    """Whether one of the tensors carries a forward-mode derivative."""
    return any(x is not None and forward_ad.unpack_dual(x).tangent is not None for x in tensors)


def define_operator(name: str) -> Callable[[F], F]:
    """Register a function of tensors and plain values as an operator that computes on every device.

    ``torch.library.custom_op`` would do, but the first call of its operators loads PyTorch's compiler: more than a
    second and 70 MB, also where nothing is compiled.

    Args:
        name: of the operator, ``"choqolate::..."``.

    Returns:
        A decorator that leaves the function as it is; the operator is ``torch.ops.choqolate....``.
    """

    def decorate(compute: F) -> F:
        schema = torch.library.infer_schema(compute, mutates_args=())
        torch.library.define(name, schema, tags=(torch.Tag.pt2_compliant_tag,))
        torch.library.impl(name, "default", compute)
        return compute

    return decorate


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
