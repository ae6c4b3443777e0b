"""A layer of learnable Choquet integrals."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.integral.additive import AdditiveCapacity
from choqolate.integral.capacity import Capacity
from choqolate.integral.expected_minimum import SortedInputs
from choqolate.integral.factored import FactoredCapacity
from choqolate.integral.formula import softmax_weights
from choqolate.integral.operators import integrate_pairs
from choqolate.integral.pairwise import PairwiseCapacity
from choqolate.integral.precision import single_at_least, without_autocast

INTERACTIONS = ("pairwise", "factored", "none")
INITIAL_SPREAD = 0.1
_COPIES_IN_TRAINING = 6  # parameters, weights, the gradients of both, and two moments of Adam
_MUCH_MEMORY = 2 << 30


class ChoquetLayer(nn.Module):
    r"""``out_features`` 2-additive Choquet integrals of the same ``in_features`` inputs.

    The weights are a softmax of unconstrained parameters, so that every integral is valid (nonnegative weights that
    sum to one) whatever an optimiser does:

    .. math:: w = (a, b, c) = \mathrm{softmax}(\theta), \qquad C(u) = \langle w, \phi(u) \rangle

    Args:
        in_features: number of inputs M, expected in [0, 1].
        out_features: number of integrals N.
        interactions: ``"pairwise"`` (M^2 weights per integral), ``"factored"`` (pairs as ``rank`` products of two
            distributions, O(M rank) weights and O(M log M) work) or ``"none"`` (weighted means).
        rank: number of products, for ``"factored"``.
        free_weights: use the parameters themselves as weights: no longer a Choquet integral, for ablations.
        stack: if given, that many independent layers side by side; inputs and outputs get a leading axis.
        validate: raise an error if an input is NaN. This reads all inputs once more; a compiled or exported layer
            leaves it out.
        generator: source of the initial values.

    Shape:
        ``(..., M) -> (..., N)``; with ``stack``: ``(stack, ..., M) -> (stack, ..., N)``. Inputs of another precision
        are cast to that of the parameters; half precision is computed in float32.

    >>> layer = ChoquetLayer(3, 2)
    >>> layer(torch.full((5, 3), 0.25))[0]
    tensor([0.2500, 0.2500], grad_fn=<SelectBackward0>)
    >>> a, b, c = layer.weights()
    >>> a.shape, b.shape, bool((a.sum(1) + b.sum(1) + c.sum(1) - 1).abs().max() < 1e-6)
    (torch.Size([2, 3]), torch.Size([2, 3]), True)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        interactions: str = "pairwise",
        *,
        rank: int = 4,
        free_weights: bool = False,
        stack: int | None = None,
        validate: bool = False,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_arguments(in_features, out_features, interactions, rank, free_weights)
        self.in_features, self.out_features, self.interactions = in_features, out_features, interactions
        self.rank, self.free_weights, self.stack, self.validate = rank, free_weights, stack, validate
        shapes = raw_shapes(in_features, out_features, interactions, rank)
        self._names = tuple(shapes)
        dtype = dtype or torch.get_default_dtype()
        n_weights = sum(math.prod(shape) for shape in shapes.values()) * (stack or 1)
        check_memory(n_weights, in_features, interactions, dtype)
        leading = () if stack is None else (stack,)
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.empty(*leading, *shape, device=device, dtype=dtype)))
        self.reset_parameters(generator)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None, part: int | slice = slice(None)) -> None:
        """Draw initial values, for all integrals or for a part of them (of the stack, where there is one)."""
        for theta in self.parameters():
            if theta.is_meta:  # it holds no values
                continue
            # drawn in float64 on the CPU, so that a seed means the same on every device and in every precision
            fan_in = self.in_features ** (2 if self.interactions == "pairwise" else 1)
            spread = 1 / math.sqrt(fan_in) if self.free_weights else INITIAL_SPREAD
            drawn = torch.empty(theta[part].shape, dtype=torch.float64, device="cpu").normal_(
                0, spread, generator=generator
            )
            theta[part] = drawn.to(theta)

    def capacity(self) -> Capacity:
        """The weights of the integrals, as a differentiable function of the parameters."""
        return as_capacity(self._raw(), self.interactions, free_weights=self.free_weights)

    def _raw(self) -> dict[str, Tensor]:
        # by name: the copies of a layer that nn.DataParallel makes have attributes but no registered parameters
        return {name: getattr(self, name) for name in self._names}

    def forward(self, u: Tensor) -> Tensor:
        _check_dense(u)
        leading = () if self.stack is None else (self.stack,)
        if u.ndim < 1 + len(leading) or u.shape[-1] != self.in_features or u.shape[: len(leading)] != leading:
            expected = ", ".join([*map(str, leading), "...", str(self.in_features)])
            raise ChoqolateError(f"expected inputs of shape ({expected}), got {tuple(u.shape)}")
        if u.ndim == 2 + len(leading):
            return self.integrate_with_mass(u)[0]
        n_rows = math.prod(u.shape[len(leading) : -1])
        values, _ = self.integrate_with_mass(u.reshape(*leading, n_rows, self.in_features))
        return values.reshape(*u.shape[:-1], self.out_features)

    def integrate_with_mass(self, u: Tensor, presorted: SortedInputs | None = None) -> tuple[Tensor, Tensor]:
        """Values ``(..., B, N)`` and the interaction mass ``(..., N)`` at once: what a step of training needs.

        Args:
            u: inputs ``(..., B, M)``; the leading axis is that of the stack.
            presorted: what :func:`~choqolate.integral.expected_minimum.sort_inputs` made of ``u``, for ``"factored"``.
        """
        raw = self._raw()
        dtype = raw[self._names[0]].dtype
        u = self._checked(u, dtype)
        if self.interactions == "pairwise" and not self.free_weights:
            values, mass = integrate_pairs(u, raw["theta"], softmax=True)
            assert mass is not None
            return values, mass
        with without_autocast(u):
            wide = {name: single_at_least(theta) for name, theta in raw.items()}
            capacity, u = as_capacity(wide, self.interactions, free_weights=self.free_weights), single_at_least(u)
            if presorted is not None and isinstance(capacity, FactoredCapacity):
                values = capacity.integrate_sorted(u, presorted)
            else:
                values = capacity.integrate(u)
            return values.to(dtype), capacity.interaction_mass().to(dtype)

    def _checked(self, u: Tensor, dtype: torch.dtype) -> Tensor:
        """Inputs in the precision of the parameters."""
        if u.is_complex():
            raise ChoqolateError(f"Expected real inputs, got {u.dtype}.")
        if self.validate and not torch.compiler.is_compiling() and u.isnan().any():
            rows = int(u.isnan().any(-1).sum())
            having = "1 row has" if rows == 1 else f"{rows} rows have"
            raise ChoqolateError(f"Expected inputs without NaN, but {having} some. Drop or impute them.")
        return u.to(dtype)

    def weights(self) -> tuple[Tensor, Tensor, Tensor]:
        """``a (N, M)``, ``b`` and ``c`` ``(N, M(M-1)/2)``, pairs in the order of ``torch.triu_indices(M, M, 1)``.

        For ``"factored"`` the pairs are multiplied out, which takes the memory that the form otherwise saves.
        """
        return self.capacity().weights()

    def shapley(self) -> Tensor:
        """Shapley values ``(N, M)`` of the inputs in each integral; rows sum to one unless the weights are free."""
        return self.capacity().shapley()

    def extra_repr(self) -> str:
        rank = f", rank={self.rank}" if self.interactions == "factored" else ""
        return f"{self.in_features}, {self.out_features}, interactions={self.interactions!r}{rank}"


