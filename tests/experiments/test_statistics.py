"""Statistics against direct enumeration of all rank orders, and by hand."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, rankdata

from choqolate.experiments.engine.statistics import Comparison, compare, mann_whitney, relative_median_distance, show_p


def u_statistic(x, y):
    return sum((a > b) + 0.5 * (a == b) for a in x for b in y)


def p_by_enumeration(x, y):
    """The share of all ways of telling the pooled values apart into two sides that have a U at least as large."""
    pooled = [*x, *y]
    observed, count, total = u_statistic(x, y), 0, 0
    for chosen in combinations(range(len(pooled)), len(x)):
        first = [pooled[i] for i in chosen]
        second = [pooled[i] for i in range(len(pooled)) if i not in chosen]
        count += u_statistic(first, second) >= observed
        total += 1
    return count / total


def p_by_normal(x, y):
    """The approximation of the textbooks: corrected for ties, and for continuity."""
    n, m, pooled = len(x), len(y), [*x, *y]
    ties = sum(t**3 - t for t in np.unique(rankdata(pooled), return_counts=True)[1])
    variance = n * m / 12 * (n + m + 1 - ties / ((n + m) * (n + m - 1)))
    return norm.sf((u_statistic(x, y) - n * m / 2 - 0.5) / math.sqrt(variance))


@given(st.integers(1, 5).flatmap(lambda n: st.tuples(st.just(n), st.permutations(range(n + 5)))))
@settings(max_examples=50, deadline=None)
def test_small_samples_without_ties_are_exact(case):
    n, order = case
    x, y = [float(v) for v in order[:n]], [float(v) for v in order[n:]]
    assert mann_whitney(x, y) == pytest.approx(p_by_enumeration(x, y), abs=1e-12)


@pytest.mark.parametrize("decimals", [1, 6])
def test_twenty_runs_each_use_the_normal_approximation(decimals):
    rng = np.random.default_rng(decimals)
    x, y = (np.round(rng.normal(mean, 1, 20), decimals) for mean in (0.3, 0.0))
    assert mann_whitney(x, y) == pytest.approx(p_by_normal(x, y), rel=1e-9)


def test_the_test_is_one_sided():
    low, high = [1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]
    assert mann_whitney(high, low) == pytest.approx(1 / 70)
    assert mann_whitney(low, high) == pytest.approx(1.0)


def test_equal_values_everywhere_show_nothing():
    assert mann_whitney([0.5] * 5, [0.5] * 5) == 1.0


def test_median_distance_by_hand():
    assert relative_median_distance([3.0, 1.0, 2.0], [1.0, 4.0, 2.0, 1.0]) == pytest.approx((2 - 1.5) / 1.5)
    assert relative_median_distance([1.0], [-2.0]) == pytest.approx(1.5)  # larger, so above zero


@pytest.mark.parametrize(("ours", "baseline"), [([1.0], [-1.0, 0.0, 1.0]), ([], [1.0]), ([1.0], [math.nan])])
def test_median_distance_that_is_not_defined_is_nan(ours, baseline):
    assert math.isnan(relative_median_distance(ours, baseline))


def test_undefined_runs_are_left_out_of_everything():
    ours, baseline = [0.9, 0.8, 0.7], [0.1, 0.3, 0.2, 0.4]
    holes = [math.nan, None, math.inf]
    assert compare(ours + holes, holes + baseline) == compare(ours, baseline)
    assert compare(ours, baseline) == Comparison(pytest.approx(2.2), pytest.approx(1 / 35), 3, 4)


def test_a_side_without_values_has_no_answer_and_warns_of_nothing(recwarn):
    delta, p, *counts = compare([math.nan], [0.5, 0.6])
    assert math.isnan(delta)
    assert math.isnan(p)
    assert counts == [0, 2]
    assert not recwarn.list


@pytest.mark.parametrize(
    ("p", "shown"), [(0.0, "<0.001"), (0.0009999, "<0.001"), (0.001, "0.001"), (0.0504, "0.050"), (1.0, "1.000")]
)
def test_p_is_shown_as_the_paper_prints_it(p, shown):
    assert show_p(p) == shown
