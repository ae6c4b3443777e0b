from __future__ import annotations

import copy
import math
import subprocess
import sys
from dataclasses import astuple

import numpy as np
import pandas as pd
import pytest
import shapiq
import torch

import choqolate as cq
from choqolate.baselines.linear import LinearBottleneck
from choqolate.explain import Attribution
from tests.networks import set_parameters
from tests.small_tables import CONCEPTS, FORMS, bird_scores

EDITS = {
    "as trained": lambda clf, X: clf,
    "frozen": lambda clf, X: clf.remove_concepts(["sea", "forest"], mode="impute"),
    "rescaled, then frozen": lambda clf, X: clf.remove_concepts("crest", recalibrate=X).remove_concepts(
        "sea", mode="impute", nodes=1
    ),
    "canonical": lambda clf, X: clf.remove_concepts("webbed feet", mode="canonical", recalibrate=X),
}
BASELINES = ["zero", "mean"]
close = {"rtol": 0, "atol": 1e-10}
pytestmark = pytest.mark.filterwarnings("ignore::choqolate.errors.SmallRemainderWarning")


@pytest.fixture(scope="module")
def birds():
    return bird_scores(200)


@pytest.fixture(scope="module")
def trained(birds):
    X, y, _ = birds
    return {
        name: cq.ChoqolateClassifier(**{"n_nodes": 4, "epochs": 15} | form).fit(X, y) for name, form in FORMS.items()
    }


@pytest.fixture(scope="module")
def three_classes():
    """A model of three classes over five concepts, and its scores, which run from 0 to 1 already."""
    rng = np.random.default_rng(3)
    X = rng.random((120, 5))
    X[0], X[1] = 0.0, 1.0
    y = np.array(["gull", "owl", "wren"])[X[:, :3].argmax(1)]
    return cq.ChoqolateClassifier(n_nodes=4, epochs=15, temperature=0.02).fit(X, y), X


def unscaled(clf, z) -> pd.DataFrame:
    """Raw scores whose scaled ones are z, as a frame with the model's names."""
    z = np.atleast_2d(z)
    return pd.DataFrame(clf.score_min_ + z * (clf.score_max_ - clf.score_min_), columns=clf.concepts_)


def baseline_of(clf, baseline: str) -> np.ndarray:
    return np.zeros(len(clf.concepts_)) if baseline == "zero" else clf.concept_means_


def all_subsets(n_players: int) -> np.ndarray:
    """Membership of each of the 2^K sets, ``(2^K, K)``; set number s holds the bits of s."""
    return (np.arange(2**n_players)[:, None] >> np.arange(n_players) & 1).astype(bool)


def shapley_by_enumeration(values: np.ndarray, n_players: int) -> np.ndarray:
    """Shapley values ``(K, ...)`` by their definition, from the value of each of the 2^K sets."""
    sizes = all_subsets(n_players).sum(1)
    sets = np.arange(2**n_players)
    shares = []
    for player in range(n_players):
        without = sets[(sets >> player & 1) == 0]
        weights = np.array(
            [math.factorial(s) * math.factorial(n_players - s - 1) for s in sizes[without]]
        ) / math.factorial(n_players)
        shares.append(np.tensordot(weights, values[without | 1 << player] - values[without], 1))
    return np.array(shares)


def shapley_by_shapiq(game, n_players: int) -> list[float]:
    exact = shapiq.ExactComputer(game=game, n_players=n_players)(index="SV", order=1)
    return [exact[(j,)] for j in range(n_players)]


