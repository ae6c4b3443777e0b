"""The demo from pixels to the corrected model, run as a newcomer runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import choqolate as cq
from choqolate.datasets.birds import BIRDS, FAMILIES, read_truth
from choqolate.demo.birds import run_birds


def demo(*arguments: str, cwd, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from choqolate.cli import main; main()", "demo", *arguments]
    settings = os.environ | {"COLUMNS": "120", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"} | environment
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=settings, check=False)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small demo in a process of its own, with every way to a network closed."""
    folder = tmp_path_factory.mktemp("newcomer")
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    done = demo("--images", "200", "--seeds", "1", cwd=folder, HF_HUB_OFFLINE="1", **nowhere)
    assert done.returncode == 0, done.stderr
    return folder / "choqolate-demo", done


def test_everything_is_left_in_the_folder(small):
    folder, done = small
    assert done.stderr == ""
    assert {path.name for path in folder.iterdir()} == {
        *("report.html", "contact-sheet.jpg", "scores.parquet", "model", "model-edited"),
        *("images", "unbiased", "embeddings"),
    }
    assert "The pictures are in choqolate-demo/images" in done.stdout
    pictures = list((folder / "images").rglob("*.jpg"))
    assert len(pictures) == 200
    with Image.open(pictures[0]) as picture:
        assert picture.size == (96, 96)
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
        expected = [result.accuracy, 0, min(result.group_accuracy.values()), 0, *result.group_accuracy.values()]
        assert numbers == [round(100 * value, 1) for value in expected]
    assert cq.load(folder / "model-edited").removal_.concepts == BIRDS.spurious
    assert cq.load(folder / "model").provenance_["backbone"]["name"] == "mini"


def test_all_ways_to_remove_and_all_alternatives_are_shown(small):
    _, done = small
    for words in (
        *("rescale", "recalibrated", "canonical", "impute", "placebo", "retrained", "unbiased", "frozen"),
        *("Attribution", "Coherence", "temperature", "learning rate", "choqolate score PHOTOS/", "mostly chance"),
    ):
        assert words in done.stdout, words


def test_the_pictures_can_be_scored_again_with_other_words(small, tmp_path, monkeypatch, capsys):
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


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """The demo as it is, with ten runs."""
    return run_birds(tmp_path_factory.mktemp("full"), n_runs=10, verbose=False)


def test_removal_lifts_the_worst_group_and_a_placebo_does_not(full):
    before = np.array(full.ours.worst_groups)
    for outcome in full.removals[:-1]:
        lifts = np.array(outcome.worst_groups) - before
        assert lifts.mean() >= 0.15, outcome.name
        assert (lifts > 0).sum() >= 9, outcome.name
    placebo = full.removals[-1]
    assert placebo.name.startswith("placebo")
    assert (np.array(placebo.worst_groups) - before).mean() < 0.02


def test_nodes_are_sparse_and_coherent(full):
    assert full.ours.gini.mean >= 0.7
    assert full.ours.gini.mean > full.linear.gini.mean + 0.2
    assert full.ours.coherence.mean > full.linear.coherence.mean


def test_training_on_unbiased_pictures_is_a_ceiling_above_the_biased_model(full):
    unbiased = next(outcome for outcome in full.alternatives if "unbiased" in outcome.name)
    assert unbiased.worst_group.mean > full.ours.worst_group.mean + 0.15
    assert unbiased.accuracy.mean > full.ours.accuracy.mean


def test_the_temperature_is_the_largest_within_a_point_of_the_best(full):
    tried = full.temperature.accuracy
    close = [value for value, accuracy in tried.items() if accuracy >= max(tried.values()) - 0.01]
    assert full.temperature.value == max(close)
    assert full.model.temperature == full.temperature.value


def test_words_that_lead_a_node_belong_together(full):
    """Of most nodes the three leading concepts speak for the same class, in the truth of the training pictures."""
    shown, waterbird = read_truth(full.folder / "images"), full.rows.labels == "waterbird"
    train = full.rows.split == "train"
    speaks = {}
    for family in FAMILIES:
        true = np.isin(shown[family.attribute], family.values)[train]
        for_water = waterbird[train][true].mean() > 0.5
        speaks |= dict.fromkeys(family.words, "waterbird" if for_water else "landbird")
    leading = [[full.model.concepts_[j] for j in np.argsort(-row)[:3]] for row in full.model.node_attributions_]
    together = [len({speaks[word] for word in words}) == 1 for words in leading]
    assert sum(together) >= 6, leading
