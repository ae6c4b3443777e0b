"""The factors of the gradient while one Choquet layer trains, see :mod:`choqolate.analysis.gradient_course`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate._util.numbers import decimal
from choqolate.analysis.gradient_course import (
    PAPER,
    PLAIN,
    TEMPERATURES,
    Course,
    anchor_of,
    at_end,
    factor_sizes,
    step_of,
)
from choqolate.plots import style
from choqolate.plots.labels import write_heading
from choqolate.plots.style import font, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_FONT = 9.0  # points, see style.font
_SIDE = 3.1  # inches of one panel
_LINE = 1.6  # points
_DASHES = ("-", "--")
_NAME = 22  # letters of a concept in a legend
_EPOCH = "epoch"
_APART_X, _APART_Y = 0.3, 0.15  # least distance of two ticks on a logarithmic axis, as a share of it
_SHOWN = (PLAIN - 1, PLAIN)  # the temperatures at which anchors show
_FACTORS = (
    ("mean |error|", {"error": ""}),
    ("share below 1% of the mean at the start", {"small weights": "weights", "small gradients": "|gradients|"}),
    ("mean |deviation|", {"deviation": "all features", "weighted deviation": "weighted by w"}),
)
"""Titles of the panels, and what :func:`factor_sizes` has for them."""


def draw_factors(course: Course, title: str = "") -> Figure:
    """Draw the three factors over the epochs, at the paper's temperature and without any."""
    figure, axes = _panels(1, 3, (1.15, 1.05))
    sizes = {run: factor_sizes(course, run) for run in (PAPER, PLAIN)}
    for ax, (said, lines) in zip(axes[0], _FACTORS, strict=True):
        for run, of_run in sizes.items():
            for name, dash in zip(lines, _DASHES, strict=False):
                ax.plot(of_run[name], dash, color=style.colour_of(run), linewidth=_LINE * scale())
        _dress(ax, _EPOCH, "", said)
        ax.set_ylim(-0.02 * ax.get_ylim()[1], None)
        if len(lines) > 1:
            _legend(ax, {name: _look(style.SOFT, dash) for name, dash in zip(lines.values(), _DASHES, strict=True)})
    _legend(axes[0][0], {_named(run): _look(style.colour_of(run)) for run in sizes})
    write_heading(figure, title)
    return figure


def draw_freezing(course: Course, title: str = "") -> Figure:
    """Draw gradients and Adam's steps against weights, in four epochs at T = 1.

    Each point is a feature of the last class. The gray line is the weight times the largest pull.
    """
    epochs = np.unique(np.geomspace(1, len(course.theta) - 1, 4).round().astype(int)).tolist()
    figure, axes = _panels(2, len(epochs), (0.9, 0.95), sharex=True, sharey="row")
    bound: dict[str, Any] = dict(color=style.SOFT, linewidth=scale())
    for (above, below), epoch in zip(axes.T, epochs, strict=True):
        step = step_of(course, PLAIN, epoch)
        colours = np.where(step.pulls > 0, style.MAIN, style.OTHER)
        for ax, heights in ((above, step.gradients), (below, step.moved)):
            ax.scatter(step.weights, heights, s=4 * scale() ** 2, color=colours, alpha=0.4, linewidths=0)
            ax.set(xscale="log", yscale="log")
        ends = np.array([step.weights.min(), step.weights.max()])
        above.plot(ends, ends * np.abs(step.pulls).max(), **bound)
        is_first = epoch == epochs[0]
        _dress(above, "", "|gradient|" if is_first else "", f"epoch {epoch}")
        _dress(below, "weight", "|Adam's step|" if is_first else "", "")
    for ax in axes.flat:  # after all points, which set the limits of shared axes
        _tick_log(ax.xaxis, _APART_X)
        _tick_log(ax.yaxis, _APART_Y)
    dot = dict(marker="o", linestyle="none", markersize=4 * scale())
    looks = {"feature pulled up": dot | {"color": style.MAIN}, "feature pulled down": dot | {"color": style.OTHER}}
    looks["weight × largest |pull|"] = bound
    _legend(figure, looks, loc="outside lower center", ncols=3 if len(epochs) > 1 else 1)
    write_heading(figure, ", ".join(filter(None, [title, _class(course), f"{_named(PLAIN)} (no temperature)"])))
    return figure


def draw_temperatures(course: Course, title: str = "") -> Figure:
    """Draw the error over the epochs for every temperature, and the Gini index at the end."""
    figure, axes = _panels(1, 2, (1.3, 1.0), width_ratios=(2, 1))
    left, right = axes[0]
    runs = range(len(TEMPERATURES))
    for run in runs:
        errors = [float(now.error.abs().mean()) for now in course.parts[run]]
        left.plot(errors, color=style.colour_of(run), linewidth=_LINE * scale())
    left.set_yscale("log")
    _tick_log(left.yaxis, _APART_Y)
    _dress(left, _EPOCH, "mean |error|", "")
    _legend(left, {_named(run): _look(style.colour_of(run)) for run in runs}, loc="best")
    ginis = [at_end(course, run).gini for run in runs]
    bars = right.barh([_named(run) for run in runs], ginis, color=[style.colour_of(run) for run in runs], height=0.6)
    right.bar_label(bars, [decimal(gini) for gini in ginis], padding=3, fontsize=font(_FONT - 1))
    right.set(xlim=(0, 1.2), xticks=(0, 0.5, 1))
    right.invert_yaxis()
    _dress(right, "Gini index at the end", "", "")
    write_heading(figure, title)
    return figure


