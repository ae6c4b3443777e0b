"""What tables say about the training of their methods."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from choqolate import ChoqolateWarning, ConceptScores
from choqolate.analysis.interval_text import share_text
from choqolate.experiments import COMPARISON, Options, find_experiment, reproduce
from choqolate.experiments.engine.experiment import Runs, RunSetting
from choqolate.experiments.engine.results import Run
from choqolate.experiments.engine.sources import table_source
from choqolate.experiments.engine.training_notes import unfinished
from choqolate.metrics import Proportion
from tests.experiments.test_tuning import bird_table

FEW = {"n_nodes": 2, "epochs": 2}


class Particular(BaseEstimator):
    """A method of one's own that cannot be trained with one of its settings."""

    title = "Particular"
    tuning_grid = {"C": [1.0, -1.0]}  # noqa: RUF012

    def __init__(self, C=1.0, random_state=0):
        self.C, self.random_state = C, random_state

    def fit(self, X, y):
        self.model_ = LogisticRegression(C=self.C).fit(X, y)
        self.node_attributions_ = np.eye(X.shape[1])
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def transform(self, X):
        return np.asarray(X)


PARTICULAR = "tests.experiments.test_training_notes:Particular"


def made(names, source, folder, methods, **options):
    found = reproduce(
        [find_experiment(name) for name in names] if names else [COMPARISON],
        {source.name: source},
        folder,
        seeds=2,
        options=Options(methods, parameters=FEW, **options),
        processes=1,
        verbose=False,
    )
    return {one.experiment.name: one for one in found}


@pytest.fixture
def source(tmp_path):
    bird_table().save(tmp_path / "own.parquet")
    return table_source(tmp_path / "own.parquet")


def test_every_table_of_methods_says_what_was_chosen_and_which_settings_failed(source, tmp_path):
    with pytest.warns(ChoqolateWarning, match="Particular is tuned without 1 of 2 settings"):
        done = made(["accuracy", "quality", "nodes"], source, tmp_path / "out", ("choqolate", PARTICULAR))
    for one in done.values():
        notes = " ".join(one.shown.notes)
        assert re.search(r"Chosen on \d+ validation rows: Particular: C 1 \(without 1 of 2", notes)
        assert notes.count("Particular: C 1") == 1


def test_what_is_trained_without_spurious_concepts_is_told_apart(tmp_path):
    replace(bird_table(), spurious=("sea", "forest")).save(tmp_path / "own.parquet")
    source = table_source(tmp_path / "own.parquet")
    with pytest.warns(ChoqolateWarning, match="Particular is tuned without"):
        done = made(["mitigation"], source, tmp_path / "out", ("choqolate", PARTICULAR))
    notes = " ".join(done["mitigation"].shown.notes)
    assert "Particular: C 1 (" in notes
    assert "Particular without the spurious concepts: C 1 (" in notes


def test_units_are_read_twice_in_the_sweep_over_nodes(source, tmp_path):
    done = made(["nodes"], source, tmp_path / "out", ("choqolate", "pscbm"), quick=True)["nodes"]
    (table,) = (pd.read_csv(path) for path in done.files if path.name == "nodes.csv")
    methods = table["Method"].tolist()
    assert methods == ["CHOQOLATE", "PSCBM", "PSCBM, over scores"] * 3
    assert "The nodes of PSCBM weight concept units" in " ".join(done.shown.notes)


def test_methods_that_were_still_falling_or_lost_are_named():
    def runs(method, decreases, lost):
        values = zip(decreases, lost, strict=True)
        found = [
            Run({}, seed, {"late_decrease": one, "went_back": back}, 1.0, 1, {})
            for seed, (one, back) in enumerate(values)
        ]
        return Runs(RunSetting(method), tuple(found))

    said = unfinished(
        {1: runs("pcbm", (0.02, 0.03, -5.0), (0, 0, 1)), 2: runs("choqolate", (0.001, 0.002), (None, None))}
    )
    assert "PCBM by 2.0%." in said
    assert "PCBM in 1 of 3 runs" in said
    assert "CHOQOLATE" not in said


@pytest.mark.parametrize("n_concepts", [3, 4])
def test_few_concepts_leave_the_tables_and_one_panel(tmp_path, n_concepts):
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(80) < 0.5, "gull", "wren")
    names = list("abcd")[:n_concepts]
    ConceptScores(rng.random((80, n_concepts)), names, labels=labels).save(tmp_path / "few.parquet")
    done = made([], table_source(tmp_path / "few.parquet"), tmp_path / "out", ("choqolate", "pcbm"))["compare"]
    assert {"comparison.csv", "comparison-concepts.csv", "comparison-concepts.png"} <= {one.name for one in done.files}
    assert f"takes at least 5 concepts, but the table has {n_concepts}." in " ".join(done.shown.notes)


@pytest.mark.parametrize("n_test", [6, 60])
def test_a_comparison_says_what_its_test_rows_can_tell(tmp_path, n_test):
    table = bird_table()
    test, train = table.part("test").take(range(n_test)), table.part("train")
    groups = np.where(np.arange(n_test) < 4, "four", "common").astype(object)
    rows = ConceptScores(
        np.concatenate([train.scores, test.scores]),
        table.concepts,
        labels=[*train.labels, *test.labels],
        split=["train"] * len(train) + ["test"] * n_test,
        groups=["common"] * len(train) + groups.tolist(),
    )
    rows.save(tmp_path / "own.parquet")
    done = made([], table_source(tmp_path / "own.parquet"), tmp_path / "out", ("choqolate",))
    notes = " ".join(note for one in done.values() for note in one.shown.notes)
    if n_test == 6:
        assert "the same 6 test rows of own: too few to tell" in notes
        return
    values, counts = np.unique(train.labels, return_counts=True)
    majority = values[counts.argmax()]
    share = Proportion(int((test.labels == majority).sum()), n_test)
    assert f"Always predicting “{majority}” is right on {share_text(share)}" in notes
    assert "reaches up to ± 12.3 points" in notes
    assert "too small to tell: four (4 images); the worst group may be one of them" in notes
