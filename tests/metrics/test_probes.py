"""Linear probes, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from choqolate import ChoqolateError
from choqolate.metrics import probe_predictions, probe_r2
from choqolate.metrics.probes import PENALTIES


def _sample(n: int, m: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m)) * rng.uniform(0.1, 10, m) + rng.normal(size=m)
    Y = np.stack([X @ rng.normal(size=m) + noise * rng.normal(size=n) for noise in (0.01, 1.0, 30.0)], axis=1)
    return X, Y


@pytest.mark.parametrize(("n", "m"), [(60, 5), (40, 70)])
def test_predictions_are_those_of_ridge_regression_with_leave_one_out(n, m):
    X, Y = _sample(n, m)
    fold = np.random.default_rng(0).permutation(n) % 4
    expected = np.empty_like(Y)
    for k in range(4):
        train = fold != k
        alphas = PENALTIES * train.sum()
        ridge = make_pipeline(StandardScaler(), RidgeCV(alphas=alphas, alpha_per_target=True))
        expected[~train] = ridge.fit(X[train], Y[train]).predict(X[~train])

    predicted = probe_predictions(X, Y, folds=4)

    assert predicted == pytest.approx(expected, rel=1e-6, abs=1e-6)
    expected_r2 = [r2_score(Y[:, k], expected[:, k]) for k in range(3)]
    assert probe_r2(X, Y, folds=4) == pytest.approx(expected_r2, abs=1e-6)


def test_one_target_is_the_column_of_several():
    X, Y = _sample(50, 4)

    assert probe_predictions(X, Y[:, 1]) == pytest.approx(probe_predictions(X, Y)[:, 1])
    assert probe_r2(X, Y[:, 1]) == pytest.approx(probe_r2(X, Y)[1])


def test_what_has_nothing_to_do_with_the_scores_is_not_found():
    X, _ = _sample(300, 6)
    noise = np.random.default_rng(5).normal(size=(300, 4))

    assert (probe_r2(X, noise) < 0.05).all()


def test_two_classes_that_the_scores_do_not_know_are_not_told_apart_on_parts_of_equal_shares():
    rng = np.random.default_rng(0)
    rounds = []
    for _ in range(30):
        X, side = rng.normal(size=(60, 6)), np.where(np.arange(60) < 20, 1.0, -1.0)
        parts = np.concatenate([np.arange(20) % 5, np.arange(40) % 5])
        rounds.append(roc_auc_score(side, probe_predictions(X, side, parts)))

    assert np.mean(rounds) == pytest.approx(0.5, abs=3 * np.std(rounds) / np.sqrt(30))


def test_parts_can_be_given():
    X, Y = _sample(50, 4)
    parts = np.random.default_rng(0).permutation(50) % 5

    assert np.array_equal(probe_predictions(X, Y, parts), probe_predictions(X, Y))
    assert np.array_equal(probe_r2(X, Y, parts), probe_r2(X, Y))
    for wrong in (parts[:-1], np.zeros(50)):
        with pytest.raises(ChoqolateError, match="folds: expected 50 numbers, one per row, of at least two parts"):
            probe_predictions(X, Y, wrong)


def test_a_constant_column_changes_nothing_and_a_constant_target_has_no_share():
    X, Y = _sample(50, 4)
    wider = np.hstack([X, np.full((50, 1), 0.1)])

    assert probe_predictions(wider, Y) == pytest.approx(probe_predictions(X, Y))
    assert np.isnan(probe_r2(X, np.full(50, 0.1)))


def test_scale_and_shift_of_the_scores_do_not_matter():
    X, Y = _sample(50, 4)

    assert probe_predictions(1e-3 * X + 7, Y) == pytest.approx(probe_predictions(X, Y), rel=1e-4, abs=1e-4)


def test_wrong_rows_are_refused():
    X, Y = _sample(50, 4)
    with pytest.raises(ChoqolateError, match="expected the 50 rows of X, got 49"):
        probe_r2(X, Y[:49])
    with pytest.raises(ChoqolateError, match="at least 10 rows for 5 folds, got 6"):
        probe_r2(X[:6], Y[:6])
    with pytest.raises(ChoqolateError, match="folds"):
        probe_r2(X, Y, folds=1)
