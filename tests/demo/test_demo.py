"""The demo from pixels to the corrected model, run as a newcomer runs it."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

import choqolate as cq
from choqolate.datasets.birds import BIRDS, FAMILIES, read_truth
from choqolate.demo.birds import run_birds
from tests.cli.test_data_commands import choqolate as run_here
from tests.shared import made_once

OFFLINE = """
import socket, sys
def refuse(self, address, *rest):
    if self.family != getattr(socket, "AF_UNIX", None):
        sys.exit(f"asked for the network: {address}")
    return connect(self, address, *rest)
connect, socket.socket.connect, socket.socket.connect_ex = socket.socket.connect, refuse, refuse
from choqolate.cli import main
main()
"""


def demo(*arguments: str, cwd, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command, in a process in which nothing can be reached."""
    command = [sys.executable, "-c", OFFLINE, "demo", *arguments]
    settings = os.environ | {"COLUMNS": "120", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"} | environment
    settings.pop("HF_HUB_OFFLINE", None)
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=settings, check=False)


class Said(NamedTuple):
    stdout: str
    stderr: str


def run_small_demo(folder: Path) -> None:
    done = demo("--images", "200", "--seeds", "1", cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "said.json").write_text(json.dumps([done.stdout, done.stderr]))


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """The folder of a small demo, only to be read, and what the command said."""
    folder = made_once(tmp_path_factory, "newcomer", run_small_demo)
    return folder / "choqolate-demo", Said(*json.loads((folder / "said.json").read_text()))


def test_the_example_draws_every_figure_from_what_the_demo_left(small, tmp_path, monkeypatch):
    script = Path(__file__).parents[2] / "examples" / "figures.py"
    monkeypatch.setattr("sys.argv", [str(script), str(small[0]), str(tmp_path / "figures")])
    runpy.run_path(str(script), run_name="__main__")
    page = (script.parents[1] / "docs" / "explanations.md").read_text()
    assert {path.name for path in (tmp_path / "figures").iterdir()} == set(re.findall(r"\(figures/(\w+\.png)\)", page))


def test_everything_is_left_in_the_folder(small):
    folder, done = small
    assert done.stderr == "starting the demo in choqolate-demo ...\n"
    assert {path.name for path in folder.iterdir()} == {
        *("report.html", "contact-sheet.jpg", "demo.json", "scores.parquet", "model", "model-edited"),
        *("images", "unbiased", "embeddings"),
    }
    assert "The images are in choqolate-demo/images" in done.stdout
    images = list((folder / "images").rglob("*.jpg"))
    assert len(images) == 200
    with Image.open(images[0]) as image:
        assert image.size == (96, 96)
    page = (folder / "report.html").read_text()
    assert "data:image/jpeg;base64," in page
    assert "://" not in re.sub(r'"data:[^"]*"', "", page)


def test_the_table_prints_what_the_saved_models_do(small):
    """With one run the means are its own numbers: the models and scores in the folder give the same ones."""
    folder, done = small
    table = cq.ConceptScores.load(folder / "scores.parquet")
    assert table.spurious == BIRDS.spurious
    for name, line in (("model", "  as trained"), ("model-edited", "  rescale ")):
        result = cq.evaluate(cq.load(folder / name), table)
        (printed,) = re.findall(rf"^{line} +(.*)$", done.stdout.split("linear\n")[0], re.MULTILINE)[:1]
        numbers = [float(number) for number in re.findall(r"\d+\.\d", printed)]
        expected = [result.accuracy, min(result.group_accuracy.values()), *result.group_accuracy.values()]
        assert numbers == [round(100 * value, 1) for value in expected]
    assert cq.load(folder / "model-edited").removal_.concepts == BIRDS.spurious
    assert cq.load(folder / "model").provenance_.backbone.name == "mini"


def test_all_ways_to_remove_and_all_alternatives_are_shown(small):
    _, done = small
    for words in (
        *("rescale", "recalibrated", "canonical", "impute", "placebo", "retrained", "unbiased", "frozen"),
        *("Attribution", "Coherence", "temperature", "learning rate", "choqolate score PHOTOS/", "mostly chance"),
    ):
        assert words in done.stdout, words


def test_the_images_can_be_scored_again_with_other_words(small, tmp_path, monkeypatch, capsys):
    from choqolate.cli import main

    folder, _ = small
    (tmp_path / "words.txt").write_text("blue feathers\nwater\nshort tail\n")
    arguments = [
        "score",
        f"{folder}/embeddings",
        "--concepts",
        f"{tmp_path}/words.txt",
        "-o",
        f"{tmp_path}/new.parquet",
    ]
    monkeypatch.setattr("sys.argv", ["choqolate", *arguments])
    main()
    table = cq.ConceptScores.load(tmp_path / "new.parquet")
    assert table.scores.shape == (200, 3)
    assert set(table.groups) == {f"{bird} on {side}" for bird in BIRDS.classes for side in ("land", "water")}
    assert "fit" in capsys.readouterr().out


