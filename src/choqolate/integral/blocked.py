r"""The pairwise integral in PyTorch, without the (batch x pairs) matrix: what serves where the native kernel does not.

The ``M + 2 M(M-1)/2 = M^2`` weights of a node fill an ``M x M`` matrix ``w`` exactly: ``a`` on the diagonal, ``b``
(min) above it, ``c`` (max) below it. Since min(x, y) + max(x, y) = x + y, one feature per pair is enough,

.. math:: C(u) = \sum_j \Bigl(a_j + \sum_l c_{jl}\Bigr) u_j + \sum_{j<l} (b_{jl} - c_{jl}) \min(u_j, u_l),

and the features are made block by block, some rows j of the matrix at a time, used for one matrix product, and
forgotten; the backward pass makes them again.

The batch is cut into tiles: with few nodes a matrix product is too thin to be split among threads, but the products
of several tiles can run side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from choqolate.integral.tensor_cache import kept, workspace

# Features held at a time: a CPU's should stay in its cache, a GPU wants large launches.
_CPU_WORKSPACE = 1 << 20
_GPU_WORKSPACE = 1 << 26
_MOST_ROWS = 48  # of a block
_GROUP_WEIGHTS = 1 << 19  # weights prepared at a time
_CHUNK = 512  # rows of the batch at a time


class _Block(NamedTuple):
    """Rows start..stop of the matrix, from column start on: the lower triangle inside is wasted work."""

    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start

    def part(self, matrix: Tensor, block: _Block) -> Tensor:
        """A smaller block of a matrix ``(N, rows, M - start)`` of this one."""
        return matrix[:, block.start - self.start : block.stop - self.start, block.start - self.start :]


def integrate(u: Tensor, w: Tensor) -> Tensor:
    """Values ``(B, N)`` of the integrals with weight matrices ``w (N, M, M)`` at ``u (B, M)``."""
    chunks = _chunks(u)
    features = _Features(chunks[0])
    linear = w.new_zeros(w.shape[:2])
    outs = [w.new_zeros(len(chunk), len(w), chunk.shape[2]) for chunk in chunks]
    for group, blocks in _groups(features.blocks, w):
        pairs = _moebius_block(w, group, linear)
        for block in blocks:
            part = group.part(pairs, block).flatten(1)
            for chunk, out in zip(chunks, outs, strict=True):
                out.baddbmm_(part.expand(chunk.shape[0], -1, -1), features.of(chunk, block))
    for chunk, out in zip(chunks, outs, strict=True):
        out.baddbmm_(linear.expand(len(chunk), -1, -1), chunk)
    return _from_tiles(outs, len(u))


def weight_gradient(u: Tensor, w: Tensor, g: Tensor, mean: Tensor | None = None) -> Tensor:
    """Gradient ``(N, M, M)`` of the weights; with the mean ``(N,)`` of it, of the parameters whose softmax they are."""
    chunks, g_chunks = _chunks(u), _chunks(g)
    features = _Features(chunks[0])
    linear, grad = g.T @ u, torch.empty_like(w)
    if mean is not None:
        linear -= mean[:, None]
    for group, blocks in _groups(features.blocks, w):
        size, (inside, right) = group.rows, (slice(group.start, group.stop), slice(group.stop, None))
        low = w.new_empty(len(w), size, w.shape[1] - group.start)  # d min; what is left of the blocks is not read
        for block in blocks:
            slopes = _total(
                [torch.bmm(gs, features.of(us, block).mT).sum(0) for us, gs in zip(chunks, g_chunks, strict=True)]
            )
            group.part(low, block).copy_(slopes.unflatten(1, (block.rows, -1)))
        if mean is not None:
            low -= mean[:, None, None]
        high = (linear[:, inside, None] + linear[:, None, group.start :]).sub_(low)  # d max = d u_j + d u_l - d min
        for rows, columns, part in (
            (inside, inside, torch.where(_upper_triangle(size, w.device), low[:, :, :size], high[:, :, :size].mT)),
            (inside, right, low[:, :, size:]),
            (right, inside, high[:, :, size:].mT),
        ):
            if not part.numel():
                continue
            if mean is None:
                grad[:, rows, columns] = part
            else:
                torch.mul(part, w[:, rows, columns], out=grad[:, rows, columns])
    return grad


def input_gradient(u: Tensor, w: Tensor, g: Tensor) -> Tensor:
    """Gradient ``(B, M)`` of the inputs, from that of the values ``g (B, N)``; a tie counts half for each member."""
    chunks, g_chunks = _chunks(u), _chunks(g)
    linear = w.new_zeros(w.shape[:2])
    grads = [torch.zeros_like(chunk) for chunk in chunks]
    for block in _blocks(chunks[0]):
        start, stop = block
        pairs = _moebius_block(w, block, linear).flatten(1)
        for chunk, g_chunk, grad in zip(chunks, g_chunks, grads, strict=True):
            flow = (pairs.T @ g_chunk).unflatten(1, (block.rows, -1))
            signed = flow * torch.sign(chunk[:, None, start:] - chunk[:, start:stop, None])  # ties: half each
            grad[:, start:stop] += (flow + signed).sum(2).mul_(0.5)
            grad[:, start:] += (flow - signed).sum(1).mul_(0.5)
    return _from_tiles(grads, len(u)).addmm(g, linear)


def _moebius_block(w: Tensor, block: _Block, linear: Tensor) -> Tensor:
    """A block of ``w`` as ``(N, rows, M - start)``: a on the diagonal, b - c right of it, zero left of it.

    What the maxima add to the linear coefficients is added to ``linear (N, M)``.
    """
    start, stop = block
    c = w[:, start:, start:stop].mT.clone(memory_format=torch.contiguous_format)
    c[:, :, : block.rows].triu_(1)
    linear[:, start:stop] += c.sum(2)
    linear[:, start:] += c.sum(1)
    pairs = torch.sub(w[:, start:stop, start:], c, out=c)
    pairs[:, :, : block.rows].triu_()
    return pairs


@kept(maxsize=128)
def _upper_triangle(size: int, device: torch.device) -> Tensor:
    return torch.ones(size, size, dtype=torch.bool, device=device).triu()


class _Features:
    """Minima of the inputs in a block with all later inputs, in one reused workspace."""

    def __init__(self, chunk: Tensor) -> None:
        self.blocks = _blocks(chunk)
        n_tiles, n_inputs, tile = chunk.shape
        largest = max(block.rows * (n_inputs - block.start) for block in self.blocks)
        self.workspace = workspace(n_tiles * largest * tile, chunk)

    def of(self, chunk: Tensor, block: _Block) -> Tensor:
        """``(tiles, rows * columns, tile)``, valid until the next call."""
        (n_tiles, n_inputs, tile), (start, stop) = chunk.shape, block
        rows, columns = stop - start, n_inputs - start
        features = self.workspace[: n_tiles * rows * columns * tile].view(n_tiles, rows, columns, tile)
        torch.minimum(chunk[:, start:stop, None], chunk[:, None, start:], out=features)
        return features.view(n_tiles, rows * columns, tile)


def _blocks(chunk: Tensor) -> list[_Block]:
    """Blocks whose features fit the workspace."""
    n_inputs, n_rows = chunk.shape[1], chunk.shape[0] * chunk.shape[2]
    room = (_GPU_WORKSPACE if chunk.is_cuda else _CPU_WORKSPACE) // max(1, n_rows)
    blocks, start = [], 0
    while start < n_inputs:
        rows = max(1, min(_MOST_ROWS, room // (n_inputs - start), n_inputs - start))
        blocks.append(_Block(start, start + rows))
        start += rows
    return blocks


def _groups(blocks: Sequence[_Block], w: Tensor) -> list[tuple[_Block, list[_Block]]]:
    """Neighbouring blocks whose weights are prepared at once, as few operations as the cache allows."""
    groups: list[tuple[_Block, list[_Block]]] = []
    for block in blocks:
        if groups:
            first = groups[-1][0].start
            if len(w) * (block.stop - first) * (w.shape[1] - first) <= _GROUP_WEIGHTS:
                groups[-1] = (_Block(first, block.stop), [*groups[-1][1], block])
                continue
        groups.append((block, [block]))
    return groups


def _chunks(x: Tensor) -> list[Tensor]:
    """Rows of ``x (B, K)`` in chunks of tiles, each ``(tiles, K, tile)``; the last tile is filled up with zeros."""
    n_rows = max(1, len(x))
    tile = n_rows if x.is_cuda else max(64, -(-min(n_rows, _CHUNK) // (2 * torch.get_num_threads())))
    tile = min(tile, n_rows)
    if len(x) % tile:
        x = torch.nn.functional.pad(x, (0, 0, 0, -len(x) % tile))
    tiles = x.reshape(len(x) // tile, tile, x.shape[1]).mT.contiguous()
    return list(tiles.split(max(1, _CHUNK // tile)))


def _total(parts: Sequence[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


def _from_tiles(chunks: Sequence[Tensor], n_rows: int) -> Tensor:
    """The inverse of :func:`_chunks`: ``(B, K)``, in memory of its own, as the output of an operator has to be."""
    return torch.cat(list(chunks)).mT.flatten(0, 1)[:n_rows].clone(memory_format=torch.contiguous_format)
