"""Accuracy against few concepts: marks and lines where the numbers say, with the same look in every figure."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("agg")

import matplotlib.pyplot as plt
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba

from choqolate import ChoqolateError
from choqolate.plots import accuracy_against_concepts, accuracy_against_quality, accuracy_at_concepts, legend_below
from choqolate.plots.style import CEILING, RIVALS
from tests.figures import assert_readable, texts_within

RUNS = {
    "CHOQOLATE": ([12.0, 14.0, 16.0], [0.52, 0.53, 0.55]),
    "PCBM": ([60.0, 62.0, 61.0], [0.47, 0.48, 0.46]),
    "one run": ([30.0], [0.5]),
}
PATHS = {
    "l1 logistic regression": ([2.0, 5.0, 20.0], [0.26, 0.43, 0.58]),
    "refitted": ([2.0, 7.0, 24.0], [0.33, 0.48, 0.59]),
}
CURVES = {
    "CHOQOLATE": [{5: 0.40, 10: 0.50, 30: 0.54}, {5: 0.44, 10: 0.52, 30: 0.56}],
    "PCBM": [{5: 0.19, 10: 0.25, 30: 0.39}, {5: 0.21, 10: 0.27, 30: 0.35}],
    "one run": [{5: 0.30, 10: 0.38, 30: 0.55}],
}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def looks(ax):
    """Color and marker of each name in the legend."""
    legend = ax.get_legend()
    names = [text.get_text() for text in legend.get_texts()]
    return {name: (line.get_color(), line.get_marker()) for name, line in zip(names, legend.get_lines(), strict=True)}


def test_runs_are_a_cloud_around_their_mean_and_paths_are_lines():
    ax = accuracy_against_concepts(RUNS, paths=PATHS, ceiling=0.6)
    drawn = [np.column_stack(line.get_data()) for line in ax.lines]
    expected = []
    for x, y in RUNS.values():
        expected += [np.column_stack([x, 100 * np.array(y)])] if len(x) > 1 else []
        expected += [[[np.mean(x), 100 * np.mean(y)]]]
    expected += [np.column_stack([x, 100 * np.array(y)]) for x, y in PATHS.values()]
    for points, wanted in zip(drawn[:-1], expected, strict=True):
        np.testing.assert_allclose(points, wanted)
    assert drawn[-1][:, 1].tolist() == [60, 60]
    assert list(looks(ax)) == [*RUNS, *PATHS, CEILING]
    assert ax.get_xscale() == "log"
    assert "small marks: single runs" in ax.texts[0].get_text()
    low, high = ax.get_xlim()
    assert low < 2 < 62 < high
    assert ax.get_ylim()[0] < 26 < 60 < ax.get_ylim()[1]


def test_curves_are_means_with_bands_of_one_standard_deviation():
    ax = accuracy_at_concepts(CURVES, ceiling=0.6)
    for line, runs in zip(ax.lines, CURVES.values(), strict=False):
        assert line.get_xdata().tolist() == [5, 10, 30]
        np.testing.assert_allclose(line.get_ydata(), [100 * np.mean([run[k] for run in runs]) for k in (5, 10, 30)])
    bands = [band for band in ax.collections if isinstance(band, PolyCollection)]
    assert len(bands) == 2  # one run has no deviation
    for band, runs in zip(bands, CURVES.values(), strict=False):
        corners = band.get_paths()[0].vertices
        for k in (5, 10, 30):
            values = np.array([100 * run[k] for run in runs])
            edges = corners[corners[:, 0] == k, 1]
            spread = np.sqrt(((values - values.mean()) ** 2).sum() / (len(values) - 1))
            np.testing.assert_allclose([edges.min(), edges.max()], [values.mean() - spread, values.mean() + spread])
    assert [text.get_text() for text in ax.get_xticklabels()] == ["5", "10", "30"]
    assert ax.texts[0].get_text() == "bands: 1 standard deviation of 2 runs"
    assert list(looks(ax)) == [*CURVES, CEILING]


def test_a_method_looks_the_same_in_every_figure():
    points, curves = looks(accuracy_against_concepts(RUNS, paths=PATHS)), looks(accuracy_at_concepts(CURVES))
    quality = accuracy_against_quality({name: (np.array(x) / 100, y) for name, (x, y) in RUNS.items()})
    for line, name in zip(quality.lines, RUNS, strict=True):
        assert points[name] == curves[name] == (line.get_color(), line.get_marker())
    assert [points[name] for name in PATHS] == [(colour, marker) for colour, marker, _ in RIVALS.values()]
    assert len(set(points.values())) == len(points)


def test_what_was_not_measured_is_left_out_and_keeps_its_place():
    ax = accuracy_against_concepts({"empty": ([0.0], [0.1])} | RUNS)
    assert list(looks(ax)) == list(RUNS)
    assert looks(ax)["PCBM"] == looks(accuracy_against_concepts({"other": RUNS["one run"]} | RUNS))["PCBM"]
    assert list(looks(accuracy_at_concepts({"nothing": [], "nor here": [{}]} | CURVES))) == list(CURVES)


@pytest.mark.parametrize("given", [False, True])
def test_all_is_readable(given):
    odd = {"price $5 to $10": RUNS["PCBM"], "_hidden": RUNS["one run"]}
    for ax in (
        accuracy_against_concepts(RUNS | odd, plt.figure().subplots() if given else None, paths=PATHS, ceiling=0.6),
        accuracy_at_concepts(CURVES, plt.figure().subplots() if given else None, ceiling=0.6),
    ):
        assert_readable(ax.figure, texts_within(ax))
        assert not any(text.get_parse_math() for text in ax.get_legend().get_texts())


def test_several_axes_share_a_legend():
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    accuracy_against_concepts(RUNS | {"_hidden": RUNS["one run"]}, axes[0], paths=PATHS, ceiling=0.6, legend=False)
    accuracy_at_concepts(CURVES, axes[1], ceiling=0.6, legend=False)
    legend_below(axes)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [*RUNS, "_hidden", *PATHS, CEILING]
    assert all(ax.get_legend() is None for ax in axes)
    assert_readable(figure, [*legend.get_texts(), *texts_within(axes[0]), *texts_within(axes[1])])


def test_paths_have_the_same_look_in_both_axes():
    curves = {name: [{5: 0.3, 10: 0.4}] for name in PATHS}
    for runs in (RUNS, RUNS | {f"own {k}": ([3.0], [0.4]) for k in range(6)}):
        left = accuracy_against_concepts(runs, paths=PATHS)
        right = accuracy_at_concepts({name: [{5: 0.2, 10: 0.3}] for name in runs}, paths=curves)
        assert looks(left) == looks(right)
        styles = [{line.get_label(): line.get_linestyle() for line in ax.lines} for ax in (left, right)]
        assert all(
            styles[0][name] == styles[1][name] == RIVALS[rival][2] for name, rival in zip(PATHS, RIVALS, strict=True)
        )


def test_marks_of_rivals_are_the_same_in_both_axes_and_in_the_legend():
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    accuracy_against_concepts(RUNS, axes[0], paths=PATHS, legend=False)
    curves = {name: [{5: 0.3, 10: 0.4}] for name in PATHS}
    accuracy_at_concepts({name: [{5: 0.2, 10: 0.3}] for name in RUNS}, axes[1], paths=curves, legend=False)
    legend_below(axes)

    def marks(lines, names):
        assert {name for name in names if name in PATHS} == set(PATHS)
        kinds = ("color", "marker", "markersize", "markeredgewidth", "linestyle", "linewidth")
        return {
            name: [getattr(line, f"get_{kind}")() for kind in kinds]
            for line, name in zip(lines, names, strict=True)
            if name in PATHS
        }

    left, right = (marks(ax.lines, [line.get_label() for line in ax.lines]) for ax in axes)
    (legend,) = figure.legends
    assert left == right == marks(legend.get_lines(), [text.get_text() for text in legend.get_texts()])


def test_large_marks_in_the_same_place_show_through():
    ax = accuracy_against_concepts({"one": RUNS["PCBM"], "two": RUNS["PCBM"]})
    large = [line for line in ax.lines if line.get_label() in ("one", "two")]
    assert len(large) == 2
    for line in large:
        assert to_rgba(line.get_markerfacecolor())[3] < 0.5
        assert to_rgba(line.get_markeredgecolor()) == to_rgba(line.get_color())


def test_rows_of_a_shared_legend_are_about_as_long():
    _, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
    for ax in axes:
        accuracy_against_concepts(
            {f"a method with a long name {k}": RUNS["one run"] for k in range(4)}, ax, legend=False
        )
    legend_below(axes)
    axes[0].figure.draw_without_rendering()
    heights = [round(text.get_window_extent().y0) for text in axes[0].figure.legends[0].get_texts()]
    assert sorted(heights.count(height) for height in set(heights)) == [2, 2]


def test_a_method_without_runs_is_left_out():
    ax = accuracy_against_concepts(RUNS | {"failed": ([], [])}, paths=PATHS | {"no path": ([], [])})
    assert list(looks(ax)) == [*RUNS, *PATHS]


def test_accuracies_beyond_all_have_no_ticks_and_small_differences_stay_small():
    ax = accuracy_at_concepts({"a": [{5: 0.998, 10: 0.999}], "b": [{5: 0.997, 10: 1.0}]})
    low, high = ax.get_ylim()
    assert high - low >= 4
    assert max(tick for tick in ax.get_yticks() if tick <= high) <= 100


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: accuracy_against_concepts({}), "Expected runs or paths"),
        (lambda: accuracy_against_concepts({"a": ([0.0], [0.5])}), "Expected runs or paths"),
        (lambda: accuracy_against_concepts({"a": ([1.0, 2.0], [0.5])}), "a: expected concepts per class and accuracy"),
        (lambda: accuracy_against_concepts({}, paths={"b": ([1.0], [50.0])}), "b: expected accuracy from 0 to 1"),
        (lambda: accuracy_at_concepts({"a": []}), "of at least one run"),
        (lambda: accuracy_at_concepts({"a": [{5: 0.1}, {6: 0.1}]}), "a: expected runs measured with the same numbers"),
        (lambda: accuracy_at_concepts({"a": [{5: float("nan")}]}), "a: expected numbers, got NaN"),
    ],
)
def test_runs_that_are_none_are_errors(draw, message):
    with pytest.raises(ChoqolateError, match=message):
        draw()
    assert plt.get_fignums() == []
