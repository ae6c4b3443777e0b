"""Every metric against a second implementation, written with loops straight from its definition."""

import math
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics import accuracy_score

from choqolate import metrics
from choqolate._util import kernel_products
from choqolate.errors import ChoqolateError

weights = st.one_of(st.just(0.0), st.floats(1e-4, 10.0))
nodes = st.integers(1, 12).flatmap(lambda m: arrays(np.float64, (3, m), elements=weights))
seeds = st.integers(0, 2**32 - 1)


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def rotation(seed, size):
    return np.linalg.qr(normal(seed, size, size))[0]


# --- oracles ---


def gini_by_differences(w):
    """Mean absolute difference of all pairs over twice the mean."""
    w = [abs(x) for x in w]
    m, total = len(w), sum(w)
    if total == 0:
        return math.nan
    return sum(abs(x - y) for x in w for y in w) / (2 * m * m * (total / m))


def coherence_by_loops(w, R):
    top = bottom = 0.0
    for j in range(len(w)):
        for i in range(len(w)):
            if j != i and not math.isnan(R[j][i]):
                top += abs(w[j]) * abs(w[i]) * R[j][i]
                bottom += abs(w[j]) * abs(w[i])
    return top / bottom if bottom else math.nan


def linear_kernel(A):
    return np.array([[sum(x * y for x, y in zip(a, b, strict=True)) for b in A] for a in A])


def rbf_kernel(A):
    distances = squareform(pdist(A))
    sigma = np.median(pdist(A)[pdist(A) > 0])
    return np.array([[math.exp(-(d**2) / (2 * sigma**2)) for d in row] for row in distances])


def hsic_by_trace(K, L):
    n = len(K)
    H = np.eye(n) - np.ones((n, n)) / n
    return np.trace(K @ H @ L @ H) / (n - 1) ** 2


def cka_by_trace(K, L):
    return hsic_by_trace(K, L) / math.sqrt(hsic_by_trace(K, K) * hsic_by_trace(L, L))


def unbiased_hsic_by_loops(K, L):
    n = len(K)
    trace = sum(K[i][j] * L[j][i] for i in range(n) for j in range(n))
    total = sum(map(sum, K)) * sum(map(sum, L))
    through = sum(K[i][j] * L[j][m] for i in range(n) for j in range(n) for m in range(n))
    return (trace + total / ((n - 1) * (n - 2)) - 2 * through / (n - 2)) / (n * (n - 3))


def cknna_by_loops(A, B, k):
    def unit(X):
        return [[x / math.sqrt(sum(y * y for y in row)) if any(row) else 0.0 for x in row] for row in X]

    def mask(K):
        n = len(K)
        marked = [[0.0] * n for _ in range(n)]
        for i in range(n):
            for j in sorted((j for j in range(n) if j != i), key=lambda j: -K[i][j])[:k]:
                marked[i][j] = 1.0
        return np.array(marked)

    def similarity(K, L):
        common = mask(K) * mask(L)
        return unbiased_hsic_by_loops(common * K, common * L)

    K, L = linear_kernel(unit(A)), linear_kernel(unit(B))
    return similarity(K, L) / math.sqrt(similarity(K, K) * similarity(L, L))


# --- Gini ---


@given(nodes)
def test_gini_is_the_mean_absolute_difference(W):
    expected = [gini_by_differences(w) for w in W]
    np.testing.assert_allclose(metrics.attribution_gini(W), expected, atol=1e-12)


@given(nodes, st.floats(1e-3, 1e3), seeds)
def test_gini_ignores_scale_order_and_sign(W, scale, seed):
    rng = np.random.default_rng(seed)
    other = scale * W[:, rng.permutation(W.shape[1])] * rng.choice([-1.0, 1.0], W.shape)
    np.testing.assert_allclose(metrics.attribution_gini(other), metrics.attribution_gini(W), atol=1e-12)


