"""What a table gives to a model: rows to measure on, rows to recalibrate on, concepts to remove."""

from __future__ import annotations

import numpy as np
import pytest

import choqolate as cq
from choqolate.analysis.evaluation import evaluate_parts, marked_concepts
from choqolate.data.scores import ConceptScores
from choqolate.estimators.table_training import training_rows
from tests.small_tables import CONCEPTS, bird_scores


def make_table(split, labels=None, **fields):
    X, y, _ = bird_scores(len(split))
    return ConceptScores(X.to_numpy(), CONCEPTS, labels=y if labels is None else labels, split=split, **fields)


SPLIT = ["train", "train", "test"] * 30


@pytest.fixture(scope="module")
def table():
    return make_table(SPLIT)


@pytest.fixture(scope="module")
def model(table):
    return cq.fit_scores(table, n_nodes=3, epochs=2)


def test_training_and_held_out_rows_are_measured(model, table):
    results = evaluate_parts(model, table)
    assert list(results) == ["training", "held out"]
    assert results["training"].as_dict() == cq.evaluate(model, table, "train").as_dict()
    assert results["held out"].as_dict() == cq.evaluate(model, table).as_dict()


def test_without_held_out_rows_a_warning_says_so(model):
    with pytest.warns(cq.ChoqolateWarning) as said:
        results = evaluate_parts(model, make_table(["train"] * 60))
    assert list(results) == ["training"]
    message = "not evaluated on held-out rows: all rows with a label are for training"
    assert [str(one.message) for one in said] == [message]


def test_held_out_rows_that_the_model_cannot_be_measured_on_are_no_error(model, table):
    labels = np.where(np.array(SPLIT) == "test", "fish", table.labels)
    with pytest.warns(cq.ChoqolateWarning, match="not evaluated on held-out rows: expected labels among .* 'fish'"):
        results = evaluate_parts(model, make_table(SPLIT, labels))
    assert list(results) == ["training"]


def test_marked_concepts_must_be_there(model, table):
    assert marked_concepts(model, table, make_table(SPLIT, spurious=["forest", "sea"])) == ["sea", "forest"]
    with pytest.raises(cq.ChoqolateError, match="neither the model nor the scores given mark any"):
        marked_concepts(model, table)


def test_a_model_is_recalibrated_on_the_training_rows(model, table):
    rows = training_rows(model, table)
    np.testing.assert_array_equal(rows.scores, table.part("train").scores)
    edited = model.remove_concepts("sea", recalibrate=rows)
    assert edited.class_shift_.any()
    same = model.remove_concepts("sea", recalibrate=table.part("train").frame)
    np.testing.assert_array_equal(edited.class_shift_, same.class_shift_)
