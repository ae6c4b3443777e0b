"""All methods on one's own scores: controls, concepts per class, removal; and a method of one's own in every table."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from choqolate import (
    ChoqolateError,
    ChoqolateWarning,
    ConceptScores,
    embed,
    evaluate,
    fit_scores,
    load_backbone,
    measure_following,
)
from choqolate.datasets.birds import render_birds
from choqolate.experiments import COMPARISON, Options, find_experiment, reproduce
from choqolate.experiments.engine.experiment import RunSetting
from choqolate.experiments.engine.methods import RIVALS, STRENGTHS, check_methods, find_method
from choqolate.experiments.engine.results import Results
from choqolate.experiments.engine.runner import run_tasks
from choqolate.experiments.engine.settings_runner import Declared, run_settings
from choqolate.experiments.engine.sources import load_control, table_source
from choqolate.experiments.engine.tasks import DRAWS, Asked
from choqolate.experiments.engine.trials import Tuning
from tests.cli.test_data_commands import choqolate
from tests.experiments.test_tuning import bird_table

OPTIONS = Options(
    ("choqolate", "slr-avd", "tests.experiments.test_comparison:Gridded"), parameters={"n_nodes": 3, "epochs": 4}
)
SEEDS = 6  # one more than there are draws of a control


class Gridded(BaseEstimator):
    """A method of one's own with a grid of its own: one node per class, logistic regression."""

    title = "Own logistic"
    tuning_grid = {"C": [1e-4, 1.0]}  # noqa: RUF012

    def __init__(self, C=1.0, random_state=0):
        self.C = C
        self.random_state = random_state

    def fit(self, X, y):
        self.model_ = LogisticRegression(C=self.C).fit(X, y)
        self.classes_ = self.model_.classes_
        weights = self.model_.coef_
        self.node_attributions_ = np.vstack([-weights, weights]) if len(weights) == 1 else weights
        self.class_attributions_ = np.eye(len(self.classes_))
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def predict_proba(self, X):
        return self.model_.predict_proba(X)

    def transform(self, X):
        return np.asarray(X) @ self.node_attributions_.T


class Bare(Gridded):
    """It does not say what its classes are made of."""

    title = "Bare"
    tuning_grid = None

    def fit(self, X, y):
        super().fit(X, y)
        del self.class_attributions_
        return self


class Failing(Gridded):
    title = "Failing"

    def fit(self, X, y):
        raise RuntimeError("no luck")


class Forgetful(Gridded):
    title = "Forgetful"

    def remove_concepts(self, names):
        pass


class Sized(Gridded):
    tuning_dials = {"n_nodes": [2, 4]}  # noqa: RUF012

    def __init__(self, C=1.0, random_state=0, n_nodes=2):
        super().__init__(C, random_state)
        self.n_nodes = n_nodes


class Namesake(Gridded):
    """Another class with the same title."""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    table = replace(bird_table(), spurious=("sea", "forest"))
    table.save(folder / "own.parquet")
    rng = np.random.default_rng(0)
    names = [f"thing {k}" for k in range(12)]
    ConceptScores(rng.random((len(table), 12)), names, labels=table.labels).save(folder / "others.parquet")
    return table_source(folder / "own.parquet", others=folder / "others.parquet")


@pytest.fixture(scope="module")
def compared(source):
    folder = source.scores.parent / "out"
    (done,) = reproduce(
        [COMPARISON], {source.name: source}, folder, seeds=SEEDS, options=OPTIONS, processes=1, verbose=False
    )
    assert not done.failed
    return done, {path.stem: pd.read_csv(path) for path in sorted((folder / "tables").glob("*.csv"))}


def test_a_comparison_has_these_tables_and_figures(compared):
    done, tables = compared
    kinds = ["concepts", "controls", "removal", "significance"]
    assert set(tables) == {"comparison", *(f"comparison-{kind}" for kind in kinds)}
    assert {path.name for path in done.files if path.suffix == ".png"} == {"comparison.png", "comparison-concepts.png"}
    assert tables["comparison"]["Method"].tolist() == ["CHOQOLATE", "SLR-AVD", "Own logistic"]
    notes = " ".join(done.shown.notes)
    assert "means that almost any set of names is enough to tell the classes apart" in notes
    assert "A linear probe computes the removed scores from the other 4 with an R² of" in notes
    ways = (
        "(CHOQOLATE: CHOQ-PCR; baselines: frozen at their mean; methods of your own: as their remove_concepts does it)"
    )
    assert f"without training again {ways}" in notes
    assert "Own logistic: C 1" in notes  # chosen on validation rows, like the others