def dense_weights(theta: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """a, b and c of pairwise integrals from their parameters: a on the diagonal, b above it, c below."""
    w = theta.double().flatten(1).softmax(1).view(theta.shape)
    j, l = torch.triu_indices(theta.shape[1], theta.shape[1], 1)
    return w.diagonal(dim1=1, dim2=2), w[:, j, l], w[:, l, j]


def factored_weights(parameters) -> tuple[torch.Tensor, ...]:
    """a, b and c of factored integrals, every pair written out."""
    m, a, p, q = (parameters[f"nodes.theta_{part}"].double().softmax(-1) for part in "mapq")
    rank = p.shape[1]
    products = p[:, :, :, None] * q[:, :, None, :]  # (N, R, M, M)
    low = (m[:, 1 : rank + 1, None, None] * products).sum(1)
    high = (m[:, rank + 1 :, None, None] * products).sum(1)
    j, l = torch.triu_indices(a.shape[1], a.shape[1], 1)
    singles = m[:, :1] * a + (low + high).diagonal(dim1=1, dim2=2)
    return singles, low[:, j, l] + low[:, l, j], high[:, j, l] + high[:, l, j]


def assert_sums(attribution: Attribution) -> None:
    np.testing.assert_allclose(attribution.values.sum(1), attribution.end - attribution.start, **close)
    assert np.isfinite(attribution.values).all()


# ---------------------------------------------------------------- sum rules


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("form", FORMS)
def test_everything_sums_to_the_change_it_explains(trained, birds, form, edit, baseline):
    X, _, _ = birds
    clf = EDITS[edit](trained[form], X)
    why = clf.explain(X[:30], baseline=baseline)
    start = unscaled(clf, baseline_of(clf, baseline))
    values, scores = clf.transform(X[:30]), clf.class_scores(X[:30])
    np.testing.assert_allclose(why.node_values, values, **close)
    np.testing.assert_allclose(why.node_baseline, clf.transform(start)[0], **close)
    np.testing.assert_allclose(why.class_scores + why.class_shift, scores, **close)
    np.testing.assert_allclose(why.class_baseline + why.class_shift, clf.class_scores(start)[0], **close)
    np.testing.assert_allclose(why.concept_to_node.sum(2), values - why.node_baseline, **close)
    np.testing.assert_allclose(why.node_to_class.sum(2), scores - clf.class_scores(start), **close)
    np.testing.assert_allclose(why.concept_to_class.sum(2), scores - clf.class_scores(start), **close)
    for by in ("concepts", "nodes"):
        for attribution in (why.for_class(by=by), why.for_class("landbird", by=by), why.contrast(by=by)):
            assert_sums(attribution)
    for node in range(len(why.nodes)):
        assert_sums(why.for_node(node))


@pytest.mark.parametrize("edit", ["as trained", "rescaled, then frozen"])
def test_the_parts_are_parts_of_the_whole(trained, birds, edit):
    X, _, _ = birds
    clf = EDITS[edit](trained["pairwise"], X)
    why = clf.explain(X[:20], baseline="mean")
    rows = np.arange(20)
    said = np.array([list(clf.classes_).index(label) for label in clf.predict(X[:20])])
    mine = why.for_class()
    np.testing.assert_allclose(mine.values, why.concept_to_class[rows, said], **close)
    np.testing.assert_allclose(mine.end, clf.class_scores(X[:20])[rows, said], **close)
    np.testing.assert_allclose(why.for_class(by="nodes").values, why.node_to_class[rows, said], **close)
    np.testing.assert_allclose(why.for_class("waterbird").values, why.concept_to_class[:, 1], **close)
    np.testing.assert_array_equal(why.for_node(2).values, why.concept_to_node[:, 2])
    np.testing.assert_array_equal(why.for_node(2).levels, why.inputs)
    np.testing.assert_array_equal(why.for_class(by="nodes").levels, why.node_values)
    assert why.for_class(by="nodes").names == why.nodes == clf.node_names_
    assert mine.names == why.concepts == tuple(CONCEPTS)
    assert mine.subjects == tuple(f"score of {label}" for label in clf.predict(X[:20]))


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("edited", [False, True])
def test_of_linear_layers_everything_is_a_product(birds, edited, baseline):
    X, y, _ = birds
    linear = LinearBottleneck(n_nodes=3, epochs=10).fit(X, y)
    linear = linear.remove_concepts("sea") if edited else linear
    why = linear.explain(X[:20], baseline=baseline)
    start = baseline_of(linear, baseline)
    W, V = linear.node_attributions_, linear.class_attributions_
    np.testing.assert_allclose(why.concept_to_node, W * (why.inputs - start)[:, None], **close)
    np.testing.assert_allclose(why.concept_to_class, (V @ W) * (why.inputs - start)[:, None], **close)
    np.testing.assert_allclose(why.class_scores, linear.class_scores(X[:20]), **close)
    np.testing.assert_allclose(why.class_baseline, linear.class_scores(unscaled(linear, start))[0], **close)
    assert why.predicted == tuple(linear.predict(X[:20]))
    for attribution in (why.for_class(), why.contrast(), why.for_class("landbird", by="nodes"), why.for_node(1)):
        assert_sums(attribution)


def test_a_thousand_images_and_many_concepts_at_once():
    rng = np.random.default_rng(0)
    X, y = rng.random((1000, 226)), rng.integers(0, 2, 1000)
    clf = cq.ChoqolateClassifier(n_nodes=3, epochs=1).fit(X[:100], y[:100])
    why = clf.explain(X, baseline="mean")
    assert why.concept_to_node.shape == (1000, 3, 226)
    assert why.node_to_class.shape == (1000, 2, 3)
    assert why.concept_to_class.shape == (1000, 2, 226)
    np.testing.assert_allclose(why.concept_to_node.sum(2), why.node_values - why.node_baseline, **close)
    np.testing.assert_allclose(why.concept_to_class.sum(2), why.class_scores - why.class_baseline, **close)
    assert_sums(why.contrast())


# ---------------------------------------------------------------- each layer is exact


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("form", FORMS)
def test_concepts_of_a_node_have_their_shapley_values(trained, birds, form, edit, baseline):
    """By definition, on the model's own outputs; with ``bipolar`` a concept and its absence are one player.

    The game has interactions of two at most, so two players that join have the sum of their values.
    """
    X, _, _ = birds
    clf = EDITS[edit](trained[form], X)
    why = clf.explain(X[:3], baseline=baseline)
    n_concepts = len(CONCEPTS)
    for row in range(3):
        mixed = np.where(all_subsets(n_concepts), why.inputs[row, :n_concepts], baseline_of(clf, baseline))
        expected = shapley_by_enumeration(clf.transform(unscaled(clf, mixed)), n_concepts).T
        found = why.concept_to_node[row]
        if clf.bipolar:
            found = found[:, :n_concepts] + found[:, n_concepts:]
        np.testing.assert_allclose(found, expected, **close)
        for node in range(len(expected)):
            np.testing.assert_allclose(why.for_node(node).values[row], expected[node], **close)


@pytest.mark.parametrize(
    "by_rows", [lambda why: why.for_class(), lambda why: why.contrast(), lambda why: why.for_node(1)]
)
def test_a_concept_has_one_line_whether_present_or_absent(trained, birds, by_rows):
    X, _, _ = birds
    clf = trained["bipolar"]
    why = clf.explain(X[:5], baseline="mean")
    assert why.concepts == tuple(clf.input_names_)
    assert "6 concepts" in repr(why)
    found = by_rows(why)
    assert found.names == tuple(CONCEPTS)
    assert {share.name for share in found.leading(0, 100)} == set(CONCEPTS)
    np.testing.assert_allclose(found.levels, clf.scale(X[:5]), **close)
    np.testing.assert_allclose(found.values.sum(1), found.end - found.start, **close)


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("form", ["pairwise", "factored", "bipolar", "bipolar factored"])
def test_inputs_of_a_node_have_the_shapley_values_of_shapiq(trained, birds, form, baseline):
    X, _, _ = birds
    clf = trained[form]
    if clf.bipolar:
        few = X[["webbed feet", "sea", "crest"]]
        clf = cq.ChoqolateClassifier(**{"n_nodes": 4, "epochs": 15} | FORMS[form]).fit(few, birds[1])
        X = few
    weights = factored_weights(clf.parameters_) if "factored" in form else dense_weights(clf.parameters_["nodes.theta"])
    why = clf.explain(X[:2], baseline=baseline)
    start = baseline_of(clf, baseline)
    start = np.concatenate([start, 1 - start]) if clf.bipolar else start
    for row in range(2):
        for node in range(4):

            def game(coalitions, row=row, node=node):
                mixed = np.where(np.asarray(coalitions, dtype=bool), why.inputs[row], start)
                return cq.choquet(torch.from_numpy(mixed), *(w[node] for w in weights)).numpy()

            expected = shapley_by_shapiq(game, len(start))
            np.testing.assert_allclose(why.concept_to_node[row, node], expected, atol=1e-9)


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("edit", ["as trained", "rescaled, then frozen"])
@pytest.mark.parametrize("form", ["pairwise", "factored", "bipolar"])
def test_nodes_of_a_class_have_their_shapley_values(trained, birds, form, edit, baseline):
    X, _, _ = birds
    clf = EDITS[edit](trained[form], X)
    weights = dense_weights(clf.parameters_["classes.theta"])
    why = clf.explain(X[:3], baseline=baseline)
    at = clf.transform(X[:3])
    start = clf.transform(unscaled(clf, baseline_of(clf, baseline)))[0]

    def class_scores(nodes):
        return cq.choquet(torch.from_numpy(nodes), *weights).numpy()

    for row in range(3):
        expected = shapley_by_enumeration(class_scores(np.where(all_subsets(4), at[row], start)), 4).T
        np.testing.assert_allclose(why.node_to_class[row], expected, **close)
    for r in range(2):

        def game(coalitions, r=r):
            return class_scores(np.where(np.asarray(coalitions, dtype=bool), at[0], start))[:, r]

        np.testing.assert_allclose(why.node_to_class[0, r], shapley_by_shapiq(game, 4), atol=1e-9)


def shapley_of_both_layers(clf, X, row: int) -> np.ndarray:
    z = clf.explain(X).inputs[row]
    scores = clf.class_scores(unscaled(clf, np.where(all_subsets(len(z)), z, 0.0)))
    return shapley_by_enumeration(scores, len(z)).T


def test_the_chain_is_not_the_shapley_value_of_both_layers(trained, birds):
    X, _, _ = birds
    chain = trained["pairwise"].explain(X[:5]).concept_to_class
    composed = np.stack([shapley_of_both_layers(trained["pairwise"], X[:5], row) for row in range(5)])
    np.testing.assert_allclose(chain.sum(2), composed.sum(2), **close)
    assert np.abs(chain - composed).max() > 1e-3


@pytest.mark.parametrize("form", ["none", "one layer"])
def test_the_chain_is_the_shapley_value_where_there_is_one_layer_or_no_interaction(trained, birds, form):
    X, _, _ = birds
    chain = trained[form].explain(X[:3]).concept_to_class
    for row in range(3):
        np.testing.assert_allclose(chain[row], shapley_of_both_layers(trained[form], X[:3], row), **close)


def test_what_is_removed_contributes_nothing(trained, birds):
    X, _, _ = birds
    for edit, gone in [("frozen", [4, 5]), ("canonical", [0])]:
        why = EDITS[edit](trained["factored"], X).explain(X[:10])
        assert (why.concept_to_node[:, :, gone] == 0).all()
        assert (why.for_class().values[:, gone] == 0).all()
        assert not {CONCEPTS[j] for j in gone} & {share.name for share in why.for_class().leading()}


# ---------------------------------------------------------------- nodes that stand still


@pytest.mark.parametrize("form", FORMS)
def test_the_mean_image_against_the_mean(trained, birds, form):
    X, _, _ = birds
    for edit in ("as trained", "frozen"):
        clf = EDITS[edit](trained[form], X)
        why = clf.explain(unscaled(clf, clf.concept_means_), baseline="mean")
        for attribution in (why.for_class(), why.contrast(), why.for_class(by="nodes"), why.for_node(0)):
            assert_sums(attribution)
            np.testing.assert_allclose(attribution.values, 0, **close)
        np.testing.assert_allclose(why.concept_to_class, 0, **close)


def test_the_darkest_image_against_zero(trained):
    why = trained["pairwise"].explain(unscaled(trained["pairwise"], np.zeros(6)))
    assert (why.concept_to_class == 0).all()
    assert why.for_class().leading() == why.for_node(1).leading() == []


def test_a_node_whose_concepts_cancel_out_passes_nothing_on():
    X = np.array([[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5], [0.2, 0.8, 0.5], [0.8, 0.2, 0.5]])
    clf = cq.ChoqolateClassifier(n_nodes=2, interactions="none", epochs=1, dtype="float64").fit(X, [0, 1, 0, 1, 0])
    half = torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]], dtype=torch.float64).log()
    set_parameters(clf, {"nodes.theta": half, "classes.theta": torch.zeros(2, 2, dtype=torch.float64)})
    why = clf.explain([[0.75, 0.25, 0.75]], baseline="mean")
    np.testing.assert_allclose(why.concept_to_node[0], [[0.125, -0.125, 0], [0.0625, -0.0625, 0.125]], **close)
    np.testing.assert_allclose(why.node_to_class[0], [[0, 0.0625]] * 2, **close)
    np.testing.assert_allclose(why.concept_to_class[0], [[0.03125, -0.03125, 0.0625]] * 2, **close)


