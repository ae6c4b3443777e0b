"""The command places, and where pseudo-labels are called so."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest

import choqolate as cq
from choqolate.datasets.places import places365
from tests.cli.test_data_commands import choqolate, put
from tests.tiny import write_clip

N_IMAGES = 30
PATHS = [f"val2017/{row:02}.png" for row in range(N_IMAGES)]
KINDS = ["kitchen", "office", "beach"] * (N_IMAGES // 3)
PSEUDO = (
    "pseudo-labels, not annotations: places predicted by the classifier behind scores365.npz, mapped to location types"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A copy of COCO, an encoder, and the scores of a classifier that sees what KINDS says."""
    folder = tmp_path_factory.mktemp("places")
    for row, path in enumerate(PATHS):
        put(folder / "coco" / path, row)
    write_clip(folder / "clip")
    scores = np.random.default_rng(0).random((N_IMAGES, 365))
    scores[range(N_IMAGES), [places365().index(kind) for kind in KINDS]] = 2
    np.savez(folder / "scores365.npz", files=np.array(PATHS), scores=scores)
    (folder / "words.txt").write_text("sea\nforest\nlong bill\nwebbed feet\n")
    return folder


@pytest.fixture(autouse=True)
def here(made, tmp_path, monkeypatch):
    monkeypatch.setenv("CHOQOLATE_CACHE", str(tmp_path / "cache"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for one in made.iterdir():
        (work / one.name).symlink_to(one)
    return work


def test_from_the_scores_of_a_classifier_to_a_model_that_says_what_its_labels_are(here):
    done = choqolate("places", "scores365.npz", "-o", "places.csv")
    assert done.code == 0, done.err
    assert done.out.startswith("30 images, places predicted by the classifier behind scores365.npz\n")
    assert [line.split() for line in done.out.splitlines()[2:5]] == [
        ["home", "or", "hotel", "10"],
        ["workplace", "10"],
        ["none", "(left", "out)", "10"],
    ]
    assert "choqolate score COCO --dataset coco --option places=places.csv -o scores.parquet" in done.out
    assert cq.datasets.read_dataset("coco", "coco", places="places.csv").labels_from == PSEUDO

    checked = choqolate("datasets", "coco", "coco", "--option", "places=places.csv")
    assert f"note: {PSEUDO}" in checked.out
    assert "10 of 30 images show none of the 160 indoor places: left out" in checked.out

    how = ["--backbone", "clip", "--workers", "0", "--concepts", "words.txt"]
    reading = ["--dataset", "coco", "--option", "places=places.csv"]
    scored = choqolate("score", "coco", *reading, *how, "-o", "scores.parquet")
    assert scored.code == 0, scored.err
    assert f"choqolate: note: {PSEUDO}\n" in scored.err
    fitted = choqolate("fit", "scores.parquet", "-o", "model", "--paper", "--epochs", "2")
    assert fitted.code == 0, fitted.err
    assert cq.load("model").provenance_.labels_from == PSEUDO
    for said in (fitted, choqolate("eval", "model", "scores.parquet")):
        assert f"choqolate: note: the labels of scores.parquet: {PSEUDO}\n" in said.err
    assert json.loads(choqolate("eval", "model", "scores.parquet", "--json").out)["labels_from"] == PSEUDO
    assert choqolate("explain", "model", "-o", "report.html").code == 0
    assert PSEUDO in (here / "report.html").read_text()
    assert choqolate("card", "model", "-o", "card.md").code == 0
    assert "- Labels: pseudo-labels, not annotations: places predicted by" in (here / "card.md").read_text()


def test_from_images(here):
    done = choqolate("places", "coco", "-o", "places.csv", "--backbone", "clip", "--workers", 0)
    assert done.code == 0, done.err
    found = cq.predict_places("coco", "clip")
    lines = (here / "places.csv").read_text().splitlines()[1:]
    assert [tuple(line.split(",")[:2]) for line in lines] == list(zip(found.images, found.places, strict=True))
    assert "clip, zero-shot on the 365 scene names\n" in done.out
    command = shlex.split(done.out.splitlines()[-1])
    assert command == shlex.split("choqolate score coco --dataset coco --option places=places.csv -o scores.parquet")


def test_the_next_command_after_embeddings_names_the_copy(here):
    assert choqolate("embed", "coco", "-o", "kept", "--backbone", "clip", "--workers", 0).code == 0
    done = choqolate("places", "kept", "-o", "places.csv")
    assert done.code == 0, done.err
    assert "choqolate score COCO --dataset coco" in done.out


def test_data_sets_say_what_their_labels_are(here):
    assert "\nlabels of coco: not COCO annotations, but classes from a file" in choqolate("datasets").out
    assert "\nlabels: not COCO annotations, but classes from a file" in choqolate("datasets", "coco").out
    assert "labels:" not in choqolate("datasets", "cub").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("places gone -o new.csv", "gone does not exist"),
        ("places clip -o new.csv", "looked for train2017/, val2017/"),
        ("places words.txt -o new.csv", "ends in .npz, .parquet, .csv, but got words.txt"),
        ("places scores365.npz -o words.txt", "ends in .csv, but got words.txt"),
        ("places scores365.npz -o taken.csv", "taken.csv exists. Choose another name"),
        ("places scores365.npz -o new.csv --backbone clip", "Expected no backbone because the source holds scores"),
        ("places coco -o new.csv --backbone clap", "got 'clap': there is no such folder"),
        ("score coco --dataset coco -o new.csv --backbone clip", "choqolate places COCO -o coco.places.csv"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(here, arguments, message):
    (here / "taken.csv").write_text("mine")
    done = choqolate(*shlex.split(arguments))
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not (here / "new.csv").exists()
    assert (here / "taken.csv").read_text() == "mine"
