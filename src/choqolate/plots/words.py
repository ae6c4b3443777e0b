"""Word clouds: what each node reads, the larger the more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING

from choqolate.errors import ChoqolateError
from choqolate.plots.layout import place_words
from choqolate.plots.style import FRAME, MAIN, OTHER, POINTS, SOFT, colour_of, ink, label, size_in_points, text_size
from choqolate.validation import check_choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from choqolate.explain import ModelExplanation

_CELL = (194.0, 126.0)  # points of a cloud in a new figure
_EDGE = 4.0  # points between axes and the edge of a new figure
_HEADING, _KEY = 15.0, 15.0  # points kept free above a cloud and below all of them
_MARGIN = 3.0  # points between a cloud and its frame, and half of those between two clouds
_TALLEST = 0.45  # share of a cloud's height that one word may take


def word_cloud(
    explanation: ModelExplanation, node: int, ax: Axes | None = None, *, colour: str = "node", most: int = 40
) -> Axes:
    """Draw what a node reads as a word cloud: the area of a word goes with its Shapley value.

    Of baselines the size of the weights counts, and words with a weight below zero begin with a minus sign. Words are
    left out as :func:`choqolate.plots.layout.place_words` says.

    Args:
        explanation: of a whole model, see :func:`choqolate.explain.explain_model`.
        node: which one.
        ax: where to draw; by default a new figure. Words are placed for the size that the axes have now: resize the
            figure before, not after.
        colour: ``"node"`` gives all words the colour of the node; with ``"kind"`` core concepts are blue, spurious
            ones orange and underlined.
        most: how many words at most.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from choqolate.explain import ModelExplanation
    >>> import numpy as np
    >>> W, V = np.array([[0.7, 0.3, 0.0]]), np.array([[1.0], [1.0]])
    >>> birds = ModelExplanation(W, V, ("sea", "lake", "crest"), ("landbird", "waterbird"), ("sea",))
    >>> [text.get_text() for text in word_cloud(birds, 0).texts]
    ['sea', 'lake']
    """
    check_choice("colour", colour, ("node", "kind"))
    check_node(explanation, node)
    if ax is None:
        ax = full_axes(*_CELL, above=_HEADING)
    key = _KEY if colour == "kind" and explanation.spurious else 0.0
    _draw_cloud(ax, explanation, node, colour, most, key)
    if key:
        _draw_key(ax)
    return ax


def word_clouds(
    explanation: ModelExplanation,
    ax: Axes | None = None,
    *,
    nodes: Sequence[int] | None = None,
    colour: str = "node",
    most: int = 40,
    title: str | None = None,
) -> Axes:
    """Draw the word clouds of all nodes side by side, inside one axes, so that two models can stand beside each other.

    Args:
        explanation: of a whole model.
        ax: where to draw, as in :func:`word_cloud`; by default a new figure, the larger the more nodes there are.
        nodes: which ones; all by default.
        colour, most: as in :func:`word_cloud`.
        title: above all of them.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from choqolate.explain import ModelExplanation
    >>> import numpy as np
    >>> W, V = np.array([[0.7, 0.3, 0.0], [0.0, 0.0, 1.0]]), np.array([[0.2, 0.8], [0.6, 0.4]])
    >>> birds = ModelExplanation(W, V, ("sea", "lake", "crest"), ("landbird", "waterbird"), ("sea", "crest"))
    >>> [[text.get_text() for text in cloud.texts] for cloud in word_clouds(birds).child_axes]
    [['sea', 'lake'], ['crest']]
    """
    check_choice("colour", colour, ("node", "kind"))
    chosen = list(range(len(explanation.nodes)) if nodes is None else nodes)
    if not chosen:
        raise ChoqolateError("expected at least one node to draw, got none")
    for node in chosen:
        check_node(explanation, node)
    if ax is None:
        columns = min(len(chosen), max(4, math.ceil(math.sqrt(len(chosen)))))
        rows = math.ceil(len(chosen) / columns)
        across, down = math.ceil(len(chosen) / rows) * _CELL[0], rows * _CELL[1]
        ax = full_axes(across, down, above=0.0 if title is None else 22.0)
    if title is not None:
        ax.set_title(label(title, 80), fontsize=11, parse_math=False)
    key = _KEY if colour == "kind" and explanation.spurious else 0.0
    width, height = as_canvas(ax)
    columns = _columns(len(chosen), width, height - key)
    rows = math.ceil(len(chosen) / columns)
    across, down = width / columns, (height - key) / rows
    for place, node in enumerate(chosen):
        row, column = divmod(place, columns)
        left, bottom = column * across + _MARGIN, height - (row + 1) * down + _MARGIN
        size = (across - 2 * _MARGIN, down - _HEADING - _MARGIN)
        if min(size) <= 0:
            raise ChoqolateError(
                f"expected room for {len(chosen)} clouds, the axes have {width:.0f} × {height:.0f} points: "
                "choose fewer nodes or make the figure larger"
            )
        cloud = ax.inset_axes((left / width, bottom / height, size[0] / width, size[1] / height))
        _draw_cloud(cloud, explanation, node, colour, most)
    if key:
        _draw_key(ax)
    return ax


def check_node(explanation: ModelExplanation, node: object) -> None:
    """The number of a node of this model."""
    count = len(explanation.nodes)
    if not isinstance(node, Integral) or isinstance(node, bool) or not 0 <= int(node) < count:
        raise ChoqolateError(f"expected a node from 0 to {count - 1}, got {node!r}")


def full_axes(width: float, height: float, above: float = 0.0) -> Axes:
    """Axes of so many points in a figure of their own, with a small margin and some room ``above``, that stay put."""
    import matplotlib.pyplot as plt

    wide, tall = width + 2 * _EDGE, height + above + 2 * _EDGE
    _, ax = plt.subplots(figsize=(wide / POINTS, tall / POINTS))
    ax.set_position((_EDGE / wide, _EDGE / tall, width / wide, height / tall))
    return ax


def write_heading(ax: Axes, explanation: ModelExplanation, node: int) -> None:
    """What a picture of a node is called; with one layer the nodes are the classes."""
    text = label(explanation.nodes[node]) if explanation.one_layer else f"node {node}"
    ax.set_title(text, loc="left", fontsize=8, color=SOFT, pad=3, parse_math=False)


def as_canvas(ax: Axes) -> tuple[float, float]:
    """Make points the unit of empty axes, from the top left corner, y going down; their width and height in points."""
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    width, height = settled_size(ax)
    ax.set(xlim=(0, width), ylim=(height, 0))
    return width, height


def settled_size(ax: Axes) -> tuple[float, float]:
    """Width and height of the axes in points, after the figure's layout, if it has one, moved them."""
    figure = ax.figure.canvas.figure
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
    return size_in_points(ax)