def test_figures_have_the_data_set_and_the_recurrence_of_nodes(compared):
    done, tables = compared
    figure = done.shown.figures["comparison"]
    titles = ["Attribution Gini", "Node Coherence", "Nodes that recur (%)"]
    assert [ax.get_xlabel() for ax in figure.axes] == titles
    for one in done.shown.figures.values():
        assert one.axes[0].get_title(loc="left") == "own"
    known = tables["comparison-concepts"].set_index("Method")["Nodes that recur mean"].dropna()
    drawn = {line.get_label(): line.get_xdata()[0] for line in figure.axes[2].lines}
    assert {"CHOQOLATE", "Own logistic"} <= set(drawn)
    assert drawn == pytest.approx({name: 100 * known[name] for name in drawn})


def test_a_method_that_fails_or_has_no_classes_made_of_nodes_keeps_nobody_from_the_figures(source, tmp_path):
    names = [f"tests.experiments.test_comparison:{name}" for name in ("Bare", "Failing")]
    options = Options(("choqolate", *names), parameters={"n_nodes": 2, "epochs": 1})
    (done,) = reproduce(
        [COMPARISON], {source.name: source}, tmp_path, seeds=1, options=options, processes=1, verbose=False
    )
    assert [sentence for sentence in done.failed if "no luck" in sentence]
    assert {path.name for path in done.files if path.suffix == ".png"} == {"comparison.png", "comparison-concepts.png"}
    table = pd.read_csv(tmp_path / "tables" / "comparison.csv").set_index("Method")
    assert table["Accuracy mean"].notna().to_dict() == {"CHOQOLATE": True, "Bare": True, "Failing": False}
    axes = done.shown.figures["comparison"].axes  # nothing recurs in a single run
    assert [ax.get_xlabel() for ax in axes] == ["Attribution Gini", "Node Coherence"]


def test_all_methods_without_nodes_are_compared(source, tmp_path):
    said = choqolate(
        "compare", source.scores, "--nodes", 0, "--seeds", 1, "--quick", "--steps", 2, "--processes", 1, "-o", tmp_path
    )
    assert said.code == 0, said.err
    table = pd.read_csv(tmp_path / "tables" / "comparison.csv").set_index("Method")
    without = table.index[table["Accuracy mean"].isna()].tolist()
    assert without == ["Sparse AE"]
    assert (tmp_path / "figures" / "comparison-concepts.png").exists()


def test_a_budget_of_steps_is_for_methods_side_by_side(source, tmp_path):
    said = choqolate(
        "reproduce", "three-concepts", "--scores", source.scores, "--steps", 2, "--processes", 1, "-o", tmp_path
    )
    assert said.code == 0, said.err
    options = Options(parameters={"n_nodes": 3, "steps": 7})
    assert options.common == {"n_nodes": 3}
    assert options.budgeted(source)["steps"] == 7


def test_titles_tell_methods_apart(tmp_path):
    same = [f"tests.experiments.test_comparison:{name}" for name in ("Gridded", "Namesake")]
    with pytest.raises(ChoqolateError, match=r"Gridded and .*Namesake are both called 'Own logistic'"):
        check_methods(["pcbm", *same])
    check_methods(["pcbm", same[0], "logistic"])


