from __future__ import annotations

import json
import math
import pickle
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from choqolate import ChoqolateError, ChoquetLayer, ConceptScores
from choqolate.concepts.backbones import TransformersBackbone
from choqolate.debiasing.registry import DEBIASING
from choqolate.experiments import EXPERIMENTS, Options, find_experiment, reproduce
from choqolate.experiments.engine.experiment import RunSetting
from choqolate.experiments.engine.methods import find_method
from choqolate.experiments.engine.reproduction import check_folder
from choqolate.experiments.engine.sources import birds_source, first_classes, paper_sources, table_source
from choqolate.experiments.engine.tasks import Asked
from choqolate.experiments.paper import published as paper
from choqolate.experiments.paper.components import parameters
from tests.cli.test_data_commands import choqolate, put
from tests.small_tables import CONCEPTS, bird_scores
from tests.tiny import write_clip

SHORT = Options(parameters={"n_nodes": 8, "epochs": 3}, quick=True)


def bird_table(n_rows: int = 240, **changes) -> ConceptScores:
    X, labels, groups = bird_scores(n_rows)
    split = np.array(["train", "train", "val", "test"])[np.arange(n_rows) % 4]
    given = dict(labels=labels, split=split, groups=groups, spurious=("sea", "forest"))
    return ConceptScores(X.to_numpy(), CONCEPTS, **given | changes)


