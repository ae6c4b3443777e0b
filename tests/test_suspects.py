"""Suspects are what removal says they are, found where there is enough to tell."""

import math
from dataclasses import replace

import numpy as np
import pytest

import choqolate as cq
from choqolate.evaluation import inputs
from choqolate.metrics import worst_group_accuracy
from choqolate.suspects import COSTS, HELPFUL, IDLE, RELIES, find_suspects
from tests.reports import bird_table, small_model


@pytest.fixture(scope="module")
def table():
    return bird_table(None, n_rows=6000, agreement=0.85)


@pytest.fixture(scope="module")
def model(table):
    return small_model(table)


def removed(model, rows, concept):
    """Accuracy and worst group after a real removal."""
    predicted = model.remove_concepts(concept).predict(inputs(model, rows))
    return (predicted == rows.labels).mean(), worst_group_accuracy(rows.labels, predicted, rows.groups)


@pytest.mark.filterwarnings("ignore:little is left")
def test_reasons_hold_for_every_concept(model, table):
    found = {one.concept: one for one in find_suspects(model, table, most=100).found}
    rows = table.part("val")
    predicted = model.predict(rows.frame)
    before = (predicted == rows.labels).mean(), worst_group_accuracy(rows.labels, predicted, rows.groups)
    smallest = min(np.unique(rows.groups, return_counts=True)[1])
    shares = model.class_attributions_.mean(0) @ model.node_attributions_
    assert shares.sum() == pytest.approx(1)
    for share, concept in zip(shares, table.concepts, strict=True):
        accuracy, worst = removed(model, rows, concept)
        helps = bool(worst - before[1] >= max(0.01, 3 / smallest))
        idle = bool(share >= RELIES / len(shares) and accuracy - before[0] > -COSTS)
        assert (concept in found) == (helps or idle)
        if concept in found:
            one = found[concept]
            assert one.accuracy_change == pytest.approx(accuracy - before[0])
            assert one.worst_group_change == pytest.approx(worst - before[1])
            assert one.share == pytest.approx(share)
            assert one.reasons == (*[HELPFUL] * helps, *[IDLE] * idle)
            assert one.spurious == (concept in table.spurious)


def test_the_background_that_misleads_is_the_first_suspect(model, table):
    found = find_suspects(model, table)
    assert found.found[0].concept in ("sea", "forest")
    assert set(found.helpful) & {"sea", "forest"}
    gains = [one.worst_group_change for one in found.found if HELPFUL in one.reasons]
    assert gains == sorted(gains, reverse=True)


def test_small_groups_of_validation_rows_are_not_trusted(model, table):
    assert find_suspects(model, table).chosen == "val rows of the table"
    few = table.take(np.flatnonzero((table.split != "val") | (np.arange(len(table)) % 20 == 2)))
    found = find_suspects(model, few)
    assert found.chosen == "test rows of the table"
    assert found.rows == (few.split == "test").sum()


def test_without_groups_it_is_about_accuracy_alone(model, table):
    found = find_suspects(model, replace(table, groups=None))
    assert found.smallest_group is None
    assert found.helpful == ()
    assert all(math.isnan(one.worst_group_change) and one.reasons == (IDLE,) for one in found.found)


def test_a_bipolar_model_counts_presence_and_absence_together(table):
    model = small_model(table, bipolar=True)
    both = model.class_attributions_.mean(0) @ model.node_attributions_
    n = len(table.concepts)
    for one in find_suspects(model, table).found:
        j = table.concepts.index(one.concept)
        assert one.share == pytest.approx(both[j] + both[n + j])


def test_at_most_so_many(model, table):
    assert len(find_suspects(model, table, most=1).found) == 1
    with pytest.raises(cq.ChoqolateError, match="most"):
        find_suspects(model, table, most=0)
