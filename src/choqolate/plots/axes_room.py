"""Room for what is drawn: which part of a figure belongs to some axes, and how their texts stay inside of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate.plots.style import POINTS, scale, size_in_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

_EDGE = 4.0  # points between what is drawn and the edge of a new figure
_PAD = 1.08  # font sizes between what is drawn and the edge of a given figure: as many as tight_layout leaves
_LEFT = 0.2  # of the axes' width and height, which names leave at least


def area(ax: Axes) -> Bbox:
    """What belongs to the axes, in pixels: up to the figure's edges and texts, and half way to other axes."""
    from matplotlib.transforms import Bbox

    figure: Any = ax.figure
    own, edge = ax.get_window_extent(), _PAD * 10 * scale() * figure.dpi / POINTS
    low, high = np.array(figure.bbox.min) + edge, np.array(figure.bbox.max) - edge
    axes = [other for other in figure.axes if other is not ax and other.get_visible()]
    others = [(other.get_window_extent(), other.get_tightbbox(for_layout_only=True), 0.5) for other in axes]
    others += [(text.get_window_extent(), text.get_window_extent(), 0.0) for text in (*figure.texts, *figure.legends)]
    for box, whole, share in others:
        beside = box.y0 < own.y1 and own.y0 < box.y1
        axis = 0 if beside else 1
        if not beside and not (box.x0 < own.x1 and own.x0 < box.x1):
            continue
        if box.max[axis] <= own.min[axis]:
            half_way = box.max[axis] + share * (own.min[axis] - box.max[axis])
            low[axis] = max(low[axis], half_way, min(whole.max[axis], own.min[axis]))
        elif box.min[axis] >= own.max[axis]:
            half_way = box.min[axis] - share * (box.min[axis] - own.max[axis])
            high[axis] = min(high[axis], half_way, max(whole.min[axis], own.max[axis]))
    return Bbox([low, high])


def area_size(ax: Axes) -> tuple[float, float]:
    """Width and height of the :func:`area` in points."""
    found, per_pixel = area(ax), POINTS / ax.figure.dpi
    return found.width * per_pixel, found.height * per_pixel


def make_room(ax: Axes) -> None:
    """Make the axes so much smaller that all beside them is inside of their area; layouts do so themselves."""
    if _laid_out(ax):
        return
    room = area(ax)
    for _ in range(2):  # smaller axes may have other ticks
        inner, outer = ax.get_window_extent().frozen(), ax.get_tightbbox(for_layout_only=True)
        if outer is None:
            return
        low = inner.min + np.maximum(np.subtract(room.min, outer.min), 0.0)
        high = inner.max - np.maximum(np.subtract(outer.max, room.max), 0.0)
        _move(ax, low, np.maximum(high, low + _LEFT * np.array(inner.size)))


def fill_area(ax: Axes, top: bool = False) -> None:
    """Let axes without ticks, if they are part of a grid, reach to the edges of their area.

    But for the ``top``, where a title may be.
    """
    if ax.get_subplotspec() is None or _laid_out(ax):
        return
    room, own = area(ax), ax.get_window_extent()
    low, high = np.minimum(room.min, own.min), np.maximum(room.max, own.max)
    _move(ax, low, high if top else np.array([high[0], own.y1]))


def full_axes(width: float, height: float, above: float = 0.0) -> Axes:
    """Axes of so many points in a figure of their own, with a small margin and some room ``above``, that stay put."""
    import matplotlib.pyplot as plt

    wide, tall = width + 2 * _EDGE, height + above + 2 * _EDGE
    _, ax = plt.subplots(figsize=(wide / POINTS, tall / POINTS))
    ax.set_position((_EDGE / wide, _EDGE / tall, width / wide, height / tall))
    return ax


def as_canvas(ax: Axes, top: bool = False) -> tuple[float, float]:
    """Make points the unit of empty axes, from the top left corner, y going down; their width and height in points."""
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    fill_area(ax, top)
    width, height = size_in_points(ax)
    ax.set(xlim=(0, width), ylim=(height, 0))
    return width, height


def _laid_out(ax: Axes) -> bool:
    """Whether the figure has a layout of its own, which then has found the size of the axes."""
    figure = ax.figure.canvas.figure
    if figure.get_layout_engine() is None:
        return False
    figure.draw_without_rendering()
    return True


def _move(ax: Axes, low: np.ndarray, high: np.ndarray) -> None:
    """Axes between two corners in pixels."""
    from matplotlib.transforms import Bbox

    figure: Any = ax.figure
    (left, bottom), (right, top) = figure.transSubfigure.inverted().transform([low, high]).tolist()
    spec: Any = ax.get_subplotspec()
    if figure.axes == [ax] and spec is not None and spec.get_gridspec().get_geometry() == (1, 1):
        # The grid itself, so that tight_layout, which starts from it, may still be called.
        figure.subplots_adjust(left, bottom, right, top)
    else:
        ax.set_position(Bbox([[left, bottom], [right, top]]))
