"""The commands datasets, embed and score, in this process, with a real encoder that is tiny."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import re
import shlex
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image
from rich.cells import cell_len

import choqolate as cq
from choqolate.cli import main
from choqolate.cli.data_commands import OnError, Precision
from choqolate.concepts.backbones import PRECISIONS, TransformersBackbone
from choqolate.datasets import DATASETS, read_folder
from tests.concepts.image_files import draw, encoded
from tests.datasets.layouts import make_cub, make_waterbirds, touch
from tests.tiny import write_clip

N_PHOTOS = 24
SPLIT_NOTE = "choqolate: note: no split was given: 30% of each class, always the same, are for testing\n"
BIRDS = [(f"00{row % 4}.Bird/{row}.png", row % 2, row % 3, row // 2 % 2) for row in range(N_PHOTOS)]


class Said(NamedTuple):
    code: int
    out: str
    err: str


def choqolate(*arguments: object, width: int = 120) -> Said:
    """Run a command: exit code, standard output, standard error."""
    code, out, err = 0, io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["choqolate", *map(str, arguments)])
        patch.setenv("COLUMNS", str(width))
        patch.setenv("NO_COLOR", "1")
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    return Said(code, out.getvalue(), err.getvalue())


def put(path, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(draw(seed), "PNG"))


def write_photos(folder, n=N_PHOTOS):
    """Images of two classes, gull and wren in turn."""
    for row in range(n):
        put(folder / ("wren" if row % 2 else "gull") / f"{row:02}.png", row)
    return folder


def columns(table):
    return [None if part is None else part.tolist() for part in (table.paths, table.labels, table.split, table.groups)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder that tests only read: images, words, an encoder, and the scores that came of them."""
    folder = tmp_path_factory.mktemp("cli data")
    write_clip(folder / "clip")
    write_photos(folder / "photos")
    make_waterbirds(folder / "birds", BIRDS)
    for row, (path, *_) in enumerate(BIRDS):
        put(folder / "birds" / path, row)
    (folder / "words.txt").write_text("# what birds have\nsea | ocean\nforest\n\nlong bill\nwebbed feet\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHOQOLATE_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        said = choqolate("score", "photos/", "--concepts", "words.txt", "-o", "scores.parquet", "--backbone", "clip")
    assert said.code == 0, said.err
    return folder, said


@pytest.fixture(autouse=True)
def here(place, tmp_path, monkeypatch):
    """A working folder and a cache for each test; images, words and encoder are linked, not copied."""
    monkeypatch.setenv("CHOQOLATE_CACHE", str(tmp_path / "cache"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for name in ("photos", "birds", "clip", "words.txt"):
        (work / name).symlink_to(place[0] / name)
    return work


def score(source="photos", *more, words="words.txt", output="scores.parquet"):
    """The command with the tiny encoder, in one process."""
    concepts = ["--concepts", words] if words else []
    return choqolate("score", source, *concepts, "-o", output, "--backbone", "clip", "--workers", "0", *more)


def test_score_goes_the_whole_way(place):
    folder, said = place
    table = cq.ConceptScores.load(folder / "scores.parquet")
    photos = read_folder(folder / "photos")
    assert columns(table)[:2] == [photos.paths.tolist(), photos.labels.tolist()]
    assert set(table.labels) == {"gull", "wren"}
    for label in ("gull", "wren"):
        assert (table.split[table.labels == label] == "test").sum() == 4
    assert (table.split == "train").sum() == 16
    assert table.concepts == ("sea", "forest", "long bill", "webbed feet")
    encoder = cq.load_backbone(folder / "clip")
    images = []
    for path in photos.files():
        with Image.open(path) as image:
            images.append(image.convert("RGB"))
    words = cq.Vocabulary.read(folder / "words.txt").combine(lambda prompt: encoder.encode_texts([prompt])[0])
    np.testing.assert_allclose(table.scores, encoder.encode_images(images) @ words.T, atol=1e-5)
    assert table.provenance.backbone.identity == encoder.identity
    assert table.provenance.root == str(folder / "photos")
    assert f"24 images with {folder / 'clip'}: 24 encoded now\n" in said.out
    assert "known already" not in said.out
    assert "\n24 images, 4 concepts, 2 classes\ncorrelation of 4 concepts over 24 rows: mean " in said.out
    assert said.out.endswith("\nThe scores are in scores.parquet. Next:\n  choqolate fit scores.parquet -o model\n")
    assert said.err == SPLIT_NOTE
    names = ["birds", "cache", "clip", "photos", "scores.parquet", "words.txt"]
    assert sorted(os.listdir(folder)) == names  # no list of bad images, no temporary file


def test_fit_eval_and_remove_take_the_scores(place):
    folder, said = place
    shutil.copy(folder / "scores.parquet", "scores.parquet")
    command = shlex.split(said.out.splitlines()[-1])
    assert command.pop(0) == "choqolate"
    fitted = choqolate(*command, "--paper", "--epochs", "5", "--nodes", "3")
    assert (fitted.code, fitted.err) == (0, "")
    assert "4 concepts, 3 nodes, 2 classes" in fitted.out
    assert re.search(r"\nrows +16 +8 *\n", fitted.out)
    measured = choqolate("eval", "model", "scores.parquet")
    assert (measured.code, measured.err) == (0, "")
    assert "test rows of the table" in measured.out
    removed = choqolate("remove", "model", "sea", "-o", "edited", "--scores", "scores.parquet")
    assert (removed.code, removed.err) == (0, "")
    model = cq.load("edited")
    assert model.removal_.concepts == ("sea",)
    assert model.provenance_.backbone.name == str(folder / "clip")
    assert str(folder / "photos") not in str(model.provenance_.as_dict())


def test_other_words_look_at_no_image_again(here):
    assert "24 encoded now\n" in score().out
    (here / "others.txt").write_text("tail\nforest\nlong bill\n")
    second = score(words="others.txt", output="others.csv")
    assert second.code == 0
    assert ": 0 encoded now, 24 known already\n" in second.out
    first, other = cq.ConceptScores.load("scores.parquet"), cq.ConceptScores.load("others.csv")
    assert other.concepts == ("tail", "forest", "long bill")
    np.testing.assert_array_equal(other.scores[:, 1:], first.scores[:, 1:3])
    assert columns(other) == columns(first)


def test_new_images_are_added(here):
    shutil.copytree("photos", "mine")
    score("mine")
    put(here / "mine/wren/new.png", 99)
    assert ": 1 encoded now, 24 known already\n" in score("mine").out
    assert len(cq.ConceptScores.load("scores.parquet")) == 25


def test_embeddings_are_kept_where_they_are_wanted(here):
    assert score("photos", "--embeddings", "kept").code == 0
    assert len(cq.Embeddings.load("kept")) == 24
    assert not (here.parent / "cache").exists()
    shutil.rmtree(here / "kept")
    assert score("photos", "--embeddings", "photos").code == 2


def test_bad_images_are_listed(here):
    shutil.copytree("photos", "mine")
    bad = ["gull/empty.jpg", "gull/letter.png", "wren/a\nb.jpg", "wren/A [red] ä.jpg", "wren/y.jpg", "wren/z.gif"]
    touch(here / "mine", bad, b"a letter")
    touch(here / "mine", bad[:1])
    said = score("mine", output="sub/scores.parquet")
    assert said.code == 0
    assert "24 images with " in said.out
    assert "\n6 could not be read, listed in sub/scores.quarantine.csv:\n" in said.out
    assert "\n  gull/empty.jpg: the file is empty\n" in said.out
    assert "\n  wren/a\\nb.jpg: not an image" in said.out
    assert "\n  wren/A [red] ä.jpg: not an image" in said.out
    assert "wren/z.gif" not in said.out
    assert "\n  and 1 more\n" in said.out
    with open("sub/scores.quarantine.csv", newline="", encoding="utf-8") as file:
        listed = list(csv.DictReader(file))
    assert [row["path"] for row in listed] == sorted(bad)
    assert all(row["reason"] for row in listed)
    assert set(bad).isdisjoint(cq.ConceptScores.load("sub/scores.parquet").paths)
    for path in bad:
        (here / "mine" / path).unlink()
    said = score("mine", output="sub/scores.parquet")
    assert "could not be read" not in said.out
    assert os.listdir("sub") == ["scores.parquet"]


def test_on_error_fail_names_the_file(here):
    shutil.copytree("photos", "mine")
    touch(here / "mine", ["gull/letter.jpg"], b"a letter")
    said = score("mine", "--on-error", "fail")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("choqolate: ")
    assert f"{here / 'mine/gull/letter.jpg'} cannot be read: not an image" in said.err
    assert said.err.count("\n") == 1
    assert not (here / "scores.parquet").exists()
    assert choqolate("embed", "mine", "-o", "e", "--backbone", "clip", "--on-error", "fail", "--workers", "0").code == 2
    assert score("photos", "--on-error", "fail").code == 0


def test_nothing_but_bad_images_is_an_error(here):
    touch(here / "mine", ["gull/a.jpg", "wren/b.jpg"], b"a letter")
    said = score("mine")
    assert (said.code, said.out) == (2, "")
    assert "none of the 2 images can be read; the first is gull/a.jpg: not an image" in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("name", ["new folder/map.png", "map.svg"])
def test_the_heat_map_is_an_image(here, name):
    said = score("photos", "--heatmap", name)
    assert said.code == 0
    assert f"\nThe heat map is in {name}.\n" in said.out
    if name.endswith(".png"):
        with Image.open(name) as image:
            image.load()
            assert image.format == "PNG"
            assert min(image.size) > 200
            assert len(image.convert("RGB").getcolors(1 << 24)) > 10
    else:
        assert b"<svg" in (here / name).read_bytes()
    assert [path.name for path in (here / name).parent.glob(".*")] == []


def test_templates_are_averaged(here):
    said = score("photos", "--template", "a photo of {}", "--template", "{} at sea")
    assert said.code == 0
    table = cq.ConceptScores.load("scores.parquet")
    templates = ("a photo of {}", "{} at sea")
    words = cq.Vocabulary.read("words.txt", templates=templates)
    encoder = cq.load_backbone("clip")
    expected = cq.score(cq.embed(read_folder("photos"), encoder, workers=0), words, encoder)
    np.testing.assert_allclose(table.scores, expected.scores, atol=1e-6)
    assert table.provenance.vocabulary.templates == tuple(templates)
    score("photos", output="plain.parquet")
    assert np.abs(table.scores - cq.ConceptScores.load("plain.parquet").scores).max() > 0.01


def test_spurious_words_stand_last_and_are_marked(here):
    (here / "places.txt").write_text("meadow\nlake | pond\n")
    said = score("photos", "--spurious", "places.txt")
    assert (said.code, said.err) == (0, SPLIT_NOTE)
    table = cq.ConceptScores.load("scores.parquet")
    assert table.concepts == ("sea", "forest", "long bill", "webbed feet", "meadow", "lake")
    assert table.spurious == ("meadow", "lake")
    assert choqolate("fit", "scores.parquet", "-o", "model", "--epochs", "2").code == 0
    assert choqolate("remove", "model", "--spurious", "-o", "edited").code == 0
    assert cq.load("edited").removal_.concepts == ("meadow", "lake")


def test_a_manifest_joins_groups_and_split(here):
    photos = read_folder("photos")
    lines = [
        f"{path},{('train', 'val', 'test')[row % 3]},{'at sea' if row % 4 < 2 else 'on land'}"
        for row, path in enumerate(photos.paths)
    ]
    (here / "rows.csv").write_text("\n".join(["path,split,group", *reversed(lines), "gull/unknown.png,test,x", ""]))
    said = score("photos", "--manifest", "rows.csv")
    assert (said.code, said.err) == (0, "")  # no split was made up
    table = cq.ConceptScores.load("scores.parquet")
    assert table.paths.tolist() == photos.paths.tolist()
    assert table.labels.tolist() == photos.labels.tolist()
    assert table.split.tolist() == [("train", "val", "test")[row % 3] for row in range(24)]
    assert table.groups.tolist() == ["at sea" if row % 4 < 2 else "on land" for row in range(24)]
    assert choqolate("embed", "photos", "-o", "vectors", "--backbone", "clip", "--workers", "0").code == 0
    said = choqolate("score", "vectors", "--concepts", "words.txt", "--manifest", "rows.csv", "-o", "second.parquet")
    assert said.code == 0, said.err
    assert columns(cq.ConceptScores.load("second.parquet")) == columns(table)


def test_a_manifest_of_other_images_is_an_error(here):
    (here / "rows.csv").write_text("path,group\nsomewhere/else.png,x\n")
    said = score("photos", "--manifest", "rows.csv")
    assert said.code == 2
    assert "expected paths in common, these rows have 'gull/00.png' and those to join 'somewhere/else.png'" in said.err
    assert said.err.count("\n") == 1
    assert not (here / "scores.parquet").exists()


@pytest.mark.parametrize(("name", "separator"), [("rows.csv", ","), ("rows.tsv", "\t"), ("ROWS.CSV", ";")])
def test_a_table_of_images_is_a_source(here, name, separator):
    (here / "sub").mkdir()
    paths = [f"../photos/{'wren' if row % 2 else 'gull'}/{row:02}.png" for row in range(24)][::-1]
    cells = [["Image", "class", "group", "SPLIT"]]
    cells += [
        [path, f"kind {row % 3}", f"g{row % 2}", "Testing" if row < 8 else "train"] for row, path in enumerate(paths)
    ]
    (here / "sub" / name).write_text("\n".join(map(separator.join, cells)))
    said = score(f"sub/{name}")
    assert (said.code, said.err) == (0, "")
    table = cq.ConceptScores.load("scores.parquet")
    assert columns(table) == [
        paths,
        [f"kind {row % 3}" for row in range(24)],
        ["test" if row < 8 else "train" for row in range(24)],
        [f"g{row % 2}" for row in range(24)],
    ]
    assert table.provenance.source == "csv"
    score("photos", output="folder.parquet")
    folder = cq.ConceptScores.load("folder.parquet")
    rows = [folder.paths.tolist().index(path.removeprefix("../photos/")) for path in paths]
    np.testing.assert_allclose(table.scores, folder.scores[rows], atol=1e-6)


def test_images_without_labels_are_scored(here):
    for row in range(5):
        put(here / "flat" / f"{row}.png", row)
    said = score("flat")
    assert (said.code, said.err) == (0, "")
    assert "There are no labels to train on: put each class into a folder, or use --manifest." in said.out
    assert "choqolate fit" not in said.out
    table = cq.ConceptScores.load("scores.parquet")
    assert (len(table), table.labels, table.split) == (5, None, None)


def test_words_named_like_a_class_are_mentioned(here):
    (here / "answers.txt").write_text("Gull\nforest\nsea\n")
    said = score("photos", words="answers.txt")
    assert said.err == (
        SPLIT_NOTE + "choqolate: note: concepts that name a class give the answer away; score without them: 'Gull'\n"
    )


def test_words_that_stand_twice_are_mentioned(here):
    (here / "twice.txt").write_text("sea\nforest\nlong bill\nsea | ocean\n")
    said = score("photos", words="twice.txt")
    assert said.code == 0
    assert said.err == "choqolate: note: listed more than once and used once: 'sea'\n" + SPLIT_NOTE


def test_embeddings_are_scored_without_images_and_weights(here):
    shutil.copytree("photos", "mine")
    shutil.copytree("clip", "encoder")
    touch(here / "mine", ["gull/letter.jpg"], b"a letter")
    said = choqolate("embed", "mine", "-o", "vectors", "--backbone", "encoder")  # with a worker
    assert (said.code, said.err) == (0, "")
    assert f"24 images with {here / 'encoder'}: 24 encoded now\n" in said.out
    assert "1 could not be read, listed in vectors.quarantine.csv:\n  gull/letter.jpg: " in said.out
    assert said.out.endswith("\n  choqolate score vectors --concepts words.txt -o scores.parquet\n")
    assert (here / "vectors.quarantine.csv").read_text().startswith("path,reason\ngull/letter.jpg,")
    assert not (here.parent / "cache").exists()
    shutil.rmtree(here / "mine")
    command = shlex.split(said.out.splitlines()[-1].removeprefix("  choqolate "))
    said = choqolate(*command)
    assert (said.code, said.err) == (0, SPLIT_NOTE)
    assert "encoded now" not in said.out
    score("photos", output="photos.parquet")
    first, same = cq.ConceptScores.load("scores.parquet"), cq.ConceptScores.load("photos.parquet")
    np.testing.assert_allclose(first.scores, same.scores, atol=1e-6)
    assert columns(first) == columns(same)
    (here / "encoder").rename(here / "away")
    (here / "fewer.txt").write_text("long bill\nforest\nsea | ocean\n")
    assert choqolate("score", "vectors", "--concepts", "fewer.txt", "-o", "fewer.csv").code == 0
    np.testing.assert_array_equal(cq.ConceptScores.load("fewer.csv").scores, first.scores[:, [2, 1, 0]])
    (here / "more.txt").write_text("long bill\ntail\n")
    said = choqolate("score", "vectors", "--concepts", "more.txt", "-o", "fewer.csv")
    assert (said.code, said.out) == (2, "")
    assert f"got '{here / 'encoder'}': there is no such folder" in said.err
    assert [line.startswith("choqolate: note: replaces") for line in said.err.splitlines()] == [True, False]
    said = choqolate("score", "vectors", "--concepts", "more.txt", "-o", "more.csv", "--backbone", "away")
    assert said.code == 0  # the same weights in another place


def test_embeddings_of_another_encoder_are_not_scored(here):
    assert choqolate("embed", "photos", "-o", "vectors", "--backbone", "clip", "--workers", "0").code == 0
    write_clip(here / "other", seed=4)
    more = ["-o", "s.csv", "--backbone", "other"]
    for command in (
        ["score", "vectors", "--concepts", "words.txt", *more],
        ["score", "photos", "--concepts", "words.txt", "--embeddings", "vectors", *more],
        ["embed", "photos", "-o", "vectors", "--backbone", "other"],
    ):
        said = choqolate(*command)
        assert (said.code, said.out) == (2, "")
        assert said.err.startswith("choqolate: vectors holds vectors of ")
        assert said.err.count("\n") == 1
    assert not (here / "s.csv").exists()


def test_embedding_again_encodes_nothing(here):
    command = ["embed", "photos", "-o", "deep/er/vectors", "--backbone", "clip", "--workers", "0", "--batch-size", "5"]
    assert ": 24 encoded now\n" in choqolate(*command).out
    assert ": 0 encoded now, 24 known already\n" in choqolate(*command).out


def test_datasets_are_listed():
    said = choqolate("datasets")
    assert (said.code, said.err) == (0, "")
    lines = {line.split()[0]: line for line in said.out.splitlines() if line.strip() and not line.startswith(" ")}
    assert lines.keys() >= DATASETS.keys()
    assert re.match(r"waterbirds +2 +48 \+ 9 +official train, val and test +bird and background", lines["waterbirds"])
    assert re.match(r"cub +200 +225 +official train and test", lines["cub"])
    for width in (80, 120):
        assert max(map(cell_len, choqolate("datasets", width=width).out.splitlines())) <= width


@pytest.mark.parametrize("name", DATASETS)
def test_one_dataset_is_shown(name):
    said = choqolate("datasets", name, width=10_000)
    assert (said.code, said.err) == (0, "")
    dataset = DATASETS[name]
    assert said.out.startswith(f"{dataset.title}\n{dataset.origin}\n")
    for line in (*dataset.layout.splitlines(), *dataset.core, *dataset.spurious, *dataset.classes, dataset.split):
        assert line in said.out
    assert f"\n{len(dataset.core)} concepts: {dataset.core[0]}; " in said.out
    assert (f"\n{len(dataset.spurious)} spurious concepts: " in said.out) == bool(dataset.spurious)
    assert ("--option" in said.out) == bool(dataset.options)


def test_a_copy_that_is_complete():
    said = choqolate("datasets", "waterbirds", "birds")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("Waterbirds in birds\n")
    assert re.search(r"\ngroup +train +val +test\n", said.out)
    for bird in ("landbird", "waterbird"):
        for background in ("land", "water"):
            assert re.search(rf"\n{bird} on {background} +2 +2 +2\n", said.out)
    assert re.search(r"\ntotal \(4 groups\) +8 +8 +8\n", said.out)
    assert said.out.endswith("\nall 24 images are there\n")


def test_a_copy_with_missing_images(here):
    shutil.copytree("birds", "torn")
    for path, *_ in BIRDS[-7:]:
        (here / "torn" / path).unlink()
    said = choqolate("datasets", "waterbirds", "torn")
    assert (said.code, said.err) == (2, "")
    named = ", ".join(path for path, *_ in BIRDS[-7:-2])
    assert said.out.endswith(f"\n7 of 24 images are missing: {named} and 2 more\n")


def test_options_reach_the_reader(here):
    rows = make_cub(here / "cub")
    touch(here / "cub", [path for path, *_ in rows])
    whole = choqolate("datasets", "cub", "cub")
    assert whole.code == 0
    assert "\nGrey kind 12 " in whole.out
    said = choqolate("datasets", "cub", "cub", "--option", "n_classes=3")
    assert said.code == 0
    assert [name for name in map(str, range(1, 13)) if f"\nGrey kind {name} " in said.out] == ["1", "2", "3"]
    n_rows = sum(label in ("Grey kind 1", "Grey kind 2", "Grey kind 3") for _, label, _ in rows)
    assert said.out.endswith(f"\nall {n_rows} images are there\n")


def test_a_dataset_brings_its_words(here):
    said = score("birds", "--dataset", "waterbirds", words=None)
    assert (said.code, said.err) == (0, "")
    assert "\n24 images, 57 concepts, 2 classes, 4 groups\n" in said.out
    table = cq.ConceptScores.load("scores.parquet")
    birds = DATASETS["waterbirds"]
    assert table.concepts == birds.core + birds.spurious
    assert (len(birds.core), table.spurious) == (48, birds.spurious)
    assert table.classes == ("landbird", "waterbird")
    assert table.split.tolist() == [("train", "val", "test")[split] for _, _, split, _ in BIRDS]
    assert table.labels.tolist() == [("landbird", "waterbird")[bird] for _, bird, _, _ in BIRDS]
    assert table.groups.tolist() == [
        f"{('landbird', 'waterbird')[bird]} on {('land', 'water')[background]}" for _, bird, _, background in BIRDS
    ]
    assert table.provenance.source == "waterbirds"
    said = score("birds", "--dataset", "waterbirds", output="own.csv")
    assert cq.ConceptScores.load("own.csv").concepts == ("sea", "forest", "long bill", "webbed feet")


def test_embeddings_of_a_dataset_know_its_words(here):
    command = ["embed", "birds", "--dataset", "waterbirds", "-o", "vectors", "--backbone", "clip", "--workers", "0"]
    assert choqolate(*command).code == 0
    said = choqolate("score", "vectors", "-o", "scores.parquet")
    assert (said.code, said.err) == (0, "")
    assert len(cq.ConceptScores.load("scores.parquet").concepts) == 57


MISTAKES = [
    ("score photos -o new.csv --backbone clip", "give --concepts words.txt"),
    ("score photos --spurious words.txt -o new.csv --backbone clip", "expected --concepts with --spurious"),
    ("score nowhere --concepts words.txt -o new.csv --backbone clip", "there is no nowhere"),
    ("score words.txt --concepts words.txt -o new.csv --backbone clip", "a file that ends in .csv or .tsv"),
    ("score empty --concepts words.txt -o new.csv --backbone clip", "the folder is empty"),
    ("score texts --concepts words.txt -o new.csv --backbone clip", "got 1 other files (.txt 1)"),
    ("score bad.csv --concepts words.txt -o new.csv --backbone clip", "expected a column called path or image"),
    ("score photos --concepts words.txt -o new.xlsx --backbone clip", "ends in .parquet or .csv, got new.xlsx"),
    ("score photos --concepts words.txt -o new --backbone clip", "ends in .parquet or .csv, got new"),
    ("score photos --concepts words.txt -o folder.csv --backbone clip", "folder.csv is a folder"),
    (
        "score photos --concepts words.txt -o new.csv --backbone clip --heatmap empty",
        "ends in .png, .svg or .pdf, but got empty",
    ),
    ("score photos --concepts words.txt -o new.csv --backbone clip --heatmap folder.png", "folder.png is a folder"),
    ("score photos --concepts gone.txt -o new.csv --backbone clip", "gone.txt cannot be read: No such file"),
    ("score photos --concepts empty -o new.csv --backbone clip", "empty cannot be read: Is a directory"),
    ("score photos --concepts blank.txt -o new.csv --backbone clip", "blank.txt has none"),
    ("score photos --concepts photos/gull/00.png -o new.csv --backbone clip", "00.png is not. Save it as UTF-8"),
    ("score photos --concepts words.txt --spurious gone.txt -o new.csv --backbone clip", "gone.txt cannot be read"),
    ("score photos --concepts words.txt --spurious words.txt -o new.csv --backbone clip", "got 'sea', 'forest'"),
    ("score photos --concepts words.txt -o new.csv --backbone clip --template photo", "expected {} once in every"),
    ("score photos --concepts words.txt -o new.csv --backbone clip --manifest gone.csv", "got gone.csv: No such file"),
    ("score photos --concepts words.txt -o new.csv --backbone clap", "got 'clap': there is no such folder"),
    ("score photos --concepts words.txt -o new.csv --backbone ./clap", "got './clap': there is no such folder"),
    ("score photos --concepts words.txt -o new.csv --backbone empty", "expected a checkpoint with config.json"),
    ("score photos --concepts words.txt -o new.csv --backbone clip --device moon", "device='moon'"),
    ("score photos --concepts words.txt -o new.csv --backbone clip --workers -1", "expected workers"),
    ("score photos --concepts words.txt -o new.csv --backbone clip --batch-size 0", "expected batch_size"),
    ("score photos --concepts words.txt -o new.csv --backbone clip --option n_classes=3", "expected --dataset NAME"),
    ("score photos --concepts words.txt -o new.csv --backbone clip --dataset cud", "got 'cud'. Did you mean 'cub'?"),
    ("score photos --dataset waterbirds -o new.csv --backbone clip", "looked for metadata.csv"),
    (
        "score birds --dataset waterbirds --option n=1 -o new.csv --backbone clip",
        "expected options for waterbirds: none",
    ),
    ("embed nowhere -o new --backbone clip", "there is no nowhere"),
    ("embed empty -o new --backbone clip", "the folder is empty"),
    ("embed photos -o new --backbone clap", "got 'clap': there is no such folder"),
    ("embed photos -o words.txt --backbone clip", "words.txt"),
    ("embed photos -o photos --backbone clip", "photos holds other things"),
    ("embed photos -o new --backbone clip --dataset cud", "got 'cud'. Did you mean 'cub'?"),
    ("datasets waterbird", "got 'waterbird'. Did you mean 'waterbirds'?"),
    (
        "datasets xyzzy",
        "Expected a data set among cats-dogs-cars, monumai, coco, cub, waterbirds, celeba, birds, got 'xyzzy'.",
    ),
    ("datasets waterbirds gone", "there is no gone; the data set is published at https://"),
    ("datasets waterbirds words.txt", "words.txt is a file"),
    ("datasets waterbirds photos", "looked for metadata.csv"),
    ("datasets cub photos --option n_classes", "expected --option KEY=VALUE such as n_classes=50, got 'n_classes'"),
    ("datasets cub photos --option =3", "got '=3'"),
    ("datasets cub photos --option n_classes=", "got 'n_classes='"),
    ("datasets cub photos --option classes=3", "expected options for cub: among 'n_classes', got 'classes'"),
    ("score photos --dataset cud -o new.csv --backbone clip", "got 'cud'. Did you mean 'cub'?"),
    ("score photos --concepts words.txt -o new.csv --backbone clip --heatmap new.xyz", "new.xyz"),
    ("score photos --concepts words.txt -o words.txt/new.csv --backbone clip", "words.txt is a file"),
    ("score photos --concepts words.txt -o new/new.csv --backbone clap", "got 'clap': there is no such folder"),
    ("score photos --concepts words.txt -o new.csv --backbone clip --manifest others.csv", "expected paths in common"),
    ("score photos.csv --concepts words.txt -o photos.csv --backbone clip", "photos.csv"),
    ("datasets cub --option classes=3", "expected the folder of a copy with --option"),
]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [pytest.param(*mistake, id=mistake[0]) for mistake in MISTAKES],
)
def test_mistakes_are_one_line_and_exit_code_2(here, monkeypatch, arguments, message):
    """And they are found before any image is encoded."""
    touch(here, ["texts/a.txt", "blank.txt"], b"\n# nothing\n")
    touch(here, ["bad.csv"], b"name,label\na.png,x\n")
    touch(here, ["others.csv"], b"path,group\nsomewhere/else.png,x\n")
    touch(here, ["photos.csv"], b"path\nphotos/gull/00.png\nphotos/wren/01.png\n")
    (here / "empty").mkdir()
    (here / "folder.csv").mkdir()
    (here / "folder.png").mkdir()
    before = sorted(os.listdir(here))
    monkeypatch.setattr(TransformersBackbone, "encode_pixels", lambda *_: pytest.fail("images were encoded"))
    said = choqolate(*shlex.split(arguments))
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("choqolate: ")
    assert message in said.err
    assert said.err.count("\n") == 1
    assert sorted(os.listdir(here)) == before


def test_one_image_is_scored(here):
    put(here / "one" / "a.png", 1)
    said = score("one")
    assert (said.code, said.err) == (0, "")
    assert len(cq.ConceptScores.load("scores.parquet")) == 1


def test_spurious_words_are_not_ignored_beside_those_of_a_dataset(here):
    (here / "places.txt").write_text("meadow\n")
    said = score("birds", "--dataset", "waterbirds", "--spurious", "places.txt", words=None)
    assert (said.code, said.err) == (
        2,
        "choqolate: expected --concepts with --spurious: the other words to score for\n",
    )


def test_the_next_command_after_embed_can_be_pasted(here):
    said = choqolate("embed", "photos", "-o", "my vectors", "--backbone", "clip", "--workers", "0")
    command = shlex.split(said.out.splitlines()[-1].removeprefix("  choqolate "))
    assert choqolate(*command).code == 0


def test_ctrl_c_says_that_it_stopped(monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(TransformersBackbone, "encode_pixels", stop)
    kept = "choqolate: note: what is encoded so far is kept: run the same command again to continue\n"
    assert score() == (130, "", f"{kept}choqolate: stopped\n")


@pytest.mark.parametrize(
    "arguments",
    [
        "score",
        "score photos --concepts words.txt",
        "score photos --concepts words.txt -o new.csv --on-error cry",
        "score photos --concepts words.txt -o new.csv --precision int8",
        "score photos --concepts words.txt -o new.csv --workers many",
        "embed photos",
        "embed photos -o new --concepts words.txt",
        "datasets a b c",
    ],
)
def test_mistakes_of_usage_are_exit_code_2(here, arguments):
    said = choqolate(*arguments.split())
    assert (said.code, said.out) == (2, "")
    assert "Usage: choqolate" in said.err
    assert not (here / "new").exists()


def test_the_choices_are_those_of_the_library():
    assert tuple(Precision) == PRECISIONS
    assert tuple(OnError) == ("skip", "fail")


@pytest.mark.parametrize("output", ["scores.parquet", "scores.csv"])
def test_a_failing_command_leaves_the_old_scores(here, output):
    assert score(output=output).code == 0
    before = (here / output).read_bytes()
    names = sorted(os.listdir(here))
    (here / "too long.txt").write_text("forest\n" + "sea " * 100)
    (here / "rows.csv").write_text("path,group\nsomewhere/else.png,x\n")
    for said in (
        score(words="gone.txt", output=output),
        score(words="too long.txt", output=output),
        score("photos", "--manifest", "rows.csv", output=output),
        score("photos", "--template", "no place", output=output),
    ):
        assert said.code == 2
        assert said.err.count("\n") == 1
        assert (here / output).read_bytes() == before
    assert sorted(os.listdir(here)) == sorted([*names, "too long.txt", "rows.csv"])


def test_ctrl_c_leaves_the_old_scores_and_the_next_run_goes_on(here, monkeypatch):
    score()
    before = (here / "scores.parquet").read_bytes()
    shutil.copytree("photos", "mine")
    for row in range(100, 110):
        put(here / "mine" / "gull" / f"{row}.png", row)
    encode = TransformersBackbone.encode_pixels

    def stop(backbone, pixels):
        monkeypatch.setattr(TransformersBackbone, "encode_pixels", encode)
        raise KeyboardInterrupt

    monkeypatch.setattr(TransformersBackbone, "encode_pixels", stop)
    said = score("mine")
    assert (said.code, said.out) == (130, "")
    assert "Traceback" not in said.err
    assert (here / "scores.parquet").read_bytes() == before
    assert [name for name in os.listdir(here) if name.startswith(".")] == []
    assert ": 10 encoded now, 24 known already\n" in score("mine").out
    assert len(cq.ConceptScores.load("scores.parquet")) == 34


def test_a_full_disk_leaves_the_old_scores(here, monkeypatch):
    score()
    before = (here / "scores.parquet").read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("choqolate._util.files.os.fsync", full)
    said = score("photos")
    assert said.code == 2
    replaced, mistake = said.err.splitlines()
    assert replaced.startswith("choqolate: note: replaces scores.parquet, saved 20")
    assert "No space left on device" in mistake
    assert (here / "scores.parquet").read_bytes() == before
    assert [name for name in os.listdir(here) if name.startswith(".")] == []


@pytest.mark.parametrize("command", ["datasets", "embed", "score"])
def test_every_command_has_an_example(command):
    said = choqolate(command, "--help")
    assert (said.code, said.err) == (0, "")
    examples = [line.strip() for line in said.out.splitlines() if "Example:" in line]
    assert [line.split()[:3] for line in examples] == [["Example:", "choqolate", command]]


def test_the_example_of_score_works(here):
    (line,) = [line for line in choqolate("score", "--help").out.splitlines() if "Example:" in line]
    command = shlex.split(line.partition("choqolate ")[2])
    (here / "PHOTOS").symlink_to(here / "photos")
    said = choqolate(*command, "--backbone", "clip", "--workers", "0")
    assert said.code == 0
    assert len(cq.ConceptScores.load("scores.parquet")) == 24


def test_names_are_printed_as_they_are(here):
    labels = ["[bold]gull", "wr\nen"]
    for row in range(24):
        put(here / "odd [red] photos" / labels[row % 2] / f"{row:02}.png", row)
    (here / "odd.txt").write_text("[red]web[/] :smile:\n🏄‍♀️ surfer\n[BOLD]gull\n")
    output = "my [b] scores.parquet"
    said = score("odd [red] photos", "--template", "{}", words="odd.txt", output=output)
    assert said.code == 0, said.err
    assert "score without them: '[BOLD]gull'\n" in said.err
    assert f"The scores are in {output}. Next:\n  choqolate fit '{output}' -o model\n" in said.out
    table = cq.ConceptScores.load(output)
    assert set(table.labels) == set(labels)
    assert table.concepts == ("[red]web[/] :smile:", "🏄‍♀️ surfer", "[BOLD]gull")


def test_the_table_does_not_depend_on_how_the_images_are_read(here):
    """Neither on workers nor on batches, up to rounding."""
    score()
    first = cq.ConceptScores.load("scores.parquet")
    more = ["--workers", "1", "--batch-size", "5", "--embeddings", "fresh", "--device", "cpu", "--precision", "float32"]
    assert score("photos", *more).code == 0
    second = cq.ConceptScores.load("scores.parquet")
    np.testing.assert_allclose(second.scores, first.scores, atol=1e-5)
    same = dataclasses.replace(second, scores=first.scores)
    assert same.fingerprint == first.fingerprint
    assert columns(second) == columns(first)


def test_images_that_can_none_of_them_be_read_are_all_listed(here):
    touch(here, ["bad/a.jpg", "bad/b.jpg"], b"no image")
    said = choqolate("embed", "bad", "-o", "vectors", "--backbone", "clip", "--workers", "0")
    assert said.code == 2
    assert "none of the 2 images can be read" in said.err
    assert (here / "vectors.quarantine.csv").read_text().count("not an image in a known format") == 2


def test_embeddings_into_the_folder_where_one_is(here, monkeypatch):
    (here / "inside").mkdir()
    monkeypatch.chdir(here / "inside")
    assert choqolate("embed", "../photos", "-o", ".", "--backbone", "../clip", "--workers", "0").code == 0
    assert (here / "inside" / "embeddings.json").exists()


def test_a_table_that_knows_some_images_only(here):
    (here / "rows.csv").write_text("path,group\ngull/00.png,sea\nwren/01.png,wood\n")
    said = score("photos", "--manifest", "rows.csv")
    assert "choqolate: note: 2 of 24 images are in the table that was joined\n" in said.err
    assert "24 images, 4 concepts, 2 classes, 2 groups\n" in said.out


def test_equal_images_on_both_sides_of_the_split_are_noted(here):
    for index in range(10):
        for label in ("a", "b"):
            put(here / "twins" / label / f"{index}.png", index % 2)
    said = score("twins")
    assert re.search(r"note: \d images for testing with exactly the content of one for training", said.err)


def test_words_that_are_too_long_are_noticed_before_the_images_turn(here, monkeypatch):
    monkeypatch.setattr(TransformersBackbone, "encode_pixels", lambda *_: pytest.fail("images were encoded"))
    (here / "long.txt").write_text("sea\n" + "x y z " * 40 + "\n")
    said = score("photos", words="long.txt")
    assert (said.code, said.out) == (2, "")
    assert "expected texts of at most 77 tokens" in said.err
    assert said.err.count("\n") == 1


def test_a_model_does_not_go_among_images(here):
    score("photos")
    for command in (["fit", "scores.parquet", "--epochs", "2", "-o", "photos"],):
        said = choqolate(*command)
        assert said.code == 2
        assert "photos holds other things" in said.err
