from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import choqolate as cq
from choqolate._util.recalibration import match_shares
from choqolate.integral import FactoredCapacity
from choqolate.network.fitted import FittedNetwork
from choqolate.network.removal import MOST_CANONICAL, WithoutEach
from tests.networks import set_parameters
from tests.small_tables import CONCEPTS, bird_scores

FORMS = [
    {"interactions": "pairwise"},
    {"interactions": "factored", "rank": 2},
    {"interactions": "none"},
    {"n_nodes": None},
    {"bipolar": True},
    {"interactions": "factored", "rank": 2, "bipolar": True},
    {"interactions": "pairwise", "free_weights": True, "temperature": 1.0},
]
MODES = ["rescale", "canonical", "impute"]
pytestmark = pytest.mark.filterwarnings("ignore::choqolate.errors.SmallRemainderWarning")  # expected where it is tested


def name_of(options) -> str:
    return ",".join(f"{k}={v}" for k, v in options.items())


@pytest.fixture(scope="module")
def birds():
    return bird_scores()


@pytest.fixture(scope="module", params=FORMS, ids=name_of)
def fitted(request, birds):
    X, y, _ = birds
    return cq.ChoqolateClassifier(**{"n_nodes": 4, "epochs": 30} | request.param).fit(X, y)


@pytest.mark.parametrize("mode", MODES)
def test_the_edited_model_does_not_see_the_concept(fitted, birds, mode):
    X, _, _ = birds
    edited = fitted.remove_concepts(["sea", "forest"], mode=mode)
    changed = X.assign(sea=X["sea"].sample(frac=1, random_state=0).to_numpy(), forest=X["forest"].max())
    np.testing.assert_allclose(edited.class_scores(changed), edited.class_scores(X), atol=1e-12)
    assert not np.allclose(fitted.class_scores(changed), fitted.class_scores(X), atol=1e-6)
    gone = [index for index, name in enumerate(fitted.input_names_) if name.endswith(("sea", "forest"))]
    assert len(gone) == (4 if fitted.bipolar else 2)
    assert (edited.node_attributions_[:, gone] == 0).all()
    np.testing.assert_allclose(edited.node_attributions_.sum(1), 1)
    if not fitted.free_weights:
        assert edited.transform(X).min() >= 0
        assert edited.transform(X).max() <= 1


@pytest.mark.parametrize("mode", MODES)
def test_the_original_is_untouched_and_everything_can_be_undone(fitted, birds, mode):
    X, _, _ = birds
    before, attributions = fitted.class_scores(X), fitted.node_attributions_.copy()
    edited = fitted.remove_concepts("sea", mode=mode, recalibrate=X).remove_concepts(["crest"], nodes=0)
    np.testing.assert_array_equal(fitted.class_scores(X), before)
    np.testing.assert_array_equal(fitted.node_attributions_, attributions)
    np.testing.assert_array_equal(edited.restore().class_scores(X), before)
    assert edited.restore().removal_ is None
    halfway = edited.restore("crest")
    np.testing.assert_array_equal(
        halfway.class_scores(X), fitted.remove_concepts("sea", mode=mode, recalibrate=X).class_scores(X)
    )
    assert halfway.removal_.concepts == ("sea",)