def test_recurrence_is_that_of_the_largest_set_of_seeds_trained_together(source, tmp_path):
    def recurring(seeds):
        """Seeds with a recurrence, and its mean in the table, once there are results for so many seeds."""
        options = Options(("choqolate", "pcbm"), parameters={"n_nodes": 2, "epochs": 1})
        reproduce(
            [COMPARISON], {source.name: source}, tmp_path, seeds=seeds, options=options, processes=1, verbose=False
        )
        lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
        ours = [line for line in lines if line["config"]["method"] == "choqolate" and "control" not in line["config"]]
        known = {line["seed"]: line["metrics"]["recurrence"] for line in ours if "recurrence" in line["metrics"]}
        table = pd.read_csv(tmp_path / "tables" / "comparison-concepts.csv").set_index("Method")
        return known, table.loc["CHOQOLATE", "Nodes that recur mean"]

    for seeds in (1, 2):  # the second is trained alone, too
        known, mean = recurring(seeds)
        assert not known
        assert np.isnan(mean)
    known, mean = recurring(5)
    assert sorted(known) == [2, 3, 4]
    assert mean == pytest.approx(np.mean(list(known.values())))
    known, mean = recurring(9)
    assert sorted(known) == [2, 3, 4, 5, 6, 7, 8]
    assert mean == pytest.approx(np.mean([known[seed] for seed in (5, 6, 7, 8)]))


def test_methods_without_concepts_per_class_are_named(source, tmp_path):
    methods = ("choqolate", "logistic", "tests.experiments.test_comparison:Bare")
    options = Options(methods, parameters={"n_nodes": 2, "epochs": 1})
    (done,) = reproduce(
        [COMPARISON], {source.name: source}, tmp_path, seeds=1, options=options, processes=1, verbose=False
    )
    said = [note for note in done.shown.notes if note.startswith("Not in the figure")]
    assert said == ["Not in the figure of concepts per class (no class_attributions_, or no weights): Bare."]
    titles = [row.texts[0] for row in done.shown.tables["comparison-concepts"].rows]
    assert sorted(titles) == sorted(
        ["CHOQOLATE", "Bare", *(find_method(name).title for name in RIVALS)]  # logistic once
    )


def test_a_removal_that_returns_nothing_is_no_result(source):
    rows = source.load()
    ((model,),) = find_method("tests.experiments.test_comparison:Forgetful").train(rows.part("train"), [0], [{}])
    with pytest.raises(ChoqolateError, match="to return a fitted estimator, but it returned None"):
        model.remove_concepts(["sea"])


def test_directions_depend_on_the_vectors_and_not_on_other_names(source, tmp_path):
    birds = tmp_path / "birds"
    rows = render_birds(birds, 40, workers=1)
    backbone = load_backbone("mini", device="cpu")
    embed(rows, backbone, tmp_path / "vectors", workers=0)
    settings = {kind: RunSetting(control=kind) for kind in ("names", "directions")}
    with_vectors = replace(source, embeddings=tmp_path / "vectors")
    configs = {
        kind: [Asked.on(one, setting).config for one in (source, with_vectors, replace(with_vectors, others=None))]
        for kind, setting in settings.items()
    }
    assert configs["names"][0] == configs["names"][1] != configs["names"][2]
    assert configs["directions"][0] != configs["directions"][1] == configs["directions"][2]


def test_controls_stand_below_the_real_concepts(compared, source):
    table = compared[1]["comparison-controls"]
    kinds = ("the concepts", "random names", "random directions")
    assert list(zip(table["Method"], table["On"], strict=True)) == [
        *((method, on) for method in ("CHOQOLATE", "Own logistic") for on in kinds),
        ("Logistic regression, all scores", "the concepts"),
    ]
    assert table["Accuracy runs"].tolist() == [*[SEEDS] * 6, 1]
    shown = compared[0].shown.tables["comparison-controls"].to_markdown()
    assert shown.count("**") == 2  # around its title
    assert "bold" not in shown
    drawn = load_control(source, "names", 2)
    model = fit_scores(drawn, n_nodes=3, epochs=4, random_state=2, device="cpu")
    line = next(
        one
        for one in map(json.loads, (source.scores.parent / "out" / "results.jsonl").read_text().splitlines())
        if (one["config"]["method"], one["config"].get("control"), one["seed"]) == ("choqolate", "names", 2)
    )
    assert line["metrics"]["accuracy"] == evaluate(model, drawn, "test").accuracy


