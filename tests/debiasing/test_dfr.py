from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import choqolate as cq
from choqolate.data.scores import ConceptScores
from choqolate.debiasing import LinearHead, dfr
from choqolate.debiasing.dfr import _L1, STRENGTHS, choose_strength, halves, standardisation
from choqolate.debiasing.group_rows import balanced_rows
from choqolate.estimators.table_inputs import inputs
from choqolate.metrics import worst_group_accuracy
from tests.debiasing.tables import biased_table, trained
from tests.small_tables import bird_scores


@pytest.fixture(scope="module")
def table():
    return biased_table(1000, 400)


@pytest.fixture(scope="module")
def models(table):
    return trained(table)


def logistic(X, y, C, solver="liblinear"):
    return LogisticRegression(solver=solver, C=C, random_state=0, max_iter=1000, **_L1).fit(X, y)


def numbered(groups):
    """Groups as numbers, in the order in which they appear."""
    return np.array([list(dict.fromkeys(groups.tolist())).index(name) for name in groups])


sizes_of_groups = st.lists(st.integers(2, 12), min_size=1, max_size=4)


@given(sizes=sizes_of_groups, seed=st.integers(0, 99))
def test_draws_are_balanced_and_have_no_row_twice(sizes, seed):
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    rows = balanced_rows(groups, rng)
    assert Counter(groups[rows].tolist()) == dict.fromkeys(range(len(sizes)), min(sizes))
    assert len(set(rows.tolist())) == len(rows)


@given(sizes=sizes_of_groups, seed=st.integers(0, 99))
def test_halves_have_half_of_every_group(sizes, seed):
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    first = halves(groups, rng)
    for group, size in enumerate(sizes):
        assert first[groups == group].sum() == (size + 1) // 2


def test_weights_and_intercepts_are_means_over_balanced_draws(table, models):
    model, C = models[0], 0.3
    val, train = table.part("val"), table.part("train")
    head = LinearHead(model, C=C, n_draws=4, random_state=7)
    head.fit(inputs(model, val), val.labels, val.groups, reference=inputs(model, train))
    scaler = StandardScaler().fit(model.transform(inputs(model, train)))
    values = scaler.transform(model.transform(inputs(model, val)))
    groups, rng = numbered(val.groups), np.random.default_rng(7)
    fits = []
    for _ in range(4):
        rows = balanced_rows(groups, rng)
        fits.append(logistic(values[rows], val.labels[rows].tolist(), C))
    weights, intercept = np.mean([f.coef_[0] for f in fits], 0), np.mean([f.intercept_[0] for f in fits])
    test = inputs(model, table.part("test"))
    logits = scaler.transform(model.transform(test)) @ weights + intercept
    scores = head.class_scores(test)
    np.testing.assert_allclose(scores[:, 1] - scores[:, 0], logits, rtol=0, atol=1e-10)
    np.testing.assert_allclose(head.predict_proba(test)[:, 1], 1 / (1 + np.exp(-logits)), rtol=0, atol=1e-12)
    assert head.predict(test).tolist() == np.where(logits > 0, "waterbird", "landbird").tolist()
    assert len({tuple(f.coef_[0]) for f in fits}) == 4


def test_the_strength_is_that_of_a_direct_loop():
    rng = np.random.default_rng(3)
    targets = rng.integers(0, 2, 120)
    groups = 2 * targets + (rng.random(120) < 0.3)
    values = rng.normal(size=(120, 6)) + 0.5 * targets[:, None] * [1, 1, 0, 0, 0, 0] + (groups % 2)[:, None]
    draws = np.random.default_rng(5)
    first, worst = halves(groups, draws), {C: [] for C in STRENGTHS}
    for half in (first, ~first):
        rows = np.flatnonzero(half)[balanced_rows(groups[half], draws)]
        for C in STRENGTHS:
            predicted = logistic(values[rows], targets[rows], C).predict(values[~half])
            worst[C].append(worst_group_accuracy(targets[~half], predicted, groups[~half]))
    means = {C: np.mean(pair) for C, pair in worst.items()}
    C, accuracy = choose_strength(values, targets, groups, STRENGTHS, np.random.default_rng(5))
    assert accuracy == pytest.approx(max(means.values()))
    assert C == max(means, key=means.get)
    assert len(set(means.values())) > 2


def test_the_worst_group_improves(table, models):
    for model, head in zip(models, dfr(models, table), strict=True):
        before, after = (cq.evaluate(m, table, "test").worst_group[1] for m in (model, head))
        assert after > before + 0.1


def test_the_result_is_measured_like_any_model(table, models):
    head = dfr(models[:1], table, n_draws=2)[0]
    X = inputs(head, table)
    assert np.array_equal(head.transform(X), models[0].transform(X))
    assert head.concepts_ == models[0].concepts_
    assert head.class_attributions_.shape == (2, 5)
    np.testing.assert_allclose(
        head.class_scores(X), head.transform(X) @ head.class_attributions_.T + head.class_intercepts_, atol=1e-12
    )
    assert head.score(X, table.labels) == cq.evaluate(head, table, "all").accuracy
    assert cq.evaluate(head, table).attribution_gini == cq.evaluate(models[0], table).attribution_gini


