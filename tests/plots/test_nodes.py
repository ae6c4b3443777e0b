"""Bars, flows and graphs of nodes: order, widths that add up, kinds told without colour, names that can be read."""

import itertools

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("agg")

import matplotlib.pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from choqolate import ChoqolateClassifier
from choqolate.errors import ChoqolateError
from choqolate.explain import Interaction, ModelExplanation, explain_model, name_nodes
from choqolate.plots.bars import attribution_bars
from choqolate.plots.class_flows import class_flow
from choqolate.plots.interaction_graphs import interaction_graph
from choqolate.plots.style import MAIN, OTHER, SOFT
from tests.small_tables import bird_scores

ODD = ("a 'quoted' \"name\"", "<b>angle</b>", "$5 to $10", r"$\frac", "🦆 duck", "אווז", "بطة", "x" * 200, "two\nlines")
DRAW = {
    "bars": lambda model, ax=None: attribution_bars(model, 0, ax),
    "flow": lambda model, ax=None: class_flow(model, ax),
    "graph": lambda model, ax=None: interaction_graph(model, 0, ax),
}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def random_model(n_concepts=30, n_nodes=8, n_classes=5, *, seed=0, signed=False, names=None, classes=None):
    rng = np.random.default_rng(seed)
    names = tuple(names or (f"{j} {'bill with a long white stripe'[: 4 + 5 * (j % 6)]}" for j in range(n_concepts)))
    W, V = rng.dirichlet(np.full(n_concepts, 0.5), n_nodes), rng.dirichlet(np.full(n_nodes, 0.5), n_classes)
    if signed:
        W, V = rng.normal(size=W.shape), rng.normal(size=V.shape)
    pairs = list(itertools.combinations(names[: min(n_concepts, 9)], 2))
    found = [
        [Interaction(*pair, float(value)) for pair, value in zip(pairs, rng.normal(0, 0.1, len(pairs)), strict=True)]
        for _ in W
    ]
    interactions = tuple(tuple(sorted(node, key=lambda pair: -abs(pair.index))[:20]) for node in found)
    classes = tuple(classes or (f"class {c}" for c in range(n_classes)))
    return ModelExplanation(W, V, names, classes, name_nodes(W, names), names[::4], interactions)


def texts_of(ax):
    """All that is written, as it is drawn."""
    legend = ax.get_legend()
    titles = [ax.title, ax._left_title, ax.xaxis.label]
    found = [*ax.texts, *titles, *ax.get_yticklabels(), *ax.get_xticklabels(), *(legend.get_texts() if legend else ())]
    low, high = sorted(ax.get_xlim())
    ticks = {
        id(label)
        for label, place in zip(ax.get_xticklabels(), ax.get_xticks(), strict=True)
        if not low <= place <= high
    }
    return [text for text in found if text.get_text() and text.get_visible() and id(text) not in ticks]