def draw_anchors(course: Course, title: str = "") -> Figure:
    """Draw Shapley values of an anchor and others in the last class over the epochs, and the pull on them."""
    figure, axes = _panels(2, len(_SHOWN), (1.8, 0.8), sharex="col")
    concepts = course.rows.concepts
    for run, (above, below) in zip(_SHOWN, axes.T, strict=True):
        anchor, shares, pulls = anchor_of(course, run), course.shapley(run)[:, -1], course.pulls(run)
        names = {}
        for place, j in enumerate(anchor.shown):
            look = _look(style.colour_of(place))
            above.plot(shares[:, j], **look)
            below.plot(pulls[:, j], **look)
            relation = "anchor" if j == anchor.concept else f"r = {decimal(anchor.relation[j])}"
            names[f"{style.label(concepts[j], _NAME)}, {relation}"] = look
        scaled = _scale_pulls(below, pulls[:, anchor.shown])
        below.axhline(0, color=style.SOFT, linewidth=0.8 * scale(), zorder=0)
        _legend(above, names, loc="upper left", bbox_to_anchor=(1, 1.02))
        _dress(above, "", "Shapley value", f"{_class(course)}, {_named(run)}")
        _dress(below, _EPOCH, f"pull{scaled}", "")
    write_heading(figure, title)
    return figure


def _scale_pulls(ax: Axes, pulls: np.ndarray) -> str:
    """Choose the scale from the sizes of the pulls, and return what the name of the axis says of it.

    The scale is linear, unless the largest size is at least ten times the power of ten next above the median: then it
    is logarithmic beyond that power.
    """
    sizes = np.abs(pulls)
    median = float(np.median(sizes))
    threshold = 10.0 ** np.ceil(np.log10(median)) if median > 0 else np.inf
    if sizes.max() < 10 * threshold:
        ax.locator_params(axis="y", nbins=6)
        return ""
    ax.set_yscale("symlog", linthresh=threshold)
    ax.yaxis.set_major_formatter("{x:g}")
    return " (symlog)"


# ---------------------------------------------------------------------- what panels share


def _panels(rows: int, columns: int, sides: tuple[float, float], **options: Any) -> tuple[Figure, np.ndarray]:
    """A figure of panels so many times as wide and as high as usual."""
    import matplotlib.pyplot as plt

    size = (sides[0] * _SIDE * columns * scale(), sides[1] * _SIDE * rows * scale())
    return plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **options)


def _class(course: Course) -> str:
    return f"class {style.label(course.rows.classes[-1], _NAME)}"


def _named(run: int) -> str:
    return f"T = {TEMPERATURES[run]:g}"


def _look(colour: str, dash: str = "-") -> dict[str, Any]:
    return {"color": colour, "linestyle": dash, "linewidth": _LINE * scale()}


def _dress(ax: Axes, x: str, y: str, title: str) -> None:
    """Names, letters and frame of some axes."""
    ax.set_xlabel(x, fontsize=font(_FONT))
    ax.set_ylabel(y, fontsize=font(_FONT))
    ax.set_title(title, loc="left", fontsize=font(_FONT + 1), parse_math=False)
    ax.tick_params(labelsize=font(_FONT - 1))
    if x == _EPOCH:
        ax.locator_params(axis="x", integer=True)
    style.plain_frame(ax)


def _tick_log(axis: Axis, apart: float) -> None:
    """Put ticks at round numbers: powers of ten, and others between them if the axis spans few."""
    from matplotlib.ticker import FixedLocator, LogFormatterSciNotation, NullLocator

    low, high = axis.get_view_interval()
    axis.set_major_locator(FixedLocator(_round_numbers(low, high, apart)))
    axis.set_major_formatter(LogFormatterSciNotation(minor_thresholds=(np.inf, np.inf)))  # a label at every tick
    axis.set_minor_locator(NullLocator())


def _round_numbers(low: float, high: float, apart: float) -> list[float]:
    """At least two numbers between others, if there are: as round as possible, and apart by a share of the way.

    >>> _round_numbers(3e-4, 0.2, 0.3), _round_numbers(0.004, 0.03, 0.3), _round_numbers(0.031, 0.048, 0.3)
    ([0.001, 0.01, 0.1], [0.01, 0.02, 0.005], [0.04, 0.035])
    """
    least = apart * np.log10(high / low)
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))))
    found: list[float] = []
    for digits in ((10,), (20, 50), range(30, 100, 10), range(15, 100, 10), range(11, 100)):
        for number in (float(f"{two}e{decade - 1}") for two in digits for decade in decades):
            if low <= number <= high and all(abs(np.log10(number / other)) >= least for other in found):
                found.append(number)
        if len(found) > 1:
            break
    return found


def _legend(place: Axes | Figure, looks: Mapping[str, Mapping[str, Any]], **options: Any) -> None:
    """A legend of lines or dots that look so; a name may hold dollar signs, which are no formula."""
    from matplotlib.lines import Line2D

    handles: Sequence[Any] = [Line2D([], [], **look) for look in looks.values()]
    legend = place.legend(handles, list(looks), fontsize=font(_FONT - 1), frameon=False, **options)
    for text in legend.get_texts():
        text.set_parse_math(False)
