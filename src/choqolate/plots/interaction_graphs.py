"""Single nodes: which concepts go together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from choqolate._util.checks import check_number
from choqolate.plots.axes_room import as_canvas, full_axes
from choqolate.plots.clouds import check_node, heading_height, write_heading
from choqolate.plots.style import (
    LEAST,
    MAIN,
    OTHER,
    SOFT,
    drawn_width,
    font,
    label,
    number,
    say,
    scale,
    shortened,
    widest,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from choqolate.explain import Interaction, ModelExplanation

_FONT, _NUMBERS = 8.0, 7.0  # points, see style.font
_BESIDE = 11.0  # points from a circle's centre to its name
_KEY = 20.0  # points kept free for what lines mean
_WRITTEN = 6  # lines with their index, the strongest
_FULL = 0.2  # index from which on lines are as wide as can be
_THIN, _WIDE = 0.6, 4.0  # points: lines
_LINES: dict[str, tuple[str, Literal["solid", "dashed"], str]] = {  # colour, dashes and meaning
    "complement": (MAIN, "solid", "takes both"),
    "substitute": (OTHER, "dashed", "either will do"),
}


def interaction_graph(explanation: ModelExplanation, node: int, ax: Axes | None = None, *, most: int = 12) -> Axes:
    """Draw the strongest pairs of concepts of a node as lines: solid where it takes both, dashed where one will do.

    The area of a circle goes with the Shapley value of the concept. The width of a line goes with the size of the
    interaction index, on the same scale for all nodes and models: from 0.2 on it grows no more, and pairs below 0.001
    are not drawn. The strongest six lines have their index beside them. With ``bipolar`` presence and absence of a
    concept are two circles, as each interacts with other concepts in its own way.

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
    known = explanation.interactions[node] if explanation.interactions else ()
    pairs = [pair for pair in known if pair.notable][:most]
    names = _walk(pairs)
    half = (len(names) + 1) // 2
    left, right = names[half:][::-1], names[:half]
    if ax is None:
        radius = max(70.0, 9.0 * len(right)) * scale()
        beside = widest(map(label, left), font(_FONT)) + widest(map(label, right), font(_FONT)) + 2 * _BESIDE * scale()
        ax = full_axes(max(2 * radius + beside, 260 * scale()), 2 * radius + _KEY * scale(), above=heading_height())
    write_heading(ax, explanation, node)
    width, height = as_canvas(ax)
    write_heading(ax, explanation, node)  # for the width that the axes have now
    if not pairs:
        say(ax, "no interactions worth drawing" if any(explanation.interactions) else "no interactions")
        return ax
    sizes = {name: abs(value) for name, value in explanation.input_attributions(node).items()}
    spots = _draw_concepts(ax, (left, right), sizes, width, height - _KEY * scale())
    _draw_pairs(ax, pairs, spots)
    _explain_lines(ax, [kind for kind in _LINES if any(pair.kind == kind for pair in pairs)], width)
    return ax


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
) -> dict[str, tuple[float, float, float]]:
    """Circles on an ellipse, evenly spaced in height so that names beside them never meet; where, and their radius."""
    size, beside = font(_FONT), _BESIDE * scale()
    longest = max(width / 2 - 40 * scale(), 0.2 * width)
    texts = [[shortened(label(name), longest, size) for name in names] for names in sides]
    margins = [widest(names, size) + beside for names in texts]
    radius = max(min(height / 2, (width - sum(margins)) / 2), 1.0)
    high = height / 2  # an ellipse, where names leave less room beside each other than there is above
    line = 2 * high / max(map(len, sides))
    size = min(size, max(LEAST, line / 1.25))
    x, y = (margins[0] + width - margins[1]) / 2, height / 2
    most = max(sizes.get(name, 0.0) for names in sides for name in names) or 1.0
    spots = {}
    for names, written, sign in zip(sides, texts, (-1, 1), strict=True):
        for place, (name, text) in enumerate(zip(names, written, strict=True)):
            up = 1 - (2 * place + 1) / len(names)
            at = x + sign * radius * math.sqrt(1 - up * up), y - high * up
            round_ = max(min(9.0 * scale(), 0.4 * line) * math.sqrt(sizes.get(name, 0.0) / most), 2.0)
            spots[name] = (*at, round_)
            ax.plot(*at, "o", markersize=2 * round_, color=SOFT, markeredgecolor="white", zorder=3)
            side = "left" if sign > 0 else "right"
            ax.text(at[0] + sign * beside, at[1], text, fontsize=size, ha=side, va="center_baseline", parse_math=False)
    return spots