def _check_dense(u: Tensor) -> None:
    if not isinstance(u, Tensor):
        raise ChoqolateError(f"Expected inputs as a tensor, got {type(u).__name__}. Use torch.as_tensor.")
    if u.is_nested or u.layout is not torch.strided:
        kind = "a nested tensor" if u.is_nested else f"a tensor of layout {u.layout}"
        way = "torch.nested.to_padded_tensor" if u.is_nested else "u.to_dense()"
        raise ChoqolateError(f"Expected inputs as a dense tensor, got {kind}. Use {way}.")


def as_capacity(raw: Mapping[str, Tensor], interactions: str, *, free_weights: bool = False) -> Capacity:
    """Capacities from unconstrained parameters: each distribution is a softmax."""
    if interactions == "factored":
        return FactoredCapacity(*(raw[f"theta_{part}"].softmax(-1) for part in "mapq"))
    theta = raw["theta"]
    if interactions == "none":
        return AdditiveCapacity(theta if free_weights else theta.softmax(-1), free_weights)
    if free_weights:
        return PairwiseCapacity(theta, free=True)
    return PairwiseCapacity(softmax_weights(theta))


def check_memory(n_weights: int, in_features: int, interactions: str, dtype: torch.dtype) -> None:
    """Refuse what cannot be trained in this machine's memory, warn of what takes a lot of it."""
    needed, physical = training_bytes(n_weights, dtype), _physical_memory()
    if needed < min(_MUCH_MEMORY, physical / 2):
        return
    advice = "fewer inputs" if interactions == "factored" else "interactions='factored' (linear in the inputs)"
    message = (
        f"{interactions} interactions of {in_features} inputs are {n_weights:,} weights; training takes about "
        f"{needed / 2**30:,.1f} GiB and this machine has {physical / 2**30:,.1f} GiB: use {advice}"
    )
    if needed > physical:
        raise ChoqolateError(message)
    warnings.warn(message, ChoqolateWarning, stacklevel=3)


def training_bytes(n_weights: int, dtype: torch.dtype) -> int:
    """Memory that training takes for so many weights."""
    return _COPIES_IN_TRAINING * n_weights * dtype.itemsize


def _physical_memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # not every system tells
        return math.inf


def raw_shapes(n_inputs: int, n_nodes: int, interactions: str, rank: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a layer's unconstrained parameters."""
    if interactions == "pairwise":
        return {"theta": (n_nodes, n_inputs, n_inputs)}
    if interactions == "none":
        return {"theta": (n_nodes, n_inputs)}
    terms = (n_nodes, rank, n_inputs)
    return {"theta_m": (n_nodes, 1 + 2 * rank), "theta_a": (n_nodes, n_inputs), "theta_p": terms, "theta_q": terms}


def _check_arguments(in_features: int, out_features: int, interactions: str, rank: int, free_weights: bool) -> None:
    if interactions not in INTERACTIONS:
        raise ChoqolateError(f"expected interactions to be one of {', '.join(INTERACTIONS)}, got {interactions!r}")
    if not (isinstance(in_features, int) and isinstance(out_features, int) and in_features > 0 and out_features > 0):
        raise ChoqolateError(f"expected at least one input and one output, got {in_features!r} and {out_features!r}")
    if interactions == "factored" and rank < 1:
        raise ChoqolateError(f"expected a rank of at least 1, got {rank}")
    if interactions == "factored" and free_weights:
        raise ChoqolateError("factored interactions are products of distributions: free_weights needs pairwise or none")
