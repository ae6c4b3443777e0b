"""Accuracy against sparsity: all settings of a search, sparse logistic regression, and what was chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate._util.checks import check_choice
from choqolate.errors import ChoqolateError
from choqolate.plots import style
from choqolate.plots.axes_room import make_room
from choqolate.plots.labels import LINE, Box
from choqolate.plots.style import drawn_width, font, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from choqolate.analysis.trade_off import TradeOff
    from choqolate.estimators.search_record import Trial

PANELS = {
    "concepts_per_class": "concepts per class",
    "gini": "Attribution Gini",
    "coherence": "Node Coherence",
    "n_nodes": "number of nodes",
}
ONE_LAYER = "one layer"
_KINDS = {ONE_LAYER: "o", "weighted means": "s", "pairs": "^"}
_FRONT, _CHOSEN, _PAPER = "CHOQOLATE, best for its sparsity", "chosen", "paper"
_FONT, _POINT, _RING = 9.0, 6.0, 12.0  # points, see style.font
_SHADES = (0.0, 0.78)  # part of the colour map: its bright end is lost on white
_PANEL = (4.3, 3.3)  # inches
_ROOM = 0.06  # of the range of values, around them
_LEAST_RANGE = 4.0  # per cent of accuracy that the axis spans at least
_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def trade_off(
    result: TradeOff, axes: Sequence[Axes] | Axes | None = None, *, panels: Sequence[str] = tuple(PANELS)
) -> list[Axes]:
    """Draw the accuracy of all settings against how sparse they are, one panel for each kind of sparsity.

    Markers stand for the kind of model, hollow ones for models that count the absence of concepts too, and colors for
    temperatures. A line joins the settings that no other one beats in both. Sparse logistic regression has lines of
    its own where the axis is defined for it; what lies below all settings of CHOQOLATE is cut off.

    Args:
        result: see :func:`choqolate.trade_off`.
        axes: where to draw, as many as panels; by default a new figure.
        panels: ``"concepts_per_class"``, ``"gini"``, ``"coherence"``, ``"n_nodes"``; all four by default.

    Returns:
        The axes, one for each panel.

    Raises:
        ChoqolateError: if there are not as many axes as panels.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from choqolate.analysis.trade_off import TradeOff
    >>> from choqolate.estimators.search_record import Search, Trial
    >>> settings = dict(interactions="none", class_interactions=None, bipolar=False, n_parameters=30, coherence=0.2)
    >>> trials = (
    ...     Trial(n_nodes=None, temperature=0.005, accuracy=0.9, gini=0.6, concepts_per_class=9.0, **settings),
    ...     Trial(n_nodes=8, temperature=0.02, accuracy=0.8, gini=0.9, concepts_per_class=3.0, **settings),
    ... )
    >>> search = Search(trials, 0, None, "clusters", "cosine", "", 0.01, 100, 20, False, (), 1.0)
    >>> axes = trade_off(TradeOff(search, (), (), 0.95))
    >>> [ax.get_xlabel() for ax in axes]
    ['concepts per class', 'Attribution Gini', 'Node Coherence', 'number of nodes']
    """
    for panel in panels:
        check_choice("panels", panel, tuple(PANELS))
    new = axes is None
    drawn = _new_axes(len(panels)) if axes is None else list(np.ravel(np.array(axes, dtype=object)))
    if len(drawn) != len(panels) or not drawn:
        raise ChoqolateError(f"Expected as many axes as panels but got {len(drawn)} and {len(panels)}.")
    limits = _accuracy_limits(result)
    handles: dict[str, Any] = {}
    for place, (ax, panel) in enumerate(zip(drawn, panels, strict=True)):
        handles |= _draw_panel(ax, result, panel, limits)
        ax.tick_params(labelsize=font(_FONT))
        ax.set_xlabel(PANELS[panel], fontsize=font(_FONT + 1))
        if not new or place % _columns(len(panels)) == 0:
            ax.set_ylabel("accuracy (%)", fontsize=font(_FONT + 1))
        style.plain_frame(ax)
    if new:
        _write_legend(drawn[0], handles)
    for ax in drawn:
        make_room(ax)
    for ax, panel in zip(drawn, panels, strict=True):
        _few_ticks(ax, panel)
        _name_points(ax)
    return drawn


def _columns(count: int) -> int:
    return count if count < 4 else 2


def _new_axes(count: int) -> list[Axes]:
    import matplotlib.pyplot as plt

    columns = max(_columns(count), 1)
    rows = max(math.ceil(count / columns), 1)
    size = (_PANEL[0] * columns * scale(), (_PANEL[1] * rows + 1.0) * scale())
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for ax in axes.flat[count:]:
        figure.delaxes(ax)
    return list(axes.flat[:count])


def _accuracy_limits(result: TradeOff) -> tuple[float, float]:
    """From the least accurate setting of CHOQOLATE to the best of all, in percent, with some room."""
    own = [*result.search.trials, *([result.search.paper] if result.search.paper else [])]
    others = [result.ceiling, *(point.accuracy for point in (*result.rivals, *result.refitted))]
    low = 100 * min(result.ceiling, *(trial.accuracy for trial in own))
    high = 100 * max(*others, *(trial.accuracy for trial in own))
    room = max(_ROOM * (high - low), (_LEAST_RANGE - (high - low)) / 2)
    return low - room, min(high + room, 100 + room / 2)


def _draw_panel(ax: Axes, result: TradeOff, panel: str, limits: tuple[float, float]) -> dict[str, Any]:
    """Lines and marks of one panel; handles for the legend by name."""
    handles: dict[str, Any] = {}
    at = _places(result) if panel == "n_nodes" else None
    if panel in ("concepts_per_class", "gini"):
        handles |= _draw_rivals(ax, result, panel)
    ceiling = ax.axhline(100 * result.ceiling, color=style.SOFT, linestyle="--", linewidth=1.0, zorder=1)
    handles[style.CEILING] = ceiling
    if at is None:
        front = [(getattr(trial, panel), 100 * trial.accuracy) for trial in result.front(panel)]
        (line,) = ax.plot(*np.array(front).reshape(-1, 2).T, color=style.MAIN, linewidth=1.2, zorder=2, gid=_FRONT)
        handles[_FRONT] = line
    for trial in result.search.trials:
        _draw_trial(ax, result, trial, _x(result, trial, panel))
    marks: dict[str, Trial | None] = {_CHOSEN: result.search.choice, _PAPER: result.search.paper}
    for name, marked in marks.items():
        x = None if marked is None else _x(result, marked, panel)
        if marked is None or x is None:
            continue
        look: dict[str, Any] = dict(marker="o", markersize=_RING * scale(), markerfacecolor="none", markeredgewidth=1.5)
        if name == _PAPER:
            look = dict(marker="*", markersize=1.8 * _POINT * scale(), markeredgewidth=0)
        ax.plot([x], [100 * marked.accuracy], color="black", linestyle="none", zorder=5, gid=name, **look)
    ax.set_ylim(*limits)
    _set_x(ax, result, panel, at)
    return handles | _legend_marks(result)


def _draw_rivals(ax: Axes, result: TradeOff, panel: str) -> dict[str, Any]:
    handles = {}
    rivals = zip(style.RIVALS.items(), (result.rivals, result.refitted), strict=True)
    for (name, (colour, marker, dashes)), points in rivals:
        pairs = [(getattr(point, panel), 100 * point.accuracy) for point in points]
        pairs = [(x, y) for x, y in pairs if x]  # without any weight there is nothing to measure
        if pairs:
            look: dict[str, Any] = dict(marker=marker, markersize=0.8 * _POINT * scale(), linestyle=dashes)
            (handles[name],) = ax.plot(*np.array(pairs).T, color=colour, linewidth=1.3, zorder=2.5, gid=name, **look)
    return handles


def _draw_trial(ax: Axes, result: TradeOff, trial: Trial, x: float | None) -> None:
    if x is not None:
        colour = _shade(result, trial.temperature)
        face = "white" if trial.bipolar else colour
        look: dict[str, Any] = dict(marker=_KINDS[_kind(trial)], markersize=_POINT * scale(), linestyle="none")
        look |= dict(color=colour, markerfacecolor=face, markeredgewidth=1.2, gid="trial", zorder=3)
        ax.plot([x], [100 * trial.accuracy], **look)


def _kind(trial: Trial) -> str:
    if trial.n_nodes is None:
        return ONE_LAYER
    return "weighted means" if trial.interactions == "none" else "pairs"


def _temperatures(result: TradeOff) -> list[float]:
    return sorted({trial.temperature for trial in result.search.trials})


def _shade(result: TradeOff, temperature: float) -> Any:
    """A color that gets lighter with the temperature, also in gray and for all kinds of color vision."""
    from matplotlib import colormaps

    known = _temperatures(result)
    share = known.index(temperature) / max(len(known) - 1, 1)
    return colormaps["viridis"](_SHADES[0] + share * (_SHADES[1] - _SHADES[0]))


def _places(result: TradeOff) -> dict[int | None, int]:
    """Numbers of nodes, each with its place on the axis; one layer is the first."""
    known = [*result.search.trials, *([result.search.paper] if result.search.paper else [])]
    numbers = sorted({trial.n_nodes for trial in known}, key=lambda number: number or 0)
    return {number: place for place, number in enumerate(numbers)}


def _x(result: TradeOff, trial: Trial, panel: str) -> float | None:
    """Where a setting stands; beside its number of nodes, the further right the higher its temperature."""
    if panel != "n_nodes":
        value = getattr(trial, panel)
        return None if value is None else float(value)
    known = _temperatures(result)
    if trial.temperature not in known:
        return float(_places(result)[trial.n_nodes])
    return _places(result)[trial.n_nodes] + 0.4 * ((known.index(trial.temperature) + 0.5) / len(known) - 0.5)


def _set_x(ax: Axes, result: TradeOff, panel: str, at: dict[int | None, int] | None) -> None:
    """Limits around all that is within the limits of the accuracy."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    if at is not None:
        ax.set_xlim(-0.5, len(at) - 0.5)
        ax.set_xticks(list(at.values()), [ONE_LAYER if number is None else str(number) for number in at])
        return
    low, high = ax.get_ylim()
    points = np.concatenate([np.column_stack(line.get_data()) for line in ax.lines if line.get_gid()])
    values = points[(points[:, 1] >= low) & (points[:, 1] <= high), 0]
    if not len(values):  # coherence may be defined nowhere
        ax.set_xticks([])
        return
    if panel == "concepts_per_class":
        ax.set_xscale("log")
        ax.set_xlim(values.min() / 1.25, values.max() * 1.25)
        ax.xaxis.set_major_locator(FixedLocator(_TICKS))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_minor_formatter(NullFormatter())
        return
    room = max(_ROOM * (values.max() - values.min()), 0.01)
    ax.set_xlim(values.min() - room, values.max() + room)


