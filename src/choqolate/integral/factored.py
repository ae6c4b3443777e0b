r"""Factored capacities: interactions as products of a few distributions, linear in the number of inputs.

Let J and L be drawn independently from distributions p and q over the inputs. Then

.. math:: E[\min(u_J, u_L)] = \sum_{j,l} p_j q_l \min(u_j, u_l) = \sum_k P_k Q_k (u_{(k)} - u_{(k+1)})

is a 2-additive Choquet integral (its diagonal j = l is linear), where u is sorted in descending order, P and Q are the
running sums of p and q in that order, and u is 0 after the last. The maximum follows from min + max = sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding_bag, pad

from choqolate.integral.capacity import Capacity
from choqolate.integral.threads import on_one_core_each

_WORKSPACE = 3 << 19  # numbers in the largest buffer of a thread: 6 MB in single precision
_ROWS = 2
_RUN_LENGTH = 24  # of the runs into which a cumulative sum is cut, see _Slabs
_PARALLEL_FROM = 1 << 20  # products in all; below this, threads cost more than they bring

T = TypeVar("T")


@dataclass(frozen=True)
class FactoredCapacity(Capacity):
    r"""``N`` capacities whose pairs are products; leading axes (before ``N``) are separate stacks.

    .. math:: C(u) = m_0\, a \cdot u + \sum_{r=1}^R m_r E_r[\min(u_J, u_L)] + m'_r E_r[\max(u_J, u_L)]

    with J and L drawn from ``p[r]`` and ``q[r]``. Every distribution is nonnegative and sums to one.

    Args:
        m: ``(N, 1 + 2R)``, mixture weights :math:`(m_0, m_1 \dots m_R, m'_1 \dots m'_R)`.
        a: ``(N, M)``, the linear part.
        p, q: ``(N, R, M)``, the factors; the r-th minimum and the r-th maximum share them.

    >>> one = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[0.0, 1.0]]])  # J = 0 and L = 1: a single pair
    >>> capacity = FactoredCapacity(torch.tensor([[0.5, 0.2, 0.3]]), torch.tensor([[1.0, 0.0]]), *one)
    >>> capacity.integrate(torch.tensor([[1.0, 0.0]]))  # 0.5 * 1 + 0.2 * min + 0.3 * max
    tensor([[0.8000]])
    >>> capacity.shapley()
    tensor([[0.7500, 0.2500]])
    """

    m: Tensor
    a: Tensor
    p: Tensor
    q: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return self.a.shape[-2], self.a.shape[-1]

    def integrate(self, u: Tensor) -> Tensor:
        if self.a.ndim > 2:
            stack = zip(self.m, self.a, self.p, self.q, strict=True)
            return torch.stack([FactoredCapacity(*parts).integrate(rows) for parts, rows in zip(stack, u, strict=True)])
        return self._integrate(u, None)

    def integrate_sorted(self, u: Tensor, inputs: SortedInputs) -> Tensor:
        """:meth:`integrate` of ``u`` ``(B, M)`` with ``inputs = sort_inputs(u)`` computed before."""
        return self._integrate(u, inputs)

    def _integrate(self, u: Tensor, inputs: SortedInputs | None) -> Tensor:
        on_linear, on_min, on_max = self._mixture()
        linear = on_linear * self.a + (on_max[..., None] * (self.p + self.q)).sum(-2)
        minima = _ExpectedMin.apply(u, self.p.flatten(0, 1), self.q.flatten(0, 1), inputs)
        return u @ linear.mT + (minima.unflatten(1, on_min.shape) * (on_min - on_max)).sum(-1)

    def _mixture(self) -> tuple[Tensor, Tensor, Tensor]:
        """``m`` as the weights ``(N, 1)`` of the linear part, ``(N, R)`` of the minima and ``(N, R)`` of the maxima."""
        rank = self.p.shape[-2]
        on_linear, on_min, on_max = self.m.split([1, rank, rank], dim=-1)
        return on_linear, on_min, on_max

    def shapley(self) -> Tensor:
        on_linear, on_min, on_max = self._mixture()
        return on_linear * self.a + 0.5 * ((on_min + on_max)[..., None] * (self.p + self.q)).sum(-2)

    def singles(self) -> Tensor:
        on_linear, on_min, on_max = self._mixture()
        return on_linear * self.a + ((on_min + on_max)[..., None] * self.p * self.q).sum(-2)

    def pairs(self, rows: slice) -> tuple[Tensor, Tensor]:
        inputs = torch.arange(self.shape[1], device=self.a.device)
        same = inputs[rows, None] == inputs
        b, c = self._products(inputs[rows])
        return b.masked_fill(same, 0.0), c.masked_fill(same, 0.0)

    def _products(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """:meth:`pairs` of the inputs listed in ``rows``, the diagonal left as it comes."""
        _, on_min, on_max = self._mixture()
        left, right = torch.cat([self.p, self.q], -2)[..., rows].mT, torch.cat([self.q, self.p], -2)
        b, c = (left * torch.cat([mix, mix], -1)[..., None, :] @ right for mix in (on_min, on_max))
        return b, c

    def interaction_mass(self) -> Tensor:
        _, on_min, on_max = self._mixture()
        return ((on_min + on_max) * (1 - (self.p * self.q).sum(-1))).sum(-1)

    @torch.no_grad()
    def involvement(self, u: Tensor, v: Tensor) -> Tensor:
        n_nodes, n_inputs = self.shape
        size = 8 * max(1, self.p.shape[-2]) * (n_inputs + 1)  # numbers at work for one node and one row
        node_step = max(1, min(n_nodes, _WORKSPACE // size))
        out = u.new_empty(len(u), n_nodes, n_inputs)
        for nodes in _slices(slice(0, n_nodes), node_step):
            part = self.select(nodes)
            for rows in _slices(slice(0, len(u)), _WORKSPACE // (size * node_step)):
                out[rows, nodes] = part._involvement(u[rows], v[rows])
        return out

    def _involvement(self, u: Tensor, v: Tensor) -> Tensor:
        # sums over all l first, then the diagonal l = j is taken out; the maxima are sums less minima
        on_linear, on_min, on_max = self._mixture()
        on_both = torch.cat([on_min - on_max] * 2, -1)[..., None]
        own, other = torch.cat([self.p, self.q], -2), torch.cat([self.q, self.p], -2)
        minima = _partial_minima(other.flatten(0, 1), u, v).unflatten(0, own.shape[:2])  # (N, 2R, B, M)
        values = (minima * (on_both * own)[:, :, None]).sum(1).transpose(0, 1)
        values += torch.einsum("bl,nrl,nrj->bnj", u, other * torch.cat([on_max] * 2, -1)[..., None], own)
        product = self.p * self.q
        diagonal_min = ((on_min - on_max)[..., None] * product).sum(-2)
        diagonal_max = (on_max[..., None] * product).sum(-2)
        at_v = on_linear * self.a + (on_max[..., None] * (self.p + self.q)).sum(-2) + diagonal_min
        values += at_v * v[:, None] - 2 * diagonal_max * u[:, None]
        return values.sub_(2 * diagonal_min * torch.minimum(u, v)[:, None])

    def without(self, removed: Tensor, *, canonical: bool = False) -> tuple[FactoredCapacity, Tensor]:
        r"""See :meth:`Capacity.without`; the linear part keeps :math:`m_0 (1 - a_J)`, a term
        :math:`m_r (1 - p_J)(1 - q_J)`, where :math:`p_J` is the mass of p on the removed inputs."""
        linear = self.m[:, :1] * self.a.masked_fill(removed, 0.0)
        if canonical:
            linear = linear + self._freed(removed)
        p, q = (factor.masked_fill(removed[:, None], 0.0) for factor in (self.p, self.q))
        mass = p.sum(-1) * q.sum(-1)
        m = torch.cat([linear.sum(-1, keepdim=True), self.m[:, 1:] * torch.cat([mass, mass], -1)], -1)
        retained = m.sum(-1)
        a, p, q = _normalised(linear, ~removed), _normalised(p, ~removed[:, None]), _normalised(q, ~removed[:, None])
        return FactoredCapacity(m / retained[:, None], a, p, q), retained

    def _freed(self, removed: Tensor) -> Tensor:
        """What kept inputs get back of their pairs with removed ones, ``(N, M)``: the sum of min(b, c) over these."""
        freed = []
        for node, mask in enumerate(removed):
            alone, gain = self.select([node]), torch.zeros_like(self.a[node])
            for members in mask.nonzero().flatten().split(max(1, _WORKSPACE // (2 * len(mask)))):
                gain = gain + torch.minimum(*alone._products(members)).sum((0, 1))
            freed.append(gain)
        return torch.stack(freed).masked_fill(removed, 0.0)

    def select(self, nodes: Sequence[int] | slice) -> FactoredCapacity:
        return FactoredCapacity(self.m[nodes], self.a[nodes], self.p[nodes], self.q[nodes])

    def to(self, dtype: torch.dtype) -> FactoredCapacity:
        return FactoredCapacity(*(x.detach().to("cpu", dtype) for x in (self.m, self.a, self.p, self.q)))


def _normalised(weights: Tensor, allowed: Tensor) -> Tensor:
    """Weights divided by their sum; even over the allowed inputs where the sum is zero."""
    total = weights.sum(-1, keepdim=True)
    even = allowed.to(weights) / allowed.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(total > 0, weights / total, even)


def _partial_minima(w: Tensor, u: Tensor, v: Tensor) -> Tensor:
    r""":math:`G(v_j) = \sum_l w_l \min(v_j, u_l)` for weights ``(T, M)`` at ``u``, ``v`` ``(B, M)``: ``(T, B, M)``."""
    n_rows, n_inputs = u.shape
    order = _descending(u)
    values = u.gather(1, order)
    above = torch.searchsorted(-values, -v.contiguous())  # how many u_l are greater than v_j
    cells = (above + torch.arange(n_rows, device=u.device)[:, None] * (n_inputs + 1)).flatten()
    weights = w.index_select(1, order.flatten()).view(-1, n_rows, n_inputs)

    def up_to(x: Tensor) -> tuple[Tensor, Tensor]:
        """Sums over the inputs above v_j, and over all inputs."""
        sums = pad(x.cumsum(-1), (1, 0))
        return sums.flatten(1).index_select(1, cells).view_as(x), sums[..., -1:]

    weight_above, _ = up_to(weights)
    value_above, total = up_to(weights * values)
    return (weight_above * v).add_(total).sub_(value_above)


@dataclass(frozen=True)
class SortedInputs:
    r"""The order of inputs ``(B, M)``: all that an expected minimum needs to know of them.

    ``order`` (int32) lists the inputs of each row from the largest to the smallest; ``gaps`` is
    :math:`u_{(k)} - u_{(k+1)}` in that order, with :math:`u_{(M+1)} = 0`.

    >>> inputs = sort_inputs(torch.tensor([[0.25, 1.0], [0.5, 0.0]]))
    >>> inputs.order.tolist(), inputs[1:].gaps.tolist()
    ([[1, 0], [0, 1]], [[0.5, 0.0]])
    """

    order: Tensor
    gaps: Tensor

    def __getitem__(self, rows: slice | Tensor) -> SortedInputs:
        return SortedInputs(self.order[rows], self.gaps[rows])


def sort_inputs(u: Tensor) -> SortedInputs:
    """Sort the rows of ``u`` ``(B, M)``; worth keeping for data that is integrated more than once.

    >>> sort_inputs(torch.tensor([[0.0, 0.75, 0.5]])).gaps
    tensor([[0.2500, 0.5000, 0.0000]])
    """
    u = u.detach()
    with torch.inference_mode(False):  # other threads may not write to what inference mode creates
        order, gaps = torch.empty_like(u, dtype=torch.int32), torch.empty_like(u)

    def fill(part: slice) -> None:
        for rows in _slices(part, _WORKSPACE // (8 * max(1, u.shape[1]))):
            indices = _descending(u[rows])
            values = u[rows].gather(1, indices)
            order[rows] = indices
            gaps[rows] = values - pad(values[:, 1:], (0, 1))

    _on_all_cores(fill, u)
    return SortedInputs(order, gaps)


def _descending(u: Tensor) -> Tensor:
    """Indices ``(B, M)`` that sort each row from the largest to the smallest."""
    if u.dtype != torch.float32 or u.device.type != "cpu":
        return u.argsort(dim=1, descending=True)
    # The bits of a float order like an integer once those of negatives are flipped, and an integer that carries its
    # index along can be sorted in place, for which NumPy has vector instructions: several times as fast as argsort.
    bits = u.contiguous().view(torch.int32)
    keys = (~(bits ^ ((bits >> 31) & 0x7FFFFFFF))).long() << 32
    keys |= torch.arange(u.shape[1])
    keys.numpy().sort(axis=1)
    return keys & 0x7FFFFFFF


class _ExpectedMin(torch.autograd.Function):
    """Expected minima ``(B, C)`` of ``u`` ``(B, M)`` under C pairs of distributions ``p``, ``q`` ``(C, M)``.

    Nothing of the size of ``B * C * M`` is ever held: terms and rows are taken some at a time, and the backward pass
    computes its running sums again.
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, p: Tensor, q: Tensor, inputs: SortedInputs | None) -> Tensor:
        ctx.save_for_backward(u, p, q)
        ctx.inputs = inputs
        u, p, q = u.detach(), p.detach(), q.detach()  # other threads do not know that gradients are off
        out = u.new_empty(len(u), len(p))
        for terms in _term_chunks(p):
            table = _table(q[terms], p[terms])
            out[:, terms] = torch.cat(_on_all_cores(partial(_expected_minima, u, inputs, table), u, table.shape[1]))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        u, p, q = (saved.detach() for saved in ctx.saved_tensors)
        for_u, for_p, for_q, _ = ctx.needs_input_grad
        grad_u = torch.zeros_like(u) if for_u else None
        grad_p, grad_q = (torch.empty_like(p), torch.empty_like(q)) if for_p or for_q else (None, None)
        for terms in _term_chunks(p):
            table, g = _table(q[terms], p[terms]), grad.detach()[:, terms]
            if grad_p is not None and grad_q is not None:
                slopes = _on_all_cores(partial(_weight_gradient, u, ctx.inputs, table, g), u, table.shape[1])
                grad_p[terms], grad_q[terms] = torch.stack(slopes).sum(0).T.chunk(2)
            if grad_u is not None:
                grad_u += torch.cat(_on_all_cores(partial(_input_gradient, u, ctx.inputs, table, g), u, table.shape[1]))
        return grad_u, grad_p, grad_q, None


