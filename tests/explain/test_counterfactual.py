from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import choqolate as cq
from choqolate.explain import Counterfactual, counterfactual, find_counterfactual
from choqolate.integral.layer import raw_shapes
from tests.networks import set_parameters
from tests.small_tables import FORMS, bird_scores

MODES = ["rescale", "canonical", "impute"]
EARLIER = {
    "as trained": lambda clf, X: clf,
    "edited": lambda clf, X: clf.remove_concepts("crest", nodes=[1]).remove_concepts(
        "sea", mode="impute", nodes=0, recalibrate=X
    ),
}
pytestmark = pytest.mark.filterwarnings("ignore::choqolate.errors.SmallRemainderWarning")


@pytest.fixture(scope="module")
def birds():
    """Five concepts, so that all sets of them can be removed."""
    X, y, _ = bird_scores(200)
    return X.drop(columns="long bill"), y


@pytest.fixture(scope="module")
def trained(birds):
    X, y = birds
    options = {"n_nodes": 3, "epochs": 15, "temperature": 0.05}
    return {name: cq.ChoqolateClassifier(**options | form).fit(X, y) for name, form in FORMS.items()}


def some_rows(clf, X, n_rows: int = 5):
    """Images from those nearest to the decision to those farthest from it."""
    scores = np.sort(clf.class_scores(X), axis=1)
    order = np.argsort(scores[:, -1] - scores[:, -2])
    return X.iloc[order[np.linspace(0, len(X) - 1, n_rows).astype(int)]]


def lead_of(scores: np.ndarray, before: int, target: int | None) -> float:
    """How far an image is from another class, or from the target: above zero it stays where it is."""
    if target is None:
        return scores[before] - np.delete(scores, before).max()
    return np.delete(scores, target).max() - scores[target]


def scores_without(clf, X, mode: str, sizes) -> dict[frozenset, np.ndarray]:
    """Class scores ``(n, C)`` without every set of the sizes that the model lets go."""
    scores = {}
    for size in sizes:
        for chosen in combinations(clf.concepts_, size):
            try:
                scores[frozenset(chosen)] = clf.remove_concepts(chosen, mode=mode).class_scores(X)
            except cq.ChoqolateError:  # nothing would be left of a node
                continue
    return scores


def assert_as_by_removal(found: Counterfactual, leads: dict[frozenset, float], labels, scores, most: int) -> None:
    """``leads`` and ``scores`` are those of one image without every set of concepts."""
    by_size = {
        size: min((lead for s, lead in leads.items() if len(s) == size), default=math.inf)
        for size in range(1, most + 1)
    }
    least = next((size for size in by_size if by_size[size] < -1e-9), None)
    if found.method == "none":
        assert found.concepts == ()
        assert found.after is None
        assert math.isnan(found.lead_after)
        assert least is None or least > 3  # only the exact search can promise
        triples = {chosen: lead for chosen, lead in leads.items() if len(chosen) == 3}
        best = min(triples, key=triples.get, default=frozenset())
        assert all(lead > -1e-9 for chosen, lead in leads.items() if best < chosen and len(chosen) == 4)
        return
    chosen = frozenset(found.concepts)
    assert len(chosen) == len(found.concepts) <= most
    assert found.after == labels[scores[chosen].argmax()] != found.before
    assert found.lead_after == pytest.approx(leads[chosen], abs=1e-9)
    assert found.lead_after < 0
    if found.method == "exact":
        assert len(chosen) == least
        assert found.lead_after == pytest.approx(by_size[least], abs=1e-9)
    else:
        assert found.method == "greedy"
        assert len(chosen) > 3
        assert least > 3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("earlier", EARLIER)
@pytest.mark.parametrize("form", FORMS)
def test_equals_removing_every_set_of_concepts(trained, birds, monkeypatch, form, earlier, mode):
    X, _ = birds
    monkeypatch.setattr(counterfactual, "_BLOCK", 3)  # so that many sets are compared with the best of earlier blocks
    clf = EARLIER[earlier](trained[form], X)
    rows = some_rows(clf, X)
    scores = scores_without(clf, rows, mode, range(1, 5))
    labels = clf.classes_.tolist()
    for index, before in enumerate(clf.predict(rows)):
        x = rows.iloc[[index]]
        found = find_counterfactual(clf, x, mode=mode, most=4)
        assert found.before == before
        assert found.mode == mode
        assert found.complete
        mine = {chosen: values[index] for chosen, values in scores.items()}
        leads = {chosen: lead_of(values, labels.index(before), None) for chosen, values in mine.items()}
        assert_as_by_removal(found, leads, labels, mine, most=4)
        now = clf.class_scores(x)[0]
        assert found.lead_before == pytest.approx(lead_of(now, labels.index(before), None), abs=1e-12)
        if found.concepts:
            assert clf.remove_concepts(found.concepts, mode=mode).predict(x)[0] == found.after


