from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from choqolate import ChoqolateError, ChoqolateWarning, ConceptScores, metrics
from choqolate.baselines import SLRAVD
from choqolate.experiments.engine.measures import measuring
from choqolate.experiments.engine.methods import METHODS, find_method
from choqolate.experiments.engine.results import Results
from choqolate.experiments.engine.runner import run_tasks
from choqolate.experiments.engine.sources import table_source
from choqolate.experiments.engine.trials import Tuning
from choqolate.experiments.engine.tuning import SEEDS, TOLERANCE, Tried, choose, settings_to_try, validation_split
from tests.small_tables import CONCEPTS, bird_scores

SHORT = {"n_nodes": 3, "epochs": 8}


def bird_table(n_rows: int = 300, parts: tuple[str, ...] = ("train", "train", "val", "test")) -> ConceptScores:
    X, labels, groups = bird_scores(n_rows)
    split = np.array(parts)[np.arange(n_rows) % len(parts)]
    return ConceptScores(X.to_numpy(), CONCEPTS, labels=labels, split=split, groups=groups)


def test_a_fifth_of_the_training_rows_is_for_choosing_where_there_are_no_validation_rows():
    table = bird_table(parts=("train", "test"))
    train, validation = validation_split(table)
    assert (len(train), len(validation)) == (120, 30)
    rows = {tuple(row) for row in table.part("train").scores}
    assert {tuple(row) for row in train.scores} | {tuple(row) for row in validation.scores} == rows
    own = bird_table()
    assert [len(part) for part in validation_split(own)] == [150, 75]


def searched(folder, table: ConceptScores, method: str, rule: str = "accuracy", processes: int = 1):
    """What a search takes, and the lines that it leaves behind."""
    folder.mkdir(exist_ok=True)
    table.save(folder / "own.parquet")
    search = Tuning(table_source(folder / "own.parquet"), method, SHORT, rule)
    results = Results(folder / "results.jsonl")
    finished = run_tasks(search.batches(), results, processes=processes, verbose=False)
    return search.choose(finished), list(finished.runs.values())


def test_the_setting_that_is_taken_is_that_of_a_direct_loop(tmp_path):
    table, method = bird_table(), find_method("slr-avd")
    chosen, runs = searched(tmp_path, table, "slr-avd")
    train, validation = table.part("train"), table.part("val")
    found = {}
    for rate in method.grid["learning_rate"]:
        for penalty in method.grid["penalty"]:
            models = [
                SLRAVD(learning_rate=rate, penalty=penalty, random_state=seed, **SHORT).fit(train.frame, train.labels)
                for seed in SEEDS
            ]
            accuracy = np.mean([(m.predict(validation.frame) == validation.labels).mean() for m in models])
            gini = [metrics.mean_over_nodes(metrics.attribution_gini(m.node_attributions_)).mean for m in models]
            found[rate, penalty] = (accuracy, np.mean(gini))
    assert len(runs) == len(found) * len(SEEDS)
    for setting, expected in found.items():
        parameters = {"learning_rate": setting[0], "penalty": setting[1]}
        said = method.unusual(SHORT | parameters)
        own = [run.metrics for run in runs if run.config["parameters"] == said]
        for place, name in enumerate(("accuracy", "gini")):
            assert np.mean([one[name] for one in own]) == pytest.approx(expected[place], abs=1e-9)
    best = max(found, key=lambda setting: (round(found[setting][0], 9), found[setting][1]))
    assert chosen == {"learning_rate": best[0], "penalty": best[1]}


def test_the_sparsest_is_taken_within_a_point_of_the_best():
    tried = [Tried({"l": 1}, 0.90, 0.2), Tried({"l": 2}, 0.90 - TOLERANCE / 2, 0.6)]
    tried += [Tried({"l": 3}, 0.90 - 2 * TOLERANCE, 0.9)]
    assert choose(tried, "sparsest") == {"l": 2}
    assert choose(tried, "accuracy") == {"l": 1}
    assert choose([Tried({"l": 1}, 0.9, 0.2), Tried({"l": 2}, 0.9, 0.4)], "accuracy") == {"l": 2}
    with pytest.raises(ChoqolateError, match="rule"):
        choose(tried, "luck")


