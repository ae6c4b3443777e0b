from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

import choqolate as cq
from choqolate.baselines import PSCBM
from choqolate.baselines.pscbm import ConceptLabels, Jointly
from choqolate.baselines.selection import concept_labels, find_owners, merge_concepts, select_concepts
from tests.baselines.methods import noisy_labels, runs_on, scale
from tests.elastic_net import ELASTIC_NET
from tests.small_tables import CONCEPTS, bird_scores

NAMES = ["fin", "gill", "fog", "fur", "paw", "claw", "eye"]
TARGETS = np.array([0] * 5 + [1] * 5 + [2] * 5)  # fish, cat, dog
TABLE = np.column_stack(
    [
        [0.30, 0.31, 0.32, 0.33, 0.10] + [0.10] * 10,  # fin: of fish
        [0.15, 0.155, 0.16, 0.165, 0.05] + [0.05] * 10,  # gill: as fin, half as large
        [0.19, 0.19, 0.19, 0.19, 0.30] + [0.10] * 10,  # fog: of fish, seen well once: (0.30 + 3 * 0.19) / 4 = 0.2175
        [0.10] * 5 + [0.30, 0.31, 0.30, 0.31, 0.30] + [0.10] * 5,  # fur: of cats
        [0.10] * 5 + [0.24] * 5 + [0.26] * 5,  # paw: cats 0.04, dogs 0.06 above the mean of 0.2, deviation 0.071: dogs
        [0.10] * 5 + [0.21] * 5 + [0.25] * 5,  # claw: of dogs
        [0.15, 0.16] * 7 + [0.15],  # eye: nobody's in particular, and below 0.2
    ]
)
CLASSES = ["fish", "cat", "dog"]


def select(**options):
    settings = {"min_score": 0.2, "merge": 0.99999, "per_class": 5} | options
    return select_concepts(TABLE, TARGETS, NAMES, CLASSES, **settings)


def test_owners_are_the_classes_far_above_the_mean():
    owned = find_owners(TABLE, TARGETS, 3)
    assert [[CLASSES[r] for r in np.flatnonzero(row)] for row in owned] == [
        ["fish"],
        ["fish"],
        ["fish"],
        ["cat"],
        ["dog"],
        ["dog"],
        ["cat"],  # 0.156 against 0.154 and 0.154: the best mean is enough
    ]
    many = np.array([0, 0, 0, 0, 0, 0, 1, 2])  # two rare classes both stand out
    rare = np.array([0.0] * 6 + [1.0, 0.9])[:, None]
    np.testing.assert_array_equal(find_owners(rare, many, 3), [[False, True, True]])


def test_concepts_that_are_not_seen_are_dropped():
    assert select().dropped == ("gill", "eye")  # gill is best 0.165
    assert select(min_score=0.22).dropped == ("gill", "fog", "eye")  # four scores count, not the best one
    assert select(min_score=None).dropped == ()
    with pytest.raises(cq.ChoqolateError, match=r"min_score=0.5, the best reach 0\.315.*use min_score=None"):
        select(min_score=0.5)


def test_concepts_that_say_the_same_become_one():
    assert select(min_score=0.1).merged == {"fin": ("gill",)}  # the size of scores does not count, their pattern does
    merged = select(min_score=0.1, merge=0.99)
    assert merged.merged == {"fin": ("gill",), "paw": ("claw",)}
    assert merged.owners["paw"] == ("dog",)
    assert "claw" not in merged.kept


def test_the_largest_group_comes_first_and_takes_its_members_with_it():
    angles = np.deg2rad([0, 10, 20, 30, 90])
    X = np.stack([np.cos(angles), np.sin(angles)])  # five concepts, two rows
    assert merge_concepts(X, np.arange(5), np.cos(np.deg2rad(11))) == {1: [0, 2], 3: [], 4: []}
    assert merge_concepts(X, np.array([0, 2, 3, 4]), np.cos(np.deg2rad(11))) == {2: [3], 0: [], 4: []}


@settings(max_examples=40, deadline=None)
@given(X=arrays(np.float64, (4, 7), elements=st.floats(0, 1, width=16)), merge=st.floats(0.5, 1.0))
def test_merging_is_a_partition_into_stars(X, merge):
    groups = merge_concepts(X, np.arange(7), merge)
    assert sorted([*groups, *(j for members in groups.values() for j in members)]) == list(range(7))
    for first, members in groups.items():
        for j in members:
            product = X[:, first] @ X[:, j]
            assert product >= (merge - 1e-9) * np.linalg.norm(X[:, first]) * np.linalg.norm(X[:, j])