@given(nodes)
def test_gini_lies_between_zero_and_its_maximum(W):
    gini = metrics.attribution_gini(W)
    assert np.array_equal(np.isnan(gini), ~W.any(axis=1))
    defined = gini[~np.isnan(gini)]
    assert ((defined >= 0) & (defined <= 1 - 1 / W.shape[1])).all()


@pytest.mark.parametrize("m", [1, 2, 7, 100])
def test_gini_extremes(m):
    np.testing.assert_allclose(metrics.attribution_gini(0.3 * np.eye(m)), 1 - 1 / m, rtol=1e-14)
    assert metrics.attribution_gini(np.full(m, 0.1)) == pytest.approx(0, abs=1e-15)


def test_gini_of_known_numbers_and_of_a_single_node():
    assert metrics.attribution_gini([1.0, 2.0, 3.0, 4.0]) == pytest.approx(0.25)
    assert np.shape(metrics.attribution_gini([1.0, 2.0])) == ()
    assert metrics.attribution_gini(np.ones((5, 3))).shape == (5,)
    assert np.isnan(metrics.attribution_gini([0.0, 0.0]))


# --- coherence and correlation ---


@given(nodes, seeds)
def test_coherence_is_the_weighted_mean_over_pairs(W, seed):
    R = metrics.concept_correlation(normal(seed, 6, W.shape[1]))
    coherence = metrics.node_coherence(W, R)
    np.testing.assert_allclose(coherence, [coherence_by_loops(w, R) for w in W], atol=1e-12)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], W.shape)
    np.testing.assert_allclose(metrics.node_coherence(3 * signs * W, R), coherence, atol=1e-12)
    defined = coherence[~np.isnan(coherence)]
    assert (np.abs(defined) <= 1).all()


def test_coherence_of_known_numbers():
    R = [[1.0, 0.5, -1.0], [0.5, 1.0, 0.25], [-1.0, 0.25, 1.0]]
    assert metrics.node_coherence([1.0, 2.0, 1.0], R) == pytest.approx((2 * 0.5 - 1 + 2 * 0.25) / 5)
    np.testing.assert_allclose(metrics.node_coherence(np.eye(3), R), np.nan)
    assert np.isnan(metrics.node_coherence([0.0, 0.0, 0.0], R))
    assert np.isnan(metrics.node_coherence([[1.0]], [[1.0]])).all()


def test_pairs_with_a_constant_concept_are_left_out_of_coherence():
    scores = normal(0, 20, 4)
    scores[:, 2] = 0.1
    R, W = metrics.concept_correlation(scores), np.array([[0.4, 0.3, 0.2, 0.1], [0.0, 0.0, 0.5, 0.5]])
    with_it = metrics.node_coherence(W, R)
    kept = [0, 1, 3]
    assert with_it[0] == pytest.approx(metrics.node_coherence(W[0, kept], R[np.ix_(kept, kept)]))
    assert np.isnan(with_it[1])


def test_correlation_matches_numpy():
    scores = normal(1, 50, 6) @ normal(2, 6, 6) + 100
    np.testing.assert_allclose(metrics.concept_correlation(scores), np.corrcoef(scores.T), atol=1e-12)


def test_correlation_of_many_concepts_matches_numpy():
    scores = normal(1, 4, 5000)
    some = [0, 1, 4000, 4095, 4096, 4999]
    R = metrics.concept_correlation(scores)
    np.testing.assert_allclose(R[np.ix_(some, some)], np.corrcoef(scores[:, some].T), atol=1e-12)


def test_a_constant_concept_has_no_correlation_and_makes_no_noise():
    scores = normal(3, 1000, 3)
    scores[:, 1] = 0.1  # its mean is not exactly 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        R = metrics.concept_correlation(scores)
    assert np.isnan(R[1]).all()
    assert np.isnan(R[:, 1]).all()
    assert R[0, 0] == R[2, 2] == 1
    assert R[0, 2] == pytest.approx(np.corrcoef(scores[:, 0], scores[:, 2])[0, 1])


