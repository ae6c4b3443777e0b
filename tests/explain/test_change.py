from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import choqolate as cq
from choqolate.explain import explain_change, explain_local_change
from tests.small_tables import CONCEPTS, FORMS, bird_scores

MODES = ["rescale", "canonical", "impute"]
SOME = ("pairwise", "factored", "one layer", "bipolar")
close = {"rtol": 0, "atol": 1e-12}
pytestmark = pytest.mark.filterwarnings("ignore::choqolate.errors.SmallRemainderWarning")


@pytest.fixture(scope="module")
def birds():
    return bird_scores(200)


@pytest.fixture(scope="module")
def trained(birds):
    X, y, _ = birds
    options = {"n_nodes": 4, "epochs": 15, "temperature": 0.05}
    return {name: cq.ChoqolateClassifier(**options | form).fit(X, y) for name, form in FORMS.items() if name in SOME}


@pytest.fixture(scope="module")
def clf(trained):
    return trained["pairwise"]


# ---------------------------------------------------------------- of the model


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", SOME)
def test_a_change_is_the_difference_of_two_models(trained, birds, form, mode):
    X, _, _ = birds
    before = trained[form]
    after = before.remove_concepts(["sea", "forest"], mode=mode, recalibrate=X)
    change = explain_change(before, after)
    per_concept = [
        model.node_attributions_.reshape(len(model.node_attributions_), -1, 6).sum(1) for model in (before, after)
    ]
    np.testing.assert_allclose(change.before.node_attributions, per_concept[0], **close)
    np.testing.assert_allclose(change.after.node_attributions, per_concept[1], **close)
    np.testing.assert_allclose(change.node_attributions, per_concept[1] - per_concept[0], **close)
    if mode == "impute":  # what is left keeps its Shapley values
        lost = [name.removeprefix("not ") for node in range(len(per_concept[0])) for name, _ in change.losses(node, 2)]
        assert set(lost) == {"sea", "forest"}
    np.testing.assert_allclose(change.node_attributions.sum(1), 0, **close)
    np.testing.assert_array_equal(change.class_shift, after.class_shift_)
    assert change.class_shift.any()
    assert change.removal is after.removal_
    assert change.removal.concepts == ("sea", "forest")
    assert repr(change) == f"ModelChange({len(before.node_attributions_)} nodes, 2 concepts removed)"


@pytest.mark.parametrize("mode", MODES)
def test_an_edited_model_alone_is_compared_with_what_was_trained(clf, birds, mode):
    X, _, _ = birds
    edited = clf.remove_concepts("sea", mode=mode, recalibrate=X).remove_concepts("crest", mode=mode)
    alone, both = explain_change(edited), explain_change(clf, edited)
    np.testing.assert_array_equal(alone.before.node_attributions, clf.node_attributions_)
    np.testing.assert_array_equal(alone.node_attributions, both.node_attributions)
    np.testing.assert_array_equal(alone.class_shift, both.class_shift)
    local, both = explain_local_change(X, edited), explain_local_change(X, clf, edited)
    np.testing.assert_array_equal(local.class_scores, both.class_scores)
    assert local.before.predicted == both.before.predicted == tuple(clf.predict(X))


def test_two_edits_are_compared_with_each_other(clf, birds):
    X, _, _ = birds
    once = clf.remove_concepts("sea", recalibrate=X)
    twice = once.remove_concepts("forest", recalibrate=X)
    change = explain_change(once, twice)
    assert (change.node_attributions[:, CONCEPTS.index("sea")] == 0).all()
    np.testing.assert_allclose(
        change.node_attributions[:, CONCEPTS.index("forest")], -once.node_attributions_[:, CONCEPTS.index("forest")]
    )
    np.testing.assert_allclose(change.class_shift, twice.class_shift_ - once.class_shift_, **close)
    assert change.removal.concepts == ("sea", "forest")  # what is gone since training
    back = explain_change(twice, once)
    np.testing.assert_array_equal(back.node_attributions, -change.node_attributions)


@pytest.mark.parametrize("mode", MODES)
def test_gains_and_losses_are_the_largest_changes(clf, mode):
    change = explain_change(clf, clf.remove_concepts(["sea", "webbed feet"], mode=mode))
    for node in range(4):
        by_name = dict(zip(CONCEPTS, change.node_attributions[node].tolist(), strict=True))
        up = sorted(((n, v) for n, v in by_name.items() if v > 0), key=lambda item: -item[1])
        down = sorted(((n, v) for n, v in by_name.items() if v < 0), key=lambda item: item[1])
        assert change.gains(node) == up[:5]
        assert change.losses(node) == down[:5]
        assert change.gains(node, most=1) == up[:1]
        assert change.losses(node, most=1) == down[:1]
        assert {"sea", "webbed feet"} <= {name for name, _ in change.losses(node)}
        lost, won = (sum(value for _, value in part) for part in (down, up))
        assert change.moved[node] == pytest.approx(won)
        assert change.moved[node] == pytest.approx(-lost)


