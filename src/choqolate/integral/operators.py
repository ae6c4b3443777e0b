"""The pairwise integral as an operator of PyTorch: compiled, exported, transformed and differentiated like its own.

``choqolate::integral`` and its two gradients are registered operators, each computed by the native kernel or by blocks
of PyTorch operations. Graph capture (``torch.compile``, ``torch.export``) sees one node per integral.

First derivatives come from the kernels. Derivatives of derivatives and forward-mode derivatives come from the formula,
which takes memory for all pairs of all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from choqolate.errors import ChoqolateError
from choqolate.integral import kernels, native
from choqolate.integral.formula import pair_mass, pairwise_tangent, pairwise_values, softmax_weights
from choqolate.integral.operator_registration import (
    define_operator,
    has_tangent,
    is_intercepted,
    one_by_one,
    transforms_active,
)
from choqolate.integral.precision import HALF

_FORMULA_UP_TO = 16  # inputs; below, all pairs at once are faster than blocks


def integrate_pairs(u: Tensor, weights: Tensor, *, softmax: bool) -> tuple[Tensor, Tensor | None]:
    """Values of pairwise integrals and, of a softmax, the mass of their pairs.

    Args:
        u: inputs ``(..., B, M)``; leading axes are separate stacks.
        weights: weight matrices ``(..., N, M, M)`` or, with ``softmax``, the parameters whose softmax they are.
        softmax: what ``weights`` are. Gradients go to the parameters directly, in the form of Proposition 1.

    Returns:
        Values ``(..., B, N)``, and the mass ``(..., N)`` or ``None``.

    >>> values, mass = integrate_pairs(torch.tensor([[1.0, 0.0]]), torch.zeros(1, 2, 2), softmax=True)
    >>> values, mass  # all four weights are 0.25; 0.25 * 1 + 0.25 * min + 0.25 * max
    (tensor([[0.5000]]), tensor([0.5000]))
    """
    if u.dtype in HALF:  # half precision is too coarse for these sums
        values, mass = integrate_pairs(u.float(), weights.float(), softmax=softmax)
        return values.to(u.dtype), None if mass is None else mass.to(u.dtype)
    if torch.compiler.is_compiling():
        plain = (
            u.shape[-1] <= _FORMULA_UP_TO or transforms_active()
        )  # derivatives registered with torch.library do not support torch.func
    else:
        plain = u.shape[-1] <= _FORMULA_UP_TO and not native.serves(u)
    if plain:
        return _by_formula(u, weights, softmax)
    stacks = weights.shape[:-3]
    if len(stacks) > 1:
        values, mass = integrate_pairs(u.flatten(0, -3), weights.flatten(0, -4), softmax=softmax)
        return values.unflatten(0, stacks), None if mass is None else mass.unflatten(0, stacks)
    values, mass, _ = _pick_integral(u, weights)(u, weights, softmax)
    return values, mass if softmax else None


def _by_formula(u: Tensor, weights: Tensor, softmax: bool) -> tuple[Tensor, Tensor | None]:
    if not softmax:
        return pairwise_values(u, weights), None
    w = softmax_weights(weights)
    return pairwise_values(u, w), pair_mass(w)


# ---------------------------------------------------------------- operators


def _check(u: Tensor, weights: Tensor, **others: tuple[Tensor | None, str]) -> None:
    """Check shapes, dtypes and devices, which the kernels trust: anybody can call an operator.

    ``others`` are tensors, each with the letters of its shape: B rows, M inputs, N nodes, and 2; S stacks come first if
    there are any.
    """
    if not 2 <= u.ndim <= 3 or weights.ndim != u.ndim + 1:
        raise ChoqolateError(
            "Expected u of shape (B, M) and weights of shape (N, M, M), or (S, B, M) and (S, N, M, M), but got "
            f"{tuple(u.shape)} and {tuple(weights.shape)}."
        )
    if 0 in (u.shape[-1], weights.shape[-3]):
        raise ChoqolateError(
            f"Expected at least one input and one node, but got u {tuple(u.shape)} and weights {tuple(weights.shape)}."
        )
    stacks = "S" * (u.ndim - 2)
    sizes = dict(zip(f"{stacks}BM", u.shape, strict=True)) | {"N": weights.shape[-3], "2": 2}
    for name, (x, letters) in {"weights": (weights, "NMM"), **others}.items():
        if x is None:
            continue
        if x.shape != tuple(sizes[letter] for letter in stacks + letters):
            raise ChoqolateError(
                f"Expected {name} of shape ({', '.join(stacks + letters)}) beside u ({', '.join(stacks + 'BM')}), "
                f"but got {tuple(x.shape)} beside {tuple(u.shape)}."
            )
        if x.dtype != u.dtype or x.device != u.device:
            raise ChoqolateError(
                f"Expected {name} to have the dtype and device of u, {u.dtype} on {u.device}, but got {x.dtype} on "
                f"{x.device}."
            )


@define_operator("choqolate::integral")
def _integral(u: Tensor, weights: Tensor, softmax: bool) -> tuple[Tensor, Tensor, Tensor]:
    _check(u, weights)
    return kernels.integrate(u, weights, softmax)


@define_operator("choqolate::integral_input_gradient")
def _input_gradient(u: Tensor, weights: Tensor, softmax: bool, scale: Tensor, g: Tensor) -> Tensor:
    _check(u, weights, g=(g, "BN"), scale=(scale if softmax else None, "N2"))
    return kernels.input_gradient(u, weights, softmax, scale, g)


@define_operator("choqolate::integral_weight_gradient")
def _weight_gradient(
    u: Tensor,
    weights: Tensor,
    softmax: bool,
    scale: Tensor,
    values: Tensor,
    mass: Tensor,
    g: Tensor,
    g_mass: Tensor | None,
) -> Tensor:
    of_softmax = {name: (x if softmax else None, "N") for name, x in (("mass", mass), ("g_mass", g_mass))}
    _check(u, weights, g=(g, "BN"), values=(values, "BN"), scale=(scale if softmax else None, "N2"), **of_softmax)
    return kernels.weight_gradient(u, weights, softmax, scale, values, mass, g, g_mass)


@torch.library.register_fake("choqolate::integral")
def _(u: Tensor, weights: Tensor, softmax: bool) -> tuple[Tensor, Tensor, Tensor]:
    _check(u, weights)
    return kernels.empty_outputs(u, weights, softmax)


@torch.library.register_fake("choqolate::integral_input_gradient")
def _(u: Tensor, weights: Tensor, softmax: bool, scale: Tensor, g: Tensor) -> Tensor:
    return u.new_empty(u.shape)


@torch.library.register_fake("choqolate::integral_weight_gradient")
def _(u: Tensor, weights: Tensor, *others: object) -> Tensor:
    return u.new_empty(weights.shape)


# ---------------------------------------------------------------- derivatives


def _setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, bool], output: tuple[Tensor, Tensor, Tensor]) -> None:
    u, weights, ctx.softmax = inputs
    ctx.mark_non_differentiable(output[2])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(u, weights, *output)
    ctx.save_for_forward(u, weights)


def _backward(
    ctx: Any, g: Tensor | None, g_mass: Tensor | None, _: object
) -> tuple[Tensor | None, Tensor | None, None]:
    u, weights, values, mass, scale = ctx.saved_tensors
    if g is None and g_mass is None:
        return None, None, None
    g = torch.zeros_like(values) if g is None else g
    g_mass = g_mass if ctx.softmax else None
    if torch.is_grad_enabled() or has_tangent(u, weights, g, g_mass):  # the derivative is differentiated
        gradients = _formula_gradients(u, weights, ctx.softmax, g, g_mass)
        return gradients[0], gradients[1], None
    for_u, for_weights, _ = ctx.needs_input_grad
    to_inputs, to_weights = _pick_gradients(u, weights, g, g_mass)
    grad_u = to_inputs(u, weights, ctx.softmax, scale, g) if for_u else None
    grad_weights = to_weights(u, weights, ctx.softmax, scale, values, mass, g, g_mass) if for_weights else None
    return grad_u, grad_weights, None


def _formula_gradients(
    u: Tensor, weights: Tensor, softmax: bool, g: Tensor, g_mass: Tensor | None
) -> tuple[Tensor, Tensor]:
    def outputs(u: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        values, mass = _by_formula(u, weights, softmax)
        return (values,) if g_mass is None or mass is None else (values, mass)

    pullback = torch.func.vjp(outputs, u, weights)[1]
    gradients: tuple[Tensor, Tensor] = pullback((g,) if g_mass is None else (g, g_mass))
    return gradients


def _jvp(ctx: Any, du: Tensor | None, dweights: Tensor | None, _: object) -> tuple[Tensor, Tensor, None]:
    u, weights = ctx.saved_tensors
    w = softmax_weights(weights) if ctx.softmax else weights
    tangent = pairwise_tangent(u, w, torch.zeros_like(u) if du is None else du)
    mass = torch.zeros_like(w[..., 0, 0]) if ctx.softmax else w.new_zeros(*w.shape[:-3], 0)
    if dweights is not None:
        dw = w * (dweights - (w * dweights).sum((-1, -2), keepdim=True)) if ctx.softmax else dweights
        tangent = tangent + pairwise_values(u, dw)
        mass = -dw.diagonal(dim1=-2, dim2=-1).sum(-1) if ctx.softmax else mass
    return tangent, mass, None


class _EagerIntegral(torch.autograd.Function):
    """The kernels without PyTorch's dispatcher, which would take as long as a small integral."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, weights: Tensor, softmax: bool) -> tuple[Tensor, Tensor, Tensor]:
        _check(u, weights)
        output = kernels.integrate(u, weights, softmax)
        _setup_context(ctx, (u, weights, softmax), output)
        return output

    backward = staticmethod(_backward)
    jvp = staticmethod(_jvp)


