"""Word clouds: what each node reads, the larger the more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING

from choqolate._util.checks import check_choice
from choqolate.errors import ChoqolateError
from choqolate.plots.axes_room import as_canvas, full_axes
from choqolate.plots.cloud_layout import place_words
from choqolate.plots.labels import LINE, TITLE_PAD, write_title
from choqolate.plots.style import FRAME, MAIN, OTHER, SOFT, colour_of, font, ink, scale, size_in_points, text_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from choqolate.explain import ModelChange, ModelExplanation

_CELL = (194.0, 126.0)  # points of a cloud in a new figure
_HEADING, _KEY = 8.0, 8.0  # points: letters above a cloud and below all of them
_MARGIN = 3.0  # points between a cloud and its frame, and half of those between two clouds
_TITLE = 11.0
_NARROW = 360.0  # points of axes below which before and after stand above each other
_SHORT = 90.0  # points below which a heading has no room for the word "node"
_TALLEST = 0.45  # share of a cloud's height that one word may take


def word_cloud(
    explanation: ModelExplanation, node: int, ax: Axes | None = None, *, colour: str = "node", most: int = 40
) -> Axes:
    """Draw what a node reads as a word cloud: the area of a word goes with its Shapley value.

    A concept is one word; with ``bipolar`` it is "not sea" where absence has the greater part of its Shapley value.
    Of baselines the size of the weights counts, and words with a weight below zero begin with a minus sign. Words are
    left out as :func:`choqolate.plots.cloud_layout.place_words` says.

    Args:
        explanation: of a whole model, see :func:`choqolate.explain.explain_model`.
        node: which one.
        ax: where to draw; by default a new figure. Words are placed for the size that the axes have now: resize the
            figure before, not after.
        colour: ``"node"`` gives all words the colour of the node; with ``"kind"`` concepts that are marked as spurious
            are orange and underlined, all others blue.
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
    _check_colour(explanation, colour)
    check_node(explanation, node)
    if ax is None:
        ax = full_axes(_CELL[0] * scale(), _CELL[1] * scale(), above=heading_height())
    key = _key_height(colour)
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
    _check_colour(explanation, colour)
    chosen = _chosen(explanation, nodes)
    if ax is None:
        ax = _new_axes(len(chosen), min(len(chosen), max(4, math.ceil(math.sqrt(len(chosen))))), title is not None)
    if title is not None:
        write_title(ax, title, font(_TITLE), 1, loc="center")
    key = _key_height(colour)
    width, height = as_canvas(ax, top=title is None)
    columns = _columns(len(chosen), width, height - key)
    rows = math.ceil(len(chosen) / columns)
    across, down = width / columns, (height - key) / rows
    size = (across - 2 * _MARGIN, down - heading_height() - _MARGIN)
    if min(size) <= 0:
        raise ChoqolateError(
            f"expected room for {len(chosen)} clouds, the axes have {width:.0f} × {height:.0f} points: "
            "choose fewer nodes or make the figure larger"
        )
    for place, node in enumerate(chosen):
        row, column = divmod(place, columns)
        left, bottom = column * across + _MARGIN, height - (row + 1) * down + _MARGIN
        cloud = ax.inset_axes((left / width, bottom / height, size[0] / width, size[1] / height))
        _draw_cloud(cloud, explanation, node, colour, most)
    if key:
        _draw_key(ax)
    return ax


def word_clouds_change(
    change: ModelChange,
    ax: Axes | None = None,
    *,
    nodes: Sequence[int] | None = None,
    colour: str = "node",
    most: int = 40,
) -> Axes:
    """Draw the word clouds of all nodes before and after an edit, side by side, in narrow axes one above the other.

    Args:
        change: of a whole model, see :func:`choqolate.explain.explain_change`.
        ax, nodes, colour, most: as in :func:`word_clouds`.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from sklearn.datasets import load_wine
    >>> from choqolate import ChoqolateClassifier
    >>> from choqolate.explain import explain_change
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = ChoqolateClassifier(n_nodes=4, epochs=20).fit(X, y)
    >>> ax = word_clouds_change(explain_change(model, model.remove_concepts("proline", mode="impute")))
    >>> [side.get_title() for side in ax.child_axes]
    ['before', 'after']
    """
    _check_colour(change.before, colour)
    chosen = _chosen(change.before, nodes)
    if ax is None:
        ax = _new_axes(2 * len(chosen), 2 * math.ceil(math.sqrt(len(chosen) / 2)), titled=True)
    width, height = as_canvas(ax, top=True)
    title = LINE * font(_TITLE) + TITLE_PAD
    stacked = width < _NARROW * scale()
    each = (width, height / 2) if stacked else (width / 2, height)
    size = (each[0] / width, (each[1] - title) / height)
    for place, (when, model) in enumerate((("before", change.before), ("after", change.after))):
        corner = (0.0, (1 - place) / 2) if stacked else (place / 2, 0.0)
        word_clouds(model, ax.inset_axes((*corner, *size)), nodes=chosen, colour=colour, most=most, title=when)
    return ax


