"""One picture: how a number came about, concept by concept, and what an edit made of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from choqolate.errors import ChoqolateError
from choqolate.plots import style
from choqolate.plots.placing import LINE, settle, wrapped, write_title
from choqolate.plots.style import drawn_width
from choqolate.validation import check_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from choqolate.explain.change import LocalChange
    from choqolate.explain.local import Attribution

_FONT = 9.0  # points: names and numbers
_TITLE = 10.0
_BAR = 0.62  # height of a bar, in rows
_ROW = 0.27  # inches
_GAP = 5.0  # points between a bar and its number, a name and its bars
_PICTURE = 2.0  # inches: widest picture
_SIDE = 140.0  # points that bars should have, before the picture gets more than a little
_WORTH = 1e-3  # of the largest contribution: below it none has a bar of its own
_STILL = 1e-12  # a contribution this small is rounding


class _Fall(NamedTuple):
    """What a waterfall shows: contributions in rows between two numbers."""

    start: float
    values: np.ndarray
    end: float

    @property
    def levels(self) -> np.ndarray:
        """The number before the first row and after each."""
        return self.start + np.concatenate([[0.0], np.cumsum(self.values)])


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
        image: the picture itself, to be drawn at the left: a PIL image, an array or a path.
        most: contributions to show one by one; the others share a bar.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from choqolate.explain.local import Attribution
    >>> values, levels = np.array([[0.3, -0.1]]), np.array([[0.9, 0.6]])
    >>> gull = Attribution(values, [0.2], [0.4], levels, ("webbed feet", "forest"), ("score of waterbird",))
    >>> ax = waterfall(gull)
    >>> [name.get_text() for name in ax.get_yticklabels()]
    ['baseline', 'webbed feet  0.90', 'forest  0.60', 'this picture']
    """
    check_number("most", most, minimum=1, whole=True)
    _check_row(row, len(attribution))
    values, levels = np.asarray(attribution.values[row]), attribution.levels[row]
    shown, others = _choose(np.abs(values), most)
    names = _names(attribution.names, levels, shown, others)
    fall = _fall(attribution, row, shown, others)
    pixels = None if image is None else _pixels(image)
    new = ax is None
    if ax is None:
        beside = 0.0 if pixels is None else _PICTURE
        ax = style.new_axes(5.6 + beside, _height(len(names)))
    if pixels is not None:
        _draw_beside(ax, pixels, _widest(names))
    _write_names(ax, names)
    _draw(ax, fall)
    if new:
        settle(ax)
    _fit([ax], [fall])
    write_title(ax, attribution.subjects[row], _TITLE)
    return ax


def waterfall_change(
    change: LocalChange, row: int = 0, ax: Axes | None = None, *, image: Any = None, most: int = 8
) -> Axes:
    """Draw why a picture was taken for its class rather than for the next best one, before and after an edit.

    Both sides show the lead of the same class over the same other one, with the same concepts and the same scale.
    Below zero the other class is ahead. A concept that no longer counts is "gone".

    Args:
        change: a picture or several, explained by both models.
        row: which of them.
        ax: where to draw; it is split for the two sides. By default a new figure.
        image: the picture itself, to be drawn at the left: a PIL image, an array or a path.
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
    check_number("most", most, minimum=1, whole=True)
    _check_row(row, len(change))
    before, after = change.before.take([row]), change.after.take([row])
    pair = [before.classes[r] for r in before.ranking[0, :2]]
    sides = [before.contrast(*pair), after.contrast(*pair)]
    shown, others = _choose(np.maximum(*(np.abs(side.values[0]) for side in sides)), most)
    names = _names(sides[0].names, sides[0].levels[0], shown, others)
    falls = [_fall(side, 0, shown, others) for side in sides]
    titles = [f"{when}: {side.predicted[0]}" for when, side in (("before", before), ("after", after))]
    pixels = None if image is None else _pixels(image)
    if ax is None:
        ax = style.new_axes(8.2 + (0.0 if pixels is None else _PICTURE), _height(len(names)) + 0.4)
        settle(ax)
    ax.set_axis_off()
    _write_subject(ax, f"{sides[0].subjects[0]}: the lead of its score")
    left, right = _split(ax, pixels, _widest(names))
    _write_names(left, names)
    _write_names(right, [""] * len(names))
    for side, fall, title in zip((left, right), falls, titles, strict=True):
        _draw(side, fall, gone=(falls[0].values != 0) & (fall.values == 0))
        write_title(side, title, _TITLE, lines=1)
    _fit([left, right], falls)
    return ax


def _check_row(row: int, rows: int) -> None:
    check_number("row", row, minimum=0, whole=True)
    if row >= rows:
        raise ChoqolateError(f"expected a row from 0 to {rows - 1}, got {row}: this explains {rows} inputs")


def _choose(sizes: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the largest contributions, which are worth a bar, and of the others that are not zero."""
    order = np.argsort(-sizes, kind="stable")
    order = order[sizes[order] > _STILL]
    count = min(int((sizes > _WORTH * sizes.max(initial=0.0)).sum()), most)
    if count == len(order) - 1 < most:
        count += 1  # a single other one takes no more room with its name
    return order[:count], order[count:]