# ---------------------------------------------------------------- one class rather than another


def test_a_contrast_is_the_difference_of_two_classes(three_classes):
    clf, X = three_classes
    why = clf.explain(X[:20], baseline="mean")
    for by in ("concepts", "nodes"):
        one, two, both = why.for_class("gull", by=by), why.for_class("wren", by=by), why.contrast("gull", "wren", by=by)
        for part in ("values", "start", "end"):
            np.testing.assert_allclose(getattr(both, part), getattr(one, part) - getattr(two, part), **close)
        assert both.names == one.names
        np.testing.assert_array_equal(both.levels, one.levels)
    assert set(why.contrast("gull", "wren").subjects) == {"gull rather than wren"}


def test_by_default_the_predicted_class_and_the_runner_up(three_classes):
    clf, X = three_classes
    edited = clf.remove_concepts("x0", recalibrate=X)
    assert edited.class_shift_.any()
    why = edited.explain(X[:40])
    order = np.argsort(-edited.class_scores(X[:40]), axis=1)
    first, second = (edited.classes_[order[:, k]] for k in (0, 1))
    assert len(set(first)) == 3
    contrast = why.contrast()
    assert contrast.subjects == tuple(f"{a} rather than {b}" for a, b in zip(first, second, strict=True))
    assert (contrast.end >= 0).all()
    for row in range(40):
        alone = why.take(row).contrast(first[row], second[row])
        np.testing.assert_allclose(contrast.values[row], alone.values[0], **close)
        assert contrast.end[row] == pytest.approx(alone.end[0], abs=1e-12)