def assert_readable(ax):
    """No text is smaller than 5 points, overlaps another or leaves the figure, up to a pixel."""
    renderer = FigureCanvasAgg(ax.figure).get_renderer()
    ax.figure.draw(renderer)
    frame = ax.figure.bbox
    texts = texts_of(ax)
    boxes = [text.get_window_extent(renderer) for text in texts]
    for text, box in zip(texts, boxes, strict=True):
        assert text.get_fontsize() >= 5, text
        assert min(box.x0, box.y0) >= -1, text
        assert box.x1 <= frame.x1 + 1, text
        assert box.y1 <= frame.y1 + 1, text
    for (one, first), (two, second) in itertools.combinations(zip(texts, boxes, strict=True), 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        down = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert min(across, down) <= 1, (one, two)


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
@pytest.mark.parametrize(
    "sizes", [(3, 2, 2, False), (48, 8, 2, False), (226, 8, 200, False), (226, 8, 5, True), (2000, 16, 20, True)]
)
def test_a_figure_of_its_own_can_be_read(draw, sizes):
    n_concepts, n_nodes, n_classes, signed = sizes
    assert_readable(draw(random_model(n_concepts, n_nodes, n_classes, signed=signed)))


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_given_axes_are_used_and_no_figure_is_opened(draw):
    figure = Figure(figsize=(7, 4))
    ax = figure.subplots()
    assert draw(random_model(), ax) is ax
    assert plt.get_fignums() == []
    FigureCanvasAgg(figure).draw()


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
@pytest.mark.parametrize("size", [(1.5, 1), (3, 2), (12, 2)])
def test_axes_of_any_shape_will_do(draw, size):
    figure = Figure(figsize=size)
    draw(random_model(226, 8, 20), figure.subplots())
    FigureCanvasAgg(figure).draw()


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_odd_names_stay_text(draw):
    ax = draw(random_model(len(ODD), 3, 3, names=ODD, classes=ODD[2:5]))
    assert_readable(ax)  # draws: would fail on a formula that is none, and warn of letters that the font lacks
    written = " ".join(text.get_text() for text in texts_of(ax))
    assert "$5 to $10" in written


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_the_same_model_is_drawn_the_same(draw):
    def image():
        ax = draw(random_model())
        return [(text.get_text(), text.get_position()) for text in texts_of(ax)], [
            p.get_path().vertices.tolist() for p in ax.patches
        ]

    assert image() == image()


@pytest.mark.parametrize("node", [8, -1, 0.5, None])
def test_unknown_nodes_are_errors(node):
    for draw in (attribution_bars, interaction_graph):
        with pytest.raises(ChoqolateError, match="node from 0 to 7"):
            draw(random_model(), node)


# Bars


def bar_names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def test_bars_stand_in_order_and_the_rest_is_summed_up():
    model = random_model()
    ax = attribution_bars(model, 2, most=6)
    leading = model.leading(2, 6)
    assert bar_names(ax) == [*(name for name, _ in leading), "24 others"]
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths[:6], [value for _, value in leading])
    assert [text.get_text() for text in ax.texts][:6] == [f"{value:.3f}" for _, value in leading]
    assert ax.texts[6].get_text() == f"{1 - sum(widths[:6]):.3f}"
    rows = [bar.get_y() for bar in ax.patches]
    assert rows == sorted(rows)
    assert ax.yaxis_inverted()  # largest on top
    assert ax.get_xlabel() == "Shapley value"


def test_a_long_bar_of_others_is_torn_off_and_says_its_sum():
    ax = attribution_bars(random_model(226, signed=True), 0, most=5)
    longest = max(abs(bar.get_width()) for bar in ax.patches[:5])
    for bar, text in zip(ax.patches[5:], ax.texts[5:], strict=True):
        total = float(text.get_text().replace("−", "-"))
        assert abs(total) > 10 * longest
        assert np.sign(total) == np.sign(bar.get_width())
        assert abs(bar.get_width()) == pytest.approx(1.6 * longest)
    tears = [line for line in ax.lines if to_hex(line.get_color()) == "#ffffff"]
    assert len(tears) == 4  # two on either side
    short = attribution_bars(random_model(), 0)
    assert not any(to_hex(line.get_color()) == "#ffffff" for line in short.lines)


def test_one_concept_left_over_gets_its_own_bar():
    assert "others" not in " ".join(bar_names(attribution_bars(random_model(7), 0, most=6)))
    assert bar_names(attribution_bars(random_model(8), 0, most=6))[-1] == "2 others"


def test_spurious_bars_are_hatched_and_explained():
    model = random_model(8)
    ax = attribution_bars(model, 0)
    for bar, name in zip(ax.patches, bar_names(ax), strict=True):
        other = name in model.spurious
        assert to_hex(bar.get_facecolor()) == (OTHER if other else MAIN)
        assert bool(bar.get_hatch()) == other
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["spurious"]