def test_seeds_share_draws_in_turn(source, tmp_path):
    settings = {"c": RunSetting(parameters={"n_nodes": 2, "epochs": 1, "dtype": "float64"}, control="directions")}
    run = [Declared(source, settings, range(DRAWS + 1))]
    (found,) = run_settings(run, Results(tmp_path / "r.jsonl"), processes=1, verbose=False)
    first, again = found["c"].runs[0], found["c"].runs[DRAWS]
    tables = [load_control(source, "directions", draw) for draw in (0, 0, 1)]
    assert np.array_equal(tables[0].scores, tables[1].scores)
    assert not np.array_equal(tables[0].scores, tables[2].scores)
    for one in (first, again):
        model = fit_scores(
            tables[0], n_nodes=2, epochs=1, dtype="float64", random_state=one.seed, device="cpu"
        )  # fmt: skip
        assert one.metrics["accuracy"] == evaluate(model, tables[0], "test").accuracy


def test_what_a_control_lacks_is_a_reason_and_no_failure(tmp_path):
    bird_table().save(tmp_path / "own.parquet")
    source = table_source(tmp_path / "own.parquet")
    settings = {"names": RunSetting(parameters={"n_nodes": 2, "epochs": 1}, control="names")}
    (found,) = run_settings([Declared(source, settings, [0])], Results(tmp_path / "r.jsonl"), verbose=False)
    assert found["names"].reason.startswith("Expected scores for other names or embeddings of the images")
    assert not found["names"].failed


def test_rivals_are_run_once_along_their_path(compared, source):
    table = compared[1]["comparison-concepts"].set_index("Method")
    rivals = ["Logistic regression, all scores", "l1 logistic regression", "l1 logistic regression, refitted"]
    assert table.index.tolist() == ["CHOQOLATE", "SLR-AVD", "Own logistic", *rivals]
    assert (table.loc[rivals, "Accuracy runs"] == 1).all()
    lines = [json.loads(line) for line in (source.scores.parent / "out" / "results.jsonl").read_text().splitlines()]
    own = [line["config"] for line in lines if line["config"]["method"] == "l1-logistic"]
    path = [find_method("l1-logistic").unusual({"strength": strength}) for strength in STRENGTHS]
    trained = [config["parameters"] for config in own if "tuning" not in config]
    assert sorted(map(str, trained)) == sorted(map(str, path))
    rows = source.load()
    settings = [{"strength": strength} for strength in STRENGTHS[:2]]
    for setting, (model,) in zip(
        settings, find_method("l1-logistic").train(rows.part("train"), [0], settings), strict=True
    ):
        known = find_method("l1-logistic").unusual(setting)
        (line,) = (one for one in lines if one["config"]["parameters"] == known and "tuning" not in one["config"])
        measured = evaluate(model, rows, "test")
        assert line["metrics"]["concepts_per_class"] == pytest.approx(measured.concepts_per_class)
        assert line["metrics"]["anec"] == pytest.approx(measured.anec)


def test_removal_is_measured_for_every_method_that_can_remove(compared, source):
    table = compared[1]["comparison-removal"].set_index("Method")
    columns = ["Accuracy after removal mean", "Worst group after removal mean", "Follows the bias after removal mean"]
    assert table.loc[["CHOQOLATE", "SLR-AVD"], columns].notna().all(axis=None)
    assert table.loc["Own logistic", columns].isna().all()  # it has no remove_concepts
    assert table.loc["Own logistic", "Follows the bias mean"] > 0.5  # but class probabilities
    rows = source.load()
    model = fit_scores(rows, n_nodes=3, epochs=4, random_state=0, device="cpu")
    edited = model.remove_concepts(rows.spurious)
    line = json.loads(
        next(
            line
            for line in (source.scores.parent / "out" / "results.jsonl").read_text().splitlines()
            if '"method": "choqolate"' in line and '"control"' not in line and '"seed": 0' in line
        )
    )["metrics"]
    assert line["follows"] == pytest.approx(measure_following(model, rows, rows.spurious).best.value, abs=1e-3)
    assert line["removed_follows"] == pytest.approx(measure_following(edited, rows, rows.spurious).best.value, abs=1e-3)
    assert line["removed_accuracy"] == pytest.approx(evaluate(edited, rows, "test").accuracy, abs=0.01)


