"""Inner products that are summed without rounding, against fractions."""

from __future__ import annotations

import operator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from choqolate.concepts.exact_product import ExactProduct


def _units(n, d, seed):
    vectors = np.random.default_rng(seed).standard_normal((n, d))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("n_columns", [1, 2, 3, 16, 50, 226])
@pytest.mark.parametrize("d", [1, 16, 512, 768])
def test_a_row_has_the_same_bits_wherever_it_stands(d, n_columns):
    product = ExactProduct(_units(n_columns, d, 0).T)
    vectors = _units(300, d, 1)
    together = product(vectors)
    shuffled = np.random.default_rng(2).permutation(300)
    assert np.array_equal(product(vectors[shuffled]), together[shuffled])
    assert np.array_equal(np.concatenate([product(vector[None]) for vector in vectors]), together)


def test_columns_and_the_order_of_the_dimensions_do_not_matter():
    matrix, vectors, order = _units(40, 512, 0).T, _units(30, 512, 1), np.random.default_rng(2).permutation(512)
    together = ExactProduct(matrix)(vectors)
    assert np.array_equal(ExactProduct(matrix[order])(vectors[:, order]), together)
    assert np.array_equal(ExactProduct(matrix[:, [7]])(vectors), together[:, [7]])
    assert np.array_equal(ExactProduct(vectors.T)(np.ascontiguousarray(matrix.T)), together.T)


def test_it_is_near_the_truth():
    vectors = _units(12, 768, 1)
    matrix = np.concatenate([_units(8, 768, 0), vectors]).T  # of a vector with itself: the largest sums that there are
    truth = np.array(
        [
            [float(sum(map(operator.mul, map(Fraction, v), map(Fraction, c)))) for c in matrix.T.tolist()]
            for v in vectors.tolist()
        ]
    )
    # each number is off by at most half a step of the grid, times the other vector; then one rounding of the result
    most = np.sqrt(768) * 2.0**-25 + 2.0**-24
    assert np.abs(ExactProduct(matrix)(vectors) - truth).max() <= most / 5  # errors do not all have one sign


def test_sums_are_exact_for_vectors_on_the_grid():
    rng = np.random.default_rng(0)
    vectors = (rng.integers(-(2**20), 2**20, (6, 512)) / 2**24).astype(np.float32)
    truth = [
        [sum(map(operator.mul, map(Fraction, v), map(Fraction, c))) for c in vectors.tolist()] for v in vectors.tolist()
    ]
    assert np.array_equal(ExactProduct(vectors.T)(vectors), np.array(truth, dtype=np.float64).astype(np.float32))


@given(st.integers(-60, 60), st.integers(-60, 60))
def test_scales_do_not_matter(left, right):
    matrix, vectors = _units(3, 20, 0).T, _units(4, 20, 1)
    scaled = ExactProduct(np.ldexp(matrix, left))(np.ldexp(vectors, right))
    assert np.array_equal(scaled, np.ldexp(ExactProduct(matrix)(vectors), left + right))


def test_vectors_of_zeros_and_no_vectors():
    matrix = _units(3, 5, 0).T
    assert not ExactProduct(matrix)(np.zeros((2, 5), dtype=np.float32)).any()
    assert ExactProduct(matrix)(np.zeros((0, 5), dtype=np.float32)).shape == (0, 3)
