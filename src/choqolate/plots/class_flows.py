"""What flows from the nodes to the classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from choqolate._util.checks import check_number
from choqolate._util.text import listed
from choqolate.errors import ChoqolateError
from choqolate.plots.axes_room import as_canvas, full_axes
from choqolate.plots.clouds import node_name
from choqolate.plots.style import LEAST, SOFT, colour_of, drawn_width, font, label, scale, shortened, widest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from choqolate.explain import ModelExplanation

_FONT, _NOTE = 8.0, 7.0  # points, see style.font
_LONGEST = 48  # letters of a node's name
_THIN = 0.01  # share of a class below which a ribbon is left out
_SWEEPS = 8  # of the search for an order with few crossings
_BLOCK = 9.0  # points: width of the blocks that ribbons connect
_APART = 0.35  # lines between blocks
_NODES, _CLASSES = 0.47, 0.3  # share of the width that names of nodes and of classes may take


def class_flow(
    explanation: ModelExplanation,
    ax: Axes | None = None,
    *,
    most_classes: int = 20,
    classes: Iterable[str] | None = None,
) -> Axes:
    """Draw what flows from the nodes (left) to the classes (right): ribbons as wide as the class attributions.

    A block is as high as all that flows from the node, or to the class. Of baselines the size of the weights counts;
    ribbons of weights below zero are hatched. Ribbons of less than one per cent of their class are left out. Nodes and
    classes are ordered so that few ribbons cross. Wide ribbons say which share of their class they are.

    Args:
        explanation: of a whole model.
        ax: where to draw, at the size it has now; by default a new figure.
        most_classes: of many classes only the first so many are drawn.
        classes: names of those to draw instead.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from choqolate.explain import ModelExplanation
    >>> W, V = np.array([[0.7, 0.3], [0.1, 0.9]]), np.array([[0.2, 0.8], [0.6, 0.4]])
    >>> birds = ModelExplanation(W, V, ("sea", "crest"), ("landbird", "waterbird"), ("sea", "crest"))
    >>> [text.get_text() for text in class_flow(birds).texts]
    ['node 0: sea', 'node 1: crest', 'waterbird', 'landbird', '60%', '40%', '20%', '80%']
    """
    chosen = _choose_classes(explanation, most_classes, classes)
    values = explanation.class_attributions[chosen]  # (C, N)
    node_order, class_order = _few_crossings(np.abs(values))
    values = values[np.ix_(class_order, node_order)]
    chosen = [chosen[place] for place in class_order]
    left = [label(node_name(explanation, node), _LONGEST) for node in node_order]
    right = [label(explanation.classes[index]) for index in chosen]
    notes = _notes(values, len(explanation.classes) - len(chosen))
    size = font(_FONT)
    if ax is None:
        lines = 15 * max(len(left), len(right), 8) + 30
        ax = full_axes(240 * scale() + widest(left, size) + widest(right, size), lines * scale())
    width, height = as_canvas(ax)
    if widest(left, size) > _NODES * width:
        left = [label(node_name(explanation, node, short=True), _LONGEST) for node in node_order]
    left = [shortened(name, _NODES * width, size) for name in left]
    right = [shortened(name, _CLASSES * width, size) for name in right]
    x = widest(left, size) + 4, width - widest(right, size) - 4  # outer sides of the blocks
    room = height - (1.7 * font(_NOTE) if notes else 0)
    size = min(size, max(LEAST, room / max(len(left), len(right)) / 1.2))
    sizes = np.abs(values).sum(0), np.abs(values).sum(1)
    per_unit, line = _common_scale(sizes, room, 1.25 * size)
    starts, ends = (_stack(total * per_unit, room, line) for total in sizes)
    _draw_blocks(ax, x[0], starts, sizes[0] * per_unit, [colour_of(node) for node in node_order])
    _draw_blocks(ax, x[1] - _BLOCK, ends, sizes[1] * per_unit, [SOFT] * len(right))
    _write_names(ax, x[0] - 4, starts + sizes[0] * per_unit / 2, left, size, "right")
    _write_names(ax, x[1] + 4, ends + sizes[1] * per_unit / 2, right, size, "left")
    inner = (x[0] + _BLOCK, x[1] - _BLOCK)
    for node, index, ribbon in _ribbons(values, per_unit, inner, starts, ends):
        _draw_ribbon(ax, ribbon, node_order[node], chosen[index], against=values[index, node] < 0)
        _write_share(ax, ribbon, abs(values[index, node]) / sizes[1][index])
    if notes:
        said = shortened("; ".join(notes), width, font(_NOTE))
        ax.text(width / 2, height, said, fontsize=font(_NOTE), color=SOFT, ha="center", va="bottom")
    return ax


def _notes(values: np.ndarray, hidden: int) -> list[str]:
    notes = ["hatched: against the class"] * bool((values < 0).any())
    return notes + [f"{hidden:,} more class{'es' * (hidden > 1)} not shown"] * bool(hidden)


def _write_share(ax: Axes, ribbon: np.ndarray, share: float) -> None:
    """Percent of its class, at the end of a ribbon that is wide enough for it."""
    size, text = font(_NOTE), f"{100 * share:.0f}%"
    if ribbon[4, 1] - ribbon[3, 1] >= 1.3 * size and ribbon[3, 0] - ribbon[0, 0] >= 3 * drawn_width(text, size):
        ax.text(ribbon[3, 0] - 3, ribbon[3:5, 1].mean(), text, fontsize=size, ha="right", va="center_baseline")


def _choose_classes(explanation: ModelExplanation, most: int, wanted: Iterable[str] | None) -> list[int]:
    """Indices of the classes to draw."""
    check_number("most_classes", most, minimum=1, whole=True)
    if wanted is None:
        return list(range(min(most, len(explanation.classes))))
    index = {name: position for position, name in enumerate(explanation.classes)}
    names = [wanted] if isinstance(wanted, str) else [str(name) for name in dict.fromkeys(wanted)]
    unknown = [name for name in names if name not in index]
    if unknown or not names:
        known = f"this model knows {listed(explanation.classes)}"
        raise ChoqolateError(f"expected names of classes to draw, got {listed(unknown) or 'none'}: {known}")
    return [index[name] for name in names]


def _few_crossings(sizes: np.ndarray) -> tuple[list[int], list[int]]:
    """Orders of the N nodes and the C classes by barycentres, in turn; of all seen those with the fewest crossings."""
    nodes, classes = np.arange(sizes.shape[1]), np.arange(sizes.shape[0])
    seen = [(_crossings(sizes), nodes, classes)]
    for _ in range(_SWEEPS):
        classes = np.argsort(_barycentres(sizes[:, nodes]), kind="stable")
        nodes = np.argsort(_barycentres(sizes[classes].T), kind="stable")
        seen.append((_crossings(sizes[np.ix_(classes, nodes)]), nodes, classes))
    _, nodes, classes = min(seen, key=lambda found: round(found[0], 9))
    return nodes.tolist(), classes.tolist()


def _barycentres(sizes: np.ndarray) -> np.ndarray:
    """Mean position of what each row is connected to, of ``sizes (rows, positions)``."""
    totals = sizes.sum(1)
    centres: np.ndarray = sizes @ np.arange(sizes.shape[1]) / np.where(totals > 0, totals, 1.0)
    return centres


def _crossings(sizes: np.ndarray) -> float:
    """Sum over all pairs of ribbons that cross of the product of their widths; of ``sizes (C, N)`` in order."""
    above_left = np.cumsum(np.cumsum(sizes, 0), 1)
    crossed = 0.0
    for row in range(1, sizes.shape[0]):  # ribbons to a class cross those to classes above that come from nodes below
        further = above_left[row - 1, -1] - above_left[row - 1]
        crossed += float((sizes[row] * further).sum())
    return crossed


def _common_scale(sizes: Sequence[np.ndarray], room: float, line: float) -> tuple[float, float]:
    """Points for one unit, the same on both sides, with which rows of at least a ``line`` fit; and that line."""
    line = min(line, *(room / len(size) for size in sizes))
    low, high = 0.0, room / max(*(float(size.sum()) for size in sizes), 1e-12)
    for _ in range(40):
        middle = (low + high) / 2
        fits = all(_rows(size * middle, line).sum() <= room for size in sizes)
        low, high = (middle, high) if fits else (low, middle)
    return low, line


def _rows(heights: np.ndarray, line: float) -> np.ndarray:
    """Heights of the rows that blocks of these heights stand in: each has room for its name."""
    return np.maximum(heights + _APART * line, line)


def _stack(heights: np.ndarray, room: float, line: float) -> np.ndarray:
    """Tops of blocks under each other, spread over the room."""
    rows = _rows(heights, line)
    rows += (room - rows.sum()) / len(rows)
    tops: np.ndarray = np.cumsum(rows) - (rows + heights) / 2
    return tops


def _draw_blocks(ax: Axes, x: float, tops: np.ndarray, heights: np.ndarray, colours: Sequence[str]) -> None:
    from matplotlib.patches import Rectangle

    for top, height, colour in zip(tops, heights, colours, strict=True):
        ax.add_patch(Rectangle((x, top), _BLOCK, max(height, 0.5), color=colour, linewidth=0))


def _write_names(ax: Axes, x: float, middles: np.ndarray, names: Sequence[str], font: float, side: str) -> None:
    for middle, name in zip(middles, names, strict=True):
        ax.text(x, middle, name, fontsize=font, ha=side, va="center_baseline", parse_math=False)


def _ribbons(
    values: np.ndarray, scale: float, x: tuple[float, float], starts: np.ndarray, ends: np.ndarray
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Node, class and outline ``(8, 2)`` of every ribbon: there along the upper side, back along the lower."""
    starts, ends, middle = starts.copy(), ends.copy(), sum(x) / 2
    least = _THIN * np.abs(values).sum(1)
    across = np.array([x[0], middle, middle, x[1]])
    for index, node in np.ndindex(values.shape):
        width = abs(values[index, node]) * scale
        if values[index, node] and abs(values[index, node]) >= least[index]:
            down = np.array([starts[node], starts[node], ends[index], ends[index]])
            upper, lower = np.stack([across, down], 1), np.stack([across, down + width], 1)
            yield node, index, np.concatenate([upper, lower[::-1]])
        starts[node] += width
        ends[index] += width


def _draw_ribbon(ax: Axes, outline: np.ndarray, node: int, index: int, *, against: bool) -> None:
    """A ribbon whose id tells what it connects: ``flow-<node>-<class>``."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    codes = [Path.MOVETO, *[Path.CURVE4] * 3, Path.LINETO, *[Path.CURVE4] * 3, Path.CLOSEPOLY]
    ribbon = PathPatch(Path([*outline.tolist(), outline[0].tolist()], codes), facecolor=colour_of(node))
    ribbon.set(alpha=0.45, linewidth=0, edgecolor="white", hatch="////" if against else None)
    ribbon.set_gid(f"flow-{node}-{index}")
    ax.add_patch(ribbon)