def test_one_class_given_is_compared_with_the_best_other(three_classes):
    clf, X = three_classes
    why = clf.explain(X[:40])
    names = [str(label) for label in clf.classes_]
    predicted = clf.predict(X[:40])
    scores = clf.class_scores(X[:40])
    best_but_owl = [names[r] for r in np.where(np.array(names) == "owl", -np.inf, scores).argmax(1)]
    assert {"owl"} < set(predicted)
    assert why.contrast("owl").subjects == tuple(f"owl rather than {name}" for name in best_but_owl)
    assert why.contrast(other="owl").subjects == tuple(f"{name} rather than owl" for name in best_but_owl)


def test_classes_that_are_numbers_are_found_by_number_and_name(birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(n_nodes=3, epochs=2).fit(X, (y == "waterbird").astype(int) + 7)
    why = clf.explain(X[:5])
    assert why.classes == (7, 8)
    np.testing.assert_array_equal(why.for_class(8).values, why.for_class("8").values)
    np.testing.assert_allclose(why.for_class(np.int64(8)).values, why.concept_to_class[:, 1], **close)


def test_mistakes_are_named(three_classes):
    clf, X = three_classes
    why = clf.explain(X[:3])
    for call, message in [
        (lambda: why.for_class("eagle"), "one of the classes 'gull', 'owl', 'wren', got 'eagle'"),
        (lambda: why.contrast("gull", "eagle"), "got 'eagle'"),
        (lambda: why.contrast("gull", "gull"), "two different classes to compare, got 'gull' twice"),
        (lambda: why.for_class(by="pixels"), "one of concepts, nodes, got 'pixels'"),
        (lambda: why.contrast(by="pixels"), "one of concepts, nodes, got 'pixels'"),
        (lambda: why.for_node(4), "a node from 0 to 3, got 4"),
        (lambda: why.for_node(-1), "a node from 0 to 3, got -1"),
        (lambda: clf.explain(X[:3], baseline="one"), "one of zero, mean, got 'one'"),
    ]:
        with pytest.raises(cq.ChoqolateError, match=message):
            call()


# ---------------------------------------------------------------- handling


@pytest.mark.parametrize("edit", EDITS)
def test_predicted_is_what_the_model_predicts(trained, birds, edit):
    X, _, _ = birds
    for form in FORMS:
        clf = EDITS[edit](trained[form], X)
        assert list(clf.explain(X).predicted) == list(clf.predict(X))


def test_a_tie_goes_to_the_class_that_predict_names(three_classes):
    clf, X = three_classes
    tied = copy.copy(clf)
    parameters = dict(clf.parameters_)
    parameters["classes.theta"] = torch.zeros_like(parameters["classes.theta"])
    set_parameters(tied, parameters)
    why = tied.explain(X[:4])
    assert list(why.predicted) == list(tied.predict(X[:4])) == ["gull"] * 4
    assert set(why.contrast().subjects) == {"gull rather than owl"}
    np.testing.assert_allclose(why.contrast().values, 0, **close)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (2, [2]),
        (np.int64(-1), [9]),
        (slice(3, 8, 2), [3, 5, 7]),
        ([4, 0], [4, 0]),
        (np.arange(10) > 7, [8, 9]),
        ([], []),
    ],
)
def test_taking_some_of_the_inputs(three_classes, rows, expected):
    clf, X = three_classes
    why = clf.explain(X[:10], baseline="mean")
    assert len(why.contrast()) == len(why) == 10  # cached, and not to be carried over
    taken, alone = why.take(rows), X[:10][expected]
    assert len(taken) == len(expected)
    np.testing.assert_array_equal(taken.inputs, alone)
    assert taken.baseline == "mean"
    if expected:
        assert taken.predicted == tuple(clf.predict(alone))
        np.testing.assert_allclose(
            taken.concept_to_class, clf.explain(alone, baseline="mean").concept_to_class, **close
        )
        np.testing.assert_array_equal(taken.contrast().values, why.contrast().values[expected])