def test_weights_go_to_both_sides_of_zero():
    model = random_model(8, signed=True)
    ax = attribution_bars(model, 0)
    values = [value for _, value in model.leading(0)]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], values)
    assert min(values) < 0 < max(values)
    low, high = ax.get_xlim()
    assert low < min(values)
    assert high > max(values)
    assert ax.get_xlabel() == "weight"
    assert [text.get_text().startswith("−") for text in ax.texts] == [value < 0 for value in values]
    for bar, value in zip(ax.patches, values, strict=True):  # below zero hollow
        assert (to_hex(bar.get_facecolor()) == "#ffffff") == (value < 0)
        assert to_hex(bar.get_edgecolor()) in (MAIN, OTHER) or value > 0


def test_bars_too_short_to_be_seen_are_among_the_others():
    W = np.array([[0.7, 0.29, 0.006, 0.004]])
    model = ModelExplanation(W, np.ones((2, 1)), ("sea", "lake", "crest", "bill"), ("a", "b"), ("sea",))
    ax = attribution_bars(model, 0)
    assert bar_names(ax) == ["sea", "lake", "2 others"]
    assert ax.patches[-1].get_width() == pytest.approx(0.01)


def test_a_node_that_reads_nothing_says_so():
    model = ModelExplanation(np.zeros((1, 2)), np.ones((2, 1)), ("sea", "lake"), ("a", "b"), ("nothing",))
    ax = attribution_bars(model, 0)
    assert [text.get_text() for text in ax.texts] == ["nothing"]
    assert to_hex(ax.texts[0].get_color()) == SOFT


# Flow


def ribbons(ax):
    """Outlines of the ribbons ``(8, 2)`` by node and class."""
    found = {}
    for patch in ax.patches:
        if patch.get_gid():
            _, node, index = patch.get_gid().split("-")
            found[int(node), int(index)] = patch.get_path().vertices[:8]
    return found


def test_ribbons_are_as_wide_as_the_attributions_at_both_ends():
    model = random_model()
    found = ribbons(class_flow(model))
    V = model.class_attributions
    assert set(found) == {(n, c) for c, n in np.ndindex(V.shape) if V[c, n] >= 0.01}
    assert len(found) < V.size  # some are too thin
    starts = {key: outline[7, 1] - outline[0, 1] for key, outline in found.items()}
    ends = {key: outline[4, 1] - outline[3, 1] for key, outline in found.items()}
    scale = sum(starts.values()) / sum(V[c, n] for n, c in found)
    for (n, c), width in starts.items():
        assert width == pytest.approx(scale * V[c, n])
        assert ends[n, c] == pytest.approx(width)


def test_ribbons_start_and_end_inside_of_their_blocks_and_side_by_side():
    model = random_model(n_classes=12)
    ax = class_flow(model)
    found = ribbons(ax)
    blocks = [patch for patch in ax.patches if not patch.get_gid()]
    spans = {(round(b.get_x(), 6), round(b.get_y(), 6)): b.get_height() for b in blocks}
    assert len(spans) == 8 + 12
    for upper, lower, axis in ((0, 7, 0), (3, 4, 1)):
        for place in range((8, 12)[axis]):
            parts = sorted((o[upper, 1], o[lower, 1]) for key, o in found.items() if key[axis] == place)
            for (_, end), (start, _) in itertools.pairwise(parts):
                assert start >= end - 1e-6
            assert any(
                y - 1e-5 <= parts[0][0] and parts[-1][1] <= y + height + 1e-5 for (_, y), height in spans.items()
            )
    heights = sorted(block.get_height() for block in blocks[8:])
    assert heights[0] == pytest.approx(heights[-1])  # every class receives one in all
    assert sum(block.get_height() for block in blocks[:8]) == pytest.approx(sum(heights))


def test_few_ribbons_cross():
    V = np.zeros((4, 4))
    V[range(4), [2, 0, 3, 1]] = 1.0  # every class has a node of its own
    model = ModelExplanation(np.eye(4), V, tuple("abcd"), tuple("wxyz"), tuple("abcd"))
    for outline in ribbons(class_flow(model)).values():
        assert outline[0, 1] == pytest.approx(outline[3, 1])  # all of them are level