def species_table(n_species: int = 6) -> ConceptScores:
    """Kinds of birds, each with its own mean scores."""
    rng = np.random.default_rng(0)
    kind = np.arange(20 * n_species) % n_species
    scores = 0.2 + 0.03 * (rng.normal(size=(n_species, 7))[kind] + 0.5 * rng.normal(size=(len(kind), 7)))
    names = [f"kind {9 - k}" for k in range(n_species)]  # not in the order of the alphabet
    split = np.where(np.arange(len(kind)) // n_species % 3 == 0, "test", "train")
    labels = np.array(names)[kind]
    return ConceptScores(scores, [f"mark {j}" for j in range(7)], labels=labels, split=split, classes=names)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("paper")


@pytest.fixture(scope="module")
def birds(folder):
    return birds_source(folder, 160, verbose=False)


@pytest.fixture(scope="module")
def done(birds, folder):
    found = reproduce(
        list(EXPERIMENTS.values()), {"birds": birds}, folder, seeds=2, options=SHORT, processes=1, verbose=False
    )
    return {one.experiment.name: one for one in found}


def lines(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def test_every_table_and_figure_is_made_of_the_embedded_data(done, folder):
    gradient = [f"tables/gradient-{kind}-birds" for kind in ("checks", "factors", "anchors")]
    gradient += [f"figures/gradient-{kind}-birds" for kind in ("factors", "freezing", "temperature", "anchors")]
    three = ["tables/three-concepts-birds", "figures/three-concepts-birds", "figures/three-concepts-nodes-birds"]
    made = {
        "three-concepts": three,
        "accuracy": ["tables/accuracy"],
        "quality": ["tables/quality"],
        "information": ["tables/information"],
        "trade-off": ["figures/trade-off"],
        "significance": ["tables/significance"],
        "clouds": ["figures/clouds-birds"],
        "dynamics": ["tables/dynamics-birds", "figures/dynamics-birds"],
        "gradient": gradient,
        "mitigation": ["tables/mitigation"],
        "temperature": ["tables/temperature", "figures/temperature"],
        "classes": [],
        "components": ["tables/components", "figures/components"],
        "nodes": ["tables/nodes", "figures/nodes"],
        "seeds": ["tables/seeds", "figures/seeds"],
    }
    assert list(done) == list(EXPERIMENTS)
    for name, stems in made.items():
        endings = {"tables": ("md", "tex", "csv"), "figures": ("png", "pdf")}
        expected = {folder / f"{stem}.{ending}" for stem in stems for ending in endings[stem.split("/")[0]]}
        assert set(done[name].files) == expected
        assert all(path.stat().st_size > 100 for path in expected)
    assert done["classes"].lacking == {"birds": "the sweep begins with 5 classes, Bird scenes has 2"}
    page = (folder / "summary.md").read_text()
    assert all(experiment.title in page for experiment in EXPERIMENTS.values())
    assert "the sweep begins with 5 classes" in page
    assert "2 seeds, quick, rule accuracy" in (folder / "pages" / "accuracy.md").read_text()
    assert "seeds" not in (folder / "pages" / "gradient.md").read_text().partition("Made with")[2].partition("\n")[0]


def test_numbers_of_a_table_are_means_over_the_lines_of_the_results(done, folder):
    table = pd.read_csv(folder / "tables" / "quality.csv").set_index("Method")
    chosen = {"learning_rate", "penalty"}  # PCBM has as many nodes as here by default
    runs = [line for line in lines(folder) if not {"tuning", "debiasing"} & set(line["config"])]
    runs = [line for line in runs if set(line["config"]["parameters"]) - chosen == {"epochs"}]
    for method, title in {"pcbm": "PCBM", "choqolate": "CHOQOLATE"}.items():
        own = {line["seed"]: line["metrics"]["gini"] for line in runs if line["config"]["method"] == method}
        values = [value for value in own.values() if value is not None]
        assert sorted(own) == [0, 1]
        row = table.loc[title]
        assert row["Bird scenes: Attribution Gini mean"] == pytest.approx(np.mean(values))
        assert row["Bird scenes: Attribution Gini std"] == pytest.approx(np.std(values, ddof=1))


def test_a_second_time_nothing_is_trained(done, birds, folder):
    before = (folder / "results.jsonl").read_bytes()
    told = []
    again = reproduce(
        [find_experiment("nodes"), find_experiment("mitigation")],
        {"birds": birds},
        folder,
        seeds=2,
        options=SHORT,
        tell=told.append,
    )
    assert (folder / "results.jsonl").read_bytes() == before
    assert not any("runs in" in text for text in told)
    assert all(one.shown is not None for one in again)
    assert birds_source(folder, 160, verbose=False) == birds


def test_the_same_runs_serve_several_tables(done, folder):
    keys = [json.dumps([line["config"], line["seed"]], sort_keys=True) for line in lines(folder)]
    assert len(keys) == len(set(keys))
    shared = {line["shared"] for line in lines(folder) if line["config"].get("debiasing")}
    assert shared == {2 * len(DEBIASING)}
    assert all(line["versions"]["choqolate"] and line["seconds"] > 0 for line in lines(folder))


def test_every_way_out_of_a_bias_has_its_row_and_says_what_it_does_without(done, folder):
    table = pd.read_csv(folder / "tables" / "mitigation.csv").set_index("Method")
    marks = {
        name: tuple(row[h] == "✓" for h in ("No group labels", "No training", "Test time"))
        for name, row in table.iterrows()
    }
    assert len(table) == len(DEBIASING)
    assert marks["CHOQ-PCR"] == (True, True, True)
    assert marks["Concept removal (oracle)"] == (True, False, False)
    assert marks["Group-DRO"] == marks["DFR"] == (False, False, True)
    assert marks["Ortho-Proj"] == (True, True, True)
    assert marks["CBDebug, weighted"] == marks["CBDebug, weighted and augmented"] == (True, False, False)
    assert (table["Bird scenes: Worst group runs"] == 2).all()


def test_rows_of_the_component_table_are_these_classifiers():
    rows = [parameters(row) for row in paper.COMPONENTS]
    assert [row["interactions"] for row in rows] == ["none"] * 3 + ["pairwise"] * 5
    assert [row["free_weights"] for row in rows] == [True, True, False, True, False, False, False, True]
    assert [(row["l1"], row["l1_on"]) for row in rows] == [
        (0.0, "first"),
        (0.01, "all"),
        (0.0, "first"),
        (0.0, "first"),
        (0.0, "first"),
        (0.01, "first"),
        (0.01, "all"),
        (0.01, "first"),
    ]


def test_row_7_is_read_a_second_time_with_the_penalty_on_parameters(birds, done, folder):
    settings = find_experiment("components").settings(birds, SHORT)
    names = [row.texts[0] for row in settings]
    assert names == [*"1234567", "7, l1 on parameters", "8"]
    usual, again = (dict(settings[row].parameters) for row in list(settings)[6:8])
    assert again == usual | {"l1_on": "parameters"}
    assert [row.texts[1:] for row in list(settings)[6:8]] == [("✓", "✓", "✓", "", "✓")] * 2
    table = pd.read_csv(folder / "tables" / "components.csv")
    assert table["Row"].astype(str).tolist() == names
    (note,) = done["components"].shown.notes
    assert "This is a conjecture" in note


def test_seeds_differ_in_their_order_of_batches_in_one_row_alone(birds, done, folder):
    settings = find_experiment("seeds").settings(birds, Options())
    assert [dict(one.parameters)["shuffle"] for one in settings.values()] == ["common", "seed"]
    assert find_experiment("seeds").seeds == 20
    runs = [line for line in lines(folder) if line["config"].get("parameters") == {"epochs": 3, "shuffle": "seed"}]
    assert sorted(line["seed"] for line in runs) == [0, 1]  # the common order needs no runs of its own
    table = pd.read_csv(folder / "tables" / "seeds.csv")
    own = [line["metrics"]["accuracy"] for line in runs]
    assert table["Accuracy std"][1] == pytest.approx(np.std(own, ddof=1))


@pytest.mark.parametrize(("n_rows", "said"), [(512, ["own"]), (513, [])])
def test_one_batch_has_no_order_and_this_is_said(tmp_path, n_rows, said):
    rng = np.random.default_rng(0)
    split = ["train"] * n_rows + ["test"] * 40
    table = ConceptScores(
        rng.random((n_rows + 40, 3)), list("abc"), labels=rng.integers(0, 2, n_rows + 40), split=split
    )
    table.save(tmp_path / "own.parquet")
    (done,) = reproduce(
        [find_experiment("seeds")],
        {"own": table_source(tmp_path / "own.parquet")},
        tmp_path / "out",
        seeds=1,
        options=Options(parameters={"n_nodes": 2, "epochs": 1}),
        processes=1,
        verbose=False,
    )
    notes = [note for note in done.shown.notes if note.startswith("All rows fit in one batch")]
    assert notes == [
        f"All rows fit in one batch, so there is no order of batches: {name} (512 training rows)." for name in said
    ]


def test_what_the_paper_leaves_open_is_said_beside_every_table(done, folder):
    for name, one in done.items():
        if one.shown is not None:
            said = " ".join(one.shown.notes)
            assert "start from N(0, 0.1²)" in said
            if not {"significance", "clouds", "dynamics", "three-concepts", "gradient"} & {name}:
                assert "n − 1" in said
            assert "CUB" not in said
    gradient = " ".join(done["gradient"].shown.notes)
    assert "Trained with Adam" in gradient
    assert "The learning rate is 0.1" in gradient
    assert "the gray line is the weight times the largest pull" in gradient
    page = (folder / "summary.md").read_text()
    assert "linear layers start uniformly within ±1/√(number of inputs)" in page
    assert "HSIC is normalized (CKA) and has a linear kernel. CKNNA has k = 10 neighbors" in page


def test_figures_of_one_data_set_have_its_title(done):
    figures = done["gradient"].shown.figures | done["three-concepts"].shown.figures
    assert len(figures) == 6
    assert all(figure.get_suptitle().startswith("Bird scenes") for figure in figures.values())
    assert done["trade-off"].shown.figures["trade-off"].axes[0].get_title(loc="left") == "Bird scenes"


def test_the_figure_of_the_paper_has_its_two_qualities(done):
    axes = done["trade-off"].shown.figures["trade-off"].axes
    assert [ax.get_xlabel() for ax in axes] == ["Attribution Gini", "Node Coherence"]


def test_starts_are_as_the_notes_say():
    layer = ChoquetLayer(60, 40, generator=torch.Generator().manual_seed(0))
    assert float(layer.theta.detach().std()) == pytest.approx(0.1, rel=0.01)
    free = ChoquetLayer(60, 40, free_weights=True, generator=torch.Generator().manual_seed(0))
    assert float(free.theta.detach().var()) == pytest.approx(1 / 60**2, rel=0.02)


def test_everything_runs_on_many_classes_without_groups_or_says_why_not(tmp_path):
    species_table(12).save(tmp_path / "own.parquet")
    options = Options(methods=("choqolate", "pcbm"), parameters={"n_nodes": 3, "epochs": 2}, quick=True)
    places = {"own": table_source(tmp_path / "own.parquet")}, tmp_path / "out"
    found = reproduce(list(EXPERIMENTS.values()), *places, seeds=2, options=options, processes=1, verbose=False)
    reasons = {one.experiment.name: one.lacking["own"] for one in found if one.shown is None}
    without = (
        'own has no groups, so there is no worst group: add a column "group" with values such as "landbird on water"'
    )
    assert reasons == {"mitigation": without}
    assert not any(one.failed for one in found)


def test_subsets_are_the_first_classes_of_the_data_set(tmp_path):
    table = species_table()
    part = first_classes(table, 2)
    assert part.classes == ("kind 9", "kind 8")
    assert set(part.labels) == {"kind 9", "kind 8"}
    table.save(tmp_path / "cub.parquet")
    source = replace(table_source(tmp_path / "cub.parquet"), n_classes=5)
    assert source.load().classes == table.classes[:5]
    assert source.config()["n_classes"] == 5
    with pytest.raises(ChoqolateError, match="Expected at least 9 classes, but the table has 6"):
        first_classes(table, 9)


def test_scores_under_the_root_stand_beside_the_papers_numbers_and_what_is_missing_is_said(tmp_path):
    species_table().save(tmp_path / "cub.parquet")
    said = choqolate(
        "reproduce",
        "classes",
        "--root",
        tmp_path,
        "-o",
        tmp_path / "out",
        "--seeds",
        1,
        "--epochs",
        2,
        "--processes",
        1,
    )
    assert said.code == 0, said.err
    assert "is 34.20 in Table A3 and 54.56 in Table A7" in " ".join(said.out.split())
    table = pd.read_csv(tmp_path / "out" / "tables" / "classes.csv")
    assert table["Classes"].tolist() == [5]
    assert table["Accuracy paper mean"].tolist() == [0.8652]
    said = choqolate(
        "reproduce",
        "accuracy",
        "--root",
        tmp_path,
        "-o",
        tmp_path / "out",
        "--seeds",
        1,
        "--epochs",
        2,
        "--processes",
        1,
    )
    assert said.code == 0, said.err
    assert "CUB-200-2011" in said.out
    assert "is 34.20 in Table A3 and 54.56 in Table A7" in " ".join(said.out.split())
    for name, reason in {"cats-dogs-cars": "expected", "monumai": "expected", "coco": "Expected"}.items():
        assert f"accuracy not on {name}: {reason}" in said.err
    sources, absent = paper_sources(["cub", "coco"], tmp_path, tmp_path / "out")
    assert list(sources) == ["cub"]
    assert list(absent) == ["coco"]


def test_compare_on_ones_own_scores_prints_and_writes_one_table_and_one_figure(tmp_path):
    bird_table().save(tmp_path / "own.parquet")
    command = ["compare", tmp_path / "own.parquet", "-o", tmp_path / "out", "--seeds", 2, "--epochs", 4]
    command += ["--nodes", 3, "--processes", 1, "--method", "choqolate", "--method", "slr-avd"]
    said = choqolate(*command, "--also", "tests.experiments.test_tuning:Halves")
    assert said.code == 0, said.err
    for word in ("CHOQOLATE", "SLR-AVD", "Halves", "Attribution", "Worst group", "Gini Δ", "learning_rate"):
        assert word in said.out
    table = pd.read_csv(tmp_path / "out" / "tables" / "comparison.csv")
    assert table["Method"].tolist() == ["CHOQOLATE", "SLR-AVD", "Halves"]
    assert table["Parameters"].tolist()[:2] == [3 * 36 + 2 * 9, 3 * 6 + 3 + 2 * 3 + 2]
    assert (tmp_path / "out" / "figures" / "comparison.png").read_bytes().startswith(b"\x89PNG")
    assert "paper" not in (tmp_path / "out" / "tables" / "comparison.md").read_text()


def test_a_damaged_line_is_reported_and_run_again(tmp_path):
    bird_table().save(tmp_path / "own.parquet")
    command = ["compare", tmp_path / "own.parquet", "-o", tmp_path / "out", "--seeds", 2, "--epochs", 2, "--nodes", 3]
    command += ["--processes", 1, "--method", "choqolate"]
    assert choqolate(*command).code == 0
    results = tmp_path / "out" / "results.jsonl"
    first, second = results.read_text().splitlines()
    results.write_text(f"{first[:50]}\n{second}\n")
    said = choqolate(*command)
    assert said.code == 0
    assert "results.jsonl: line 1 skipped (it is not valid JSON" in said.err
    kept = results.read_text().splitlines()
    assert kept[1] == second
    assert {key: json.loads(kept[2])[key] for key in ("config", "seed")} == {
        key: json.loads(first)[key] for key in ("config", "seed")
    }


def test_debias_takes_the_spurious_words_from_a_file_and_says_what_needs_embeddings(tmp_path):
    bird_table(spurious=()).save(tmp_path / "own.parquet")
    (tmp_path / "words.txt").write_text("sea\nforest\n")
    short = ["--seeds", 1, "--epochs", 4, "--nodes", 3, "--processes", 1]
    command = ["debias", tmp_path / "own.parquet", "-o", tmp_path / "out", *short]
    refused = choqolate(*command)
    assert refused.code == 2
    assert "own has no concepts marked as spurious: name them in a file (--spurious words.txt)" in refused.err
    own = "tests.experiments.test_comparison:Gridded"
    said = choqolate(*command, "--spurious", tmp_path / "words.txt", "--also", own, width=200)
    assert said.code == 0, said.err
    table = pd.read_csv(tmp_path / "out" / "tables" / "mitigation.csv").set_index("Method")
    assert table.index[-2:].tolist() == [
        "Own logistic, as trained",
        "Own logistic, trained without the spurious concepts",
    ]
    assert table["own: Accuracy mean"][-2:].notna().all()
    assert math.isnan(table.loc["Ortho-Proj", "own: Accuracy mean"])
    assert 0 <= table.loc["CHOQ-PCR", "own: Worst group mean"] <= 1
    assert said.out.count("needs the embeddings of the images") == 1
    assert said.out.count("needs the images themselves: give the folder") == 1
    nowhere = choqolate(*command, "--spurious", tmp_path / "words.txt", "--images", tmp_path / "out")
    assert nowhere.code == 2
    assert "expected the images of the table in" in nowhere.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "nowhere.parquet"], "Expected a score table, but nowhere.parquet does not exist."),
        (["compare", "--method", "pcbn"], "Did you mean 'pcbm'?"),
        (["reproduce", "acuracy"], "Did you mean 'accuracy'?"),
        (["reproduce", "--root", "nowhere"], "Expected a folder with the data sets, but nowhere does not exist."),
        (
            ["reproduce", "--root", ".", "--data", "birds"],
            "Expected one of --root, --scores and --data, but two are given. Leave one out.",
        ),
        (["debias", "--embeddings", "."], "Expected no --embeddings with birds, which have their own. Leave it out."),
        (["debias", "--images", "."], "Expected no --images with birds, which have their own. Leave it out."),
        (
            ["reproduce", "--root", ".", "--embeddings", "x"],
            "Expected --embeddings with --scores, but it is given",
        ),
        (["compare", "--method", "pcbm", "--others", "x"], "Expected --others without --method, because --meth"),
    ],
)
def test_mistakes_are_said_in_one_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    said = choqolate(*arguments)
    assert said.code == 2
    assert message in said.err
    assert said.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_what_can_be_reproduced_is_listed():
    said = choqolate("reproduce", "--list")
    assert all(name in said.out for name in EXPERIMENTS)
    assert "Table A3" in said.out


