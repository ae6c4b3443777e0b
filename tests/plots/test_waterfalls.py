"""Waterfalls: every bar is a contribution, they lead from the baseline to the number, and all of it can be read."""

from dataclasses import replace
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from PIL import Image

mpl.use("agg")

import matplotlib.pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from choqolate import ChoqolateClassifier, ChoqolateError
from choqolate.explain.change import explain_local_change
from choqolate.explain.local import Attribution
from choqolate.plots.style import MAIN, OTHER
from choqolate.plots.waterfalls import waterfall, waterfall_change
from tests.figures import assert_readable

ODD = ("price $5 to $10", r"$\frac$ <b>", 'said "so"', "_hidden", "\N{BIRD} gull", "שלום", "x" * 80, "two\nlines", "")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def attribution(values, start=0.2, names=None, subject="score of waterbird"):
    values = np.atleast_2d(np.asarray(values, dtype=float))
    names = names or tuple(f"concept {j}" for j in range(values.shape[1]))
    start = np.full(len(values), start)
    levels = np.linspace(0, 1, values.size).reshape(values.shape)
    return Attribution(values, start, start + values.sum(1), levels, tuple(names), (subject,) * len(values))


@pytest.fixture(scope="module")
def change():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 150)
    X = pd.DataFrame(rng.random((150, 6)), columns=["sea", "lake", "bill", "feet", "neck", "tail"])
    X["sea"] += y == 0
    X["bill"] += y == 1
    X["tail"] += y == 2
    labels = np.array(["gull", "wren", "owl"])[y]
    model = ChoqolateClassifier(n_nodes=4, epochs=30, temperature=0.05).fit(X, labels)
    return explain_local_change(X[:40], model, model.remove_concepts("sea", mode="impute"))


def bars(ax):
    """Where each bar begins and ends, from top to bottom, and how it looks."""
    found = [(bar.get_y(), bar) for group in ax.containers for bar in group]
    return [
        SimpleNamespace(row=y + bar.get_height() / 2, begin=bar.get_x(), length=bar.get_width(), patch=bar)
        for y, bar in sorted(found, key=lambda pair: pair[0])
    ]


def image_of(ax):
    (image,) = (child for child in ax.child_axes if child.images)
    return image


def names(ax):
    return [name.get_text() for name in ax.get_yticklabels()]


def numbers(ax):
    return [text.get_text() for text in ax.texts]


def assert_all_readable(figure, groups):
    """All texts inside the figure and, within each group, apart."""
    for texts in groups:
        assert_readable(figure, texts)


def all_texts(ax):
    return [*ax.get_yticklabels(), *ax.texts, ax.title, ax._left_title]


def test_bars_are_the_contributions_and_lead_from_the_start_to_the_end():
    values = [0.05, -0.3, 0.0, 0.4, -0.1]
    ax = waterfall(attribution(values))
    drawn = bars(ax)
    assert [bar.length for bar in drawn] == pytest.approx([0.4, -0.3, -0.1, 0.05])
    assert [bar.row for bar in drawn] == pytest.approx([1, 2, 3, 4])
    assert [bar.begin for bar in drawn] == pytest.approx([0.2, 0.6, 0.3, 0.2])
    ends = ax.lines[0]
    np.testing.assert_allclose(ends.get_xdata(), [0.2, 0.25])
    np.testing.assert_allclose(ends.get_ydata(), [0, 5])
    assert numbers(ax) == ["0.200", "+0.400", "−0.300", "−0.100", "+0.050", "0.250"]
    assert ax.get_title(loc="left") == "score of waterbird"


def test_lines_join_the_end_of_each_row_with_the_beginning_of_the_next():
    ax = waterfall(attribution([0.4, -0.3, 0.2]))
    joints = [segment for lines in ax.collections for segment in lines.get_segments()]
    assert [segment[0, 0] for segment in joints] == pytest.approx([0.2, 0.6, 0.3, 0.5])
    assert all(segment[0, 0] == segment[1, 0] for segment in joints)
    half = bars(ax)[0].patch.get_height() / 2
    assert [tuple(segment[:, 1]) for segment in joints] == [
        pytest.approx(pair) for pair in [(0, 1 - half), (1 + half, 2 - half), (2 + half, 3 - half), (3 + half, 4)]
    ]