def test_rows_are_those_for_validation_if_there_are_enough_of_every_group(table, models):
    def fitted_on(n_val: int, agreement: float) -> str:
        X, labels, groups = bird_scores(n_val, agreement, seed=9)
        parts = table.take(table.split != "val")
        joined = replace(
            parts,
            scores=np.concatenate([parts.scores, X.to_numpy()]),
            labels=np.concatenate([parts.labels, labels]),
            groups=np.concatenate([parts.groups, groups]),
            split=np.concatenate([parts.split, ["val"] * n_val]),
        )
        provenance = dfr(models[:1], joined, n_draws=2)[0].provenance_
        assert provenance.debiasing["C"] in STRENGTHS
        assert provenance.data == models[0].provenance_.data
        return provenance.debiasing["fitted_on"]

    fewest = min(Counter(table.part("train").groups.tolist()).values())
    assert fewest < 50
    assert fitted_on(4 * fewest + 60, 0.5) == "val rows"  # more of every group than among the training rows
    assert fitted_on(100, 0.95) == "train rows"
    assert fitted_on(60, 1.0) == "train rows"  # two groups are not there
    assert models[0].provenance_.debiasing is None


def test_several_classes_have_one_multinomial_regression():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 240)
    scores = rng.random((240, 4)) + 2 * np.eye(4)[y]
    split = np.repeat(["train", "test"], 120)
    table = ConceptScores(scores, list("abcd"), labels=y, split=split, groups=y)
    model = trained(table, 1, epochs=20)[0]
    (head,) = dfr([model], table, strengths=[0.5], n_draws=1)
    train = table.part("train")
    values = StandardScaler().fit_transform(model.transform(train.frame))
    rows = balanced_rows(numbered(train.groups), np.random.default_rng(0))
    expected = logistic(values[rows], train.labels[rows].astype(int), 0.5, "saga").predict_proba(values)
    np.testing.assert_allclose(head.predict_proba(train.frame), expected, rtol=0, atol=1e-9)
    assert cq.evaluate(head, table, "test").accuracy > 0.9


def test_a_node_that_does_not_move_is_not_divided_by_zero():
    centre, spread = standardisation(np.array([[0.5, 1.0], [0.5, 3.0]]))
    assert centre.tolist() == [0.5, 2.0]
    assert spread.tolist() == [1.0, 1.0]
    centre, spread = standardisation(np.array([[0.5, 1.0], [0.5, 5.0]]))
    assert spread.tolist() == [1.0, 2.0]


def test_heads_of_bipolar_models_are_measured_like_the_models(table):
    (model,) = trained(table, 1, bipolar=True, epochs=5)
    (head,) = dfr([model], table, n_draws=2)
    mine, other = cq.evaluate(head, table, "test"), cq.evaluate(model, table, "test")
    assert mine.node_coherence == other.node_coherence
    assert mine.accuracy != other.accuracy


def test_what_the_head_does_not_have_itself_is_that_of_the_model(table):
    for options in ({}, {"bipolar": True}):
        model = cq.ChoqolateClassifier(n_nodes=3, epochs=2, **options).fit(table.frame, table.labels)
        head = LinearHead(model, n_draws=2).fit(table.frame, table.labels)
        np.testing.assert_array_equal(head.scale(table.frame), model.scale(table.frame))
        np.testing.assert_array_equal(head.scale(table), model.scale(table))
        np.testing.assert_array_equal(head.score_min_, model.score_min_)
        np.testing.assert_array_equal(head.score_max_, model.score_max_)
        assert (head.n_nodes, head.input_names_, head.node_names_) == (3, model.input_names_, model.node_names_)
        assert head.get_feature_names_out().tolist() == ["node0", "node1", "node2"]
        assert "n_nodes" not in head.get_params(deep=False)


def test_wrong_input_is_explained(table, models):
    with pytest.raises(cq.ChoqolateError, match="n_nodes=None"):
        dfr(trained(table, 1, n_nodes=None, epochs=1), table)
    with pytest.raises(cq.ChoqolateError, match='add a column "group"'):
        dfr(models, replace(table, groups=None))
    with pytest.raises(cq.ChoqolateError, match="to choose from, got none"):
        dfr(models, table, strengths=[])
    with pytest.raises(cq.ChoqolateError, match="strengths to be a number above 0"):
        dfr(models, table, strengths=[-1])
    land = table.take(table.labels == "landbird")
    with pytest.raises(cq.ChoqolateError, match="expected rows of all classes of the model and of no other, got no"):
        LinearHead(models[0]).fit(land.frame, land.labels)
    rows = np.concatenate(
        [np.flatnonzero(table.labels == "landbird")[:60], np.flatnonzero(table.labels == "waterbird")]
    )
    few = table.take(rows[:61])
    with pytest.raises(cq.ChoqolateError, match="all 2 classes among equally many rows of every group"):
        LinearHead(models[0], n_draws=1).fit(few.frame, few.labels, ["b", "b", *["a"] * 59])