def random_model(seed: int, interactions: str, bipolar: bool, n_concepts: int = 5, sharpness: float = 2.0):
    """A model of three classes with drawn weights, on scores that run from 0 to 1 already."""
    rng = np.random.default_rng(seed)
    X = rng.random((30, n_concepts)) ** rng.uniform(0.5, 2, n_concepts)
    X[0], X[1] = 0.0, 1.0
    clf = cq.ChoqolateClassifier(n_nodes=3, epochs=1, interactions=interactions, rank=2, bipolar=bipolar)
    clf.fit(X, np.arange(30) % 3)
    second = "none" if interactions == "none" else "pairwise"
    shapes = {f"nodes.{k}": v for k, v in raw_shapes(n_concepts * (1 + bipolar), 3, interactions, 2).items()}
    shapes |= {f"classes.{k}": v for k, v in raw_shapes(3, 3, second, 2).items()}
    set_parameters(clf, {k: torch.from_numpy(rng.normal(0, sharpness, shape)) for k, shape in shapes.items()})
    return clf, X


@settings(max_examples=20)
@given(
    seed=st.integers(0, 100_000),
    interactions=st.sampled_from(["pairwise", "factored", "none"]),
    bipolar=st.booleans(),
    mode=st.sampled_from(MODES),
    with_target=st.booleans(),
    recalibrated=st.booleans(),
)
def test_drawn_models_of_three_classes(seed, interactions, bipolar, mode, with_target, recalibrated):
    clf, X = random_model(seed, interactions, bipolar)
    if recalibrated:
        clf = clf.remove_concepts("x4", mode=MODES[seed % 3], nodes=seed % 3, recalibrate=X)
    x = X[2 + seed % 28][None]
    before = int(clf.class_scores(x)[0].argmax())
    target = (before + 1 + seed % 2) % 3 if with_target else None
    found = find_counterfactual(clf, x, mode=mode, most=3, target=target)
    scores = {chosen: values[0] for chosen, values in scores_without(clf, x, mode, range(1, 4)).items()}
    leads = {chosen: lead_of(values, before, target) for chosen, values in scores.items()}
    assert_as_by_removal(found, leads, clf.classes_.tolist(), scores, most=3)
    assert found.lead_before == pytest.approx(lead_of(clf.class_scores(x)[0], before, target), abs=1e-12)
    if target is not None and found.concepts:
        assert found.after == target


def means_model(n_concepts: int, members: set[int], of_other: int):
    """One layer: the first class is the mean of its members, the second one concept."""
    X = np.zeros((4, n_concepts))
    X[1], X[2] = 1.0, 0.5
    clf = cq.ChoqolateClassifier(n_nodes=None, interactions="none", epochs=1, dtype="float64").fit(X, [0, 1, 0, 1])
    theta = torch.full((2, n_concepts), -70.0).double()
    theta[0, list(members)] = theta[1, of_other] = 0.0
    set_parameters(clf, {"nodes.theta": theta})
    return clf


def hard_model():
    """A model and an image whose class loses its lead when the five high ones of its six concepts are gone."""
    return means_model(7, set(range(6)), 6), np.array([0.9, 0.9, 0.9, 0.9, 0.9, 0.2, 0.5])


@pytest.mark.parametrize("high", list(combinations(range(5), 3)))
def test_every_set_of_three_is_tried(high):
    low, of_other = (j for j in range(5) if j not in high)
    clf, x = means_model(5, {*high, low}, of_other), np.full(5, 0.9)
    x[low], x[of_other] = 0.2, 0.5  # one high one and the low one still have a mean of 0.55
    found = find_counterfactual(clf, x)
    assert found.method == "exact"
    assert set(found.concepts) == {f"x{j}" for j in high}


def test_beyond_three_concepts_sets_are_grown_greedily():
    clf, x = hard_model()  # (0.9 k + 0.2) / (k + 1) > 0.5 while k of the five are left and k > 0.75
    found = find_counterfactual(clf, x)
    assert found.method == "greedy"
    assert found.before == 0
    assert found.after == 1
    assert set(found.concepts) == {"x0", "x1", "x2", "x3", "x4"}
    assert found.lead_after == pytest.approx(0.2 - 0.5)
    assert "greedily" in str(found)
    assert "fewer may do" in str(found)
    assert clf.remove_concepts(found.concepts).predict([x])[0] == 1


