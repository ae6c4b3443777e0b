"""Accuracy against how few concepts a class takes: methods as clouds of runs, or cut to so many concepts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate.errors import ChoqolateError
from choqolate.plots import style
from choqolate.plots.axes_room import make_room
from choqolate.plots.labels import LINE, NAMED, legend_beside
from choqolate.plots.scatters import no_ticks_beyond_all, run_points
from choqolate.plots.style import font, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FONT, _POINT, _RUN = 9.0, 7.0, 4.0  # points, see style.font; a mean, and a run
_LINE = 1.4  # points
_ROOM = 0.06  # of the range of the accuracies, around them
_LEAST_RANGE = 4.0  # per cent of accuracy that the axis spans at least
_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


def accuracy_against_concepts(
    runs: Mapping[str, tuple[Any, Any]],
    ax: Axes | None = None,
    *,
    paths: Mapping[str, tuple[Any, Any]] | None = None,
    ceiling: float | None = None,
    legend: bool = True,
) -> Axes:
    """Draw accuracy against concepts per class, on a logarithmic axis: the upper left is where to be.

    Every run of a method is a small mark, their mean a large one. A path, such as sparse logistic regression from
    strong to weak penalties, is a line. Points without any concept are left out, and so are methods without points.

    Args:
        runs: for each method its concepts per class ``(r,)`` and its accuracy ``(r,)``, from 0 to 1, over r runs or
            settings. A method in the same place has the same look in :func:`accuracy_at_concepts` and
            :func:`accuracy_against_quality`.
        ax: where to draw; by default a new figure.
        paths: the same for each line, in the order of its points.
        ceiling: accuracy of logistic regression on all scores, from 0 to 1: a horizontal line.
        legend: whether to name the methods; one legend for several axes is written by :func:`legend_below`.

    Raises:
        ChoqolateError: if there is nothing to draw, or numbers are missing.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> runs = {"CHOQOLATE": ([4.0, 6.0], [0.82, 0.84]), "PCBM": ([40.0, 41.0], [0.85, 0.85])}
    >>> ax = accuracy_against_concepts(runs, paths={"l1 logistic regression": ([2, 5, 20], [0.6, 0.8, 0.86])})
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['CHOQOLATE', 'PCBM', 'l1 logistic regression']
    """
    clouds = {str(name): _with_concepts(name, pair) for name, pair in runs.items()}
    lines = {str(name): _with_concepts(name, pair) for name, pair in (paths or {}).items()}
    drawn = [points for points in (*clouds.values(), *lines.values()) if len(points)]
    if not drawn:
        raise ChoqolateError("Expected runs or paths with at least one concept per class, but got none.")
    new = ax is None
    if ax is None:
        ax = style.new_axes(5.8, 4.2)
    handles: dict[str, Any] = {}
    for place, (name, points) in enumerate(clouds.items()):
        if len(points):
            handles[name] = _draw_cloud(ax, points, place)
    for place, (name, points) in enumerate(lines.items()):
        if len(points):
            handles[name] = _draw_path(ax, points, place)
    everything = np.concatenate(drawn)
    accuracies = everything[:, 1]
    if ceiling is not None:
        handles[style.CEILING] = ax.axhline(100 * ceiling, color=style.SOFT, linestyle="--", linewidth=1.0, zorder=1)
        accuracies = np.append(accuracies, 100 * ceiling)
    _set_accuracies(ax, accuracies)
    _set_log_counts(ax, everything[:, 0])
    if any(len(points) > 1 for points in clouds.values()):
        _write_note(ax, "small marks: single runs, large marks: their means")
    _finish(ax, "concepts per class", handles, new, legend)
    return ax


def accuracy_at_concepts(
    runs: Mapping[str, Sequence[Mapping[int, float]]],
    ax: Axes | None = None,
    *,
    paths: Mapping[str, Sequence[Mapping[int, float]]] | None = None,
    ceiling: float | None = None,
    legend: bool = True,
) -> Axes:
    """Draw the accuracy of methods whose classes may use k concepts only, against k (NEC curves).

    Lines are means over runs, bands one standard deviation.

    Args:
        runs: for each method the accuracy for each k of every run, as ``nec_accuracy`` of
            :class:`~choqolate.analysis.evaluation_record.Evaluation` or :func:`choqolate.metrics.accuracy_at_nec` give
            it. Runs without numbers are left out, and so are methods without runs.
        ax: where to draw; by default a new figure.
        paths: the same of what is a path in :func:`accuracy_against_concepts`, and looks as it does there.
        ceiling: accuracy of logistic regression on all scores, from 0 to 1: a horizontal line.
        legend: whether to name the methods; one legend for several axes is written by :func:`legend_below`.

    Raises:
        ChoqolateError: if there is nothing to draw, or the runs of a method were measured at different k.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> runs = {"CHOQOLATE": [{5: 0.4, 10: 0.5}, {5: 0.44, 10: 0.52}], "PCBM": [{5: 0.3, 10: 0.45}]}
    >>> ax = accuracy_at_concepts(runs)
    >>> [line.get_ydata().tolist() for line in ax.lines]
    [[42.0, 51.0], [30.0, 45.0]]
    """
    looks = [_line_look(place) for place in range(len(runs))]
    looks += [_path_look(place) for place in range(len(paths or {}))]
    named = [*runs.items(), *(paths or {}).items()]
    curves = [(str(name), _curve(name, several), look) for (name, several), look in zip(named, looks, strict=True)]
    known = [curve for _, curve, _ in curves if curve is not None]
    if not known:
        raise ChoqolateError("Expected accuracies with few concepts of at least one run, but got none.")
    new = ax is None
    if ax is None:
        ax = style.new_axes(5.8, 4.2)
    handles: dict[str, Any] = {}
    edges = []
    for name, curve, look in curves:
        if curve is None:
            continue
        counts, accuracies = curve
        mean, spread = accuracies.mean(axis=0), _spread(accuracies)
        (handles[name],) = ax.plot(counts, mean, zorder=3, **look)
        if spread.any():
            band: dict[str, Any] = dict(color=look["color"], alpha=0.15, linewidth=0)
            ax.fill_between(counts, mean - spread, mean + spread, zorder=2, **band)
        edges += [mean - spread, mean + spread]
    every_count = sorted({int(k) for counts, _ in known for k in counts})
    accuracies = np.concatenate(edges)
    if ceiling is not None:
        handles[style.CEILING] = ax.axhline(100 * ceiling, color=style.SOFT, linestyle="--", linewidth=1.0, zorder=1)
        accuracies = np.append(accuracies, 100 * ceiling)
    _set_accuracies(ax, accuracies)
    margin = 0.04 * max(every_count[-1] - every_count[0], 1)
    ax.set_xlim(every_count[0] - margin, every_count[-1] + margin)
    ax.set_xticks(every_count, [str(k) for k in every_count])
    several = {len(accuracies) for _, accuracies in known if len(accuracies) > 1}
    if len(several) == 1:  # the same for all that have a band
        _write_note(ax, f"bands: 1 standard deviation of {several.pop()} runs")
    _finish(ax, "concepts that each class may use", handles, new, legend)
    return ax


def _with_concepts(name: str, pair: Any) -> np.ndarray:
    """Points ``(p, 2)`` with at least one concept, the accuracy in per cent; none of a method without runs."""
    if not any(np.size(values) for values in pair):
        return np.empty((0, 2))
    points = run_points(name, pair, "concepts per class")
    return points[points[:, 0] > 0]


def _curve(name: str, runs: Sequence[Mapping[int, float]]) -> tuple[np.ndarray, np.ndarray] | None:
    """Numbers of concepts ``(K,)`` and accuracies in per cent ``(r, K)`` of a method; ``None`` without any."""
    measured = [dict(one) for one in runs if one]
    if not measured:
        return None
    counts = sorted(measured[0])
    if any(sorted(one) != counts for one in measured):
        raise ChoqolateError(f"{name}: expected runs measured with the same numbers of concepts, got different ones.")
    pairs = [run_points(name, (counts, [one[k] for k in counts]), "numbers of concepts") for one in measured]
    return np.array(counts), np.stack([points[:, 1] for points in pairs])


def _spread(accuracies: np.ndarray) -> np.ndarray:
    spread: np.ndarray = accuracies.std(axis=0, ddof=1) if len(accuracies) > 1 else np.zeros(accuracies.shape[1])
    return spread


def _draw_cloud(ax: Axes, points: np.ndarray, place: int) -> Any:
    """Small marks for runs, a large one for their mean, which stands for them in the legend."""
    look = style.mark_of(place) | {"linestyle": "none"}
    if len(points) > 1:
        small = look | dict(markerfacecolor=look["color"], markeredgewidth=0)
        ax.plot(*points.T, markersize=_RUN * scale(), alpha=0.5, zorder=3, **small)
    (handle,) = ax.plot(*points.mean(axis=0)[:, None], markersize=1.2 * _POINT * scale(), zorder=4, **look)
    return handle


def _draw_path(ax: Axes, points: np.ndarray, place: int) -> Any:
    """A line in the look that sparse logistic regression has in other figures."""
    (handle,) = ax.plot(*points.T, zorder=2.5, **_path_look(place))
    return handle


def _line_look(place: int) -> dict[str, Any]:
    return style.mark_of(place) | dict(linestyle="-", linewidth=_LINE, markersize=0.8 * _POINT * scale())


def _path_look(place: int) -> dict[str, Any]:
    colour, marker, dashes = list(style.RIVALS.values())[place % len(style.RIVALS)]
    size: dict[str, Any] = dict(linewidth=_LINE, markersize=0.8 * _POINT * scale(), markeredgewidth=scale())
    return dict(color=colour, marker=marker, linestyle=dashes, **size)


def _set_accuracies(ax: Axes, values: np.ndarray) -> None:
    """Limits around accuracies in per cent that do not blow up small differences."""
    low, high = float(values.min()), float(values.max())
    room = max(_ROOM * (high - low), (_LEAST_RANGE - (high - low)) / 2)
    top = min(high + room, max(100.0, high) + room / 2)
    ax.set_ylim(min(low - room, top - _LEAST_RANGE), top)


def _set_log_counts(ax: Axes, counts: np.ndarray) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    ax.set_xscale("log")
    ax.set_xlim(counts.min() / 1.25, counts.max() * 1.25)
    ax.xaxis.set_major_locator(FixedLocator(_TICKS))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())


def _write_note(ax: Axes, text: str) -> None:
    """Small words below the axes, at the right."""
    below = (0, -LINE * (font(_FONT) + font(_FONT + 1)) - 12)  # ticks and the name of the axis lie between
    place: dict[str, Any] = dict(xytext=below, textcoords="offset points", ha="right", va="top")
    ax.annotate(text, (1, 0), xycoords="axes fraction", fontsize=font(_FONT - 2), color=style.SOFT, **place)


def _finish(ax: Axes, x: str, handles: dict[str, Any], new: bool, legend: bool) -> None:
    """Names of the axes, ticks that do not run together, and on request a legend."""
    for name, handle in handles.items():
        handle.set(label=name, gid=NAMED)
    ax.set_xlabel(x, fontsize=font(_FONT + 1))
    ax.set_ylabel("accuracy (%)", fontsize=font(_FONT + 1))
    ax.tick_params(labelsize=font(_FONT))
    style.plain_frame(ax)
    make_room(ax)
    _, height = style.size_in_points(ax)
    ax.locator_params(axis="y", nbins=max(int(height / (2.5 * font(_FONT))), 1))
    no_ticks_beyond_all(ax)
    if legend:
        legend_beside(ax, list(handles.values()), list(handles), new, font(_FONT))
