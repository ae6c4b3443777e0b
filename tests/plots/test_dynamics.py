"""The lines are the history, and their names stand beside them."""

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.text import Text
from sklearn.datasets import load_wine

from choqolate import ChoqolateClassifier, ChoqolateError
from choqolate.explain.whole_model import ModelExplanation, explain_model
from choqolate.plots.attribution_curves import training_dynamics
from choqolate.plots.labels import pushed_apart


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def explained(history, names=None):
    history = np.asarray(history, dtype=float)
    _, n_nodes, n_concepts = history.shape
    return ModelExplanation(
        node_attributions=history[-1],
        class_attributions=np.full((2, n_nodes), 1 / n_nodes),
        concepts=tuple(names or (f"concept {j}" for j in range(n_concepts))),
        classes=("a", "b"),
        nodes=tuple(f"node name {n}" for n in range(n_nodes)),
        history=history,
    )


def random_history(n_concepts, epochs=30, seed=0):
    weights = np.random.default_rng(seed).normal(size=(epochs, 2, n_concepts)).cumsum(0)
    shares = np.exp(weights - weights.max(2, keepdims=True))
    return shares / shares.sum(2, keepdims=True)


def lines(ax):
    return {text.get_text(): line for text, line in zip(ax.texts, ax.lines, strict=True)}


def assert_names_can_be_read(ax):
    ax.figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in ax.texts]  # without the line that ties it
    for place, box in enumerate(boxes):
        assert box.x0 >= ax.transData.transform((ax.lines[0].get_xdata()[-1], 0))[0]
        assert box.x1 <= ax.figure.bbox.x1 + 1
        assert box.y0 >= -1
        assert box.y1 <= ax.figure.bbox.y1 + 1
        assert all(box.y0 > other.y1 - 1 or other.y0 > box.y1 - 1 for other in boxes[:place])


def test_lines_are_the_history_of_the_node():
    history = random_history(6)
    found = explained(history)
    ax = training_dynamics(found, 1, ["concept 4", "concept 0"])
    drawn = lines(ax)
    assert list(drawn) == ["concept 4", "concept 0"]
    for name, j in (("concept 4", 4), ("concept 0", 0)):
        np.testing.assert_array_equal(drawn[name].get_xdata(), np.arange(1, 31))
        np.testing.assert_array_equal(drawn[name].get_ydata(), history[:, 1, j])
    assert ax.get_title(loc="left") == "node 1: node name 1"


def test_by_default_those_that_lead_at_the_end_and_two_that_lost():
    history = np.zeros((4, 1, 12))
    history[-1, 0] = [0.3, 0.2, 0.15, 0.1, 0.05, *[0.01] * 7]
    history[0, 0] = 0.01
    history[0, 0, [0, 1, 2, 3, 4]] = 0.02
    history[1, 0, [7, 9, 11]] = 0.2, 0.5, 0.3  # once ahead; 9 and 11 most
    ax = training_dynamics(explained(history), 0)
    assert list(lines(ax)) == [f"concept {j}" for j in (0, 1, 2, 3, 4, 9, 11)]


def test_nobody_lost_where_the_leading_ones_always_led():
    history = np.tile(np.array([0.4, 0.3, 0.2, 0.06, 0.03, 0.01]), (5, 1, 1))
    assert len(training_dynamics(explained(history), 0).lines) == 5
    assert len(training_dynamics(explained(history[:, :, :2]), 0).lines) == 2


def test_lines_differ_in_style_and_colour():
    ax = training_dynamics(explained(random_history(30)), 0, [f"concept {j}" for j in range(30)])
    looks = {(line.get_color(), str(line._unscaled_dash_pattern)) for line in ax.lines}
    assert len(looks) == 30
    assert len({str(line._unscaled_dash_pattern) for line in ax.lines[:5]}) == 5


@pytest.mark.parametrize("n_concepts", [1, 2, 7, 40])
def test_names_are_apart_and_inside(n_concepts):
    found = explained(random_history(n_concepts), [f"a rather long name of concept {j}" for j in range(n_concepts)])
    found = replace(found, nodes=(", ".join(found.concepts[:3]),) * 2)
    ax = training_dynamics(found, 0, found.concepts)
    assert len(ax.texts) == n_concepts
    assert_names_can_be_read(ax)
    title = ax._left_title.get_window_extent()
    assert title.x1 <= ax.figure.bbox.x1 + 1
    assert title.y1 <= ax.figure.bbox.y1 + 1


def test_names_of_lines_that_end_together_are_apart():
    ax = training_dynamics(explained(np.full((5, 1, 6), 1 / 6)), 0, [f"concept {j}" for j in range(6)])
    assert_names_can_be_read(ax)


def test_names_point_at_the_ends_of_their_lines():
    found = explained(random_history(5))
    ax = training_dynamics(found, 0)
    for name, line in lines(ax).items():
        text = next(text for text in ax.texts if text.get_text() == name)
        assert text.xy == (30, line.get_ydata()[-1])
        assert mpl.colors.same_color(text.arrow_patch.get_edgecolor(), line.get_color())