def _few_ticks(ax: Axes, panel: str) -> None:
    """Ticks that do not run together, on both axes; no accuracy beyond all."""
    width, height = style.size_in_points(ax)
    ax.locator_params(axis="y", nbins=max(int(height / (2.5 * font(_FONT))), 1))
    if panel in ("gini", "coherence"):
        ax.locator_params(axis="x", nbins=max(int(width / (4.5 * font(_FONT))), 1))
    if panel == "n_nodes":
        texts = [text.get_text() for text in ax.get_xticklabels()]
        room = width / len(texts)
        ax.set_xticks(ax.get_xticks(), [style.shortened(text, room, font(_FONT)) for text in texts])
    limits = ax.get_ylim()
    ax.set_yticks([tick for tick in ax.get_yticks() if limits[0] <= tick <= min(limits[1], 100)])
    ax.set_ylim(limits)


def _legend_marks(result: TradeOff) -> dict[str, Any]:
    """Handles for kinds and temperatures that occur."""
    from matplotlib.lines import Line2D

    def mark(marker: str, colour: Any, face: Any) -> Line2D:
        size = _POINT * scale()
        look: dict[str, Any] = dict(marker=marker, color=colour, markerfacecolor=face, markersize=size)
        return Line2D([], [], linestyle="none", markeredgewidth=1.2, **look)

    kinds = {_kind(trial) for trial in result.search.trials}
    handles: dict[str, Any] = {
        name if name == ONE_LAYER else f"nodes of {name}": mark(marker, style.SOFT, style.SOFT)
        for name, marker in _KINDS.items()
        if name in kinds
    }
    if any(trial.bipolar for trial in result.search.trials):
        handles["hollow: with absences"] = mark("o", style.SOFT, "white")
    for temperature in _temperatures(result):
        colour = _shade(result, temperature)
        handles[f"temperature {temperature:g}"] = mark("o", colour, colour)
    return handles