def _draw_cloud(ax: Axes, explanation: ModelExplanation, node: int, colour: str, most: int, key: float = 0.0) -> None:
    """One cloud with its heading and its frame; ``key`` points below it stay free."""
    write_heading(ax, explanation, node)
    width, height = as_canvas(ax)
    ax.spines[:].set(visible=True, color=FRAME, linewidth=0.8)
    room = max(width - 2 * _MARGIN, 1.0), max(height - key - 2 * _MARGIN, 1.0)
    ranked = explanation.leading(node, most)
    words = [(f"−{name}" if value < 0 else name, value) for name, value in ranked]
    placed = place_words(words, *room, largest=max(_TALLEST * room[1], 8.0), most=most)
    if not ranked:
        _write(ax, "nothing", width / 2, (height - key) / 2, 9.0, SOFT)
    spurious = set(explanation.spurious) if colour == "kind" else set()
    for word in placed:
        other = ranked[word.index][0] in spurious
        shade = ink(colour_of(node) if colour == "node" else (OTHER if other else MAIN))
        _write(ax, word.text, word.x + _MARGIN, word.y + _MARGIN, word.size, shade, underlined=other)


def _draw_key(ax: Axes) -> None:
    """What the colours of concepts mean, in the last line of the axes."""
    width, height = size_in_points(ax)
    size, gap = 8.0, 14.0
    core, other = text_size("core", size)[0], text_size("spurious", size)[0]
    start = (width - core - gap - other) / 2
    _write(ax, "core", start + core / 2, height - _KEY / 2, size, ink(MAIN))
    _write(ax, "spurious", start + core + gap + other / 2, height - _KEY / 2, size, ink(OTHER), underlined=True)


def _write(ax: Axes, text: str, x: float, y: float, size: float, colour: str, underlined: bool = False) -> None:
    """A word around a point. Spurious ones are underlined, not slanted: slanted fonts lack more letters."""
    ax.text(x, y, text, fontsize=size, color=colour, ha="center", va="center", parse_math=False)
    if underlined:
        width, height = text_size(text, size)
        below = y + height / 2 - 0.1 * size
        line = max(0.05 * size, 0.5)
        ax.plot([x - width / 2, x + width / 2], [below, below], color=colour, linewidth=line, solid_capstyle="butt")


def _columns(count: int, width: float, height: float) -> int:
    """How many clouds side by side: cells about as wide for their height as in a new figure, few of them empty."""
    wanted = _CELL[0] / _CELL[1]

    def misfit(columns: int) -> float:
        rows = math.ceil(count / columns)
        shape = (width / columns) / (height / rows)
        return abs(math.log(shape / wanted)) + 0.5 * (rows * columns - count) / count

    return min(range(1, count + 1), key=misfit)
