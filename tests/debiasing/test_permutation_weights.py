from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import choqolate as cq
from choqolate.debiasing import effective_rows, permutation_weights


def crossed(counts):
    """Labels and a spurious attribute with a given number of rows ``(classes, values)`` of each pair."""
    counts = np.asarray(counts)
    y, s = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
    return y, s


def exact_weights(y, s):
    """P(y) P(s) / P(y, s) by counting."""
    joint = {pair: np.mean((y == pair[0]) & (s == pair[1])) for pair in zip(y, s, strict=True)}
    return np.array([np.mean(y == a) * np.mean(s == b) / joint[a, b] for a, b in zip(y, s, strict=True)])


@pytest.mark.parametrize(
    "counts",
    [[[950, 50], [50, 950]], [[800, 100], [50, 300]], [[400, 30, 30], [30, 400, 30], [30, 30, 400]]],
    ids=["95%", "unequal classes", "three classes"],
)
def test_weights_are_those_of_counting_where_the_attribute_is_plain(counts):
    y, s = crossed(counts)
    w, exact = permutation_weights(y, np.eye(3)[s]), exact_weights(y, s)
    for pair in set(zip(y.tolist(), s.tolist(), strict=True)):
        of_pair = (y == pair[0]) & (s == pair[1])
        assert w[of_pair].mean() == pytest.approx(exact[of_pair][0], rel=0.15)


def test_a_bias_of_eighty_rows_is_seen():
    y, s = crossed([[38, 2], [2, 38]])
    w = permutation_weights(y, s)
    assert w[y != s].mean() / w[y == s].mean() > 4


def test_rows_that_disagree_count_nineteen_times_as_much_where_95_percent_agree():
    y, s = crossed([[950, 50], [50, 950]])
    w = permutation_weights(np.array(["landbird", "waterbird"])[y], s)
    assert w[y != s].mean() / w[y == s].mean() == pytest.approx(19, rel=0.15)


def test_under_the_weights_the_label_no_longer_follows_noisy_scores():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 1500)
    s = np.where(rng.random(1500) < 0.95, y, 1 - y)
    S = s[:, None] + rng.normal(0, 0.3, (1500, 4))
    w = permutation_weights(y, S)

    def correlation(weights):
        return np.cov(y, S.mean(1), aweights=weights)[0, 1] / np.cov(y, S.mean(1))[0, 1]

    assert correlation(np.ones(1500)) == pytest.approx(1)
    assert abs(correlation(w)) < 0.25
    assert w.mean() == pytest.approx(1, abs=0.1)


def test_scores_that_say_nothing_give_weights_near_one():
    rng = np.random.default_rng(0)
    w = permutation_weights(rng.integers(0, 2, 1200), rng.normal(size=(1200, 3)))
    assert abs(w.mean() - 1) < 0.05
    assert np.quantile(w, [0.05, 0.95]) == pytest.approx(1, abs=0.4)


def test_seeds_decide_everything():
    y, s = crossed([[90, 10], [10, 90]])
    S = s + np.random.default_rng(0).normal(size=200)
    w = permutation_weights(y, S, n_permutations=1, random_state=3)
    assert np.array_equal(w, permutation_weights(y, S, n_permutations=1, random_state=3))
    assert not np.array_equal(w, permutation_weights(y, S, n_permutations=1, random_state=4))


def test_a_constant_column_and_names_of_classes_change_nothing():
    y, s = crossed([[90, 10], [10, 90]])
    w = permutation_weights(y, s, n_permutations=1)
    words = np.array(["gull", "wren"])[y].tolist()
    for names, S in ((y, np.column_stack([s, np.full(200, 0.3)])), (words, s[:, None])):
        assert np.array_equal(w, permutation_weights(names, S, n_permutations=1))


@settings(max_examples=8)
@given(n=st.integers(5, 40), n_classes=st.integers(2, 4), k=st.integers(1, 3), seed=st.integers(0, 99))
def test_few_rows_have_weights_above_zero(n, n_classes, k, seed):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    w = permutation_weights(y, rng.normal(size=(n, k)), n_permutations=1)
    assert w.shape == (n,)
    assert (w > 0).all()
    assert np.isfinite(w).all()


def test_no_row_weighs_more_than_a_thousand_times_the_usual():
    y, s = crossed([[1000, 0], [1, 1000]])
    assert permutation_weights(y, s, n_permutations=1).max() < 1000


@pytest.mark.parametrize(
    ("y", "S", "message"),
    [
        ([0, 1, 0, 1], np.zeros((4, 1)), "at least 5 rows, one per fold, but got 4"),
        ([0, 1] * 5, np.zeros((10, 0)), "at least one spurious concept"),
        ([0, 1] * 5, np.full((10, 1), np.nan), "finite scores"),
        ([0, 1] * 4, np.zeros((10, 1)), "y: expected 10 labels, got 8"),
        ([0] * 10, np.zeros((10, 1)), "at least two classes"),
        (range(300), np.zeros((300, 1)), "at most 255 classes, but y has 300"),
    ],
)
def test_what_cannot_be_weighed_is_said(y, S, message):
    with pytest.raises(cq.ChoqolateError, match=message):
        permutation_weights(list(y), S)


def test_as_many_classes_as_are_allowed_can_be_weighed():
    y = np.tile(np.arange(255), 2)
    w = permutation_weights(y, np.random.default_rng(0).normal(size=510), n_permutations=1, n_folds=2)
    assert np.isfinite(w).all()


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20), st.floats(0.1, 10))
def test_rows_in_effect_are_at_most_all_and_do_not_depend_on_the_scale(weights, scale):
    w = np.array(weights)
    assert 1 - 1e-9 <= effective_rows(w) <= len(w) + 1e-9
    assert effective_rows(scale * w) == pytest.approx(effective_rows(w))
    assert effective_rows(np.full(len(w), scale)) == pytest.approx(len(w))
