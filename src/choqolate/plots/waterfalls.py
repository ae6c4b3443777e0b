"""One image: how a number came about, concept by concept, and what an edit made of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from choqolate._util.checks import check_number
from choqolate.errors import ChoqolateError
from choqolate.plots import style
from choqolate.plots.axes_room import area_size, fill_area, make_room
from choqolate.plots.image_panels import draw_image, image_size, read_pixels
from choqolate.plots.labels import LINE, TITLE_PAD, wrapped, write_title
from choqolate.plots.style import drawn_width, font, scale, shortened
from choqolate.plots.waterfall_bars import FONT, GAP, STILL, Fall, decimals_of, draw_fall, fit_falls, write_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from choqolate.explain.change import LocalChange
    from choqolate.explain.local import Attribution

_TITLE = 10.0  # points, see style.font
_ROW = 0.27  # inches
_IMAGE = 2.0  # inches: widest image
_SIDE = 140.0  # points that bars should have, before the image gets more than a little
_NARROW = 360.0  # points of a width below which the image stands above the bars, and before above after
_STRIP = 0.3  # of the height, for an image above the bars
_NAMES = 0.45  # of the width, for names in given axes
_BARS = 120.0  # points that bars and numbers should have in given axes
_SMALLER = 0.8  # letters where before stands above after
_LOWEST = 1.15  # font sizes: a row in given axes
_WORTH = 1e-3  # of the largest contribution: below it none has a bar of its own
_BASELINES = {"mean": "mean image", "zero": "all at zero"}


def waterfall(
    attribution: Attribution, row: int = 0, ax: Axes | None = None, *, image: Any = None, most: int = 10
) -> Axes:
    """Draw how one number came about: from the baseline, one contribution after the other, to what it is.

    The largest contributions come first; what counts against is hatched. Beside each name stands the concept's own
    level, from 0 to 1.

    Args:
        attribution: contributions of concepts or nodes.
        row: which of its inputs.
        ax: where to draw; by default a new figure.
        image: the image itself, to be drawn at the left: a PIL image, an array or a path.
        most: contributions to show one by one; the others share a bar.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from choqolate.explain.local import Attribution
    >>> values, levels = np.array([[0.3, -0.1]]), np.array([[0.9, 0.6]])
    >>> gull = Attribution(values, [0.2], [0.4], levels, ("webbed feet", "forest"), ("score of waterbird",))
    >>> ax = waterfall(gull)
    >>> [name.get_text() for name in ax.get_yticklabels()]
    ['baseline', 'webbed feet  0.90', 'forest  0.60', 'this image']
    """
    check_number("most", most, minimum=1, whole=True)
    _check_row(row, len(attribution))
    values, levels = np.asarray(attribution.values[row]), attribution.levels[row]
    pixels = None if image is None else read_pixels(image)
    longest = math.inf
    title = attribution.subjects[row] + (f" (row {row})" if len(attribution) > 1 and pixels is None else "")
    header = 2 * LINE * font(_TITLE) + TITLE_PAD
    if ax is None:
        shown, others = _choose(np.abs(values), most)
        rows = len(_names(attribution, levels, shown, others))
        ax = style.new_axes(5.6 + (0.0 if pixels is None else _IMAGE), _height(rows))
        width, height = area_size(ax)
    else:
        width, height = area_size(ax)
        above = pixels is not None and width < _NARROW * scale()
        if above:
            header = max(header, _STRIP * height)
        elif drawn_width(title, font(_TITLE)) <= width:
            header = LINE * font(_TITLE) + TITLE_PAD
        longest = _longest(width if pixels is None or above else 0.8 * width)
        shown, others = _choose(np.abs(values), _fitting(height - header - _axis_height(), most))
    names = _names(attribution, levels, shown, others, longest)
    fall = _fall(attribution, row, shown, others)
    decimals = decimals_of([fall], 2 if width < _NARROW * scale() else 3)
    write_names(ax, names)
    draw_fall(ax, fall, decimals)
    ax.set_xlabel(_quantity(attribution.subjects[row]), loc="left", fontsize=font(FONT - 1), color=style.SOFT)
    _write_top(ax, title, pixels, names, header)
    make_room(ax)
    fit_falls([ax], [fall], decimals)
    return ax


def waterfall_change(
    change: LocalChange, row: int = 0, ax: Axes | None = None, *, image: Any = None, most: int = 8
) -> Axes:
    """Draw why an image was taken for its class rather than for the next best one, before and after an edit.

    Both sides show the lead of the same class over the same other one, with the same concepts and the same scale.
    Below zero the other class is ahead. A concept that no longer counts is "gone".

    Args:
        change: an image or several, explained by both models.
        row: which of them.
        ax: where to draw; it is split for the two sides. By default a new figure.
        image: the image itself, to be drawn at the left: a PIL image, an array or a path.
        most: concepts to show one by one, those with the largest contributions before or after.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from sklearn.datasets import load_wine
    >>> from choqolate import ChoqolateClassifier
    >>> from choqolate.explain.change import explain_local_change
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = ChoqolateClassifier(n_nodes=4, epochs=20).fit(X, y)
    >>> ax = waterfall_change(explain_local_change(X[:1], model, model.remove_concepts("proline", mode="impute")))
    >>> [side.get_title(loc="left") for side in ax.child_axes]
    ['before: 0', 'after: 0']
    """
    from matplotlib import rc_context, rcParams

    check_number("most", most, minimum=1, whole=True)
    _check_row(row, len(change))
    before, after = change.before.take([row]), change.after.take([row])
    pair = [before.classes[r] for r in before.ranking[0, :2]]
    sides = [before.contrast(*pair), after.contrast(*pair)]
    sizes = np.maximum(*(np.abs(side.values[0]) for side in sides))
    titles = [f"{when}: {side.predicted[0]}" for when, side in (("before", before), ("after", after))]
    pixels = None if image is None else read_pixels(image)
    new = ax is None
    if ax is None:
        rows = len(_names(sides[0], sides[0].levels[0], *_choose(sizes, most)))
        ax = style.new_axes(8.2 + (0.0 if pixels is None else _IMAGE), _height(rows) + 0.4)
    ax.set_axis_off()
    fill_area(ax, top=True)
    width, height = style.size_in_points(ax)
    stacked = width < _NARROW * scale()
    with rc_context({"font.size": rcParams["font.size"] * (_SMALLER if stacked else 1.0)}):
        left, header = _write_header(ax, sides[0].subjects[0], pixels, stacked)
        room = _Room(left, width, height - header, stacked)
        shown, others = _choose(sizes, most if new else _fitting(room.each, most))
        longest = math.inf if new else _longest(room.width)
        names = _names(sides[0], sides[0].levels[0], shown, others, longest)
        falls = [_fall(side, 0, shown, others) for side in sides]
        decimals = decimals_of(falls, 2 if stacked else 3)
        panels = _split(ax, room, _widest(names))
        for panel, fall, title in zip(panels, falls, titles, strict=True):
            write_names(panel, names if stacked or panel is panels[0] else [""] * len(names))
            draw_fall(panel, fall, decimals, gone=(falls[0].values != 0) & (fall.values == 0))
            write_title(panel, title, font(_TITLE), lines=1, left=_beside(names) if stacked else 0.0)
        fit_falls(panels, falls, decimals)
    if stacked:  # both have the same scale
        panels[0].tick_params(axis="x", labelbottom=False)
    return ax


def _write_top(ax: Axes, title: str, pixels: np.ndarray | None, names: list[str], header: float) -> None:
    """Title and image: the image at the left of the names, in narrow axes above them, the title at its right."""
    width, height = area_size(ax)
    beside = _beside(names)
    if pixels is None:
        begin, across, lines = beside, width, 2
    elif width < _NARROW * scale():
        image = image_size(pixels, 0.4 * width, header)
        draw_image(ax, pixels, -beside, TITLE_PAD, image)
        begin, across = beside - image[0] - GAP, width - image[0] - GAP
        lines = max(int(header / LINE / font(_TITLE)), 2)
    else:
        side = _image_width(width, width - beside - _SIDE * scale())
        image = image_size(pixels, side, height - header - _axis_height())
        draw_image(ax, pixels, -_widest(names) - image[0], -image[1], image)
        begin, across, lines = 0.0, width - _widest(names) - image[0], 2
    write_title(ax, title, font(_TITLE), lines, left=begin, width=across)


def _check_row(row: int, rows: int) -> None:
    check_number("row", row, minimum=0, whole=True)
    if row >= rows:
        raise ChoqolateError(f"expected a row from 0 to {rows - 1}, got {row}: this explains {rows} inputs")


def _choose(sizes: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the largest contributions, which are worth a bar, and of the others that are not zero."""
    order = np.argsort(-sizes, kind="stable")
    order = order[sizes[order] > STILL]
    count = min(int((sizes > _WORTH * sizes.max(initial=0.0)).sum()), most)
    if count == len(order) - 1 < most:
        count += 1  # a single other one takes no more room with its name
    return order[:count], order[count:]