def test_mean_over_nodes_leaves_out_and_counts_the_undefined():
    assert metrics.mean_over_nodes([0.2, np.nan, 0.4, np.nan]) == (pytest.approx(0.3), 2)
    result = metrics.mean_over_nodes(np.array([0.5, 0.7]))
    assert result.mean == pytest.approx(0.6)
    assert result.n_undefined == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nothing = metrics.mean_over_nodes(metrics.attribution_gini(np.zeros((3, 4))))
    assert math.isnan(nothing.mean)
    assert nothing.n_undefined == 3
    assert metrics.mean_over_nodes(metrics.attribution_gini([0.0, 1.0])) == (0.5, 0)


# --- accuracy ---

Y_TRUE = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
Y_PRED = np.array([0, 0, 0, 1, 1, 0, 1, 1, 0, 0])
GROUPS = np.array(["a", "a", "b", "b", "c", "c", "d", "d", "d", "d"])  # 2/2, 1/2, 1/2, 2/4


def test_accuracy_by_hand():
    assert metrics.accuracy(Y_TRUE, Y_PRED) == pytest.approx(0.6)
    assert metrics.group_accuracies(Y_TRUE, Y_PRED, GROUPS) == {"a": 1.0, "b": 0.5, "c": 0.5, "d": 0.5}
    assert metrics.worst_group_accuracy(Y_TRUE, Y_PRED, GROUPS) == 0.5
    assert metrics.worst_group_accuracy(Y_TRUE, Y_TRUE, GROUPS) == 1.0
    assert isinstance(metrics.accuracy(Y_TRUE, Y_PRED), float)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=40))
def test_group_accuracies_agree_with_scikit_learn(rows):
    truth, predicted, groups = np.array(rows).T
    assert metrics.accuracy(truth, predicted) == pytest.approx(accuracy_score(truth, predicted))
    expected = {g: accuracy_score(truth[groups == g], predicted[groups == g]) for g in sorted(set(groups.tolist()))}
    result = metrics.group_accuracies(truth, predicted, groups)
    assert result == pytest.approx(expected)
    assert list(result) == list(expected)
    assert metrics.worst_group_accuracy(truth, predicted, groups) == min(result.values())
    assert metrics.reweighted_accuracy(truth, predicted, groups, groups) == pytest.approx((truth == predicted).mean())


def test_waterbirds_average_uses_the_shares_in_training():
    sizes, accuracies = [3498, 184, 56, 1057], [0.99, 0.70, 0.60, 0.95]
    groups = np.repeat([0, 1, 2, 3], 100)
    predicted = np.concatenate([np.arange(100) < 100 * a for a in accuracies]).astype(int)
    train = np.repeat([0, 1, 2, 3], sizes)
    expected = sum(n * a for n, a in zip(sizes, accuracies, strict=True)) / 4795
    assert metrics.reweighted_accuracy(np.ones(400), predicted, groups, train) == pytest.approx(expected)
    assert metrics.accuracy(np.ones(400), predicted) == pytest.approx(0.81)


def test_a_group_only_in_the_test_set_has_no_weight_and_one_only_in_training_is_an_error():
    assert metrics.reweighted_accuracy(Y_TRUE, Y_PRED, GROUPS, ["a", "b"]) == pytest.approx(0.75)
    with pytest.raises(ChoqolateError, match=r"got no 'e', 'f'.*train_groups"):
        metrics.reweighted_accuracy(Y_TRUE, Y_PRED, GROUPS, ["a", "e", "f", "e"])