def test_for_and_against_differ_in_more_than_colour():
    plus, minus = (bar.patch for bar in bars(waterfall(attribution([0.4, -0.3]))))
    assert (to_hex(plus.get_facecolor()), to_hex(minus.get_facecolor())) == (MAIN, OTHER)
    assert not plus.get_hatch()
    assert minus.get_hatch()


def test_names_have_the_levels_of_the_chosen_row():
    found = attribution([[0.1, 0.2], [0.4, -0.3]], names=("sea", "webbed feet"))
    assert names(waterfall(found, 1)) == ["baseline", "sea  0.67", "webbed feet  1.00", "this image"]
    assert names(waterfall(found, 0)) == ["baseline", "webbed feet  0.33", "sea  0.00", "this image"]


def test_of_many_concepts_the_largest_are_shown_and_the_others_share_a_bar():
    values = np.random.default_rng(0).normal(size=226)
    values[:6] = 0
    ax = waterfall(attribution(values), most=10)
    drawn = bars(ax)
    assert len(drawn) == 11
    order = np.argsort(-np.abs(values))
    assert [bar.length for bar in drawn[:10]] == pytest.approx(values[order[:10]])
    assert drawn[10].length == pytest.approx(values[order[10:]].sum())
    assert names(ax)[-2] == "210 others"
    assert drawn[-1].begin + drawn[-1].length == pytest.approx(0.2 + values.sum())


def test_what_is_too_small_for_a_bar_is_among_the_others():
    ax = waterfall(attribution([0.5, 1e-5, -2e-5]))
    assert names(ax)[1:-1] == ["concept 0  0.00", "2 others"]
    assert names(waterfall(attribution([0.5, 1e-5])))[1:-1] == ["concept 0  0.00", "concept 1  1.00"]


@pytest.mark.parametrize(
    ("subject", "quantity"),
    [("score of gull", "score"), ("gull rather than wren", "lead"), ("value of node 2 (sea)", "value")],
)
def test_the_axis_says_what_it_measures(subject, quantity):
    assert waterfall(attribution([0.3, -0.1], subject=subject)).get_xlabel() == quantity


@pytest.mark.parametrize(("baseline", "said"), [("mean", "mean image"), ("zero", "all at zero"), ("", "baseline")])
def test_the_first_row_says_what_the_image_is_compared_with(baseline, said):
    assert names(waterfall(replace(attribution([0.3]), baseline=baseline)))[0] == said


def test_of_several_rows_the_title_says_which():
    found = attribution([[0.1, 0.2], [0.4, -0.3]])
    assert waterfall(found, 1).get_title(loc="left") == "score of waterbird (row 1)"
    assert waterfall(found, 1, image=np.eye(4)).get_title(loc="left") == "score of waterbird"


def test_low_axes_show_fewer_concepts_one_by_one():
    values = 0.9 ** np.arange(20)
    ax = Figure(figsize=(5, 2)).subplots()
    waterfall(attribution(values), ax=ax)
    assert len(names(waterfall(attribution(values)))) == 13
    assert 5 <= len(names(ax)) < 13
    others = 20 - (len(names(ax)) - 3)
    assert names(ax)[-2] == f"{others} others"


def test_one_concept():
    ax = waterfall(attribution([0.3]))
    assert len(bars(ax)) == 1
    assert names(ax) == ["baseline", "concept 0  0.00", "this image"]


def test_nothing_contributes():
    ax = waterfall(attribution([0.0, 0.0]))
    assert names(ax) == ["baseline", "nothing contributes", "this image"]
    assert bars(ax) == []
    assert_all_readable(ax.figure, [all_texts(ax)])


@pytest.mark.parametrize("scale", [1e-4, 1.0, 4e3])
def test_numbers_have_three_digits_whatever_the_scale(scale):
    wanted = {1e-4: ["+0.000500", "−0.000120"], 1.0: ["+5.00", "−1.20"], 4e3: ["+20000", "−4800"]}
    shown = numbers(waterfall(attribution(np.array([5.0, -1.2]) * scale, start=0.0)))
    assert shown[1:3] == wanted[scale]


