"""Word clouds: which words are drawn, how large, apart from each other, inside, and the same each time."""

import itertools

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

mpl.use("agg")

import matplotlib.pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from choqolate import ChoqolateClassifier
from choqolate.baselines import LinearBottleneck
from choqolate.errors import ChoqolateError
from choqolate.explain import ModelExplanation, explain_change, explain_model, name_nodes
from choqolate.plots.cloud_layout import place_words
from choqolate.plots.clouds import word_cloud, word_clouds
from choqolate.plots.style import MAIN, OTHER, SOFT, colour_of, ink, text_size
from tests.small_tables import CONCEPTS, bird_scores

ODD = [
    "a 'quoted' \"name\"",
    "<b>angle</b> & brackets",
    "$5 to $10",
    r"$\frac",
    "🦆 duck",
    "אווז",
    "بطة",
    "x" * 200,
    "two\nlines",
    "{a_b^c}",
]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def explanation(W, concepts=None, **more):
    W = np.asarray(W, dtype=float)
    concepts = tuple(concepts or (f"concept {j}" for j in range(W.shape[1])))
    V = np.full((2, len(W)), 1 / len(W))
    return ModelExplanation(W, V, concepts, ("landbird", "waterbird"), name_nodes(W, concepts), **more)


def random_model(n_concepts, n_nodes=8, alpha=0.5, seed=0):
    rng = np.random.default_rng(seed)
    endings = [" ".join(["bill", "with a long", "white stripe"][: 1 + j % 3]) for j in range(n_concepts)]
    names = [f"{j} {ending}" for j, ending in enumerate(endings)]
    return explanation(rng.dirichlet(np.full(n_concepts, alpha), n_nodes), names)


def shown(ax):
    return [text.get_text() for text in ax.texts]


def assert_apart_and_inside(ax, slack=1.0):
    """Of the texts as they are rendered, up to a pixel."""
    renderer = FigureCanvasAgg(ax.figure).get_renderer()
    frame = ax.get_window_extent(renderer)
    boxes = [text.get_window_extent(renderer) for text in ax.texts]
    for text, box in zip(ax.texts, boxes, strict=True):
        assert box.x0 >= frame.x0 - slack, text
        assert box.x1 <= frame.x1 + slack, text
        assert box.y0 >= frame.y0 - slack, text
        assert box.y1 <= frame.y1 + slack, text
    for (one, first), (two, second) in itertools.combinations(zip(ax.texts, boxes, strict=True), 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        down = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert min(across, down) <= slack, (one, two)


names = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=60)
values = st.one_of(st.floats(-1, 1), st.sampled_from([0.0, 0.25, 1e-9, 1.0]))


@given(st.lists(st.tuples(names, values), max_size=45), st.floats(20, 500), st.floats(10, 400))
def test_words_lie_apart_inside_and_in_order(words, width, height):
    placed = place_words(words, width, height)
    for word in placed:
        assert words[word.index][1] == word.value != 0
        assert word.size >= 5 * (1 - 1e-9)
        assert (word.width, word.height) == pytest.approx(text_size(word.text, word.size))
        assert word.width / 2 <= word.x + 1e-9 <= width - word.width / 2 + 2e-9
        assert word.height / 2 <= word.y + 1e-9 <= height - word.height / 2 + 2e-9
    for one, two in itertools.combinations(placed, 2):
        assert one.index != two.index
        beside = abs(one.x - two.x) >= (one.width + two.width) / 2
        above = abs(one.y - two.y) >= (one.height + two.height) / 2
        assert beside or above
        assert one.size**2 * abs(two.value) == pytest.approx(two.size**2 * abs(one.value))  # area goes with value


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=40))
def test_a_wide_box_keeps_every_legible_word(shares):
    placed = place_words([(f"word {j}", share) for j, share in enumerate(shares)], 600, 500)
    least = max(shares) * (5 / placed[0].size) ** 2
    kept = {word.index for word in placed}
    assert {j for j, share in enumerate(shares) if share > least * 1.001} <= kept
    assert {j for j, share in enumerate(shares) if share > least * 0.999} >= kept


def test_larger_values_are_strictly_larger():
    placed = place_words([("sea", 0.2), ("lake", 0.21), ("river", 0.199), ("crest", -0.3)], 300, 200)
    assert [word.text for word in placed] == ["crest", "lake", "sea", "river"]
    sizes = [word.size for word in placed]
    assert all(one > two for one, two in itertools.pairwise(sizes))