def test_groups_may_be_any_hashable_labels_and_come_back_sorted_and_plain():
    pairs = list(zip(Y_TRUE, GROUPS, strict=True))
    result = metrics.group_accuracies(Y_TRUE, Y_PRED, pairs)
    assert list(result) == [(0, "a"), (0, "b"), (1, "c"), (1, "d")]
    assert {type(x) for key in result for x in key} == {int, str}
    numbers = metrics.group_accuracies(Y_TRUE, Y_PRED, np.repeat([10, 9, 2], [4, 4, 2]))
    assert list(numbers) == [2, 9, 10]
    assert {type(key) for key in numbers} == {int}
    assert {type(key) for key in metrics.group_accuracies(Y_TRUE, Y_PRED, torch.arange(10))} == {int}
    assert list(metrics.group_accuracies([1, 1], [1, 1], ["x", 3])) == [3, "x"]
    assert list(metrics.group_accuracies([1, 1], [1, 1], [np.int64(4), torch.tensor(3)])) == [3, 4]


def test_labels_of_many_containers():
    expected = metrics.group_accuracies(Y_TRUE, Y_PRED, GROUPS)
    names = np.array(["land", "water"])
    for wrap in (list, np.array, torch.tensor, lambda y: pd.Series(y, index=range(10, 20))):
        assert metrics.group_accuracies(wrap(Y_TRUE), wrap(Y_PRED), pd.Series(GROUPS, dtype="category")) == expected
    text, guess = names[Y_TRUE], pd.Series(names[Y_PRED], dtype=object)
    assert metrics.group_accuracies(text, guess, GROUPS) == expected
    assert metrics.accuracy(torch.tensor(Y_TRUE, dtype=torch.float32, requires_grad=True), Y_PRED) == pytest.approx(0.6)
    assert metrics.accuracy([True, False], [1, 1]) == 0.5


# --- HSIC ---


@pytest.mark.parametrize(("p", "q"), [(2, 5), (20, 3), (4, 30), (25, 40), (12, 12)])
def test_linear_hsic_is_the_trace_formula_for_few_and_many_features(p, q):
    A, B = normal(p, 12, p) + 3, normal(q, 12, q)
    B[:, : min(p, q)] += A[:, : min(p, q)]
    K, L = linear_kernel(A), linear_kernel(B)
    assert metrics.hsic(A, B) == pytest.approx(cka_by_trace(K, L), rel=1e-10)
    assert metrics.hsic(A, B, normalised=False) == pytest.approx(hsic_by_trace(K, L), rel=1e-10)


