"""What a reader of the images relies on: order, colours, names that can be read, no figure left behind."""

import math
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from choqolate.analysis.evaluation import evaluate
from choqolate.data.scores import ConceptScores
from choqolate.estimators.table_training import fit_scores
from choqolate.explain.redundancy import check_redundancy
from choqolate.plots import correlation_heatmap


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def measured(n_concepts, names=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4)) @ rng.normal(size=(4, n_concepts)) + 0.1 * rng.normal(size=(60, n_concepts))
    return check_redundancy(X, names or [f"concept {j}" for j in range(n_concepts)])


def texts(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_rows_and_columns_stand_in_the_order_of_the_clustering():
    found = measured(8)
    ax = correlation_heatmap(found)
    image = ax.images[0]
    np.testing.assert_array_equal(image.get_array(), found.correlation[np.ix_(found.order, found.order)])
    wanted = [found.concepts[j] for j in found.order]
    assert texts(ax.xaxis) == texts(ax.yaxis) == wanted
    assert image.get_clim() == (-1, 1)
    low, middle, high = image.cmap([0.0, 0.5, 1.0])
    assert low[2] > low[0]  # blue below
    assert high[0] > high[2]  # red above
    assert min(middle[:3]) > 0.9  # white between


def test_it_draws_into_given_axes_and_opens_no_figure():
    figure = Figure(figsize=(4, 4))
    ax = figure.subplots()
    assert correlation_heatmap(measured(5), ax) is ax
    assert plt.get_fignums() == []
    figure.canvas.draw()


@pytest.mark.parametrize("n_concepts", [1, 2, 3, 30, 120])
def test_a_figure_of_its_own_shows_every_name_inside_and_apart(n_concepts):
    ax = correlation_heatmap(measured(n_concepts))
    assert len(texts(ax.yaxis)) == n_concepts
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in (*ax.get_yticklabels(), *ax.get_xticklabels(), ax.title)]
    frame = ax.figure.bbox
    for box in boxes:
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= frame.x1
        assert box.y1 <= frame.y1
    font = ax.get_yticklabels()[0].get_fontsize()
    assert font >= 5
    if n_concepts > 1:
        assert ax.get_window_extent().height / n_concepts / ax.figure.dpi * 72 >= font
    plt.close(ax.figure)


def test_small_axes_with_many_concepts_leave_names_out():
    ax = Figure(figsize=(4, 4)).subplots()
    found = measured(226)
    correlation_heatmap(found, ax)
    shown = texts(ax.yaxis)
    assert 10 < len(shown) < 60
    step = ax.get_yticks()[1]
    assert shown == [found.concepts[j] for j in found.order[:: int(step)]]
    assert ax.get_yticklabels()[0].get_fontsize() >= 5


def test_hundreds_of_concepts_do_not_make_a_poster():
    ax = correlation_heatmap(measured(400))
    assert max(ax.figure.get_size_inches()) < 30
    assert len(texts(ax.yaxis)) < 400


def test_odd_names_stay_text_and_short():
    names = ["price $5 to $10", r"$\frac", "x" * 200, "two\nlines", "a_b^c {}"]
    ax = correlation_heatmap(measured(5, names))
    ax.figure.canvas.draw()  # would fail on a formula that is none
    shown = set(texts(ax.yaxis))
    assert {"price $5 to $10", r"$\frac", "two lines", "a_b^c {}"} < shown
    assert max(map(len, shown)) <= 36
    assert "x" * 35 + "…" in shown
    assert not any(label.get_parse_math() for label in (*ax.get_xticklabels(), *ax.get_yticklabels()))


def test_constant_concepts_are_grey_and_explained():
    X = np.random.default_rng(0).normal(size=(30, 3))
    X[:, 1] = 0.5
    ax = correlation_heatmap(check_redundancy(X, ["sea", "flat", "lake"]))
    assert texts(ax.yaxis)[-1] == "flat"
    assert "grey: constant" in ax.get_title()
    red, green, blue, _ = ax.images[0].cmap(np.ma.masked)
    assert red == green == blue < 1
    assert not any("nan" in text.get_text() for text in ax.texts)


def test_few_concepts_have_their_numbers_in_the_cells():
    found = measured(3)
    ax = correlation_heatmap(found)
    assert sorted(text.get_text() for text in ax.texts) == sorted(f"{value:.2f}" for value in found.correlation.flat)
    assert len(correlation_heatmap(measured(30)).texts) == 0


def test_one_concept_has_no_mean():
    found = measured(1)
    assert math.isnan(found.mean)
    assert correlation_heatmap(found).get_title() == "1 concept"


def test_importing_the_module_does_not_load_matplotlib():
    script = "import choqolate.plots, sys; print([n for n in ('matplotlib', 'torch', 'pandas') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_figures_hang_off_the_objects_they_show():
    rng = np.random.default_rng(0)
    table = ConceptScores(rng.random((60, 3)), ["sea", "lake", "oak"], labels=["gull", "wren"] * 30)
    figure = Figure(figsize=(9, 3))
    left, middle, right = figure.subplots(1, 3)
    assert check_redundancy(table).plot_heatmap(ax=left) is left
    assert table.plot_scores(["sea", "oak"], ax=middle) is middle
    assert evaluate(fit_scores(table, n_nodes=3, epochs=2), table).plot_groups(ax=right) is right
    assert all(ax.has_data() for ax in (left, middle, right))
    assert plt.get_fignums() == []