def test_the_temperature_of_the_paper_is_kept_unless_the_rule_is_sparsity():
    ours, automatic = METHODS["choqolate"], METHODS["choqolate-auto"]
    assert settings_to_try(ours, SHORT, "accuracy") == []
    (dialed,) = settings_to_try(ours, SHORT, "sparsest")
    assert [one["temperature"] for one in dialed] == list(ours.dials["temperature"])
    tried = settings_to_try(automatic, SHORT, "accuracy")
    assert [{one["temperature"] for one in group} for group in tried] == [set(automatic.grid["temperature"])] * 3
    fixed = SHORT | {"temperature": 0.02, "interactions": "none"}
    assert settings_to_try(automatic, fixed, "accuracy") == [[{}], [{"bipolar": True}]]


def test_a_search_is_divided_into_parts_that_are_each_kept_when_it_is_stopped():
    parts = settings_to_try(METHODS["pscbm"], SHORT, "accuracy")
    assert len(parts) == 2 * len(METHODS["pscbm"].grid["learning_rate"])
    assert all(len({(one["learning_rate"], one["min_score"]) for one in part}) == 1 for part in parts)
    everything = [tuple(sorted(one.items(), key=str)) for part in parts for one in part]
    assert len(everything) == len(set(everything)) == 2 * 3 * 4


def test_a_search_that_was_stopped_continues(tmp_path):
    chosen, runs = searched(tmp_path, bird_table(), "pcbm")
    results = tmp_path / "results.jsonl"
    lines = results.read_text().splitlines(keepends=True)
    assert len(lines) == len(runs) == 3 * 6 * 3
    results.write_text("".join(lines[:18]) + lines[18][:40])  # a third was done, and one line is cut off
    told = []
    search = Tuning(table_source(tmp_path / "own.parquet"), "pcbm", SHORT)
    with pytest.warns(ChoqolateWarning, match="repeated"):
        finished = run_tasks(search.batches(), Results(results), processes=1, tell=told.append, what="tuning")
    assert told[0] == "tuning: 36 runs in 2 batches, 1 at a time"
    assert search.choose(finished) == chosen


def test_test_rows_are_never_looked_at(tmp_path):
    table = bird_table()
    spoiled = table.scores.copy()
    spoiled[table.split == "test"] = 7.0
    for name in ("pcbm", "pscbm"):
        chosen, _ = searched(tmp_path / name, table, name)
        assert chosen == searched(tmp_path / f"{name}-spoiled", replace(table, scores=spoiled), name)[0]


def test_where_no_rows_can_be_held_out_the_defaults_are_taken_with_a_warning(tmp_path):
    table = bird_table(40)
    first = [int(np.flatnonzero(table.labels == label)[0]) for label in table.classes]
    table = table.with_columns(split=np.where(np.isin(np.arange(40), first), "train", "test"))
    table.save(tmp_path / "own.parquet")
    search = Tuning(table_source(tmp_path / "own.parquet"), "pcbm", SHORT)
    with pytest.warns(ChoqolateWarning, match="PCBM keeps its default parameters: no rows can be held out"):
        assert search.batches() == []


@pytest.mark.parametrize("name", METHODS)
def test_settings_and_seeds_side_by_side_are_those_of_one_alone(name):
    method, rows = METHODS[name], bird_table().part("train")
    settings = [SHORT | {"learning_rate": rate} for rate in (0.01, 0.05)] + [SHORT | {"n_nodes": 2}]
    if name.startswith("choqolate"):
        settings = [SHORT | {"temperature": T, "dtype": "float64"} for T in (0.05, 0.5)]
        settings += [SHORT | {"n_nodes": 2, "dtype": "float64"}]
    elif name == "pscbm":
        settings = [setting | {"min_score": None, "penalty": 7e-3} for setting in [*settings, settings[0]]]
        settings[-1] |= {"penalty": 7e-5}  # the concepts that it learns are those of the first one
    together = method.train(rows, [3, 1], settings)
    assert [len(models) for models in together] == [2] * len(settings)
    for setting, models in zip(settings, together, strict=True):
        for seed, model in zip([3, 1], models, strict=True):
            alone = method.train(rows, [seed], [setting])[0][0]
            assert model.random_state == seed
            np.testing.assert_allclose(model.node_attributions_, alone.node_attributions_, rtol=1e-7, atol=1e-9)


