"""What every family of 2-additive capacities offers, whatever its weights look like inside."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from choqolate.integral.expected_minimum import slices
from choqolate.integral.terms import Terms

_COMMON_VALUES = 1 << 19  # weights of pairs at a time


class Capacity(ABC):
    r"""``N`` 2-additive capacities over ``M`` inputs: the weights of a layer, in one of four forms.

    Each stands for an integral

    .. math:: C(u) = \sum_j a_j u_j + \sum_{j<l} b_{jl} \min(u_j, u_l) + c_{jl} \max(u_j, u_l)

    with nonnegative weights that sum to one. The forms differ in how they hold a, b and c
    (:class:`AdditiveCapacity`: only a; :class:`PairwiseCapacity`: all of them;
    :class:`FactoredCapacity`: b and c as low-rank products; :class:`SparseCapacity`: those listed) and so in what an
    operation costs.
    """

    free: bool = False  # weights that are not on the simplex: not a capacity at all, but useful for ablations

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """``(N, M)``: how many integrals, over how many inputs."""

    @abstractmethod
    def integrate(self, u: Tensor) -> Tensor:
        """The integrals' values: ``(B, M) -> (B, N)``, differentiable in the weights and in ``u``."""

    @abstractmethod
    def shapley(self) -> Tensor:
        r"""Shapley values ``(N, M)``: :math:`a_j + \frac12 \sum_{l \ne j} (b_{jl} + c_{jl})`."""

    @abstractmethod
    def singles(self) -> Tensor:
        """The weights ``a``, ``(N, M)``: what each input carries alone."""

    @abstractmethod
    def pairs(self, rows: slice | Tensor) -> tuple[Tensor, Tensor]:
        """The weights ``b`` and ``c`` of the inputs in ``rows`` with all inputs, each ``(N, rows, M)``, 0 at j = l."""

    def pairs_among(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The weights ``b`` and ``c`` of all pairs of some of the inputs, each ``(N, k, k)``, 0 at j = l."""
        b, c = (weights[..., inputs] for weights in self.pairs(inputs))
        return b, c

    @abstractmethod
    def pairs_between(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """The weights ``b`` and ``c`` of G pairs of different inputs ``(G,)``, each ``(N, G)``."""

    def integrate_common(self, u: Tensor) -> Tensor:
        r"""What the pairs of input j give back to the others if j is removed canonically, ``(B, N, M)``.

        .. math:: F_j(u) = \sum_{l \ne j} \min(b_{jl}, c_{jl})\, u_l

        All pairs are looked at, some inputs at a time.
        """
        n_nodes, n_inputs = self.shape
        out = u.new_empty(len(u), n_nodes, n_inputs)
        for some in slices(n_inputs, _COMMON_VALUES // (n_nodes * n_inputs)):
            common = torch.minimum(*self.pairs(some))
            out[:, :, some] = (u @ common.flatten(0, 1).mT).unflatten(1, common.shape[:2])
        return out

    def integrate_pairs_among(self, u: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """What all pairs of some of the inputs add to the integrals of ``u (B, M)``, ``(B, N)``; and their weight."""
        b, c = (weights / 2 for weights in self.pairs_among(inputs))  # each pair stands there twice
        values = u.new_empty(len(u), self.shape[0])
        for row, at in enumerate(u[:, inputs]):
            low, high = torch.minimum(at[:, None], at), torch.maximum(at[:, None], at)
            values[row] = (b * low + c * high).sum((-1, -2))
        return values, (b + c).sum((-1, -2))

    @abstractmethod
    def interaction_mass(self) -> Tensor:
        r"""Weight on interactions ``(N,)``: :math:`\sum_{j<l} |b_{jl}| + |c_{jl}|`, differentiable."""

    @abstractmethod
    def involvement(self, u: Tensor, v: Tensor) -> Tensor:
        r"""The terms that involve input j, with j set to ``v`` and every other input left at ``u``.

        .. math:: I_j(u; v) = a_j v_j + \sum_{l \ne j} b_{jl} \min(v_j, u_l) + c_{jl} \max(v_j, u_l)

        ``u`` and ``v`` are ``(B, M)``; the result is ``(B, N, M)``. Local Shapley values and every kind of removal
        are sums and differences of it.
        """

    @abstractmethod
    def without(self, removed: Tensor, *, canonical: bool = False) -> tuple[Capacity, Tensor]:
        r"""The capacities after removal of inputs, and the mass that each retained before rescaling.

        ``removed`` is a ``(N, M)`` mask. Weights that involve a removed input become zero, the others are divided by
        their sum. With ``canonical``, :math:`\min(b_{jl}, c_{jl})` of a pair with one removed member first goes to
        the kept member's ``a`` (it never was an interaction: min + max = sum), which makes the result independent of
        the way the capacity is written down. A row that keeps no mass at all comes back as NaN, retained 0.
        """

    @abstractmethod
    def reweighted(self, factors: Tensor) -> tuple[Capacity, Tensor]:
        r"""The capacities after every term is multiplied by the factors of its inputs, and their mass before rescaling.

        ``factors`` is ``(N, M)``, nonnegative. With :math:`s_j` the factor of input j,

        .. math:: a_j \to s_j a_j, \quad b_{jl} \to s_j s_l b_{jl}, \quad c_{jl} \to s_j s_l c_{jl},

        all divided by their new sum, which is returned as well. Factors of 0 remove inputs as :meth:`without` does,
        factors of 1 change nothing.
        """

    @abstractmethod
    def select(self, nodes: Sequence[int] | slice | Tensor) -> Capacity:
        """The capacities of the given nodes."""

    @abstractmethod
    def terms(self, node: int, most: int | None = None, mass: float = math.inf) -> Terms:
        """The heaviest terms of one integral, in that order: at most so many, and no more than hold the mass."""

    @abstractmethod
    def n_terms(self) -> Tensor:
        """How many terms each integral has that are not zero, ``(N,)``."""

    def attributions(self) -> Tensor:
        """Shapley values ``(N, M)`` as shares: their size over the row's sum, detached from the graph."""
        return as_shares(self.shapley().detach().abs())

    def involved_mass(self) -> Tensor:
        r"""Weight of all terms that involve input j, ``(N, M)``: :math:`2\,\mathrm{Shap}_j - a_j`."""
        return 2 * self.shapley() - self.singles()

    def local_shapley(self, u: Tensor, baseline: Tensor) -> Tensor:
        r"""Exact Shapley values ``(B, N, M)`` of the change from ``baseline`` to ``u`` (both ``(B, M)``).

        With x the baseline and y the input: :math:`\frac12 [I(x;y) - I(x;x) + I(y;y) - I(y;x)]`. They sum to
        :math:`C(y) - C(x)` over the inputs; from 0 to 1 they are the global values of :meth:`shapley`.
        """
        x, y = baseline.expand_as(u), u
        change = self.involvement(x, y).sub_(self.involvement(x, x))
        change.add_(self.involvement(y, y)).sub_(self.involvement(y, x))
        return change.mul_(0.5)

    def weights(self) -> tuple[Tensor, Tensor, Tensor]:
        """``a (N, M)``, ``b`` and ``c`` ``(N, M(M-1)/2)``, pairs in the order of ``torch.triu_indices(M, M, 1)``."""
        b, c = self.pairs(slice(None))
        j, l = pair_indices(self.shape[1], b.device)
        return self.singles(), b[..., j, l], c[..., j, l]


def as_shares(values: Tensor) -> Tensor:
    """Rows divided by their sums; rows of zeros stay."""
    total = values.sum(-1, keepdim=True)
    return values / torch.where(total == 0, 1.0, total)


def pair_indices(n_inputs: int, device: torch.device | None = None) -> Tensor:
    """The two members of each pair, ``(2, M(M-1)/2)``, in the order in which b and c are written down."""
    return torch.triu_indices(n_inputs, n_inputs, 1, device=device)


def mass_of_touched(mass: Tensor, factors: Tensor) -> Tensor:
    """The mass ``(N,)`` to divide by: exactly one where all factors ``(N, M)`` are one, so that nothing moves."""
    return torch.where((factors != 1).any(-1), mass, 1.0)
