"""The figures of the gradient analysis show what was measured; nothing overlaps, whatever the names."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("agg")

import matplotlib.pyplot as plt

from choqolate import ConceptScores
from choqolate.analysis.gradient_course import (
    PAPER,
    PLAIN,
    Course,
    GradientRows,
    at_end,
    factor_sizes,
    follow_training,
)
from choqolate.plots import gradient_panels
from tests.figures import assert_readable, texts_within


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def course_of(epochs):
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    scores = rng.uniform(size=(90, 6))
    scores[np.arange(90), labels] += 1.0
    concepts = ["price $5", "_hidden", "x" * 60, "sea", "crest", "שלום"]
    names = ["a $1", "_b", "c" * 70]
    table = ConceptScores(scores, concepts, labels=[names[label] for label in labels])
    return follow_training(GradientRows.of(table), epochs=epochs)


@pytest.fixture(scope="module")
def course():
    return course_of(6)


def all_texts(figure):
    legends = [*figure.legends, *(ax.get_legend() for ax in figure.axes if ax.get_legend())]
    within = [text for ax in figure.axes for text in texts_within(ax)]
    named = [text for legend in legends for text in legend.get_texts()]
    return list(dict.fromkeys([*within, *named, *([figure._suptitle] if figure._suptitle else [])]))


@pytest.mark.parametrize("title", ["", "own (pseudo-labels)", "price $5 to $10 " * 12])
@pytest.mark.parametrize("name", ["factors", "freezing", "temperatures", "anchors"])
def test_texts_stay_inside_and_apart(course, name, title):
    figure = getattr(gradient_panels, f"draw_{name}")(course, title)
    assert_readable(figure, all_texts(figure))
    assert figure.get_suptitle().startswith(title[:16])


@pytest.mark.parametrize("epochs", [1, 2, 4, 10])
def test_ticks_are_whole_epochs_and_round_numbers_however_few_epochs_there_are(epochs):
    course = course_of(epochs)
    for name in ("factors", "freezing", "temperatures", "anchors"):
        figure = getattr(gradient_panels, f"draw_{name}")(course)
        assert_readable(figure, all_texts(figure))
        for ax in figure.axes:
            if ax.get_xlabel() == "epoch":
                assert all(float(tick).is_integer() for tick in ax.get_xticks())
            for axis in (ax.xaxis, ax.yaxis):
                if axis.get_scale() == "log":
                    low, high = axis.get_view_interval()
                    ticks = axis.get_majorticklocs()
                    assert len(ticks) >= (2 if high > 1.5 * low else 1)
                    assert low <= min(ticks) <= max(ticks) <= high
                    assert not len(axis.get_minorticklocs())


class Pulled(Course):
    """Pulls of a given size that begin so many times as large as they go on."""

    size, start = 1.0, 1.0

    def pulls(self, run):
        sizes = self.size * np.linspace(-1, 1, len(self.rows.concepts))
        return np.stack([self.start * sizes, *[sizes] * (len(self.theta) - 1)])


@pytest.mark.parametrize("size", [3e-4, 0.0123456, 0.0987654, 1.0, 456.0])
@pytest.mark.parametrize("start", [1, 300])
def test_pulls_of_any_size_have_few_short_ticks_and_the_scale_is_said(course, size, start):
    pulled = Pulled(*course)
    pulled.size, pulled.start = size, start
    figure = gradient_panels.draw_anchors(pulled)
    assert_readable(figure, all_texts(figure))
    for ax in figure.axes[2:]:
        low, high = ax.get_ylim()
        ticks = [
            text.get_text()
            for tick, text in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
            if low <= tick <= high
        ]
        assert 3 <= len(ticks) <= 15
        assert all(0 < len(text) <= 8 for text in ticks)
        assert ax.get_yscale() == ("symlog" if start > 1 else "linear")
        assert ax.get_ylabel() == ("pull (symlog)" if start > 1 else "pull")


def test_anchors_name_the_class(course):
    titles = [ax.get_title(loc="left") for ax in gradient_panels.draw_anchors(course).axes]
    last = course.rows.classes[-1][:5]
    assert [title[:11] for title in titles if title] == [f"class {last}"] * 2
    assert [title.split(", ")[-1] for title in titles if title] == ["T = 0.05", "T = 1"]


def test_freezing_says_the_temperature_and_what_the_gray_line_is(course):
    figure = gradient_panels.draw_freezing(course, "own")
    assert figure.get_suptitle().startswith("own, class ")
    assert "T = 1 (no temperature)" in figure.get_suptitle()
    (legend,) = figure.legends
    named = {text.get_text(): line for text, line in zip(legend.get_texts(), legend.get_lines(), strict=True)}
    said = named["weight × largest |pull|"]
    above = [ax for ax in figure.axes if ax.lines]
    assert len(above) == 4
    for ax in above:
        (line,) = ax.lines
        assert (line.get_color(), line.get_linewidth()) == (said.get_color(), said.get_linewidth())
        slope = line.get_ydata() / line.get_xdata()
        np.testing.assert_allclose(slope, slope[0])
        weights, gradients = np.concatenate([np.asarray(dots.get_offsets()) for dots in ax.collections]).T
        assert (gradients / weights).max() == pytest.approx(slope[0])


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
