from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import choqolate as cq
from choqolate.baselines.linear import LinearBottleneck
from choqolate.explain import Interaction, explain_model, name_nodes
from choqolate.explain.node_stability import NodeStability
from choqolate.integral.layer import raw_shapes
from tests.networks import set_parameters
from tests.small_tables import CONCEPTS, bird_scores

MANY = 150  # more than twice the concepts whose pairs are looked at first


@pytest.fixture(scope="module")
def birds():
    return bird_scores(200)


@pytest.fixture(scope="module")
def clf(birds):
    X, y, _ = birds
    return cq.ChoqolateClassifier(n_nodes=4, epochs=15, temperature=0.05).fit(X, y)


def with_parameters(clf, **parameters):
    """A copy of the model with other parameters of its first layer."""
    other = copy.copy(clf)
    set_parameters(other, {**clf.parameters_, **{f"nodes.{name}": theta for name, theta in parameters.items()}})
    return other


def drawn_parameters(
    seed: int, spread: float, interactions: str, n_inputs: int = MANY, n_nodes: int = 2, rank: int = 2
):
    generator = torch.Generator().manual_seed(seed)
    shapes = raw_shapes(n_inputs, n_nodes, interactions, rank)
    return {name: spread * torch.randn(shape, generator=generator).double() for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def many():
    """Models of 150 concepts, to be given other parameters."""
    rng = np.random.default_rng(0)
    X = rng.random((20, MANY))
    return {
        form: cq.ChoqolateClassifier(n_nodes=2, epochs=1, interactions=form, rank=2).fit(X, np.arange(20) % 2)
        for form in ("pairwise", "factored")
    }


def pair_weights(clf) -> tuple[torch.Tensor, torch.Tensor]:
    """b and c of every pair of inputs, from the parameters, pairs in the order of ``torch.triu_indices``."""
    raw = {name: theta.double() for name, theta in clf.parameters_.items()}
    if clf.interactions == "pairwise":
        theta = raw["nodes.theta"]
        w = theta.flatten(1).softmax(1).view(theta.shape)
        j, l = torch.triu_indices(w.shape[1], w.shape[1], 1)
        return w[:, j, l], w[:, l, j]
    m, p, q = (raw[f"nodes.theta_{part}"].softmax(-1) for part in "mpq")
    rank = p.shape[1]
    low, high = (torch.einsum("nr,nrj,nrl->njl", mixture, p, q) for mixture in (m[:, 1 : rank + 1], m[:, rank + 1 :]))
    j, l = torch.triu_indices(p.shape[2], p.shape[2], 1)
    return low[:, j, l] + low[:, l, j], high[:, j, l] + high[:, l, j]


def assert_strongest(found, clf, most: int) -> None:
    """The pairs found are the strongest of a full enumeration."""
    index = cq.interaction_indices(*pair_weights(clf)).numpy()
    names, pairs = clf.input_names_, torch.triu_indices(len(clf.input_names_), len(clf.input_names_), 1).T.tolist()
    for node, interactions in enumerate(found):
        order = np.argsort(-np.abs(index[node]))[:most]
        assert len(interactions) == len(order)
        expected = {(names[pairs[k][0]], names[pairs[k][1]]): index[node, k] for k in order}
        assert {(pair.first, pair.second) for pair in interactions} == set(expected)
        for pair in interactions:
            assert pair.index == pytest.approx(expected[pair.first, pair.second], rel=1e-9)
        sizes = [abs(pair.index) for pair in interactions]
        assert sizes == sorted(sizes, reverse=True)


# ---------------------------------------------------------------- what the model holds


@pytest.mark.parametrize("edited", [False, True])
def test_attributions_are_the_classifiers(clf, birds, edited):
    X, _, _ = birds
    model = clf.remove_concepts("sea", recalibrate=X) if edited else clf
    whole = explain_model(model)
    np.testing.assert_array_equal(whole.node_attributions, model.node_attributions_)
    np.testing.assert_array_equal(whole.class_attributions, model.class_attributions_)
    np.testing.assert_allclose(whole.concept_to_class, model.class_attributions_ @ model.node_attributions_)
    np.testing.assert_allclose(whole.concept_to_class.sum(1), 1)
    np.testing.assert_allclose(whole.gini, cq.metrics.attribution_gini(model.node_attributions_))
    assert whole.concepts == tuple(CONCEPTS)
    assert whole.classes == ("landbird", "waterbird")
    assert whole.nodes == model.node_names_ == name_nodes(model.node_attributions_, CONCEPTS)
    assert not whole.one_layer
    assert whole.history is None
    assert whole.spurious == ()


def test_leading_concepts_come_by_size(clf):
    whole = explain_model(clf.remove_concepts("sea"))
    for node in range(4):
        values = whole.node_attributions[node]
        order = sorted(range(6), key=lambda j: -values[j])
        assert whole.leading(node) == [(CONCEPTS[j], values[j]) for j in order if CONCEPTS[j] != "sea"]
        assert whole.leading(node, most=2) == whole.leading(node)[:2]


def test_one_layer_has_the_classes_for_nodes(birds):
    X, y, _ = birds
    model = cq.ChoqolateClassifier(n_nodes=None, epochs=5).fit(X, (y == "waterbird").astype(int))
    whole = explain_model(model, X)
    assert whole.one_layer
    assert whole.nodes == whole.classes == ("0", "1")
    np.testing.assert_array_equal(whole.class_attributions, np.eye(2))
    np.testing.assert_array_equal(whole.concept_to_class, model.node_attributions_)
    assert len(whole.interactions[0]) == 15
    assert whole.node_interactions == ((), ())


def test_history_is_passed_on(birds):
    X, y, _ = birds
    model = cq.ChoqolateClassifier(n_nodes=3, epochs=4, track=True).fit(X, y)
    history = explain_model(model).history
    assert history.shape == (4, 3, 6)
    np.testing.assert_allclose(history[-1], model.node_attributions_, atol=1e-5)


def test_representation_is_short(clf):
    whole = explain_model(clf)
    expected = f"ModelExplanation(6 concepts, 4 nodes, 2 classes; nodes: {' | '.join(clf.node_names_)})"
    assert repr(whole) == expected


def test_mistakes_are_named(clf, birds):
    X, _, _ = birds
    with pytest.raises(NotFittedError):
        explain_model(cq.ChoqolateClassifier())
    with pytest.raises(cq.ChoqolateError, match="got 'see': did you mean 'sea'"):
        explain_model(clf, spurious=["see"])
    with pytest.raises(cq.ChoqolateError, match="most to be a whole number of at least 0, got -1"):
        explain_model(clf, X, most=-1)


# ---------------------------------------------------------------- names


def test_a_node_is_named_by_its_leading_concepts(clf):
    W = clf.node_attributions_
    for name, row in zip(explain_model(clf).nodes, W, strict=True):
        words = name.removesuffix(" (2)").split(", ")
        assert words == [CONCEPTS[j] for j in np.argsort(-row, kind="stable")[: len(words)]]


@pytest.mark.parametrize(
    ("attributions", "names"),
    [
        ([[0.7, 0.2, 0.1, 0.0]], ("a",)),
        ([[0.4, 0.2, 0.2, 0.2]], ("a, b, c",)),  # half of the leading share is enough, three are the most
        ([[0.4, 0.19, 0.21, 0.2]], ("a, c, d",)),
        ([[0.25, 0.25, 0.25, 0.25]], ("a, b, c",)),  # ties: in the order of the concepts
        ([[0.0, 0.5, 0.0, 0.5]], ("b, d",)),
        ([[0.1, -0.8, 0.1, 0.0]], ("b",)),  # weights of baselines: their size counts
        ([[0.8, 0.2, 0.0, 0.0], [0.8, 0.0, 0.2, 0.0]], ("a, b", "a, c")),  # of one name: one more concept each
        ([[0.8, 0.2, 0.0, 0.0], [0.9, 0.1, 0.0, 0.0]], ("a, b", "a, b (2)")),  # and still
        ([[1.0, 0.0, 0.0, 0.0]] * 3, ("a", "a (2)", "a (3)")),  # nothing to add
        ([[0.0] * 4, [0.0, 1.0, 0.0, 0.0], [0.0] * 4], ("nothing", "b", "nothing (2)")),
        ([[0.8, 0.2, 0.0, 0.0], [0.8, 0.0, 0.2, 0.0], [0.5, 0.5, 0.0, 0.0]], ("a, b", "a, c", "a, b (2)")),
    ],
)
def test_names(attributions, names):
    assert name_nodes(np.array(attributions), ["a", "b", "c", "d"]) == names


@given(st.integers(0, 100_000), st.integers(1, 5), st.integers(1, 6))
def test_names_are_distinct(seed, n_concepts, n_nodes):
    rng = np.random.default_rng(seed)
    attributions = rng.integers(-2, 3, (n_nodes, n_concepts)) * rng.integers(0, 2, (n_nodes, 1))
    concepts = [f"concept {j}" for j in range(n_concepts)]
    names = name_nodes(attributions, concepts)
    assert len(set(names)) == len(names) == n_nodes
    for name, row in zip(names, np.abs(attributions), strict=True):
        assert name.startswith("nothing" if not row.any() else concepts[int(row.argmax())])


def test_names_are_distinct_where_a_concept_ends_with_a_number():
    names = name_nodes(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), ["crest", "crest (2)"])
    assert len(set(names)) == 3


