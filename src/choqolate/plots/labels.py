"""Texts that find their place: titles in lines, names pushed apart, legends of names as they are."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from choqolate.plots.style import POINTS, drawn_width, font, label, shortened, size_in_points, widest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

LINE = 1.25  # height of a line of text, in font sizes
TITLE_PAD = 4.0  # points between axes and their title
NAMED = "named"  # id of the lines that a legend names
_FONT, _HEADING = 9.0, 12.0  # points, see style.font

# Where the name of a point may stand, best first: right, left, above, below, corners.
_WAYS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))


class Box(NamedTuple):
    """A rectangle by its lowest and its highest corner ``(2,)``."""

    low: np.ndarray
    high: np.ndarray

    def meets(self, other: Box) -> bool:
        """Whether both overlap."""
        return bool((self.low < other.high).all() and (other.low < self.high).all())

    def within(self, other: Box) -> bool:
        """Whether nothing of it is outside of the other."""
        return bool((self.low >= other.low).all() and (self.high <= other.high).all())

    def distance(self, point: np.ndarray) -> float:
        """From the rectangle to a point."""
        return float(np.linalg.norm(np.maximum(np.maximum(self.low - point, point - self.high), 0.0)))


def wrapped(text: str, width: float, size: float, lines: int = 2) -> str:
    r"""A text in at most so many lines of a width in points; what does not fit ends in "…".

    >>> wrapped("why it is a waterbird rather than a landbird", 120, 10)
    'why it is a waterbird\nrather than a landbird'
    """
    whole = label(text, 10_000)
    if lines == 1:
        return shortened(whole, width, size)
    letter = drawn_width(whole, size) / max(len(whole), 1)
    longest = len(whole) if letter == 0 else min(int(1.3 * width / letter) + 2, len(whole))  # narrow letters need less
    for letters in range(longest, 1, -1):
        found = textwrap.wrap(whole, letters, max_lines=lines, placeholder="…")
        if all(drawn_width(line, size) <= width for line in found):
            return "\n".join(found)
    return "…"


def write_title(
    ax: Axes, text: str, size: float, lines: int = 2, *, left: float = 0.0, width: float | None = None, **look: Any
) -> None:
    """A title in at most so many lines that begins ``left`` points left of the axes, by default as wide as is left."""
    from matplotlib.transforms import ScaledTranslation

    if width is None:
        width = size_in_points(ax)[0] + left
    look = {"loc": "left", "fontsize": size, "parse_math": False, **look}
    title = ax.set_title(wrapped(text, width, size, lines), y=1.0, pad=TITLE_PAD, **look)
    if left:
        figure: Any = ax.figure
        moved = ScaledTranslation(-left / POINTS, TITLE_PAD / POINTS, figure.dpi_scale_trans)
        title.set_transform(ax.transAxes + moved)


def pushed_apart(wanted: Sequence[float] | np.ndarray, gap: float, low: float, high: float) -> np.ndarray:
    """Positions in the same order, at least ``gap`` apart and within the limits, as near as can be to the wanted ones.

    Neighbours that are too close form a block around their mean (least squares); what does not fit between the limits
    is spread evenly.

    >>> pushed_apart([1.0, 1.2, 5.0], 1.0, 0.0, 10.0)
    array([0.6, 1.6, 5. ])
    """
    count = len(wanted)
    gap = min(gap, (high - low) / max(count - 1, 1))
    order = np.argsort(wanted, kind="stable")
    shifts = gap * np.arange(count)
    blocks: list[tuple[float, int]] = []  # mean of what is wanted without the gaps, members
    for position in np.asarray(wanted, dtype=np.float64)[order] - shifts:
        mean, members = float(position), 1
        while blocks and blocks[-1][0] > mean:
            before, several = blocks.pop()
            mean, members = (mean * members + before * several) / (members + several), members + several
        blocks.append((mean, members))
    level = np.repeat([mean for mean, _ in blocks], [members for _, members in blocks])
    placed = np.empty(count)
    placed[order] = np.clip(level, low, high - gap * (count - 1)) + shifts
    return placed


def beside(
    means: Sequence[np.ndarray], clouds: Sequence[Box], sizes: Sequence[np.ndarray], frame: Box, point: float
) -> list[np.ndarray] | None:
    """Lowest corners of names beside their points, ``None`` if one finds no place within the frame.

    A name meets no other name, no point and no cloud but its own, better not even that, and no other point is nearer to
    it than its own. Everything is in points.

    Args:
        means: the points ``(2,)``.
        clouds: what lies around each.
        sizes: widths and heights of the names ``(2,)``.
        frame: where names may be.
        point: size of a mark.
    """
    taken = [Box(mean - point / 2 - 1, mean + point / 2 + 1) for mean in means]
    found = []
    for own, (mean, cloud, size) in enumerate(zip(means, clouds, sizes, strict=True)):
        others = [*clouds[:own], *clouds[own + 1 :]]
        free = []
        for way in map(np.array, _WAYS):
            for reach in (point, (cloud.high - cloud.low) / 2 + point / 2):
                low = mean + way * reach + size * (way - 1) / 2
                box = Box(low, low + size)
                nearest = int(np.argmin([box.distance(other) for other in means]))
                if box.within(frame) and nearest == own and not any(map(box.meets, [*taken, *others])):
                    free.append((box.meets(cloud), box))
        if not free:
            return None
        _, box = min(free, key=lambda place: place[0])
        taken.append(box)
        found.append(box.low)
    return found


def name_handles(
    ax: Axes, handles: Sequence[Any], names: Sequence[str], size: float, width: float | None = None, **options: Any
) -> Legend:
    """A legend, with names of at most so many points.

    The names are set afterwards, for matplotlib leaves out those that begin with an underscore.
    """
    legend = ax.legend(list(handles), [" "] * len(handles), fontsize=size, **options)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(label(name) if width is None else shortened(label(name), width, size))
    return legend


def legend_beside(
    ax: Axes, handles: Sequence[Any], names: Sequence[str], new: bool, size: float, **options: Any
) -> None:
    """A legend at the right of the axes, for which a new figure becomes wider; in given axes where there is room."""
    if not new:
        width = size_in_points(ax)[0] / 2
        look = dict(loc="best", framealpha=0.6, borderpad=0.3, handletextpad=0.3, labelspacing=0.3)
        name_handles(ax, handles, names, size, width, **look | options)
        return
    figure: Any = ax.figure
    wider = max(drawn_width(label(name), size) for name in names) + 5 * size
    figure.set_figwidth(figure.get_figwidth() + wider / POINTS)
    options = dict(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, **options)
    name_handles(ax, handles, names, size, **options)


def legend_below(axes: Sequence[Axes]) -> None:
    """Write one legend for all axes of a figure that has ``layout="constrained"``, below them; it becomes higher.

    Args:
        axes: drawn by :func:`accuracy_against_concepts`, :func:`accuracy_at_concepts` or
            :func:`accuracy_against_quality` with ``legend=False``, methods in the same order.

    >>> import matplotlib.pyplot as plt
    >>> from choqolate.plots import accuracy_at_concepts
    >>> figure, axes = plt.subplots(1, 2, layout="constrained")
    >>> for ax in axes:
    ...     _ = accuracy_at_concepts({"CHOQOLATE": [{5: 0.4, 10: 0.5}]}, ax, legend=False)
    >>> legend_below(axes)
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['CHOQOLATE']
    """
    named = {str(line.get_label()): line for ax in axes for line in ax.lines if line.get_gid() == NAMED}
    figure: Any = axes[0].figure
    size, room = font(_FONT), figure.get_figwidth() * POINTS
    names = [label(name) for name in named]
    most = max(int(room / (widest(names, size) + 4 * size)), 1)
    columns = ceil(len(names) / ceil(len(names) / most))  # as few rows as that takes, all about as long
    look: dict[str, Any] = dict(loc="outside lower center", ncols=columns, frameon=False)
    legend = figure.legend(list(named.values()), [" "] * len(names), fontsize=size, columnspacing=1.2, **look)
    for text, name in zip(legend.get_texts(), names, strict=True):  # afterwards, for some may begin with an underscore
        text.set_parse_math(False)
        text.set_text(name)
    figure.set_figheight(figure.get_figheight() + legend.get_window_extent().height / figure.dpi)


def write_heading(figure: Figure, text: str) -> None:
    """A title at the upper left of a figure that has ``layout="constrained"``, which becomes so much higher."""
    if not text:
        return
    size, width = font(_HEADING), figure.get_figwidth()
    said = wrapped(text, width * POINTS - 2 * size, size)
    figure.set_figheight(figure.get_figheight() + (1 + said.count("\n")) * LINE * size / POINTS)
    figure.suptitle(said, x=0.5 * size / POINTS / width, ha="left", fontsize=size, parse_math=False)
