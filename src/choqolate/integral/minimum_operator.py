"""The expected minimum as an operator of PyTorch: compiled, exported, transformed and differentiated like its own.

``choqolate::expected_minimum`` and its gradients are registered operators, computed by running sums over sorted rows:
by the native kernel, or by PyTorch operations. Graph capture (``torch.compile``, ``torch.export``) sees one node per
factored layer.

First derivatives come from the running sums. Derivatives of derivatives and forward-mode derivatives come from the
formula in ordinary PyTorch operations, which takes memory for all inputs of all terms of all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from choqolate.errors import ChoqolateError
from choqolate.integral import expected_minimum, native, native_minimum
from choqolate.integral.expected_minimum import SortedInputs
from choqolate.integral.operator_registration import define_operator, has_tangent, one_by_one, transforms_active
from choqolate.integral.precision import without_autocast

_VALUES, _GRADIENTS = "choqolate::expected_minimum", "choqolate::expected_minimum_gradients"


def expect_minima(u: Tensor, p: Tensor, q: Tensor, inputs: SortedInputs | None = None) -> Tensor:
    r"""Values of :math:`E[\min(u_J, u_L)]`, with J and L drawn from distributions p and q.

    Args:
        u: inputs ``(B, M)``, in single or double precision.
        p, q: C pairs of distributions over the inputs, ``(C, M)``; taken in the precision of ``u``.
        inputs: what :func:`~choqolate.integral.expected_minimum.sort_inputs` made of ``u``; without it, ``u`` is sorted
            here.

    Returns:
        Expected minima ``(B, C)`` in the precision of ``u``, differentiable in ``u``, ``p`` and ``q``.

    Raises:
        ChoqolateError: if shapes do not fit, or other rows were sorted.

    >>> one, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]])
    >>> expect_minima(torch.tensor([[1.0, 0.5]]), one, other)  # 1 or 0.5, with equal probability
    tensor([[0.7500]])
    """
    order, gaps = (None, None) if inputs is None else (inputs.order, inputs.gaps)
    capturing = torch.compiler.is_compiling()
    if capturing and transforms_active():  # derivatives registered with torch.library do not support torch.func
        return _formula(u, p, q, _descending(u, order))
    operator = torch.ops.choqolate.expected_minimum if capturing else _ExpectedMinimum.apply
    values: Tensor = operator(u, p, q, order, gaps)
    return values


# ---------------------------------------------------------------- operators


@define_operator(_VALUES)
def _expected_minimum(u: Tensor, p: Tensor, q: Tensor, order: Tensor | None, gaps: Tensor | None) -> Tensor:
    """Values ``(B, C)``."""
    p, q, inputs = _fitted(u, p, q, order, gaps)
    with without_autocast(u):
        return _kernel(u).minima(u, p, q, inputs)


@define_operator(_GRADIENTS)
def _gradients(
    u: Tensor,
    p: Tensor,
    q: Tensor,
    order: Tensor | None,
    gaps: Tensor | None,
    g: Tensor,
    for_u: bool,
    for_weights: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of ``u``, ``p`` and ``q``, empty where not asked for; all at once, since each needs the sorted rows."""
    p, q, inputs = _fitted(u, p, q, order, gaps)
    with without_autocast(u):
        return _kernel(u).gradients(u, p, q, inputs, g.to(u.dtype), for_u, for_weights)


def _kernel(u: Tensor) -> ModuleType:
    return native_minimum if native.serves(u) else expected_minimum


def _fitted(
    u: Tensor, p: Tensor, q: Tensor, order: Tensor | None, gaps: Tensor | None
) -> tuple[Tensor, Tensor, SortedInputs | None]:
    """The arguments in the precision of ``u``; shapes are checked, as the native kernel sees addresses alone."""
    if not (u.ndim == p.ndim == 2 and p.shape == q.shape and p.shape[1] == u.shape[1]):
        shapes = ", ".join(str(tuple(x.shape)) for x in (u, p, q))
        raise ChoqolateError(f"Expected inputs (B, M) and two times distributions (C, M), got {shapes}.")
    p, q = p.to(u.dtype), q.to(u.dtype)
    if order is None or gaps is None:
        return p, q, None
    if not order.shape == gaps.shape == u.shape:
        raise ChoqolateError(
            f"Expected sorted inputs of the same {len(u):,} rows of {u.shape[1]:,} inputs, got an order "
            f"{tuple(order.shape)} and gaps {tuple(gaps.shape)}. Use sort_inputs on the rows that are integrated."
        )
    return p, q, SortedInputs(order.to(torch.int32), gaps.to(u.dtype))


@torch.library.register_fake(_VALUES)
def _(u: Tensor, p: Tensor, *others: object) -> Tensor:
    return u.new_empty(u.shape[0], p.shape[0])


