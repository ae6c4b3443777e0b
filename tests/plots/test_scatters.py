"""Methods, concepts and groups stand where their numbers say, each with its name."""

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("agg")

import matplotlib.pyplot as plt
from matplotlib.colors import same_color, to_hex, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from scipy.stats import binomtest

from choqolate import ChoqolateError, ConceptScores
from choqolate.analysis.evaluation import Evaluation
from choqolate.plots.group_bars import group_accuracy
from choqolate.plots.scatters import accuracy_against_quality, concept_scores
from choqolate.plots.style import MAIN, PALETTE
from tests.figures import assert_readable

ODD = ("price $5 to $10", r"$\frac$ <b>", "_hidden", 'said "so"', "\N{BIRD} gull", "שלום", "x" * 80)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def all_texts(ax):
    legend = ax.get_legend()
    return [
        *(text for axis in (ax.xaxis, ax.yaxis) for text in (axis.label, *shown_ticks(axis))),
        *ax.texts,
        ax._left_title,
        *(legend.get_texts() if legend else []),
    ]


def shown_ticks(axis):
    """Labels of ticks within the limits; matplotlib has others ready, which it does not draw."""
    low, high = sorted(axis.get_view_interval())
    return [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]


def cloud(quality, accuracy, rows=12, seed=0, correlation=0.5):
    z = np.random.default_rng(seed).normal(size=(rows, 2))
    return quality + 0.02 * z[:, 0], accuracy + 0.01 * (correlation * z[:, 0] + (1 - correlation**2) ** 0.5 * z[:, 1])


def ellipses(ax):
    return [patch for patch in ax.patches if isinstance(patch, Ellipse)]


def test_points_are_the_means_in_per_cent():
    runs = {"ours": cloud(0.9, 0.8), "linear": cloud(0.4, 0.7, seed=1)}
    ax = accuracy_against_quality(runs, quality="Node Coherence")
    for line, (quality, accuracy) in zip(ax.lines, runs.values(), strict=True):
        assert line.get_xdata()[0] == pytest.approx(np.mean(quality))
        assert line.get_ydata()[0] == pytest.approx(100 * np.mean(accuracy))
    assert ax.get_xlabel() == "Node Coherence"
    assert "%" in ax.get_ylabel()


@pytest.mark.parametrize("spread", [1.0, 2.0])
def test_ellipses_are_so_many_standard_deviations_away_in_every_direction(spread):
    x, y = cloud(0.9, 0.8)
    (ellipse,) = ellipses(accuracy_against_quality({"ours": (x, y)}, spread=spread))
    # The characteristic polynomial of the covariance, written out.
    a, c = np.var(x, ddof=1), np.var(100 * y, ddof=1)
    b = ((x - x.mean()) * (100 * y - 100 * y.mean())).sum() / (len(x) - 1)
    root = np.sqrt(((a - c) / 2) ** 2 + b**2)
    assert ellipse.width == pytest.approx(2 * spread * np.sqrt((a + c) / 2 + root))
    assert ellipse.height == pytest.approx(2 * spread * np.sqrt((a + c) / 2 - root))
    # On its edge, the distance of Mahalanobis is the spread.
    points = ellipse.get_patch_transform().transform([[1, 0], [0, 1], [-(0.5**0.5), 0.5**0.5]])
    away = points - [x.mean(), 100 * y.mean()]
    np.testing.assert_allclose(np.einsum("ki,ij,kj->k", away, np.linalg.inv([[a, b], [b, c]]), away), spread**2)


def test_ellipses_without_a_second_dimension_or_any():
    x, y = np.array([0.4, 0.5, 0.6]), np.array([0.7, 0.8, 0.9])
    (thin,) = ellipses(accuracy_against_quality({"line": (x, y)}))
    assert thin.height == pytest.approx(0, abs=1e-6)
    assert thin.width == pytest.approx(2 * np.sqrt(0.01 + 100.0))
    (flat,) = ellipses(accuracy_against_quality({"flat": (x, np.full(3, 0.7))}))
    assert (flat.width, flat.height) == pytest.approx((0.2, 0))
    assert flat.angle % 180 == pytest.approx(0)
    assert ellipses(accuracy_against_quality({"same": ([0.5, 0.5], [0.7, 0.7]), "one": (0.4, 0.8)})) == []
    assert ellipses(accuracy_against_quality({"line": (x, y)}, spread=0)) == []


