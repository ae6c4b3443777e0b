"""Concepts in the nodes of several models, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate._util.text import counted
from choqolate.metrics import concept_count
from choqolate.plots import style
from choqolate.plots.labels import write_heading
from choqolate.plots.style import font, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FONT = 9.0  # points, see style.font
_CELL = (0.32, 0.2)  # inches
_MOST = 24  # concepts with a row of their own
_WRITTEN = 0.05  # share from which its number stands in the cell
_GAP = 0.5  # cells between the concepts and the sum of all others
_NAME = 28  # letters of a concept


def node_heatmaps(attributions: Mapping[str, np.ndarray], concepts: Sequence[str], title: str = "") -> Figure:
    """Draw the share of each concept in each node, a panel for each model, with the sum of all others below.

    The concepts shown are those with the largest shares in any node of a model, as many of each model.

    Args:
        attributions: weights ``(N, M)`` of each model; their absolute values count.
        concepts: the M names.
        title: of the figure.
    """
    import matplotlib
    import matplotlib.pyplot as plt
    from matplotlib.colors import PowerNorm

    shares = {name: node_shares(W) for name, W in attributions.items()}
    chosen = _leading(list(shares.values()))
    n_others = len(concepts) - len(chosen)
    names = [style.label(concepts[j], _NAME) for j in chosen]
    if n_others:
        names.append(style.label(f"{counted(n_others, 'other concept')}, sum"))
    beside = style.widest(names, font(_FONT)) / style.POINTS
    titles = [_title(name, own) for name, own in shares.items()]
    widths = [
        max(_CELL[0] * len(own) * scale(), style.widest(said.split("\n"), font(_FONT + 1)) / style.POINTS)
        for said, own in zip(titles, shares.values(), strict=True)
    ]
    size = (sum(widths) + beside + 0.2 * len(shares) + 1.0 * scale(), (_CELL[1] * len(names) + 1.1) * scale())
    figure, axes = plt.subplots(
        1, len(shares), figsize=size, layout="constrained", squeeze=False, sharey=True, width_ratios=widths
    )
    norm = PowerNorm(0.5, 0, 1)
    for ax, said, own in zip(axes[0], titles, shares.values(), strict=True):
        rows = own[:, chosen].T
        _draw_cells(ax, rows, 0.0, norm)
        if n_others:
            _draw_cells(ax, 1 - rows.sum(0, keepdims=True), len(chosen) + _GAP, norm)
        ax.set(xlim=(0, len(own)), ylim=(len(names) + _GAP * bool(n_others), 0))
        ax.set_xticks(np.arange(len(own)) + 0.5, [str(node) for node in range(len(own))], fontsize=font(_FONT))
        ax.set_xlabel("node", fontsize=font(_FONT))
        ax.set_title(said, loc="left", fontsize=font(_FONT + 1), parse_math=False)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
    places = np.arange(len(names)) + 0.5
    places[len(chosen) :] += _GAP
    axes[0, 0].set_yticks(places, names, fontsize=font(_FONT), parse_math=False)
    image = matplotlib.cm.ScalarMappable(norm, "Blues")
    bar = figure.colorbar(image, ax=list(axes[0]), ticks=[0, 0.05, 0.25, 0.5, 1], aspect=30, pad=0.02)
    bar.ax.set_yticklabels(["0%", "5%", "25%", "50%", "100%"], fontsize=font(_FONT - 1))
    bar.set_label("share of the node", fontsize=font(_FONT))
    bar.outline.set_visible(False)
    write_heading(figure, title)
    return figure


def _title(name: str, shares: np.ndarray) -> str:
    """The model, and how many concepts its nodes rest on; those without weights are left out."""
    counts = concept_count(shares[shares.any(axis=1)])
    typical = f"95% of a node in {counted(int(np.median(counts)), 'concept')} (median)" if len(counts) else "no weights"
    return f"{style.label(name)}\n{typical}"


def node_shares(W: np.ndarray) -> np.ndarray:
    """Shares ``(N, M)`` of the concepts in each node, by absolute weights; a node without weights has none.

    >>> node_shares(np.array([[1.0, -3.0], [0.0, 0.0]]))
    array([[0.25, 0.75],
           [0.  , 0.  ]])
    """
    sizes = np.abs(np.asarray(W, dtype=np.float64))
    totals = sizes.sum(axis=1, keepdims=True)
    shares: np.ndarray = np.divide(sizes, totals, out=np.zeros_like(sizes), where=totals > 0)
    return shares


def _leading(shares: Sequence[np.ndarray]) -> list[int]:
    """The concepts to show: the first of each model in turn; ordered by the node of the last model they are in."""
    ranks = [np.argsort(-own.max(axis=0), kind="stable").tolist() for own in shares]
    turns = [place for several in zip(*ranks, strict=True) for place in several]
    chosen = list(dict.fromkeys(turns))
    chosen = chosen[: _MOST if len(chosen) > _MOST + 1 else len(chosen)]
    last = shares[-1]
    return sorted(chosen, key=lambda j: (int(last[:, j].argmax()), -last[:, j].max()))


def _draw_cells(ax: Axes, values: np.ndarray, top: float, norm: Any) -> None:
    """Cells from a height down, with their numbers where these are large."""
    height, width = values.shape
    edges = np.arange(width + 1), top + np.arange(height + 1)
    ax.pcolormesh(*edges, values, norm=norm, cmap="Blues", edgecolors="white", linewidth=0.5 * scale())
    for (row, column), value in np.ndenumerate(values):
        if value >= _WRITTEN:
            colour = "white" if value > 0.3 else "black"
            look: dict[str, Any] = dict(ha="center", va="center", color=colour, fontsize=font(_FONT - 2))
            ax.text(column + 0.5, top + row + 0.5, f"{100 * value:.0f}", **look)
