"""How much the concepts say the same, against numpy and loops; and when the assumption looks doubtful."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.explain.redundancy import check_redundancy


def families(sizes, n_rows=300, noise=0.3, seed=0):
    """Scores in which concepts of a family share a cause; names are a0, a1, b0, ..."""
    rng = np.random.default_rng(seed)
    columns = {}
    for family, size in enumerate(sizes):
        cause = rng.normal(size=n_rows)
        for member in range(size):
            columns[f"{chr(97 + family)}{member}"] = 0.2 + 0.02 * (cause + noise * rng.normal(size=n_rows))
    return pd.DataFrame(columns)


@given(st.integers(2, 8), st.integers(3, 40), st.integers(0, 2**32 - 1))
def test_mean_and_quantiles_are_those_of_numpy(n_concepts, n_rows, seed):
    X = np.random.default_rng(seed).normal(size=(n_rows, n_concepts))
    R = np.corrcoef(X.T)
    pairs = [R[i, j] for i, j in itertools.combinations(range(n_concepts), 2)]
    found = check_redundancy(X)
    np.testing.assert_allclose(found.correlation, R, atol=1e-12)
    assert found.mean == pytest.approx(sum(pairs) / len(pairs))
    assert list(found.quantiles) == [5, 25, 50, 75, 95]
    for share, value in found.quantiles.items():
        assert value == pytest.approx(np.quantile(pairs, share / 100))
    best = [max(R[i, j] for j in range(n_concepts) if j != i) for i in range(n_concepts)]
    assert found.partnered == pytest.approx(np.mean([value >= found.threshold for value in best]))
    assert sorted(found.order) == list(range(n_concepts))


def test_families_are_found_strongest_first():
    X = families([3, 2, 1], noise=0.3).join(families([2], noise=0.1, seed=1).rename(columns={"a0": "z0", "a1": "z1"}))
    found = check_redundancy(X)
    assert found.groups[0].concepts == ("z0", "z1")
    assert {group.concepts for group in found.groups[1:]} == {("a0", "a1", "a2"), ("b0", "b1")}
    R = np.corrcoef(X.to_numpy().T)
    strengths = {group.concepts: group.correlation for group in found.groups}
    assert strengths["a0", "a1", "a2"] == pytest.approx((R[0, 1] + R[0, 2] + R[1, 2]) / 3)
    assert list(strengths.values()) == sorted(strengths.values(), reverse=True)
    assert found.doubtful is None
    assert found.partnered == pytest.approx(7 / 8)
    order = [found.concepts[j][0] for j in found.order]
    assert len([name for name, _ in itertools.groupby(order)]) == 4  # families stand together


def test_the_cut_is_where_it_is_asked_for():
    X = families([3], noise=1.0, n_rows=2000)  # correlation 0.5
    assert check_redundancy(X).groups == ()
    assert check_redundancy(X, group_at=0.4).groups[0].concepts == ("a0", "a1", "a2")
    for value in (-0.1, 1.1, "high"):
        with pytest.raises(ChoqolateError, match="group_at"):
            check_redundancy(X, group_at=value)


def test_constant_concepts_are_named_and_left_out():
    X = families([3])
    found = check_redundancy(X.assign(flat=0.2, zero=0))
    alone = check_redundancy(X)
    assert found.constant == ("flat", "zero")
    assert (found.mean, found.quantiles, found.groups) == (alone.mean, alone.quantiles, alone.groups)
    assert (found.partnered, found.threshold) == (alone.partnered, alone.threshold)
    assert np.isnan(found.correlation[3:]).all()
    assert found.order.tolist()[3:] == [3, 4]


def test_duplicates_are_equal_up_to_rounding():
    X = families([2]).assign(other=lambda frame: frame["a0"].astype(np.float32), opposite=lambda frame: -frame["a0"])
    assert check_redundancy(X).duplicates == (("a0", "other"),)


def test_independent_scores_are_doubtful_whatever_the_size():
    rng = np.random.default_rng(0)
    for n_rows, n_concepts in itertools.product((20, 40, 100, 2000), (3, 10, 77, 226)):
        doubt = check_redundancy(rng.normal(size=(n_rows, n_concepts))).doubtful
        assert doubt is not None
        assert f"of {n_concepts} concepts have a partner" in doubt


@pytest.mark.parametrize("n_rows", [20, 30, 50, 1000])
def test_related_scores_are_not_doubtful_even_with_few_rows(n_rows):
    X = families([6] * 12, n_rows=n_rows, noise=0.3)
    assert check_redundancy(X).doubtful is None


def test_opposites_are_no_partners():
    X = families([1], noise=0.0)
    pairs = pd.concat([families([1, 1], seed=seed).add_prefix(str(seed)) for seed in range(3)], axis=1)
    mirrored = pairs.join(-pairs.add_prefix("not "))
    assert check_redundancy(mirrored).partnered == 0
    assert check_redundancy(mirrored).doubtful is not None
    assert check_redundancy(X).doubtful is not None


def test_chance_exceeds_the_threshold_in_about_5_of_100_tables():
    rng = np.random.default_rng(0)
    above = 0
    for _ in range(400):
        found = check_redundancy(rng.normal(size=(40, 12)), partner_at=0.0)
        above += found.partnered > 0
    assert found.threshold == pytest.approx(math.tanh(math.sqrt(2 * math.log(12 * 11 / 0.2)) / math.sqrt(37)))
    assert above / 400 <= 0.08  # a bound on the tail of the normal: chance stays below 0.05 or close to it


def test_too_little_to_tell_is_said_as_such():
    few = check_redundancy(families([3], n_rows=19))
    assert "too little to tell" in few.doubtful
    assert "there are 19 and 3" in few.doubtful
    assert "too little to tell" in check_redundancy(families([2])).doubtful
    assert "there are 300 and 2" in check_redundancy(families([2]).assign(flat=1.0)).doubtful


def test_one_concept_and_only_constant_ones():
    for X in (families([1]), pd.DataFrame({"a": [1.0] * 30, "b": [2.0] * 30})):
        found = check_redundancy(X)
        assert math.isnan(found.mean)
        assert found.groups == ()
        assert found.doubtful.startswith("too little to tell")
        assert sorted(found.order) == list(range(X.shape[1]))
        assert found.lines()


def test_tables_frames_and_arrays_give_the_same():
    X = families([2, 2])
    table = ConceptScores(X.to_numpy(), X.columns)
    for found in (check_redundancy(table), check_redundancy(X.to_numpy(), list(X.columns)), check_redundancy(X)):
        assert found.concepts == ("a0", "a1", "b0", "b1")
        assert found.n_rows == 300
        assert found.mean == check_redundancy(X).mean
    assert check_redundancy(X.to_numpy()).concepts == ("x0", "x1", "x2", "x3")
    scores = X.rename(columns={"a0": "scores", "a1": "concepts"})  # names that tables have as attributes
    assert check_redundancy(scores).concepts == ("scores", "concepts", "b0", "b1")


@pytest.mark.parametrize(
    ("scores", "concepts", "message"),
    [
        ([[1.0, 2.0]], None, "at least two rows"),
        ([1.0, 2.0], None, "shape"),
        (1.0, None, "shape"),
        ([[1.0], [np.nan]], ["sea"], "concept 'sea'"),
        ([[1.0], [2.0]], ["sea", "lake"], "one name for each column"),
        ([[1.0, 2.0], [2.0, 3.0]], ["sea", "sea"], "more than once"),
        ([["a"], ["b"]], None, "numbers"),
    ],
)
def test_what_does_not_fit_is_an_error(scores, concepts, message):
    with pytest.raises(ChoqolateError, match=message):
        check_redundancy(scores, concepts)


def test_the_report_says_it_all_in_short_lines():
    X = families([3, 2, 4]).assign(flat=1.0, twin=lambda frame: frame["a0"])
    report = check_redundancy(X).lines()
    text = "\n".join(report)
    assert report[0].startswith("correlation of 10 concepts over 300 rows: mean 0.")
    assert "5% " in text
    assert "95% " in text
    assert "'b0', 'b1'" in text
    assert "constant, and so without influence: 'flat'" in text
    assert "'a0' and 'twin'" in text
    assert "doubtful" not in text
    assert not any("\n" in line for line in report)
    lone = check_redundancy(np.random.default_rng(0).normal(size=(50, 4))).lines()
    assert lone[-1].startswith("doubtful: only 0 of 4 concepts")
    assert "groups with a mean correlation of at least 0.80: none" in lone


def test_its_repr_is_short():
    found = check_redundancy([[0.1, 0.2, 0.9], [0.3, 0.5, 0.1], [0.2, 0.3, 0.4]], ["sea", "lake", "oak"])
    assert repr(found) == "Redundancy(3 concepts, mean correlation -0.32, 1 group)"