def test_representations_are_short(three_classes):
    clf, X = three_classes
    why = clf.explain(X[:10], baseline="mean")
    assert repr(why) == "LocalExplanation(10 inputs; 5 concepts, 4 nodes, 3 classes; baseline mean)"
    said = clf.predict(X[:1])[0]
    one = f"LocalExplanation(1 input, predicted '{said}'; 5 concepts, 4 nodes, 3 classes; baseline mean)"
    assert repr(why.take(0)) == one
    assert repr(why.for_class()) == "Attribution(10 inputs, 5 names)"
    start, end = clf.class_scores(clf.concept_means_[None])[0, 1], clf.class_scores(X[:1])[0, 1]
    expected = f"Attribution(1 input, 5 names, score of owl: {start:.3f} -> {end:.3f})"
    assert repr(why.take(0).for_class("owl")) == expected


def test_leading_contributions_come_by_size(three_classes):
    clf, X = three_classes
    contrast = clf.explain(X[:10], baseline="mean").contrast()
    for row in (0, 7):
        shares = contrast.leading(row, most=3)
        order = sorted(range(5), key=lambda j: -abs(contrast.values[row, j]))[:3]
        assert [share.name for share in shares] == [contrast.names[j] for j in order]
        values = [(contrast.names[j], contrast.values[row, j], contrast.levels[row, j]) for j in order]
        assert [tuple(share) for share in shares] == values
    assert len(contrast.leading(7)) == 5