@torch.library.register_fake(_GRADIENTS)
def _(
    u: Tensor, p: Tensor, q: Tensor, order: object, gaps: object, g: Tensor, for_u: bool, for_weights: bool
) -> tuple[Tensor, Tensor, Tensor]:
    asked = (u, for_u), (p, for_weights), (q, for_weights)
    of_u, of_p, of_q = (u.new_empty(x.shape if wanted else (0,)) for x, wanted in asked)
    return of_u, of_p, of_q


# ---------------------------------------------------------------- the formula


def _formula(u: Tensor, p: Tensor, q: Tensor, order: Tensor) -> Tensor:
    """The sum of (P_k Q_k - P_k-1 Q_k-1) u_k over the sorted inputs k, ``(B, C)``: linear in each of u, p and q.

    The differences are computed as in :mod:`~choqolate.integral.expected_minimum`, without cancellation.
    """
    p, q = p[:, order], q[:, order]  # (C, B, M)
    slopes = q * (p.cumsum(-1) - p) + p * q.cumsum(-1)
    return (slopes * u.gather(1, order)).sum(-1).mT


def _descending(u: Tensor, order: Tensor | None) -> Tensor:
    """The order of the inputs, by an operation that can be transformed; equal inputs as they come."""
    return u.detach().argsort(dim=1, descending=True, stable=True) if order is None else order.long()


# ---------------------------------------------------------------- derivatives


def _setup_context(ctx: Any, inputs: tuple[Tensor | None, ...], output: Tensor) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs)
    ctx.save_for_forward(*inputs[:4])


def _backward(ctx: Any, g: Tensor | None) -> tuple[Tensor | None, ...]:
    u, p, q, order, gaps = ctx.saved_tensors
    if g is None:
        return None, None, None, None, None
    if torch.is_grad_enabled() or has_tangent(u, p, q, g):  # the derivative is differentiated
        return *_formula_gradients(u, p, q, _descending(u, order), g), None, None
    for_u, for_p, for_q = ctx.needs_input_grad[:3]
    grad_u, grad_p, grad_q = torch.ops.choqolate.expected_minimum_gradients(
        u, p, q, order, gaps, g, for_u, for_p or for_q
    )
    return grad_u if for_u else None, grad_p if for_p else None, grad_q if for_q else None, None, None


def _formula_gradients(u: Tensor, p: Tensor, q: Tensor, order: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    def values(u: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return _formula(u, p, q, order)

    gradients: tuple[Tensor, Tensor, Tensor] = torch.func.vjp(values, u, p, q)[1](g)
    return gradients


class _ExpectedMinimum(torch.autograd.Function):
    """The operator outside of graph capture, where it also composes with the transforms of ``torch.func``."""

    @staticmethod
    def forward(u: Tensor, p: Tensor, q: Tensor, order: Tensor | None, gaps: Tensor | None) -> Tensor:
        values: Tensor = torch.ops.choqolate.expected_minimum(u, p, q, order, gaps)
        return values

    setup_context = staticmethod(_setup_context)
    backward = staticmethod(_backward)

    @staticmethod
    def jvp(ctx: Any, du: Tensor | None, dp: Tensor | None, dq: Tensor | None, *_: object) -> Tensor:
        u, p, q, order = ctx.saved_tensors
        order, zero = _descending(u, order), u.new_zeros(())
        of_u = zero if du is None else _formula(du, p, q, order)
        of_p = zero if dp is None else _formula(u, dp, q, order)
        of_q = zero if dq is None else _formula(u, p, dq, order)
        return of_u + of_p + of_q

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        return _vmap(_ExpectedMinimum.apply, info, in_dims, *args)


def _vmap(operator: Callable[..., Tensor], info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
    """More rows where only the inputs are mapped, more terms where only the distributions are, else one by one."""
    (of_u, of_p, of_q, of_order, of_gaps), size = in_dims, info.batch_size
    over_rows, over_terms = {of_u, of_order, of_gaps} != {None}, {of_p, of_q} != {None}
    if over_rows and over_terms:
        return one_by_one(operator)(info, in_dims, *args)
    u, p, q, order, gaps = args
    if over_rows:
        u, order, gaps = _joined(u, of_u, size), _joined(order, of_order, size), _joined(gaps, of_gaps, size)
    else:
        p, q = _joined(p, of_p, size), _joined(q, of_q, size)
    values, axis = operator(u, p, q, order, gaps), 0 if over_rows else 1
    return values.unflatten(axis, (size, values.shape[axis] // size)), axis


def _joined(x: Tensor | None, dim: int | None, size: int) -> Tensor | None:
    """A mapped axis as more rows; where none is mapped, the same rows for each element."""
    if x is None:
        return None
    return (x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)).flatten(0, 1)


torch.library.register_autograd(_VALUES, _backward, setup_context=_setup_context)
torch.library.register_vmap(_GRADIENTS, one_by_one(torch.ops.choqolate.expected_minimum_gradients))


@torch.library.register_vmap(_VALUES)
def _(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
    return _vmap(torch.ops.choqolate.expected_minimum, info, in_dims, *args)
