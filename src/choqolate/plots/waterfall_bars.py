"""Bars that lead from one number to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from choqolate._util.numbers import MINUS, decimal, decimals_for
from choqolate.plots import style
from choqolate.plots.style import drawn_width, font, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FONT = 9.0  # points of names, see style.font
GAP = 5.0  # points between a bar and its number, a name and its bars
STILL = 1e-12  # a contribution this small is rounding
_BAR = 0.62  # height of a bar, in rows


class Fall(NamedTuple):
    """What a waterfall shows: contributions in rows between two numbers."""

    start: float
    values: np.ndarray
    end: float

    @property
    def levels(self) -> np.ndarray:
        """The number before the first row and after each."""
        return self.start + np.concatenate([[0.0], np.cumsum(self.values)])


def write_names(ax: Axes, names: list[str]) -> None:
    """A name at the left of each row; the first and the last, which are no contributions, are grey."""
    ax.set_yticks(range(len(names)), names, fontsize=font(FONT), parse_math=False)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0, pad=GAP)
    ax.tick_params(axis="x", labelsize=font(FONT - 1), colors=style.SOFT)
    style.plain_frame(ax, ["bottom"])
    for name in (ax.get_yticklabels()[0], ax.get_yticklabels()[-1]):
        name.set_color(style.SOFT)


def draw_fall(ax: Axes, fall: Fall, decimals: int, gone: np.ndarray | None = None) -> None:
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
    ax.plot(ends, [0, len(levels)], "o", color=style.SOFT, markersize=5 * scale(), linestyle="none")
    for row, (value, (x, text, side)) in enumerate(
        zip([0, *fall.values, 0], _numbers(fall, decimals, gone), strict=True)
    ):
        align, colour = ("left" if side > 0 else "right"), ("black" if value else style.SOFT)
        place: dict[str, Any] = dict(
            xytext=(side * GAP, 0), textcoords="offset points", ha=align, va="center", annotation_clip=False
        )
        ax.annotate(text, (x, row), fontsize=font(FONT - 1), color=colour, **place).set_in_layout(False)


def decimals_of(falls: Sequence[Fall], digits: int) -> int:
    """With which the largest number of each has at least so many digits."""
    largest = [max(np.abs(fall.values).max(initial=0.0), abs(fall.start), abs(fall.end)) for fall in falls]
    least = min((size for size in largest if size > 0), default=1.0)
    return decimals_for(least, digits)


def _numbers(fall: Fall, decimals: int, gone: np.ndarray | None = None) -> list[tuple[float, str, int]]:
    """Where a number stands beside a bar or an end, the number, and on which side."""
    lines = [(fall.start, _signed(fall.start, decimals), 1)]
    for row, (value, level) in enumerate(zip(fall.values, fall.levels[1:], strict=True)):
        text = _signed(value, decimals, plus=True) if value else "0"
        lines.append((float(level), "gone" if gone is not None and gone[row] else text, -1 if value < 0 else 1))
    return [*lines, (fall.end, _signed(fall.end, decimals), 1)]


def _signed(value: float, digits: int, plus: bool = False) -> str:
    """A number whose sign stays where it is rounded to zero: it tells the direction of the bar."""
    return (MINUS if value < 0 else "+" * plus) + decimal(abs(value), digits, commas=False)


def fit_falls(sides: Sequence[Axes], falls: list[Fall], decimals: int) -> None:
    """Limits that leave room for the numbers, the same for all that is compared."""
    from matplotlib.ticker import MaxNLocator

    width = min(style.size_in_points(ax)[0] for ax in sides)
    levels = np.concatenate([[*fall.levels, fall.end] for fall in falls])
    low, high = float(levels.min()), float(levels.max())
    if high - low <= STILL:
        low, high = low - 0.5, high + 0.5
    numbers = [
        (x, side, drawn_width(text, font(FONT - 1)) + 2 * GAP) for f in falls for x, text, side in _numbers(f, decimals)
    ]
    lefts = np.array([(low, GAP), *((x, need) for x, side, need in numbers if side < 0)])
    rights = np.array([(high, GAP), *((x, need) for x, side, need in numbers if side > 0)])
    # A number at the left and one at the right, with what is between them, must fit into the width: so for all pairs.
    between = rights[:, 0] - lefts[:, :1]
    room = width - rights[:, 1] - lefts[:, 1:]
    unit = max((room[between > 0] / between[between > 0]).min(), width / 4 / (high - low))  # in points
    low, high = (lefts[:, 0] - lefts[:, 1] / unit).min(), (rights[:, 0] + rights[:, 1] / unit).max()
    ticks = MaxNLocator(max(int(width / (45 * scale())), 1), steps=[1, 2, 5, 10]).tick_values(low, high)
    edge = 1.5 * font(FONT - 1) / width * (high - low)  # half of a tick's number
    for ax in sides:
        ax.set_xticks([tick for tick in ticks if low + edge <= tick <= high - edge])
        ax.set_xlim(low, high)
        if low < 0 < high:
            ax.axvline(0, color=style.FRAME, linewidth=0.8, zorder=0)
