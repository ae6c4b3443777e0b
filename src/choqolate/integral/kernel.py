r"""The pairwise integral without the (batch x pairs) matrix.

The ``M + 2 M(M-1)/2 = M^2`` weights of a node fill an ``M x M`` matrix ``w`` exactly: ``a`` on the diagonal, ``b``
(min) above it, ``c`` (max) below it. Since min(x, y) + max(x, y) = x + y, one feature a pair is enough,

.. math:: C(u) = \sum_j \Bigl(a_j + \sum_l c_{jl}\Bigr) u_j + \sum_{j<l} (b_{jl} - c_{jl}) \min(u_j, u_l),

and the features are made block by block, some rows j of the matrix at a time, used for one matrix product, and
forgotten; the backward pass makes them again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Feature values held at a time. On a CPU they should stay in the last-level cache; a GPU wants large launches.
_CPU_WORKSPACE = 1 << 20
_GPU_WORKSPACE = 1 << 25
_TILE = 512  # rows of the batch at a time
_MAX_BLOCK_ROWS = 32  # the lower triangle inside a block is wasted work
_PARALLEL_FROM = 1 << 20  # features in all; below this, threads cost more than they bring

T = TypeVar("T")


class _Workers:
    """A thread pool whose threads each run PyTorch operations on one core.

    The products here are too thin for PyTorch to split well; whole blocks side by side are faster than one block on all
    cores. The number of intra-operation threads of the calling program stays as it was.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._size = 0

    def map(
        self, task: Callable[[Sequence[tuple[int, int]]], T], shares: Sequence[Sequence[tuple[int, int]]]
    ) -> list[T]:
        if self._pool is None or self._size < len(shares):
            self._start(len(shares))
        assert self._pool is not None
        return list(self._pool.map(task, shares))

    def _start(self, size: int) -> None:
        threads = torch.get_num_threads()
        if self._pool is not None:
            self._pool.shutdown()
        self._pool, self._size = (
            ThreadPoolExecutor(size, "choquet", initializer=torch.set_num_threads, initargs=(1,)),
            size,
        )
        list(self._pool.map(lambda _: None, range(size)))
        torch.set_num_threads(threads)

    def forget(self) -> None:
        self._pool = None


_workers = _Workers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_workers.forget)


def blocked_integral(u: Tensor, w: Tensor) -> Tensor:
    """Values ``(B, N)`` of the integrals with weight matrices ``w (N, M, M)`` at ``u (B, M)``."""
    values: Tensor = _BlockedIntegral.apply(u, w)
    return values


