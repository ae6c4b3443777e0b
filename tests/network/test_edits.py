"""Edits as history: what each does, that undo is exact, and that nothing is lost on the way to the disk and back."""

from __future__ import annotations

import functools
import itertools
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import choqolate as cq
from choqolate.errors import ChoqolateError, SmallRemainderWarning
from choqolate.network.edits import Note, Recalibrate, Remove, Restore, Reweight
from tests.small_tables import CONCEPTS, FORMS, bird_scores

ROWS = 60


@functools.cache
def fitted(form: str) -> cq.ChoqolateClassifier:
    X, y, _ = bird_scores(ROWS)
    return cq.ChoqolateClassifier(**{"n_nodes": 3, "epochs": 5} | FORMS[form]).fit(X, y)


@functools.cache
def scores():
    return bird_scores(ROWS)[0]


def outputs(clf):
    """Everything that a prediction is made of."""
    return clf.class_scores(scores()), clf.transform(scores()), clf.node_attributions_


def assert_same_bits(one, other):
    for left, right in zip(outputs(one), outputs(other), strict=True):
        np.testing.assert_array_equal(left, right)


forms = st.sampled_from(list(FORMS))
names = st.lists(st.sampled_from(CONCEPTS), min_size=1, max_size=3, unique=True)
nodes = st.one_of(st.none(), st.lists(st.integers(0, 1), min_size=1, max_size=2, unique=True))
factors = st.dictionaries(st.sampled_from(CONCEPTS), st.sampled_from([0.0, 0.3, 1.0, 2.5]), min_size=1, max_size=3)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("remove"), names, nodes, st.sampled_from(["rescale", "canonical", "impute"])),
        st.tuples(st.just("reweight"), factors, nodes),
        st.tuples(st.just("recalibrate")),
        st.tuples(st.just("restore"), st.one_of(st.none(), names)),
    ),
    max_size=5,
)


def take_step(clf, step):
    """One edit; the model as it is if that edit is not possible."""
    kind, *given = step
    try:
        if kind == "remove":
            return clf.remove_concepts(given[0], nodes=given[1], mode=given[2], note="a reason")
        if kind == "reweight":
            return clf.reweight_concepts(given[0], nodes=given[1])
        return clf.recalibrate(scores()) if kind == "recalibrate" else clf.restore(given[0])
    except ChoqolateError:
        return clf


@settings(max_examples=25)
@given(forms, names, nodes)
def test_reweighting_by_zero_is_rescale_removal_bit_for_bit(form, names, nodes):
    clf = fitted(form)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallRemainderWarning)
        removed, reweighted = (
            clf.remove_concepts(names, nodes=nodes),
            clf.reweight_concepts(dict.fromkeys(names, 0.0), nodes=nodes),
        )
    assert_same_bits(removed, reweighted)
    assert removed.removal_.concepts == reweighted.removal_.concepts
    np.testing.assert_array_equal(removed.removal_.mass_retained, reweighted.removal_.mass_retained)


@settings(max_examples=15)
@given(forms, names, nodes)
def test_reweighting_by_one_changes_nothing(form, names, nodes):
    clf = fitted(form)
    assert_same_bits(clf.reweight_concepts(dict.fromkeys(names, 1.0), nodes=nodes), clf)


@settings(max_examples=20)
@given(st.lists(st.floats(0, 4), min_size=len(CONCEPTS), max_size=len(CONCEPTS)).filter(lambda s: sum(s) > 0.1))
def test_every_term_is_multiplied_by_the_factors_of_its_concepts(s):
    clf = fitted("pairwise")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallRemainderWarning)
        edited = clf.reweight_concepts(dict(zip(CONCEPTS, s, strict=True)))
    a, b, c = clf.network_.nodes.capacity.weights()
    j, l = torch.triu_indices(len(CONCEPTS), len(CONCEPTS), 1)
    s = torch.tensor(s, dtype=torch.float64)
    expected = [a * s, b * s[j] * s[l], c * s[j] * s[l]]
    total = sum(part.sum(1, keepdim=True) for part in expected)
    for weights, part in zip(edited.network_.nodes.capacity.weights(), expected, strict=True):
        torch.testing.assert_close(weights, part / total, rtol=1e-12, atol=1e-14)


def test_a_smaller_factor_makes_a_concept_count_less_and_a_larger_one_more():
    clf, sea = fitted("pairwise"), CONCEPTS.index("sea")
    shares = [clf.reweight_concepts({"sea": factor}).node_attributions_[:, sea] for factor in (0.0, 0.3, 1.0, 3.0)]
    for less, more in itertools.pairwise(shares):
        assert (less < more).all()