@pytest.mark.parametrize("name", ["sea", "a white stripe over the eye", "x" * 200])
def test_one_word_alone_fills_its_box(name):
    (word,) = place_words([(name, 0.01)], 240, 150)
    assert 0.6 * 240 < word.width < 240
    assert (word.x, word.y) == pytest.approx((120, 75))
    assert len(word.text) <= 36


def test_the_cloud_stands_in_the_middle():
    placed = place_words([("a large, stocky body", 0.5), ("crest", 0.2)], 200, 200)
    top = min(word.y - word.height / 2 for word in placed)
    bottom = max(word.y + word.height / 2 for word in placed)
    assert top > 40
    assert top == pytest.approx(200 - bottom, abs=2)  # up to the room that belongs to larger words


def test_zeros_and_words_beyond_the_most_are_left_out():
    words = [("none", 0.0), ("a", 0.3), ("b", 0.3), ("c", 0.2), ("nan", float("nan"))]
    assert [word.text for word in place_words(words, 200, 200, most=2)] == ["a", "b"]
    assert [word.text for word in place_words(words, 200, 200)] == ["a", "b", "c"]
    assert place_words(words[:1], 200, 200) == []
    assert place_words(words, 200, 200, most=0) == []


def test_words_too_small_to_read_are_left_out():
    words = [("a white stripe over the eye", 0.9), ("crest", 0.001)]
    (word,) = place_words(words, 200, 100)
    assert word.text == words[0][0]
    assert word.size * (0.001 / 0.9) ** 0.5 < 5
    assert len(place_words(words, 200, 100, smallest=0.2)) == 2


def test_a_box_too_small_for_all_words_holds_some():
    words = [("x" * 30, 0.5), *((f"w{j}", 0.5) for j in range(30))]
    placed = place_words(words, 60, 30)
    assert 0 < len(placed) < 30
    assert placed[0].index == 0
    assert placed[0].text.startswith("xxx")
    assert placed[0].text.endswith("…")
    assert {word.size for word in placed} == {5.0}
    assert place_words(words, 4, 4) == []


@given(st.floats(20, 90), st.floats(10, 60), st.lists(st.floats(0.01, 1), min_size=1, max_size=20))
def test_the_leading_word_always_finds_a_place(width, height, shares):
    words = [(f"{j} a concept with a long name", share) for j, share in enumerate(shares)]
    placed = place_words(words, width, height)
    assert placed[0].index == shares.index(max(shares))


def test_no_cloud_is_empty_in_the_column_of_a_paper():
    ax = plt.figure(figsize=(3.3, 3)).subplots()
    model = random_model(226, n_nodes=16)
    word_clouds(model, ax)
    ax.figure.canvas.draw()
    for node, cloud in enumerate(ax.child_axes):
        assert_apart_and_inside(cloud)
        assert shown(cloud)
        assert model.leading(node, 1)[0][0].startswith(shown(cloud)[0].removesuffix("…"))
    widths = sum(cloud.get_window_extent().width for cloud in ax.child_axes[:4])
    assert widths > 0.78 * ax.figure.bbox.width  # little of it is margin


def test_before_and_after_show_the_same_nodes_of_both_models():
    X, y, _ = bird_scores(200)
    model = ChoqolateClassifier(n_nodes=3, epochs=5).fit(X, y)
    edited = model.remove_concepts("sea", mode="impute")
    for width, beside in ((10, True), (3.3, False)):
        given = plt.figure(figsize=(width, 4)).subplots()
        ax = explain_change(model, edited).plot_words(given, nodes=[2, 0])
        assert ax is given
        ax.figure.canvas.draw()
        before, after = ax.child_axes
        assert [side.get_title() for side in (before, after)] == ["before", "after"]
        one, two = before.get_window_extent(), after.get_window_extent()
        assert (one.x1 <= two.x0) == beside
        assert (one.y0 >= two.y1) == (not beside)
        for side, told in ((before, explain_model(model)), (after, explain_model(edited))):
            assert [shown(cloud)[0] for cloud in side.child_axes] == [told.leading(n, 1)[0][0] for n in (2, 0)]
        assert "sea" not in {text for cloud in after.child_axes for text in shown(cloud)}