class _DispatchedIntegral(torch.autograd.Function):
    """The operator where its calls are intercepted: transforms of ``torch.func``, tracers, fake tensors."""

    @staticmethod
    def forward(u: Tensor, weights: Tensor, softmax: bool) -> tuple[Tensor, Tensor, Tensor]:
        output: tuple[Tensor, Tensor, Tensor] = torch.ops.choqolate.integral(u, weights, softmax)
        return output

    setup_context = staticmethod(_setup_context)
    backward = staticmethod(_backward)
    jvp = staticmethod(_jvp)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], u: Tensor, weights: Tensor, softmax: bool) -> Any:
        return _vmap(_DispatchedIntegral.apply, info.batch_size, in_dims, u, weights, softmax)


def _pick_integral(u: Tensor, weights: Tensor) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """The form of the operator that the caller's context understands."""
    if torch.compiler.is_compiling():
        operator: Callable[..., tuple[Tensor, Tensor, Tensor]] = torch.ops.choqolate.integral
        return operator
    return _DispatchedIntegral.apply if is_intercepted(u, weights) else _EagerIntegral.apply


def _pick_gradients(*tensors: Tensor | None) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """What computes the gradients of inputs and of weights from these tensors."""
    if torch.compiler.is_compiling() or is_intercepted(*tensors):
        return torch.ops.choqolate.integral_input_gradient, torch.ops.choqolate.integral_weight_gradient
    return kernels.input_gradient, kernels.weight_gradient