def _fall(attribution: Attribution, row: int, shown: np.ndarray, others: np.ndarray) -> _Fall:
    values = np.asarray(attribution.values[row], dtype=np.float64)
    values = np.where(np.abs(values) > _STILL, values, 0.0)
    rest = [values[others].sum()] if len(others) or not len(shown) else []
    return _Fall(float(attribution.start[row]), np.append(values[shown], rest), float(attribution.end[row]))


def _names(names: Sequence[str], levels: np.ndarray, shown: np.ndarray, others: np.ndarray) -> list[str]:
    """A name for each row, the first and the last included."""
    lines = [f"{style.label(names[j])}  {levels[j]:.2f}" for j in shown]
    if len(others):
        lines.append(f"{len(others)} other{'s' * (len(others) != 1)}")
    return ["baseline", *(lines or ["nothing contributes"]), "this picture"]


def _write_names(ax: Axes, names: list[str]) -> None:
    ax.set_yticks(range(len(names)), names, fontsize=_FONT, parse_math=False)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0, pad=_GAP)
    ax.tick_params(axis="x", labelsize=_FONT - 1, colors=style.SOFT)
    style.plain_frame(ax, ["bottom"])
    for name in (ax.get_yticklabels()[0], ax.get_yticklabels()[-1]):
        name.set_color(style.SOFT)


def _draw(ax: Axes, fall: _Fall, gone: np.ndarray | None = None) -> None:
    """Bars with their numbers, the two ends, and lines from each row to the next."""
    rows, levels = np.arange(len(fall.values)) + 1, fall.levels
    for forward, colour, hatch in ((True, style.MAIN, None), (False, style.OTHER, "/////")):
        some = (fall.values != 0) & ((fall.values > 0) == forward)
        ax.barh(
            rows[some],
            fall.values[some],
            _BAR,
            left=levels[:-1][some],
            color=colour,
            hatch=hatch,
            edgecolor="white",
            linewidth=0,
        )
    half = np.array([0.0, *(_BAR / 2 * (fall.values != 0)), 0.0])
    above, below = np.arange(len(levels)) + half[:-1], np.arange(len(levels)) + 1 - half[1:]
    ax.vlines(levels, above, below, color=style.SOFT, linewidth=0.8, zorder=1)
    ends = [fall.start, fall.end]
    ax.plot(ends, [0, len(levels)], "o", color=style.SOFT, markersize=5, linestyle="none")
    for row, (value, (x, text, side)) in enumerate(zip([0, *fall.values, 0], _numbers(fall, gone), strict=True)):
        align, colour = ("left" if side > 0 else "right"), ("black" if value else style.SOFT)
        place: dict[str, Any] = dict(
            xytext=(side * _GAP, 0), textcoords="offset points", ha=align, va="center", annotation_clip=False
        )
        ax.annotate(text, (x, row), fontsize=_FONT - 1, color=colour, **place).set_in_layout(False)


def _numbers(fall: _Fall, gone: np.ndarray | None = None) -> list[tuple[float, str, int]]:
    """Where a number stands beside a bar or an end, the number, and on which side."""
    largest = max(np.abs(fall.values).max(initial=0.0), abs(fall.start), abs(fall.end))
    digits = 3 if largest == 0 else min(max(2 - math.floor(math.log10(largest)), 0), 9)
    lines = [(fall.start, _signed(fall.start, digits), 1)]
    for row, (value, level) in enumerate(zip(fall.values, fall.levels[1:], strict=True)):
        text = _signed(value, digits, plus=True) if value else "0"
        lines.append((float(level), "gone" if gone is not None and gone[row] else text, -1 if value < 0 else 1))
    return [*lines, (fall.end, _signed(fall.end, digits), 1)]


def _signed(value: float, digits: int, plus: bool = False) -> str:
    """A number with a true minus sign."""
    return f"{value:{'+' if plus else ''}.{digits}f}".replace("-", "−")