class _BlockedIntegral(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(u, w)
        ut, w = u.detach().T.contiguous(), w.detach()  # other threads do not know that gradients are off

        def integrate(blocks: Sequence[tuple[int, int]]) -> tuple[Tensor, Tensor]:
            out = w.new_zeros(w.shape[0], ut.shape[1])
            linear = w.new_zeros(w.shape[:2])
            features = _Features(ut, blocks)
            for start, stop in blocks:
                pair = _moebius_block(w, start, stop, linear).flatten(1)
                for rows, feature in features.of(start, stop):
                    out[:, rows].addmm_(pair, feature)
            return out, linear

        outs, linears = zip(*_on_all_cores(integrate, ut), strict=True)
        return _total(outs).addmm_(_total(linears), ut).T

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        u, w = (saved.detach() for saved in ctx.saved_tensors)
        ut, g = u.T.contiguous(), grad.detach().T.contiguous()
        grad_u = _input_gradient(ut, w, g) if ctx.needs_input_grad[0] else None
        grad_w = _weight_gradient(ut, w, g) if ctx.needs_input_grad[1] else None
        return grad_u, grad_w


def _weight_gradient(ut: Tensor, w: Tensor, g: Tensor) -> Tensor:
    linear = g @ ut.T
    grad = torch.empty_like(w)

    def fill(blocks: Sequence[tuple[int, int]]) -> None:
        features = _Features(ut, blocks)
        for start, stop in blocks:
            size = stop - start
            lower = w.new_zeros(w.shape[0], size * (w.shape[1] - start))
            for rows, feature in features.of(start, stop):
                lower.addmm_(g[:, rows], feature.T)
            upper = lower.view(w.shape[0], size, -1)  # d min, and for the maxima: d max = d u_j + d u_l - d min
            other = (linear[:, start:stop, None] + linear[:, None, start:]).sub_(upper)
            grad[:, start:stop, stop:] = upper[:, :, size:]
            grad[:, stop:, start:stop] = other[:, :, size:].mT
            grad[:, start:stop, start:stop] = upper[:, :, :size].triu() + other[:, :, :size].tril(-1)

    _on_all_cores(fill, ut)
    return grad


def _input_gradient(ut: Tensor, w: Tensor, g: Tensor) -> Tensor:
    def collect(blocks: Sequence[tuple[int, int]]) -> Tensor:
        grad = torch.zeros_like(ut)
        linear = w.new_zeros(w.shape[:2])
        for start, stop in blocks:
            pair = _moebius_block(w, start, stop, linear).flatten(1)
            for rows in _tiles(ut.shape[1]):
                tile = ut[:, rows]
                flow = (pair.T @ g[:, rows]).view(stop - start, -1, tile.shape[1])
                signed = flow * torch.sign(tile[None, start:] - tile[start:stop, None])  # ties: half each
                grad[start:stop, rows] += (flow + signed).sum(1).mul_(0.5)
                grad[start:, rows] += (flow - signed).sum(0).mul_(0.5)
        return grad.addmm_(linear.T, g)

    return _total(_on_all_cores(collect, ut)).T


def _moebius_block(w: Tensor, start: int, stop: int, linear: Tensor) -> Tensor:
    """Rows start..stop of the upper triangle, ``(N, rows, M - start)``: a on the diagonal, b - c right of it.

    What the maxima add to the linear coefficients is added to ``linear (N, M)``.
    """
    size = stop - start
    c = w[:, start:, start:stop].mT.clone(memory_format=torch.contiguous_format)
    c[:, :, :size].triu_(1)
    linear[:, start:stop] += c.sum(2)
    linear[:, start:] += c.sum(1)
    pair = torch.sub(w[:, start:stop, start:], c, out=c)
    pair[:, :, :size].triu_()
    return pair


class _Features:
    """Minima of the inputs in a block of rows with all later inputs, written into one reused workspace."""

    def __init__(self, ut: Tensor, blocks: Sequence[tuple[int, int]]) -> None:
        self.ut = ut
        n_inputs = len(ut)
        largest = max(((stop - start) * (n_inputs - start) for start, stop in blocks), default=0)
        self.workspace = ut.new_empty(largest * min(_tile_rows(ut), ut.shape[1]))

    def of(self, start: int, stop: int) -> Any:
        """Yields the slice of the batch and the features ``(pairs, rows)``."""
        for rows in _tiles(self.ut.shape[1], _tile_rows(self.ut)):
            tile = self.ut[:, rows]
            shape = (stop - start, len(self.ut) - start, tile.shape[1])
            feature = self.workspace[: shape[0] * shape[1] * shape[2]].view(shape)
            torch.minimum(tile[start:stop, None], tile[None, start:], out=feature)
            yield rows, feature.view(-1, shape[2])


def _on_all_cores(task: Callable[[Sequence[tuple[int, int]]], T], ut: Tensor) -> list[T]:
    """The task on all blocks, dealt out to as many threads as PyTorch may use (always in the same way)."""
    blocks = _blocks(ut)
    n_workers = min(torch.get_num_threads(), len(blocks))
    if ut.is_cuda or n_workers == 1 or len(ut) ** 2 * ut.shape[1] < _PARALLEL_FROM:
        return [task(blocks)]
    return _workers.map(task, [blocks[worker::n_workers] for worker in range(n_workers)])


def _blocks(ut: Tensor) -> list[tuple[int, int]]:
    """Row ranges of the upper triangle whose features fit the workspace."""
    n_inputs, batch = ut.shape
    workspace = _GPU_WORKSPACE if ut.is_cuda else _CPU_WORKSPACE
    blocks, start = [], 0
    while start < n_inputs:
        row = (n_inputs - start) * min(batch, _tile_rows(ut))
        stop = min(n_inputs, start + max(1, min(_MAX_BLOCK_ROWS, workspace // max(row, 1))))
        blocks.append((start, stop))
        start = stop
    return blocks


def _tile_rows(ut: Tensor) -> int:
    return _TILE


def _tiles(batch: int, rows: int = _TILE) -> list[slice]:
    return [slice(start, start + rows) for start in range(0, batch, rows)]


def _total(parts: Sequence[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total.add_(part)
    return total
