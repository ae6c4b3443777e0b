"""Accuracy by group, of one model or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate.errors import ChoqolateError
from choqolate.plots import style
from choqolate.plots.axes_room import area_size, make_room
from choqolate.plots.labels import LINE, name_handles
from choqolate.plots.style import drawn_width, font, scale, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from choqolate.analysis.evaluation import Evaluation
    from choqolate.metrics import Proportion

_FONT, _SMALL = 9.0, 7.5  # points of names and of numbers, see style.font
_HATCHES = (None, "////", "....", "xxxx", "----")
_NUMBER, _WORST, _TOO_FEW = "100.0", "  worst", "too few to tell"
_MOST_GROUPS = 20
_NAMES = 0.45  # share of the width that names may take
_SPACIOUS = 150.0  # points of the axes from which there is room for the word "worst"
_WIDE = 4.2  # inches from which there is room for numbers of rows


def group_accuracy(results: Evaluation | Mapping[str, Evaluation], ax: Axes | None = None) -> Axes:
    """Draw the accuracy of one model or several, such as before and after an edit: over all rows, then by group.

    Of two results the first has hollow bars. Thin lines are 95% intervals; a group with fewer than ten rows has no
    bar, as it is too small to tell. Without groups the classes take their place. Of more than twenty, those with the
    lowest accuracy in the first result are shown.

    Args:
        results: what :func:`choqolate.evaluate` measured; several by name.
        ax: where to draw; by default a new figure. Where there is room, the number of rows stands below each name.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from choqolate import ConceptScores, evaluate, fit_scores
    >>> scores = np.random.default_rng(0).random((40, 3))
    >>> table = ConceptScores(scores, ["sea", "bill", "feet"], labels=["gull", "wren"] * 20)
    >>> model = fit_scores(table, n_nodes=4, epochs=2)
    >>> ax = group_accuracy(evaluate(model, table, "all"))
    >>> [name.get_text() for name in ax.get_yticklabels()]
    ['all', 'gull', 'wren']
    """
    named = results if isinstance(results, Mapping) else {"": results}
    if not named:
        raise ChoqolateError("expected at least one result, got none")
    every = list(named.values())
    kind = "group" if all(result.group_accuracy for result in every) else "class"
    shares: list[dict[str, Proportion]] = [getattr(result, f"by_{kind}") for result in every]
    groups = list(dict.fromkeys(name for share in shares for name in share))
    note = ""
    if len(groups) > _MOST_GROUPS:
        note = f"the {_MOST_GROUPS} lowest of {len(groups)} {kind}{'es' if kind == 'class' else 's'}"
        groups = sorted(groups, key=lambda name: _rank(shares[0].get(name)))[:_MOST_GROUPS]
    rows = [[result.rows for result in every]]
    rows += [[share[name].rows for share in shares if name in share] for name in groups]
    if ax is None:
        ax = style.new_axes(6.4, 0.6 + 0.2 * len(every) + 0.17 * (len(groups) + 1) * (len(every) + 0.6))
    _write_names(ax, ["all", *groups], rows)
    ax.set_xlabel("accuracy (%)" + (f", {note}" if note else ""), fontsize=font(_FONT))
    handles = _handles(len(every)) if len(every) > 1 else []
    _write_legend(ax, handles, list(map(str, named)))
    make_room(ax)
    _write_legend(ax, handles, list(map(str, named)))  # in as many columns as there is room for now
    roomy = style.size_in_points(ax)[0] >= _SPACIOUS * scale()
    if not roomy and len(groups) > 1:
        ax.set_xlabel(f"{ax.get_xlabel()}, bold: worst")
    written = _NUMBER + (_WORST if roomy else "")
    _dress(ax, drawn_width(written, font(_SMALL)))
    for place, (result, share) in enumerate(zip(every, shares, strict=True)):
        known = [name for name in share if not share[name].too_few]
        worst = min(known, key=lambda name: share[name].value) if len(known) > 1 else None
        drawn = [result.overall, *(share.get(name) for name in groups)]
        _draw_bars(ax, drawn, [False, *(name == worst for name in groups)], place, len(every), _WORST if roomy else "")
    return ax


def _rank(share: Proportion | None) -> tuple[bool, float]:
    """Where a share stands among others: the lowest first, then those that cannot be told."""
    return (True, 1.0) if share is None or share.too_few else (False, share.value)


def _write_names(ax: Axes, names: Sequence[str], rows: Sequence[Sequence[int]]) -> None:
    """Names of groups, cut in narrow axes; below each, where there is room for two lines, its number of rows."""
    width, height = area_size(ax)
    size, small, pad = font(_FONT), font(_SMALL - 1), 5.0 * scale()
    cut = [shortened(style.label(name), _NAMES * width, size) for name in names]
    ax.set_yticks(range(len(names)), cut, fontsize=size, parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0, pad=pad)
    roomy = width >= _WIDE * style.POINTS * scale() and 0.75 * height / len(names) >= LINE * (size + small)
    if not roomy:
        return
    for name, row in zip(ax.get_yticklabels(), range(len(names)), strict=True):
        name.set_verticalalignment("bottom")
        counts = " / ".join(f"{count:,}" for count in dict.fromkeys(rows[row]))
        place: dict[str, Any] = dict(xytext=(-pad, 0), textcoords="offset points", ha="right", va="top")
        ax.annotate(
            f"n = {counts}", (0, row), fontsize=small, color=style.SOFT, xycoords=ax.get_yaxis_transform(), **place
        )


def _look(place: int, count: int) -> dict[str, Any]:
    """Of bars: hollow before and full after; of more results, each with a colour and a hatch."""
    if count == 2 and place == 0:
        return {"facecolor": "white", "edgecolor": style.MAIN, "linewidth": 1.0}
    colour = style.MAIN if count <= 2 else style.colour_of(place)
    hatch = None if count <= 2 else _HATCHES[(count - 1 - place) % len(_HATCHES)]
    filled = {"edgecolor": colour, "linewidth": 1.0} if count == 2 else {"edgecolor": "white", "linewidth": 0}
    return {"facecolor": colour, "hatch": hatch, **filled}


def _handles(count: int) -> list[Any]:
    from matplotlib.patches import Patch

    return [Patch(**_look(place, count)) for place in range(count)]


def _write_legend(ax: Axes, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Above the bars, from the left edge of what belongs to the axes, in as many columns as fit."""
    if not handles:
        return
    size = font(_FONT)
    width, room = style.size_in_points(ax)[0], area_size(ax)[0]
    beside = style.widest([name.get_text() for name in ax.get_yticklabels()], size) / style.HINTED + 5 * scale()
    entries = [drawn_width(style.label(name), size) + 3.5 * size for name in names]  # with their patches
    columns = len(entries) if sum(entries) <= room else max(int(room // max(entries)), 1)
    where: dict[str, Any] = dict(loc="lower left", bbox_to_anchor=(-beside / width, 1), borderaxespad=0.2)
    where |= dict(ncols=columns, frameon=False, borderpad=0.1, columnspacing=1.2, handlelength=1.6, handletextpad=0.5)
    name_handles(ax, handles, names, size, room - 3.5 * size, **where)


def _draw_bars(
    ax: Axes, shares: Sequence[Proportion | None], marked: Sequence[bool], place: int, count: int, said: str
) -> None:
    """Bars of one result, with intervals, and numbers where these can be read; the worst group's is bold, and said."""
    height = 0.8 / count
    y = np.arange(len(shares)) - 0.4 + (place + 0.5) * height
    numbers = [
        (0.0, 0.0, 0.0) if share is None or share.too_few else (share.value, *share.interval) for share in shares
    ]
    widths, low, high = 100 * np.array(numbers).T
    ax.barh(y, widths, 0.84 * height, **_look(place, count))
    known = high > 0
    ax.hlines(y[known], low[known], high[known], color="black", linewidth=0.8)
    _, points = style.size_in_points(ax)
    size = min(font(_SMALL), points / len(shares) * height)
    for at, share, end, worst in zip(y, shares, high, marked, strict=True):
        if share is not None and size >= style.LEAST:
            ax.annotate(
                _TOO_FEW if share.too_few else f"{100 * share.value:.1f}" + said * worst,
                (end, at),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                fontsize=size,
                fontweight="bold" if worst else "normal",
            ).set_in_layout(False)


def _dress(ax: Axes, number: float) -> None:
    """Limits that leave room for the numbers, ticks that stay apart, and a line below the first row."""
    width, _ = style.size_in_points(ax)
    written = 1.2 * number + 3  # bold letters are wider
    ax.set_xlim(0, 100 * width / max(width - written, width / 3))
    room = max(width - written, width / 3) / (2.4 * font(_FONT))  # ticks that fit
    ax.set_xticks(range(0, 101, next((step for step in (20, 25, 50) if 100 / step <= room), 100)))
    ax.tick_params(axis="x", labelsize=font(_FONT - 1))
    ax.axhline(0.5, color=style.FRAME, linewidth=0.8)
    style.plain_frame(ax)
    ax.spines["bottom"].set_bounds(0, 100)