def _fit(sides: Sequence[Axes], falls: list[_Fall]) -> None:
    """Limits that leave room for the numbers, the same for all that is compared."""
    from matplotlib.ticker import MaxNLocator

    width = min(style.size_in_points(ax)[0] for ax in sides)
    levels = np.concatenate([[*fall.levels, fall.end] for fall in falls])
    low, high = float(levels.min()), float(levels.max())
    if high - low <= _STILL:
        low, high = low - 0.5, high + 0.5
    numbers = [(x, side, drawn_width(text, _FONT - 1) + 2 * _GAP) for f in falls for x, text, side in _numbers(f)]
    lefts = np.array([(low, _GAP), *((x, need) for x, side, need in numbers if side < 0)])
    rights = np.array([(high, _GAP), *((x, need) for x, side, need in numbers if side > 0)])
    # A number at the left and one at the right, with what is between them, must fit into the width: so for all pairs.
    between = rights[:, 0] - lefts[:, :1]
    room = width - rights[:, 1] - lefts[:, 1:]
    scale = max((room[between > 0] / between[between > 0]).min(), width / 4 / (high - low))  # points a unit
    low, high = (lefts[:, 0] - lefts[:, 1] / scale).min(), (rights[:, 0] + rights[:, 1] / scale).max()
    for ax in sides:
        ax.set_xlim(low, high)
        ax.xaxis.set_major_locator(MaxNLocator(max(int(width / 45), 1), steps=[1, 2, 5, 10]))
        if low < 0 < high:
            ax.axvline(0, color=style.FRAME, linewidth=0.8, zorder=0)


def _height(rows: int) -> float:
    """Inches of a new figure."""
    return 0.75 + _ROW * rows


def _widest(names: list[str]) -> float:
    """Points that names need at the left."""
    return max(drawn_width(name, _FONT) for name in names) + 2 * _GAP


def _picture_width(width: float, left: float) -> float:
    """Points for the picture, of a width in all and of what is left by bars and names."""
    return min(_PICTURE * style.POINTS, max(left, 0.15 * width))


def _draw_beside(ax: Axes, pixels: np.ndarray, names: float) -> None:
    """Give the left part of the axes to the picture; ``names`` is the width in points between both."""
    from mpl_toolkits.axes_grid1 import Size, make_axes_locatable  # type: ignore[import-untyped]

    width, height = style.size_in_points(ax)
    side = min(_picture_width(width, width - names - _SIDE), height * pixels.shape[1] / pixels.shape[0])
    beside = make_axes_locatable(ax).append_axes(
        "left", Size.Fixed(side / style.POINTS), pad=Size.Fixed(names / style.POINTS)
    )
    _draw_picture(beside, pixels)
    locate: Any = ax.get_axes_locator()
    ax.apply_aspect(locate(ax, None))  # otherwise the size of the axes is known only when they are drawn


def _split(ax: Axes, pixels: np.ndarray | None, names: float) -> tuple[Axes, Axes]:
    """Two axes within the axes, of one size, with room for names and titles; the picture at the left."""
    width, height = style.size_in_points(ax)
    x = 0.0
    top, bottom = height - 2 * (LINE * _TITLE + _GAP), 2 * _FONT * LINE
    if pixels is not None:
        x = _picture_width(width, width - names - 2 * _SIDE)
        _draw_picture(ax.inset_axes((0.0, 0.0, x / width, top / height)), pixels)
    x += min(names, 0.5 * (width - x))
    each = (width - x - 2 * _GAP) / 2
    size = (each / width, (top - bottom) / height)
    left, right = (ax.inset_axes((start / width, bottom / height, *size)) for start in (x, x + each + 2 * _GAP))
    return left, right


def _write_subject(ax: Axes, text: str) -> None:
    width, _ = style.size_in_points(ax)
    text = wrapped(text, width, _TITLE, lines=1)
    ax.text(0, 1, text, transform=ax.transAxes, va="top", fontsize=_TITLE, parse_math=False)


def _draw_picture(ax: Axes, pixels: np.ndarray) -> None:
    ax.imshow(pixels, cmap="gray", interpolation="antialiased")
    ax.set_anchor("N")
    ax.set_axis_off()


def _pixels(image: Any) -> np.ndarray:
    """A picture ``(height, width)`` or ``(height, width, 3 or 4)`` from a file, a PIL image or an array."""
    from PIL.Image import Image

    from choqolate.concepts.images import as_rgb

    if isinstance(image, str | PathLike):
        return np.asarray(_read(fspath(image)))
    array = np.asarray(as_rgb(image) if isinstance(image, Image) else image)
    shape = array.shape
    if array.dtype.kind not in "biuf" or len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] not in (3, 4)):
        raise ChoqolateError(
            f"expected a picture of shape (height, width) or (height, width, 3), got {array.dtype} of shape {shape}: "
            "pass a path, a PIL image or such an array"
        )
    if not array.size:
        raise ChoqolateError(f"expected a picture with pixels, got none (shape {shape})")
    return array.astype(np.float64) if array.dtype.kind == "b" else array


def _read(path: str) -> Any:
    from choqolate.concepts.images import Unreadable, decode, read_content

    try:
        return decode(read_content(path)[0])
    except Unreadable as error:
        raise ChoqolateError(f"expected a picture, {path} cannot be read: {error}") from None