def _vmap(
    integral: Callable[..., Any], size: int, in_dims: tuple[int | None, ...], u: Tensor, weights: Tensor, softmax: bool
) -> Any:
    """More rows where only the inputs are mapped, more nodes where only the weights are, else more stacks."""
    of_u, of_weights, _ = in_dims
    if of_weights is None:
        assert of_u is not None
        many = u.movedim(of_u, -3)  # (..., V, B, M)
        values, mass, scale = integral(many.flatten(-3, -2), weights, softmax)
        return (values.unflatten(-2, many.shape[-3:-1]), mass, scale), (many.ndim - 3, None, None)
    if of_u is None:
        many = weights.movedim(of_weights, -4)  # (..., V, N, M, M)
        values, mass, scale = integral(u, many.flatten(-4, -3), softmax)
        nodes = (size, many.shape[-3])
        values, axis = values.unflatten(-1, nodes), many.ndim - 4
        if softmax:
            mass, scale = mass.unflatten(-1, nodes), scale.unflatten(-2, nodes)
            return (values, mass, scale), (axis + 1, axis, axis)
        return (values, mass, scale), (axis + 1, None, None)
    many, many_weights = u.movedim(of_u, 0), weights.movedim(of_weights, 0)
    if many.ndim == 3:
        return integral(many, many_weights, softmax), (0, 0, 0)
    outputs = integral(many.flatten(0, 1), many_weights.flatten(0, 1), softmax)
    return tuple(x.unflatten(0, many.shape[:2]) for x in outputs), (0, 0, 0)


torch.library.register_autograd("choqolate::integral", _backward, setup_context=_setup_context)


@torch.library.register_vmap("choqolate::integral")
def _(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
    return _vmap(torch.ops.choqolate.integral, info.batch_size, in_dims, *args)


torch.library.register_vmap(
    "choqolate::integral_input_gradient", one_by_one(torch.ops.choqolate.integral_input_gradient)
)
torch.library.register_vmap(
    "choqolate::integral_weight_gradient", one_by_one(torch.ops.choqolate.integral_weight_gradient)
)