@settings(max_examples=30)
@given(forms, steps)
def test_undo_is_exact(form, several):
    clf = fitted(form)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallRemainderWarning)
        states = [clf]
        for step in several:
            states.append(take_step(states[-1], step))
        current = states[-1]
        for before in reversed(states[:-1]):
            if len(current.edits_) > len(before.edits_):
                current = current.undo()
            assert current.edits_ == before.edits_
            assert_same_bits(current, before)
    assert not current.edits_


@settings(max_examples=20)
@given(form=forms, several=steps)
def test_a_saved_model_keeps_its_history_to_the_last_bit(tmp_path_factory, form, several):
    folder = tmp_path_factory.mktemp("model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallRemainderWarning)
        edited = functools.reduce(take_step, several, fitted(form))
        edited.save(folder)
        back = cq.load(folder)
        assert back.edits_ == edited.edits_
        assert_same_bits(back, edited)
        assert_same_bits(back.restore(), fitted(form))


@settings(max_examples=20)
@given(form=forms, several=steps.filter(len))
def test_edits_of_a_file_reproduce_predictions_bit_for_bit(tmp_path_factory, form, several):
    file = tmp_path_factory.mktemp("edits") / "edits.json"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallRemainderWarning)
        edited = functools.reduce(take_step, several, fitted(form))
        if not edited.edits_:
            with pytest.raises(ChoqolateError, match="has none"):
                cq.save_edits(edited, file)
            return
        cq.save_edits(edited, file)
        again = fitted(form).apply_edits(file)
    assert again.edits_ == edited.edits_
    assert_same_bits(again, edited)


def test_history_says_what_was_done_in_which_state():
    edited = (
        fitted("pairwise")
        .remove_concepts("sea", recalibrate=scores(), note=Note("Ada", reason="background"))
        .reweight_concepts({"forest": 0.5})
        .restore("sea")
    )
    assert [type(edit) for edit in edited.edits_] == [Remove, Recalibrate, Reweight, Restore]
    removal, recalibration, _, _ = edited.edits_
    assert removal.note.author == "Ada"
    assert removal.note.time.endswith("+00:00")
    assert removal.note.reviewed is None
    assert recalibration.rows == ROWS
    assert len(recalibration.fingerprint) == 64
    assert [str(edit) for edit in edited.edits_] == [
        "removed 'sea' (rescale)",
        f"recalibrated on {ROWS} rows",
        "reweighted 'forest' by 0.5",
        "restored 'sea'",
    ]
    assert edited.removal_.concepts == ()
    assert edited.removal_.reweighted == {"forest": (0.5, 0.5)}


def test_restoring_everything_takes_the_shift_along():
    clf = fitted("pairwise")
    edited = clf.remove_concepts("sea").reweight_concepts({"crest": 2.0}).recalibrate(scores())
    assert edited.class_shift_.any()
    assert edited.restore("sea").class_shift_.any()
    back = edited.restore(["sea", "crest"])
    assert not back.class_shift_.any()
    assert back.removal_ is None
    assert_same_bits(back, clf)
    assert_same_bits(back.undo(), edited)


def test_a_recalibration_takes_the_place_of_an_earlier_one():
    clf = fitted("pairwise").remove_concepts("sea")
    once, twice = clf.recalibrate(scores()), clf.recalibrate(scores()).recalibrate(scores())
    np.testing.assert_array_equal(once.class_shift_, twice.class_shift_)
    assert len(twice.edits_) == 3


def test_the_report_names_removed_and_reweighted_concepts():
    removal = fitted("pairwise").remove_concepts("sea").reweight_concepts({"forest": 0.5, "crest": 0.0}).removal_
    assert removal.concepts == ("sea", "crest")
    assert removal.reweighted == {"forest": (0.5, 0.5)}
    assert removal.shapley.shape == (3, 2)
    assert "reweighted: forest by 0.5" in str(removal)
    assert repr(removal).startswith("Removal(2 concepts removed, 1 reweighted; nodes keep ")


