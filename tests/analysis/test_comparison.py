"""Changes on the same rows are judged by a paired test, and a gap between training and other rows is said."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

import choqolate as cq
from choqolate.analysis.comparison import compare_evaluations, gap_note
from choqolate.analysis.evaluation import evaluate, evaluate_parts
from choqolate.data.scores import ConceptScores
from tests.reports import bird_table, small_model


@pytest.fixture(scope="module")
def table():
    return bird_table(None, n_rows=900, agreement=0.85)


@pytest.fixture(scope="module")
def model(table):
    return small_model(table)


@pytest.fixture(scope="module")
def edited(model):
    return model.remove_concepts(["sea", "forest"], mode="impute")


def test_changes_are_those_of_the_rows(model, edited, table):
    test = table.part("test")
    before, after = (one.predict(test.frame) == test.labels for one in (model, edited))
    compared = compare_evaluations(evaluate(model, table), evaluate(edited, table))

    def counted(members):
        return (after & ~before & members).sum(), (before & ~after & members).sum(), members.sum()

    assert compared.overall == counted(np.ones(len(test), dtype=bool))
    assert compared.classes == {name: counted(test.labels == name) for name in model.classes_}
    assert compared.groups == {name: counted(test.groups == name) for name in np.unique(test.groups)}
    gained, lost, _ = compared.overall
    assert compared.overall.p_value == pytest.approx(binomtest(gained, gained + lost).pvalue)
    name, change = compared.worst_group
    assert name == evaluate(model, table).worst_measurable_group[0]
    assert change == compared.groups[name]


def test_lines_say_what_may_be_chance(model, edited, table):
    compared = compare_evaluations(evaluate(model, table), evaluate(edited, table))
    overall, before, after = compared.lines()
    assert overall.startswith("accuracy: ")
    assert f" on {compared.overall.rows} images: " in overall
    assert ("beyond chance" if compared.overall.p_value < 0.05 else "may be due to chance") in overall
    assert before.startswith(f"worst group before, {compared.worst_group[0]}: +")
    name, share = compared.after.worst_measurable_group
    assert after.startswith(f"worst group after, {name}: {100 * share.value:.1f}% (")
    assert overall in repr(compared)
    same = compare_evaluations(compared.before, compared.before)
    assert same.lines()[0] == f"accuracy: no change on {compared.overall.rows} images"


def test_groups_of_a_few_rows_are_named_and_not_judged(model, edited, table):
    few = np.flatnonzero((table.split == "test") & (table.groups == "landbird on water"))[4:]
    small = table.take(np.setdiff1d(np.arange(len(table)), few))
    compared = compare_evaluations(evaluate(model, small), evaluate(edited, small))
    assert compared.groups["landbird on water"].too_few
    assert compared.worst_group[0] != "landbird on water"
    said = compared.lines()
    assert said[-1] == "too few to tell: landbird on water (4 images)"
    assert "landbird on water" not in " ".join(said[:-1])


def test_without_groups_it_is_about_all_rows(model, edited, table):
    bare = replace(table, groups=None)
    compared = compare_evaluations(evaluate(model, bare), evaluate(edited, bare))
    assert compared.groups == {}
    assert compared.worst_group is None
    assert len(compared.lines()) == 1


def test_other_rows_are_an_error(model, table):
    result = evaluate(model, table)
    other = np.flatnonzero(table.split == "test")[::-1]
    for wrong in (
        evaluate(model, table, "train"),
        evaluate(model, table.take(other)),
        evaluate(model, replace(table, groups=None)),
    ):
        with pytest.raises(
            cq.ChoqolateError,
            match=r"^Expected evaluations of the same rows, but the rows, labels or groups differ: 360 rows \(test",
        ):
            compare_evaluations(result, wrong)
    with pytest.raises(cq.ChoqolateError, match="that hold their rows"):
        compare_evaluations(result, replace(result, hits=None))


def measured(result, share, rows, groups=None, group_rows=None):
    accuracy = round(share * rows) / rows
    return replace(result, accuracy=accuracy, rows=rows, group_accuracy=groups or {}, group_rows=group_rows or {})


def test_a_gap_that_groups_explain_is_told_from_memorizing(model, table):
    """95 and 5 % of the training images, half and half of the others: 0.95 * 1.0 + 0.05 * 0.6 = 0.98."""
    result = evaluate(model, table)
    training = measured(result, 0.985, 2000, {"usual": 1.0, "rare": 0.7}, {"usual": 1900, "rare": 100})
    shifted = measured(result, 0.8, 1000, {"usual": 1.0, "rare": 0.6}, {"usual": 500, "rare": 500})
    said = gap_note(training, shifted)
    assert "weighted as in training, held-out accuracy would be 98.0%" in said
    assert "memorized" not in said
    worse = measured(result, 0.7, 1000, {"usual": 0.8, "rare": 0.6}, {"usual": 500, "rare": 500})
    assert "memorized" in gap_note(training, worse)
    missing = measured(result, 0.6, 1000, {"rare": 0.6}, {"rare": 1000})
    assert "memorized" in gap_note(training, missing)


@pytest.mark.parametrize(
    ("training", "held_out", "rows", "noted"),
    [
        (0.99, 0.90, 1000, True),
        (0.99, 0.95, 5000, False),  # below five points
        (0.93, 0.85, 20, False),  # may be due to chance
        (0.99, 0.50, 8, False),  # too few to tell
        (0.80, 0.95, 1000, False),  # the other way round
    ],
)
def test_a_gap_is_noted_if_it_is_large_and_no_chance(model, table, training, held_out, rows, noted):
    result = evaluate(model, table)
    said = gap_note(measured(result, training, 2000), measured(result, held_out, rows))
    assert (said is not None) == noted
    if said is not None:
        ours, others = (binomtest(*counts).proportion_ci(method="wilson") for counts in ((1980, 2000), (900, 1000)))
        reach = math.hypot(0.99 - ours.low, others.high - 0.9), math.hypot(ours.high - 0.99, 0.9 - others.low)
        assert f"99.0% ({100 * ours.low:.1f} to {100 * ours.high:.1f}) on training images" in said
        assert f"90.0% ({100 * others.low:.1f} to {100 * others.high:.1f}) on held-out images" in said
        assert f"a gap of 9.0 points ({100 * (0.09 - reach[0]):.1f} to {100 * (0.09 + reach[1]):.1f})" in said
        assert "memorized" in said
        assert "differ from them" in said


def test_a_model_that_memorizes_noise_is_noted():
    rng = np.random.default_rng(0)
    labels = np.array(["duck", "owl"])[rng.integers(0, 2, 120)]
    split = np.array(["train", "test"])[np.arange(120) % 2]
    table = ConceptScores(rng.random((120, 60)), [f"concept {j}" for j in range(60)], labels=labels, split=split)
    model = small_model(table, temperature=0.002, epochs=100)
    with pytest.warns(cq.ChoqolateWarning, match=r"accuracy is .* on training images and .*memorized"):
        evaluate_parts(model, table)


def test_a_model_that_does_as_well_on_other_rows_is_not_noted(model, table):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate_parts(model, table)