def test_nonsense_sizes_are_errors():
    with pytest.raises(ChoqolateError, match="largest"):
        place_words([("sea", 1.0)], 100, 100, smallest=10, largest=5)
    with pytest.raises(ChoqolateError, match="most"):
        place_words([("sea", 1.0)], 100, 100, most=-1)


@pytest.mark.parametrize(("n_concepts", "alpha"), [(3, 1.0), (226, 0.02), (226, 5.0), (2000, 0.5)])
def test_clouds_of_all_nodes_are_apart_inside_and_in_order(n_concepts, alpha):
    model = random_model(n_concepts, alpha=alpha)
    ax = word_clouds(model)
    ax.figure.canvas.draw()
    assert len(ax.child_axes) == 8
    for node, cloud in enumerate(ax.child_axes):
        assert_apart_and_inside(cloud)
        drawn = shown(cloud)
        assert 1 <= len(drawn) <= 40
        assert drawn == [name for name, _ in model.leading(node, len(drawn))]  # the leading ones, none left out
        sizes = [text.get_fontsize() for text in cloud.texts]
        assert sizes == sorted(sizes, reverse=True)
        assert min(sizes) >= 5 - 1e-6
        assert {to_hex(text.get_color()) for text in cloud.texts} == {ink(colour_of(node))}
        heading = cloud.get_title(loc="left").removesuffix("…")
        assert f"node {node}: {model.nodes[node]}".startswith(heading)
        assert len(heading) > len(f"node {node}: ")
        box, frame = cloud.get_tightbbox(), ax.figure.bbox
        assert min(box.x0, box.y0) >= 0
        assert box.x1 <= frame.x1
        assert box.y1 <= frame.y1


def test_clouds_lie_apart_from_each_other():
    ax = word_clouds(random_model(30, n_nodes=7))
    boxes = [cloud.get_tightbbox() for cloud in ax.child_axes]
    for first, second in itertools.combinations(boxes, 2):
        assert not first.overlaps(second)


def test_the_same_model_is_drawn_the_same():
    def places():
        ax = word_clouds(random_model(60))
        return [(text.get_text(), text.get_position(), text.get_fontsize()) for c in ax.child_axes for text in c.texts]

    assert places() == places()


def test_both_draw_into_given_axes_and_open_no_figure():
    figure = Figure(figsize=(8, 4))
    left, right = figure.subplots(1, 2)
    model = random_model(30)
    assert word_cloud(model, 1, left) is left
    assert word_clouds(model, right, title="ours") is right
    assert right.get_title() == "ours"
    assert plt.get_fignums() == []
    FigureCanvasAgg(figure).draw()
    assert_apart_and_inside(left)
    for cloud in right.child_axes:
        assert_apart_and_inside(cloud)


@pytest.mark.parametrize("layout", ["constrained", "tight"])
def test_words_stay_apart_in_a_figure_with_a_layout(layout):
    figure = Figure(figsize=(9, 4), layout=layout)
    left, right = figure.subplots(1, 2)
    right.set_title("\n" * 9 + "takes room")
    word_cloud(random_model(80), 0, left)
    FigureCanvasAgg(figure).draw()
    assert_apart_and_inside(left)


def test_only_chosen_nodes_are_drawn():
    ax = word_clouds(random_model(30), nodes=[5, 2])
    assert [cloud.get_title(loc="left").split(":")[0] for cloud in ax.child_axes] == ["node 5", "node 2"]
    assert to_hex(ax.child_axes[0].texts[0].get_color()) == ink(colour_of(5))


@pytest.mark.parametrize("node", [8, -1, 1.5, "sea", True])
def test_unknown_nodes_are_errors(node):
    with pytest.raises(ChoqolateError, match="node from 0 to 7"):
        word_cloud(random_model(30), node)
    with pytest.raises(ChoqolateError, match="node from 0 to 7"):
        word_clouds(random_model(30), nodes=[0, node])


def test_other_nonsense_is_an_error_too():
    with pytest.raises(ChoqolateError, match="colour"):
        word_clouds(random_model(30), colour="class")
    with pytest.raises(ChoqolateError, match="at least one node"):
        word_clouds(random_model(30), nodes=[])
    with pytest.raises(ChoqolateError, match="make the figure larger"):
        word_clouds(random_model(30), Figure(figsize=(0.8, 0.4)).subplots())