def _write_legend(ax: Axes, handles: dict[str, Any]) -> None:
    """A legend of all panels, below them."""
    figure: Any = ax.figure
    size, room = font(_FONT - 0.5), figure.get_figwidth() * style.POINTS
    widest = max(drawn_width(name, size) for name in handles) + 4 * size
    columns = max(int(room / widest), 1)
    look: dict[str, Any] = dict(loc="outside lower center", ncols=min(columns, len(handles)), frameon=False)
    figure.legend(list(handles.values()), list(handles), fontsize=size, columnspacing=1.2, **look)


# ---------------------------------------------------------------------- names of the two points


def _name_points(ax: Axes) -> None:
    """The words "chosen" and "paper" where they cover as little as possible, with a thin line where they are far."""
    per_pixel, size = style.POINTS / ax.figure.dpi, font(_FONT)
    ax.figure.canvas.figure.draw_without_rendering()
    marks = [
        ax.transData.transform(np.column_stack(line.get_data())) * per_pixel for line in ax.lines if line.get_gid()
    ]
    taken = [Box(point - _POINT * scale() / 2, point + _POINT * scale() / 2) for points in marks for point in points]
    taken += _segments(marks)
    frame = Box(np.asarray(ax.bbox.min) * per_pixel, np.asarray(ax.bbox.max) * per_pixel)
    drawn = {line.get_gid(): line for line in ax.lines}
    named = {name: np.column_stack(drawn[name].get_data())[0] for name in (_CHOSEN, _PAPER) if name in drawn}
    means = {name: np.asarray(ax.transData.transform(data)) * per_pixel for name, data in named.items()}
    for name, mean in means.items():
        room = np.array([drawn_width(name, size), size * LINE])
        others = [other for key, other in means.items() if key != name]
        low = _free_place(mean, room, taken, frame, others)
        taken.append(Box(low, low + room))
        away = low + room / 2 - mean
        near = float(np.linalg.norm(np.maximum(np.abs(away) - room / 2, 0))) < _RING * scale()
        arrow = None if near else dict(arrowstyle="-", color=style.SOFT, linewidth=0.7, shrinkB=_RING * scale() / 2)
        place: dict[str, Any] = dict(xytext=tuple(away), textcoords="offset points", ha="center", va="center")
        ax.annotate(name, tuple(named[name]), fontsize=size, arrowprops=arrow, zorder=6, **place).set_in_layout(False)


