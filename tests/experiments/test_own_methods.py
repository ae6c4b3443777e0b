"""Estimators of one's own in a comparison: what they do wrong is said of them alone, and all others finish."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from choqolate import ChoqolateError, ConceptScores
from choqolate.experiments import COMPARISON, Options, reproduce
from choqolate.experiments.engine.measures import measuring
from choqolate.experiments.engine.methods import find_method
from choqolate.experiments.engine.sources import table_source
from tests.cli.test_data_commands import choqolate
from tests.experiments.test_comparison import Gridded
from tests.experiments.test_tuning import Halves, bird_table


class RaisesInPredict(Halves):
    def predict(self, X):
        raise KeyError("no")


class RaisesInTransform(Halves):
    def transform(self, X):
        if hasattr(self, "means_"):
            raise RuntimeError("not\ntoday")
        return super().transform(X)

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


class RaisesInFit(Halves):
    def fit(self, X, y):
        raise IndexError("out of luck")


class RaisesWhenCloned(Halves):
    def __init__(self, random_state=0, *others):
        super().__init__(random_state)


class PredictsIndices(Halves):
    def predict(self, X):
        return np.searchsorted(self.classes_, super().predict(X))


class PredictsProbabilities(Halves):
    def predict(self, X):
        return np.full((len(X), 2), 0.5)


class PredictsAList(Halves):
    def predict(self, X):
        return super().predict(X).tolist()


class AttributesAList(Halves):
    def fit(self, X, y):
        super().fit(X, y)
        self.node_attributions_ = self.node_attributions_.tolist()
        return self

    def transform(self, X):
        return np.asarray(X) @ np.asarray(self.node_attributions_).T


class AttributesTooMuch(Halves):
    def fit(self, X, y):
        super().fit(X, y)
        self.node_attributions_ = [[0.5] * 9] * 2
        return self


class AttributesWords(AttributesTooMuch):
    def fit(self, X, y):
        super().fit(X, y)
        self.node_attributions_ = [["sea"] * 6] * 2
        return self


class AttributesNothing(Halves):
    def fit(self, X, y):
        super().fit(X, y)
        self.kept_ = self.node_attributions_
        del self.node_attributions_
        return self


class CountsWrongly(Halves):
    @property
    def n_parameters_(self):
        raise ZeroDivisionError("by none")


class TransformsToNaN(Halves):
    def transform(self, X):
        return super().transform(X) * (np.nan if hasattr(self, "means_") else 1.0)

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


class WantsNames(Halves):
    """As scikit-learn's own estimators, but an error where those only warn."""

    def transform(self, X):
        if list(getattr(X, "columns", ())) != list(bird_table().concepts):
            raise TypeError("no names")
        return super().transform(X)


class TurnsClasses(Gridded):
    """The same as its base, but with its classes in another order."""

    def fit(self, X, y):
        super().fit(X, y)
        self.order_ = np.roll(np.arange(len(self.classes_)), 1)
        self.classes_ = self.classes_[self.order_]
        self.class_attributions_ = self.class_attributions_[self.order_]
        return self

    def predict_proba(self, X):
        return super().predict_proba(X)[:, self.order_]


class NamesNoClasses(Gridded):
    def fit(self, X, y):
        super().fit(X, y)
        del self.classes_
        return self


class KnowsOtherClasses(Gridded):
    def fit(self, X, y):
        super().fit(X, y)
        self.classes_ = ["landbird", "seabird"]
        return self


class AttributesOneClass(Gridded):
    def fit(self, X, y):
        super().fit(X, y)
        self.class_attributions_ = self.model_.coef_ @ self.node_attributions_.T
        return self


class ScoresOneClass(Gridded):
    def predict_proba(self, X):
        return super().predict_proba(X)[:, :1]


class ExitsInFit(Halves):
    def fit(self, X, y):
        sys.exit(3)


