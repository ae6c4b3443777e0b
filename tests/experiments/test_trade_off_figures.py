"""Panels of accuracy against quality share a legend, which covers nothing, and looks, whatever is undefined."""

from __future__ import annotations

from math import nan

import matplotlib as mpl
import pytest

mpl.use("agg")

import matplotlib.pyplot as plt

from choqolate.experiments.engine.trade_off_figures import trade_off_grid
from tests.figures import assert_readable, texts_within


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def panel(n_methods, undefined=()):
    """Methods near each other, in all corners, and at the edges of what is possible."""
    x = [0.1 + 0.8 * (k % 3) / 2 for k in range(n_methods)]
    y = [(0.2, 0.5, 0.99)[k // 3 % 3] for k in range(n_methods)]
    runs = {f"{k}: 1st and 2nd, softmax": ([x[k], x[k] + 0.02], [y[k], y[k] + 0.01]) for k in range(n_methods)}
    return runs | {name: ([nan, nan], pair[1]) for name, pair in runs.items() if name[0] in undefined}


def looks(ax):
    return {line.get_label(): (line.get_color(), line.get_marker()) for line in ax.lines}


@pytest.mark.parametrize("n_methods", [1, 3, 9])
@pytest.mark.parametrize("titles", [["own"], ["own (pseudo-labels), 5 classes", "b" * 50, "$x"]])
@pytest.mark.parametrize("down", [False, True])
def test_one_legend_stands_below_all_panels(n_methods, titles, down):
    figure = trade_off_grid({title: {"Gini": panel(n_methods), "$y": panel(n_methods)} for title in titles}, down=down)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(panel(n_methods))
    assert all(ax.get_legend() is None for ax in figure.axes)
    figure.draw_without_rendering()  # the layout decides on the ticks
    assert_readable(figure, [*legend.get_texts(), *(text for ax in figure.axes for text in texts_within(ax))])
    lowest = min(ax.get_tightbbox().y0 for ax in figure.axes)
    assert legend.get_window_extent().y1 <= lowest + 1
    assert all(ax.get_window_extent().height > 1.5 * figure.dpi for ax in figure.axes)


def test_methods_look_the_same_in_every_panel_and_in_the_legend():
    figure = trade_off_grid({"own": {"Gini": panel(5), "recur": panel(5, undefined="02")}})
    full, part = map(looks, figure.axes)
    assert len(set(full.values())) == 5
    assert part == {name: look for name, look in full.items() if name[0] not in "02"}
    (legend,) = figure.legends
    named = zip(legend.get_texts(), legend.get_lines(), strict=True)
    assert {text.get_text(): (line.get_color(), line.get_marker()) for text, line in named} == full


def test_panels_with_other_methods_do_not_share_looks():
    figure = trade_off_grid({"a": {"Gini": {"one": ([0.5], [0.5])}}, "b": {"Gini": {"two": ([0.5], [0.5])}}}, down=True)
    assert len({*looks(figure.axes[0]).values(), *looks(figure.axes[1]).values()}) == 2
    assert len(figure.legends[0].get_texts()) == 2


def test_a_panel_without_numbers_is_empty():
    figure = trade_off_grid({"own": {"Gini": panel(3), "recur": panel(3, undefined="012")}})
    assert [ax.axison for ax in figure.axes] == [True, False]
    nothing = trade_off_grid({"own": {"Gini": panel(3, undefined="012")}})
    assert nothing.legends == []
