"""Formulas evaluate to what they are formulas of, and read well."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import choqolate as cq
from choqolate.errors import ChoqolateError, SmallRemainderWarning
from choqolate.explain.formulas import Formula, Term
from choqolate.integral import Terms
from tests.network.test_simplification import SIMPLE, fitted, scores, some_model
from tests.small_tables import CONCEPTS, FORMS

CLASSES = ["landbird on land", "landbird on water", "waterbird on land", "waterbird on water"]
EDITS = {
    "none": lambda clf: clf,
    "rescale": lambda clf: clf.remove_concepts("sea"),
    "impute": lambda clf: clf.remove_concepts(["sea", "crest"], mode="impute").remove_concepts(
        "forest", mode="impute", nodes=[1]
    ),
    "simplify": lambda clf: clf.simplify(max_terms=5, classes=True),
    "impute, simplify": lambda clf: clf.remove_concepts("crest", mode="impute").simplify(mass=0.8),
    "recalibrate": lambda clf: clf.reweight_concepts({"sea": 0.3}).recalibrate(scores()),
}


def edited_model(form, seed, spread, edit):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallRemainderWarning)
        return EDITS[edit](some_model(form, seed, spread))


@settings(max_examples=50)
@given(st.sampled_from(SIMPLE), st.integers(0, 2**31), st.sampled_from([0.3, 1.5, 4.0]), st.sampled_from(list(EDITS)))
def test_formulas_evaluate_to_the_values_of_nodes_and_classes(form, seed, spread, edit):
    clf = edited_model(form, seed, spread, edit)
    z = clf.scale(scores())
    values = clf.network_.node_values(clf.network_.as_inputs(z)).numpy()
    formulas = clf.formulas(max_terms=None)
    expected = clf.class_scores(scores()) if clf.one_layer_ else values
    assert len(formulas) == values.shape[1]
    for n, formula in enumerate(formulas):
        np.testing.assert_allclose(formula.evaluate(z), expected[:, n], rtol=0, atol=1e-12)
        assert (formula.n_rest, formula.rest) == (0, 0.0)
    inputs = z if clf.one_layer_ else values
    for r, formula in enumerate(clf.formulas(max_terms=None, layer="classes")):
        np.testing.assert_allclose(formula.evaluate(inputs), clf.class_scores(scores())[:, r], rtol=0, atol=1e-12)


@settings(max_examples=25)
@given(st.sampled_from(SIMPLE), st.integers(0, 2**31), st.sampled_from([0.3, 4.0]), st.integers(1, 12))
def test_a_short_formula_is_at_most_the_weight_of_the_rest_below(form, seed, spread, max_terms):
    clf = some_model(form, seed, spread)
    z = clf.scale(scores())
    values = clf.network_.node_values(clf.network_.as_inputs(z)).numpy()
    for n, formula in enumerate(clf.formulas(max_terms)):
        assert len(formula) == min(max_terms, len(clf.formulas(None)[n]))
        weights = [term.weight for term in formula]
        assert weights == sorted(weights, reverse=True)
        assert sum(weights) + formula.rest == pytest.approx(1)
        gap = values[:, n] - formula.evaluate(z)
        assert (gap >= -1e-12).all()
        assert (gap <= formula.rest + 1e-12).all()


def parsed(line, names):
    """Weights by expression of a printed formula, read by a regular expression."""
    subject, _, right = line.partition(" = ")
    return subject, {what: float(weight) for weight, what in re.findall(r"(\d\.\d+) ([^+]+?)(?: \+ |$)", right)}


def test_a_printed_formula_says_what_the_weights_are():
    clf = some_model("pairwise", 1, 4.0)
    a, b, c = (part[2].tolist() for part in clf.network_.nodes.capacity.weights())
    known = dict(zip(CONCEPTS, a, strict=True))
    for index, (j, l) in enumerate(torch.triu_indices(6, 6, 1).T.tolist()):
        known[f"min({CONCEPTS[j]}, {CONCEPTS[l]})"] = b[index]
        known[f"max({CONCEPTS[j]}, {CONCEPTS[l]})"] = c[index]
    lines = str(clf.formulas(max_terms=4)).splitlines()
    assert len(lines) == 3
    subject, terms = parsed(lines[2], CONCEPTS)
    assert subject == "node 2"
    rest = {what: terms.pop(what) for what in list(terms) if "smaller" in what}
    heaviest = sorted(known.items(), key=lambda pair: -pair[1])
    assert list(terms) == [what for what, _ in heaviest[:4]]
    for what, weight in terms.items():
        assert weight == pytest.approx(known[what], abs=0.0051)
    assert list(rest) == ["(32 smaller terms)"]
    assert rest["(32 smaller terms)"] == pytest.approx(sum(weight for _, weight in heaviest[4:]), abs=0.0051)


def formula_of(terms, names=("woods", "parkland", "lake"), **more):
    first, second, is_max, weight = zip(*terms, strict=True)
    arrays = Terms(*map(torch.tensor, (first, second, is_max)), torch.tensor(weight, dtype=torch.float64))
    return Formula("node 3", tuple(names), arrays, **{"n_rest": 0, "rest": 0.0, "fixed": {}} | more)


def test_how_formulas_read():
    terms = [(0, 0, False, 0.62), (0, 1, False, 0.24), (1, 2, True, 0.1)]
    assert str(formula_of(terms, n_rest=12, rest=0.04)) == (
        "node 3 = 0.62 woods + 0.24 min(woods, parkland) + 0.10 max(parkland, lake) + 0.04 (12 smaller terms)"
    )
    short = formula_of(terms, n_rest=1, rest=0.04)
    assert short.text(1) == "node 3 = 0.62 woods + 0.38 (3 smaller terms)"
    assert short.text(1, show=str.upper) == "NODE 3 = 0.62 WOODS + 0.38 (3 smaller terms)"
    frozen = formula_of(terms, fixed={1: 0.4211})
    assert str(frozen) == "node 3 = 0.62 woods + 0.24 min(woods, 0.42) + 0.10 max(0.42, lake)"
    assert str(formula_of([(1, 1, False, 1.0)], fixed={1: 0.4211})) == "node 3 = 0.42 (frozen concepts)"
    several = formula_of([*terms, (1, 1, False, 0.04), (1, 2, False, 0.5)], fixed={1: 0.42, 2: 0.3})
    assert (
        str(several) == "node 3 = 0.62 woods + 0.24 min(woods, 0.42) + 0.21 (frozen concepts)"
    )  # 0.042 + 0.0168 + 0.15
    odd = formula_of([(0, 1, False, 0.9), (0, 0, False, 0.1)], ("bill (long)", "cat, dog"))
    assert str(odd) == "node 3 = 0.90 min('bill (long)', 'cat, dog') + 0.10 'bill (long)'"
    shifted = formula_of([(0, 0, False, 0.996), (1, 1, False, 0.004)], shift=-0.0312)
    assert str(shifted) == "node 3 = 1.00 woods + 0.004 parkland − 0.03 (shift)"
    signed = formula_of([(0, 0, False, -1.5), (1, 1, False, 0.5)])
    assert str(signed) == "node 3 = − 1.50 woods + 0.50 parkland"
    tiny = formula_of([(0, 0, False, 0.9996), (1, 1, False, 0.0003), (0, 1, True, 0.0001)], n_rest=5, rest=1e-6)
    assert str(tiny) == "node 3 = 1.00 woods + <0.001 (7 smaller terms)"
    assert len(tiny) == 3
    assert list(short) == [
        Term(0.62, "input", ("woods",)),
        Term(0.24, "min", ("woods", "parkland")),
        Term(0.1, "max", ("parkland", "lake")),
    ]
    assert str(short[1]) == "0.24 min(woods, parkland)"
    assert str(signed[0]) == "− 1.50 woods"
    assert str(Term(-0.0001, "max", ("woods", "lake"))) == "− <0.001 max(woods, lake)"
    assert repr(short) == "Formula(node 3, 3 terms, 1 smaller one)"


def test_names_of_absences_and_of_nodes_and_classes():
    assert any("not " in line for line in str(some_model("bipolar", 0, 1.5).formulas(20)).splitlines())
    lines = str(fitted("pairwise").formulas(layer="classes")).splitlines()
    assert [line.split(" = ")[0] for line in lines] == CLASSES
    assert "node 0" in lines[0]
    assert [formula.subject for formula in fitted("one layer").formulas()] == CLASSES
    assert [formula.subject for formula in fitted("pairwise").formulas()[1:]] == ["node 1", "node 2"]
    assert fitted("pairwise").formulas()[-1].subject == "node 2"


def test_free_weights_have_formulas_with_signs():
    clf = fitted("free")
    z = clf.scale(scores())
    values = clf.transform(scores())
    for n, formula in enumerate(clf.formulas(None)):
        np.testing.assert_allclose(formula.evaluate(z), values[:, n], rtol=0, atol=1e-12)
    assert " − " in str(clf.formulas(None))


def test_without_nodes_formulas_have_the_shift_of_a_recalibration():
    clf = edited_model("one layer", 1, 1.5, "recalibrate")
    assert clf.network_.class_shift.any()
    for r, formula in enumerate(clf.formulas(max_terms=None)):
        assert formula.shift == clf.network_.class_shift[r]
        np.testing.assert_allclose(
            formula.evaluate(clf.scale(scores())), clf.class_scores(scores())[:, r], rtol=0, atol=1e-12
        )


def test_what_does_not_fit_is_refused(monkeypatch):
    clf = fitted("pairwise")
    with pytest.raises(ChoqolateError, match="layer"):
        clf.formulas(layer="concepts")
    with pytest.raises(ChoqolateError, match="max_terms"):
        clf.formulas(0)
    with pytest.raises(IndexError):
        clf.formulas()[3]
    with pytest.raises(ChoqolateError, match=r"values of 6 inputs in each row but got shape \(2, 3\)"):
        clf.formulas()[0].evaluate(np.zeros((2, 3)))
    monkeypatch.setattr("choqolate.explain.formulas.MOST_TERMS", 10)
    with pytest.raises(ChoqolateError, match=r"node 0 has 36\. Use max_terms"):
        clf.formulas(None)[0]
    assert len(clf.formulas(3)[0]) == 3


def test_many_concepts_take_no_object_per_term():
    X = np.random.default_rng(0).random((30, 1_500))
    clf = cq.ChoqolateClassifier(n_nodes=2, interactions="factored", epochs=1).fit(X, X[:, 0] > 0.5)
    formula = clf.formulas(5)[0]
    assert len(formula) == 5
    assert formula.n_rest == 1_500**2 - 5
    assert set(FORMS) > set(SIMPLE)