def test_the_weight_that_a_node_keeps_is_that_of_its_terms_before_rescaling():
    clf = fitted("none")
    a = clf.network_.nodes.capacity.a.numpy()
    kept = 1 - 0.75 * a[:, CONCEPTS.index("sea")]
    np.testing.assert_allclose(clf.reweight_concepts({"sea": 0.25}).removal_.mass_retained, kept, rtol=1e-12)
    gained = 1 + 2 * a[:, CONCEPTS.index("sea")]
    np.testing.assert_allclose(clf.reweight_concepts({"sea": 3.0}).removal_.mass_retained, gained, rtol=1e-12)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda clf: clf.reweight_concepts({"moon": 0.5}), "moon"),
        (lambda clf: clf.reweight_concepts({"sea": -0.5}), "factor from 0 to 1,000,000 for 'sea', got -0.5"),
        (lambda clf: clf.reweight_concepts({"sea": float("nan")}), "factor from 0 to 1,000,000"),
        (lambda clf: clf.reweight_concepts({"sea": True}), "factor from 0 to 1,000,000"),
        (lambda clf: clf.reweight_concepts(["sea"]), "such as {'sea': 0.3}"),
        (lambda clf: clf.reweight_concepts({}), "at least one concept"),
        (lambda clf: clf.reweight_concepts(dict.fromkeys(CONCEPTS, 0.0)), "without any concept"),
        (lambda clf: clf.reweight_concepts({"sea": 0.5}, nodes=9), "nodes from 0 to 2"),
        (lambda clf: clf.undo(), "nothing to undo"),
        (lambda clf: clf.remove_concepts("sea", note=7), "a Note, or the reason as text"),
        (lambda clf: clf.remove_concepts("sea").restore("forest"), "removed or reweighted were 'sea'"),
        (lambda clf: Note(reviewed="yes"), "reviewed of a note"),
    ],
)
def test_mistakes_are_named(edit, message):
    with pytest.raises(ChoqolateError, match=message):
        edit(fitted("pairwise"))


def test_an_edit_leaves_the_model_alone():
    clf = fitted("pairwise")
    before = [array.copy() for array in outputs(clf)]
    clf.remove_concepts("sea").recalibrate(scores())
    clf.reweight_concepts({"sea": 0.1})
    for array, same in zip(outputs(clf), before, strict=True):
        np.testing.assert_array_equal(array, same)
    assert clf.edits_ == ()


def test_a_note_can_be_given_later():
    edited = fitted("pairwise").remove_concepts("sea").remove_concepts("forest")
    noted = edited.annotate_edit(0, Note("Grace", reason="checked on new images", reviewed=True))
    assert noted.edits_[0].note.reviewed
    assert noted.edits_[1] == edited.edits_[1]
    assert_same_bits(noted, edited)
    with pytest.raises(ChoqolateError, match="edit from 0 to 1, got 2"):
        edited.annotate_edit(2, "why")


def test_factors_are_told_node_by_node():
    clf = fitted("pairwise")
    edited = clf.reweight_concepts({"sea": 2.0}, nodes=0).reweight_concepts({"sea": 3.0}, nodes=1)
    assert edited.removal_.reweighted == {"sea": (2.0, 3.0)}
    assert "reweighted: sea by 2 to 3" in str(edited.removal_)
    both = clf.remove_concepts("sea", nodes=0).reweight_concepts({"sea": 3.0}, nodes=1)
    assert (both.removal_.concepts, both.removal_.reweighted) == (("sea",), {"sea": (3.0, 3.0)})


def test_the_largest_factors_give_finite_numbers():
    edited = fitted("pairwise").reweight_concepts(dict.fromkeys(CONCEPTS[:3], 1e6))
    assert np.isfinite(edited.predict_proba(scores())).all()


def test_restoring_the_last_concept_keeps_a_recalibration_from_before_its_removal():
    clf = fitted("pairwise")
    shifted = clf.recalibrate(scores())
    assert_same_bits(shifted.remove_concepts("sea").restore("sea"), shifted)
    later = shifted.remove_concepts("sea").recalibrate(scores())
    assert_same_bits(later.restore("sea"), shifted)
    assert_same_bits(later.restore(), clf)


def test_restoring_nothing_can_still_recalibrate():
    clf = fitted("pairwise")
    assert_same_bits(clf.restore(recalibrate=scores()), clf.recalibrate(scores()))
    with pytest.raises(ChoqolateError, match="no edits to annotate"):
        clf.annotate_edit(0, "why")
    with pytest.raises(ChoqolateError, match="index of an edit from 0 to 0, got '0'"):
        clf.remove_concepts("sea").annotate_edit("0", "why")


def test_equal_edits_are_equal_and_can_be_hashed():
    assert Remove(["sea"], nodes=[0]) == Remove(("sea",), nodes=(0,))
    assert len({Reweight({"sea": 1}), Reweight({"sea": 1.0})}) == 1
    with pytest.raises(ChoqolateError, match="a list of concepts, got 'sea'"):
        Remove("sea")
