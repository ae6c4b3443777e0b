"""The figures of the gradient analysis show what was measured; nothing overlaps, whatever the names."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("agg")

import matplotlib.pyplot as plt

from choqolate import ConceptScores
from choqolate.analysis.gradient_course import PAPER, PLAIN, GradientRows, at_end, factor_sizes, follow_training
from choqolate.plots import gradient_panels
from tests.figures import assert_readable, texts_within


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def course():
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    scores = rng.uniform(size=(90, 6))
    scores[np.arange(90), labels] += 1.0
    concepts = ["price $5", "_hidden", "x" * 60, "sea", "crest", "שלום"]
    names = ["a $1", "_b", "c" * 70]
    table = ConceptScores(scores, concepts, labels=[names[label] for label in labels])
    return follow_training(GradientRows.of(table), epochs=6)


def all_texts(figure):
    legends = [*figure.legends, *(ax.get_legend() for ax in figure.axes if ax.get_legend())]
    within = [text for ax in figure.axes for text in texts_within(ax)]
    return list(dict.fromkeys([*within, *(text for legend in legends for text in legend.get_texts())]))


@pytest.mark.parametrize("name", ["factors", "freezing", "temperatures", "anchors"])
def test_texts_stay_inside_and_apart(course, name):
    figure = getattr(gradient_panels, f"draw_{name}")(course)
    assert_readable(figure, all_texts(figure))


def test_curves_are_the_sizes_of_the_factors(course):
    figure = gradient_panels.draw_factors(course)
    for ax, names in zip(
        figure.axes, [["error"], ["small weights", "small gradients"], ["deviation", "weighted deviation"]], strict=True
    ):
        expected = [factor_sizes(course, run)[name] for run in (PAPER, PLAIN) for name in names]
        for line, values in zip(ax.lines, expected, strict=True):
            np.testing.assert_array_equal(line.get_ydata(), values)


def test_bars_are_the_gini_at_the_end(course):
    bars = gradient_panels.draw_temperatures(course).axes[1].patches
    assert [bar.get_width() for bar in bars] == [at_end(course, run).gini for run in range(4)]
