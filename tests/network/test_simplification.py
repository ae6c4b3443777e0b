"""Simplified networks: what is kept, that the bounds and certificates hold, and that edits in any order work."""

from __future__ import annotations

import functools
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import choqolate as cq
from choqolate.errors import ChoqolateError, SmallRemainderWarning
from choqolate.integral import SparseCapacity
from choqolate.network.edits import Recalibrate, Remove, Restore, Reweight, Simplify, edit_from_dict, edits_in_force
from choqolate.network.removal import Nodes
from tests.networks import set_parameters
from tests.small_tables import CONCEPTS, FORMS, bird_scores

SIMPLE = [form for form in FORMS if form != "free"]
ROWS = 60


@functools.cache
def fitted(form: str) -> cq.ChoqolateClassifier:
    """A model of four classes: the groups."""
    X, _, groups = bird_scores(ROWS, agreement=0.7)
    return cq.ChoqolateClassifier(**{"n_nodes": 3, "epochs": 5} | FORMS[form]).fit(X, groups)


@functools.cache
def scores():
    return bird_scores(ROWS, agreement=0.7)[0]


def some_model(form: str, seed: int, spread: float) -> cq.ChoqolateClassifier:
    """A model with random parameters, from nearly even weights to a few heavy ones."""
    clf = cq.ChoqolateClassifier.__new__(cq.ChoqolateClassifier)
    clf.__dict__ = dict(fitted(form).__dict__)
    generator = torch.Generator().manual_seed(seed)
    parameters = fitted(form).network_.parameters
    set_parameters(clf, {name: spread * torch.randn(t.shape, generator=generator) for name, t in parameters.items()})
    return clf


def quietly(edit):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallRemainderWarning)
        return edit()


def layer_by_hand(capacity, max_terms=None, mass=None):
    """The heaviest weights of each integral, rescaled, on sorted lists; the rest is zero."""
    a, b, c = capacity.weights()
    rows = torch.cat([a, b, c], 1).numpy()
    kept = np.zeros_like(rows)
    for n, row in enumerate(rows):
        order = np.argsort(-row, kind="stable")
        if max_terms is None:
            running = np.cumsum(row[order])
            max_terms_here = int(np.argmax(running >= mass - 1e-12)) + 1
        else:
            max_terms_here = max_terms
        kept[n, order[:max_terms_here]] = row[order[:max_terms_here]]
    return kept / kept.sum(1, keepdims=True), 1 - kept.sum(1)


def weights_of(capacity):
    return torch.cat(capacity.weights(), 1).numpy()


forms = st.sampled_from(SIMPLE)
seeds, spreads = st.integers(0, 2**31), st.sampled_from([0.3, 1.5, 4.0])
limits = st.one_of(
    st.fixed_dictionaries({"max_terms": st.integers(1, 40)}),
    st.fixed_dictionaries({"mass": st.floats(0.05, 1.0)}),
)