def test_spurious_words_differ_in_colour_and_are_underlined():
    model = explanation([[0.5, 0.3, 0.2]], ["webbed feet", "sea", "long bill"], spurious=("sea",))
    ax = word_cloud(model, 0, colour="kind")
    ax.figure.canvas.draw()
    assert_apart_and_inside(ax)
    colours = {text.get_text(): to_hex(text.get_color()) for text in ax.texts}
    core, other = ink(MAIN), ink(OTHER)
    assert core != other
    assert colours == {"webbed feet": core, "sea": other, "long bill": core, "others": core, "spurious": other}
    underlines = {tuple(line.get_xdata()): line for line in ax.lines}
    assert len(underlines) == 2  # of the word and in the key
    for text in ax.texts:
        x, y = text.get_position()
        below = [
            line
            for (start, end), line in underlines.items()
            if start < x < end and 0 < line.get_ydata()[0] - y < 0.6 * text.get_fontsize()
        ]
        assert len(below) == (text.get_text() in ("sea", "spurious")), text


def test_the_key_stands_once_below_all_clouds():
    model = explanation([[0.7, 0.3], [0.2, 0.8]], ["webbed feet", "sea"], spurious=("sea",))
    ax = word_clouds(model, colour="kind")
    ax.figure.canvas.draw()
    assert shown(ax) == ["spurious", "others"]
    top = max(text.get_window_extent().y1 for text in ax.texts)
    assert all(cloud.get_window_extent().y0 > top - 1 for cloud in ax.child_axes)


@pytest.mark.parametrize("draw", [word_clouds, lambda model, colour: word_cloud(model, 0, colour=colour)])
def test_kinds_that_nobody_marked_are_an_error(draw):
    with pytest.raises(ChoqolateError, match="spurious= to explain_model"):
        draw(random_model(5), colour="kind")
    assert plt.get_fignums() == []


def test_a_node_that_reads_nothing_says_so():
    ax = word_clouds(explanation([[0.0, 0.0], [1.0, 0.0]], ["sea", "lake"]))
    assert shown(ax.child_axes[0]) == ["nothing"]
    assert to_hex(ax.child_axes[0].texts[0].get_color()) == SOFT
    assert shown(ax.child_axes[1]) == ["sea"]


def test_weights_below_zero_begin_with_a_minus():
    ax = word_cloud(explanation([[-0.6, 0.5, 0.4]], ["sea", "lake", "crest"]), 0)
    assert shown(ax) == ["−sea", "lake", "crest"]
    sizes = [text.get_fontsize() for text in ax.texts]
    assert sizes == sorted(sizes, reverse=True)


def test_a_linear_baseline_stands_beside_ours():
    X, y, _ = bird_scores(200)
    linear = explain_model(LinearBottleneck(n_nodes=3, epochs=5).fit(X, y))
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
    word_clouds(linear, left, title="linear")
    word_clouds(random_model(6, n_nodes=3), right, title="ours")
    FigureCanvasAgg(figure).draw()
    drawn = {text for cloud in left.child_axes for text in shown(cloud)}
    assert {text.removeprefix("−") for text in drawn} <= set(CONCEPTS)
    assert any(text.startswith("−") for text in drawn)
    assert plt.get_fignums() == [figure.number]


def test_one_layer_calls_the_clouds_by_their_class():
    model = explanation([[0.7, 0.3], [0.2, 0.8]], ["webbed feet", "sea"], one_layer=True)
    model = ModelExplanation(**{**vars(model), "nodes": ("land$bird$", "waterbird")})
    ax = word_clouds(model)
    assert [cloud.get_title(loc="left") for cloud in ax.child_axes] == ["land$bird$", "waterbird"]
    ax.figure.canvas.draw()


@pytest.mark.parametrize("colour", ["node", "kind"])
def test_odd_names_stay_text(colour):
    model = explanation([np.linspace(1, 0.8, len(ODD))], ODD, spurious=tuple(ODD[::2]))
    ax = word_clouds(model, colour=colour, title="$a$ 🦆")
    ax.figure.canvas.draw()  # would fail on a formula that is none, and warn of letters that the font lacks
    (cloud,) = ax.child_axes
    assert_apart_and_inside(cloud)
    assert not any(text.get_parse_math() for text in cloud.texts)
    assert {"$5 to $10", r"$\frac", "<b>angle</b> & brackets", "two lines"} <= set(shown(cloud))
    assert max(map(len, shown(cloud))) <= 36
