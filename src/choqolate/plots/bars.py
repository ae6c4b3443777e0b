"""Single nodes: how much they read of each concept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from choqolate._util.checks import check_number
from choqolate._util.numbers import decimals_for
from choqolate.plots.axes_room import area_size, make_room
from choqolate.plots.clouds import check_node, write_heading
from choqolate.plots.style import (
    HINTED,
    MAIN,
    OTHER,
    SOFT,
    font,
    label,
    new_axes,
    number,
    plain_frame,
    say,
    shortened,
    size_in_points,
    widest,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from choqolate.explain import ModelExplanation

_FONT, _NUMBERS = 8.0, 7.0  # points, see style.font
_GREY = "#aab2bb"
_TORN = 1.6  # times the longest other bar: where the bar of all others ends
_WORTH = 0.01  # of the longest bar: what is shorter has none of its own
_NAMES = 0.45  # share of given axes that names may take
_PAD = 3.0  # points between names and bars
_HATCH = "////"


def attribution_bars(explanation: ModelExplanation, node: int, ax: Axes | None = None, *, most: int = 15) -> Axes:
    """Draw the leading concepts of a node as bars, largest on top; spurious ones are hatched.

    A concept has one bar; with ``bipolar`` it is called "not sea" where absence has the greater part of it.
    Weights of baselines go to both sides of zero; bars below zero are hollow. What is left is summed up in a grey bar,
    on either side, and so are bars of less than one per cent of the largest. Where it would dwarf the others it is torn
    off, and the number beside it says how long it is.

    Args:
        explanation: of a whole model, see :func:`choqolate.explain.explain_model`.
        node: which one.
        ax: where to draw; by default a new figure.
        most: concepts with a bar of their own, at most; low axes have room for fewer.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from choqolate.explain import ModelExplanation
    >>> W, V = np.array([[0.2, 0.5, 0.1, 0.2]]), np.array([[1.0], [1.0]])
    >>> birds = ModelExplanation(W, V, ("sea", "lake", "crest", "bill"), ("landbird", "waterbird"), ("lake",))
    >>> [name.get_text() for name in attribution_bars(birds, 0, most=2).get_yticklabels()]
    ['lake', 'sea', '2 others']
    """
    check_node(explanation, node)
    check_number("most", most, minimum=1, whole=True)
    ranked = explanation.leading(node, len(explanation.concepts))
    size, longest = font(_FONT), math.inf
    if ax is not None:
        width, height = area_size(ax)
        longest = _NAMES * width
        most = min(most, max(int((height - 5 * size) / (1.2 * size)) - 1, 1))
    shown, rest = _parted(ranked, most)
    if ax is None:
        ax = new_axes(5.0, 0.75 + 0.2 * (len(shown) + bool(len(rest)) or 2))
    write_heading(ax, explanation, node)
    if not ranked:
        say(ax, "nothing")
        return ax
    names = [shortened(label(name), longest, size) for name, _ in shown]
    names += [f"{len(rest):,} others"] * bool(len(rest))
    ax.set_yticks(range(len(names)), names, fontsize=size, parse_math=False)
    ax.set_ylim(len(names) - 0.4, -0.6)
    signed = bool((explanation.node_attributions < 0).any())
    ax.set_xlabel("weight" if signed else "Shapley value", loc="left", fontsize=size, color=SOFT)
    ax.tick_params(axis="y", length=0, pad=_PAD)
    ax.tick_params(axis="x", labelsize=font(_NUMBERS), color=SOFT, labelcolor=SOFT)
    plain_frame(ax, ("bottom",))
    bars = _bars(shown, rest, explanation.names_of(explanation.spurious, node))
    if any(bar.kind == "spurious" for bar in bars):
        _explain_hatches(ax)
    make_room(ax)
    write_heading(ax, explanation, node, left=widest(names, size) / HINTED + _PAD)
    _draw_bars(ax, bars)
    return ax


def _parted(ranked: Sequence[tuple[str, float]], most: int) -> tuple[Sequence[tuple[str, float]], np.ndarray]:
    """Concepts with a bar of their own, and the values of the others."""
    worth = sum(abs(value) >= _WORTH * abs(ranked[0][1]) for _, value in ranked)
    count = min(worth, most)
    if len(ranked) == count + 1:
        count += 1  # a bar "1 other" says less than that one's own
    return ranked[:count], np.array([value for _, value in ranked[count:]])


class _Bar(NamedTuple):
    row: int
    end: float
    value: float  # beyond the end where the bar is torn off
    kind: str


def _bars(shown: Sequence[tuple[str, float]], rest: np.ndarray, spurious: set[str]) -> list[_Bar]:
    bars = [
        _Bar(row, value, value, "spurious" if name in spurious else "core") for row, (name, value) in enumerate(shown)
    ]
    longest = _TORN * max(abs(value) for _, value in shown)
    sums = float(rest[rest > 0].sum()), float(rest[rest < 0].sum())
    bars += [_Bar(len(shown), min(max(total, -longest), longest), total, "others") for total in sums if total]
    return bars


def _look(bar: _Bar) -> dict[str, Any]:
    """Full above zero, hollow below, hatched if spurious."""
    colour = {"core": MAIN, "spurious": OTHER, "others": _GREY}[bar.kind]
    hatch = _HATCH if bar.kind == "spurious" else None
    if bar.value < 0:
        return {"facecolor": "white", "edgecolor": colour, "linewidth": 1.0, "hatch": hatch}
    return {"facecolor": colour, "edgecolor": "white" if hatch else colour, "linewidth": 0, "hatch": hatch}


def _draw_bars(ax: Axes, bars: Sequence[_Bar]) -> None:
    """Bars with their values at the end, and limits of the axes that leave room for them."""
    size = font(_NUMBERS)
    decimals = decimals_for(max(abs(bar.end) for bar in bars), 3, least=2, most=6)
    texts = [number(bar.value, decimals) for bar in bars]
    for bar, text in zip(bars, texts, strict=True):
        ax.barh(bar.row, bar.end, 0.72, **_look(bar))
        if bar.end != bar.value:
            for start in (0.86, 0.91):
                x = [start * bar.end, start * bar.end + 0.02 * abs(bar.end)]
                ax.plot(x, [bar.row + 0.4, bar.row - 0.4], color="white", linewidth=1.5, solid_capstyle="butt")
        away, side = (3, "left") if bar.value > 0 else (-3, "right")
        place: dict[str, Any] = dict(xytext=(away, 0), textcoords="offset points", ha=side, va="center_baseline")
        ax.annotate(text, (bar.end, bar.row), fontsize=size, color=SOFT, **place).set_in_layout(False)
    ax.axvline(0, color=SOFT, linewidth=0.8)
    beside = [
        widest([text for bar, text in zip(bars, texts, strict=True) if (bar.value > 0) is up], size) + 6
        for up in (False, True)
    ]
    low, high = min(0.0, *(bar.end for bar in bars)), max(0.0, *(bar.end for bar in bars))
    width, _ = size_in_points(ax)
    per_point = (high - low) / max(width - (low < 0) * beside[0] - (high > 0) * beside[1], width / 4)
    ax.set_xlim(low - beside[0] * per_point if low < 0 else low, high + beside[1] * per_point if high > 0 else high)
    ax.locator_params(axis="x", nbins=max(min(int(width / (5 * size)), 5), 1))


def _explain_hatches(ax: Axes) -> None:
    from matplotlib.patches import Patch

    size = font(_NUMBERS)
    other = Patch(facecolor=OTHER, edgecolor="white", hatch=_HATCH, linewidth=0, label="spurious")
    # In the line of the axis' name, below the ticks.
    where: dict[str, Any] = dict(loc="upper right", bbox_to_anchor=(1, 0), borderaxespad=(size + 11) / size)
    legend = ax.legend(handles=[other], fontsize=size, handlelength=1.4, borderpad=0, **where)
    legend.set_frame_on(False)