# ---------------------------------------------------------------- interactions


@pytest.mark.parametrize("most", [1, 20, 300])
@pytest.mark.parametrize("spread", [0.001, 1.0, 4.0])  # from flat, where every pair must be looked at, to a few peaks
@pytest.mark.parametrize("form", ["pairwise", "factored"])
def test_the_strongest_pairs_are_those_of_a_full_enumeration(many, form, spread, most):
    model = with_parameters(many[form], **drawn_parameters(3, spread, form))
    assert_strongest(explain_model(model, most=most).interactions, model, most)


def test_strong_pairs_of_weak_concepts_are_found(many):
    """A hundred concepts count most and interact little; what interacts is behind them."""
    theta = torch.full((2, MANY, MANY), -9.0).double() + drawn_parameters(0, 0.1, "pairwise")["theta"]
    leading = torch.arange(100)
    theta[:, leading, leading] = 4.0
    theta[:, 140, 141] = 2.0  # b of (140, 141), the largest index though below every leading share
    theta[:, 149, 120] = 1.5  # c of (120, 149)
    model = with_parameters(many["pairwise"], theta=theta)
    assert np.sort(model.node_attributions_[0])[-100:].min() > model.node_attributions_[0, 140]
    found = explain_model(model, most=5).interactions
    assert_strongest(found, model, 5)
    for first, second, *_ in found:
        assert (first.first, first.second, first.kind) == ("x140", "x141", "complement")
        assert (second.first, second.second, second.kind) == ("x120", "x149", "substitute")