def _segments(marks: Sequence[np.ndarray]) -> list[Box]:
    """Small boxes along the lines between marks, which names should not cover either."""
    found = []
    for points in marks:
        for start, end in pairwise(points):
            count = min(max(int(np.linalg.norm(end - start) / 4), 1), 100)
            steps = np.linspace(start, end, count + 1)
            found += [Box(step - 0.5, step + 0.5) for step in steps]
    return found


def _free_place(
    mean: np.ndarray, room: np.ndarray, taken: Sequence[Box], frame: Box, others: Sequence[np.ndarray]
) -> np.ndarray:
    """The lowest corner of a name that covers least, near its point rather than far, and nearer than to others."""
    best, least = mean, math.inf
    for ring, (across, up) in product(range(6), product((-1, -0.5, 0, 0.5, 1), repeat=2)):
        if max(abs(across), abs(up)) < 1:
            continue
        reach = (0.7 + ring) * _RING * scale()
        low = mean + np.array([across, up]) * (reach + room / 2) - room / 2
        box = Box(low, low + room)
        cost = 10 * sum(map(box.meets, taken)) + ring + 0.1 * (across < 0) + 0.2 * (abs(across) < 1)
        cost += 8 * any(box.distance(other) <= 1.3 * box.distance(mean) for other in others)
        if box.within(frame) and cost < least:
            best, least = low, cost
    return best
