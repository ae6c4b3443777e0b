"""Three concepts, their correlation and the diagonal stand as in the table; nothing overlaps."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("agg")

import matplotlib.pyplot as plt

from choqolate import ConceptScores
from choqolate.plots.concept_triples import draw_triple
from tests.figures import assert_readable, texts_within

ODD = ("price $5 to $10", "_hidden", "x" * 80)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def table(n_classes=3, concepts=("sea", "lake", "river"), n_rows=300):
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(n_rows, 1))
    scores = 0.2 + 0.03 * (shared * [1.0, 2.0, 0.5] + 0.4 * rng.normal(size=(n_rows, 3)))
    names = [ODD[k] if k < 3 and concepts is ODD else f"kind {k}" for k in range(n_classes)]
    return ConceptScores(scores, concepts, labels=[names[row % n_classes] for row in range(n_rows)])


def all_texts(figure):
    (legend,) = figure.legends
    heading = [figure._suptitle] if figure._suptitle else []
    return [*heading, *legend.get_texts(), *(text for ax in figure.axes for text in texts_within(ax))]


def test_panels_have_the_scores_the_correlations_and_the_line():
    scores, direction = table(), np.array([0.6, 0.6, 0.5])
    figure = draw_triple(scores, ("sea", "lake", "river"), direction)
    X = scores.scores
    for ax, (j, l) in zip(figure.axes, [(0, 1), (0, 2), (1, 2)], strict=True):
        points = np.concatenate([np.asarray(marks.get_offsets()) for marks in ax.collections])
        np.testing.assert_allclose(np.sort(points, axis=0), np.sort(X[:, [j, l]], axis=0))
        assert ax.get_title(loc="left") == f"r = {np.corrcoef(X[:, j], X[:, l])[0, 1]:.2f}"
        (line,) = ax.lines
        (x0, x1), (y0, y1) = line.get_data()
        slope = direction[l] * X[:, l].std() / (direction[j] * X[:, j].std())
        assert (y1 - y0) / (x1 - x0) == pytest.approx(slope)
        np.testing.assert_allclose((y0 - X[:, l].mean()) / (x0 - X[:, j].mean()), slope)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "kind 0",
        "kind 1",
        "kind 2",
        "shared diagonal",
    ]


@pytest.mark.parametrize("n_classes", [2, 12])
@pytest.mark.parametrize("concepts", [("sea", "lake", "river"), ODD])
def test_names_of_any_kind_stay_apart(n_classes, concepts):
    figure = draw_triple(table(n_classes, concepts), concepts, np.array([0.6, 0.6, 0.5]), concepts[0])
    assert figure.get_suptitle() == concepts[0]
    assert_readable(figure, all_texts(figure))
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert ("other classes" in said) == (n_classes > 8)
    assert len(said) == min(n_classes, 9 if n_classes > 8 else n_classes) + 1