def config_of(path):
    return table_source(path).config()


def test_a_source_keeps_the_names_of_its_columns(tmp_path):
    frame = pd.DataFrame({"kind": ["gull", "wren"] * 20, "site": ["sea"] * 40, "crest": np.arange(40.0)})
    frame.to_csv(tmp_path / "named.csv", index=False)
    source = table_source(tmp_path / "named.csv", label_column="kind", group_column="site", path_column=None)
    loaded = pickle.loads(pickle.dumps(source)).load()
    assert (loaded.concepts, loaded.classes, set(loaded.groups)) == (("crest",), ("gull", "wren"), {"sea"})


@pytest.mark.parametrize("changed", ["split", "groups", "spurious", "classes"])
def test_runs_on_a_table_with_other_parts_are_other_runs(tmp_path, changed):
    table = bird_table()
    other = {
        "split": table.split[::-1],
        "groups": table.groups[::-1],
        "spurious": ("sea",),
        "classes": ("waterbird", "landbird"),
    }[changed]
    path = tmp_path / "own.parquet"
    table.save(path)
    before = table_source(path)
    before.load()
    replace(table, **{changed: other}).save(path)
    assert config_of(path) != before.config()
    assert np.array_equal(getattr(table_source(path).load(), changed), other)


def test_scores_of_a_copy_are_made_anew_when_its_labels_change(tmp_path):
    root, out = tmp_path / "root", tmp_path / "out"
    (root / "val2017").mkdir(parents=True)
    for row in range(6):
        put(root / "val2017" / f"{row}.jpg", row)
    clip = str(write_clip(tmp_path / "clip"))

    def place(classes):
        lines = [f"val2017/{row}.jpg,{name},{'test' if row % 3 == 0 else 'train'}" for row, name in enumerate(classes)]
        (root / "coco.csv").write_text("\n".join(["image,class,split", *lines]))
        (sources, absent) = paper_sources(["coco"], root, out, clip, verbose=False)
        assert not absent
        return sources["coco"]

    first = place(["workplace", "cultural"] * 3)
    assert place(["workplace", "cultural"] * 3) == first
    second = place(["cultural", "workplace"] * 3)
    assert second.config() != first.config()
    assert second.load().labels.tolist() == ["cultural", "workplace"] * 3
    assert second.in_paper
    assert second.labels_from == "classes given in coco.csv, not annotations of COCO"


