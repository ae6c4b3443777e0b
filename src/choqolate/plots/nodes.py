"""Single nodes: how much they read of each concept, and which concepts go together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from choqolate.plots.style import FRAME, MAIN, OTHER, SOFT, label, new_axes, plain_frame, shortened, widest
from choqolate.plots.words import as_canvas, check_node, full_axes, settled_size, write_heading
from choqolate.validation import check_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from choqolate.explain import Interaction, ModelExplanation

_FONT, _NUMBERS, _SMALLEST = 8.0, 7.0, 6.0  # points
_GREY = "#aab2bb"
_TORN = 1.6  # times the longest other bar: where the bar of all others ends
_BESIDE = 11.0  # points from a circle's centre to its name
_KEY = 20.0  # points kept free for what lines mean
_WRITTEN = 6  # pairs up to which the index stands beside the line
_LINES: dict[str, tuple[str, Literal["solid", "dashed"], str]] = {  # colour, dashes and meaning
    "complement": (MAIN, "solid", "complement: takes both"),
    "substitute": (OTHER, "dashed", "substitute: either will do"),
}


def attribution_bars(explanation: ModelExplanation, node: int, ax: Axes | None = None, *, most: int = 15) -> Axes:
    """Draw the leading concepts of a node as bars, largest on top; spurious ones are hatched.

    Weights of baselines go to both sides of zero. What is left is summed up in a grey bar, on either side; where it
    would dwarf the others it is torn off, and the number beside it says how long it is.

    Args:
        explanation: of a whole model, see :func:`choqolate.explain.explain_model`.
        node: which one.
        ax: where to draw; by default a new figure.
        most: concepts with a bar of their own.

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
    shown = ranked[: most if len(ranked) != most + 1 else most + 1]  # a bar "1 other" says less than that one's own
    rest = np.array([value for _, value in ranked[len(shown) :]])
    if ax is None:
        ax = new_axes(5.0, 0.75 + 0.2 * (len(shown) + bool(len(rest)) or 2))
    write_heading(ax, explanation, node)
    if not ranked:
        _say(ax, "nothing")
        return ax
    names = [label(name) for name, _ in shown] + [f"{len(rest):,} others"] * bool(len(rest))
    ax.set_yticks(range(len(names)), names, fontsize=_FONT, parse_math=False)
    ax.set_ylim(len(names) - 0.4, -0.6)
    signed = bool((explanation.node_attributions < 0).any())
    ax.set_xlabel("weight" if signed else "Shapley value", loc="left", fontsize=_FONT, color=SOFT)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=_NUMBERS, color=SOFT, labelcolor=SOFT)
    ax.locator_params(axis="x", nbins=5)
    plain_frame(ax, ("bottom",))
    bars = _bars(shown, rest, set(explanation.spurious))
    if any(bar.kind == "spurious" for bar in bars):
        _explain_hatches(ax)
    _draw_bars(ax, bars)
    return ax


def interaction_graph(explanation: ModelExplanation, node: int, ax: Axes | None = None, *, most: int = 12) -> Axes:
    """Draw the strongest pairs of concepts of a node as lines: solid where it takes both, dashed where one will do.

    The area of a circle goes with the Shapley value of the concept, the width of a line with the size of the
    interaction index.

    Args:
        explanation: of a whole model.
        node: which one.
        ax: where to draw, at the size it has now; by default a new figure.
        most: pairs to draw.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from choqolate.explain import Interaction, ModelExplanation
    >>> W, V = np.array([[0.7, 0.3]]), np.array([[1.0], [1.0]])
    >>> pairs = ((Interaction("sea", "lake", -0.2),),)
    >>> birds = ModelExplanation(W, V, ("sea", "lake"), ("landbird", "waterbird"), ("sea",), interactions=pairs)
    >>> [text.get_text() for text in interaction_graph(birds, 0).texts]
    ['lake', 'sea', '−0.20']
    """
    check_node(explanation, node)
    check_number("most", most, minimum=1, whole=True)
    pairs = explanation.interactions[node][:most] if explanation.interactions else ()
    names = _walk(pairs)
    half = (len(names) + 1) // 2
    left, right = names[half:][::-1], names[:half]
    if ax is None:
        radius = max(70.0, 9.0 * len(right))
        beside = widest(map(label, left), _FONT) + widest(map(label, right), _FONT) + 2 * _BESIDE
        ax = full_axes(max(2 * radius + beside, 240.0), 2 * radius + _KEY, above=18)
    write_heading(ax, explanation, node)
    width, height = as_canvas(ax)
    if not pairs:
        _say(ax, "no interactions")
        return ax
    sizes = {name: abs(value) for name, value in explanation.leading(node, len(explanation.concepts))}
    spots = _draw_concepts(ax, (left, right), sizes, width, height - _KEY)
    _draw_pairs(ax, pairs, spots)
    _explain_lines(ax, [kind for kind in _LINES if any(pair.kind == kind for pair in pairs)])
    return ax


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


