"""Random valid integrals and inputs, for property tests."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import Tensor


@st.composite
def integrals(draw: st.DrawFn, min_inputs: int = 1, max_inputs: int = 7, n_nodes: int = 2):
    """Weights (a, b, c) in float64 of some valid integrals; some weights are exactly zero."""
    p = draw(st.integers(min_inputs, max_inputs))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    spread = draw(st.sampled_from([0.1, 1.0, 8.0]))
    sparse = draw(st.booleans())
    n_weights = p * p
    w = (spread * torch.randn(n_nodes, n_weights, generator=generator, dtype=torch.float64)).softmax(1)
    if sparse and p > 1:
        w = w * (torch.rand(n_nodes, n_weights, generator=generator, dtype=torch.float64) < 0.5)
        w[:, 0] += 1e-3
        w = w / w.sum(1, keepdim=True)
    return split(w, p)


@st.composite
def inputs_for(draw: st.DrawFn, p: int, n_rows: int = 4):
    """Rows in [0, 1]^p, some with ties."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    u = torch.rand(n_rows, p, generator=generator, dtype=torch.float64)
    return (u * 4).round() / 4 if draw(st.booleans()) else u


def split(w: Tensor, p: int) -> tuple[Tensor, Tensor, Tensor]:
    n_pairs = p * (p - 1) // 2
    return w[:, :p], w[:, p : p + n_pairs], w[:, p + n_pairs :]


def pairs_of(p: int) -> list[tuple[int, int]]:
    return [(j, l) for j in range(p) for l in range(j + 1, p)]