def test_everything_drawn_is_within_the_limits():
    ax = accuracy_against_quality({"ours": cloud(0.9, 0.8), "linear": cloud(0.4, 0.7, seed=1)}, spread=3.0)
    for ellipse in ellipses(ax):
        edge = ellipse.get_patch_transform().transform(ellipse.get_path().vertices)
        assert ax.get_xlim()[0] < edge[:, 0].min() < edge[:, 0].max() < ax.get_xlim()[1]
        assert ax.get_ylim()[0] < edge[:, 1].min() < edge[:, 1].max() < ax.get_ylim()[1]


def test_small_differences_of_the_accuracy_are_not_blown_up():
    ax = accuracy_against_quality({"a": ([0.5, 0.6], [0.800, 0.801]), "b": ([0.7, 0.8], [0.802, 0.803])})
    low, high = ax.get_ylim()
    assert high - low >= 4
    assert low < 80 < 80.3 < high


def test_the_note_on_ellipses_stands_only_where_it_is_true_of_all():
    same = {"ours": cloud(0.9, 0.8), "linear": cloud(0.4, 0.7)}
    notes = [text.get_text() for text in accuracy_against_quality(same, spread=2).texts]
    assert "ellipses: 2 standard deviations of 12 runs" in notes
    for runs, spread in ((same | {"one": (0.5, 0.6)}, 1), (same, 0), ({"one": (0.5, 0.6)}, 1)):
        texts = accuracy_against_quality(runs, spread=spread).texts
        assert not any("ellipses" in text.get_text() for text in texts)


def test_methods_differ_in_colour_and_marker():
    ax = accuracy_against_quality({f"method {k}": cloud(0.1 * k, 0.8, seed=k) for k in range(9)})
    assert len({(line.get_color(), line.get_marker()) for line in ax.lines}) == 9
    assert len({line.get_marker() for line in ax.lines[:7]}) == len({line.get_color() for line in ax.lines[:7]}) == 7


def test_a_method_without_runs_is_left_out_and_the_others_keep_their_look():
    runs = {f"method {k}": cloud(0.1 * k, 0.8, seed=k) for k in range(4)}
    looks = [
        {line.get_label(): (line.get_color(), line.get_marker()) for line in accuracy_against_quality(drawn).lines}
        for drawn in (runs, runs | {"method 1": ([], [])})
    ]
    assert looks[0].pop("method 1")
    assert looks[0] == looks[1]


def test_marks_in_the_same_place_show_through_and_none_is_cut_off_at_the_edge():
    ax = accuracy_against_quality({"one": (0.5, 0.2), "two": (0.5, 0.2), "best": (0.9, 0.999)})
    for line in ax.lines:
        assert to_rgba(line.get_markerfacecolor())[3] < 0.5
        assert to_rgba(line.get_markeredgecolor()) == to_rgba(line.get_color())
        assert not line.get_clip_on()


def test_without_a_legend_no_method_is_named():
    crowded = {f"a method with the number {k}": cloud(0.5, 0.8, seed=k) for k in range(12)}
    for runs in (crowded, {"alone": cloud(0.5, 0.8)}):
        ax = accuracy_against_quality(runs, legend=False)
        assert ax.get_legend() is None
        assert [text.get_text() for text in ax.texts] == ["ellipses: 1 standard deviation of 12 runs"]


def test_names_stand_beside_their_points():
    runs = {"CHOQOLATE": cloud(0.9, 0.8), "linear bottleneck": cloud(0.4, 0.7, seed=1), "one": ([0.6], [0.9])}
    ax = accuracy_against_quality(runs)
    assert ax.get_legend() is None
    names = [text for text in ax.texts if text.get_text() in runs]
    assert [text.get_text() for text in names] == list(runs)
    assert_readable(ax.figure, all_texts(ax))
    marks = np.array([ax.transData.transform((line.get_xdata()[0], line.get_ydata()[0])) for line in ax.lines])
    for own, text in enumerate(names):
        box = text.get_window_extent()
        away = np.hypot(*np.maximum(np.maximum([box.x0, box.y0] - marks, marks - [box.x1, box.y1]), 0).T)
        assert away.argmin() == own
        assert away.min() > 1


