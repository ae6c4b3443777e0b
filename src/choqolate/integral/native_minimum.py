"""Expected minima and their gradients by the native kernel: the same functions as in ``expected_minimum``.

Rows that come unsorted are sorted some at a time, and terms are taken some at a time, so that what the kernel lays out
for itself is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from choqolate.integral.expected_minimum import SortedInputs, fitting, slices, sorted_chunks
from choqolate.integral.native import functions_for
from choqolate.integral.tensor_cache import workspace


def minima(u: Tensor, p: Tensor, q: Tensor, inputs: SortedInputs | None) -> Tensor:
    """Expected minima ``(B, C)`` of ``u (B, M)`` under C pairs of distributions ``p``, ``q`` ``(C, M)``."""
    values, p, q = u.new_empty(len(u), len(p)), p.contiguous(), q.contiguous()
    for rows, chunk in _chunks(u, inputs):
        for terms in _groups(p):
            shape, space, threads = _prepare(chunk, p[terms])
            functions_for(u.dtype).minimum_values(
                *_pointers(chunk.order, chunk.gaps, p[terms], q[terms], values[rows, terms]), len(p), *shape,
                space.data_ptr(), threads,
            )  # fmt: skip
    return values


def gradients(
    u: Tensor, p: Tensor, q: Tensor, inputs: SortedInputs | None, g: Tensor, for_u: bool, for_weights: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of ``u``, ``p`` and ``q``, from that of the values ``g (B, C)``; empty where not asked for."""
    p, q, g, functions = p.contiguous(), q.contiguous(), g.contiguous(), functions_for(u.dtype)
    asked = (u, for_u), (p, for_weights), (q, for_weights)
    grad_u, grad_p, grad_q = (torch.zeros(x.shape if wanted else (0,), dtype=u.dtype) for x, wanted in asked)
    for rows, chunk in _chunks(u, inputs):
        for terms in _groups(p):
            shape, space, threads = _prepare(chunk, p[terms])
            weights, slope, team = _pointers(p[terms], q[terms]), g[rows, terms].data_ptr(), (space.data_ptr(), threads)
            if for_u:
                functions.minimum_input_gradient(
                    chunk.order.data_ptr(), *weights, slope, len(p), grad_u[rows].data_ptr(), *shape, *team
                )
            if for_weights:
                functions.minimum_weight_gradient(
                    *_pointers(chunk.order, chunk.gaps), *weights, slope, len(p),
                    *_pointers(grad_p[terms], grad_q[terms]), *shape, *team,
                )  # fmt: skip
    return grad_u, grad_p, grad_q


def _chunks(u: Tensor, inputs: SortedInputs | None) -> Iterator[tuple[slice, SortedInputs]]:
    """Sorted rows, contiguous: all at once if they were sorted before."""
    for rows, chunk in sorted_chunks(u, inputs, fitting(u.shape[1]) if inputs is None else len(u)):
        yield rows, SortedInputs(chunk.order.contiguous(), chunk.gaps.contiguous())


def _groups(p: Tensor) -> Iterator[slice]:
    """Terms whose weights fit the workspace."""
    n_terms, n_inputs = p.shape
    return slices(n_terms, -(-n_terms // -(-n_terms // fitting(2 * n_inputs))) if n_terms else 1)


def _pointers(*tensors: Tensor) -> list[int]:
    return [x.data_ptr() for x in tensors]


def _prepare(chunk: SortedInputs, terms: Tensor) -> tuple[tuple[int, ...], Tensor, int]:
    """Sizes, workspace (hold it until the call is over) and threads."""
    shape, threads = (*chunk.order.shape, len(terms)), torch.get_num_threads()
    space = workspace(functions_for(terms.dtype).minimum_workspace(*shape, threads), terms)
    return shape, space, threads