def test_a_method_of_ones_own_takes_part_in_every_table_with_one_flag(source, tmp_path):
    names = ["accuracy", "quality", "significance", "clouds", "mitigation", "nodes", "trade-off", "information"]
    options = Options(("choqolate", OPTIONS.methods[2]), parameters={"n_nodes": 2, "epochs": 2}, quick=True)
    done = reproduce(
        [find_experiment(name) for name in names],
        {source.name: source},
        tmp_path,
        seeds=2,
        options=options,
        processes=1,
        verbose=False,
    )
    assert all(one.shown is not None and not one.failed for one in done)
    for name in ("accuracy", "quality", "information", "nodes"):
        assert "Own logistic" in pd.read_csv(tmp_path / "tables" / f"{name}.csv")["Method"].tolist()
    assert pd.read_csv(tmp_path / "tables" / "significance.csv")["Other"].tolist() == ["Own logistic"]
    table = pd.read_csv(tmp_path / "tables" / "mitigation.csv").set_index("Method")
    biased, freed = (
        table.loc[f"Own logistic, {how}"] for how in ("as trained", "trained without the spurious concepts")
    )
    assert (pd.isna(biased["No group labels"]), freed["No group labels"]) == (True, "✓")
    assert freed["own: Follows the bias mean"] < biased["own: Follows the bias mean"]
    core = source.load().select([name for name in source.load().concepts if name not in ("sea", "forest")])
    alone = Gridded(C=1.0).fit(core.part("train").frame, core.part("train").labels)
    expected = (alone.predict(core.part("test").frame) == core.part("test").labels).mean()
    assert freed["own: Accuracy mean"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ([1, 2], "to be a dictionary from its parameters to lists of values, but it is"),
        ({"D": [1]}, "but it has no parameter 'D'"),
        ({"C": []}, "but 'C' has"),
        ({"C": "abc"}, "but 'C' has 'abc'"),
        ({"C": [object()]}, "Values are finite numbers, strings, booleans or None"),
        ({"C": [1.0, float("inf")]}, r"'C' has \[1.0, inf\]. Values are finite numbers"),
    ],
)
def test_a_grid_that_cannot_be_tried_is_said(monkeypatch, grid, message):
    monkeypatch.setattr(Gridded, "tuning_grid", grid)
    with pytest.raises(ChoqolateError, match=message):
        find_method(OPTIONS.methods[2])


def test_a_grid_has_nothing_that_is_the_same_for_all_methods(monkeypatch):
    with pytest.raises(ChoqolateError, match="'n_nodes', which a comparison sets for all methods alike"):
        find_method("tests.experiments.test_comparison:Sized")
    monkeypatch.setattr(Gridded, "tuning_grid", {"random_state": [1, 2]})
    with pytest.raises(ChoqolateError, match="'random_state', which a comparison sets for all methods alike"):
        find_method(OPTIONS.methods[2])


def test_a_grid_of_numpy_is_one_of_numbers(monkeypatch):
    monkeypatch.setattr(Gridded, "tuning_grid", {"C": np.array([0.1, 1.0, 10.0])})
    monkeypatch.setattr(Gridded, "tuning_dials", {"C": np.arange(1, 3)}, raising=False)
    method = find_method(OPTIONS.methods[2])
    assert (method.grid, method.dials) == ({"C": [0.1, 1.0, 10.0]}, {"C": [1, 2]})


def test_values_of_a_method_of_ones_own_are_tried_one_by_one(monkeypatch, tmp_path):
    """So that a value that fails is out of the race alone, and a search that is stopped keeps the others."""
    monkeypatch.setattr(Gridded, "tuning_grid", {"C": [1.0, -1.0, 0.01]})
    bird_table().save(tmp_path / "own.parquet")
    search = Tuning(table_source(tmp_path / "own.parquet"), OPTIONS.methods[2], {})
    assert len(search.batches()) == 3
    told: list[str] = []
    finished = run_tasks(search.batches(), Results(tmp_path / "r.jsonl"), processes=1, tell=told.append, verbose=False)
    assert any("InvalidParameterError" in line for line in told)
    with pytest.warns(ChoqolateWarning, match="Own logistic is tuned without 1 of 3 settings, which failed"):
        assert search.choose(finished)["C"] in (1.0, 0.01)


