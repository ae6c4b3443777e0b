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
from choqolate.integral import blocked, native
from choqolate.integral.formula import pair_mass, pairwise_tangent, pairwise_values, softmax_weights
from choqolate.integral.operator_registration import define_operator, one_by_one, transforms_active
from choqolate.integral.precision import HALF, without_autocast

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
    integral, stacks = _pick_integral(), weights.shape[:-3]
    if not stacks:
        values, mass, _ = integral(u[None], weights[None], softmax)
        return values[0], mass[0] if softmax else None
    last = len(stacks) - 1
    values, mass, _ = integral(u.flatten(0, last), weights.flatten(0, last), softmax)
    return values.unflatten(0, stacks), mass.unflatten(0, stacks) if softmax else None


def _by_formula(u: Tensor, weights: Tensor, softmax: bool) -> tuple[Tensor, Tensor | None]:
    if not softmax:
        return pairwise_values(u, weights), None
    w = softmax_weights(weights)
    return pairwise_values(u, w), pair_mass(w)


# ---------------------------------------------------------------- operators


def _check(u: Tensor, weights: Tensor, **others: tuple[Tensor | None, str]) -> None:
    """The kernels trust shapes and dtypes, and anybody can call an operator.

    ``others`` are tensors, each with the letters of its shape: S stacks, B rows, M inputs, N nodes, and 2.
    """
    sizes = dict(zip("SBM2", (*u.shape, 2), strict=False))
    sizes["N"] = weights.shape[1] if weights.ndim == 4 else -1
    for name, (x, letters) in {"u": (u, "SBM"), "weights": (weights, "SNMM"), **others}.items():
        if x is None:
            continue
        if u.ndim != 3 or x.shape != tuple(sizes[letter] for letter in letters):
            raise ChoqolateError(
                f"Expected {name} of shape ({', '.join(letters)}) beside u (S, B, M) and weights (S, N, M, M), but got "
                f"{tuple(x.shape)} beside {tuple(u.shape)} and {tuple(weights.shape)}."
            )
        if x.dtype != u.dtype or x.device != u.device:
            raise ChoqolateError(
                f"Expected {name} to have the dtype and device of u, {u.dtype} on {u.device}, but got {x.dtype} on "
                f"{x.device}."
            )