@pytest.mark.parametrize("given", [False, True])
def test_where_names_find_no_place_there_is_a_legend(given):
    runs = {f"a method with the number {k}": cloud(0.5, 0.8, seed=k) for k in range(12)}
    ax = accuracy_against_quality(runs, Figure(figsize=(6, 5)).subplots() if given else None)
    assert [text.get_text() for text in ax.texts] == ["ellipses: 1 standard deviation of 12 runs"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(runs)
    assert_readable(ax.figure, all_texts(ax))


def test_odd_names_of_methods_stay_text():
    apart = {name: ([0.1 * k], [0.5 + 0.05 * k]) for k, name in enumerate(ODD)}
    together = {name: ([0.5], [0.5]) for name in ODD}
    for runs in (apart, together):
        ax = accuracy_against_quality(runs, quality="Gini $ of $ nodes")
        assert_readable(ax.figure, all_texts(ax))
        texts = [*ax.texts, *(ax.get_legend().get_texts() if ax.get_legend() else [])]
        assert {"price $5 to $10", r"$\frac$ <b>", "_hidden"} < {text.get_text() for text in texts}
        assert not any(text.get_parse_math() for text in (*texts, ax.xaxis.label))


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ({}, "at least one method"),
        ({"ours": ([0.1, 0.2], [0.3])}, "ours: expected quality and accuracy of the same runs"),
        ({"ours": ([], [])}, "at least one method, got none"),
        ({"ours": ([], [0.5])}, "ours: expected quality"),
        ({"ours": ([0.1], [82.0])}, "from 0 to 1, got 82 to 82: divide"),
        ({"ours": ([np.nan], [0.8])}, "NaN"),
        ({"ours": ["a", "b"]}, "two lists of numbers"),
        ({"ours": 3}, "two lists of numbers"),
    ],
)
def test_runs_that_are_none_are_errors(runs, message):
    with pytest.raises(ChoqolateError, match=message):
        accuracy_against_quality(runs)
    assert plt.get_fignums() == []


def table(rows=60, classes=3, names=("sea", "lake", "bill"), seed=0, missing=0):
    rng = np.random.default_rng(seed)
    scores = rng.random((rows, 1)) + 0.3 * rng.random((rows, len(names)))
    labels = [f"class {row % classes}" if row >= missing else None for row in range(rows)]
    return ConceptScores(scores, names, labels=labels)


def marks(ax):
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    return dict(zip(names, ax.get_legend().legend_handles, strict=True))


def test_every_row_is_a_mark_of_its_class():
    found = table()
    ax = concept_scores(found, ["bill", "sea"])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("bill (score)", "sea (score)")
    assert len(ax.collections) == 3
    for group, name in zip(ax.collections, found.classes, strict=True):
        np.testing.assert_allclose(group.get_offsets(), found.scores[found.labels == name][:, [2, 0]])
    assert len({to_hex(group.get_facecolor()[0]) for group in ax.collections}) == 3
    assert len({group.get_paths()[0].vertices.tobytes() for group in ax.collections}) == 3
    assert list(marks(ax)) == list(found.classes)
    assert_readable(ax.figure, all_texts(ax))


def test_the_correlation_of_all_rows_is_in_the_title():
    found = table(rows=500)
    r = np.corrcoef(found.scores.T)
    assert concept_scores(found, ["sea", "bill"], most=20).get_title(loc="left") == f"correlation {r[0, 2]:.2f}"
    title = concept_scores(found, ["sea", "lake", "bill"]).get_title(loc="left").replace("\n", " ")
    wanted = f"sea and lake {r[0, 1]:.2f}, sea and bill {r[0, 2]:.2f}, lake and bill {r[1, 2]:.2f}"
    assert title == f"correlation: {wanted}"
    flat = ConceptScores([[0.1, 0.2], [0.1, 0.3]], ["flat", "sea"])
    assert concept_scores(flat, ["flat", "sea"]).get_title(loc="left") == "correlation not defined"
    assert "one row" in concept_scores(flat.take([0]), ["flat", "sea"]).get_title(loc="left")


