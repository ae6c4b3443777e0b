"""The correlation of pairs of concepts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from choqolate._util.numbers import decimal
from choqolate._util.text import counted
from choqolate.plots.axes_room import area_size, make_room
from choqolate.plots.labels import LINE, wrapped
from choqolate.plots.style import LEAST, POINTS, font, label, save_figure, scale, shortened, size_in_points, widest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

    from choqolate.explain.redundancy import Redundancy

_LARGEST = 10.0  # points: names
_WIDEST = 24.0  # inches of a new figure: beyond this, names are left out
_NAMES = 0.3  # share of given axes that names may take
_WRITTEN = 12  # concepts up to which the numbers stand in the cells


def correlation_heatmap(redundancy: Redundancy, ax: Axes | None = None) -> Axes:
    """Draw the correlation of all pairs of concepts, correlated ones side by side; constant concepts are grey.

    Of more than 2,000 concepts, those are drawn that groups were looked for around.

    Args:
        redundancy: what :func:`choqolate.check_redundancy` measured.
        ax: where to draw; by default a new figure, the larger the more concepts there are. In small axes with many
            concepts only every second, third, ... has its name beside it.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from choqolate.explain.redundancy import check_redundancy
    >>> ax = correlation_heatmap(check_redundancy([[0.1, 0.2], [0.3, 0.5], [0.2, 0.3]], ["sea", "lake"]))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['sea', 'lake']
    """
    order = redundancy.order
    matrix = redundancy.correlation[np.ix_(order, order)]
    names = [label(name) for name in redundancy.ordered_concepts]
    new = ax is None
    if ax is None:
        ax = _new_axes(names)
        side = size_in_points(ax)[0]
    else:
        names, side = _fitted(ax, names)
    _draw_cells(ax, matrix, side)
    _write_names(ax, names, side)
    looked_at = "" if redundancy.drawn is None else f"{len(names):,} of "
    title = f"{looked_at}{counted(len(redundancy.concepts), 'concept')}"
    title += "" if math.isnan(redundancy.mean) else f", mean correlation {decimal(redundancy.mean)}"
    title += ", grey: constant" if redundancy.constant else ""
    size = font(min(max(side / scale() / 40 + 4, 8.0), 12.0))
    ax.set_title(wrapped(title, side + 8 * size, size), fontsize=size)
    if new:
        _fit_figure(ax)
    else:
        make_room(ax)
    return ax


def save_heatmap(redundancy: Redundancy, path: Path) -> None:
    """Draw the correlation of the concepts into an image file, .png, .svg or .pdf."""
    save_figure(correlation_heatmap(redundancy), path)


def _fitted(ax: Axes, names: list[str]) -> tuple[list[str], float]:
    """For given axes: names that take at most a part of their area, and the side in points that is left for cells."""
    width, height = area_size(ax)
    size = _font(min(width, height) / len(names))
    names = [shortened(name, _NAMES * min(width, height), size) for name in names]
    beside = widest(names, size) + 8
    own = min(size_in_points(ax))
    return names, max(min(own, width - beside - _bar_width(), height - beside - 2 * LINE * font(10)), own / 4)


def _bar_width() -> float:
    """Points that the colour bar takes, with its numbers and its name."""
    return 24 + 5 * font(8)


def _draw_cells(ax: Axes, matrix: np.ndarray, side: float) -> None:
    """Cells, with their numbers if they are few, and a colour bar as high as they are."""
    import matplotlib

    colours = matplotlib.colormaps["RdBu_r"].with_extremes(bad="0.8")
    image = ax.imshow(matrix, cmap=colours, vmin=-1, vmax=1, interpolation="nearest")
    beside = ax.inset_axes((1 + 8 / side, 0, max(10 / side, 0.012), 1))
    size = font(min(max(side / scale() / 40, 8.0), 10.0))
    ticks = [-1, -0.5, 0, 0.5, 1] if side > 12 * size else [-1, 0, 1]
    bar = ax.figure.colorbar(image, cax=beside, ticks=ticks)
    bar.set_label("correlation", fontsize=size)
    bar.ax.tick_params(labelsize=size)
    bar.outline.set_visible(False)
    size = min(font(_LARGEST), side / len(matrix) / 3.0)
    if len(matrix) > _WRITTEN or size < LEAST:
        return
    for (row, column), value in np.ndenumerate(matrix):
        if not np.isnan(value):
            colour = "white" if abs(value) > 0.6 else "black"
            ax.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=size)


def _write_names(ax: Axes, names: list[str], side: float) -> None:
    """As many names as fit beside the cells; ``side`` is the height of them all in points."""
    cell = side / len(names)
    size = _font(cell)
    step = math.ceil(size * LINE / cell - 1e-6)
    shown = range(0, len(names), step)
    # A name may hold dollar signs, which are no formula.
    ax.set_xticks(shown, [names[j] for j in shown], rotation=90, fontsize=size, parse_math=False)
    ax.set_yticks(shown, [names[j] for j in shown], fontsize=size, parse_math=False)
    ax.tick_params(length=0 if step == 1 else 2)
    ax.spines[:].set_visible(False)


def _font(cell: float) -> float:
    """Points of names beside cells of so many points."""
    return min(max(cell / LINE, LEAST), font(_LARGEST))


def _new_axes(names: list[str]) -> Axes:
    """Square axes in a figure of its own, the larger the more concepts there are."""
    import matplotlib.pyplot as plt

    count = len(names)
    wanted = max(count * min(max(1.3 / math.sqrt(count), 0.1), 0.6), 2.4) * POINTS * scale()
    most = _WIDEST * POINTS * scale()
    beside = widest(names, _font(min(wanted, most) / count)) + 24
    side = min(wanted, most - beside - _bar_width()) / POINTS
    _, ax = plt.subplots(figsize=(side, side))
    ax.set_position((0, 0, 1, 1))
    return ax


def _fit_figure(ax: Axes) -> None:
    """Widen the figure around its only axes until all names are inside."""
    figure: Any = ax.figure
    inner, outer = ax.get_window_extent().frozen(), cast("Bbox", ax.get_tightbbox())
    left, bottom, right, top = outer.x0 - 6, outer.y0 - 6, outer.x1 + 6, outer.y1 + 6
    width, height = right - left, top - bottom
    figure.set_size_inches(width / figure.dpi, height / figure.dpi)
    ax.set_position(
        ((inner.x0 - left) / width, (inner.y0 - bottom) / height, inner.width / width, inner.height / height)
    )
