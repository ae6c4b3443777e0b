"""The command simplify, and formulas in the output of fit and explain."""

from __future__ import annotations

import re

import numpy as np
import pytest

import choqolate as cq
from choqolate.analysis.interval_text import share_text
from choqolate.data.scores import ConceptScores
from choqolate.metrics import Proportion
from choqolate.network.edits import Simplify
from tests.cli.test_data_commands import choqolate as run_here
from tests.cli.test_model_commands import write_table


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a table and two models, one of them with names that take room."""
    folder = tmp_path_factory.mktemp("simplify")
    write_table(folder / "birds.parquet")
    write_table(folder / "unlabelled.parquet", labels=None, groups=None, split=None)
    table = ConceptScores.load(folder / "birds.parquet")
    cq.fit_scores(table, n_nodes=3, epochs=30, temperature=0.05).save(folder / "model")
    return folder


@pytest.fixture
def run(place, monkeypatch):
    monkeypatch.chdir(place)
    return run_here


def test_it_saves_shows_formulas_the_bound_and_the_certificate(place, run):
    done = run("simplify", "model", "-o", "short", "--terms", "5", "--scores", "birds.parquet", "--reason", "to print")
    assert (done.code, done.err) == (0, "")
    model, before = cq.load(place / "short"), cq.load(place / "model")
    edit = model.edits_[0]
    assert (edit.max_terms, edit.mass, edit.classes, edit.note.reason) == (5, None, False, "to print")
    found = model.simplification_
    flat = " ".join(done.out.split())
    for formula in model.formulas(None):
        assert str(formula) in flat
    for node, (terms, dropped) in enumerate(zip(found.terms_before, found.mass_dropped, strict=True)):
        assert re.search(rf"^{node} +{terms} +5 +{dropped:.2%}$", done.out, re.M)
    assert f"No class score moves by more than {found.bound.max():.4f} on any image." in flat
    test = ConceptScores.load(place / "birds.parquet").part("test")
    proof = model.certify(test)
    certified, same = (Proportion(int(mask.sum()), 50) for mask in (proof.certified, proof.unchanged))
    assert f"{certified.hits} of 50 rows provably keep their predicted class: {share_text(certified)}." in flat
    assert f"In fact, {same.hits} keep it: {share_text(same)}." in flat
    accuracies = [one.score(test.frame, test.labels) for one in (before, model)]
    assert re.search(r"accuracy +50 +{:.3f} +{:.3f} ".format(*accuracies), done.out)
    assert "choqolate explain short --scores birds.parquet" in done.out


def test_mass_and_classes(place, run):
    done = run("simplify", "model", "-o", "mass", "--mass", "0.9", "--classes")
    assert (done.code, done.err) == (0, "")
    model = cq.load(place / "mass")
    assert model.edits_[0] == Simplify(mass=0.9, classes=True)
    assert re.search(r"^second layer: at most \d terms \(before: 9\), up to ", done.out, re.M)
    assert "provably" not in done.out


def test_scores_without_labels_are_enough_for_a_certificate(place, run):
    done = run("simplify", "model", "-o", "plain", "--terms", "3", "--scores", "unlabelled.parquet")
    assert (done.code, done.err) == (0, "")
    assert "of 150 rows provably keep their predicted class" in done.out
    assert "accuracy" not in done.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "Expected either --terms or --mass. Pass one of them, such as --terms 10."),
        (["--terms", "3", "--mass", "0.9"], "Expected either --terms or --mass"),
        (["--terms", "0"], "Expected max_terms to be a whole number of at least 1, got 0."),
        (["--mass", "2"], "Expected mass to be a number above 0 and up to 1, such as 0.99, got 2.0."),
    ],
)
def test_mistakes_are_one_line(run, options, said):
    done = run("simplify", "model", "-o", "never", *options)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_simplified_model_is_shown_by_the_other_commands(place, run):
    cq.load(place / "model").simplify(max_terms=4).save(place / "again")
    for arguments in (["eval", "again", "birds.parquet"], ["explain", "again"], ["export", "again", "-o", "m.onnx"]):
        done = run(*arguments)
        assert done.code == 0
        assert "edited: simplified to 4 terms per node" in done.out
    cq.save_edits(cq.load(place / "again"), place / "edits.json")
    done = run("apply", "model", "edits.json", "-o", "applied")
    assert (done.code, done.err) == (0, "")
    assert "simplified to 4 terms per node" in done.out
    X = ConceptScores.load(place / "birds.parquet").frame
    np.testing.assert_array_equal(cq.load(place / "applied").class_scores(X), cq.load(place / "again").class_scores(X))


def test_fit_and_explain_show_formulas_that_fit_the_width(place, run):
    done = run("fit", "birds.parquet", "-o", "many", "--paper", "--nodes", "14", "--epochs", "3", "--runs", "1")
    lines = [line for line in done.out.splitlines() if re.match(r"node \d+ = ", line)]
    assert [line.split(" = ")[0] for line in lines] == [f"node {n}" for n in range(12)]
    assert "12 of 14 shown; choqolate explain many shows all" in done.out
    formulas = cq.load(place / "many").formulas()
    for width in (120, 50):
        said = run("explain", "many", width=width).out
        shown = said[said.index("node 0 = ") :].split("\n\n")[0]
        assert max(map(len, shown.splitlines())) <= width
        assert " ".join(shown.split()) == " ".join(formula.text(4) for formula in formulas)


def test_long_and_odd_names_are_cut_and_wrapped(place, run):
    names = ["x" * 200, "a\nb", "[red]web[/] :smile:", "bill, long", "sea", "forest"]
    write_table(place / "odd.parquet", concepts=names)
    done = run("fit", "odd.parquet", "-o", "odd", "--paper", "--nodes", "3", "--epochs", "3", "--runs", "1")
    assert done.code == 0
    done = run("simplify", "odd", "-o", "odd-short", "--terms", "36", width=60)
    assert done.code == 0
    assert "[red]web[/] :smile:" in done.out
    assert "a\\nb" in done.out
    assert "'bill, long'" in done.out
    assert "x" * 41 not in done.out
    formula_lines = done.out[: done.out.index("terms before")].splitlines()
    assert sum(line.startswith("node") for line in formula_lines) >= 3
    assert max(map(len, formula_lines)) <= 100  # two names of 40 and what stands around them
