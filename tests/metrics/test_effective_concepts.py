"""Accuracy with k concepts per class: against loops over rows and classes, and against the models that are cut."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import choqolate as cq
from choqolate import metrics
from choqolate.baselines import LogisticRidge
from choqolate.metrics.effective_concepts import NEC_COUNTS

seeds = st.integers(0, 2**32 - 1)


def problem(seed, n_classes=4, n_concepts=6, n_rows=80):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_rows - n_classes)])
    Z = rng.random((n_rows, n_concepts))
    Z[:, :n_classes] += 0.5 * np.eye(n_classes)[y]
    return Z, y, rng


def cut(row, k, sizes):
    """One row of weights, straight from the definition."""
    kept = sorted(range(len(sizes)), key=lambda j: -sizes[j])[:k]
    return {j: row[j] for j in kept}


@given(seeds, st.integers(1, 8), st.booleans())
def test_each_row_keeps_its_largest_weights(seed, k, signed):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(3, 6)) if signed else rng.dirichlet(np.ones(6), 3)
    found = metrics.keep_largest(W, k)
    for row, left in zip(W, found, strict=True):
        kept = cut(row, k, np.abs(row))
        factor = 1.0 if signed else row.sum() / sum(kept.values())
        np.testing.assert_allclose(left, [factor * kept.get(j, 0.0) for j in range(6)], atol=1e-15)


def test_a_bipolar_concept_keeps_presence_and_absence():
    W = np.array([[0.1, 0.3, 0.0, 0.3, 0.1, 0.2]])  # sizes 0.4, 0.4, 0.2: presence, then absence
    np.testing.assert_allclose(metrics.keep_largest(W, 1, n_concepts=3), [[0.25, 0, 0, 0.75, 0, 0]])
    np.testing.assert_allclose(metrics.keep_largest(W, 2, n_concepts=3), W / 0.8 * [1, 1, 0, 1, 1, 0])
    np.testing.assert_array_equal(metrics.keep_largest(W, 3, n_concepts=3), W)


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(2, 6), st.booleans())  # with one concept two classes may be the same
def test_classes_have_their_shares_and_accuracy_is_counted(seed, k, bipolar):
    Z, y, rng = problem(seed)
    W = rng.dirichlet(np.ones(6 * (1 + bipolar)), 4)
    model = metrics.sparse_classifier(W, Z, y, k)
    inputs = np.hstack([Z, 1 - Z]) if bipolar else Z
    scores = inputs @ metrics.keep_largest(W, k, 6).T
    assert np.abs(np.bincount(model.predict(Z), minlength=4) - np.bincount(y)).max() <= 2  # the shares of training
    shift = model.shift - (metrics.keep_largest(W, k, 6)[:, 6:].sum(axis=1) if bipolar else 0)
    assert model.predict(Z).tolist() == [int(np.argmax(row + shift)) for row in scores]
    rows = rng.permutation(80)[:30]
    right = sum(int(np.argmax(scores[i] + shift)) == y[i] for i in rows)
    assert metrics.accuracy_at_nec(W, Z, y, Z[rows], y[rows], [k]) == {k: right / 30}


def test_an_intercept_would_change_nothing():
    Z, y, rng = problem(3)
    W = rng.normal(size=(4, 6))
    with_one = np.hstack([Z, np.ones((80, 1))])  # an intercept as the weight of a constant, which is always kept
    intercepts = 100 * rng.normal(size=(4, 1))
    for k in (1, 2, 6):
        expected = metrics.sparse_classifier(W, Z, y, k)
        found = metrics.sparse_classifier(np.hstack([W, intercepts]), with_one, y, k + 1)
        assert (found.predict(with_one) == expected.predict(Z)).mean() > 0.98  # several shifts give these shares


def test_with_all_concepts_it_is_the_additive_model_with_its_classes_shifted():
    Z, y, _ = problem(0, n_rows=300)
    ours = cq.ChoqolateClassifier(n_nodes=None, interactions="none", temperature=0.05, epochs=40).fit(Z, y)
    recalibrated = ours.recalibrate(Z)
    for model, expected in ((ours, recalibrated.predict(Z)), (LogisticRidge().fit(Z, y), None)):
        W = model.class_attributions_ @ model.node_attributions_
        found = metrics.sparse_classifier(W, model.scale(Z), y, 6)
        own = model.class_scores(Z) - getattr(model, "node_intercepts_", 0)
        np.testing.assert_allclose(found.scores(model.scale(Z)), own, atol=1e-6)
        expected = model.predict(Z) if expected is None else expected
        assert (found.predict(model.scale(Z)) == expected).mean() > 0.97


def test_two_concepts_say_more_than_one_and_more_than_there_are_are_all():
    Z, y, _ = problem(1, n_classes=8, n_concepts=8, n_rows=400)
    Z += 0.5 * np.roll(np.eye(8), 1, axis=1)[y]  # two concepts stand for each class
    W = LogisticRidge(penalty=1e-2).fit(Z, y).node_attributions_
    found = metrics.accuracy_at_nec(W, Z[:300], y[:300], Z[300:], y[300:], counts=(1, 2, 8, 30))
    assert list(found) == [1, 2, 8, 30]
    assert found[1] + 0.1 < found[2]
    assert found[8] == found[30] > found[1]
    assert metrics.anec(found) == pytest.approx(sum(found.values()) / 4)
    assert tuple(metrics.accuracy_at_nec(W, Z, y, Z, y)) == NEC_COUNTS == (5, 10, 15, 20, 25, 30)
    assert math.isnan(metrics.anec({}))


def test_a_class_without_training_rows_is_not_predicted():
    Z, y, rng = problem(2)
    rows = y != 1
    W = rng.dirichlet(np.ones(6), 4)
    assert 1 not in metrics.sparse_classifier(W, Z[rows], y[rows], 3).predict(Z[rows])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k: expected a whole number of at least 1, got 0"),
        ({"k": 2.5}, "k: expected a whole number"),
        ({"y": [0, 1, 2, 4] * 20}, r"y: expected 80 whole numbers from 0 to 3, rows of W, got 80 from 0 to 4"),
        ({"y": [0, 1]}, "y: expected 80 whole numbers"),
        ({"W": np.ones((4, 5))}, "Z: expected 5 columns as in W, or half as many, got 6"),
        ({"W": np.full((4, 6), np.nan)}, "W: expected finite numbers"),
        ({"Z": np.ones((3, 6)), "y": [0, 1, 2]}, r"at least as many rows as classes \(4\)"),
    ],
)
def test_wrong_inputs(change, message):
    Z, y, rng = problem(0)
    given = {"W": rng.random((4, 6)), "Z": Z, "y": y, "k": 2} | change
    with pytest.raises(cq.ChoqolateError, match=message):
        metrics.sparse_classifier(**given)


def test_other_columns_than_in_training_and_counts_that_are_none_are_refused():
    Z, y, rng = problem(0)
    W = rng.random((4, 12))
    for training, measured in ((Z, np.hstack([Z, Z])), (np.hstack([Z, Z]), Z)):
        with pytest.raises(cq.ChoqolateError, match=r"Z: expected the (6|12) columns of Z_train, got (12|6)"):
            metrics.accuracy_at_nec(W, training, y, measured, y)
    for count in ("5", 7.5, 0):
        with pytest.raises(cq.ChoqolateError, match="k: expected a whole number of at least 1"):
            metrics.accuracy_at_nec(W, Z, y, Z, y, counts=[count])