@pytest.mark.parametrize("image", [None, np.zeros((40, 90, 3)), np.zeros((90, 30))], ids=["none", "wide", "high"])
@pytest.mark.parametrize("n_concepts", [1, 5, 226])
def test_a_figure_of_its_own_can_be_read(n_concepts, image):
    values = np.random.default_rng(n_concepts).normal(size=n_concepts) / 10
    long = tuple(f"the concept with the number {j} of many more" for j in range(n_concepts))
    subject = "value of node 3 (" + ", ".join(long[:4]) + ")"
    ax = waterfall(attribution(values, names=long, subject=subject), image=image)
    assert_all_readable(ax.figure, [all_texts(ax)])
    assert min(text.get_fontsize() for text in all_texts(ax)) >= 6
    if image is not None:
        beside = image_of(ax)
        shape = beside.images[0].get_array().shape
        box = beside.get_window_extent()
        assert box.width / box.height == pytest.approx(shape[1] / shape[0], rel=0.02)
        assert box.x1 <= min(name.get_window_extent().x0 for name in ax.get_yticklabels()) + 1
        assert box.x0 >= 0


@pytest.mark.parametrize("image", [None, np.zeros((40, 90))], ids=["none", "image"])
def test_odd_names_stay_text(image):
    values = np.linspace(0.5, -0.3, len(ODD))
    ax = waterfall(attribution(values, names=ODD, subject=r"score of $\frac$ <b>"), image=image)
    assert_all_readable(ax.figure, [all_texts(ax)])
    shown = " ".join(names(ax))
    for name in ("price $5 to $10", r"$\frac$ <b>", 'said "so"', "_hidden", "two lines", "x" * 35 + "…"):
        assert name in shown
    assert not any(text.get_parse_math() for text in (*ax.get_yticklabels(), ax._left_title))


@pytest.mark.parametrize("image", [None, np.zeros((40, 60, 3))], ids=["none", "image"])
def test_given_axes_are_drawn_into_and_no_figure_opens(change, image):
    figure = Figure(figsize=(12, 4))
    one, two = figure.subplots(1, 2)
    where = [ax.get_window_extent().frozen() for ax in (one, two)]
    assert waterfall(change.before.contrast(), 2, one, image=image) is one
    assert waterfall_change(change, 2, two, image=image) is two
    assert plt.get_fignums() == []
    figure.draw_without_rendering()
    if image is not None:  # the image and the bars share the room of the axes
        image = image_of(one)
        assert image.get_window_extent().x0 >= 0
        assert one.get_window_extent().x1 <= where[0].x1 + 1
        assert image.get_window_extent().x1 < min(name.get_window_extent().x0 for name in one.get_yticklabels())


def test_an_image_may_be_a_path_an_image_or_an_array(tmp_path):
    pixels = np.zeros((4, 6, 3), dtype=np.uint8)
    pixels[0, 0] = 255, 10, 20
    image = Image.fromarray(pixels)
    image.save(tmp_path / "bird.png")
    for given in (tmp_path / "bird.png", str(tmp_path / "bird.png"), image, pixels):
        ax = waterfall(attribution([0.3]), image=given)
        drawn = image_of(ax).images[0].get_array()
        np.testing.assert_array_equal(drawn, pixels)


def test_what_is_no_image_is_an_error(tmp_path):
    (tmp_path / "bird.png").write_text("no image")
    with pytest.raises(ChoqolateError, match=r"bird\.png cannot be read"):
        waterfall(attribution([0.3]), image=tmp_path / "bird.png")
    with pytest.raises(ChoqolateError, match=r"shape \(height, width\).*\(3, 4, 5\)"):
        waterfall(attribution([0.3]), image=np.zeros((3, 4, 5)))
    with pytest.raises(ChoqolateError, match="expected an image with pixels"):
        waterfall(attribution([0.3]), image=np.zeros((0, 4)))
    assert plt.get_fignums() == []