class RaisesInRemoval(Halves):
    def remove_concepts(self, names):
        raise NotImplementedError("later")


class RemovesNothing(Halves):
    def remove_concepts(self, names):
        pass


def named(kind):
    return f"{__name__}:{kind.__name__}"


def measured(kind, table):
    (models,) = find_method(named(kind)).train(table.part("train"), [0], [{}])
    return measuring(table)(models[0])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (CountsWrongly, "The n_parameters_ of {name} failed with ZeroDivisionError: by none"),
        (
            KnowsOtherClasses,
            "Expected classes_ of {name} to have every label that fit gets once. Missing: 'waterbird'. Unexpected: "
            "'seabird'.",
        ),
        (AttributesOneClass, "Expected class_attributions_ of {name} of shape (2, 2), but its shape is (1, 2)."),
        (
            ScoresOneClass,
            "Expected the predict_proba of {name} to give a matrix of shape (75, 2), but its shape is (75, 1).",
        ),
        (ExitsInFit, "The fit of {name} failed with SystemExit: 3"),
        (RaisesInFit, "The fit of {name} failed with IndexError: out of luck"),
        (RaisesWhenCloned, "The fit of {name} failed with RuntimeError: "),
        (RaisesInPredict, "The predict of {name} failed with KeyError: 'no'"),
        (RaisesInTransform, "The transform of {name} failed with RuntimeError: not\ntoday"),
        (
            PredictsIndices,
            "Expected the predict of {name} to give labels as it gets them in fit, such as 'landbird', 'waterbird', "
            "but it gives '0', '1'. Turn indices back into labels, for example with classes_[indices].",
        ),
        (
            PredictsProbabilities,
            "Expected the predict of {name} to give one label per row, shape (75,), but it gives shape (75, 2).",
        ),
        (
            AttributesTooMuch,
            "Expected {name} to have node_attributions_ of shape (nodes, 6) after fit, but its shape is (2, 9).",
        ),
        (
            AttributesWords,
            "Expected {name} to have node_attributions_ of shape (nodes, 6) after fit, but it holds other things than "
            "numbers, or rows that differ: could not convert string to float: 'sea'",
        ),
        (
            AttributesNothing,
            "Expected {name} to have node_attributions_ of shape (nodes, 6) after fit, but there is none.",
        ),
        (
            TransformsToNaN,
            "Expected the transform of {name} to give a matrix of shape (75, nodes), but 150 of its numbers are NaN or "
            "infinite.",
        ),
    ],
)
def test_what_an_estimator_does_wrong_is_said_in_a_sentence(kind, message):
    with pytest.raises(ChoqolateError) as raised:
        measured(kind, bird_table())
    assert str(raised.value).startswith(message.format(name=named(kind)))


@pytest.mark.parametrize("kind", [AttributesAList, PredictsAList])
def test_lists_do_as_well_as_arrays(kind):
    table = bird_table()
    assert measured(kind, table) == measured(Halves, table)


def test_predictions_are_asked_for_with_the_names_that_fit_got():
    table = bird_table()
    assert measured(WantsNames, table) == measured(Halves, table)


@pytest.mark.parametrize("kind", [TurnsClasses, NamesNoClasses])
def test_classes_are_in_the_order_that_the_estimator_says_or_sorted(kind):
    table = bird_table()
    table = ConceptScores(table.scores, table.concepts, labels=table.groups, split=table.split, spurious=("sea",))
    expected = measured(Gridded, table)
    assert expected["anec"] > 0.5  # of four classes
    assert expected["follows"] is not None
    assert measured(kind, table) == expected


def test_a_fitted_estimator_can_be_printed():
    ((model,),) = find_method(named(Halves)).train(bird_table().part("train"), [0], [{}])
    assert repr(model) == f"OwnModel({named(Halves)})"
    assert model.get_params() == {}