def _draw_pairs(ax: Axes, pairs: Sequence[Interaction], spots: dict[str, tuple[float, float, float]]) -> None:
    """Lines, and the index of the strongest."""
    size, at = font(_NUMBERS), {name: np.array(spot[:2]) for name, spot in spots.items()}
    centre = np.mean(list(at.values()), axis=0)
    curves = [_bent(at[pair.first], at[pair.second], centre) for pair in pairs]
    taken = [(x, y, radius, radius) for x, y, radius in spots.values()]  # with half of their width and height
    for place, (pair, curve) in enumerate(zip(pairs, curves, strict=True)):
        colour, dashes, _ = _LINES[pair.kind]
        width = _THIN + (_WIDE - _THIN) * min(abs(pair.index) / _FULL, 1.0)
        ax.plot(*curve.T, color=colour, linestyle=dashes, linewidth=width * scale(), zorder=1, solid_capstyle="butt")
        if place < _WRITTEN:
            text = number(pair.index, 2)
            half = drawn_width(text, size) / 2 + 1, 0.6 * size + 1
            x, y = _free_spot(curve, taken, half, float(centre[0]))
            taken.append((x, y, *half))
            written = ax.text(x, y, text, fontsize=size, color=colour, zorder=4)
            written.set(ha="center", va="center", bbox={"facecolor": "white", "linewidth": 0, "pad": 0.8})


def _bent(start: np.ndarray, end: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Points ``(41, 2)`` of a line that is bent towards the centre, away from circles between its ends."""
    t = np.linspace(0, 1, 41)[:, None]
    inwards = 0.6 * (centre - (start + end) / 2)
    most = 0.6 * math.dist(start, end)
    pulled = (start + end) / 2 + inwards * min(1.0, most / max(math.hypot(*inwards), 1e-9))
    points: np.ndarray = (1 - t) ** 2 * start + 2 * t * (1 - t) * pulled + t**2 * end
    return points


def _free_spot(
    curve: np.ndarray, taken: Sequence[tuple[float, float, float, float]], half: tuple[float, float], centre: float
) -> tuple[float, float]:
    """Where a number has room: on the line, near its middle, or a little towards the centre; else where it has most."""
    order = sorted(range(4, len(curve) - 4), key=lambda place: abs(place - len(curve) // 2))
    inwards = np.sign(centre - curve[order, :1]) * [1.0, 0.0]
    spots = np.concatenate([curve[order] + inwards * half[0] * step for step in (0.0, 0.5, 1.0, 1.5, 2.0)])
    boxes = np.array(taken)
    away = np.abs(spots[:, None] - boxes[:, :2]) / (boxes[:, 2:] + half)  # (spots, taken, 2)
    clear = away.max(2).min(1)
    best = int((clear >= 1).argmax()) if (clear >= 1).any() else int(clear.argmax())
    x, y = spots[best].tolist()
    return x, y


def _explain_lines(ax: Axes, kinds: Sequence[str], width: float) -> None:
    """What the lines mean, in as many words as there is room for."""
    from matplotlib.lines import Line2D

    size = font(_NUMBERS)
    texts = [f"{kind}: {_LINES[kind][2]}" for kind in kinds]
    if sum(drawn_width(text, size) + 4.2 * size for text in texts) > width:
        texts = [_LINES[kind][2] for kind in kinds]
    handles = []
    for kind, text in zip(kinds, texts, strict=True):
        colour, dashes, _ = _LINES[kind]
        handles.append(Line2D([], [], color=colour, linestyle=dashes, linewidth=1.8 * scale(), label=text))
    where: dict[str, Any] = dict(loc="lower center", ncols=2, columnspacing=1.2, borderaxespad=0, borderpad=0.2)
    ax.legend(handles=handles, fontsize=size, frameon=False, **where)