def test_odd_names_stay_text():
    odd = ["price $5 to $10", r"$\frac$ <b>", "_hidden", "\N{BIRD} gull", "שלום", "x" * 80]
    found = replace(explained(random_history(6), odd), nodes=(r"$\frac$, _hidden", "b"))
    ax = training_dynamics(found, 0, odd)
    assert_names_can_be_read(ax)
    shown = {text.get_text() for text in ax.texts}
    assert {"price $5 to $10", r"$\frac$ <b>", "_hidden"} < shown
    assert not any(text.get_parse_math() for text in (*ax.texts, ax._left_title))


def test_given_axes_are_drawn_into_and_keep_all_names_inside():
    figure = Figure(figsize=(3, 1.2))
    ax = figure.subplots()
    found = explained(random_history(20), [f"a rather long name of concept {j}" for j in range(20)])
    assert training_dynamics(found, 0, found.concepts, ax=ax) is ax
    assert plt.get_fignums() == []
    assert 1 <= len(ax.texts) < 20  # the others have no room
    assert_names_can_be_read(ax)
    ends = found.history[-1, 0]
    assert {text.xy[1] for text in ax.texts} == set(sorted(ends)[-len(ax.texts) :])


def test_a_single_epoch_is_a_point():
    ax = training_dynamics(explained(random_history(3, epochs=1)), 0)
    assert all(line.get_marker() == "o" for line in ax.lines)
    assert ax.get_xticks().tolist() == [1]
    assert_names_can_be_read(ax)


def test_ticks_are_epochs():
    ax = training_dynamics(explained(random_history(3, epochs=100)), 0)
    ticks = ax.get_xticks()
    assert ticks[0] == 1
    assert ticks[-1] == 100
    assert all(tick == int(tick) for tick in ticks)


def test_a_trained_model_has_it_if_it_was_asked_to():
    X, y = load_wine(return_X_y=True, as_frame=True)
    tracked = ChoqolateClassifier(n_nodes=3, epochs=6, track=True).fit(X, y)
    drawn = training_dynamics(explain_model(tracked), 2, ["proline"]).lines[0]
    np.testing.assert_array_equal(
        drawn.get_ydata(), tracked.history_["node_attributions"][:, 2, list(X.columns).index("proline")]
    )
    with pytest.raises(ChoqolateError, match="track=True"):
        training_dynamics(explain_model(ChoqolateClassifier(n_nodes=3, epochs=2).fit(X, y)), 0)


def test_unknown_concepts_and_nodes_are_errors():
    found = explained(random_history(3), ["sea", "lake", "bill"])
    with pytest.raises(ChoqolateError, match="did you mean 'lake'"):
        training_dynamics(found, 0, ["lakes"])
    with pytest.raises(ChoqolateError, match="from 0 to 1, got 2"):
        training_dynamics(found, 2)
    assert plt.get_fignums() == []


def test_pushed_apart_moves_as_little_as_it_can():
    rng = np.random.default_rng(0)
    for _ in range(50):
        wanted = rng.random(6) * 10
        placed = pushed_apart(wanted, 1.0, 0.0, 10.0)
        order = np.argsort(wanted)
        assert (np.diff(placed[order]) >= 1 - 1e-9).all()
        assert placed.min() >= -1e-9
        assert placed.max() <= 10 + 1e-9
        # Least squares under these limits is convex: no step towards another allowed point makes it better.
        for other in np.sort(rng.random((40, 6)) * 5, axis=1) + np.arange(6):
            step = placed.copy()
            step[order] += 0.01 * (other - placed[order])
            assert ((step - wanted) ** 2).sum() >= ((placed - wanted) ** 2).sum() - 1e-12
    np.testing.assert_allclose(pushed_apart([1.0, 1.0, 1.0], 9.0, 0.0, 4.0), [0, 2, 4])


def test_the_same_history_gives_the_same_image():
    def drawn():
        figure = training_dynamics(explained(random_history(9)), 0).figure
        figure.canvas.draw()
        return np.asarray(figure.canvas.buffer_rgba()).copy()

    np.testing.assert_array_equal(drawn(), drawn())


def test_presence_and_absence_of_a_concept_are_one_line():
    X, y = load_wine(return_X_y=True, as_frame=True)
    model = ChoqolateClassifier(n_nodes=3, epochs=10, track=True, bipolar=True).fit(X, y)
    ax = training_dynamics(explain_model(model), 1, list(X.columns[:3]))
    kept = model.history_["node_attributions"][:, 1]
    for j, line in enumerate(ax.lines):
        np.testing.assert_allclose(line.get_ydata(), kept[:, j] + kept[:, 13 + j], rtol=1e-5)
    absent = kept[-1, 13:16] > kept[-1, :3]
    names = {f"not {name}" if more else name for name, more in zip(X.columns, absent, strict=False)}
    assert {text.get_text() for text in ax.texts} == names
