"""Three concepts are chosen, measured and told as they should be."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("agg")

import matplotlib.pyplot as plt

from choqolate import ConceptScores
from choqolate.experiments import Options, find_experiment
from choqolate.experiments.engine import concept_figures
from choqolate.experiments.engine.concept_figures import most_correlated, shared_diagonal
from choqolate.experiments.engine.experiment import Collected
from choqolate.experiments.engine.sources import table_source


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def table(concepts, seed=0, n_rows=90):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n_rows, 3)) @ rng.normal(size=(3, len(concepts))) + rng.normal(
        size=(n_rows, len(concepts))
    )
    labels = np.array(["gull", "wren", "auk"])[np.arange(n_rows) % 3]
    scores += np.arange(n_rows)[:, None] % 3  # classes differ in all concepts
    split = np.array(["train", "test"])[np.arange(n_rows) // 3 % 2]
    return ConceptScores(scores, concepts, labels=labels, split=split)


@pytest.mark.parametrize("seed", range(5))
def test_the_triple_is_the_best_of_all(seed):
    names = [f"c{j}" for j in range(9)]
    scores = table(names, seed).scores.copy()
    scores[:, 4] = 0.5  # constant
    kept = [j for j in range(9) if j != 4]
    r = np.corrcoef(scores[:, kept].T)
    best = max(combinations(range(8), 3), key=lambda t: r[t[0], t[1]] + r[t[0], t[2]] + r[t[1], t[2]])
    assert most_correlated(ConceptScores(scores, names)) == tuple(names[kept[j]] for j in best)


def test_of_very_many_concepts_those_are_looked_at_that_correlate_most(monkeypatch):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(60, 12))
    scores[:, [2, 7, 11]] = scores[:, [2]] + 0.1 * rng.normal(size=(60, 3))
    monkeypatch.setattr(concept_figures, "_SEARCHED", 4)
    assert most_correlated(ConceptScores(scores, [f"c{j}" for j in range(12)])) == ("c2", "c7", "c11")


def test_the_diagonal_is_the_first_principal_component():
    X = table(["a", "b", "c"]).scores.astype(float)
    _, sizes, rotation = np.linalg.svd((X - X.mean(0)) / X.std(0))
    found = shared_diagonal(X)
    assert found.share == pytest.approx(sizes[0] ** 2 / (sizes**2).sum())
    assert abs(found.direction @ rotation[0]) == pytest.approx(1)


def shown(tmp_path: Path, concepts, **parameters):
    table(concepts).save(tmp_path / "own.parquet")
    source = table_source(tmp_path / "own.parquet")
    experiment = find_experiment("three-concepts")
    assert experiment.misfit(source) is None
    options = Options(parameters={"n_nodes": 4, "epochs": 3})
    return source, experiment.show(Collected({source: {}}, options))


def test_the_concepts_of_the_paper_are_shown_where_they_are(tmp_path):
    source, found = shown(tmp_path, ["tail", "sea", "hair", "muzzle", "wheel"])
    test = source.load().part("test")
    X = test.scores[:, [2, 3, 0]].astype(float)
    within = X - np.stack([X[test.labels == label].mean(0) for label in test.labels])
    rows = [row.texts for row in found.tables["three-concepts-own"].rows]
    pairs = {"hair, muzzle": (0, 1), "hair, tail": (0, 2), "muzzle, tail": (1, 2)}
    assert [row[0] for row in rows[:3]] == list(pairs)
    for row, (j, l) in zip(rows, pairs.values(), strict=False):
        expected = [np.corrcoef(part[:, [j, l]].T)[0, 1] for part in (X, within)]
        assert [float(text.replace("−", "-")) for text in row[1:]] == pytest.approx(expected, abs=0.005)
    assert rows[3][1] == f"{100 * np.linalg.eigvalsh(np.corrcoef(X.T))[-1] / 3:.0f}%"
    assert "those of the paper" in found.notes[1]
    assert set(found.figures) == {"three-concepts-own", "three-concepts-nodes-own"}


def test_elsewhere_the_three_that_correlate_most(tmp_path):
    source, found = shown(tmp_path, ["tail", "sea", "lake", "muzzle", "wheel"])
    chosen = most_correlated(source.load().part("test"))
    assert all(repr(name) in found.notes[1] for name in chosen)
    assert "the three with the highest mean correlation" in found.notes[1]


def test_classes_of_one_test_row_have_no_correlation_within(tmp_path):
    rows = table(["sea", "lake", "river", "crest"], n_rows=12)
    names = np.array([f"kind {row % 6}" for row in range(12)])
    ConceptScores(rows.scores, rows.concepts, labels=names, split=["train"] * 6 + ["test"] * 6).save(
        tmp_path / "o.parquet"
    )
    source = table_source(tmp_path / "o.parquet")
    found = find_experiment("three-concepts").show(Collected({source: {}}, Options(parameters={"epochs": 2})))
    texts = [row.texts for row in found.tables["three-concepts-o"].rows]
    assert [row[2] for row in texts] == ["–"] * 4
    assert texts[3][1].endswith("%")


def test_two_concepts_are_too_few(tmp_path):
    table(["sea", "lake"]).save(tmp_path / "own.parquet")
    said = find_experiment("three-concepts").misfit(table_source(tmp_path / "own.parquet"))
    assert said == "the figure needs three concepts whose scores differ on the test rows, but own has 2"