@pytest.mark.parametrize("block", [1, 30, 10**6])
def test_rbf_hsic_is_the_trace_formula_whatever_the_blocks(monkeypatch, block):
    monkeypatch.setattr(kernel_products, "_BLOCK_ENTRIES", block)
    A, B = normal(0, 15, 3), normal(1, 15, 7)
    B[:, 0] = A[:, 0] ** 2
    A[3:6] = A[0]  # repeated rows: distances of zero do not count in the median
    K, L = rbf_kernel(A), rbf_kernel(B)
    assert metrics.hsic(A, B, "rbf") == pytest.approx(cka_by_trace(K, L), rel=1e-9)
    assert metrics.hsic(A, B, "rbf", normalised=False) == pytest.approx(hsic_by_trace(K, L), rel=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@given(seed=seeds, n=st.integers(3, 15), p=st.integers(1, 20), scale=st.floats(1e-3, 1e3))
def test_cka_is_symmetric_bounded_and_blind_to_rotation_scale_and_shift(kernel, seed, n, p, scale):
    A, B = normal(seed, n, p), normal(seed + 1, n, 4)
    value = metrics.hsic(A, B, kernel)
    assert 0 <= value <= 1
    assert metrics.hsic(A, A, kernel) == pytest.approx(1, abs=1e-9)
    assert metrics.hsic(B, A, kernel) == pytest.approx(value, abs=1e-9)
    moved = metrics.hsic(scale * A @ rotation(seed, p) + 5, B @ rotation(seed, 4), kernel)
    assert moved == pytest.approx(value, abs=1e-7)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("constant", [0.0, 0.1])
def test_a_constant_representation_shares_nothing(kernel, constant):
    A, B = np.full((30, 3), constant), normal(0, 30, 2)
    for pair in ((A, B), (B, A), (A, A)):
        assert metrics.hsic(*pair, kernel) == 0
        assert metrics.hsic(*pair, kernel, normalised=False) == 0


def test_rbf_sees_what_the_linear_kernel_cannot():
    x = np.linspace(-1, 1, 201)[:, None]
    assert metrics.hsic(x, x**2) == pytest.approx(0, abs=1e-12)
    assert metrics.hsic(x, x**2, "rbf") > 0.1


def test_the_bandwidth_of_many_rows_comes_from_a_sample():
    A = normal(5, 2001, 2)
    assert kernel_products._median_distance(A) == pytest.approx(np.median(pdist(A)), rel=0.05)
    A = np.zeros((2001, 1))
    A[1] = 1.0  # not in the sample
    assert metrics.hsic(A, A, "rbf") == pytest.approx(1)


def test_linear_hsic_of_many_rows_needs_no_square_matrix():
    A = normal(0, 100_000, 8)
    tracemalloc.start()
    value = metrics.hsic(A, A[:, :3])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert value == pytest.approx(math.sqrt(3 / 8), abs=0.01)
    assert peak < 10 * A.nbytes


# --- CKNNA ---


@pytest.mark.parametrize("k", [2, 4, 10, 14])
@pytest.mark.parametrize("block", [1, 50, 10**6])
def test_cknna_is_its_definition(monkeypatch, k, block):
    monkeypatch.setattr(kernel_products, "_BLOCK_ENTRIES", block)
    A = normal(k, 15, 5)
    B = A[:, :3] + 0.7 * normal(k + 1, 15, 3)
    assert metrics.cknna(A, B, k=k) == pytest.approx(cknna_by_loops(A, B, k), rel=1e-9)


def test_cknna_with_rows_of_zeros_and_ties_is_still_its_definition():
    A, B = normal(0, 12, 3), normal(1, 12, 4)
    A[[2, 7]] = 0
    B[5] = 0
    value = metrics.cknna(A, B, k=3)
    assert math.isfinite(value)
    assert value == pytest.approx(cknna_by_loops(A, B, 3), rel=1e-9)


def test_cknna_with_all_neighbours_is_the_unbiased_cka():
    A, B = normal(0, 20, 3), normal(1, 20, 3)
    A, B = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (A, A + B))
    K, L = (x @ x.T * (1 - np.eye(20)) for x in (A, B))
    top, left, right = (unbiased_hsic_by_loops(x, y) for x, y in ((K, L), (K, K), (L, L)))
    assert metrics.cknna(A, B, k=19) == pytest.approx(top / math.sqrt(left * right), rel=1e-9)


@given(seed=seeds, scale=st.floats(1e-3, 1e3))
def test_cknna_is_one_for_equals_and_blind_to_rotation_and_scale(seed, scale):
    A, B = normal(seed, 30, 6), normal(seed + 1, 30, 4)
    assert metrics.cknna(A, A, k=5) == pytest.approx(1)
    assert metrics.cknna(A, scale * A @ rotation(seed, 6), k=5) == pytest.approx(1)
    lengths = np.random.default_rng(seed).uniform(0.1, 10, (30, 1))
    assert metrics.cknna(lengths * A, B, k=5) == pytest.approx(metrics.cknna(A, B, k=5), abs=1e-9)


def test_cknna_rises_with_agreement():
    A, noise = normal(0, 300, 8), normal(1, 300, 8)
    values = [metrics.cknna(A, A + s * noise) for s in (0.0, 0.3, 1.0, 100.0)]
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(1)
    assert abs(values[-1]) < 0.05


@pytest.mark.parametrize("A", [np.zeros((20, 3)), np.full((20, 2), 0.3), np.arange(1.0, 21)[:, None]])
def test_cknna_is_zero_when_all_rows_point_the_same_way(A):
    B = normal(0, 20, 4)
    assert metrics.cknna(A, B, k=5) == metrics.cknna(B, A, k=5) == metrics.cknna(A, A, k=5) == 0