def _draw_bars(ax: Axes, bars: Sequence[_Bar]) -> None:
    """Bars with their values at the end, and limits of the axes that leave room for them."""
    looks: dict[str, dict[str, Any]] = {
        "core": {"color": MAIN},
        "spurious": {"color": OTHER, "hatch": "////", "edgecolor": "white"},
        "others": {"color": _GREY},
    }
    decimals = min(max(2 - math.floor(math.log10(max(abs(bar.end) for bar in bars))), 2), 6)
    texts = [_number(bar.value, decimals) for bar in bars]
    for bar, text in zip(bars, texts, strict=True):
        ax.barh(bar.row, bar.end, 0.72, linewidth=0, **looks[bar.kind])
        if bar.end != bar.value:
            for start in (0.86, 0.91):
                x = [start * bar.end, start * bar.end + 0.02 * abs(bar.end)]
                ax.plot(x, [bar.row + 0.4, bar.row - 0.4], color="white", linewidth=1.5, solid_capstyle="butt")
        away, side = (3, "left") if bar.value > 0 else (-3, "right")
        ax.annotate(
            text,
            (bar.end, bar.row),
            (away, 0),
            textcoords="offset points",
            fontsize=_NUMBERS,
            color=SOFT,
            ha=side,
            va="center_baseline",
        )
    ax.axvline(0, color=SOFT, linewidth=0.8)
    beside = [
        widest([text for bar, text in zip(bars, texts, strict=True) if (bar.value > 0) is up], _NUMBERS) + 6
        for up in (False, True)
    ]
    low, high = min(0.0, *(bar.end for bar in bars)), max(0.0, *(bar.end for bar in bars))
    width, _ = settled_size(ax)
    per_point = (high - low) / max(width - sum(beside), width / 3)
    ax.set_xlim(low - beside[0] * per_point if low < 0 else low, high + beside[1] * per_point if high > 0 else high)


def _number(value: float, decimals: int) -> str:
    """With a true minus sign; one that would be rounded to zero says that it is not."""
    least = 10.0**-decimals
    if abs(value) < least / 2:
        return f"<{least:.{decimals}f}" if value > 0 else f">−{least:.{decimals}f}"
    return f"{value:.{decimals}f}".replace("-", "−")


def _explain_hatches(ax: Axes) -> None:
    from matplotlib.patches import Patch

    core = Patch(facecolor=MAIN, linewidth=0, label="core")
    other = Patch(facecolor=OTHER, edgecolor="white", hatch="////", linewidth=0, label="spurious")
    legend = ax.legend(
        handles=[core, other],
        loc="upper right",
        bbox_to_anchor=(1, 0),
        borderaxespad=2.2,
        ncols=2,
        fontsize=_NUMBERS,
        handlelength=1.4,
        columnspacing=1.2,
        borderpad=0,
    )
    legend.set_frame_on(False)


def _walk(pairs: Sequence[Interaction]) -> list[str]:
    """The concepts of all pairs, each beside the one it interacts with most where that is possible."""
    order: dict[str, None] = {}
    for pair in pairs:  # strongest first
        waiting = [pair.second, pair.first]
        while waiting:
            name = waiting.pop()
            if name not in order:
                order[name] = None
                met = [p.second if p.first == name else p.first for p in pairs if name in (p.first, p.second)]
                waiting += [other for other in reversed(met) if other not in order]
    return list(order)