@pytest.mark.parametrize("most", [1, 3, 4])
def test_nothing_is_found_where_the_sets_allowed_do_not_do(most):
    clf, x = hard_model()
    found = find_counterfactual(clf, x, most=most)
    assert found.method == "none"
    assert found.concepts == ()
    assert found.after is None
    assert found.before == 0
    assert found.searched == 7
    assert found.lead_before == pytest.approx((5 * 0.9 + 0.2) / 6 - 0.5)
    assert found.most == most
    assert str(found).startswith("no single concept" if most == 1 else f"no set of up to {most} concepts")
    assert str(found).endswith(" was found whose removal changes the prediction 0")


def test_a_node_is_never_left_with_nothing():
    clf, _ = hard_model()  # its second class is x6 and nothing else
    found = find_counterfactual(clf, np.where(np.arange(7) == 6, 0.9, 0.5))
    assert found.before == 1
    assert "x6" not in found.concepts
    with pytest.warns(cq.ChoqolateWarning, match="node 1 keeps"):
        clf.remove_concepts("x6")


@pytest.mark.parametrize("share", [10.0, 20.0, 30.0])  # leaves 1e-3, 5e-8 and 2e-12 of a node
def test_what_is_found_is_true_where_a_node_is_almost_one_concept(birds, share):
    X, y = birds
    clf = cq.ChoqolateClassifier(n_nodes=2, epochs=1, dtype="float64").fit(X, y)
    clf.parameters_["nodes.theta"][0, 3, 3] = clf.parameters_["nodes.theta"][1, 0, 0] = share
    set_parameters(clf, clf.parameters_)
    for index in range(10):
        x = X.iloc[[index]]
        found = find_counterfactual(clf, x, most=3)
        if found.concepts:
            edited = clf.remove_concepts(found.concepts)
            scores = edited.class_scores(x)[0]
            assert found.after == edited.predict(x)[0]
            assert found.lead_after == pytest.approx(-abs(scores[0] - scores[1]), abs=1e-6)


def test_a_target_class_is_reached():
    clf, X = random_model(1, "pairwise", bipolar=False, n_concepts=6)
    reached = 0
    for x in X[2:12]:
        before = clf.predict([x])[0]
        for target in {0, 1, 2} - {before}:
            found = find_counterfactual(clf, x, target=target)
            if found.concepts:
                reached += 1
                assert found.after == target == clf.remove_concepts(found.concepts).predict([x])[0]
            any_other = find_counterfactual(clf, x)
            assert not found.concepts or len(any_other.concepts) <= len(found.concepts)
    assert reached > 0


def test_the_search_sees_what_a_concept_does_and_not_its_name(birds):
    """Two columns exchanged exchange their names in the answer, and nothing else."""
    X, y = birds
    options = {"n_nodes": 3, "epochs": 5, "temperature": 0.05}
    clf = cq.ChoqolateClassifier(**options).fit(X, y)
    swapped = {"sea": "forest", "forest": "sea"}
    other = cq.ChoqolateClassifier(**options).fit(X.rename(columns=swapped), y)
    for index in range(5):
        found = find_counterfactual(clf, X.iloc[[index]])
        again = find_counterfactual(other, X.iloc[[index]].rename(columns=swapped))
        assert again.concepts == tuple(swapped.get(name, name) for name in found.concepts)


@pytest.mark.parametrize(("limit", "searched"), [(1, 3), (4, 4), (9, 4), (10, 5)])
def test_too_many_concepts_leave_the_most_influential(trained, birds, limit, searched):
    X, _ = birds  # four concepts have 4 sets of three, five have 10
    clf = trained["pairwise"]
    influential = {clf.concepts_[j] for j in np.argsort(-clf.node_attributions_.max(0))[:searched]}
    full = searched == len(clf.concepts_)
    said = set()
    for index in range(12):
        found = find_counterfactual(clf, X.iloc[[index]], most_sets=limit)
        assert found.searched == searched
        assert found.complete == full
        assert set(found.concepts) <= influential
        assert (f"among the {searched} most influential concepts" in str(found)) != full
        said.add(found.method)
    assert "exact" in said


def test_a_limited_search_that_finds_nothing_says_so_too():
    clf, x = hard_model()
    found = find_counterfactual(clf, x, most=2, most_sets=10)
    assert "no set of up to 2 concepts was found among the 5 most influential concepts" in str(found)


