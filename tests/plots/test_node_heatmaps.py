"""Cells have the shares of the nodes; the concepts without a row are summed; nothing overlaps."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("agg")

import matplotlib.pyplot as plt

from choqolate.plots.node_heatmaps import node_heatmaps
from tests.figures import assert_readable, texts_within


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def names_of(figure):
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


def cells(ax):
    return np.concatenate([np.asarray(mesh.get_array()).reshape(mesh.get_array().shape) for mesh in ax.collections])


def test_cells_are_shares_of_each_node_with_the_rest_in_one_row():
    rng = np.random.default_rng(0)
    signed, sparse = rng.normal(size=(5, 40)), rng.gamma(0.1, size=(5, 40))
    concepts = [f"word {j}" for j in range(40)]
    figure = node_heatmaps({"linear": signed, "ours": sparse}, concepts)
    names = names_of(figure)
    assert len(names) == 25
    assert names[-1] == "16 other concepts, sum"
    for ax, W in zip(figure.axes, (signed, sparse), strict=False):
        shares = np.abs(W) / np.abs(W).sum(axis=1, keepdims=True)
        shown = shares[:, [concepts.index(name) for name in names[:-1]]].T
        np.testing.assert_allclose(cells(ax), np.vstack([shown, 1 - shown.sum(axis=0)]))
        written = sorted(int(text.get_text()) for text in ax.texts)
        assert written == sorted(round(100 * value) for value in cells(ax).flat if value >= 0.05)
    for W in (signed, sparse):  # the leading concepts of both are among those shown
        shares = np.abs(W) / np.abs(W).sum(axis=1, keepdims=True)
        assert {concepts[j] for j in np.argsort(-shares.max(axis=0))[:10]} <= set(names)
    assert_readable(figure, [text for ax in figure.axes for text in texts_within(ax)])


def test_few_concepts_all_have_a_row_and_a_node_without_weights_is_empty():
    W = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
    figure = node_heatmaps({"a": W, "b": W[:1]}, ["$x$", "_y", "z" * 60], "scores of $5 (pseudo-labels)")
    assert len(names_of(figure)) == 3
    np.testing.assert_array_equal(cells(figure.axes[0])[:, 1], 0)
    assert " ".join(figure.get_suptitle().split()) == "scores of $5 (pseudo-labels)"
    assert_readable(figure, [figure._suptitle, *(text for ax in figure.axes for text in texts_within(ax))])