def test_fewer_pairs_than_asked_for(clf):
    found = explain_model(clf, most=100).interactions
    assert [len(node) for node in found] == [15] * 4
    assert_strongest(found, clf, 100)


def test_no_pairs_at_all_can_be_asked_for(clf):
    assert explain_model(clf, most=0).interactions == ((),) * 4


def test_pairs_of_nodes(birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(n_nodes=4, epochs=15, temperature=0.05).fit(X, y)
    theta = clf.parameters_["classes.theta"].double()
    w = theta.flatten(1).softmax(1).view(theta.shape)
    whole = explain_model(clf)
    for r, found in enumerate(whole.node_interactions):
        expected = {
            (whole.nodes[j], whole.nodes[l]): float(w[r, j, l] - w[r, l, j]) for j in range(4) for l in range(j + 1, 4)
        }
        assert {(pair.first, pair.second): pair.index for pair in found} == pytest.approx(expected)


def two_concept_model(b: float, c: float):
    """A node that is b min(x0, x1) + c max(x0, x1), and a third concept that it hardly reads."""
    X = np.array([[0.0, 0, 0], [1, 1, 1], [0.3, 0.6, 0.2], [0.6, 0.3, 0.9]])
    clf = cq.ChoqolateClassifier(n_nodes=2, epochs=1, dtype="float64").fit(X, [0, 1, 0, 1])
    w = torch.full((2, 3, 3), 1e-12).double()
    w[:, 0, 1], w[:, 1, 0] = b, c
    return with_parameters(clf, theta=w.log())


@pytest.mark.parametrize(("b", "c", "kind"), [(0.9, 0.1, "complement"), (0.2, 0.8, "substitute")])
def test_the_sign_says_whether_it_takes_both_or_one(b, c, kind):
    clf = two_concept_model(b, c)
    none, first, second, both = clf.transform([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])[:, 0]
    strongest = explain_model(clf).interactions[0][0]
    assert strongest == Interaction("x0", "x1", pytest.approx(b - c))
    assert strongest.kind == kind
    together = both - first - second + none
    assert strongest.index == pytest.approx(together, abs=1e-9)
    if kind == "complement":
        assert max(first, second) < both / 2
    else:
        assert min(first, second) > both / 2


@pytest.mark.parametrize("mode", ["rescale", "canonical", "impute"])
@pytest.mark.parametrize("form", ["pairwise", "factored"])
def test_removed_concepts_do_not_interact(birds, form, mode):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(n_nodes=3, epochs=10, interactions=form, rank=2).fit(X, y)
    edited = clf.remove_concepts(["sea", "crest"], mode=mode, nodes=[0, 2])
    found = explain_model(edited, most=100).interactions
    names = [{name for pair in node for name in (pair.first, pair.second)} for node in found]
    assert names[1] == set(CONCEPTS)
    assert names[0] == names[2] == set(CONCEPTS) - {"sea", "crest"}
    assert [len(node) for node in found] == [6, 15, 6]
    if mode == "impute":
        b, c = pair_weights(clf)
        j = {name: k for k, name in enumerate(CONCEPTS)}
        pairs = [tuple(pair) for pair in torch.triu_indices(6, 6, 1).T.tolist()]
        for pair in found[0]:
            k = pairs.index((j[pair.first], j[pair.second]))
            assert pair.index == pytest.approx(float(b[0, k] - c[0, k]))


def test_the_strongest_of_many_may_be_frozen(many):
    model = with_parameters(many["pairwise"], **drawn_parameters(5, 2.0, "pairwise"))
    before = explain_model(model, most=10).interactions
    frozen = {before[0][0].first, before[0][1].second}
    after = explain_model(model.remove_concepts(frozen, mode="impute"), most=10).interactions
    everything = explain_model(model, most=MANY**2).interactions
    for node in range(2):
        left = [pair for pair in everything[node] if not {pair.first, pair.second} & frozen][:10]
        assert [(p.first, p.second) for p in after[node]] == [(p.first, p.second) for p in left]


def test_weighted_means_have_no_interactions(birds):
    X, y, _ = birds
    whole = explain_model(cq.ChoqolateClassifier(n_nodes=3, interactions="none", epochs=3).fit(X, y))
    assert whole.interactions == ((), (), ())
    assert whole.node_interactions == ((), ())


def test_free_weights_interact_by_size(birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(n_nodes=2, free_weights=True, temperature=1.0, epochs=5).fit(X, y)
    theta = clf.parameters_["nodes.theta"].double()
    for node, found in enumerate(explain_model(clf, most=4).interactions):
        index = {
            (CONCEPTS[j], CONCEPTS[l]): float(theta[node, j, l] - theta[node, l, j])
            for j in range(6)
            for l in range(j + 1, 6)
        }
        expected = sorted(index.items(), key=lambda item: -abs(item[1]))[:4]
        assert [((p.first, p.second), p.index) for p in found] == expected


# ---------------------------------------------------------------- bipolar, spurious, duplicates


@pytest.fixture(scope="module")
def bipolar(birds):
    X, y, _ = birds
    return cq.ChoqolateClassifier(n_nodes=3, bipolar=True, epochs=15, track=True).fit(X, y)


def test_concepts_have_one_attribution_and_inputs_interact(bipolar):
    whole = explain_model(bipolar, most=1000, spurious=["sea", "crest"])
    inputs = bipolar.node_attributions_
    assert inputs.shape == (3, 12)
    assert whole.concepts == tuple(CONCEPTS)
    assert whole.spurious == ("crest", "sea")
    np.testing.assert_allclose(whole.node_attributions, inputs[:, :6] + inputs[:, 6:], rtol=1e-12)
    np.testing.assert_allclose(whole.absence, inputs[:, 6:] / (inputs[:, :6] + inputs[:, 6:]), rtol=1e-12)
    np.testing.assert_allclose(whole.concept_to_class.sum(1), 1, rtol=1e-12)
    epochs = bipolar.history_["node_attributions"]
    assert epochs.shape == (15, 3, 12)
    np.testing.assert_allclose(whole.history, epochs[:, :, :6] + epochs[:, :, 6:], rtol=1e-6)
    for node in range(3):
        apart = whole.input_attributions(node)
        assert list(apart) == bipolar.input_names_
        np.testing.assert_allclose(list(apart.values()), inputs[node], rtol=1e-12)
    assert {p.second for p in whole.interactions[0]} >= {"not sea", "not crest"}
    assert len(whole.interactions[0]) == 66
    edited = explain_model(bipolar.remove_concepts("sea", mode="impute"), most=1000)
    seen = {name for node in edited.interactions for pair in node for name in (pair.first, pair.second)}
    assert seen == set(bipolar.input_names_) - {"sea", "not sea"}
    assert (edited.absence[:, CONCEPTS.index("sea")] == 0).all()  # nothing is left to have a share of


def bipolar_means(clf, shares):
    """The model with nodes that are weighted means, of the given shares of six concepts and of their absences."""
    w = torch.full((3, 12, 12), 1e-15).double()
    w[:, range(12), range(12)] = torch.tensor(shares).double().clamp(min=1e-15)
    return with_parameters(clf, theta=w.log())


def test_names_lists_and_gini_are_per_concept(bipolar):
    """By hand: of sea, 0.1 is presence and 0.5 absence; of forest, 0.3 and 0.1."""
    sea, forest = [0.0, 0.0, 0.0, 0.0, 0.1, 0.3, 0.0, 0.0, 0.0, 0.0, 0.5, 0.1], np.zeros(12)
    forest[5] = 1.0
    model = bipolar_means(bipolar, [sea, sea[6:] + sea[:6], forest.tolist()])
    whole = explain_model(model, spurious="sea")
    assert whole.leading(0, 2) == [("not sea", pytest.approx(0.6)), ("forest", pytest.approx(0.4))]
    assert whole.leading(1, 2) == [("sea", pytest.approx(0.6)), ("not forest", pytest.approx(0.4))]
    assert whole.leading(2, 1) == [("forest", pytest.approx(1.0))]
    assert whole.nodes == model.node_names_ == ("not sea, forest", "sea, not forest", "forest")
    assert [whole.names_of(["sea"], node) for node in range(3)] == [{"not sea"}, {"sea"}, {"sea"}]
    # sizes 0, 0, 0, 0, 0.4, 0.6 of six concepts: (2i - 7) is 3 for the fifth and 5 for the sixth
    np.testing.assert_allclose(whole.gini, [(3 * 0.4 + 5 * 0.6) / 6] * 2 + [5 / 6], atol=1e-9)


def test_opposite_nodes_are_not_near_duplicates(bipolar):
    present, absent = [0.0] * 4 + [1.0] + [0.0] * 7, [0.0] * 10 + [1.0, 0.0]
    whole = explain_model(bipolar_means(bipolar, [present, absent, present]))
    np.testing.assert_allclose(whole.node_attributions[0], whole.node_attributions[1], atol=1e-9)
    assert [(pair.first, pair.second) for pair in whole.duplicates] == [(0, 2)]


def test_stability_goes_with_the_nodes_it_was_measured_for(clf):
    assert explain_model(clf).stability is None
    marked = copy.copy(clf)
    marked.stability_ = NodeStability(np.array([[1.0, 0.5, 0.0, 1.0]]), np.full((1, 4), 0.9), 3)
    assert explain_model(marked).stability is marked.stability_
    marked.stability_ = NodeStability(np.ones((2, 5)), np.ones((2, 5)))
    with pytest.raises(cq.ChoqolateError, match="Expected stability_ to be of 4 nodes but got 5"):
        explain_model(marked)


def test_spurious_concepts_are_marked_in_the_order_of_the_model(clf):
    assert explain_model(clf, spurious=["forest", "sea"]).spurious == ("sea", "forest")
    marked = copy.copy(clf)
    marked.provenance_ = {"vocabulary": {"spurious": ["sea", "a word that the model does not know"]}}
    assert explain_model(marked).spurious == ("sea",)
    assert explain_model(marked, spurious=["crest"]).spurious == ("crest",)
    assert explain_model(marked, spurious=[]).spurious == ()


def singles_model(clf, shares):
    """The model with nodes that are weighted means, of the given shares of the six concepts."""
    w = torch.full((4, 6, 6), 1e-15).double()
    w[:, range(6), range(6)] = torch.tensor(shares).double().clamp(min=1e-15)
    return with_parameters(clf, theta=w.log())


def test_equal_nodes_are_duplicates(clf, birds):
    X, _, _ = birds
    shares = [[0.9, 0, 0, 0, 0.1, 0], [0, 1, 0, 0, 0, 0], [0.9, 0, 0, 0, 0.1, 0], [0, 0, 0.5, 0.5, 0, 0]]
    model = singles_model(clf, shares)
    (pair,) = explain_model(model).duplicates
    assert pair[:2] == (0, 2)
    assert pair.overlap == pytest.approx(1)
    assert math.isnan(pair.correlation)
    assert len(set(explain_model(model).nodes)) == 4
    (pair,) = explain_model(model, X).duplicates
    assert pair[:2] == (0, 2)
    assert pair.correlation == pytest.approx(1)


def test_different_nodes_are_no_duplicates(clf, birds):
    X, _, _ = birds
    apart = [[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0.3, 0, 0, 0.7, 0, 0]]
    model = singles_model(clf, apart)
    assert explain_model(model).duplicates == explain_model(model, X).duplicates == ()


@pytest.mark.parametrize(("kept", "flagged"), [(0.85, True), (0.75, False)])
def test_overlap_is_the_share_in_common(clf, kept, flagged):
    model = singles_model(
        clf, [[1, 0, 0, 0, 0, 0], [kept, 1 - kept, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1]]
    )
    found = explain_model(model).duplicates
    assert [pair[:2] for pair in found] == ([(0, 1)] if flagged else [])
    if flagged:
        assert found[0].overlap == pytest.approx(kept)


def test_nodes_of_other_concepts_but_the_same_values_are_duplicates(clf, birds):
    X, _, _ = birds
    model = singles_model(clf, np.eye(6)[:4])
    rows = X.assign(**{"long bill": X["webbed feet"]})
    (pair,) = explain_model(model, rows).duplicates
    scaled = model.transform(rows)
    assert pair[:2] == (0, 1)
    assert pair.overlap == pytest.approx(0, abs=1e-9)
    assert pair.correlation == pytest.approx(np.corrcoef(scaled[:, 0], scaled[:, 1])[0, 1])
    assert explain_model(model).duplicates == ()


def test_one_row_or_a_node_that_stands_still_gives_no_correlation(clf, birds):
    X, _, _ = birds
    model = singles_model(clf, np.eye(6)[[0, 0, 1, 2]])
    for rows in (X[:1], X.iloc[[0, 0, 0]]):
        (pair,) = explain_model(model, rows).duplicates
        assert pair[:2] == (0, 1)
        assert math.isnan(pair.correlation)


# ---------------------------------------------------------------- baselines


def test_a_linear_bottleneck_is_explained_too(birds):
    X, y, _ = birds
    linear = LinearBottleneck(n_nodes=3, epochs=10).fit(X, y)
    whole = explain_model(linear, X, spurious=["sea"])
    np.testing.assert_array_equal(whole.node_attributions, linear.node_attributions_)
    np.testing.assert_array_equal(whole.class_attributions, linear.class_attributions_)
    assert (whole.node_attributions < 0).any()
    assert whole.concepts == tuple(CONCEPTS)
    assert whole.spurious == ("sea",)
    assert whole.interactions == ((), (), ())
    assert whole.node_interactions == ((), ())
    assert not whole.one_layer
    assert whole.history is None
    for node in range(3):
        top = CONCEPTS[np.abs(linear.node_attributions_[node]).argmax()]
        assert whole.nodes[node].startswith(top)
        assert whole.leading(node)[0] == (top, linear.node_attributions_[node, CONCEPTS.index(top)])
    assert "sea" not in dict(explain_model(linear.remove_concepts("sea")).leading(0))


def test_equal_nodes_of_a_linear_bottleneck_are_duplicates(birds):
    X, y, _ = birds
    linear = LinearBottleneck(n_nodes=3, epochs=10).fit(X, y)
    linear.node_attributions_[1] = 2 * linear.node_attributions_[0]
    pairs = {pair[:2]: pair for pair in explain_model(linear, X).duplicates}
    assert pairs[0, 1].overlap == pytest.approx(1)
    assert pairs[0, 1].correlation == pytest.approx(1)