def test_freezing_moves_the_share_of_what_is_frozen(clf):
    change = explain_change(clf, clf.remove_concepts("sea", mode="impute"))
    np.testing.assert_allclose(change.moved, clf.node_attributions_[:, CONCEPTS.index("sea")])


def test_removal_in_one_node_changes_that_node(clf):
    change = explain_change(clf, clf.remove_concepts("sea", nodes=2))
    assert (change.moved > 0).tolist() == [False, False, True, False]
    assert change.gains(0) == change.losses(0) == []


def test_nothing_removed_is_no_change(clf, birds):
    X, _, _ = birds
    change = explain_change(clf)
    assert change.removal is None
    assert not change.node_attributions.any()
    assert not change.moved.any()
    assert not change.class_shift.any()
    assert repr(change) == "ModelChange(4 nodes, 0 concepts removed)"
    local = explain_local_change(X, clf)
    assert not local.flipped.any()
    assert local.transitions == {}
    assert not local.class_scores.any()


# ---------------------------------------------------------------- of images


@pytest.mark.parametrize("baseline", ["zero", "mean"])
@pytest.mark.parametrize("form", SOME)
def test_a_local_change_is_the_difference_of_two_explanations(trained, birds, form, baseline):
    X, _, _ = birds
    before = trained[form]
    after = before.remove_concepts(["sea", "forest"], recalibrate=X)
    change = explain_local_change(X, before, after, baseline=baseline)
    assert len(change) == len(X)
    assert change.before.baseline == change.after.baseline == baseline
    np.testing.assert_allclose(change.node_values, after.transform(X) - before.transform(X), **close)
    np.testing.assert_allclose(change.class_scores, after.class_scores(X) - before.class_scores(X), **close)
    old, new = before.predict(X), after.predict(X)
    np.testing.assert_array_equal(change.flipped, old != new)
    assert change.flipped.dtype == bool
    counts = Counter((a, b) for a, b in zip(old, new, strict=True) if a != b)
    assert change.transitions == counts
    assert sum(change.transitions.values()) == change.flipped.sum() > 0
    assert list(change.transitions.values()) == sorted(counts.values(), reverse=True)
    assert repr(change) == f"LocalChange(200 inputs, {change.flipped.sum()} predicted differently)"
    contributions = before.explain(X, baseline=baseline).concept_to_class
    np.testing.assert_array_equal(change.before.concept_to_class, contributions)


def test_recalibration_alone_changes_scores_and_predictions(clf, birds):
    X, _, _ = birds
    plain = clf.remove_concepts("sea")
    shifted = clf.remove_concepts("sea", recalibrate=X[:30])
    assert shifted.class_shift_.any()
    change = explain_local_change(X, plain, shifted)
    assert not change.node_values.any()
    np.testing.assert_allclose(change.class_scores, np.tile(shifted.class_shift_, (200, 1)), **close)
    np.testing.assert_array_equal(change.flipped, plain.predict(X) != shifted.predict(X))
    assert not explain_change(plain, shifted).moved.any()


def test_one_image(clf, birds):
    X, _, _ = birds
    edited = clf.remove_concepts(["sea", "forest"])
    index = int(np.flatnonzero(clf.predict(X) != edited.predict(X))[0])
    change = explain_local_change(X.iloc[[index]], clf, edited)
    assert repr(change) == "LocalChange(1 input, 1 predicted differently)"
    old, new = clf.predict(X)[index], edited.predict(X)[index]
    assert change.transitions == {(old, new): 1}


def test_classes_that_are_numbers(birds):
    X, y, _ = birds
    clf = cq.ChoqolateClassifier(n_nodes=4, epochs=15, temperature=0.05).fit(X, (y == "waterbird").astype(int))
    change = explain_local_change(X, clf.remove_concepts(["sea", "forest"]))
    assert change.transitions
    assert set(change.transitions) <= {(0, 1), (1, 0)}


# ---------------------------------------------------------------- mistakes


def test_different_models_are_an_error(clf, birds):
    X, y, _ = birds

    def fit(scores=X, labels=y, **options):
        return cq.ChoqolateClassifier(**{"n_nodes": 4, "epochs": 1} | options).fit(scores, labels)

    others = {
        "nodes": fit(n_nodes=3),
        "one layer": fit(n_nodes=None),
        "inputs": fit(bipolar=True),
        "concepts": fit(X.drop(columns="crest")),
        "order": fit(X[CONCEPTS[::-1]]),
        "classes": fit(labels=np.char.upper(y)),
    }
    for other in others.values():
        with pytest.raises(cq.ChoqolateError, match="two versions of one model"):
            explain_change(clf, other)
        with pytest.raises(cq.ChoqolateError, match="differ in concepts, nodes or classes"):
            explain_local_change(X, other, clf)


def test_an_unknown_baseline_is_an_error(clf, birds):
    X, _, _ = birds
    with pytest.raises(cq.ChoqolateError, match="one of zero, mean, got 'one'"):
        explain_local_change(X, clf, baseline="one")