def test_places_of_coco_are_made_by_the_command_that_is_proposed(tmp_path, monkeypatch):
    root, out = tmp_path / "root", tmp_path / "my out"
    for row in range(6):
        put(root / "val2017" / f"{row}.jpg", row)
    clip = str(write_clip(tmp_path / "clip"))
    reason = paper_sources(["coco"], root, out, clip)[1]["coco"]
    assert "coco.csv with the columns image and class or " in reason
    command = shlex.split(reason.partition("To predict places: ")[2])
    done = choqolate(*command[1:])
    assert done.code == 0, done.err
    assert "6 images, places predicted by clip, zero-shot on the 365 scene names\n" in done.out
    places = (root / "coco.places.csv").read_text().splitlines()
    assert places[0] == "image,place,model"
    lines = [f"val2017/{row}.jpg,{'kitchen' if row % 2 else 'office'},{places[1].split(',', 2)[2]}" for row in range(6)]
    (root / "coco.places.csv").write_text("\n".join([places[0], *lines]))  # the tiny encoder may see no such place

    def encode(*_):
        raise AssertionError("the images are encoded again")

    monkeypatch.setattr(TransformersBackbone, "encode_pixels", encode)
    sources, absent = paper_sources(["coco"], root, out, clip, verbose=False)
    assert not absent
    assert sources["coco"].load().labels.tolist() == ["workplace", "home or hotel"] * 3
    assert "pseudo-labels, not annotations: places predicted by clip, zero-shot" in sources["coco"].labels_from
    (root / "coco.csv").write_text("image,class\nval2017/0.jpg,workplace\n")
    assert "both exist. Remove or rename one." in paper_sources(["coco"], root, out, clip)[1]["coco"]