@pytest.mark.parametrize(
    ("options", "message"), [(dict(row=2), "from 0 to 1"), (dict(most=0), "most"), (dict(row=-1), "row")]
)
def test_bad_options_are_errors(options, message):
    with pytest.raises(ChoqolateError, match=message):
        waterfall(attribution([[0.3], [0.1]]), **options)


def test_the_same_numbers_give_the_same_image(change):
    def drawn():
        figure = waterfall_change(change, 3, image=np.eye(9)).figure
        figure.canvas.draw()
        return np.asarray(figure.canvas.buffer_rgba()).copy()

    np.testing.assert_array_equal(drawn(), drawn())


def sides(ax):
    return [child for child in ax.child_axes if child.containers]


def test_both_sides_show_the_same_pair_of_classes_with_the_same_concepts_and_scale(change):
    row = int(np.flatnonzero(change.flipped)[0])
    ax = waterfall_change(change, row, most=4)
    before, after = sides(ax)
    first, second = (str(change.before.classes[r]) for r in change.before.ranking[row, :2])
    assert before.get_title(loc="left") == f"before: {change.before.predicted[row]}"
    assert after.get_title(loc="left") == f"after: {change.after.predicted[row]}"
    assert ax.texts[0].get_text().startswith(f"{first} rather than {second}")
    assert before.get_xlim() == after.get_xlim()
    assert before.get_ylim() == after.get_ylim()
    assert len(names(before)) == 4 + 3
    wanted = [side.contrast(first, second) for side in (change.before, change.after)]
    sizes = np.maximum(*(np.abs(side.values[row]) for side in wanted))
    order = np.argsort(-sizes)[:4]
    assert [name.rsplit("  ", 1)[0] for name in names(before)[1:5]] == [wanted[0].names[j] for j in order]
    for side, told in zip((before, after), wanted, strict=True):
        by_row = {round(bar.row): bar.length for bar in bars(side)}
        for place, j in enumerate(order, start=1):
            assert by_row.get(place, 0.0) == pytest.approx(told.values[row, j])
        np.testing.assert_allclose(side.lines[0].get_xdata(), [told.start[row], told.end[row]])
        rest = told.values[row].sum() - told.values[row, order].sum()
        assert by_row[5] == pytest.approx(rest)


@pytest.mark.parametrize(("width", "above"), [(3.3, True), (9, False)])
def test_before_stands_above_after_where_it_is_narrow(change, width, above):
    ax = waterfall_change(change, 2, Figure(figsize=(width, 4)).subplots())
    ax.figure.draw_without_rendering()
    before, after = (side.get_window_extent() for side in sides(ax))
    assert (before.y0 >= after.y1) == above
    assert (before.x1 <= after.x0) == (not above)
    assert before.size == pytest.approx(after.size)
    assert sides(ax)[0].get_xlim() == sides(ax)[1].get_xlim()


def test_a_removed_concept_is_gone(change):
    wanted = np.abs(change.before.contrast().values[:, 0])
    ax = waterfall_change(change, int(wanted.argmax()), most=6)
    before, after = sides(ax)
    place = next(k for k, name in enumerate(names(before)) if name.startswith("sea"))
    assert numbers(before)[place] != "gone"
    assert numbers(after)[place] == "gone"
    assert place not in {round(bar.row) for bar in bars(after)}
    assert numbers(after).count("gone") == 1


@pytest.mark.parametrize("image", [None, np.zeros((60, 40, 3))], ids=["none", "image"])
def test_a_change_in_a_figure_of_its_own_can_be_read(change, image):
    for row in range(4):
        ax = waterfall_change(change, row, image=image)
        texts = [text for side in sides(ax) for text in all_texts(side)]
        assert_all_readable(ax.figure, [[*texts, *ax.texts]])
        plt.close(ax.figure)


def test_names_with_dollars_keep_clear_of_the_image():
    names = ("from $ mmmmmmmmm $ to more", "sea")  # as a formula it would be narrower
    ax = waterfall(attribution([0.3, 0.2], names=names), image=np.zeros((40, 90)))
    ax.figure.draw_without_rendering()
    beside = image_of(ax)
    assert beside.get_window_extent().x1 <= min(name.get_window_extent().x0 for name in ax.get_yticklabels()) + 1