def _new_axes(count: int, columns: int, titled: bool) -> Axes:
    """Axes in a new figure for so many clouds in about so many columns."""
    rows = math.ceil(count / columns)
    across, down = math.ceil(count / rows) * _CELL[0], rows * _CELL[1]
    return full_axes(across * scale(), down * scale(), above=2 * font(_TITLE) if titled else 0.0)


def _chosen(explanation: ModelExplanation, nodes: Sequence[int] | None) -> list[int]:
    chosen = list(range(len(explanation.nodes)) if nodes is None else nodes)
    if not chosen:
        raise ChoqolateError("expected at least one node to draw, got none")
    for node in chosen:
        check_node(explanation, node)
    return chosen


def _check_colour(explanation: ModelExplanation, colour: str) -> None:
    check_choice("colour", colour, ("node", "kind"))
    if colour == "kind" and not explanation.spurious:
        raise ChoqolateError(
            'expected concepts that are marked as spurious for colour="kind", this explanation has none: pass their '
            "names as spurious= to explain_model"
        )


def check_node(explanation: ModelExplanation, node: object) -> None:
    """Refuse what is not the number of a node of this model."""
    count = len(explanation.nodes)
    if not isinstance(node, Integral) or isinstance(node, bool) or not 0 <= int(node) < count:
        raise ChoqolateError(f"expected a node from 0 to {count - 1}, got {node!r}")


def write_heading(ax: Axes, explanation: ModelExplanation, node: int, left: float = 0.0) -> None:
    """What a drawing of a node is called, from ``left`` points left of the axes and cut to their width."""
    width = size_in_points(ax)[0] + left
    name = node_name(explanation, node, short=width < _SHORT * scale())
    write_title(ax, name, font(_HEADING), 1, left=left, width=width, color=SOFT)


def heading_height() -> float:
    """Points that a heading takes above the axes."""
    return LINE * font(_HEADING) + TITLE_PAD + 1


def node_name(explanation: ModelExplanation, node: int, short: bool = False) -> str:
    """A node's number and name; with one layer only the name, which is that of a class."""
    name = explanation.nodes[node]
    return name if explanation.one_layer else f"{node}: {name}" if short else f"node {node}: {name}"


def _key_height(colour: str) -> float:
    return font(_KEY) + 7 if colour == "kind" else 0.0


def _draw_cloud(ax: Axes, explanation: ModelExplanation, node: int, colour: str, most: int, key: float = 0.0) -> None:
    """One cloud with its heading and its frame; ``key`` points below it stay free."""
    write_heading(ax, explanation, node)
    width, height = as_canvas(ax)
    write_heading(ax, explanation, node)  # for the width that the axes have now
    ax.spines[:].set(visible=True, color=FRAME, linewidth=0.8)
    room = max(width - 2 * _MARGIN, 1.0), max(height - key - 2 * _MARGIN, 1.0)
    ranked = explanation.leading(node, most)
    words = [(f"−{name}" if value < 0 else name, value) for name, value in ranked]
    placed = place_words(words, *room, largest=max(_TALLEST * room[1], 8.0), most=most)
    if not ranked:
        _write(ax, "nothing", width / 2, (height - key) / 2, font(9), SOFT)
    spurious = explanation.names_of(explanation.spurious, node) if colour == "kind" else set()
    for word in placed:
        other = ranked[word.index][0] in spurious
        shade = ink(colour_of(node) if colour == "node" else (OTHER if other else MAIN))
        _write(ax, word.text, word.x + _MARGIN, word.y + _MARGIN, word.size, shade, underlined=other)


def _draw_key(ax: Axes) -> None:
    """What the colours of concepts mean, in the last line of the axes."""
    width, height = size_in_points(ax)
    size, y = font(_KEY), height - _key_height("kind") / 2
    first, second = text_size("spurious", size)[0], text_size("others", size)[0]
    start = (width - first - 2 * size - second) / 2
    _write(ax, "spurious", start + first / 2, y, size, ink(OTHER), underlined=True)
    _write(ax, "others", start + first + 2 * size + second / 2, y, size, ink(MAIN))


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