def test_the_numbers_are_kept_run_by_run(small):
    folder, _ = small
    kept = json.loads((folder / "demo.json").read_text())
    (run,) = kept["outcomes"]["CHOQOLATE"]["as trained"]
    assert run == cq.evaluate(cq.load(folder / "model"), cq.ConceptScores.load(folder / "scores.parquet")).as_dict()
    assert {"rescale", "placebo", "retrained without them"} <= set(kept["outcomes"]["CHOQOLATE"])
    assert {"frozen at their mean", "retrained without them"} <= set(kept["outcomes"]["linear bottleneck"])


def test_only_a_folder_of_its_own_is_taken(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "scores.parquet").write_bytes(b"precious")
    monkeypatch.chdir(tmp_path)
    done = run_here("demo", "--images", "40", "--seeds", "1", "-o", "work")
    assert done.code == 2
    assert "work holds other things" in done.err
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["scores.parquet"]


def test_a_second_demo_replaces_the_first_and_leaves_what_others_put_there(small, tmp_path):
    folder, _ = small
    shutil.copytree(folder, tmp_path / "again")
    (tmp_path / "again" / "notes.txt").write_text("mine")
    run = run_birds(tmp_path / "again", 60, n_runs=1, verbose=False)
    assert len(run.rows) == 60
    assert (tmp_path / "again" / "notes.txt").read_text() == "mine"
    assert len(cq.ConceptScores.load(tmp_path / "again" / "scores.parquet")) == 60
    assert not (tmp_path / "again" / "report.html").exists()  # the old page would tell of other images
    (tmp_path / "again" / "images" / "train" / "holiday.jpg").write_bytes(b"precious")
    with pytest.raises(cq.ChoqolateError, match="images holds other things"):
        run_birds(tmp_path / "again", 60, n_runs=1, verbose=False)
    assert (tmp_path / "again" / "model").is_dir()


def test_one_run_claims_no_deviation(small):
    _, done = small
    assert "±" not in done.stdout
    assert "in the mean" not in done.stdout


@pytest.mark.long
def test_five_runs_of_the_demo(tmp_path):
    """What the data set is for: removal helps, a placebo does not, nodes can be read. One test, as it takes long."""
    full = run_birds(tmp_path / "demo", n_runs=5, verbose=False)
    before = np.array(full.ours.worst_groups)
    assert [outcome.name for outcome in full.removals] == ["rescale", "rescale, recalibrated", "canonical", "impute"]
    for outcome in full.removals:
        lifts = np.array(outcome.worst_groups) - before
        assert lifts.mean() >= 0.15, outcome.name
        assert (lifts > 0).sum() >= 4, outcome.name
    assert (np.array(full.placebo.worst_groups) - before).mean() < 0.02

    assert full.ours.gini.mean >= 0.7
    assert full.ours.gini.mean > full.linear.gini.mean + 0.2
    assert full.ours.coherence.mean > full.linear.coherence.mean + 0.1

    unbiased = next(outcome for outcome in full.alternatives if "unbiased" in outcome.name)
    assert unbiased.worst_group.mean > full.ours.worst_group.mean + 0.15
    assert unbiased.accuracy.mean > full.ours.accuracy.mean

    assert not full.search.by_group  # the groups are for measuring
    assert full.search.choice.gini >= full.search.paper.gini - 0.02
    assert full.search.choice.accuracy >= full.search.best.accuracy - 0.01
    assert {run.network_.architecture.n_nodes for run in full.models} == {full.search.choice.n_nodes}
    assert full.model.stability_.share > 0.8
    check_that_leading_words_belong_together(full)


def check_that_leading_words_belong_together(full):
    """Leading words of a node speak for one class, and of most nodes they are all of the bird or all of the place."""
    shown, waterbird = read_truth(full.folder / "images"), full.rows.labels == "waterbird"
    train = full.rows.split == "train"
    speaks = {}
    for family in FAMILIES:
        true = np.isin(shown[family.attribute], family.values)[train]
        for_water = waterbird[train][true].mean() > 0.5
        speaks |= dict.fromkeys(family.words, "waterbird" if for_water else "landbird")
    nodes = [row for run in full.models for row in run.node_attributions_]
    leading = [[full.table.concepts[j] for j in np.argsort(-row)[:3] if row[j] >= 0.05] for row in nodes]
    assert np.mean([len({speaks[word] for word in words}) == 1 for words in leading]) > 0.85
    assert full.unmixed[1] == len(nodes)
    assert full.unmixed[0] > 0.75 * len(nodes)
