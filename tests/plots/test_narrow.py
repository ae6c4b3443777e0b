"""The column of a paper: all that is written stays inside and apart, and letters are as large as matplotlib is told."""

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("agg")

import matplotlib.pyplot as plt

from choqolate import ChoqolateClassifier, ConceptScores, check_redundancy, evaluate, plots
from choqolate.explain import Interaction, explain_change, explain_local_change, explain_model
from choqolate.plots.style import font, scale
from tests.figures import assert_readable, texts_within

NAMES = (
    "sea",
    "a large lake with reeds",
    "long curved bill",
    "webbed or lobed feet",
    "slender neck",
    "forked tail",
    "bamboo forest in the mist",
    "stripe over the eye",
)
IMAGE = np.zeros((60, 80, 3))


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def drawings():
    """A function of the axes for every figure."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 160)
    X = pd.DataFrame(rng.random((160, len(NAMES))), columns=NAMES)
    X["sea"] += y
    X["long curved bill"] += 0.5 * (1 - y)
    labels = np.array(["landbird", "waterbird"])[y]
    groups = [
        f"{label} on {'water' if wet > 0.5 else 'land'}" for label, wet in zip(labels, rng.random(160), strict=True)
    ]
    table = ConceptScores(X.to_numpy(), NAMES, labels=labels, groups=groups)
    model = ChoqolateClassifier(n_nodes=8, epochs=15, temperature=0.05, track=True).fit(X, labels)
    edited = model.remove_concepts("sea", mode="impute")
    whole = explain_model(model, spurious=["sea"])
    pairs = [Interaction(NAMES[j], NAMES[j + 1], (-1) ** j * 0.05 * (j + 1)) for j in range(7)]
    connected = replace(whole, interactions=(tuple(sorted(pairs, key=lambda pair: -abs(pair.index))),) * 8)
    why, change = model.explain(X[:3], baseline="mean"), explain_local_change(X[:1], model, edited)
    results = {"as trained": evaluate(model, table, "all"), "sea removed": evaluate(edited, table, "all")}
    runs = {
        name: (at + 0.02 * rng.random(5), 0.8 + at / 9 + 0.02 * rng.random(5))
        for name, at in (("ours", 0.1), ("linear", 0.7))
    }
    return {
        "waterfall": lambda ax: plots.waterfall(why.contrast(), 1, ax),
        "waterfall of nodes": lambda ax: plots.waterfall(why.contrast(by="nodes"), 1, ax),
        "waterfall with image": lambda ax: plots.waterfall(why.contrast(), 1, ax, image=IMAGE),
        "change": lambda ax: plots.waterfall_change(change, 0, ax),
        "change with image": lambda ax: plots.waterfall_change(change, 0, ax, image=IMAGE),
        "word cloud": lambda ax: plots.word_cloud(whole, 0, ax),
        "word clouds": lambda ax: plots.word_clouds(whole, ax, colour="kind"),
        "word clouds before and after": lambda ax: plots.word_clouds_change(
            explain_change(model, edited), ax, nodes=[0]
        ),
        "bars": lambda ax: plots.attribution_bars(whole, 1, ax),
        "graph": lambda ax: plots.interaction_graph(connected, 1, ax),
        "flow": lambda ax: plots.class_flow(whole, ax),
        "groups": lambda ax: plots.group_accuracy(results, ax),
        "quality": lambda ax: plots.accuracy_against_quality(runs, ax),
        "concepts": lambda ax: plots.accuracy_against_concepts(
            {name: (100 * x, y / 2) for name, (x, y) in runs.items()},
            ax,
            paths={"l1 logistic regression": ([2, 9, 30], [0.2, 0.4, 0.45])},
            ceiling=0.5,
        ),
        "few concepts": lambda ax: plots.accuracy_at_concepts(
            {name: [dict(zip((5, 10, 15, 20, 25), y / 2, strict=True))] * 2 for name, (_, y) in runs.items()}, ax
        ),
        "scores": lambda ax: plots.concept_scores(table, NAMES[1:3], ax),
        "correlation": lambda ax: plots.correlation_heatmap(check_redundancy(table), ax),
        "dynamics": lambda ax: plots.training_dynamics(whole, 1, ax=ax),
    }


FIGURES = [
    "waterfall",
    "waterfall of nodes",
    "waterfall with image",
    "change",
    "change with image",
    "word cloud",
    "word clouds",
    "word clouds before and after",
    "bars",
    "graph",
    "flow",
    "groups",
    "quality",
    "concepts",
    "few concepts",
    "scores",
    "correlation",
    "dynamics",
]


@pytest.mark.parametrize("layout", [None, "constrained", "tight afterwards"])
@pytest.mark.parametrize("height", [2.2, 2.6])
@pytest.mark.parametrize("name", FIGURES)
def test_all_stays_inside_and_apart(drawings, name, height, layout):
    figure, ax = plt.subplots(figsize=(3.3, height), layout="constrained" if layout == "constrained" else None)
    assert drawings[name](ax) is ax
    if layout == "tight afterwards":
        figure.tight_layout()
    figure.draw_without_rendering()
    texts = texts_within(ax)
    assert_readable(figure, texts)
    assert min(text.get_fontsize() for text in texts) >= 5 - 1e-6


@pytest.mark.parametrize("name", FIGURES)
def test_letters_and_new_figures_follow_the_font_size(drawings, name):
    def drawn(size):
        with plt.rc_context({"font.size": size}):
            ax = drawings[name](None)
            assert_readable(ax.figure, texts_within(ax))
        return max(text.get_fontsize() for text in texts_within(ax)), ax.figure.get_size_inches()

    (large, at_ten), (small, at_seven) = drawn(10), drawn(7)
    assert small == pytest.approx(0.7 * large, rel=0.15)
    assert at_seven == pytest.approx(0.7 * at_ten, rel=0.1)


@pytest.mark.parametrize("name", FIGURES)
def test_axes_beside_others_stay_off_them(drawings, name):
    figure, axes = plt.subplots(2, 2, figsize=(9, 6.5))
    for ax in axes.flat:
        drawings[name](ax)
    figure.draw_without_rendering()
    assert_readable(figure, [text for ax in axes.flat for text in texts_within(ax)])


def test_the_scale_is_the_font_size_over_ten():
    assert scale() == 1
    with plt.rc_context({"font.size": 14}):
        assert (scale(), font(10)) == (1.4, 14)
    with plt.rc_context({"font.size": 3}):
        assert font(9) == 5
