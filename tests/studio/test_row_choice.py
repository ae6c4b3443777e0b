"""Which rows the studio holds: roles, the sample, the order, and the sentences that say so."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.studio.row_choice import AUDIT, COVERED, TRAINING, choose_rows, divide
from tests.reports import bird_table, small_model


@pytest.fixture(scope="module")
def table():
    return bird_table(None, n_rows=1500)


@pytest.fixture(scope="module")
def model(table):
    return small_model(table, epochs=5, calibrate=False)


def of_role(choice, role):
    return set(np.flatnonzero(choice.role == role).tolist())


def rows_of(table, split):
    return set(np.flatnonzero(table.split == split).tolist())


def cells(table, rows):
    """How many of some rows are in each group of each class."""
    rows = sorted(rows)
    return Counter(zip(table.groups[rows].tolist(), table.labels[rows].tolist(), strict=True))


# ---------------------------------------------------------------------- roles


def test_validation_rows_are_for_the_audit_and_test_rows_are_covered(model, table):
    choice = choose_rows(model, table)
    assert [of_role(choice, role) for role in (TRAINING, AUDIT, COVERED)] == [
        rows_of(table, split) for split in ("train", "val", "test")
    ]
    assert (choice.audit, choice.covered) == ("the 300 validation rows", "the 600 test rows")
    assert choice.chosen == "All 1,500 rows of the table."
    assert choice.splits == ("train", "val", "test")
    assert choice.groups == tuple(sorted(set(table.groups)))


@pytest.mark.parametrize(("left_out", "kept", "called"), [("val", "test", "test"), ("test", "val", "validation")])
def test_the_only_held_out_part_is_halved_alike_in_every_group(model, table, left_out, kept, called):
    some = table.take(table.split != left_out)
    choice = choose_rows(model, some)
    audit, covered = of_role(choice, AUDIT), of_role(choice, COVERED)
    assert audit | covered == rows_of(some, kept)
    assert of_role(choice, TRAINING) == rows_of(some, "train")
    halves = cells(some, audit), cells(some, covered)
    assert all(abs(halves[0][cell] - halves[1][cell]) <= 1 for cell in halves[0] | halves[1])
    assert choice.audit == f"{len(audit)} of the {len(audit | covered)} {called} rows, a fixed half"
    assert choice.covered == f"the other {len(covered)} {called} rows"


def test_without_held_out_rows_the_labeled_rows_are_halved_and_it_is_said(model, table):
    for split in (None, ["train"] * len(table)):
        choice = choose_rows(model, table.with_columns(split=split))
        assert not of_role(choice, TRAINING)
        assert len(of_role(choice, AUDIT)) == len(of_role(choice, COVERED)) == 750
        assert choice.audit == "750 of the 1,500 labeled rows, a fixed half that may include training rows"


def test_a_split_that_was_made_for_training_is_respected(table):
    plain = table.with_columns(split=None)
    model = small_model(plain, epochs=5, calibrate=False)
    choice = choose_rows(model, plain)
    test = rows_of(plain.with_split(), "test")
    assert of_role(choice, AUDIT) | of_role(choice, COVERED) == test
    assert choice.splits == ("train", "test")
    assert choice.audit.endswith(f"of the {len(test)} test rows of the split that was made for training, a fixed half")


def test_rows_without_a_known_label_are_shown_and_not_measured(model, table):
    labels = table.labels.astype(object)
    labels[:40], labels[40:50] = None, "ostrich"
    choice = choose_rows(model, table.with_columns(labels=labels, classes=()))
    assert (choice.label < 0).sum() == 50
    assert of_role(choice, AUDIT) == rows_of(table, "val")
    assert choice.chosen.endswith("50 rows without a label known to the model: shown, not measured.")
    nothing = choose_rows(model, table.with_columns(labels=None, classes=()))
    assert of_role(nothing, AUDIT) == set(range(len(table)))
    assert nothing.audit == "all 1,500 rows, none of which has a label to measure with"
    assert nothing.covered == "no rows"


def test_a_part_without_labels_is_no_part_to_judge_on(model, table):
    labels = np.where(table.split == "val", None, table.labels.astype(object))
    choice = choose_rows(model, table.with_columns(labels=labels))
    assert of_role(choice, AUDIT) | of_role(choice, COVERED) == rows_of(table, "test")


# ---------------------------------------------------------------------- the sample


@given(
    budget=st.integers(0, 300),
    parts=st.lists(st.tuples(st.integers(0, 100), st.sampled_from([0.25, 0.35, 0.4, 1.0])), min_size=1, max_size=8),
)
def test_rows_are_divided_by_weight_and_none_is_left_over(budget, parts):
    sizes, weights = (np.array(column) for column in zip(*parts, strict=True))
    given_rows = divide(budget, sizes, weights)
    assert given_rows.sum() == min(budget, sizes.sum())
    assert ((given_rows >= 0) & (given_rows <= sizes)).all()
    for k, full in enumerate(given_rows == sizes):
        if not full:  # a part that could take more has its share, up to one row
            assert (given_rows[k] + 1) / weights[k] >= ((given_rows - 1) / weights).max() - 1e-9


def test_small_groups_are_whole_and_the_others_even(model, table):
    choice = choose_rows(model, table, rows=400)
    sample = choice.order[:400]
    assert Counter(choice.role[sample].tolist()) == {AUDIT: 160, COVERED: 140, TRAINING: 100}
    for role in (TRAINING, AUDIT, COVERED):
        members = [index for index, one in enumerate(choice.strata) if one.role == role]
        assert len(members) == 4
        taken = {index: int((choice.stratum[sample] == index).sum()) for index in members}
        cut = [count for index, count in taken.items() if count < choice.strata[index].total]
        assert max(cut) - min(cut) <= 1
        assert all(count <= max(cut) for count in taken.values())
    assert choice.chosen == (
        "400 of 1,500 rows: 160 of 300 validation rows, 140 of 600 test rows and 100 of 600 training rows. Small "
        "groups are taken whole, larger ones evenly; numbers are weighted to stand for all rows."
    )


def test_weights_stand_for_all_rows(model, table):
    choice = choose_rows(model, table, rows=333)
    sample = choice.order[: choice.loaded]
    loaded = np.bincount(choice.stratum[sample], minlength=len(choice.strata))
    totals = np.array([one.total for one in choice.strata])
    assert (loaded > 0).all()
    weights = (totals / loaded)[choice.stratum[sample]]
    for role in (TRAINING, AUDIT, COVERED):
        assert weights[choice.role[sample] == role].sum() == pytest.approx((choice.role == role).sum())
    assert (np.bincount(choice.stratum) == totals).all()
    for index, one in enumerate(choice.strata):  # what a stratum says of its rows is true
        rows = np.flatnonzero(choice.stratum == index)
        assert set(choice.split[rows]) == {one.split}
        assert set(choice.group[rows]) == {one.group}


def test_unused_budget_goes_to_the_others(model, table):
    few = table.take(np.r_[np.flatnonzero(table.split == "val")[:20], np.flatnonzero(table.split != "val")])
    choice = choose_rows(model, few, rows=320)
    counts = Counter(choice.role[choice.order[:320]].tolist())
    assert counts == {AUDIT: 20, COVERED: 175, TRAINING: 125}  # 300 rows, 35 to 25
    assert "all 20 validation rows" in choice.chosen


def test_classes_take_the_place_of_groups_and_chance_that_of_too_many(model, table):
    choice = choose_rows(model, table.with_columns(groups=None), rows=100)
    assert {(one.group, one.label) for one in choice.strata} == {(None, 0), (None, 1)}
    sample = choice.order[:100]
    assert Counter(choice.label[sample][choice.role[sample] == AUDIT].tolist()) == {0: 20, 1: 20}
    assert "Small classes are taken whole" in choice.chosen
    many = table.with_columns(groups=[f"group {row}" for row in range(len(table))])
    choice = choose_rows(model, many, rows=100)
    assert [one.total for one in choice.strata] == [600, 300, 600]
    assert "Rows are drawn at random; numbers" in choice.chosen
    uneven = table.with_columns(groups=np.where(table.split == "train", many.groups, "all"))
    assert "evenly where there is room for all of them; numbers" in choose_rows(model, uneven, rows=100).chosen


def test_the_order_is_fixed_and_later_rows_continue_the_sample(model, table):
    choice = choose_rows(model, table, rows=400)
    assert sorted(choice.order) == list(range(len(table)))
    shuffled = ConceptScores(table.scores[::-1], table.concepts, rows=table.rows)  # scores do not matter
    assert (choose_rows(model, shuffled, rows=400).order == choice.order).all()
    totals = np.bincount(choice.stratum)
    left = totals - np.bincount(choice.stratum[choice.order[:400]], minlength=len(totals))
    for start in range(400, 1400, 250):  # every later piece has its share of what the sample left
        piece = np.bincount(choice.stratum[choice.order[start : start + 250]], minlength=len(totals))
        assert np.abs(piece - left * 250 / left.sum()).max() <= 2


def test_a_table_without_rows_is_refused(model, table):
    with pytest.raises(ChoqolateError, match="Expected a table with rows"):
        choose_rows(model, table.take([]))
    with pytest.raises(ChoqolateError, match="rows"):
        choose_rows(model, table, rows=0)
    one = choose_rows(model, table.take([0]))
    assert one.chosen == "1 row of the table."
    assert one.covered == "no rows"