def test_a_table_of_ones_own_that_cannot_be_used_is_named_and_the_others_run(tmp_path):
    table = bird_table()
    table.save(tmp_path / "mine.parquet")
    table.with_columns(labels=None).save(tmp_path / "unlabeled.parquet")
    said = choqolate(
        "reproduce", "accuracy", "--root", tmp_path, "-o", tmp_path / "out", "--seeds", 1, "--epochs", 1,
        "--processes", 1,
    )  # fmt: skip
    assert "unlabeled.parquet: expected labels" in " ".join((said.out + said.err).split())
    assert "mine: Accuracy mean" in pd.read_csv(tmp_path / "out" / "tables" / "accuracy.csv").columns


def test_tables_of_ones_own_beside_the_published_data_take_part(tmp_path):
    bird_table().save(tmp_path / "mine.parquet")
    said = choqolate(
        "reproduce", "accuracy", "--root", tmp_path, "-o", tmp_path / "out", "--seeds", 1, "--epochs", 1,
        "--processes", 1,
    )  # fmt: skip
    assert said.code == 0, said.err
    assert "including mine.parquet as a data set of your own" in " ".join(said.out.split())
    assert "mine: Accuracy mean" in pd.read_csv(tmp_path / "out" / "tables" / "accuracy.csv").columns


def test_predicted_labels_are_called_so_below_every_table(tmp_path):
    table = bird_table()
    said = "pseudo-labels, not annotations: places predicted by some classifier"
    replace(table, provenance=replace(table.provenance, labels_from=said)).save(tmp_path / "own.parquet")
    source = table_source(tmp_path / "own.parquet")
    options = Options(("choqolate",), parameters={"n_nodes": 2, "epochs": 1}, controls=False)
    reproduce(
        [COMPARISON], {"own": source}, tmp_path / "out", seeds=1, options=options, processes=1, verbose=False
    )  # fmt: skip
    assert f"Labels of own (pseudo-labels): {said}." in (tmp_path / "out" / "summary.md").read_text()
    own = replace(table, provenance=replace(table.provenance, labels_from="classes given in coco.csv, not annotations"))
    own.save(tmp_path / "coco.parquet")
    assert table_source(tmp_path / "coco.parquet").title == "coco"


def test_too_few_other_names_are_said_before_the_work(tmp_path):
    table = bird_table()
    table.save(tmp_path / "own.parquet")
    few = ConceptScores(table.scores[:, :2], ["thing 1", "thing 2"], labels=table.labels)
    few.save(tmp_path / "few.parquet")
    said = choqolate("compare", tmp_path / "own.parquet", "--others", tmp_path / "few.parquet", "-o", tmp_path / "out")
    assert (said.code, "the other table has only 2" in said.err) == (2, True)
    assert not (tmp_path / "out" / "results.jsonl").exists()


def test_spurious_concepts_of_a_comparison_may_be_named_in_a_file(tmp_path):
    bird_table().save(tmp_path / "own.parquet")
    (tmp_path / "words.txt").write_text("sea\nforest\n")
    few = ("--method", "choqolate", "--seeds", 1, "--epochs", 1, "--quick", "--processes", 1)
    said = choqolate(
        "compare", tmp_path / "own.parquet", "--spurious", tmp_path / "words.txt", "-o", tmp_path / "out", *few
    )
    assert said.code == 0, said.err
    assert pd.read_csv(tmp_path / "out" / "tables" / "comparison-removal.csv")["Method"].tolist() == ["CHOQOLATE"]
    assert "without training again (CHOQOLATE: CHOQ-PCR)." in " ".join(said.out.split())


def test_a_missing_table_of_other_names_is_said_before_the_work(tmp_path):
    bird_table().save(tmp_path / "own.parquet")
    said = choqolate("compare", tmp_path / "own.parquet", "--others", "nowhere.parquet", "-o", tmp_path / "out")
    assert (said.code, "nowhere.parquet does not exist" in said.err) == (2, True)
    assert not (tmp_path / "out").exists()
