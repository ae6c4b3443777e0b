"""Accuracy with few concepts as part of an evaluation: the metric itself, of tables, files and every kind of model."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import binomtest

import choqolate as cq
from choqolate import metrics
from choqolate.analysis import few_concepts
from choqolate.analysis.evaluation import evaluate, evaluate_parts
from choqolate.analysis.evaluation_record import Evaluation
from choqolate.analysis.few_concepts import few_concepts_rows, few_concepts_text
from choqolate.analysis.interval_text import share_text
from choqolate.baselines import PSCBM, LogisticRidge, SparseAutoencoder
from choqolate.data.score_file import ScoreFile
from choqolate.metrics import Proportion
from choqolate.metrics.effective_concepts import NEC_COUNTS


def make_table(n_rows=240, split=True):
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 4, n_rows)
    scores = rng.random((n_rows, 12)) + 0.4 * np.hstack([np.eye(4), np.eye(4), np.zeros((4, 4))])[targets]
    where = np.where(np.arange(n_rows) % 3, "train", "test") if split else None
    labels = np.array(["gull", "wren", "owl", "tit"])[targets]
    return cq.ConceptScores(scores, [f"concept {j}" for j in range(12)], labels=labels, split=where)


def expected(model, table, counts=NEC_COUNTS):
    """The metric on the scaled scores of the training and test rows."""
    train, test = table.part("train"), table.part("test")
    low, high = train.scores.min(axis=0), train.scores.max(axis=0)
    Z, Z_test = (np.clip((part.scores - low) / (high - low), 0, 1) for part in (train, test))
    y, y_test = (np.searchsorted(model.classes_, part.labels) for part in (train, test))
    return metrics.accuracy_at_nec(model.class_attributions_ @ model.node_attributions_, Z, y, Z_test, y_test, counts)


@pytest.mark.parametrize(
    "options",
    [{"n_nodes": None, "interactions": "none"}, {"n_nodes": 4}, {"n_nodes": 4, "bipolar": True}],
    ids=["one layer", "pairs", "bipolar"],
)
def test_an_evaluation_has_the_metric(options):
    table = make_table()
    train = table.part("train")
    model = cq.ChoqolateClassifier(temperature=0.05, epochs=15, **options).fit(train.frame, train.labels)
    result = evaluate(model, table)
    assert result.nec_accuracy == expected(model, table)
    assert result.anec == pytest.approx(np.mean(list(result.nec_accuracy.values())))
    assert result.nec_accuracy[15] == result.nec_accuracy[30]  # of twelve concepts


def test_of_a_linear_model_all_concepts_are_the_model_up_to_its_shift():
    table = make_table(600)
    train = table.part("train")
    model = LogisticRidge().fit(train.frame, train.labels)
    result = evaluate(model, table, concept_counts=(1, 12))
    assert result.nec_accuracy == expected(model, table, (1, 12))
    assert result.nec_accuracy[12] == pytest.approx(result.accuracy, abs=0.03)
    assert result.nec_accuracy[1] < result.accuracy - 0.1


def test_units_that_are_learned_are_what_counts_for_them():
    table = make_table()
    train, test = table.part("train"), table.part("test")
    model = PSCBM(n_nodes=3, min_score=None, epochs=30, learning_rate=0.05).fit(train.frame, train.labels)
    units = model.selection_.columns
    W = model.class_attributions_ @ model.node_attributions_
    assert not W[:, np.setdiff1d(np.arange(12), units)].any()
    sums = model.node_inputs(test.frame) @ model.node_attributions_.T + model.node_intercepts_
    np.testing.assert_allclose(sums, model.transform(test.frame), atol=1e-12)
    few = evaluate(model, table, concept_counts=(12,)).nec_accuracy[12]
    assert few == pytest.approx(evaluate(model, table).accuracy, abs=0.1)
    assert evaluate(SparseAutoencoder(4, epochs=5).fit(train.frame, train.labels), table).nec_accuracy


@pytest.mark.parametrize("most", [2_000, 60])
@pytest.mark.parametrize("split", [True, False])
def test_a_file_gives_the_same(tmp_path, monkeypatch, most, split):
    monkeypatch.setattr(few_concepts, "MOST_ROWS", most)
    table = make_table(split=split)
    path = tmp_path / "scores.parquet"
    table.save(path)
    pq.write_table(pq.read_table(path), path, row_group_size=70)
    model = cq.fit_scores(table, n_nodes=3, epochs=5)
    whole, streamed = evaluate_parts(model, table), evaluate_parts(model, ScoreFile(path))
    assert whole["held out"].nec_accuracy
    assert {name: one.nec_accuracy for name, one in whole.items()} == {
        name: one.nec_accuracy for name, one in streamed.items()
    }


def test_it_is_left_out_where_it_is_not_defined():
    table = make_table()
    model = cq.fit_scores(table, n_nodes=3, epochs=2)
    few = table.take(np.flatnonzero((table.split == "test") | (np.arange(240) < 4)))
    labels = np.where(table.split == "train", "emu", table.labels)
    strange = cq.ConceptScores(table.scores, table.concepts, labels=labels, split=table.split)
    for other in (table.part("test"), few, strange):
        result = evaluate(model, other, "test")
        assert result.nec_accuracy == {}
        assert math.isnan(result.anec)
        assert result.as_dict()["anec"] is None
    assert evaluate(model, table, concept_counts=()).nec_accuracy == {}


def test_it_is_kept_with_a_model_and_older_numbers_can_be_read():
    table = make_table()
    result = evaluate(cq.fit_scores(table, n_nodes=3, epochs=2), table)
    numbers = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert numbers["nec_accuracy"] == {str(k): share for k, share in result.nec_accuracy.items()}
    assert numbers["anec"] == result.anec
    assert Evaluation.from_dict(numbers).nec_accuracy == result.nec_accuracy
    older = {name: value for name, value in numbers.items() if name not in ("nec_accuracy", "anec", "labels_from")}
    assert Evaluation.from_dict(older).nec_accuracy == {}
    with pytest.raises(cq.ChoqolateError, match="incomplete"):
        Evaluation.from_dict(numbers | {"nec_accuracy": {"few": 0.5}})


def test_rare_classes_have_their_own_shares_in_large_tables(tmp_path):
    """The sample for the shift is one of all rows alike: rare classes that come first would be predicted too often."""
    rng = np.random.default_rng(0)
    shares = np.array([0.55, 0.3, 0.1, 0.03, *[0.002] * 10])
    targets = rng.choice(14, 12_000, p=shares)
    scores = rng.random((12_000, 14)) + 0.5 * np.eye(14)[targets]
    labels = np.array([f"class {r:02}" for r in range(14)])[targets]
    table = cq.ConceptScores(scores, [f"c{j}" for j in range(14)], labels=labels, split=["train", "test"] * 6_000)
    train = table.part("train")
    model = LogisticRidge().fit(train.frame, train.labels)
    table.save(tmp_path / "scores.parquet")

    found = evaluate(model, table).nec_accuracy

    every = expected(model, table)
    assert found[5] == pytest.approx(every[5], abs=0.015)
    assert found[15] == pytest.approx(every[15], abs=0.015)
    assert evaluate_parts(model, ScoreFile(tmp_path / "scores.parquet"))["held out"].nec_accuracy == found


def test_it_is_left_out_where_there_are_fewer_concepts_than_any_count():
    table = make_table()
    model = cq.fit_scores(table.select(table.concepts[:4]), n_nodes=3, epochs=2)
    assert evaluate(model, table).nec_accuracy == {}
    assert evaluate(model, table, concept_counts=(2, 8)).nec_accuracy.keys() == {2, 8}


def test_in_words():
    assert few_concepts_text({}, 100) == ("", "")
    low, _ = binomtest(100, 100).proportion_ci(method="wilson")
    said = f"1.000, 1.000; mean 1.000 (95% intervals: at most ± {1 - low:.3f})"
    assert few_concepts_text({5: 1.0, 10: 1.0}, 100)[1] == said
    heading, shares = few_concepts_text({5: 0.61234, 10: 0.8}, 100_000)
    assert heading == "accuracy with 5, 10 concepts per class"
    assert shares.startswith("0.612, 0.800; mean 0.706 (95% intervals: at most ± 0.003)")


def test_too_few_rows_for_few_concepts():
    assert few_concepts_text({5: 1.0, 10: 0.75}, 4)[1] == "too few to tell (4 images)"
    rows = dict(few_concepts_rows([({5: 1.0, 10: 0.75}, 4)]))
    assert rows["accuracy with 5 concepts per class"] == ["too few to tell (4 images)"]
    assert rows["mean accuracy with 5 to 10 concepts per class"] == ["–"]


def test_as_rows_of_a_table():
    rows = dict(few_concepts_rows([({5: 0.5, 10: 0.7, 30: 0.9}, 100), ({5: 0.4, 10: 0.5, 30: 0.6}, 10)]))
    shares = [Proportion(50, 100), Proportion(4, 10)]
    assert rows["accuracy with 5 concepts per class"] == list(map(share_text, shares))
    assert rows["accuracy with 10 concepts per class"] == list(
        map(share_text, (Proportion(70, 100), Proportion(5, 10)))
    )
    assert rows["mean accuracy with 5 to 30 concepts per class"] == ["70.0%", "50.0%"]
    assert len(rows) == 3
    assert few_concepts_rows([({}, 5), ({}, 5)]) == []
    cells = dict(few_concepts_rows([({}, 50), ({5: 1.0, 10: 1.0}, 50)]))["accuracy with 5 concepts per class"]
    assert cells == ["–", share_text(Proportion(50, 50))]