def test_members_bring_their_classes_and_shared_concepts_always_stay():
    X = np.column_stack([[0.3, 0.3, 0.1, 0.1], [0.1, 0.1, 0.3, 0.3], [0.1, 0.1, 0.3, 0.25], [0.1, 0.1, 0.25, 0.25]])
    chosen = select_concepts(
        X, np.array([0, 0, 1, 1]), ["a", "b", "c", "d"], [0, 1], min_score=0.2, merge=0.5, per_class=1
    )
    assert chosen.owners == {"a": (0, 1)}  # all in one group
    assert chosen.merged == {"a": ("b", "c", "d")}
    chosen = select_concepts(
        X, np.array([0, 0, 1, 1]), ["a", "b", "c", "d"], [0, 1], min_score=0.2, merge=0.9999, per_class=1
    )
    assert chosen.owners == {"a": (0,), "b": (1,)}  # of b, c and d the best
    assert chosen.surplus == ("c", "d")
    np.testing.assert_array_equal(chosen.columns, [0, 1])
    np.testing.assert_array_equal(chosen.owned, [[True, False], [False, True]])


def test_the_best_of_each_class_are_kept():
    assert select(min_score=0.1, per_class=1).owners == {"fin": ("fish",), "fur": ("cat",), "paw": ("dog",)}
    assert select(min_score=0.1, per_class=1).surplus == ("fog", "claw", "eye")
    assert select(min_score=0.1, per_class=2).surplus == ()
    for stretch in (1, 100):  # without a bound for all, the size of a concept's scores does not count
        table = TABLE * [1, 1, 1, 1, stretch, 1, 1]
        chosen = select_concepts(table, TARGETS, NAMES, CLASSES, min_score=None, merge=0.99999, per_class=1)
        # class means in deviations above the mean of all rows: fog 1.27 and fin 1.20, claw 1.00 and paw 0.84
        assert chosen.kept == ("fog", "fur", "claw")


def test_the_best_are_those_with_the_largest_mean_on_the_rows_of_their_class():
    steady = [0.25] * 6 + [0.1] * 6  # mean 0.25 on the rows of the first class, mean of the four best 0.25
    flashy = [0.3] * 4 + [0.1] * 2 + [0.1] * 6  # mean 0.233, mean of the four best 0.3
    other = [0.1] * 6 + [0.3] * 6
    X, targets = np.column_stack([steady, flashy, other]), np.repeat([0, 1], 6)
    options = {"min_score": 0.2, "merge": 0.9999, "per_class": 1}
    chosen = select_concepts(X, targets, ["steady", "flashy", "other"], CLASSES[:2], **options)
    assert (chosen.kept, chosen.surplus) == (("steady", "other"), ("flashy",))
    dropping = select_concepts(X, targets, ["steady", "flashy", "other"], CLASSES[:2], **options | {"min_score": 0.28})
    assert (dropping.kept, dropping.dropped) == (("flashy", "other"), ("steady",))  # there the four best count


def test_labels_are_one_where_the_class_owns_the_concept_and_the_score_passes():
    chosen = select(per_class=1)
    assert chosen.kept == ("fin", "fur", "paw")
    labels = concept_labels(TABLE, TARGETS, chosen, 0.2)
    np.testing.assert_array_equal(labels[:, 0], [1, 1, 1, 1, 0] + [0] * 10)  # the last fish shows no fin
    np.testing.assert_array_equal(labels[:, 2], [0] * 10 + [1] * 5)  # cats pass too, but paws are the dogs'
    free = select(min_score=None, per_class=1)
    free_labels = concept_labels(TABLE, TARGETS, free, None)
    np.testing.assert_array_equal(free_labels[:, free.kept.index("fur")], [0] * 5 + [1] * 5 + [0] * 5)


# ---------------------------------------------------------------- the estimator


@pytest.fixture(scope="module")
def birds():
    X, y, _ = bird_scores()
    return X, y


@pytest.fixture(scope="module")
def model(birds):
    return PSCBM(n_nodes=3, per_class=2, epochs=80, learning_rate=0.03, penalty=0.002).fit(*birds)


def units(model, X):
    return scale(X, X) @ model.unit_weights_.T + model.unit_intercepts_