def test_numbers_as_labels_may_be_predicted_as_numbers():
    table = bird_table()
    numbered = type(table)(
        table.scores, table.concepts, labels=np.where(table.labels == "landbird", 0, 1), split=table.split
    )
    assert measured(PredictsIndices, numbered)["accuracy"] == measured(Halves, table)["accuracy"] > 0.6


BAD = (RaisesInPredict, RaisesInTransform, PredictsIndices, ExitsInFit, RaisesInRemoval, RemovesNothing)


def test_methods_that_fail_are_named_and_all_others_finish(tmp_path):
    """The command ends with an error, after everything else is written."""
    replace(bird_table(), spurious=("sea",)).save(tmp_path / "own.parquet")
    short = ["--seeds", 2, "--epochs", 2, "--nodes", 3, "--method", "choqolate", "--also", named(Halves)]
    bad = [word for kind in BAD for word in ("--also", named(kind))]
    said = choqolate("compare", tmp_path / "own.parquet", "-o", tmp_path / "out", *short, *bad, "--processes", 1)
    assert said.code == 2
    assert said.err.count("\n") == 1
    first, second = named(RaisesInPredict), named(RaisesInTransform)
    assert said.err.startswith(
        f"choqolate: RaisesInPredict on own failed: The predict of {first} failed with KeyError: 'no'. "
        f"RaisesInTransform on own failed: The transform of {second} failed with RuntimeError: not today. "
    )
    assert "PredictsIndices on own failed: Expected the predict of" in said.err
    assert f"The fit of {named(ExitsInFit)} failed with SystemExit: 3" in said.err
    assert f"The remove_concepts of {named(RaisesInRemoval)} failed with NotImplementedError: later" in said.err
    assert f"Expected remove_concepts of {named(RemovesNothing)} to return a fitted estimator" in said.err
    assert said.err.endswith("All other results are written.\n")
    table = pd.read_csv(tmp_path / "out" / "tables" / "comparison.csv").set_index("Method")
    assert table["Accuracy runs"].to_dict() == {
        "CHOQOLATE": 2,
        "Halves": 2,
        **{kind.__name__: 0 for kind in BAD},
    }
    again = choqolate("compare", tmp_path / "own.parquet", "-o", tmp_path / "out", *short, "--processes", 1)
    assert again.code == 0, again.err


def test_a_removal_that_is_not_there_is_said_and_no_failure(tmp_path):
    table = bird_table()
    replace(table, spurious=table.concepts).save(tmp_path / "own.parquet")
    source = table_source(tmp_path / "own.parquet")
    options = Options(("choqolate", named(Halves)), parameters={"n_nodes": 2, "epochs": 1}, controls=False)
    (done,) = reproduce(
        [COMPARISON], {source.name: source}, tmp_path / "out", seeds=1, options=options, processes=1, verbose=False
    )
    assert not done.failed
    removal = done.shown.tables["comparison-removal"]
    reasons = ("a node would be left without any concept", "no remove_concepts")
    for row, reason in zip(removal.rows, reasons, strict=True):
        notes = [cell.note for cell in row.cells]
        assert notes == [reason if "after" in column.name else None for column in removal.columns]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "./mine.py:Mine",
            r"without folders and \.py, such as mine:Mine, but got \./mine.py:Mine\. Modules are searched in the",
        ),
        ("mine.py:Mine", "such as mine:Mine"),
        ("nowhere.at_all:Mine", "No module named 'nowhere'. Modules are searched in the current folder, "),
        ("exits:Mine", "exits:Mine cannot: SystemExit: 2$"),
        ("lacks:Mine", "No module named 'nothing_like_it'$"),
    ],
)
def test_a_module_that_cannot_be_imported_is_said(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "exits.py").write_text("import sys\n\nsys.exit(2)\n")
    (tmp_path / "lacks.py").write_text("import nothing_like_it\n")
    with pytest.raises(ChoqolateError, match=message):
        find_method(name)
