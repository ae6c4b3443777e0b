"""One image explained: the same numbers as the calls that it gathers."""

from __future__ import annotations

import pytest
from sklearn.exceptions import NotFittedError

import choqolate as cq
from choqolate.baselines import PCBM
from choqolate.explain import ImageExplanation
from tests.small_tables import bird_scores


@pytest.fixture(scope="module")
def birds():
    X, y, _ = bird_scores(200)
    return X, y, cq.ChoqolateClassifier(n_nodes=3, epochs=20, temperature=0.05, random_state=0).fit(X, y)


def assert_same(ours, wanted):
    assert ours.subjects == wanted.subjects
    assert ours.values.tolist() == wanted.values.tolist()
    assert (ours.start.tolist(), ours.end.tolist()) == (wanted.start.tolist(), wanted.end.tolist())


def test_it_gathers_what_the_single_calls_say(birds):
    X, _, model = birds
    x = X.iloc[:1]
    found, why = cq.explain_image(model, x), model.explain(x, baseline="mean")
    assert isinstance(found, ImageExplanation)
    likeliest = sorted(zip(model.predict_proba(x)[0].tolist(), model.classes_.tolist(), strict=True), reverse=True)
    assert found.probabilities == tuple((label, probability) for probability, label in likeliest)
    assert found.predicted == model.predict(x)[0]
    assert_same(found.lead, why.contrast())
    assert_same(found.node_lead, why.contrast(by="nodes"))
    assert found.counterfactual == cq.find_counterfactual(model, x)
    assert (found.truth, found.right) == (None, None)
    assert (found.predicted_before, found.lead_before, found.flipped) == (None, None, False)
    probability = f"{found.probabilities[0][1]:.3f}"
    assert repr(found) == f"ImageExplanation({why.contrast().subjects[0]}, probability {probability})"


def test_a_wrong_prediction_is_compared_with_the_true_class():
    X, _, groups = bird_scores(200)
    model = cq.ChoqolateClassifier(n_nodes=3, epochs=20, temperature=0.05, random_state=0).fit(X, groups)
    wrong = next(row for row, label in enumerate(model.predict(X)) if label != groups[row])
    x = X.iloc[[wrong]]
    found = cq.explain_image(model, x, truth=groups[wrong])
    assert found.right is False
    assert found.lead.subjects == (f"{found.predicted} rather than {groups[wrong]}",)
    assert cq.explain_image(model, x, truth=found.predicted).right is True
    runner_up = f"{found.predicted} rather than {found.probabilities[1][0]}"
    for truth in (None, found.predicted, "a class that the model does not know"):
        assert cq.explain_image(model, x, truth=truth).lead.subjects == (runner_up,)


def test_an_edited_model_says_what_it_was_before(birds):
    X, _, model = birds
    edited = model.remove_concepts(["sea", "forest"], mode="impute")
    for row in range(20):
        x = X.iloc[[row]]
        found, given = cq.explain_image(edited, x), cq.explain_image(edited, x, trained=model)
        change = cq.explain_local_change(x, model, edited, baseline="mean")
        pair = [label for label, _ in found.probabilities]
        for one in (found, given):
            assert one.predicted_before == model.predict(x)[0]
            assert one.flipped == change.flipped[0]
            assert_same(one.lead, change.after.contrast(*pair))
            assert_same(one.lead_before, change.before.contrast(*pair))


def test_without_nodes_there_is_no_lead_of_nodes():
    X, y, _ = bird_scores(100)
    model = cq.ChoqolateClassifier(n_nodes=None, epochs=5).fit(X, y)
    assert cq.explain_image(model, X.iloc[:1]).node_lead is None


def test_a_row_of_a_table_is_an_image(birds):
    X, y, model = birds
    table = cq.ConceptScores(X, X.columns, labels=y).select(X.columns[::-1])
    for row in range(3):
        wanted, found = cq.explain_image(model, X.iloc[[row]]), cq.explain_image(model, table.take(row))
        assert found.probabilities == wanted.probabilities
        assert found.counterfactual == wanted.counterfactual
        assert_same(found.lead, wanted.lead)
    with pytest.raises(cq.ChoqolateError, match="expected the scores of one image, got 2 rows"):
        cq.find_counterfactual(model, table.take([0, 1]))


def test_several_images_are_an_error(birds):
    X, _, model = birds
    with pytest.raises(cq.ChoqolateError, match="expected the scores of one image, got 2 rows"):
        cq.explain_image(model, X.iloc[:2])


@pytest.mark.parametrize(
    ("use", "purpose"),
    [
        (cq.explain_image, "to explain an image"),
        (cq.find_counterfactual, "to find a counterfactual"),
        (lambda model, x: cq.explain_local_change(x, model), "before and after the edit"),
    ],
)
def test_other_models_are_named(birds, use, purpose):
    X, y, _ = birds
    baseline = PCBM(n_nodes=2, epochs=2).fit(X, y)
    with pytest.raises(cq.ChoqolateError, match=rf"^Expected a ChoqolateClassifier {purpose}, but got a PCBM\.$"):
        use(baseline, X.iloc[:1])
    with pytest.raises(cq.ChoqolateError, match=r"but got the class ChoqolateClassifier\.$"):
        use(cq.ChoqolateClassifier, X.iloc[:1])
    with pytest.raises(NotFittedError):
        use(cq.ChoqolateClassifier(), X.iloc[:1])