def test_three_concepts_are_drawn_in_three_dimensions():
    found = table(names=("a rather long name of a concept", "lake", "another one that is quite long"))
    ax = concept_scores(found, found.concepts)
    assert ax.name == "3d"
    x, y, z = ax.collections[0]._offsets3d
    np.testing.assert_allclose(np.column_stack([x, y, z]), found.scores[found.labels == "class 0"])
    shown = (ax.get_xlabel(), ax.get_ylabel(), ax.get_zlabel())
    assert shown == ("a rather long name of a… (score)", "lake (score)", "another one that is qui… (score)")
    labels = [ax.xaxis.label, ax.yaxis.label, ax.zaxis.label, ax._left_title, *ax.get_legend().get_texts()]
    assert_readable(ax.figure, labels)
    own = Figure().add_subplot(projection="3d")
    assert concept_scores(found, found.concepts, own) is own
    with pytest.raises(ChoqolateError, match='projection="3d"'):
        concept_scores(found, found.concepts, Figure().subplots())


def test_of_many_rows_an_even_subset_is_drawn():
    found = table(rows=1000, classes=1)
    drawn = concept_scores(found, ["sea", "lake"], most=11).collections[0].get_offsets()
    rows = [0, 100, 200, 300, 400, 500, 599, 699, 799, 899, 999]
    np.testing.assert_allclose(drawn, found.scores[rows][:, :2])
    assert len(concept_scores(found, ["sea", "lake"], most=5000).collections[0].get_offsets()) == 1000


def test_eight_classes_have_colours_and_the_others_are_grey():
    labels = [f"class {k:02}" for k in range(10) for _ in range(20 - k if k != 1 else 2)]
    rng = np.random.default_rng(0)
    found = ConceptScores(rng.random((len(labels) + 5, 2)), ["sea", "lake"], labels=[*labels, *[None] * 5])
    ax = concept_scores(found, ["sea", "lake"])
    shown = marks(ax)
    frequent = [f"class {k:02}" for k in (0, 2, 3, 4, 5, 6, 7, 8)]
    assert list(shown) == [*frequent, "other classes", "without a label"]
    assert [to_hex(shown[name].get_facecolor()[0]) for name in frequent] == list(PALETTE)
    for name in ("other classes", "without a label"):
        red, green, blue, _ = shown[name].get_facecolor()[0]
        assert max(red, green, blue) - min(red, green, blue) < 0.1
    assert sorted(len(group.get_offsets()) for group in ax.collections[:2]) == [5, 2 + 11]
    assert_readable(ax.figure, all_texts(ax))


def test_without_labels_all_is_grey_and_there_is_no_legend():
    ax = concept_scores(ConceptScores(np.random.default_rng(0).random((9, 2)), ["sea", "lake"]), ["sea", "lake"])
    assert ax.get_legend() is None
    assert len(ax.collections) == 1
    assert len(ax.collections[0].get_offsets()) == 9


def test_odd_names_of_concepts_and_classes_stay_text():
    scores = np.random.default_rng(0).random((len(ODD), len(ODD)))
    found = ConceptScores(scores, ODD, labels=ODD)
    for concepts in (ODD[:2], ODD[4:6], ODD[:3], ODD[-2:]):
        ax = concept_scores(found, concepts)
        ax.figure.draw_without_rendering()
        assert {"price $5 to $10", r"$\frac$ <b>", "_hidden"} < set(marks(ax))
        texts = [*ax.get_legend().get_texts(), ax.xaxis.label, ax.yaxis.label, ax._left_title]
        assert not any(text.get_parse_math() for text in texts)
        assert_readable(ax.figure, texts)


@pytest.mark.parametrize(
    ("concepts", "message"),
    [(["sea"], "two or three"), (["sea", "lakes"], "did you mean 'lake'"), (["sea", "sea"], "more than once")],
)
def test_other_concepts_are_errors(concepts, message):
    with pytest.raises(ChoqolateError, match=message):
        concept_scores(table(), concepts)
    assert plt.get_fignums() == []


def measured(accuracy, groups=None, classes=None, rows=100):
    groups, classes = groups or {}, classes or {"landbird": 0.9, "waterbird": 0.7}
    worst = min(groups, key=lambda name: groups[name], default=None)
    return Evaluation(
        rows=rows,
        chosen="test rows of the table",
        accuracy=accuracy,
        class_accuracy=classes,
        class_rows={name: 50 + 50 * k for k, name in enumerate(classes)},
        group_accuracy=groups,
        group_rows={name: 1000 + 100 * k for k, name in enumerate(groups)},
        worst_group=None if worst is None else (worst, groups[worst]),
        attribution_gini=0.5,
        node_coherence=0.5,
        confusion={},
    )