def _fall(attribution: Attribution, row: int, shown: np.ndarray, others: np.ndarray) -> Fall:
    values = np.asarray(attribution.values[row], dtype=np.float64)
    values = np.where(np.abs(values) > STILL, values, 0.0)
    rest = [values[others].sum()] if len(others) or not len(shown) else []
    return Fall(float(attribution.start[row]), np.append(values[shown], rest), float(attribution.end[row]))


def _names(
    attribution: Attribution, levels: np.ndarray, shown: np.ndarray, others: np.ndarray, longest: float = math.inf
) -> list[str]:
    """A name of at most so many points for each row, the first and the last included."""
    size = font(FONT)
    lines = []
    for j in shown:
        level = f"  {levels[j]:.2f}"
        lines.append(shortened(style.label(attribution.names[j]), longest - drawn_width(level, size), size) + level)
    if len(others):
        lines.append(f"{len(others)} other{'s' * (len(others) != 1)}")
    first = _BASELINES.get(attribution.baseline, attribution.baseline or "baseline")
    return [first, *(lines or ["nothing contributes"]), "this image"]


def _quantity(subject: str) -> str:
    """What the axis measures, by what the number is of."""
    return next((word for word in ("score", "value") if subject.startswith(f"{word} of ")), "lead")


def _longest(width: float) -> float:
    """Points that names may take of a width, so that bars and numbers have enough."""
    return min(max(width - _BARS * scale(), 0.25 * width), _NAMES * width)