def test_units_are_standardised_on_the_training_rows(birds, model):
    values = units(model, birds[0])
    np.testing.assert_allclose(values.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(values.std(0), 1, atol=1e-12)


def test_nodes_read_the_units_of_kept_concepts(birds, model):
    X, _ = birds
    columns = [CONCEPTS.index(name) for name in model.selection_.kept]
    assert 2 <= len(columns) <= 4
    nodes = units(model, X) @ model.node_attributions_[:, columns].T + model.node_intercepts_
    np.testing.assert_allclose(model.transform(X), nodes, atol=1e-12)
    others = [j for j in range(6) if j not in columns]
    assert not model.node_attributions_[:, others].any()
    assert model.node_attributions_[:, columns].any()


def test_the_concept_layer_is_a_logistic_regression_of_each_label():
    X, y = noisy_labels()
    labels = np.stack([y == 0, y == 2], axis=1).astype(float)
    training = runs_on(X, n_runs=2, epochs=1000, learning_rate=0.1)
    layer = ConceptLabels(training, torch.from_numpy(labels))
    training.minimise(layer, "learning concepts")
    A, a = (theta.detach().numpy() for theta in layer.parameters)
    unit_weights, unit_intercepts = layer.standardised()
    for k in (0, 1):
        oracle = LogisticRegression(C=np.inf, tol=1e-10, max_iter=2000).fit(X, labels[:, k])
        for run in (0, 1):
            np.testing.assert_allclose(A[run, k], oracle.coef_[0], atol=1e-3)
            np.testing.assert_allclose(a[run, k], oracle.intercept_[0], atol=1e-3)
            outputs = X @ A[run, k] + a[run, k]
            expected = (outputs - outputs.mean()) / outputs.std()
            np.testing.assert_allclose(X @ unit_weights[run, k].numpy() + float(unit_intercepts[run, k]), expected)


def test_nodes_and_concept_layer_are_trained_together_and_standardised_again():
    X, y = noisy_labels()
    labels = np.stack([y == 0, y == 2], axis=1).astype(float)
    training = replace(runs_on(X, n_runs=2, epochs=20, learning_rate=0.1), targets=torch.from_numpy(y))
    layer = ConceptLabels(training, torch.from_numpy(labels))
    training.minimise(layer, "learning concepts")
    A, a = (theta.detach().clone().numpy() for theta in layer.parameters)
    jointly = Jointly(training, layer, [2, 4, 3])
    rows = torch.arange(50)
    with torch.no_grad():
        losses, hits = jointly.measure(rows)
    for run in (0, 1):
        outputs = X @ A[run].T + a[run]
        u = (outputs - outputs.mean(0)) / outputs.std(0)
        W, b, V, d = (theta[run].numpy() for theta in jointly.layers)
        logits = (u @ W.T + b) @ V.T + d
        cross_entropy = (logsumexp(logits, axis=1) - logits[np.arange(len(y)), y])[:50].mean()
        binary = (np.logaddexp(0, outputs) - labels * outputs)[:50].mean()
        assert losses[run].item() == pytest.approx(cross_entropy + binary)
        assert int(hits[run]) == (logits.argmax(1) == y)[:50].sum()
    training.minimise(jointly, "training")
    assert not np.allclose(layer.parameters[0].detach().numpy(), A)
    before = jointly.measure(rows)[0].detach()
    jointly.restandardise()
    torch.testing.assert_close(jointly.measure(rows)[0].detach(), before)


def test_without_nodes_it_is_a_sparse_linear_classifier_of_the_units(birds):
    X, y = birds
    y = np.where(np.arange(400) % 5 == 0, "other", y)  # with two classes scikit-learn has one row of weights
    model = PSCBM(n_nodes=None, penalty=0.01, per_class=2, epochs=1000, learning_rate=0.1).fit(X, y)
    options = {"C": 1 / (400 * 0.01), "solver": "saga", "tol": 1e-10, "max_iter": 50_000, **ELASTIC_NET}
    oracle = LogisticRegression(l1_ratio=0.99, **options).fit(units(model, X), y)
    W = model.node_attributions_[:, model.selection_.columns]
    np.testing.assert_allclose(W, oracle.coef_, atol=1e-4)
    np.testing.assert_array_equal(W == 0, oracle.coef_ == 0)
    assert (W == 0).any()


def test_removal_freezes_the_input_and_the_unit(birds, model):
    X, _ = birds
    edited = model.remove_concepts("sea")
    sea = CONCEPTS.index("sea")
    z = scale(X, X)
    z[:, sea] = z[:, sea].mean()
    values = z @ model.unit_weights_.T + model.unit_intercepts_
    kept = list(model.selection_.kept)
    assert "sea" in kept
    values[:, kept.index("sea")] = 0.0  # its mean
    columns = model.selection_.columns
    nodes = values @ model.node_attributions_[:, columns].T + model.node_intercepts_
    np.testing.assert_allclose(edited.transform(X), nodes, atol=1e-12)
    assert model.unit_weights_[:, sea].any()
    assert not edited.unit_weights_[:, sea].any()


def test_attributions_are_those_of_the_units(birds, model):
    X, _ = birds
    explanation = model.explain(X[:5], baseline="mean")
    W, columns = model.node_attributions_, model.selection_.columns
    expected = W[:, columns] * units(model, X)[:5][:, None]  # the mean image's units are zero
    np.testing.assert_allclose(explanation.concept_to_node[:, :, columns], expected, atol=1e-12)


def test_weights_over_the_scores_are_the_slopes_of_the_nodes(birds, model):
    X, _ = birds
    z = scale(X, X)
    inside = np.where((z > 0.2) & (z < 0.8), 1.0, np.nan)
    step = 0.01 * np.ptp(X.to_numpy(), axis=0)
    for j in range(6):
        moved = X.copy()
        moved.iloc[:, j] += step[j]
        slopes = (model.transform(moved) - model.transform(X)) / 0.01
        here = ~np.isnan(inside[:, j])
        expected = np.broadcast_to(model.score_attributions_[:, j], slopes[here].shape)
        np.testing.assert_allclose(slopes[here], expected, atol=1e-9)


def test_the_selection_names_concepts_and_classes(birds, model):
    chosen = model.selection_
    assert set(chosen.kept) | set(chosen.surplus) | set(chosen.dropped) == set(CONCEPTS)
    assert chosen.owners["sea"] == ("waterbird",)
    assert chosen.owners["forest"] == ("landbird",)
    assert model.history_["concepts"].shape == (80,)
    assert model.history_["concepts"][-1] < model.history_["concepts"][0]
