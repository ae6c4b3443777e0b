"""Intervals and paired tests against SciPy, formulas written out, and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, binomtest, fisher_exact, t, ttest_1samp

from choqolate import metrics
from choqolate.errors import ChoqolateError
from choqolate.metrics import PairedChange, Proportion
from choqolate.metrics.intervals import fisher_p_values

counts = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts, st.sampled_from([0.5, 0.9, 0.95, 0.9999]))
def test_a_wilson_interval_is_scipys(pair, confidence):
    expected = binomtest(*pair).proportion_ci(confidence, method="wilson")
    np.testing.assert_allclose(metrics.wilson_interval(*pair, confidence), (expected.low, expected.high), atol=1e-12)


@pytest.mark.parametrize(("hits", "rows"), [(3, 17), (48, 60), (999, 1000)])
def test_the_ends_of_a_wilson_interval_are_where_the_score_test_just_rejects(hits, rows):
    share = hits / rows

    def z(p):
        return (share - p) / math.sqrt(p * (1 - p) / rows)

    low = brentq(lambda p: z(p) - 1.959963984540054, 1e-9, share)
    high = brentq(lambda p: z(p) + 1.959963984540054, share, 1 - 1e-9)
    np.testing.assert_allclose(metrics.wilson_interval(hits, rows), (low, high), atol=1e-9)


@pytest.mark.parametrize("true", [0.5, 0.9, 0.99])
def test_wilson_intervals_cover_the_truth_about_95_times_of_100(true):
    hits = np.arange(61)
    covered = np.array([low <= true <= high for low, high in (metrics.wilson_interval(int(h), 60) for h in hits)])
    assert 0.92 < binom.pmf(hits, 60, true)[covered].sum() < 0.99


def test_no_rows_tell_nothing():
    assert metrics.wilson_interval(0, 0) == (0.0, 1.0)
    assert math.isnan(Proportion(0, 0).value)
    assert metrics.difference_interval(Proportion(0, 0), Proportion(5, 9)) == (-1.0, 1.0)
    assert PairedChange(0, 0, 0).p_value == 1.0
    assert all(map(math.isnan, (PairedChange(0, 0, 0).value, *PairedChange(0, 0, 0).interval)))


@pytest.mark.parametrize(("hits", "rows"), [(-1, 5), (6, 5)])
def test_impossible_counts_are_refused(hits, rows):
    with pytest.raises(ChoqolateError, match="hits: expected a number from 0 to 5"):
        metrics.wilson_interval(hits, rows)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 200))
def test_a_paired_p_value_is_the_tail_of_a_fair_coin(gained, lost, kept):
    change = PairedChange(gained, lost, gained + lost + kept)
    n = gained + lost
    tail = sum(math.comb(n, k) for k in range(min(gained, lost) + 1)) / 2**n
    assert change.p_value == pytest.approx(min(1.0, 2 * tail), rel=1e-9)
    low, high = change.interval
    assert -1 <= low <= high <= 1


def test_a_paired_interval_covers_the_true_change_about_95_times_of_100():
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(80, [0.15, 0.05, 0.8], 4_000)
    covered = [low <= 0.1 <= high for low, high in (PairedChange(int(g), int(l), 80).interval for g, l, _ in drawn)]
    assert 0.93 < np.mean(covered) < 0.98


def test_eight_points_on_48_images_may_be_chance_and_on_4800_they_are_not():
    assert not PairedChange(7, 3, 48).beyond_chance
    assert PairedChange(700, 300, 4_800).beyond_chance


def test_an_interval_of_a_difference_is_newcombes():  # method 10 in his Table II, cases (a), (c) and (h)
    for first, second, expected in (
        ((56, 70), (48, 80), (0.0524, 0.3339)),
        ((6, 7), (2, 7), (0.0582, 0.8062)),
        ((10, 10), (0, 10), (0.6075, 1.0)),
    ):
        found = metrics.difference_interval(Proportion(*first), Proportion(*second))
        np.testing.assert_allclose(found, expected, atol=5e-5)


@given(counts, counts)
def test_a_lower_share_is_tested_as_scipy_does(first, second):
    table = [[first[0], first[1] - first[0]], [second[0], second[1] - second[0]]]
    arrays = [np.array([float(count)]) for count in (*first, *second)]
    assert fisher_p_values(*arrays)[0] == pytest.approx(fisher_exact(table, alternative="greater").pvalue, abs=1e-9)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95])
def test_a_confidence_is_a_share(confidence):
    with pytest.raises(ChoqolateError, match="confidence: expected a number above 0 and below 1"):
        metrics.wilson_interval(1, 2, confidence)


def test_the_interval_of_a_mean_of_one_share_is_its_own_and_of_two_covers_the_truth():
    np.testing.assert_allclose(metrics.mean_interval([Proportion(7, 20)]), metrics.wilson_interval(7, 20), atol=1e-12)
    rng = np.random.default_rng(0)
    drawn = zip(rng.binomial(40, 0.9, 4_000), rng.binomial(200, 0.6, 4_000), strict=True)
    ends = [metrics.mean_interval([Proportion(int(a), 40), Proportion(int(b), 200)]) for a, b in drawn]
    assert 0.93 < np.mean([low <= 0.75 <= high for low, high in ends]) < 0.97
    assert metrics.mean_interval([Proportion(0, 0), Proportion(1, 2)]) == (0.0, 1.0)
    with pytest.raises(ChoqolateError, match="at least one"):
        metrics.mean_interval([])


def test_paired_changes_need_the_same_rows():
    with pytest.raises(ChoqolateError, match="expected the 2 rows of before"):
        metrics.paired_change([True, False], [True])


resampled = st.lists(st.floats(-1, 1), min_size=2, max_size=30)


@given(resampled, st.sampled_from([0.8, 0.95, 0.99]))
def test_without_overlap_the_interval_of_resamplings_is_students(values, confidence):
    found = metrics.resampled_interval(values, 70, 0, confidence)
    if np.ptp(values) > 1e-6:
        expected = ttest_1samp(values, 0).confidence_interval(confidence)
        np.testing.assert_allclose(found, (expected.low, expected.high), atol=1e-9)


@given(resampled, st.integers(1, 500), st.integers(0, 500))
def test_the_interval_of_resamplings_is_the_formula_of_nadeau_and_bengio(values, n_train, n_test):
    low, high = metrics.resampled_interval(values, n_train, n_test)
    J, mean = len(values), math.fsum(values) / len(values)
    square = math.fsum((value - mean) ** 2 for value in values) / (J - 1)
    reach = t.ppf(0.975, J - 1) * math.sqrt((1 / J + n_test / n_train) * square)
    np.testing.assert_allclose((low, high), (mean - reach, mean + reach), atol=1e-9)


def test_over_many_resamplings_of_the_same_rows_only_the_corrected_interval_covers_the_truth():
    """The mean of 30 of 100 rows: over all draws its variance times 30/70 is the variance of the mean of all 100."""
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(400):
        rows = rng.normal(size=100)
        values = [rng.choice(rows, 30, replace=False).mean() for _ in range(40)]
        intervals = [metrics.resampled_interval(values, 70, n_test) for n_test in (30, 0)]
        covered.append([low <= 0 <= high for low, high in intervals])
    corrected, naive = np.mean(covered, axis=0)
    assert 0.92 < corrected < 0.98
    assert naive < 0.6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5], 70, 30), "values: expected 1 dimensions and at least 2 rows"),
        (([0.5, math.nan], 70, 30), "values: expected finite numbers"),
        (([0.5, 0.6], 0, 30), "n_train above 0 and n_test of at least 0, but got 0 and 30"),
        (([0.5, 0.6], 70, -1), "but got 70 and -1"),
        (([0.5, 0.6], 70, 30, 1.0), "confidence: expected a number above 0 and below 1"),
    ],
)
def test_what_is_no_set_of_resamplings_is_refused(arguments, message):
    with pytest.raises(ChoqolateError, match=message):
        metrics.resampled_interval(*arguments)