BEFORE = measured(0.8, {"land on land": 0.99, "land on water": 0.6, "water on water": 0.95})
AFTER = measured(0.9, {"land on land": 0.85, "land on water": 0.88, "water on water": 0.91})


def names(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


def counts(ax):
    return [text.get_text() for text in ax.texts if text.get_text().startswith("n = ")]


def test_bars_are_accuracies_in_per_cent_with_the_overall_one_first():
    ax = group_accuracy({"before": BEFORE, "after": AFTER})
    wanted = ([80, 99, 60, 95], [90, 85, 88, 91])
    for place, (bars, values) in enumerate(zip(ax.containers, wanted, strict=True)):
        assert [bar.get_width() for bar in bars] == pytest.approx(values)
        for row, bar in enumerate(bars):
            assert row - 0.5 < bar.get_y() < bar.get_y() + bar.get_height() < row + 0.5
            assert (bar.get_y() + bar.get_height() / 2 < row) == (place == 0)  # the first result above
    assert names(ax) == ["all", "land on land", "land on water", "water on water"]
    assert counts(ax) == ["n = 100", "n = 1,000", "n = 1,100", "n = 1,200"]
    assert ax.yaxis_inverted()
    assert_readable(ax.figure, all_texts(ax))


def test_thin_lines_are_wilson_intervals():
    ax = group_accuracy({"before": BEFORE, "after": AFTER})
    for lines, result in zip(ax.collections, (BEFORE, AFTER), strict=True):
        counts = [
            (100, result.accuracy),
            *((result.group_rows[n], value) for n, value in result.group_accuracy.items()),
        ]
        for segment, (rows, share) in zip(lines.get_segments(), counts, strict=True):
            expected = binomtest(round(share * rows), rows).proportion_ci(method="wilson")
            assert segment[:, 0] == pytest.approx([100 * expected.low, 100 * expected.high])


def test_groups_of_a_few_rows_have_no_bar_and_are_not_the_worst():
    few = replace(BEFORE, group_rows={"land on land": 1000, "land on water": 4, "water on water": 1200})
    ax = group_accuracy(few)
    assert [bar.get_width() for bar in ax.containers[0]] == pytest.approx([80, 99, 0, 95])
    assert len(ax.collections[0].get_segments()) == 3
    said = [text.get_text() for text in ax.texts if text.get_text() not in counts(ax)]
    assert said == ["80.0", "99.0", "too few to tell", "95.0  worst"]
    assert_readable(ax.figure, all_texts(ax))


def test_the_worst_group_of_each_result_is_marked():
    ax = group_accuracy({"before": BEFORE, "after": AFTER})
    marked = [text for text in ax.texts if "worst" in text.get_text()]
    assert [text.get_text() for text in marked] == ["60.0  worst", "85.0  worst"]
    assert [text.get_fontweight() for text in marked] == ["bold", "bold"]
    others = {text.get_text() for text in ax.texts if text not in marked} - set(counts(ax))
    assert others == {"80.0", "99.0", "95.0", "90.0", "88.0", "91.0"}


def test_before_and_after_differ_in_more_than_colour():
    ax = group_accuracy({"before": BEFORE, "after": AFTER})
    before, after = (bars[0] for bars in ax.containers)
    assert same_color(before.get_facecolor(), "white")
    assert same_color(before.get_edgecolor(), MAIN)
    assert before.get_linewidth() >= 1
    assert same_color(after.get_facecolor(), MAIN)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["before", "after"]
    assert group_accuracy({"before": BEFORE}).get_legend() is None


def test_without_groups_classes_are_shown():
    ax = group_accuracy({"before": measured(0.8), "after": AFTER})
    assert names(ax) == ["all", "landbird", "waterbird"]
    assert counts(ax) == ["n = 100", "n = 50", "n = 100"]
    assert [bar.get_width() for bar in ax.containers[0]] == pytest.approx([80, 90, 70])
    assert sum("worst" in text.get_text() for text in ax.texts) == 2


def test_groups_that_only_one_result_has():
    other = replace(AFTER, group_accuracy={"sky": 0.5}, group_rows={"sky": 10}, rows=99)
    ax = group_accuracy({"before": BEFORE, "after": other})
    assert names(ax)[-1] == "sky"
    assert (counts(ax)[0], counts(ax)[-1]) == ("n = 100 / 99", "n = 10")
    assert not any("nan" in text.get_text() for text in ax.texts)
    assert len(ax.texts) == 4 + 2 + len(counts(ax))


def test_of_many_groups_the_lowest_of_the_first_result_are_shown():
    rng = np.random.default_rng(0)
    groups = {f"group {k}": float(rng.random()) for k in range(35)}
    ax = group_accuracy({"before": measured(0.5, groups), "after": measured(0.5, dict.fromkeys(groups, 0.9))})
    lowest = sorted(groups, key=lambda name: groups[name])[:20]
    assert names(ax) == ["all", *lowest]
    assert "the 20 lowest of 35 groups" in ax.get_xlabel()
    assert_readable(ax.figure, all_texts(ax))
    assert len(names(group_accuracy({"before": measured(0.5, dict(list(groups.items())[:20]))}))) == 21


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_results_of_any_number_can_be_read(count):
    perfect = measured(1.0, {"a group with quite a long name, " * 2: 1.0, "$x$ <b> \N{BIRD}": 1.0, "_a": 1.0})
    ax = group_accuracy({f"result $ {k} of $ several": perfect for k in range(count)})
    assert_readable(ax.figure, all_texts(ax))
    assert min(text.get_fontsize() for text in all_texts(ax)) >= 6
    assert len({(to_hex(bars[0].get_facecolor()), bars[0].get_hatch()) for bars in ax.containers}) == count


def test_a_single_result_needs_no_name():
    one, named = group_accuracy(BEFORE), group_accuracy({"before": BEFORE})
    assert names(one) == names(named)
    assert [bar.get_width() for bar in one.containers[0]] == [bar.get_width() for bar in named.containers[0]]
    assert one.get_legend() is None


def test_in_narrow_axes_numbers_of_rows_are_left_out_and_ticks_stay_apart():
    ax = plt.figure(figsize=(3.3, 2.6)).subplots()
    group_accuracy({"as trained": BEFORE, "background removed": AFTER}, ax)
    assert counts(ax) == []
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["as trained", "background removed"]
    bold = [text.get_text() for text in ax.texts if text.get_fontweight() == "bold"]
    assert bold == ["60.0", "85.0"]
    assert "bold: worst" in ax.get_xlabel()
    assert_readable(ax.figure, all_texts(ax))


def test_no_results_are_an_error():
    with pytest.raises(ChoqolateError, match="at least one result"):
        group_accuracy({})


def test_given_axes_are_drawn_into_and_no_figure_opens():
    figure = Figure(figsize=(12, 4))
    one, two, three = figure.subplots(1, 3)
    assert accuracy_against_quality({"ours": cloud(0.9, 0.8)}, one) is one
    assert concept_scores(table(), ["sea", "lake"], two) is two
    assert group_accuracy({"before": BEFORE, "after": AFTER}, three) is three
    assert plt.get_fignums() == []
    figure.draw_without_rendering()


@pytest.mark.parametrize(
    "draw",
    [
        lambda: accuracy_against_quality({f"method {k}": cloud(0.2 * k, 0.8, seed=k) for k in range(4)}),
        lambda: concept_scores(table(missing=9), ["sea", "lake"], most=30),
        lambda: group_accuracy({"before": BEFORE, "after": AFTER}),
    ],
)
def test_the_same_numbers_give_the_same_image(draw):
    def drawn():
        figure = draw().figure
        figure.canvas.draw()
        return np.asarray(figure.canvas.buffer_rgba()).copy()

    np.testing.assert_array_equal(drawn(), drawn())


def test_no_tick_of_accuracy_is_beyond_all_images():
    spread = {"steady": ([0.9, 0.92, 0.91], [0.998, 0.999, 0.997]), "wild": ([0.4, 0.41, 0.44], [0.4, 0.99, 0.99])}
    for runs in (spread, {"steady": spread["steady"]}):
        ax = accuracy_against_quality(runs)
        low, high = ax.get_ylim()
        ticks = [tick for tick in ax.get_yticks() if low <= tick <= high]
        assert ticks
        assert max(ticks) <= 100
        plt.close(ax.figure)
