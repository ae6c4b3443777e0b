"""Calibrated probabilities and abstaining, against brute force."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

import choqolate as cq
from choqolate.estimators.calibration import Calibration, choose_threshold, fit_temperature
from tests.sealing import write_json
from tests.small_tables import bird_scores

FAST = dict(n_nodes=3, epochs=15)


def birds_with_split(n_rows):
    X, y, groups = bird_scores(n_rows)
    split = np.array(["train", "train", "train", "val", "test"])[np.arange(n_rows) % 5]
    return cq.ConceptScores(X.to_numpy(), list(X.columns), labels=y, split=split, groups=groups)


@pytest.fixture(scope="module")
def table():
    return birds_with_split(900)


@pytest.fixture(scope="module")
def model(table):
    return cq.fit_scores(table, **FAST)


def likelihood(scores, targets, temperature):
    return log_softmax(scores / temperature, axis=1)[np.arange(len(scores)), targets].mean()


@given(st.integers(0, 1_000), st.sampled_from([0.3, 1.0, 4.0]))
def test_the_temperature_has_the_highest_likelihood_of_all(seed, spread):
    rng = np.random.default_rng(seed)
    scores, targets = rng.normal(0, spread, (60, 3)), rng.integers(0, 3, 60)
    found = fit_temperature(scores, targets, 0.5)
    grid = np.geomspace(0.5e-3, 0.5e3, 400)
    best = max(likelihood(scores, targets, t) for t in grid)
    assert likelihood(scores, targets, found) >= best - 1e-6


def test_the_temperature_that_made_the_labels_is_found_again():
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 1, (40_000, 3))
    targets = np.array([rng.choice(3, p=p) for p in softmax(scores / 0.7, axis=1)])
    assert fit_temperature(scores, targets, 0.1) == pytest.approx(0.7, rel=0.03)


def test_without_a_mistake_the_confidence_is_that_of_one_more_row_and_one_more_mistake():
    rng = np.random.default_rng(0)
    scores = rng.random((100, 3))
    temperature = fit_temperature(scores, scores.argmax(1), 0.05)
    assert softmax(scores / temperature, axis=1).max(1).mean() == pytest.approx(101 / 102, abs=1e-9)
    assert fit_temperature(np.zeros((20, 2)), np.zeros(20, int), 0.05) == 0.05


def test_calibration_changes_probabilities_and_nothing_else(table, model):
    plain = cq.fit_scores(table, calibrate=False, **FAST)
    assert plain.calibration_ is None
    assert plain.network_.identity == model.network_.identity
    assert model.temperature_ == plain.temperature_ == 0.005
    np.testing.assert_array_equal(model.class_scores(table), plain.class_scores(table))
    np.testing.assert_array_equal(model.predict(table), plain.predict(table))
    expected = softmax(plain.class_scores(table) / model.calibration_.temperature, axis=1)
    np.testing.assert_allclose(model.predict_proba(table), expected, atol=1e-12)


def test_fit_scores_calibrates_on_validation_rows_and_says_so(table, model):
    val = table.part("val")
    assert model.calibration_.source == "val rows of the table"
    assert model.calibration_.rows == len(val)
    again = cq.fit_scores(table, calibrate=False, **FAST).calibrate(val.frame, val.labels)
    assert again.calibration_.temperature == model.calibration_.temperature
    error = cq.metrics.expected_calibration_error(val.labels, model.predict_proba(val), list(model.classes_))
    assert model.calibration_.error_after == pytest.approx(error)


@pytest.mark.parametrize(("n_rows", "held_out"), [(1_000, 560), (120, 84)])
def test_without_them_it_holds_out_training_rows_of_a_second_run(n_rows, held_out):
    X, y, _ = bird_scores(n_rows)
    table = cq.ConceptScores(X.to_numpy(), list(X.columns), labels=y)
    model = cq.fit_scores(table, **FAST)
    plain = cq.fit_scores(table, calibrate=False, **FAST)
    assert model.network_.identity == plain.network_.identity
    assert model.calibration_.source == "training rows held out of a second run"
    assert model.calibration_.rows == held_out
    assert model.calibration_.temperature != model.temperature_


def test_too_few_rows_are_not_calibrated_on():
    X, y, _ = bird_scores(60)
    assert cq.fit_scores(cq.ConceptScores(X.to_numpy(), list(X.columns), labels=y), **FAST).calibration_ is None
    model = cq.ChoqolateClassifier(**FAST).fit(X, y)
    assert model.calibration_ is None
    with pytest.raises(cq.ChoqolateError, match="at least 10 labeled rows"):
        model.calibrate(X[:9], y[:9])
    with pytest.raises(cq.ChoqolateError, match="Expected labels to calibrate on"):
        model.calibrate(X)
    with pytest.raises(cq.ChoqolateError, match="Expected a calibrated model"):
        model.abstention(0.9)


def test_validation_rows_without_labels_are_no_validation_rows(table):
    labels = np.where(table.split == "val", None, table.labels)
    with pytest.warns(cq.ChoqolateWarning, match="180 of 900 rows have no label"):
        model = cq.fit_scores(table.with_columns(labels=labels), **FAST)
    assert model.calibration_.source == "training rows held out of a second run"


def test_runs_are_calibrated_where_it_costs_nothing(table):
    from choqolate.estimators.table_training import fit_scores_runs

    assert [run.calibration_.rows for run in fit_scores_runs(table, range(2), **FAST)] == [180, 180]
    rest = table.take(table.split != "val")
    assert [run.calibration_ for run in fit_scores_runs(rest, range(2), **FAST)] == [None, None]


def test_an_edit_makes_it_stale_and_taking_it_back_makes_it_current(table, model):
    edited = model.remove_concepts("sea")
    assert model.calibration_is_current_
    assert edited.calibration_ is model.calibration_
    assert not edited.calibration_is_current_
    assert edited.undo().calibration_is_current_
    assert edited.restore().calibration_is_current_
    with pytest.warns(cq.ChoqolateWarning, match="calibrated before the latest edits or undos"):
        edited.predict_table(table)
    for ask in (lambda: edited.abstention(0.9), lambda: edited.predict_table(table, abstain=0.9)):
        with pytest.raises(cq.ChoqolateError, match="it was edited since, so the threshold would be wrong"):
            ask()
    again = edited.calibrate(table.part("val"))
    assert again.calibration_is_current_
    assert again.annotate_edit(0, "background").calibration_is_current_
    assert again.fit(table, table.labels).calibration_ is None


def test_it_is_saved_and_exported(tmp_path, table, model):
    model.save(tmp_path / "model")
    back = cq.load(tmp_path / "model")
    np.testing.assert_array_equal(back.predict_proba(table), model.predict_proba(table))
    assert back.calibration_.as_dict() == model.calibration_.as_dict()
    np.testing.assert_array_equal(back.calibration_.right, model.calibration_.right)
    assert back.calibration_is_current_
    assert back.abstention(0.9) == model.abstention(0.9)
    onnx = pytest.importorskip("onnx")
    model.export_onnx(tmp_path / "model.onnx")
    said = {entry.key: entry.value for entry in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert float(said["temperature"]) == model.calibration_.temperature


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0},
        {"temperature": None},
        {"rows": "many"},
        {"source": 3},
        {"error_after": -1},
    ],
)
def test_a_damaged_calibration_is_refused(tmp_path, model, change):
    model.save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["calibration"] |= change
    write_json(tmp_path / "config.json", config)
    with pytest.raises(cq.ChoqolateError, match="not a model that can be loaded"):
        cq.load(tmp_path)


@given(st.integers(0, 10_000), st.sampled_from([0.5, 0.8, 0.95, 1.0]))
def test_the_threshold_is_the_lowest_that_reaches_the_accuracy(seed, wanted):
    rng = np.random.default_rng(seed)
    confidences = np.sort(rng.integers(50, 100, 40) / 100)[::-1]
    right = rng.random(40) < confidences
    found = choose_threshold(Calibration(1.0, 40, "", 0.0, 0.0, confidences, right, ""), wanted)
    reached = [
        t
        for t in sorted(set(confidences))
        if (kept := confidences >= t).sum() >= 10
        and right[kept].mean() >= wanted
        and confidences[kept].mean() >= wanted - 1e-9
    ]
    if not reached:
        assert not found.reached
        assert "cannot be reached" in str(found)
        return
    kept = confidences >= reached[0]
    assert found.threshold == (0 if kept.all() else reached[0])
    assert found.kept == (kept.sum(), 40)
    assert found.right == (right[kept].sum(), kept.sum())
    assert ("based on few rows" in str(found)) == (kept.sum() < 30)


@pytest.mark.parametrize("n_rows", [50, 100, 500])
@pytest.mark.parametrize("wanted", [0.9, 0.95])
def test_where_probabilities_hold_the_accuracy_is_reached_on_average(n_rows, wanted):
    rng = np.random.default_rng(0)
    kept = hits = 0.0
    for _ in range(300):
        confidences = np.sort(rng.uniform(0.5, 1, n_rows))[::-1]
        right = rng.random(n_rows) < confidences
        found = choose_threshold(Calibration(1.0, n_rows, "", 0.0, 0.0, confidences, right, ""), wanted)
        if found.reached:  # new rows are uniform on 0.5 to 1 as well, and as often correct as they say
            low = max(found.threshold, 0.5)
            kept, hits = kept + (1 - low), hits + (1 - low) * (1 + low) / 2
    assert kept > 0
    assert hits / kept >= wanted


def test_no_probability_below_one_promises_to_be_always_correct():
    rows = Calibration(1.0, 40, "", 0.0, 0.0, np.linspace(1, 0.9, 40), np.ones(40, dtype=bool), "")
    assert not choose_threshold(rows, 1.0).reached
    rows = Calibration(1.0, 40, "", 0.0, 0.0, np.ones(40), np.ones(40, dtype=bool), "")
    assert choose_threshold(rows, 1.0).threshold == 0


def test_abstaining_reaches_about_the_accuracy_on_other_rows(model):
    X, y, _ = bird_scores(3_000, seed=5)
    rule = model.abstention(0.99)
    found = model.predict_table(X, abstain=0.99)
    kept = ~found["abstain"].to_numpy(dtype=bool)
    assert 0.2 < kept.mean() < 1
    low, _ = rule.right.interval
    assert (found["predicted"].to_numpy()[kept] == y[kept]).mean() > low
    assert found["look"][~kept].all()


@pytest.mark.parametrize("accuracy", [0, 1.5, 95, "high", float("nan")])
def test_an_accuracy_is_a_share(model, accuracy):
    with pytest.raises(cq.ChoqolateError, match="abstain"):
        model.abstention(accuracy)


def test_evaluate_measures_both_temperatures(table, model):
    result = cq.evaluate(model, table)
    test = table.part("test")
    for temperature, error in (
        (0.005, "calibration_error_trained"),
        (model.calibration_.temperature, "calibration_error"),
    ):
        probabilities = softmax(model.class_scores(test) / temperature, axis=1)
        expected = cq.metrics.expected_calibration_error(test.labels, probabilities, list(model.classes_))
        assert getattr(result, error) == pytest.approx(expected)
        assert result.as_dict()[error] == pytest.approx(expected)