def _draw_concepts(
    ax: Axes, sides: tuple[Sequence[str], Sequence[str]], sizes: dict[str, float], width: float, height: float
) -> dict[str, tuple[float, float]]:
    """Circles on a circle, evenly spaced in height so that names beside them never meet; where each stands."""
    longest = max(width / 2 - 40, 30.0)
    texts = [[shortened(label(name), longest, _FONT) for name in names] for names in sides]
    margins = [widest(names, _FONT) + _BESIDE for names in texts]
    radius = max(min(height / 2, (width - sum(margins)) / 2), 1.0)
    line = 2 * radius / max(map(len, sides))
    font = min(_FONT, max(_SMALLEST, line / 1.25))
    x, y = (margins[0] + width - margins[1]) / 2, height / 2
    most = max(sizes.get(name, 0.0) for names in sides for name in names) or 1.0
    spots = {}
    for names, written, sign in zip(sides, texts, (-1, 1), strict=True):
        for place, (name, text) in enumerate(zip(names, written, strict=True)):
            up = 1 - (2 * place + 1) / len(names)
            spots[name] = x + sign * radius * math.sqrt(1 - up * up), y - radius * up
            across = 2 * max(min(9.0, 0.45 * line) * math.sqrt(sizes.get(name, 0.0) / most), 2.0)
            ax.plot(*spots[name], "o", markersize=across, color=SOFT, markeredgecolor="white", zorder=3)
            at, side = spots[name][0] + sign * _BESIDE, "left" if sign > 0 else "right"
            ax.text(at, spots[name][1], text, fontsize=font, ha=side, va="center_baseline", parse_math=False)
    return spots


def _draw_pairs(ax: Axes, pairs: Sequence[Interaction], spots: dict[str, tuple[float, float]]) -> None:
    """Lines, and the index of each where they are few."""
    largest = max(abs(pair.index) for pair in pairs)
    taken = list(spots.values())
    for pair in pairs:
        curve = _bent(np.array(spots[pair.first]), np.array(spots[pair.second]), np.mean(taken[: len(spots)], axis=0))
        colour, dashes, _ = _LINES[pair.kind]
        width = 0.6 + 3.4 * abs(pair.index) / largest
        ax.plot(*curve.T, color=colour, linestyle=dashes, linewidth=width, zorder=1, solid_capstyle="butt")
        if len(pairs) <= _WRITTEN:
            taken.append(_free_spot(curve, taken))
            text = ax.text(*taken[-1], _number(pair.index, 2), fontsize=_NUMBERS, color=colour, zorder=2)
            text.set(ha="center", va="center", bbox={"facecolor": "white", "linewidth": 0, "pad": 0.8})


def _bent(start: np.ndarray, end: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Points ``(41, 2)`` of a line that is bent towards the centre, away from circles between its ends."""
    t = np.linspace(0, 1, 41)[:, None]
    inwards = 0.4 * (centre - (start + end) / 2)
    most = 0.3 * math.dist(start, end)
    pulled = (start + end) / 2 + inwards * min(1.0, most / max(math.hypot(*inwards), 1e-9))
    points: np.ndarray = (1 - t) ** 2 * start + 2 * t * (1 - t) * pulled + t**2 * end
    return points


def _free_spot(curve: np.ndarray, taken: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """A point of the line, near its middle, where neither a number nor a circle stands."""
    spots = [(float(x), float(y)) for x, y in curve[[20, 17, 23, 14, 26, 11, 29]]]
    free = (spot for spot in spots if all(abs(spot[0] - x) > 28 or abs(spot[1] - y) > 12 for x, y in taken))
    return next(free, spots[0])


def _explain_lines(ax: Axes, kinds: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = []
    for kind in kinds:
        colour, dashes, meaning = _LINES[kind]
        handles.append(Line2D([], [], color=colour, linestyle=dashes, linewidth=1.8, label=meaning))
    ax.legend(handles=handles, loc="lower center", ncols=2, fontsize=_NUMBERS, frameon=False, borderaxespad=0)


def _say(ax: Axes, text: str) -> None:
    """Grey words in empty axes."""
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=FRAME)
    ax.text(0.5, 0.5, text, transform=ax.transAxes, color=SOFT, fontsize=9, ha="center", va="center")