@settings(max_examples=40)
@given(forms, seeds, spreads, limits, st.booleans())
def test_nodes_keep_their_heaviest_terms_rescaled(form, seed, spread, limit, classes):
    clf = some_model(form, seed, spread)
    short = clf.simplify(**limit, classes=classes)
    expected, dropped = layer_by_hand(clf.network_.nodes.capacity, **limit)
    np.testing.assert_allclose(weights_of(short.network_.nodes.capacity), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(short.simplification_.mass_dropped, dropped, rtol=0, atol=1e-10)
    assert (short.simplification_.terms == (expected > 0).sum(1)).all()
    assert (short.simplification_.terms_before == (weights_of(clf.network_.nodes.capacity) > 0).sum(1)).all()
    before, after = clf.network_.class_layer, short.network_.class_layer
    if before is not None and classes:
        expected, dropped = layer_by_hand(before, **limit)
        np.testing.assert_allclose(weights_of(after), expected, rtol=0, atol=1e-10)
        np.testing.assert_allclose(short.simplification_.class_mass_dropped, dropped, rtol=0, atol=1e-10)
    elif before is not None:
        assert weights_of(after).tolist() == weights_of(before).tolist()
        assert not short.simplification_.class_mass_dropped.any()


@settings(max_examples=60)
@given(forms, seeds, spreads, limits, st.booleans(), st.data())
def test_the_bounds_and_the_certificate_hold(form, seed, spread, limit, classes, data):
    clf = some_model(form, seed, spread)
    if data.draw(st.booleans()):
        mode = data.draw(st.sampled_from(["rescale", "impute"]))
        clf = quietly(lambda: clf.remove_concepts("sea", mode=mode))
    short = clf.simplify(**limit, classes=classes)
    if data.draw(st.booleans()):
        clf, short = (one.recalibrate(scores()) for one in (clf, short))
        clf.network_ = replace(clf.network_, edits=(*clf.edits_[:-1], short.edits_[-1]))  # the same shift
    z = np.random.default_rng(seed).random((300, len(CONCEPTS)))
    z[:100] = z[:100].round()  # corners, where bounds are reached
    X = z * (clf.score_max_ - clf.score_min_) + clf.score_min_
    X = type(scores())(X, columns=CONCEPTS)
    found, proof = short.simplification_, short.certify(X)
    u = clf.network_.as_inputs(clf.scale(X))
    change = (short.network_.node_values(u) - clf.network_.node_values(u)).abs().numpy()
    assert (change <= found.mass_dropped + 1e-12).all()
    assert proof.node_change == pytest.approx(change.max(), abs=1e-15)
    old, new = clf.class_scores(X), short.class_scores(X)
    assert (np.abs(new - old) <= found.bound + 1e-12).all()
    same = old.argmax(1) == new.argmax(1)
    assert same[proof.certified].all()
    np.testing.assert_array_equal(proof.unchanged, same)
    assert (proof.rows, proof.share, proof.agreement) == (300, proof.certified.mean(), same.mean())
    # the rule of the two bounds certifies no row that this one does not
    ranked = np.sort(new, axis=1)
    margins = new[np.arange(300), new.argmax(1)][:, None] - new - found.bound[new.argmax(1)][:, None] - found.bound
    margins[np.arange(300), new.argmax(1)] = np.inf
    assert proof.certified[margins.min(1) > 1e-9].all()
    assert proof.certified[
        ranked[:, -1] - ranked[:, -2] > 2 * found.mass_dropped.max() + 2 * found.class_mass_dropped.max() + 1e-9
    ].all()


def test_the_certificate_is_not_empty():
    X, y, _ = bird_scores(300)
    clf = cq.ChoqolateClassifier(n_nodes=4, temperature=0.05, epochs=60).fit(X, y).simplify(max_terms=8)
    proof = clf.certify(X)
    assert proof.share > 0.5
    assert proof.share <= proof.agreement
    assert "provably keep their predicted class" in str(proof)
    assert clf.certify(X[:1]).rows == 1
    table = cq.ConceptScores(X.to_numpy(), CONCEPTS, labels=y)
    np.testing.assert_array_equal(clf.certify(table).certified, proof.certified)


def test_a_bound_is_reached_where_all_that_was_dropped_is_at_the_other_end():
    """A node of one heavy input and even others: with it at 1 and the others at 0, it moves by all that it dropped."""
    clf = some_model("one layer", seed=0, spread=0.0)
    theta = torch.zeros_like(clf.network_.parameters["nodes.theta"])
    theta[:, 0, 0] = 5.0
    theta[:, range(1, len(CONCEPTS)), 0] = theta[:, 0, 1:] = -1e4  # no pairs with the heavy input
    set_parameters(clf, {"nodes.theta": theta})
    short = clf.simplify(max_terms=1)
    corner = clf.network_.as_inputs(np.eye(1, len(CONCEPTS)))
    moved = (short.network_.node_values(corner) - clf.network_.node_values(corner)).abs().numpy()[0]
    np.testing.assert_allclose(moved, short.simplification_.mass_dropped, atol=1e-12)
    assert (moved > 0.1).all()


edit_steps = st.lists(
    st.one_of(
        st.tuples(st.just("remove"), st.sampled_from(CONCEPTS), st.sampled_from(["rescale", "canonical", "impute"])),
        st.tuples(st.just("reweight"), st.sampled_from(CONCEPTS), st.sampled_from([0.3, 2.0])),
        st.tuples(st.just("simplify"), st.sampled_from([2, 5, 12]), st.booleans()),
        st.tuples(st.just("recalibrate")),
        st.tuples(st.just("restore"), st.one_of(st.none(), st.sampled_from(CONCEPTS))),
    ),
    max_size=5,
)


def take_step(clf, step):
    kind, *given = step
    try:
        if kind == "remove":
            return clf.remove_concepts(given[0], mode=given[1])
        if kind == "reweight":
            return clf.reweight_concepts({given[0]: given[1]})
        if kind == "simplify":
            return clf.simplify(given[0], classes=given[1], note="shorter")
        return clf.recalibrate(scores()) if kind == "recalibrate" else clf.restore(given[0])
    except ChoqolateError:
        return clf


def outputs(clf):
    return clf.class_scores(scores()), clf.transform(scores()), clf.node_attributions_, clf.class_attributions_


@settings(max_examples=40)
@given(forms, edit_steps)
def test_any_order_of_edits_is_undone_restored_saved_and_applied_exactly(tmp_path_factory, form, several):
    clf = fitted(form)
    folder = tmp_path_factory.mktemp("model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallRemainderWarning)
        edited = functools.reduce(take_step, several, clf)
        for values in outputs(edited):
            assert np.isfinite(values).all()
        assert (edited.simplification_ is None) == (
            not any(isinstance(e, Simplify) for e in edited.network_.edits_in_force)
        )
        edited.save(folder / "model")
        others = [cq.load(folder / "model")]
        if edited.edits_:
            cq.save_edits(edited, folder / "edits.json")
            others.append(clf.apply_edits(folder / "edits.json"))
            assert edited.undo().edits_ == edited.edits_[:-1]
        for other in others:
            for mine, its in zip(outputs(edited), outputs(other), strict=True):
                np.testing.assert_array_equal(mine, its)
        for mine, its in zip(outputs(edited.restore()), outputs(clf), strict=True):
            np.testing.assert_array_equal(mine, its)


@settings(max_examples=25)
@given(forms, seeds, st.sampled_from(["rescale", "canonical", "impute"]), st.integers(2, 8))
def test_removal_and_simplification_in_either_order(form, seed, mode, max_terms):
    clf = some_model(form, seed, 1.5)
    try:
        one = quietly(lambda: clf.remove_concepts("sea", mode=mode).simplify(max_terms))
        other = quietly(lambda: clf.simplify(max_terms).remove_concepts("sea", mode=mode))
    except ChoqolateError:
        assume(False)
    sea = one.network_.inputs_of([CONCEPTS.index("sea")])
    for edited in (one, other):
        assert not edited.node_attributions_[:, sea].any()
        z = edited.scale(scores())
        moved = z.copy()
        moved[:, CONCEPTS.index("sea")] = 1 - z[:, CONCEPTS.index("sea")]
        np.testing.assert_array_equal(*(edited.network_.class_scores(edited.network_.as_inputs(x)) for x in (z, moved)))
    # what a removal lost is what it lost without the simplification that followed
    alone = quietly(lambda: clf.remove_concepts("sea", mode=mode)).removal_
    np.testing.assert_array_equal(one.removal_.mass_lost, alone.mass_lost)
    np.testing.assert_array_equal(one.removal_.shapley_lost, alone.shapley_lost)
    assert one.removal_.concepts == other.removal_.concepts == ("sea",)
    # of a simplified node, it is the weight of the terms that it had
    simple = clf.simplify(max_terms).network_.nodes
    gone = torch.zeros_like(simple.frozen)
    gone[:, sea] = True
    _, left = simple.capacity.without(gone, canonical=mode == "canonical")
    np.testing.assert_allclose(other.removal_.mass_retained, left, atol=1e-12)
    np.testing.assert_allclose(other.removal_.shapley_lost, simple.attributions()[:, sea].sum(1), atol=1e-12)


def test_a_removal_reports_no_loss_of_a_concept_that_a_simplification_dropped():
    simple = some_model("pairwise", 0, 1.5).simplify(max_terms=2)
    dropped = ~simple.node_attributions_.any(0)
    name = CONCEPTS[int(np.argmax(dropped))]
    assert dropped.any()
    removal = simple.remove_concepts(name).removal_
    for numbers in (removal.mass_lost, removal.shapley_lost, removal.shapley, removal.involved):
        np.testing.assert_allclose(numbers, 0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("recalibrated", [False, True])
def test_nothing_is_simplified_again_to_report_it(monkeypatch, recalibrated):
    clf = fitted("pairwise").simplify(max_terms=4, classes=True)
    clf = clf.recalibrate(scores()) if recalibrated else clf
    again = []
    monkeypatch.setattr("choqolate.network.fitted.simplify", lambda *inputs: again.append(inputs))
    assert clf.network_.simplification.terms.tolist() == [4, 4, 4]
    assert not again


def test_frozen_inputs_stay_at_their_means():
    clf = fitted("pairwise").remove_concepts(["sea", "forest"], mode="impute").simplify(max_terms=6)
    nodes = clf.network_.nodes
    assert isinstance(nodes.capacity, SparseCapacity)
    assert nodes.frozen[:, [4, 5]].all()
    u = clf.network_.as_inputs(clf.scale(scores()))
    seen = torch.where(nodes.frozen[0], nodes.means, u)
    torch.testing.assert_close(nodes.values(u), Nodes.unedited(nodes.capacity, nodes.means).values(seen))


def test_simplifying_what_is_short_enough_changes_no_bit():
    once = fitted("pairwise").simplify(max_terms=5)
    again = once.simplify(max_terms=5)
    for mine, its in zip(outputs(once), outputs(again), strict=True):
        np.testing.assert_array_equal(mine, its)
    assert again.simplification_.mass_dropped.tolist() == once.simplification_.mass_dropped.tolist()
    whole = fitted("none").simplify(max_terms=100)
    assert not whole.simplification_.mass_dropped.any()
    assert not whole.simplification_.bound.any()
    np.testing.assert_array_equal(whole.predict(scores()), fitted("none").predict(scores()))


def test_simplifications_in_a_row_are_one_step():
    clf = fitted("pairwise")
    two = clf.simplify(max_terms=20).recalibrate(scores()).simplify(max_terms=6)
    one = clf.simplify(max_terms=6)
    np.testing.assert_allclose(two.simplification_.mass_dropped, one.simplification_.mass_dropped, atol=1e-12)
    assert len(two.simplification_.edits) == 2
    np.testing.assert_array_equal(two.simplification_.terms_before, one.simplification_.terms_before)


def test_restoring_concepts_keeps_a_simplification_and_restoring_all_does_not():
    clf = fitted("pairwise").remove_concepts("sea").recalibrate(scores()).simplify(max_terms=5)
    back = clf.restore("sea")
    assert [str(edit) for edit in back.network_.edits_in_force] == ["simplified to 5 terms per node"]
    for mine, its in zip(outputs(back), outputs(fitted("pairwise").simplify(max_terms=5)), strict=True):
        np.testing.assert_array_equal(mine, its)
    assert not clf.restore().network_.is_edited
    with pytest.raises(ChoqolateError, match="nothing to restore"):
        back.restore("sea")


def test_edits_in_force_keep_simplifications_and_earlier_recalibrations():
    shift = Recalibrate((0.1, -0.1))
    history = [shift, Simplify(9), Remove(("sea",)), shift, Simplify(3), Reweight({"sea": 2.0}), Restore(("sea",))]
    assert edits_in_force(history) == (shift, Simplify(9), Simplify(3))
    assert edits_in_force([*history, Restore()]) == ()
    assert edits_in_force([Simplify(9), Remove(("sea", "oak")), Restore(("oak",))]) == (Simplify(9), Remove(("sea",)))


def test_a_certificate_is_about_the_simplification_alone():
    clf, X = fitted("pairwise"), scores()
    with pytest.raises(ChoqolateError, match="Call simplify first"):
        clf.certify(X)
    short = clf.remove_concepts("crest").simplify(max_terms=8)
    assert short.certify(X).rows == ROWS
    assert short.recalibrate(X).certify(X).rows == ROWS
    later = short.reweight_concepts({"sea": 0.5})
    with pytest.raises(ChoqolateError, match="removed or reweighted after it"):
        later.certify(X)
    assert later.simplification_.mass_dropped.tolist() == short.simplification_.mass_dropped.tolist()
    assert later.simplify(max_terms=3).certify(X).rows == ROWS


@pytest.mark.parametrize(
    "limit",
    [
        *({}, {"max_terms": 5, "mass": 0.9}, {"max_terms": 0}, {"max_terms": 2.5}, {"max_terms": True}),
        *({"mass": 0}, {"mass": 1.5}, {"mass": "most"}, {"mass": float("nan")}, {"mass": True}),
    ],
)
def test_a_simplification_has_one_sensible_limit(limit):
    with pytest.raises(ChoqolateError, match="Expected"):
        fitted("pairwise").simplify(**limit)


def test_edits_make_the_round_trip_through_json():
    for edit in (Simplify(10), Simplify(mass=0.95, classes=True)):
        assert edit_from_dict(edit.as_dict()) == edit
    with pytest.raises(ChoqolateError, match="unknown fields: nodes"):
        edit_from_dict({"edit": "simplify", "max_terms": 3, "nodes": [1]})
    with pytest.raises(ChoqolateError, match="either max_terms or mass"):
        edit_from_dict({"edit": "simplify"})


def test_free_weights_cannot_be_simplified():
    with pytest.raises(ChoqolateError, match="free weights"):
        fitted("free").simplify(max_terms=5)


def test_a_mass_that_takes_too_many_terms_is_refused(monkeypatch):
    monkeypatch.setattr("choqolate.network.simplification.MOST_TERMS", 10)
    for form in ("pairwise", "factored"):
        with pytest.raises(ChoqolateError, match="needs more to keep 100% of its weight"):
            fitted(form).simplify(mass=1.0)
        assert fitted(form).simplify(max_terms=20).simplification_.terms.max() == 20


def test_a_removal_of_all_that_a_simplified_node_has_is_refused():
    clf = fitted("one layer").simplify(max_terms=1)
    inputs = clf.network_.nodes.capacity
    names = {CONCEPTS[j] for j in (*inputs.first.tolist(), *inputs.second.tolist())}
    with pytest.raises(ChoqolateError, match="made of the removed concepts alone"):
        clf.remove_concepts(names)


def test_the_report_is_a_small_table():
    found = fitted("pairwise").simplify(max_terms=5).simplification_
    lines = str(found).splitlines()
    assert lines[0].split() == ["node", "terms", "before", "terms", "weight", "dropped"]
    assert lines[1].split()[:3] == ["0", "36", "5"]
    assert lines[-1] == f"no class score moves by more than {found.bound.max():.4f}"
    assert "at most 5 terms per node" in repr(found)


@pytest.mark.parametrize("form", SIMPLE)
def test_everything_that_reads_a_model_reads_a_simplified_one(form):
    X, groups, y = bird_scores(ROWS, agreement=0.7)  # the labels are the groups, and the other way round
    clf = fitted(form).simplify(max_terms=3)
    why = clf.explain(X[:4])
    np.testing.assert_allclose(why.concept_to_node.sum(2), clf.transform(X[:4]) - why.node_baseline, atol=1e-12)
    np.testing.assert_allclose(why.concept_to_class.sum(2), clf.class_scores(X[:4]) - why.class_baseline, atol=1e-9)
    whole = cq.explain_model(clf, X)
    np.testing.assert_allclose(whole.node_attributions.sum(1), 1)
    impact = clf.removal_impact(X, y, groups)
    for concept in CONCEPTS:
        try:
            accuracy = quietly(lambda name=concept: clf.remove_concepts(name)).score(X, y)
        except ChoqolateError:
            accuracy = np.nan
        assert impact.loc[concept, "accuracy"] == pytest.approx(accuracy, nan_ok=True)
    assert str(cq.find_counterfactual(clf, X[:1]))
    assert cq.explain_change(fitted(form), clf).removal is None