def test_a_table_of_annotations_has_no_pseudo_labels(tmp_path):
    bird_table().save(tmp_path / "own.parquet")
    assert table_source(tmp_path / "own.parquet").labels_from is None


def test_known_spurious_words_of_a_published_data_set_are_used_if_the_file_marks_none(tmp_path):
    words = ["long bill", "webbed feet", "sea", "river"]
    table = bird_table(spurious=())
    replace(table.select(CONCEPTS[:4]), concepts=tuple(words)).save(tmp_path / "waterbirds.parquet")
    (sources, _) = paper_sources(["waterbirds"], tmp_path, tmp_path / "out")
    assert sources["waterbirds"].load().spurious == ("sea", "river")


def config(source, *setting, **more):
    return Asked.on(source, RunSetting(*setting, **more)).config


def test_the_code_of_a_method_of_ones_own_is_part_of_what_its_runs_are_known_by(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bird_table().save(tmp_path / "own.parquet")
    code = (Path(__file__).parent / "test_tuning.py").read_text().split("class Halves")[1].split("\ndef test")[0]
    head = "import numpy as np\nfrom sklearn.base import BaseEstimator\n\n\nclass Halves"
    seen = []
    for name, change in (("first_own", ""), ("first_own", "# another line\n")):
        (tmp_path / f"{name}.py").write_text(head + code + change)
        seen.append(config(table_source(tmp_path / "own.parquet"), f"{name}:Halves")["code"])
    assert seen[0] != seen[1]
    said = choqolate(
        *["compare", "own.parquet", "-o", "out", "--seeds", 1, "--processes", 1, "--method", "first_own:Halves"]
    )
    assert said.code == 0, said.err
    (tmp_path / "broken.py").write_text(head + code.replace("half = ", "raise KeyError('no'); half = "))
    said = choqolate(
        *["compare", "own.parquet", "-o", "out", "--seeds", 1, "--processes", 1, "--epochs", 2],
        *["--method", "choqolate", "--also", "broken:Halves"],
    )
    assert said.code == 2
    assert "The fit of broken:Halves failed with KeyError: 'no'" in said.out
    assert said.err.endswith(
        "choqolate: Halves on own failed: The fit of broken:Halves failed with KeyError: 'no'. All other results are "
        "written.\n"
    )


def test_the_code_of_base_classes_is_part_of_what_runs_are_known_by(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    base = "from tests.experiments.test_tuning import Halves\n\n\nclass Base(Halves):\n    pass\n"
    (tmp_path / "base_of_own.py").write_text(base)
    (tmp_path / "derived_own.py").write_text("from base_of_own import Base\n\n\nclass Own(Base):\n    pass\n")
    codes = [find_method("derived_own:Own").code]
    (tmp_path / "base_of_own.py").write_text(f"{base}    power = 2\n")
    codes += [find_method("derived_own:Own").code for _ in range(2)]
    assert codes[0] != codes[1] == codes[2]


def test_parameters_with_their_usual_values_make_the_same_runs(tmp_path):
    bird_table().save(tmp_path / "own.parquet")
    source = table_source(tmp_path / "own.parquet")
    usual = [config(source, "choqolate", said) for said in ({}, {"n_nodes": 8}, {"l1": 0.01})]
    assert usual[0] == usual[1] == usual[2]
    budgets = [config(source, "choqolate", {"steps": steps}) for steps in (100, 200)]
    assert budgets[0] == budgets[1]  # the paper's settings have a number of epochs of their own
    budgets = [config(source, "pcbm", {"steps": steps}) for steps in (100, 200)]
    assert budgets[0] != budgets[1]


def test_when_nothing_can_be_made_the_command_fails_and_says_why(tmp_path):
    table = bird_table()
    table.take(table.split != "test").save(tmp_path / "own.parquet")
    said = choqolate("compare", tmp_path / "own.parquet", "-o", tmp_path / "out")
    assert said.code == 2
    assert "expected rows for 'test'" in said.err
    table.save(tmp_path / "whole.parquet")
    said = choqolate(
        "debias",
        tmp_path / "whole.parquet",
        "-o",
        tmp_path / "out",
        "--temperature",
        -1,
        "--seeds",
        1,
        "--processes",
        1,
    )
    assert said.code == 2
    assert "Nothing could be made: expected temperature" in said.err


@pytest.mark.parametrize("command", [["debias"], ["reproduce", "mitigation", "--scores"]])
def test_a_way_out_of_a_bias_that_fails_is_named_and_all_others_are_written(tmp_path, monkeypatch, command):
    def fail(case):
        raise ChoqolateError("Expected other rows, but these came.")

    monkeypatch.setitem(DEBIASING, "dfr", replace(DEBIASING["dfr"], apply=fail))
    bird_table().save(tmp_path / "own.parquet")
    said = choqolate(
        *command, tmp_path / "own.parquet", "-o", tmp_path / "out", "--seeds", 1, "--epochs", 2, "--processes", 1
    )
    assert said.code == 2
    told = "DFR on own failed: Expected other rows, but these came. All other results are written."
    assert said.err == f"choqolate: {told}\n"
    table = pd.read_csv(tmp_path / "out" / "tables" / "mitigation.csv").set_index("Method")
    runs = table["own: Accuracy runs"].to_dict()
    needy = [name for name in runs if name.startswith("Ortho") or "augmented" in name]  # no failure
    assert {name for name, count in runs.items() if count == 0} == {"DFR", *needy}


def test_a_folder_of_others_is_left_alone_and_pages_of_ours_are_kept(tmp_path):
    bird_table().save(tmp_path / "own.parquet")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "summary.md").write_text("my own words")
    said = choqolate("compare", tmp_path / "own.parquet", "-o", tmp_path / "mine")
    assert said.code == 2
    assert (
        f"Expected a new or empty folder for tables and figures, but {tmp_path / 'mine'} holds other things. Choose "
        "another one." in said.err
    )
    assert (tmp_path / "mine" / "summary.md").read_text() == "my own words"
    (tmp_path / "demo" / "unbiased" / "images").mkdir(parents=True)
    assert choqolate("compare", tmp_path / "own.parquet", "-o", tmp_path / "demo").code == 2
    (tmp_path / "begun" / "birds" / "images").mkdir(parents=True)
    check_folder(tmp_path / "begun")  # drawn, and stopped before the first run
    short = ["-o", tmp_path / "out", "--seeds", 1, "--epochs", 2, "--nodes", 3, "--processes", 1]
    assert choqolate("compare", tmp_path / "own.parquet", *short, "--method", "choqolate").code == 0
    assert choqolate("debias", tmp_path / "own.parquet", *short).code == 0
    summary = (tmp_path / "out" / "summary.md").read_text()
    assert "All methods on own" in summary
    assert "Bias mitigation" in summary
    assert "compare " in summary
    assert "1 seed, rule accuracy, n_nodes 3, epochs 2" in summary