@pytest.mark.parametrize("mode", MODES)
def test_order_and_grouping_of_removals_do_not_matter(fitted, birds, mode):
    X, _, _ = birds
    at_once = fitted.remove_concepts(["sea", "crest"], mode=mode)
    in_turn = fitted.remove_concepts("crest", mode=mode).remove_concepts("sea", mode=mode)
    np.testing.assert_allclose(in_turn.class_scores(X), at_once.class_scores(X), atol=1e-12)
    np.testing.assert_allclose(in_turn.removal_.mass_retained, at_once.removal_.mass_retained, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_removal_in_some_nodes_leaves_the_others_alone(fitted, birds, mode):
    X, _, _ = birds
    edited = fitted.remove_concepts("sea", nodes=[1], mode=mode)
    changed = ~np.isclose(edited.transform(X), fitted.transform(X), atol=1e-12).all(0)
    assert changed.tolist() == [index == 1 for index in range(len(changed))]
    assert edited.removal_.mass_lost[1] > 0
    assert edited.removal_.mass_lost[0] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("earlier", [None, "impute", "rescale"])
def test_impact_of_each_concept_equals_its_removal(fitted, birds, mode, earlier):
    X, y, groups = birds
    model = fitted if earlier is None else fitted.remove_concepts("crest", mode=earlier, nodes=[0], recalibrate=X)
    impact = model.removal_impact(X, y, groups, mode=mode)
    assert list(impact.index) == CONCEPTS
    before = model.score(X, y)
    for concept in CONCEPTS:
        predicted = model.remove_concepts(concept, mode=mode).predict(X)
        assert impact.loc[concept, "accuracy"] == pytest.approx((predicted == y).mean())
        assert impact.loc[concept, "accuracy_change"] == pytest.approx((predicted == y).mean() - before)
        assert impact.loc[concept, "worst_group"] == pytest.approx(
            cq.metrics.worst_group_accuracy(y, predicted, groups)
        )
    assert "worst_group" not in model.removal_impact(X, y, mode=mode)


@pytest.mark.parametrize("options", [{}, {"interactions": "factored", "bipolar": True}])
@pytest.mark.parametrize("mode", MODES)
def test_rows_that_no_removal_can_change_are_not_looked_at_again(options, mode, monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    clear = rng.random((300, 1))  # some rows are hard to tell, some are not
    X = rng.normal(size=(300, 200)) + clear * (np.arange(200) % 3 == y[:, None])
    model = cq.ChoqolateClassifier(n_nodes=None, epochs=20, temperature=0.05, learning_rate=0.2, **options).fit(
        X[:60], y[:60]
    )
    network, u = model.network_, model.network_.as_inputs(model.scale(X))
    without = WithoutEach(network.nodes, [network.inputs_of([j]) for j in range(200)], mode).values(u)
    predicted = np.stack([network.score_nodes(without[..., j]).numpy().argmax(1) for j in range(200)])
    changed = (predicted != network.class_scores(u).argmax(1)).sum()
    scored, score_nodes = [], FittedNetwork.score_nodes
    monkeypatch.setattr(FittedNetwork, "score_nodes", lambda self, h: scored.append(len(h)) or score_nodes(self, h))
    impact = model.removal_impact(X, y, mode=mode)
    np.testing.assert_allclose(impact["accuracy"], (predicted == y).mean(1))
    again = sum(scored) - len(X)  # all rows are scored once with all concepts
    assert 0 < changed <= again < predicted.size / 2


def test_removals_from_many_concepts_do_not_look_at_all_pairs(monkeypatch):
    n_concepts = MOST_CANONICAL // 2 + 1  # with their absences, more inputs than all pairs are looked at of
    rng = np.random.default_rng(0)
    X, y = rng.random((20, n_concepts)), rng.integers(0, 2, 20)
    options = {"n_nodes": 2, "interactions": "factored", "rank": 1, "bipolar": True, "epochs": 1}
    model = cq.ChoqolateClassifier(**options).fit(X, y)
    with pytest.raises(cq.ChoqolateError, match=r"canonical removal of each .* got 5,002: .* Use mode='rescale'"):
        model.removal_impact(X, y, mode="canonical")
    alone = model.remove_concepts("x7", mode="canonical").class_scores(X)
    assert np.isfinite(alone).all()

    def refuse(self, rows):
        raise AssertionError("all pairs of an input were asked for")

    monkeypatch.setattr(FactoredCapacity, "pairs", refuse)
    impact = model.removal_impact(X, y)
    for concept in ("x0", f"x{n_concepts - 1}"):
        assert impact.loc[concept, "accuracy"] == (model.remove_concepts(concept).predict(X) == y).mean()


def test_impact_is_exact_where_a_node_is_almost_one_concept(birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(n_nodes=2, epochs=1, dtype="float64").fit(X, y)
    theta = clf.parameters_["nodes.theta"]
    theta[0, 4, 4] = theta[1, 0, 0] = 40.0  # a share of all but 1e-16
    set_parameters(clf, clf.parameters_)
    with pytest.warns(cq.ChoqolateWarning, match=r"node 0 keeps 0\.00%"):
        by_removal = clf.remove_concepts("sea").score(X, y)
    assert clf.removal_impact(X, y).loc["sea", "accuracy"] == pytest.approx(by_removal)


def test_what_an_edit_leaves_is_said_once_and_of_that_edit(birds, tmp_path):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(n_nodes=2, epochs=1, dtype="float64").fit(X, y)
    theta = clf.parameters_["nodes.theta"]
    theta[0, 4, 4] = theta[1, 0, 0] = 40.0
    set_parameters(clf, clf.parameters_)
    with pytest.warns(cq.ChoqolateWarning, match=r"some nodes, now rescaled to one: node 0 keeps [\d.]+%$"):
        edited = clf.remove_concepts("sea")
    edited.save(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cq.load(tmp_path)
        edited.remove_concepts("webbed feet", mode="impute")  # freezes, rescales nothing
        edited.restore()


def test_rescale_keeps_ratios_and_reports_what_went(birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(n_nodes=3, epochs=10).fit(X, y)
    edited = clf.remove_concepts("sea")
    before, after = clf.network_.nodes.capacity.w, edited.network_.nodes.capacity.w
    kept = [j for j in range(6) if j != 4]
    lost = before[:, 4, :].sum(1) + before[:, :, 4].sum(1) - before[:, 4, 4]
    report = edited.removal_
    np.testing.assert_allclose(report.mass_lost, lost, atol=1e-12)
    np.testing.assert_allclose(report.mass_retained, 1 - lost, atol=1e-12)
    np.testing.assert_allclose(report.involved[:, 0], lost, atol=1e-12)
    np.testing.assert_allclose(report.shapley[:, 0], clf.node_attributions_[:, 4], atol=1e-12)
    np.testing.assert_allclose(report.shapley_lost, clf.node_attributions_[:, 4], atol=1e-12)
    scaled = before[:, kept][:, :, kept] / (1 - lost)[:, None, None]
    torch.testing.assert_close(after[:, kept][:, :, kept], scaled)
    assert report.concepts == ("sea",)
    assert "removed: sea" in str(report)
    assert f"{report.mass_lost[0]:.1%}" in str(report)


def test_impute_is_the_model_at_the_training_mean(birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(n_nodes=3, epochs=10).fit(X, y)
    edited = clf.remove_concepts("sea", mode="impute")
    frozen = X.assign(sea=X["sea"].mean())
    np.testing.assert_allclose(edited.class_scores(X), clf.class_scores(frozen), atol=1e-9)


def test_removing_the_background_lifts_the_worst_group():
    X, y, _ = bird_scores(2000, agreement=0.95, seed=1)
    X_test, y_test, groups = bird_scores(2000, agreement=0.5, seed=2)
    for clf in cq.fit_runs(X, y, seeds=range(3)):

        def worst(model):
            return cq.metrics.worst_group_accuracy(y_test, model.predict(X_test), groups)

        assert worst(clf.remove_concepts(["sea", "forest"], mode="impute")) > worst(clf) + 0.1
        assert worst(clf.remove_concepts(["sea", "forest"], recalibrate=X)) > worst(clf) + 0.1


def test_recalibration_restores_the_shares_of_the_training_labels(fitted, birds):
    X, y, _ = birds
    edited = fitted.remove_concepts(["sea", "webbed feet"], recalibrate=X)
    assert (edited.predict(X) == "waterbird").mean() == pytest.approx((y == "waterbird").mean(), abs=1 / len(X))
    np.testing.assert_array_equal(edited.removal_.class_shift, edited.class_shift_)
    assert "shifted" in str(edited.removal_)
    order = edited.class_scores(X)[:, 1] - edited.class_scores(X)[:, 0]
    plain = fitted.remove_concepts(["sea", "webbed feet"])
    assert np.ptp(order - (plain.class_scores(X)[:, 1] - plain.class_scores(X)[:, 0])) < 1e-12


@given(st.integers(0, 10_000), st.integers(2, 6))
def test_shares_are_matched_as_nearly_as_can_be(seed, n_classes):
    rng = np.random.default_rng(seed)
    scores = rng.normal(0.5, 0.1, (200, n_classes)) + rng.normal(0, 0.1, n_classes)
    shares = rng.dirichlet(np.full(n_classes, 3.0))
    shift = match_shares(scores, shares)
    counts = np.bincount((scores + shift).argmax(1), minlength=n_classes)
    assert np.abs(counts - shares * 200).max() <= 2  # whole rows only; 1 where classes can be told apart one by one
    assert shift.mean() == pytest.approx(0, abs=1e-12)


def test_matching_many_classes_comes_close():
    rng = np.random.default_rng(0)
    scores = rng.normal(0.5, 0.02, (3000, 100)) + rng.normal(0, 0.03, 100)
    shares = np.full(100, 0.01)
    before = np.abs(np.bincount(scores.argmax(1), minlength=100) - 30).sum()
    after = np.abs(np.bincount((scores + match_shares(scores, shares)).argmax(1), minlength=100) - 30).sum()
    assert before > 2000
    assert after < 150


def test_mistakes_are_named(birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(n_nodes=3, epochs=1).fit(X, y)
    for call, message in [
        (lambda: clf.remove_concepts(["see"]), "got 'see': did you mean 'sea'"),
        (lambda: clf.remove_concepts("zebra crossing"), "this model knows 'webbed feet'"),
        (lambda: clf.remove_concepts([]), "at least one concept, got none"),
        (lambda: clf.remove_concepts(["sea", "sea"]), "'sea' more than once"),
        (lambda: clf.remove_concepts(CONCEPTS), "without any concept. Keep at least one"),
        (lambda: clf.remove_concepts(CONCEPTS, mode="impute"), "without any concept"),
        (lambda: clf.remove_concepts(CONCEPTS[:3]).remove_concepts(CONCEPTS[3:]), "without any concept"),
        (lambda: clf.remove_concepts(CONCEPTS, nodes=[2]), "node 2 without any concept"),
        (lambda: clf.remove_concepts("sea", nodes=[3]), r"from 0 to 2, got \[3\]"),
        (lambda: clf.remove_concepts("sea", nodes=[]), "indices of nodes"),
        (lambda: clf.remove_concepts("sea", nodes=["a"]), "indices of nodes"),
        (lambda: clf.remove_concepts("sea", mode="erase"), "one of rescale, canonical, impute, got 'erase'"),
        (lambda: clf.remove_concepts("sea", recalibrate=X[:1]), r"as many rows as classes \(2\)"),
        (lambda: clf.restore("sea"), "Nothing was removed or reweighted"),
        (lambda: clf.remove_concepts("sea").restore("crest"), "got 'crest': removed or reweighted were 'sea'"),
        (lambda: clf.remove_concepts(3), "the name of a concept or several, got 3"),
        (lambda: clf.remove_concepts("sea", nodes=1.0), r"from 0 to 2, got \[1.0\]"),
        (lambda: clf.remove_concepts("sea", nodes=True), "indices of nodes"),
        (lambda: clf.removal_impact(X, y[:5]), "y: expected 400 labels, got 5"),
        (lambda: clf.removal_impact(X, y, groups=[1, 2]), "groups: expected 400 labels, got 2"),
        (lambda: clf.removal_impact(X, y, groups=[None] * 400), "groups: expected one label per row"),
        (lambda: clf.removal_impact(X, np.zeros(400)), "y: expected labels such as 'landbird', got 0.0"),
        (lambda: clf.explain(X, baseline="one"), "one of zero, mean, got 'one'"),
    ]:
        with pytest.raises(cq.ChoqolateError, match=message):
            call()


def test_several_names_may_come_one_by_one(birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(n_nodes=3, epochs=1).fit(X, y)
    assert clf.remove_concepts(name for name in ("sea", "crest")).removal_.concepts == ("sea", "crest")


def test_groups_may_be_tuples(birds):
    X, y, groups = birds
    clf = cq.ChoqolateClassifier(n_nodes=3, epochs=5).fit(X, y)
    pairs = [(group.split()[0], group.split()[-1]) for group in groups]
    expected = clf.removal_impact(X, y, groups)
    np.testing.assert_array_equal(clf.removal_impact(X, y, pairs), expected)


def test_the_report_does_not_depend_on_the_order_of_different_modes(birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(n_nodes=3, epochs=10).fit(X, y)
    one = clf.remove_concepts("sea", mode="impute").remove_concepts("crest").removal_
    other = clf.remove_concepts("crest").remove_concepts("sea", mode="impute").removal_
    at_once = clf.remove_concepts(["crest", "sea"]).removal_
    np.testing.assert_allclose(one.mass_retained, other.mass_retained, atol=1e-12)
    np.testing.assert_allclose(one.mass_retained, at_once.mass_retained, atol=1e-12)
    twice = clf.remove_concepts("sea", mode="impute").remove_concepts("sea").removal_
    np.testing.assert_allclose(twice.mass_retained, clf.remove_concepts("sea").removal_.mass_retained, atol=1e-12)


@pytest.mark.parametrize(
    "options", [{"bipolar": True}, {"free_weights": True}, {"bipolar": True, "interactions": "none"}]
)
def test_what_one_concept_was_involved_in_is_what_is_lost(birds, options):
    X, y, _ = birds
    report = cq.ChoqolateClassifier(n_nodes=3, epochs=5, **options).fit(X, y).remove_concepts("sea").removal_
    np.testing.assert_allclose(report.involved[:, 0], report.mass_lost, atol=1e-12)


def test_a_node_made_of_one_concept_alone(birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(n_nodes=2, epochs=1, dtype="float64").fit(X, y)
    clf.parameters_["nodes.theta"][0, 4, 4] = 2000.0
    set_parameters(clf, clf.parameters_)
    frozen = clf.remove_concepts("sea", mode="impute")  # a constant node, but a defined one
    assert np.ptp(frozen.transform(X)[:, 0]) == 0
    assert frozen.node_attributions_[0].tolist() == [0.0] * 6
    assert frozen.removal_.mass_retained[0] == 0
    impact = clf.removal_impact(X, y)
    assert np.isnan(impact.loc["sea"]).all()
    assert impact.drop("sea").notna().all(axis=None)
    almost_empty = clf.remove_concepts(["webbed feet", "long bill", "hooked bill", "crest", "forest"], nodes=[1])
    assert np.isnan(almost_empty.removal_impact(X, y, mode="impute").loc["sea", "accuracy"])


def test_ties_go_to_a_class_together():
    scores = np.repeat([[0.4, 0.6], [0.6, 0.4], [0.5, 0.5]], [10, 10, 20], axis=0)
    for wanted, reached in ((0.7, 30), (0.3, 10), (0.55, 30)):
        shift = match_shares(scores, np.array([wanted, 1 - wanted]))
        assert (scores + shift).argmax(1).tolist().count(0) == reached


def test_a_node_that_loses_almost_everything_is_reported(birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(n_nodes=2, epochs=1, dtype="float64").fit(X, y)
    clf.parameters_["nodes.theta"][0, 4, 4] = 12.0
    set_parameters(clf, clf.parameters_)
    with pytest.warns(cq.ChoqolateWarning, match="node 0 keeps"):
        edited = clf.remove_concepts("sea")
    assert edited.removal_.mass_retained[0] < 0.05
    np.testing.assert_allclose(edited.node_attributions_.sum(1), 1)
    clf.parameters_["nodes.theta"][0, 4, 4] = 2000.0
    set_parameters(clf, clf.parameters_)
    with pytest.raises(cq.ChoqolateError, match=r"Node 0 is made of the removed concepts alone.*impute"):
        clf.remove_concepts("sea")