def test_blocks_of_sets_do_not_matter(trained, birds, monkeypatch):
    X, _ = birds
    rows = [some_rows(trained["pairwise"], X).iloc[[index]] for index in range(5)]
    whole = [find_counterfactual(trained["pairwise"], x) for x in rows]
    monkeypatch.setattr(counterfactual, "_BLOCK", 2)
    for x, expected in zip(rows, whole, strict=True):
        found = find_counterfactual(trained["pairwise"], x)
        assert found.concepts == expected.concepts
        assert found.lead_after == pytest.approx(expected.lead_after, abs=1e-12, nan_ok=True)
    assert {found.method for found in whole} > {"none"}


def test_concepts_that_are_gone_are_not_looked_at(trained, birds):
    X, _ = birds
    edited = trained["pairwise"].remove_concepts(["sea", "crest"])
    for index in range(5):
        found = find_counterfactual(edited, X.iloc[[index]])
        assert found.searched == 3
        assert found.complete
        assert not {"sea", "crest"} & set(found.concepts)
    assert find_counterfactual(trained["pairwise"].remove_concepts("sea", nodes=0), X[:1]).searched == 5


def test_takes_a_row_in_any_shape_and_leaves_the_model_alone():
    clf, X = random_model(4, "pairwise", bipolar=False)
    before = clf.class_scores(X)
    flat, row, as_list = (find_counterfactual(clf, x) for x in (X[5], X[5:6], X[5].tolist()))
    assert flat == row == as_list
    np.testing.assert_array_equal(clf.class_scores(X), before)
    assert clf.edits_ == ()


def test_says_it_in_words(trained, birds):
    X, _ = birds
    clf = trained["pairwise"]
    found = next(
        found
        for found in (find_counterfactual(clf, X.iloc[[index]]) for index in range(20))
        if found.method == "exact" and found.before == "landbird"
    )
    names = ", ".join(f"'{name}'" for name in found.concepts)
    assert (
        str(found)
        == f"if the model did not read {names}, it would say waterbird instead of landbird (no smaller set does it)"
    )


def test_mistakes_are_named(trained, birds):
    X, _ = birds
    clf = trained["pairwise"]
    said = clf.predict(X[:1])[0]
    other = next(label for label in clf.classes_ if label != said)
    for call, message in [
        (lambda: find_counterfactual(clf, X[:2]), "the scores of one image, got 2 rows"),
        (lambda: find_counterfactual(clf, X[:1], target="eagle"), f"the other classes '{other}', got 'eagle'"),
        (lambda: find_counterfactual(clf, X[:1], target=said), f"the other classes '{other}', got"),
        (lambda: find_counterfactual(clf, X[:1], mode="erase"), "one of rescale, canonical, impute, got 'erase'"),
        (lambda: find_counterfactual(clf, X[:1], most=0), "most to be a whole number of at least 1, got 0"),
        (lambda: find_counterfactual(clf, X[:1].assign(sea=np.nan)), "NaN"),
    ]:
        with pytest.raises(cq.ChoqolateError, match=message):
            call()


# ---------------------------------------------------------------- sets that cannot be removed


def additive_model(weights, X):
    """One layer of weighted means; two classes."""
    clf = cq.ChoqolateClassifier(n_nodes=None, interactions="none", epochs=1, dtype="float64").fit(X, [0, 1, 0, 1])
    set_parameters(clf, {"nodes.theta": torch.tensor(weights, dtype=torch.float64).log()})
    return clf


def test_freezing_every_concept_is_no_answer():
    """Only with all three at their mean the image changes sides, and a model without concepts is an error."""
    X = np.array([[0, 0, 0], [1, 1, 1], [0.2, 0.2, 0.7], [0.4, 0.4, 0.3]])
    clf, x = additive_model([[0.45, 0.45, 0.1], [0.1, 0.1, 0.8]], X), [[0.8, 0.8, 0.2]]
    found = find_counterfactual(clf, x, mode="impute")
    assert found.method == "none" or clf.remove_concepts(found.concepts, mode="impute").predict(x)[0] == found.after


def test_a_node_is_not_left_with_frozen_concepts_alone():
    """Of the first class only x2, frozen before, would be left, which ``remove_concepts`` does not allow."""
    X = np.array([[0, 0, 0], [1, 1, 1], [0.2, 0.2, 0.7], [0.4, 0.4, 0.3]])
    clf = additive_model([[0.3, 0.3, 0.4], [0.1, 0.1, 0.8]], X)
    edited, x = clf.remove_concepts("x2", mode="impute", nodes=0), [[0.9, 0.9, 0.6]]
    found = find_counterfactual(edited, x)
    assert found.method == "none" or edited.remove_concepts(found.concepts).predict(x)[0] == found.after
