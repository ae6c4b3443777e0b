"""Settings stand where their numbers say; what was chosen is marked and named; nothing overlaps."""

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("agg")

import matplotlib.pyplot as plt

from choqolate import ChoqolateError, plots
from choqolate.analysis.trade_off import RivalPoint, TradeOff
from choqolate.estimators.search_record import Search, Trial
from tests.figures import assert_readable, texts_within

LABELS = ["concepts per class", "Attribution Gini", "Node Coherence", "number of nodes"]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def make_result(seed=0, paper=True, coherence=True):
    rng = np.random.default_rng(seed)

    def trial(n_nodes, interactions, temperature, bipolar=False):
        sparse = 12 * temperature + 0.1 * rng.random()
        return Trial(
            n_nodes=n_nodes,
            interactions=interactions,
            class_interactions=None,
            bipolar=bipolar,
            temperature=temperature,
            accuracy=0.9 - 0.5 * sparse**2 - 0.1 * rng.random(),
            gini=0.5 + 0.6 * sparse,
            coherence=0.2 + 0.3 * rng.random() if coherence else None,
            concepts_per_class=40 - 50 * sparse,
            n_parameters=100,
        )

    trials = [trial(None, "none", T) for T in (0.005, 0.01, 0.02, 0.05)]
    trials += [trial(None, "none", 0.02, bipolar=True)]
    trials += [trial(n_nodes, "none", T) for n_nodes in (8, 16) for T in (0.005, 0.01, 0.02)]
    trials += [trial(n_nodes, "pairwise", T) for n_nodes in (8, 16) for T in (0.005, 0.02)]
    own = replace(trials[-4], accuracy=0.75, gini=0.7) if paper else None
    search = Search(tuple(trials), 2, own, "clusters", "cosine", "", 0.01, 500, 5, False, (), 1.0)
    path = tuple(
        RivalPoint(
            "l1", 0.1 / 2**k, None, 0.3 + 0.5 * (1 - 0.6**k), None if k == 0 else 0.99 - 0.04 * k, 2.0 * k, 2.0 * k
        )
        for k in range(9)
    )
    return TradeOff(search, path, tuple(replace(point, accuracy=point.accuracy + 0.03) for point in path), 0.92)


def lines_named(ax, name):
    return [line for line in ax.lines if line.get_gid() == name]


def test_every_setting_is_a_point_in_every_panel():
    result = make_result()
    axes = plots.trade_off(result)
    assert [ax.get_xlabel() for ax in axes] == LABELS
    for ax, name in zip(axes[:3], ("concepts_per_class", "gini", "coherence"), strict=True):
        points = [(line.get_xdata()[0], line.get_ydata()[0]) for line in lines_named(ax, "trial")]
        assert points == [(getattr(t, name), pytest.approx(100 * t.accuracy)) for t in result.search.trials]
    assert axes[0].get_xscale() == "log"
    for line, trial in zip(lines_named(axes[3], "trial"), result.search.trials, strict=True):
        assert round(line.get_xdata()[0]) == [None, 8, 16].index(trial.n_nodes)
    assert [text.get_text() for text in axes[3].get_xticklabels()] == ["one layer", "8", "16"]


def test_kinds_differ_in_marker_and_temperatures_in_color():
    result = make_result()
    marks = lines_named(plots.trade_off(result)[0], "trial")
    for line, trial in zip(marks, result.search.trials, strict=True):
        kind = "o" if trial.n_nodes is None else "s" if trial.interactions == "none" else "^"
        assert line.get_marker() == kind
        assert (line.get_markerfacecolor() == "white") is trial.bipolar
    colors = {trial.temperature: line.get_color() for line, trial in zip(marks, result.search.trials, strict=True)}
    assert len(set(colors.values())) == len(colors) == 4


@pytest.mark.parametrize("seed", range(4))
def test_what_was_chosen_is_ringed_and_named(seed):
    result = make_result(seed)
    axes = plots.trade_off(result)
    for ax in axes:
        (ring,) = lines_named(ax, "chosen")
        assert ring.get_ydata()[0] == pytest.approx(100 * result.search.choice.accuracy)
        assert ring.get_markerfacecolor() == "none"
        assert len(lines_named(ax, "paper")) == 1
        assert sorted(text.get_text() for text in ax.texts) == ["chosen", "paper"]
        low, high = ax.get_ylim()
        assert all(low < line.get_ydata()[0] < high for line in lines_named(ax, "trial"))
        left, right = ax.get_xlim()
        assert all(left < line.get_xdata()[0] < right for line in lines_named(ax, "trial"))


def test_fronts_rivals_and_ceiling_are_lines():
    result = make_result()
    axes = plots.trade_off(result)
    for ax, name in zip(axes[:3], ("concepts_per_class", "gini", "coherence"), strict=True):
        (front,) = lines_named(ax, "CHOQOLATE, best for its sparsity")
        expected = [(getattr(t, name), 100 * t.accuracy) for t in result.front(name)]
        np.testing.assert_allclose(np.column_stack(front.get_data()), expected)
    for place, ax in enumerate(axes):
        rivals = [lines_named(ax, name) for name in ("l1 logistic regression", "l1 logistic regression, refitted")]
        assert [len(found) for found in rivals] == ([1, 1] if place < 2 else [0, 0])
        assert any(
            (np.asarray(line.get_ydata()) == pytest.approx(92.0)) and line.get_gid() is None for line in ax.lines
        )
    assert len(lines_named(axes[0], "l1 logistic regression")[0].get_xdata()) == 8  # one has no concepts at all
    (legend,) = axes[0].figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert {"l1 logistic regression", "one layer", "nodes of pairs", "temperature 0.02"} <= set(names)


@pytest.mark.parametrize("size", [10, 7])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_overlaps(seed, size):
    with plt.rc_context({"font.size": size}):
        axes = plots.trade_off(make_result(seed))
        figure = axes[0].figure
        legend = figure.legends[0].get_texts()
        assert_readable(figure, [*legend, *(text for ax in axes for text in texts_within(ax))])


@pytest.mark.parametrize("layout", [None, "constrained"])
@pytest.mark.parametrize("panel", ["concepts_per_class", "gini", "coherence", "n_nodes"])
def test_a_panel_fits_into_the_column_of_a_paper(panel, layout):
    figure, ax = plt.subplots(figsize=(3.3, 2.2), layout=layout)
    (drawn,) = make_result().plot(ax, panels=[panel])
    assert drawn is ax
    assert_readable(figure, texts_within(ax))


def test_without_paper_or_coherence():
    axes = plots.trade_off(make_result(paper=False, coherence=False))
    assert [text.get_text() for text in axes[0].texts] == ["chosen"]
    assert lines_named(axes[2], "trial") == []


def test_there_must_be_axes_for_every_panel():
    _, ax = plt.subplots()
    with pytest.raises(ChoqolateError, match="as many axes as panels"):
        plots.trade_off(make_result(), ax)
    with pytest.raises(ChoqolateError, match="panels"):
        plots.trade_off(make_result(), panels=["beauty"])