def test_cknna_without_a_similarity_or_a_root():
    lonely = np.zeros((10, 3))
    lonely[0] = 1
    assert metrics.cknna(lonely, normal(0, 10, 3), k=3) == 0
    for seed in range(5):
        outlier = np.tile(normal(seed, 4), (10, 1))
        outlier[4] = normal(seed + 5, 4)  # with all neighbours the estimate is zero but for rounding
        assert metrics.cknna(outlier, normal(0, 10, 3), k=9) == 0
    assert math.isnan(metrics.cknna(*2 * [[[2.0, 0.0], [1.0, -2.0], [-1.0, 2.0], [-1.0, -2.0]]], k=2))


# --- all of them ---

PAIRED = [metrics.hsic, lambda a, b: metrics.hsic(a, b, "rbf"), lambda a, b: metrics.cknna(a, b, k=3)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("grad", [False, True])
def test_torch_input_equals_numpy_input(dtype, grad):
    W = torch.rand(8, 5, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_(grad)
    array = W.detach().double().numpy()
    R = metrics.concept_correlation(W)
    np.testing.assert_array_equal(R, metrics.concept_correlation(array))
    np.testing.assert_array_equal(metrics.attribution_gini(W), metrics.attribution_gini(array))
    np.testing.assert_array_equal(
        metrics.node_coherence(W, torch.as_tensor(R)), metrics.node_coherence(array.tolist(), pd.DataFrame(R))
    )
    assert metrics.mean_over_nodes(W[0]) == metrics.mean_over_nodes(array[0])
    for metric in PAIRED:
        assert metric(W, W[:, :2]) == metric(pd.DataFrame(array), array[:, :2].tolist())
    assert isinstance(metrics.attribution_gini(W), np.ndarray)


def test_inputs_are_left_as_they_were():
    A, B = normal(0, 20, 3), normal(1, 20, 3)
    A.flags.writeable = B.flags.writeable = False
    for metric in (*PAIRED, lambda a, b: metrics.node_coherence(a, metrics.concept_correlation(b))):
        metric(A, B)
    metrics.attribution_gini(A)


NAN = [[1.0, np.nan], [0.0, 1.0]]
X = normal(0, 8, 3)
ERRORS = [
    (lambda: metrics.attribution_gini([]), r"W: expected 1 or 2 dimensions.*got shape \(0,\)"),
    (lambda: metrics.attribution_gini(np.ones((2, 3, 4))), r"got shape \(2, 3, 4\)"),
    (lambda: metrics.attribution_gini(NAN), "W: expected finite numbers, got 1 NaN or infinite"),
    (lambda: metrics.attribution_gini([["a", "b"]]), "W: expected an array of numbers, got list"),
    (lambda: metrics.node_coherence(np.ones((2, 3)), np.eye(2)), r"expected shape \(3, 3\).*got \(2, 2\)"),
    (lambda: metrics.node_coherence(np.ones((2, 3)), 4 * np.eye(3)), r"up to 1 in size, got .* up to 4; use concept"),
    (lambda: metrics.node_coherence(NAN, np.eye(2)), "W: expected finite numbers"),
    (lambda: metrics.node_coherence([1.0], [[np.inf]]), "correlation: expected finite numbers"),
    (lambda: metrics.concept_correlation([[1.0, 2.0]]), "scores: expected 2 dimensions and at least 2 rows"),
    (lambda: metrics.concept_correlation([1.0, 2.0]), "scores: expected 2 dimensions"),
    (lambda: metrics.concept_correlation(NAN), "scores: expected finite"),
    (lambda: metrics.concept_correlation(np.zeros((2, 10_001))), "scores: expected at most 10,000 columns"),
    (lambda: metrics.mean_over_nodes([]), "values: expected"),
    (lambda: metrics.mean_over_nodes(np.ones((2, 2))), "values: expected 0 or 1 dimensions"),
    (lambda: metrics.accuracy([], []), "y_true: expected some labels, got 0"),
    (lambda: metrics.accuracy([1, 2], [1]), "y_pred: expected 2 labels, got 1"),
    (lambda: metrics.accuracy([1, 2], np.ones((2, 3))), "y_pred: expected one label per row.*arg-max"),
    (lambda: metrics.accuracy([np.ones(2), np.ones(2)], [1, 2]), "y_true: expected one label per row"),
    (lambda: metrics.accuracy([1, 2], 3), "y_pred: expected one label per row, got int"),
    (lambda: metrics.accuracy([1.0, np.nan], [1, 2]), "y_true: .*nan is no label"),
    (lambda: metrics.accuracy(["cat", "dog"], [0, 1]), "y_pred: expected labels such as 'cat', got 0"),
    (lambda: metrics.accuracy("ab", "ab"), "y_true: expected one label per row, got str"),
    (lambda: metrics.worst_group_accuracy([1, 2], [1, 2], [0]), "groups: expected 2 labels, got 1"),
    (lambda: metrics.worst_group_accuracy([1, 2], [1, 2], [0, None]), "groups: .*None is no label"),
    (lambda: metrics.worst_group_accuracy([1, 2], [1, 2], [(0, np.nan), (0, 1)]), "groups: .*nan is no label"),
    (
        lambda: metrics.worst_group_accuracy([1, 2], [1, 2], pd.Series(["a", pd.NA])),
        "groups: expected one label per row",
    ),
    (lambda: metrics.reweighted_accuracy([1], [1], ["a"], {"a": 3}), "train_groups: .* got dict"),
    (lambda: metrics.hsic(X, X[:5]), "B: expected 8 rows as in A, got 5"),
    (lambda: metrics.hsic(X[:1], X[:1]), "A: .*at least 2 rows"),
    (lambda: metrics.hsic(X[:, 0], X), "A: expected 2 dimensions"),
    (lambda: metrics.hsic(X, np.full((8, 2), np.inf)), "B: expected finite"),
    (lambda: metrics.hsic(X, X, kernel="cosine"), 'kernel: expected "linear" or "rbf", got \'cosine\''),
    (lambda: metrics.hsic(*np.zeros((2, 50_001, 1)), "rbf"), "at most 50,000 .* got 50,001; subsample"),
    (lambda: metrics.cknna(X[:3], X[:3], k=2), "A: .*at least 4 rows"),
    (lambda: metrics.cknna(X, X), r"k: expected an integer, 2 <= k < 8 .*got 10"),
    (lambda: metrics.cknna(X, X, k=8), "k: expected"),
    (lambda: metrics.cknna(X, X, k=1), "k: expected"),
    (lambda: metrics.cknna(X, X, k=2.5), "k: expected an integer"),
    (lambda: metrics.cknna(X, X[:6], k=3), "B: expected 8 rows as in A, got 6"),
    (lambda: metrics.cknna(X, np.full((8, 2), np.nan), k=3), "B: expected finite"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=[message for _, message in ERRORS])
def test_errors_say_what_was_expected_and_what_came(call, message):
    with pytest.raises(ChoqolateError, match=message):
        call()


def test_all_names_exist_and_have_an_example():
    assert len(set(metrics.__all__)) == len(metrics.__all__)
    for name in metrics.__all__:
        assert name == "NodeMean" or ">>>" in getattr(metrics, name).__doc__


def test_the_module_needs_neither_torch_nor_pandas():
    code = (
        "import sys, types; package = sys.modules['choqolate'] = types.ModuleType('choqolate')\n"
        f"package.__path__ = [{str(Path(metrics.__file__).parents[1])!r}]\n"
        "import choqolate.metrics; assert not {'torch', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("scale", [1e-200, 1e-100, 1e300])
def test_the_scale_of_the_numbers_does_not_matter(scale):
    rng = np.random.default_rng(0)
    W, A, B = rng.random((3, 6)), rng.random((20, 4)), rng.random((20, 3))
    R = metrics.concept_correlation(rng.random((30, 6)))
    np.testing.assert_allclose(metrics.attribution_gini(scale * W), metrics.attribution_gini(W), rtol=1e-12)
    np.testing.assert_allclose(metrics.node_coherence(scale * W, R), metrics.node_coherence(W, R), rtol=1e-12)
    for kernel in ("linear", "rbf"):
        assert metrics.hsic(scale * A, B, kernel=kernel) == pytest.approx(metrics.hsic(A, B, kernel=kernel), rel=1e-9)


# ---------------------------------------------------------------------- per concept


@given(st.integers(1, 6), st.integers(1, 8), st.integers(0, 100))
def test_presence_and_absence_are_added(n_nodes, n_concepts, seed):
    presence, absence = np.random.default_rng(seed).random((2, n_nodes, n_concepts))
    both = metrics.per_concept(np.hstack([presence, absence]), n_concepts)
    np.testing.assert_allclose(both, presence + absence)
    np.testing.assert_array_equal(metrics.per_concept(presence, n_concepts), presence)


def test_a_concept_that_counts_in_both_ways_does_not_look_sparse():
    spread = np.full((1, 8), 0.125)  # four concepts, presence and absence alike
    assert metrics.attribution_gini(metrics.per_concept(spread, 4)) == 0
    absent = np.array([[0, 0, 0, 0, 0.25, 0.25, 0.25, 0.25]])  # half of the inputs are empty
    assert metrics.attribution_gini(absent) == 0.5
    assert metrics.attribution_gini(metrics.per_concept(absent, 4)) == 0


def test_columns_that_are_no_concepts_are_named():
    with pytest.raises(ChoqolateError, match="expected 4 or 8 columns, got 5"):
        metrics.per_concept(np.ones((2, 5)), 4)


@given(
    st.lists(st.lists(st.floats(0, 1, allow_subnormal=False), min_size=4, max_size=4), min_size=1, max_size=5),
    st.floats(0.05, 1.0),
)
def test_concept_count_is_its_definition(rows, share):
    """The smallest number of concepts, taken by size, whose sum reaches the share."""
    for row, count in zip(rows, metrics.concept_count(rows, share), strict=True):
        ordered, total = sorted(row, reverse=True), sum(row)
        if total == 0:
            assert count == 0
            continue
        assert sum(ordered[:count]) >= share * total * (1 - 1e-9)
        assert count == 1 or sum(ordered[: count - 1]) < share * total * (1 + 1e-9)


@pytest.mark.parametrize("share", [0, -0.1, 1.1, float("nan")])
def test_a_share_is_above_zero_and_at_most_one(share):
    with pytest.raises(ChoqolateError, match="share: expected a number above 0, at most 1"):
        metrics.concept_count([[0.5, 0.5]], share)


@given(st.integers(2, 30), st.integers(1, 6), st.integers(1, 4), st.integers(0, 50))
def test_coherence_needs_no_correlation_matrix(n_rows, n_concepts, n_nodes, seed):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n_rows, n_concepts))
    scores[:, : seed % 2] = 0.3  # a constant concept has no correlation
    W = rng.random((n_nodes, n_concepts)) * (rng.random((n_nodes, n_concepts)) < 0.7)
    expected = metrics.node_coherence(W, metrics.concept_correlation(scores))
    np.testing.assert_allclose(metrics.node_coherence_on(W, scores), expected, atol=1e-9)


def test_coherence_on_scores_of_other_concepts_is_an_error():
    with pytest.raises(ChoqolateError, match="scores: expected 3 columns as in W, got 2"):
        metrics.node_coherence_on([[0.2, 0.3, 0.5]], [[0.0, 1.0], [1.0, 0.0]])
    for scores in (np.array(5.0), np.ones(2), np.ones((1, 2))):
        with pytest.raises(ChoqolateError, match="scores: expected 2 dimensions and at least 2 rows"):
            metrics.node_coherence_on([[1.0, 1.0]], scores)