@define_operator("choqolate::integral")
def _integral(u: Tensor, weights: Tensor, softmax: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Values ``(S, B, N)``, mass of the pairs ``(S, N)``, and the scale ``(S, N, 2)``: maximum and 1 / sum."""
    _check(u, weights)
    if native.serves(u):
        return native.integrate(u, weights, softmax)
    mass, scale = u.new_empty(len(u), 0), u.new_empty(len(u), 0, 2)
    with without_autocast(u):
        if softmax:
            largest = weights.amax((-1, -2))
            w = (weights - largest[..., None, None]).exp_()
            factor = 1 / w.sum((-1, -2))
            w *= factor[..., None, None]
            weights, mass, scale = w, pair_mass(w), torch.stack([largest, factor], -1)
        values = torch.stack([blocked.integrate(*pair) for pair in zip(u, weights, strict=True)])
    return values, mass, scale


@define_operator("choqolate::integral_input_gradient")
def _input_gradient(u: Tensor, weights: Tensor, softmax: bool, scale: Tensor, g: Tensor) -> Tensor:
    """Gradient ``(S, B, M)`` of the inputs."""
    _check(u, weights, g=(g, "SBN"), scale=(scale if softmax else None, "SN2"))
    if native.serves(u):
        return native.input_gradient(u, weights, softmax, scale, g)
    with without_autocast(u):
        w = _rescaled(weights, scale) if softmax else weights
        return torch.stack([blocked.input_gradient(*parts) for parts in zip(u, w, g, strict=True)])


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
    """Gradient ``(S, N, M, M)`` of the weights, or of the parameters whose softmax they are."""
    of_softmax = {name: (x if softmax else None, "SN") for name, x in (("mass", mass), ("g_mass", g_mass))}
    _check(u, weights, g=(g, "SBN"), values=(values, "SBN"), scale=(scale if softmax else None, "SN2"), **of_softmax)
    if native.serves(u):
        return native.weight_gradient(u, weights, softmax, scale, values, mass, g, g_mass)
    with without_autocast(u):
        if not softmax:
            return torch.stack([blocked.weight_gradient(*parts) for parts in zip(u, weights, g, strict=True)])
        w = _rescaled(weights, scale)
        # the integral is linear in w, so the mean of its gradient under w is its value; 1 - mass is linear too
        mean = (g * values).sum(1)
        if g_mass is not None:
            mean -= g_mass * (1 - mass)
        grad = torch.stack([blocked.weight_gradient(*parts) for parts in zip(u, w, g, mean, strict=True)])
        if g_mass is not None:
            own = w.diagonal(dim1=-2, dim2=-1)
            grad.diagonal(dim1=-2, dim2=-1).addcmul_(own, g_mass[..., None], value=-1)
        return grad


def _rescaled(theta: Tensor, scale: Tensor) -> Tensor:
    """The softmax again, from its scale."""
    largest, factor = scale.unbind(-1)
    return (theta - largest[..., None, None]).exp_().mul_(factor[..., None, None])


@torch.library.register_fake("choqolate::integral")
def _(u: Tensor, weights: Tensor, softmax: bool) -> tuple[Tensor, Tensor, Tensor]:
    _check(u, weights)
    stacks, nodes = u.shape[0], weights.shape[1]
    values = u.new_empty(stacks, u.shape[1], nodes)
    return values, u.new_empty(stacks, nodes * softmax), u.new_empty(stacks, nodes * softmax, 2)


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
    if torch.is_grad_enabled():  # the derivative will be differentiated
        gradients = _formula_gradients(u, weights, ctx.softmax, g, g_mass)
        return gradients[0], gradients[1], None
    for_u, for_weights, _ = ctx.needs_input_grad
    grad_u = grad_weights = None
    if for_u:
        grad_u = torch.ops.choqolate.integral_input_gradient(u, weights, ctx.softmax, scale, g)
    if for_weights:
        grad_weights = torch.ops.choqolate.integral_weight_gradient(
            u, weights, ctx.softmax, scale, values, mass, g, g_mass
        )
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
    mass = torch.zeros_like(w[..., 0, 0]) if ctx.softmax else u.new_zeros(len(u), 0)
    if dweights is not None:
        dw = w * (dweights - (w * dweights).sum((-1, -2), keepdim=True)) if ctx.softmax else dweights
        tangent = tangent + pairwise_values(u, dw)
        mass = -dw.diagonal(dim1=-2, dim2=-1).sum(-1) if ctx.softmax else mass
    return tangent, mass, None


class _Integral(torch.autograd.Function):
    """The operator outside of graph capture."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, weights: Tensor, softmax: bool) -> tuple[Tensor, Tensor, Tensor]:
        output: tuple[Tensor, Tensor, Tensor] = torch.ops.choqolate.integral(u, weights, softmax)
        _setup_context(ctx, (u, weights, softmax), output)
        return output

    backward = staticmethod(_backward)
    jvp = staticmethod(_jvp)


class _TransformedIntegral(torch.autograd.Function):
    """The operator under the transforms of ``torch.func``, which require ``setup_context``; slower per call."""

    @staticmethod
    def forward(u: Tensor, weights: Tensor, softmax: bool) -> tuple[Tensor, Tensor, Tensor]:
        output: tuple[Tensor, Tensor, Tensor] = torch.ops.choqolate.integral(u, weights, softmax)
        return output

    setup_context = staticmethod(_setup_context)
    backward = staticmethod(_backward)
    jvp = staticmethod(_jvp)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], u: Tensor, weights: Tensor, softmax: bool) -> Any:
        return _vmap(_TransformedIntegral.apply, info.batch_size, in_dims, u, weights, softmax)


def _pick_integral() -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """The form of the operator that the caller's context understands."""
    if torch.compiler.is_compiling():
        operator: Callable[..., tuple[Tensor, Tensor, Tensor]] = torch.ops.choqolate.integral
        return operator
    return _TransformedIntegral.apply if transforms_active() else _Integral.apply


def _vmap(
    integral: Callable[..., Any], size: int, in_dims: tuple[int | None, ...], u: Tensor, weights: Tensor, softmax: bool
) -> Any:
    """More rows where only the inputs are mapped, more nodes where only the weights are, else more stacks."""
    of_u, of_weights, _ = in_dims
    if of_weights is None:
        assert of_u is not None
        many = u.movedim(of_u, 1)  # (S, V, B, M)
        values, mass, scale = integral(many.flatten(1, 2), weights, softmax)
        return (values.unflatten(1, many.shape[1:3]), mass, scale), (1, None, None)
    if of_u is None:
        many = weights.movedim(of_weights, 1)  # (S, V, N, M, M)
        values, mass, scale = integral(u, many.flatten(1, 2), softmax)
        width = many.shape[2] * softmax
        parts = (
            values.unflatten(2, many.shape[1:3]),
            mass.unflatten(1, (size, width)),
            scale.unflatten(1, (size, width)),
        )
        return parts, (2, 1, 1)
    many, many_weights = u.movedim(of_u, 0), weights.movedim(of_weights, 0)
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