def _table(q: Tensor, p: Tensor) -> Tensor:
    """The terms' weights side by side, ``(M + 1, 2C)``: an input a row, and a last row of zeros."""
    return pad(torch.cat([q, p]).T, (0, 0, 0, 1)).contiguous()


@dataclass(frozen=True)
class _Slabs:
    """Sorted rows in a layout that makes running sums cheap.

    Each sorted row is cut into ``S`` runs of ``K`` inputs, filled up with the number M of the table's empty row; slab k
    holds the k-th inputs of all runs. A running sum is then K additions of whole slabs, once each run knows what the
    runs before it sum to. ``order`` and ``gaps`` are ``(K, B, S)``.
    """

    order: Tensor
    gaps: Tensor

    @classmethod
    def of(cls, inputs: SortedInputs) -> _Slabs:
        n_rows, n_inputs = inputs.order.shape
        n_runs = -(-n_inputs // _RUN_LENGTH)
        length = -(-n_inputs // n_runs)
        missing = (0, n_runs * length - n_inputs)
        padded = pad(inputs.order, missing, value=n_inputs), pad(inputs.gaps, missing)
        order, gaps = (x.view(n_rows, n_runs, length).permute(2, 0, 1).contiguous() for x in padded)
        return cls(order, gaps)

    def gather(self, table: Tensor, space: Tensor) -> Tensor:
        """Rows of ``table`` ``(M + 1, W)`` in slab order, ``(K, B, S, W)``, written into ``space``."""
        rows = space[: self.order.numel() * table.shape[1]].view(-1, table.shape[1])
        torch.index_select(table, 0, self.order.flatten(), out=rows)
        return rows.view(*self.order.shape, -1)

    def places(self, n_inputs: int) -> Tensor:
        """Where each input of each row stands among the flattened slabs, ``(M, B)``."""
        n_rows, device = self.order.shape[1], self.order.device
        index = (self.order.long() * n_rows).add_(torch.arange(n_rows, device=device)[:, None]).flatten()
        places = self.order.new_empty((n_inputs + 1) * n_rows)
        places.scatter_(0, index, torch.arange(len(index), dtype=places.dtype, device=device))
        return places.view(-1, n_rows)[:n_inputs]


def _expected_minima(u: Tensor, inputs: SortedInputs | None, table: Tensor, part: slice) -> Tensor:
    """The expected minima of the rows in ``part``, ``(rows, C)``: the sum of P_k Q_k gap_k over k."""
    n_terms = table.shape[1] // 2
    out = [u.new_empty(0, n_terms)]
    for _, slabs, space in _row_chunks(u, inputs, table, part):
        sums = _running_sums(slabs.gather(table, space))
        product = sums[..., :n_terms].mul_(sums[..., n_terms:])
        by_slab = slabs.gaps.flatten(0, 1)[:, None] @ product.flatten(0, 1)
        out.append(by_slab.view(len(sums), -1, n_terms).sum(0))
    return torch.cat(out)


def _weight_gradient(u: Tensor, inputs: SortedInputs | None, table: Tensor, grad: Tensor, part: slice) -> Tensor:
    r"""What the rows in ``part`` add to the gradients of p and q, side by side: ``(M, 2C)``.

    The derivative with respect to :math:`p_{(k)}` is :math:`\sum_{k' \ge k} Q_{k'} (u_{(k')} - u_{(k'+1)})`.
    """
    total = table.new_zeros(len(table) - 1, table.shape[1])
    for rows, slabs, space in _row_chunks(u, inputs, table, part):
        sums = _running_sums(slabs.gather(table, space), grad[rows].repeat(1, 2)[:, None])
        slopes = _sums_from_the_end(sums, slabs.gaps[..., None])
        total += _sum_rows(slopes.flatten(0, 2), slabs.places(len(total)))
    return total


def _input_gradient(u: Tensor, inputs: SortedInputs | None, table: Tensor, grad: Tensor, part: slice) -> Tensor:
    r"""The gradient of the rows of ``u`` in ``part``, ``(rows, M)``.

    The derivative with respect to :math:`u_{(k)}` is
    :math:`P_k Q_k - P_{k-1} Q_{k-1} = q_{(k)} (P_k - p_{(k)}) + p_{(k)} Q_k`, the latter without cancellation.
    """
    out = [u.new_empty(0, u.shape[1])]
    for rows, slabs, space in _row_chunks(u, inputs, table, part):
        weights = slabs.gather(table, space)
        (q, p), (q_sum, p_sum) = weights.chunk(2, -1), _running_sums(weights.clone()).chunk(2, -1)
        slopes = p_sum.sub_(p).mul_(q).addcmul_(q_sum, p) @ grad[rows, :, None]
        out.append(slopes.flatten().index_select(0, slabs.places(u.shape[1]).flatten()).view(u.shape[1], -1).T)
    return torch.cat(out)


def _running_sums(x: Tensor, scale: Tensor | None = None) -> Tensor:
    """Running sums along the sorted inputs of weights in slab order ``(K, B, S, W)``, in place.

    With ``scale`` ``(B, 1, W)``, of the scaled weights.
    """
    by_run = x.sum(0)
    if scale is not None:
        by_run *= scale
        x[0] *= scale
    x[0, :, 1:] += by_run.cumsum(1)[:, :-1]
    for before, slab in pairwise(x.unbind()):
        if scale is None:
            slab += before
        else:
            torch.addcmul(before, slab, scale, out=slab)
    return x


def _sums_from_the_end(x: Tensor, gaps: Tensor) -> Tensor:
    """For each sorted input the sum of ``x * gaps`` from there to the last, in slab order and in place."""
    slabs = x.unbind()[::-1]
    slabs[0].mul_(gaps[-1])
    for (after, slab), gap in zip(pairwise(slabs), gaps.unbind()[-2::-1], strict=True):
        torch.addcmul(after, slab, gap, out=slab)
    by_run = x[0].flip(1).cumsum(1).flip(1)
    x[:, :, :-1] += by_run[:, 1:]
    return x


def _sum_rows(table: Tensor, index: Tensor) -> Tensor:
    """Sums of the rows of ``table`` ``(., W)`` that each row of ``index`` ``(n, k)`` lists: ``(n, W)``."""
    if table.dtype == torch.float32:
        return embedding_bag(index, table, mode="sum")  # fetches rows ahead; other precisions have no fast path
    return table.index_select(0, index.T.flatten()).view(*index.T.shape, -1).sum(0)


def _row_chunks(
    u: Tensor, inputs: SortedInputs | None, table: Tensor, part: slice
) -> Iterator[tuple[slice, _Slabs, Tensor]]:
    """The rows in ``part``, some at a time: which, in slab order, and a workspace (always the same) to gather into."""
    space = table.new_empty(0)
    for rows in _slices(part, _WORKSPACE // table.numel()):
        slabs = _Slabs.of(sort_inputs(u[rows]) if inputs is None else inputs[rows])
        size = slabs.order.numel() * table.shape[1]
        if len(space) < size:  # fresh memory for every chunk would cost more in page faults than the sums themselves
            space = table.new_empty(size)
        yield rows, slabs, space


def _term_chunks(p: Tensor) -> Iterator[slice]:
    """As few equal parts of the terms ``(C, M)`` as the workspace allows for one row."""
    n_terms, n_inputs = p.shape
    n_chunks = -(-n_terms // max(1, _WORKSPACE // (_ROWS * 2 * (n_inputs + 1))))
    return _slices(slice(0, n_terms), -(-n_terms // max(1, n_chunks)))


def _slices(whole: slice, step: int) -> Iterator[slice]:
    """Consecutive parts of ``step`` numbers, or of one where the step is 0."""
    step = max(1, step)
    return (slice(start, min(start + step, whole.stop)) for start in range(whole.start, whole.stop, step))


def _on_all_cores(task: Callable[[slice], T], u: Tensor, width: int = 1) -> list[T]:
    """The task on equal parts of the rows of ``u``, one part a thread; ``width`` is the work that an input makes."""
    n_rows = len(u)
    n_workers = min(torch.get_num_threads(), n_rows)
    if u.device.type != "cpu" or n_workers <= 1 or u.numel() * width < _PARALLEL_FROM:
        return [task(slice(0, n_rows))]
    bounds = pairwise(n_rows * worker // n_workers for worker in range(n_workers + 1))
    return on_one_core_each(lambda bound: task(slice(*bound)), list(bounds))
