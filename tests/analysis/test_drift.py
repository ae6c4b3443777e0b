"""Drift between two tables: statistics against SciPy, and what is said of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp

import choqolate as cq
from choqolate.analysis.drift import compare_tables, holm, ks_p_values, ks_statistics
from choqolate.metrics import difference_interval
from tests.small_tables import bird_scores


@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(2, 40), st.booleans())
def test_statistics_and_p_values_are_scipys(seed, n, m, ties):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(n, 2)), rng.normal(0.5, 1, (m, 2))
    if ties:
        a, b = a.round(), b.round()
    found = ks_statistics(a, b)
    expected = [ks_2samp(a[:, j], b[:, j], method="asymp") for j in range(2)]
    np.testing.assert_allclose(found, [one.statistic for one in expected], atol=1e-12)
    np.testing.assert_allclose(ks_p_values(found, n, m), [one.pvalue for one in expected], atol=1e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_the_correction_rejects_what_holms_procedure_rejects(p_values):
    p_values = np.array(p_values)
    corrected = holm(p_values)
    for level in (0.01, 0.05, 0.3):
        rejected = set()
        for step, j in enumerate(np.argsort(p_values, kind="stable")):
            if p_values[j] * (len(p_values) - step) >= level:
                break
            rejected.add(int(j))
        assert set(np.flatnonzero(corrected < level).tolist()) == rejected


def table_of(n_rows, seed=0, shift=None, **about):
    X, y, _ = bird_scores(n_rows, seed=seed)
    X = X.assign(**{name: X[name] + by for name, by in (shift or {}).items()})
    return cq.ConceptScores(X.to_numpy(), list(X.columns), **{"labels": y} | about)


@pytest.fixture(scope="module")
def model():
    X, y, _ = bird_scores(500)
    return cq.ChoqolateClassifier(n_nodes=3, epochs=20).fit(X, y)


def test_a_shifted_concept_is_found_and_the_others_are_not(model):
    before, after = table_of(400, 1), table_of(300, 2, {"sea": 0.05})
    found = compare_tables(model, before, after)
    assert found.rows == (400, 300)
    assert [one.concept for one in found.drifted] == ["sea"]
    sea = next(one for one in found.concepts if one.concept == "sea")
    extent = model.score_max_[4] - model.score_min_[4]
    expected = (after.scores[:, 4].mean() - before.scores[:, 4].mean()) / extent
    assert sea.shift == pytest.approx(expected)
    assert sea.outside_second == pytest.approx((after.scores[:, 4] > model.score_max_[4]).mean())
    assert sum(one.share for one in found.concepts) == pytest.approx(1)
    weights = [one.statistic * one.share for one in found.concepts]
    assert weights == sorted(weights, reverse=True)
    assert found.verdict.startswith("Drift beyond chance: 1 of 6 concepts differ")


def test_predictions_and_accuracies_are_compared_class_by_class(model):
    before, after = table_of(400, 1), table_of(300, 2, {"sea": 0.12})
    found = compare_tables(model, before, after)
    for one in found.classes:
        assert one.interval == difference_interval(one.second, one.first, 1 - 0.05 / 2)  # two classes
        assert one.first.value == pytest.approx((model.predict(before) == one.name).mean())
        own = after.labels == one.name
        assert one.accuracy_second.value == pytest.approx((model.predict(after)[own] == one.name).mean())
    assert found.accuracy[0].value == pytest.approx((model.predict(before) == before.labels).mean())
    assert found.unlike[1].hits == model.predict_table(after)["unlike_training"].sum()
    water = found.classes[1]
    assert water.name == "waterbird"
    assert water.beyond_chance
    assert "'waterbird' is predicted more often" in found.verdict


def test_accuracy_shows_what_scores_do_not(model):
    table = table_of(200, 1)
    other_way = np.where(table.labels == "waterbird", "landbird", "waterbird")
    found = compare_tables(model, table, table.with_columns(labels=other_way))
    assert not found.drifted
    right = found.accuracy[0].value
    assert found.verdict == f"Drift beyond chance: accuracy goes from {right:.0%} to {1 - right:.0%}."


def test_new_rows_of_the_same_kind_are_no_drift_from_the_training_rows():
    """Accuracy on training rows is memorized, and no training row is unlike training rows: neither is drift."""
    rng, drifts = np.random.default_rng(0), 0
    for _ in range(10):
        scores = rng.random((260, 12))
        table = cq.ConceptScores(scores, [f"c{j}" for j in range(12)], labels=rng.choice(["a", "b"], 260))
        train, later = table.take(slice(0, 60)), table.take(slice(60, None))
        model = cq.fit_scores(train.with_columns(split=["train"] * 60), n_nodes=4, epochs=60, calibrate=False)
        found = compare_tables(model, train, later)
        assert found.trained_on == (True, False)
        assert found.accuracy[0].value > found.accuracy[1].value + 0.1
        drifts += found.verdict != "No drift beyond chance."
    assert drifts <= 2  # 5% each


def test_many_classes_and_tables_of_unequal_size_raise_no_false_alarm():
    rng, alarms = np.random.default_rng(0), 0
    labels = np.arange(2_400) % 120
    scores = np.eye(120)[labels] + rng.normal(0, 0.1, (2_400, 120))
    table = cq.ConceptScores(scores, [f"c{j}" for j in range(120)], labels=labels.astype(str))
    model = cq.ChoqolateClassifier(n_nodes=None, interactions="none", epochs=3).fit(table, table.labels)
    for _ in range(20):
        chosen = rng.permutation(2_400)
        found = compare_tables(model, table.take(chosen[:2_300]), table.take(chosen[2_300:]))
        alarms += any(one.beyond_chance for one in found.classes)
    assert alarms <= 3


def test_rows_of_the_same_kind_do_not_drift(model):
    quiet = [compare_tables(model, table_of(300, 2 * s), table_of(300, 2 * s + 1)).drifted for s in range(10)]
    assert sum(map(bool, quiet)) <= 2  # each has a chance of 5 %


def test_labels_are_not_needed_and_unknown_ones_say_nothing(model):
    found = compare_tables(model, table_of(60, 1, labels=None), table_of(60, 2, labels=["Gothic"] * 60))
    assert [share.rows for share in found.accuracy] == [0, 0]
    said = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert said["accuracy"] == [None, None]
    assert said["classes"][0]["first"]["rows"] == 60


def test_few_rows_are_too_few(model):
    found = compare_tables(model, table_of(400, 1), table_of(12, 2, {"sea": 0.1}))
    assert found.verdict == "Too few rows to tell: 400 and 12. At least 30 are needed in each table."


def test_mistakes_are_named(model):
    with pytest.raises(cq.ChoqolateError, match="one is empty"):
        compare_tables(model, table_of(40), table_of(40).take([]))
    with pytest.raises(cq.ChoqolateError, match="the table has no 'webbed feet'"):
        compare_tables(model, table_of(40), table_of(40).select(["crest", "forest"]))
    with pytest.raises(cq.ChoqolateError, match="Expected a ChoqolateClassifier to compare tables"):
        compare_tables("model", table_of(40), table_of(40))