def test_leading_leaves_out_zeros_and_keeps_the_order_of_equals():
    shares = Attribution(
        values=np.array([[0.0, -0.2, 0.2, 0.5]]),
        start=np.zeros(1),
        end=np.full(1, 0.5),
        levels=np.array([[0.1, 0.2, 0.3, 0.4]]),
        names=("a", "b", "c", "d"),
        subjects=("score",),
    ).leading()
    assert [tuple(share) for share in shares] == [("d", 0.5, 0.4), ("b", -0.2, 0.2), ("c", 0.2, 0.3)]


def test_explaining_leaves_the_model_alone(trained, birds):
    X, _, _ = birds
    clf = EDITS["frozen"](trained["factored"], X)
    before = clf.class_scores(X), astuple(clf.explain(X[:4]))
    clf.explain(X, baseline="mean")
    np.testing.assert_array_equal(clf.class_scores(X), before[0])
    for then, now in zip(before[1], astuple(clf.explain(X[:4])), strict=True):
        np.testing.assert_array_equal(np.asarray(then), np.asarray(now))


def test_thousands_of_factored_concepts_need_no_square_of_memory():
    """In a process with six gigabytes: a matrix of all pairs alone would take more."""
    script = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
import numpy as np, choqolate as cq
rng = np.random.default_rng(0)
X, y = rng.random((20, 8_000)), np.arange(20) % 2
clf = cq.ChoqolateClassifier(n_nodes=4, interactions="factored", rank=2, epochs=1, device="cpu").fit(X, y)
why = clf.explain(X[:2])
print(np.abs(why.concept_to_node.sum(2) - why.node_values + why.node_baseline).max() < 1e-6)
print(len(cq.explain_model(clf).interactions))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "4"], done.stderr