def _fitting(height: float, most: int) -> int:
    """How many contributions of at most so many have a line in a height in points."""
    rows = int(height / (_LOWEST * font(FONT)))
    return max(min(most, rows - 3), 1)  # besides them there are the two ends and the others


def _axis_height(named: bool = True) -> float:
    """Points that ticks and the name of the axis take."""
    return (1 + named) * LINE * font(FONT - 1) + 8


def _height(rows: int) -> float:
    """Inches of a new figure, before they are scaled."""
    return 0.9 + _ROW * rows


def _beside(names: list[str]) -> float:
    """Points from the left edge of the names to the axes."""
    return style.widest(names, font(FONT)) / style.HINTED + GAP


def _widest(names: list[str]) -> float:
    """Points that names need at the left."""
    return style.widest(names, font(FONT)) + 2 * GAP


def _image_width(width: float, left: float) -> float:
    """Points for the image, of a width in all and of what is left by bars and names."""
    return min(_IMAGE * style.POINTS * scale(), max(left, 0.15 * width))


class _Room(NamedTuple):
    """What two panels with names and titles have for themselves, in points: from ``left`` on, and so high."""

    left: float
    right: float
    height: float
    stacked: bool

    @property
    def width(self) -> float:
        """For names and bars."""
        return self.right - self.left

    @property
    def each(self) -> float:
        """Height of one panel."""
        title = LINE * font(_TITLE) + TITLE_PAD
        return (self.height - _axis_height(named=False) - title * (1 + self.stacked)) / (1 + self.stacked)


def _split(ax: Axes, room: _Room, names: float) -> list[Axes]:
    """Two axes of one size within the axes, with names at the left: above each other or side by side."""
    width, height = style.size_in_points(ax)
    x, bottom = room.left + names, _axis_height(named=False)
    if room.stacked:
        wide = width - x - GAP
        corners = [(x, bottom + room.each + LINE * font(_TITLE) + TITLE_PAD), (x, bottom)]
    else:
        wide = (width - x - 2 * GAP) / 2
        corners = [(x, bottom), (x + wide + 2 * GAP, bottom)]
    return [ax.inset_axes((x / width, y / height, wide / width, room.each / height)) for x, y in corners]


def _write_header(ax: Axes, subject: str, pixels: np.ndarray | None, stacked: bool) -> tuple[float, float]:
    """Title and image; how many points they take of the width and of the height.

    In narrow axes the image stands beside the title and takes nothing of the width, otherwise below the title.
    """
    width, height = style.size_in_points(ax)
    size, text = font(_TITLE), f"{subject} (lead)" if stacked else f"{subject}: the lead of its score"
    begin, left, header = 0.0, 0.0, LINE * size
    if stacked:
        most = height - 2 * (6.2 * _LOWEST * font(FONT) + LINE * size + TITLE_PAD) - _axis_height(named=False)
        header = 2 * header if drawn_width(text, size) > width else header
        if pixels is not None:
            image = image_size(pixels, 0.3 * width, max(min(_STRIP * height, most - GAP), header))
            draw_image(ax, pixels, 0.0, -image[1], image)
            begin, header = image[0] + GAP, max(image[1], header)
    elif pixels is not None:
        image = image_size(pixels, _image_width(width, 0.2 * width), height - header - GAP)
        draw_image(ax, pixels, 0.0, -image[1] - header - GAP, image)
        left = image[0] + GAP
    text = wrapped(text, width - begin, size, lines=max(int(header / LINE / size), 1))
    ax.text(begin / width, 1, text, transform=ax.transAxes, va="top", fontsize=size, parse_math=False)
    return left, header + GAP
