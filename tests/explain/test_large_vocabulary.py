"""Vocabularies whose pairs are too many to look at: what is exact, and how far off estimates may be."""

import math

import numpy as np
import pytest

import choqolate as cq
from choqolate.errors import ChoqolateError
from choqolate.explain.correlated_concepts import equal_concepts, find_neighborhoods
from choqolate.explain.impact import predict_without_sets
from choqolate.explain.redundancy import EXACT_UP_TO, _of_all_pairs

N_CONCEPTS = EXACT_UP_TO + 500
BOUND = math.sqrt(math.log(2 / 0.05) / (2 * 1000))  # Hoeffding, of 1,000 draws, in 95 of 100 cases


@pytest.fixture(scope="module")
def scores():
    """Families of related concepts of several strengths; some are constant, and some are the same twice."""
    rng = np.random.default_rng(0)
    causes = rng.normal(size=(80, 400))
    family = rng.integers(0, 400, N_CONCEPTS)
    noise = rng.choice([0.1, 0.4, 1.0, 5.0], N_CONCEPTS)
    X = (causes[:, family] + noise * rng.normal(size=(80, N_CONCEPTS))).astype(np.float32)
    X[:, 7] = X[:, 8] = 0.25
    X[:, 2400] = 3 * X[:, 11] - 1
    X[:, 100:104] = X[:, [99]]
    return X


@pytest.fixture(scope="module")
def both(scores):
    names = tuple(f"x{j}" for j in range(N_CONCEPTS))
    return cq.check_redundancy(scores), _of_all_pairs(scores, names, 0.8, 0.5)


def test_what_is_said_to_be_exact_is_that_of_all_pairs(both):
    found, exact = both
    assert found.drawn == 1000
    assert exact.drawn is None
    assert found.mean == pytest.approx(exact.mean, abs=1e-12)
    assert found.constant == exact.constant == ("x7", "x8")
    assert found.duplicates == exact.duplicates
    assert len(found.duplicates) == 11  # one pair, and all pairs of five
    assert found.threshold == exact.threshold


def test_estimates_are_within_their_bound(both):
    found, exact = both
    pairs = exact.correlation[np.triu_indices(N_CONCEPTS, 1)]
    pairs = pairs[~np.isnan(pairs)]
    assert found.partnered == pytest.approx(exact.partnered, abs=BOUND)
    for share, value in found.quantiles.items():
        assert np.mean(pairs < value) == pytest.approx(share / 100, abs=BOUND)


def test_groups_are_those_around_the_leading_concepts(both, scores):
    leading = ["x2400", "x99", "x7"]
    found, exact = cq.check_redundancy(scores, leading=leading), both[1]
    assert [found.concepts[j] for j in found.looked_at] == ["x7", "x99", "x2400"]
    assert found.ordered_concepts[-1] == "x7"  # constant ones come last
    groups = {name: set(group.concepts) for group in found.groups for name in group.concepts}
    expected = {name: set(group.concepts) for group in exact.groups for name in group.concepts}
    assert groups["x2400"] == expected["x2400"] == {"x11", "x2400"}
    assert groups["x99"] == expected["x99"] == {f"x{j}" for j in range(99, 104)}
    with pytest.raises(ChoqolateError, match="known concepts"):
        cq.check_redundancy(scores, leading=["sea"])


def test_the_report_says_what_was_looked_at(both):
    text = "\n".join(both[0].lines())
    assert f"correlation of {N_CONCEPTS - 2:,} concepts over 80 rows" in text
    assert text.count("estimated from 1,000 concepts drawn at random") == 2
    assert "groups around 1,000 concepts" in text
    assert "drawn" not in "\n".join(both[1].lines())


def test_doubt_says_that_concepts_were_drawn_among_those_that_vary():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, N_CONCEPTS)).astype(np.float32)
    X[:, 1200:] = 0.5
    found = cq.check_redundancy(X)
    assert found.drawn == 1000
    assert found.doubtful.startswith("only 0 of 1,000 concepts drawn at random have a partner")
    fewer = cq.check_redundancy(np.where(np.arange(N_CONCEPTS) < 700, X, 0.5)).doubtful
    assert fewer.startswith("only 0 of 700 concepts have a partner")  # these are all that vary


def test_neighbors_are_the_strongest_of_all(scores):
    seeds = np.array([3, 11, 99, 1500])
    found = find_neighborhoods(scores, seeds, 0.5)
    with np.errstate(invalid="ignore", divide="ignore"):
        R = np.corrcoef(scores.T.astype(float))
    for place, seed in enumerate(seeds):
        others = np.delete(R[seed], seed)
        assert found.strongest[place] == pytest.approx(np.nanmax(others), abs=1e-5)
        near = [j for j in np.argsort(-np.nan_to_num(R[seed], nan=-1)) if j != seed and R[seed, j] >= 0.5][:10]
        assert set(found.neighbors[found.neighbors[:, 0] == seed, 1]) == set(near)
    assert found.histogram.sum() == len(seeds) * (N_CONCEPTS - 3)  # but for itself and two constant ones
    assert (0, 1) not in equal_concepts(scores, found, 1e-3)
    assert (11, 2400) in equal_concepts(scores, found, 1e-3)


@pytest.mark.parametrize("options", [{}, {"interactions": "factored"}, {"bipolar": True}, {"n_nodes": None}])
@pytest.mark.parametrize("mode", ["rescale", "canonical", "impute"])
def test_sets_are_removed_as_the_model_removes_them(options, mode):
    rng = np.random.default_rng(0)
    X, y = rng.random((120, 7)), rng.integers(0, 3, 120)
    options = {"n_nodes": 4} | options
    model = cq.ChoqolateClassifier(epochs=3, temperature=0.05, **options).fit(X, y)
    model = model.remove_concepts(["x6"], mode=mode)
    sets = [["x0"], ["x1", "x4"], ["x0", "x2", "x3", "x5"], [f"x{j}" for j in range(7)]]
    u = model.network_.as_inputs(model.scale(X))
    *found, nothing = predict_without_sets(model.network_, u, sets, mode)
    assert nothing is None  # a node cannot be left with no concept
    for concepts, predicted in zip(sets, found, strict=False):
        expected = model.remove_concepts(concepts, mode=mode).predict(X)
        np.testing.assert_array_equal(model.classes_[predicted], expected)
