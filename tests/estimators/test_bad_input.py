"""What users get wrong: each has a defined behaviour."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import choqolate as cq
from tests.small_tables import bird_scores


@pytest.fixture
def birds():
    X, y, _ = bird_scores(60)
    return X, y


def fit(X, y, **options):
    return cq.ChoqolateClassifier(**{"epochs": 2, "n_nodes": 3} | options).fit(X, y)


@pytest.mark.parametrize(("value", "kind"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")])
def test_a_score_that_is_no_number_is_found(birds, value, kind):
    X, y = birds
    model = fit(X, y)
    X = X.copy()
    X.loc[7, "crest"] = value
    for call in (lambda: fit(X, y), lambda: model.predict(X), lambda: model.remove_concepts("sea", recalibrate=X)):
        with pytest.raises(cq.ChoqolateError, match=rf"contains .*{kind}.*row 7, concept 'crest'; 1 of 360"):
            call()


def test_duplicate_columns(birds):
    X, y = birds
    doubled = pd.concat([X, X[["sea"]]], axis=1)
    with pytest.raises(cq.ChoqolateError, match="every concept once, got 'sea' more than once"):
        fit(doubled, y)
    with pytest.raises(cq.ChoqolateError, match="'sea' more than once"):
        fit(X, y).predict(doubled)


def test_wrong_shapes(birds):
    X, y = birds
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fit(X, y[:5])
    with pytest.raises(ValueError, match="2-dimensional"):
        fit(X["sea"], y)
    with pytest.raises(ValueError, match="6 features"):
        fit(X.to_numpy(), y).predict(X.to_numpy()[:, :4])
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        fit(X[:0], y[:0])


def test_constant_concept_has_no_influence(birds):
    X, y = birds
    X = X.assign(crest=0.25)
    with pytest.warns(cq.ChoqolateWarning, match="without influence: 'crest'"):
        model = fit(X, y)
    scores = model.class_scores(X)
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(model.class_scores(X.assign(crest=0.9)), scores)


def test_one_class_only(birds):
    X, _ = birds
    with pytest.raises(cq.ChoqolateError, match="at least two classes, got one class only: 'a'"):
        fit(X, ["a"] * 60)
    weights = np.r_[np.ones(30), np.zeros(30)]
    with pytest.raises(cq.ChoqolateError, match="one class only"):
        cq.ChoqolateClassifier().fit(X, np.r_[np.zeros(30), np.ones(30)], sample_weight=weights)


def test_weights_and_ranges_that_leave_nothing(birds):
    X, y = birds
    with pytest.raises(ValueError, match="at least one non-zero"):
        cq.ChoqolateClassifier().fit(X, y, sample_weight=np.zeros(60))
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        cq.ChoqolateClassifier().fit(X, y, sample_weight=-np.ones(60))
    X = X.copy()
    X.loc[0, "crest"], X.loc[1, "crest"] = 1.7e308, -1.7e308
    with pytest.raises(cq.ChoqolateError, match=r"'crest' goes from -1\.7e\+308"):
        fit(X, y)


def test_too_few_inputs_or_nodes_to_tell_classes_apart(birds):
    X, y = birds
    with pytest.warns(cq.ChoqolateWarning, match=r"of 1 concept a .*nothing at all.*bipolar=True"):
        one = fit(X[["sea"]], y)
    np.testing.assert_allclose(one.predict_proba(X[["sea"]]), 0.5)
    assert np.isnan(one.removal_impact(X[["sea"]], y).loc["sea", "accuracy"])
    with pytest.warns(cq.ChoqolateWarning, match=r"of 2 concepts a .*which of the two is larger"):
        fit(X[["sea", "crest"]], y)
    with pytest.warns(cq.ChoqolateWarning, match="with one node all classes get the same score"):
        fit(X, y, n_nodes=1)
    with pytest.warns(cq.ChoqolateWarning, match="at most 2 of the 3 classes"):
        fit(X, np.arange(60) % 3, n_nodes=2)


@pytest.mark.parametrize("interactions", ["pairwise", "factored", "none"])
def test_one_concept_has_no_pairs_but_works(birds, interactions):
    X, y = birds
    model = fit(X[["sea"]], y, bipolar=True, interactions=interactions)
    assert model.node_attributions_.shape == (3, 2)
    with pytest.warns(cq.ChoqolateWarning):
        model = fit(X[["sea"]], y, interactions=interactions)
    assert model.node_attributions_.tolist() == [[1.0]] * 3


def test_as_many_classes_as_rows(birds):
    X, _ = birds
    model = fit(X[:10], np.arange(10))
    assert model.predict_proba(X[:10]).shape == (10, 10)
    with pytest.raises(cq.ChoqolateError, match=r"as many rows as classes \(10\) to recalibrate on, got 9"):
        model.remove_concepts("sea", recalibrate=X[:9])


@pytest.mark.parametrize("labels", [["a", "b"], [True, False], [-3, 12], ["é\u202e", "<b>"], [0.0, 1.0]])
def test_labels_of_any_kind(birds, labels):
    X, _ = birds
    y = np.array(labels)[np.arange(60) % 2]
    assert set(fit(X, y).predict(X)) <= set(labels)
    assert fit(X, pd.Series(y)).classes_.tolist() == sorted(labels)


def test_targets_that_are_no_classes(birds):
    X, _ = birds
    with pytest.raises(ValueError, match="Unknown label type"):
        fit(X, np.linspace(0, 1, 60))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_nodes": 0}, "n_nodes to be a whole number of at least 1, got 0"),
        ({"n_nodes": 2.5}, "whole number"),
        ({"epochs": 0}, "epochs"),
        ({"batch_size": -1}, "batch_size"),
        ({"temperature": 0}, "temperature to be a number above 0, got 0"),
        ({"temperature": float("nan")}, "temperature"),
        ({"learning_rate": "fast"}, "learning_rate to be a number above 0, got 'fast'"),
        ({"l1": -0.1}, "l1 to be a number of at least 0"),
        ({"interactions": "triple"}, "one of pairwise, factored, none"),
        ({"l1_on": "second"}, "l1_on to be one of first, all, parameters"),
        ({"shuffle": "never"}, "shuffle to be one of common, seed"),
        ({"dtype": "float16"}, "dtype to be one of float32, float64"),
        ({"device": "abacus"}, "device='abacus' is not to be had here"),
        ({"device": None}, "device to be text"),
        ({"random_state": -1}, "seed from 0"),
        ({"random_state": 2**70}, "seed from 0"),
        ({"class_weight": {"landbird": -1.0, "waterbird": 1.0}}, "class weights of at least 0"),
        ({"class_weight": {"landbird": 0.0, "waterbird": 0.0}}, "some above it"),
        ({"interactions": "factored", "rank": 0}, "rank"),
        ({"class_weight": {"landbird": 1.0, "fish": 2.0}}, "waterbird.*not in class_weight"),
    ],
)
def test_impossible_parameters(birds, options, message):
    X, y = birds
    with pytest.raises(ValueError, match=message):
        fit(X, y, **options)


def test_too_many_concepts_for_all_pairs():
    X = np.random.default_rng(0).random((4, 60_000))
    with pytest.raises(cq.ChoqolateError, match=r"60000 inputs are 28,800,000,000 weights.*GiB.*'factored'"):
        cq.ChoqolateClassifier().fit(X, [0, 1, 0, 1])
    model = cq.ChoqolateClassifier(interactions="factored", rank=1, epochs=1).fit(X, [0, 1, 0, 1])
    assert model.node_attributions_.shape == (8, 60_000)


def test_training_that_explodes_stops_with_a_message(birds):
    X, y = birds
    with pytest.raises(
        cq.ChoqolateError, match=r"loss became (nan|inf) in epoch \d+ \(random_state=0\).*learning_rate"
    ):
        fit(X, y, learning_rate=1e38, free_weights=True, epochs=20)


def test_parameters_that_are_garbage_after_the_last_step(birds):
    X, y = birds
    with pytest.raises(cq.ChoqolateError, match="not finite: lower learning_rate"):
        fit(X, y, learning_rate=1e39, epochs=1)


def test_columns_that_are_no_scores(birds):
    X, y = birds
    with pytest.raises(cq.ChoqolateError, match=r"column 'file' has other values.*a\.jpg"):
        fit(X.assign(file="a.jpg"), y)
    with pytest.raises(cq.ChoqolateError, match="every concept once, got 'not sea'"):
        fit(X.rename(columns={"crest": "not sea"}), y, bipolar=True)
    numbered = fit(X.set_axis(range(6), axis=1), y)
    assert numbered.remove_concepts("4").removal_.concepts == ("4",)


def test_before_training():
    for call in ("predict", "predict_proba", "transform", "explain", "removal_impact", "restore"):
        model = cq.ChoqolateClassifier()
        arguments = {"removal_impact": ([[1.0]], [0]), "restore": ()}.get(call, ([[1.0]],))
        with pytest.raises(ValueError, match="not fitted"):
            getattr(model, call)(*arguments)
    with pytest.raises(ValueError, match="not fitted"):
        cq.ChoqolateClassifier().remove_concepts("sea")
    with pytest.raises(ValueError, match="not fitted"):
        cq.ChoqolateClassifier().save("nowhere")