class Halves(BaseEstimator):
    """A method of one's own: two nodes, each the mean of half of the concepts; the nearest class mean wins."""

    def __init__(self, random_state=0):
        self.random_state = random_state

    def fit(self, X, y):
        half = np.arange(X.shape[1]) < X.shape[1] // 2
        self.node_attributions_ = np.stack([half / half.sum(), ~half / (~half).sum()])
        self.classes_ = np.unique(y)
        self.means_ = np.stack([self.transform(X)[y == label].mean(0) for label in self.classes_])
        return self

    def transform(self, X):
        return np.asarray(X) @ self.node_attributions_.T

    def predict(self, X):
        distances = ((self.transform(X)[:, None] - self.means_) ** 2).sum(-1)
        return self.classes_[distances.argmin(1)]


def test_a_method_of_ones_own_is_measured_like_all_others():
    method, table = find_method(f"{__name__}:Halves"), bird_table()
    assert method.title == "Halves"
    (models,) = method.train(table.part("train"), [0, 1], [{"n_nodes": 8}])
    measured = measuring(table)(models[0])
    assert [model.random_state for model in models] == [0, 1]
    test = table.part("test")
    assert measured["accuracy"] == np.mean(models[0].predict(test.frame) == test.labels)
    assert measured["gini"] == pytest.approx(0.5)
    assert measured["parameters"] is None
    with pytest.raises(
        ChoqolateError,
        match="made without arguments, but nowhere:Thing cannot: ModuleNotFoundError",
    ):
        find_method("nowhere:Thing")
    with pytest.raises(ChoqolateError, match="it has no predict"):
        find_method("sklearn.preprocessing:StandardScaler")
    with pytest.raises(ChoqolateError, match="Did you mean 'pscbm'"):
        find_method("psbm")


def test_measures_are_those_of_the_metrics_on_the_test_rows():
    table = bird_table(400)
    model = METHODS["choqolate"].train(table.part("train"), [0], [SHORT])[0][0]
    measured = measuring(table)(model)
    train, test = (table.part(part) for part in ("train", "test"))
    low, high = train.scores.min(0), train.scores.max(0)
    Z = np.clip((test.scores - low) / (high - low), 0, 1)
    nodes = model.transform(test.frame)
    assert measured["hsic"] == pytest.approx(metrics.hsic(Z, nodes))
    assert measured["cknna"] == pytest.approx(metrics.cknna(Z, nodes, k=10))
    predicted = model.predict(test.frame)
    assert measured["accuracy"] == np.mean(predicted == test.labels)
    assert measured["worst_group"] == metrics.worst_group_accuracy(test.labels, predicted, test.groups)
    expected = metrics.reweighted_accuracy(test.labels, predicted, test.groups, train.groups)
    assert measured["reweighted_accuracy"] == pytest.approx(expected)
    correlation = metrics.concept_correlation(test.scores)
    coherence = metrics.node_coherence(model.node_attributions_, correlation)
    assert measured["coherence"] == pytest.approx(np.nanmean(coherence))
    assert measured["parameters"] == 3 * 6**2 + 2 * 3**2


def test_groups_count_as_in_training_where_all_of_them_are_tested():
    table = bird_table(400)
    model = METHODS["choqolate"].train(table.part("train"), [0], [SHORT])[0][0]
    whole = measuring(table)(model)["reweighted_accuracy"]
    unknown = table.groups.astype(object)
    unknown[np.flatnonzero(table.split == "test")[:9]] = None
    known = table.with_columns(groups=unknown)
    test = known.part("test")
    rows = np.array([group is not None for group in test.groups])
    predicted = model.predict(test.frame)[rows]
    expected = metrics.reweighted_accuracy(test.labels[rows], predicted, test.groups[rows], table.part("train").groups)
    assert measuring(known)(model)["reweighted_accuracy"] == expected != whole
    rare = table.groups[np.flatnonzero(table.split == "test")[0]]
    lost = (table.split == "test") & (table.groups == rare)
    untested = table.with_columns(groups=np.where(lost, "else", table.groups))
    assert measuring(untested)(model)["reweighted_accuracy"] is None
    assert measuring(table.with_columns(groups=None))(model).get("reweighted_accuracy") is None


def test_a_concept_without_a_range_in_training_is_no_information_to_keep():
    table = bird_table(400)
    train = table.split == "train"
    still = np.where(train, 0.5, np.linspace(0, 1, len(table)))[:, None]
    wider = ConceptScores(
        np.hstack([table.scores, still]), [*CONCEPTS, "still"], labels=table.labels, split=table.split
    )
    model = METHODS["choqolate"].train(table.part("train"), [0], [SHORT])[0][0]
    assert measuring(wider)(model)["hsic"] == pytest.approx(measuring(table)(model)["hsic"], abs=1e-9)