def test_classes_stand_by_the_nodes_they_make_use_of():
    share = np.array([0.5, 0.9, 0.2, 0.7, 0.3])
    model = ModelExplanation(
        np.eye(2), np.stack([share, 1 - share], 1), ("sea", "lake"), tuple("abcde"), ("sea", "lake")
    )
    heights = {text.get_text(): text.get_position()[1] for text in class_flow(model).texts}
    order = "".join(sorted("abcde", key=heights.get))
    assert order == ("bdaec" if heights["node 0: sea"] < heights["node 1: lake"] else "ceadb")


def test_names_of_tiny_nodes_stay_apart():
    V = np.full((2, 8), 0.001)
    V[:, 3] = 1 - V[:, 0] * 7
    ax = class_flow(ModelExplanation(np.eye(8), V, tuple("abcdefgh"), ("landbird", "waterbird"), tuple("abcdefgh")))
    assert_readable(ax)
    assert set(ribbons(ax)) == {(3, 0), (3, 1)}
    assert {f"node {n}: {name}" for n, name in enumerate("abcdefgh")} < {text.get_text() for text in ax.texts}


def test_weights_below_zero_are_hatched():
    model = random_model(signed=True)
    ax = class_flow(model)
    for patch in ax.patches:
        if patch.get_gid():
            _, node, index = patch.get_gid().split("-")
            assert bool(patch.get_hatch()) == (model.class_attributions[int(index), int(node)] < 0)
    assert ax.texts[-1].get_text() == "hatched: against the class"


def test_of_many_classes_some_are_drawn_and_the_others_counted():
    model = random_model(n_classes=200)
    ax = class_flow(model, most_classes=7)
    assert {index for _, index in ribbons(ax)} == set(range(7))
    assert ax.texts[-1].get_text() == "193 more classes not shown"
    written = {text.get_text() for text in ax.texts}
    assert {f"class {c}" for c in range(7)} < written
    assert "class 7" not in written


def test_classes_can_be_chosen_by_name():
    model = random_model(n_classes=200)
    ax = class_flow(model, classes=["class 150", "class 3"])
    assert {index for _, index in ribbons(ax)} == {3, 150}
    for wrong in (["class 999"], []):
        with pytest.raises(ChoqolateError, match="names of classes"):
            class_flow(model, classes=wrong)


def test_a_model_without_any_flow_is_drawn_too():
    model = ModelExplanation(np.eye(2), np.zeros((2, 2)), ("sea", "lake"), ("a", "b"), ("sea", "lake"))
    ax = class_flow(model)
    assert ribbons(ax) == {}
    assert_readable(ax)


# Graph


def three_pairs():
    pairs = ((Interaction("sea", "lake", -0.3), Interaction("sea", "crest", 0.15), Interaction("lake", "bill", -0.05)),)
    W = np.array([[0.5, 0.3, 0.15, 0.05]])
    return ModelExplanation(W, np.ones((2, 1)), ("sea", "lake", "crest", "bill"), ("a", "b"), ("sea",), (), pairs)


def edges(ax):
    return [line for line in ax.lines if len(line.get_xdata()) > 1]


def circles(ax):
    return [line for line in ax.lines if line.get_marker() == "o"]


def test_lines_tell_complements_from_substitutes_by_colour_and_dashes():
    ax = interaction_graph(three_pairs(), 0)
    first, second, third = edges(ax)
    assert [to_hex(line.get_color()) for line in (first, second, third)] == [OTHER, MAIN, OTHER]
    assert [line.get_linestyle() for line in (first, second, third)] == ["--", "-", "--"]
    assert first.get_linewidth() > second.get_linewidth() > third.get_linewidth()
    meanings = [text.get_text() for text in ax.get_legend().get_texts()]
    assert [meaning.split(":")[0] for meaning in meanings] == ["complement", "substitute"]
    assert {"−0.30", "0.15", "−0.05"} < {text.get_text() for text in ax.texts}


def test_lines_end_at_circles_whose_area_goes_with_the_shapley_value():
    ax = interaction_graph(three_pairs(), 0)
    names = {text.get_text(): text.get_position() for text in ax.texts}
    found = {}
    for circle in circles(ax):
        x, y = circle.get_xdata()[0], circle.get_ydata()[0]
        name = min(three_pairs().concepts, key=lambda n: np.hypot(names[n][0] - x, names[n][1] - y))
        found[name] = (x, y, circle.get_markersize())
    assert set(found) == {"sea", "lake", "crest", "bill"}
    assert (found["lake"][2] / found["sea"][2]) ** 2 == pytest.approx(0.3 / 0.5)
    for line, (one, two) in zip(edges(ax), [("sea", "lake"), ("sea", "crest"), ("lake", "bill")], strict=True):
        np.testing.assert_allclose(line.get_xydata()[[0, -1]], [found[one][:2], found[two][:2]])


def test_only_the_strongest_pairs_are_drawn_and_six_have_their_numbers():
    model = random_model()
    ax = interaction_graph(model, 3)
    assert len(edges(ax)) == 12
    used = {name for pair in model.interactions[3][:12] for name in (pair.first, pair.second)}
    numbers = [f"{pair.index:.2f}".replace("-", "−") for pair in model.interactions[3][:6]]
    written = [text.get_text() for text in ax.texts]
    assert set(written) == used | set(numbers)
    assert written[-6:] == numbers
    few = interaction_graph(model, 3, most=6)
    assert len(edges(few)) == 6
    assert set(numbers) < {text.get_text() for text in few.texts}
    assert_readable(few)


def test_numbers_of_lines_that_cross_stay_apart():
    pairs = [Interaction(*pair, 0.3 - 0.01 * k) for k, pair in enumerate(["ab", "bc", "cd", "ac", "bd"])]
    model = ModelExplanation(
        np.full((1, 4), 0.25), np.ones((2, 1)), tuple("abcd"), ("x", "y"), ("a",), (), (tuple(pairs),)
    )
    ax = interaction_graph(model, 0)
    middles = [line.get_xydata()[20] for line in edges(ax)]
    np.testing.assert_allclose(middles[3], middles[4])  # the case in question
    assert_readable(ax)
    assert len(ax.texts) == 4 + 5


def one_pair(index):
    pairs = ((Interaction("sea", "lake", index),), (Interaction("sea", "lake", 0.1),))
    W = np.array([[0.6, 0.4], [0.5, 0.5]])
    return ModelExplanation(W, np.ones((2, 2)), ("sea", "lake"), ("a", "b"), ("sea", "lake"), (), pairs)


def test_lines_are_as_wide_as_the_index_says_whatever_the_node():
    def width(index):
        (line,) = edges(interaction_graph(one_pair(index), 0))
        return line.get_linewidth()

    middle, full = width(0.1), width(0.2)
    assert width(-0.1) == pytest.approx(middle)
    assert width(0.9) == pytest.approx(full)
    assert middle - width(0.05) == pytest.approx(width(0.15) - middle)
    assert width(0.0011) < 0.25 * full


def test_pairs_that_hardly_interact_are_not_drawn():
    ax = interaction_graph(one_pair(1.8e-5), 0)
    assert edges(ax) == []
    assert [text.get_text() for text in ax.texts] == ["no interactions worth drawing"]
    assert len(edges(interaction_graph(one_pair(0.001), 0))) == 1


@pytest.mark.parametrize("interactions", [(), ((),)])
def test_a_node_without_interactions_says_so(interactions):
    model = ModelExplanation(np.eye(1), np.ones((2, 1)), ("sea",), ("a", "b"), ("sea",), (), interactions)
    assert [text.get_text() for text in interaction_graph(model, 0).texts] == ["no interactions"]


@pytest.mark.parametrize("bipolar", [False, True])
def test_a_trained_model_is_drawn(bipolar):
    X, y, _ = bird_scores(200)
    model = explain_model(
        ChoqolateClassifier(n_nodes=3, epochs=5, bipolar=bipolar).fit(X, y), spurious=["sea", "forest"]
    )
    for draw in DRAW.values():
        assert_readable(draw(model))
    names = bar_names(attribution_bars(model, 0))
    assert any(name.startswith("not ") for name in names) == bipolar
    assert sorted(name.removeprefix("not ") for name in names) == sorted(model.concepts)
