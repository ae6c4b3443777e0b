"""The commands predict and drift: scores, images, flags, refusals, and a run that is killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageDraw

import choqolate as cq
from choqolate.analysis.predicting import check_predictions_file, predict_source
from tests.cli.test_data_commands import choqolate as run_here
from tests.cli.test_explain_command import place  # noqa: F401  # drawn birds, their scores, a model
from tests.concepts.image_files import write_album
from tests.small_tables import bird_scores

SHARD_ROWS = 16  # small shards, so that few images fill many of them


@pytest.fixture
def run(place, monkeypatch, tmp_path):  # noqa: F811
    """Run a command in this process, beside the model: exit code, standard output, standard error."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("CHOQOLATE_CACHE", str(tmp_path / "cache"))
    return lambda *arguments, width=120: run_here(*arguments, width=width)


@pytest.fixture(scope="module")
def church(tmp_path_factory):
    """A church: a stone wall with arches and a tower, as no bird has them."""
    image = Image.new("RGB", (300, 400), (226, 226, 230))
    draw = ImageDraw.Draw(image)
    draw.rectangle((30, 150, 270, 400), fill=(150, 125, 100))
    draw.polygon([(110, 150), (150, 20), (190, 150)], fill=(90, 60, 50))
    for left in range(45, 250, 55):
        draw.rectangle((left, 260, left + 35, 400), fill=(30, 25, 25))
        draw.ellipse((left, 240, left + 35, 285), fill=(30, 25, 25))
    for top in range(160, 400, 12):
        draw.line((30, top, 270, top), fill=(110, 90, 70), width=2)
    file = tmp_path_factory.mktemp("church") / "church.png"
    image.save(file)
    return file


def test_scores_give_one_row_each_in_their_order(run, place, tmp_path):  # noqa: F811
    code, out, err = run("predict", "model", "scores.parquet", "-o", tmp_path / "p.csv")
    assert code == 0, err
    assert err == ""
    assert f"The predictions are in {tmp_path / 'p.csv'}." in out.replace("\n", "")
    table, found = cq.ConceptScores.load(place / "scores.parquet"), pd.read_csv(tmp_path / "p.csv")
    assert found["path"].tolist() == table.paths.tolist()
    model = cq.load(place / "model")
    assert found["predicted"].tolist() == model.predict(table).tolist()
    np.testing.assert_allclose(found["probability"], model.predict_proba(table).max(1), rtol=1e-5)
    assert f"{int(found['look'].sum())} of 120 rows flagged for review" in out
    code, _, err = run("predict", "model", "scores.parquet", "-o", tmp_path / "p.parquet")
    assert code == 0, err
    again = pd.read_parquet(tmp_path / "p.parquet")
    assert again["predicted"].tolist() == found["predicted"].tolist()
    table.save(tmp_path / "scores.csv")
    assert run("predict", "model", tmp_path / "scores.csv", "-o", tmp_path / "q.csv")[0] == 0
    assert (tmp_path / "q.csv").read_text() == (tmp_path / "p.csv").read_text()
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".tmp") == []


def test_images_that_cannot_be_read_keep_their_row(run, place, tmp_path, church):  # noqa: F811
    birds = sorted((place / "birds" / "test").rglob("*.jpg"))[:5]
    album = tmp_path / "album"
    album.mkdir()
    for bird in birds:
        (album / bird.name).write_bytes(bird.read_bytes())
    (album / "a church.png").write_bytes(church.read_bytes())
    (album / "broken.jpg").write_bytes(b"no image")
    code, out, err = run("predict", "model", album, "-o", tmp_path / "p.csv", "--workers", "0")
    assert code == 0, err
    found = pd.read_csv(tmp_path / "p.csv").set_index("path")
    assert found.index.tolist() == sorted(path.name for path in album.iterdir())
    broken = found.loc["broken.jpg"]
    assert pd.isna(broken["predicted"])
    assert broken["look"]
    assert "not an image" in broken["problem"]
    assert "the image cannot be read" in out
    readable = found.drop("broken.jpg")
    assert readable["problem"].isna().all()
    scores = cq.score_for_model(cq.load(place / "model"), [album / name for name in readable.index])
    assert readable["predicted"].tolist() == cq.load(place / "model").predict(scores).tolist()


def test_a_church_shown_to_a_bird_model_is_flagged(tmp_path, church):
    birds = cq.datasets.birds
    rows = birds.render_birds(tmp_path / "birds", 600, seed=3, workers=1)
    mini = cq.load_backbone("mini")
    words = cq.Vocabulary.parse(birds.BIRDS.core, spurious=birds.BIRDS.spurious)
    table = cq.score(cq.embed(rows, mini, tmp_path / "embeddings", workers=0), words, mini)
    model = cq.fit_scores(table, n_nodes=3, epochs=5)
    row = predict_source(model, church, embeddings=tmp_path / "church").table.iloc[0]
    assert row["unlike_training"]
    assert row["why_look"].startswith("unlike any training image")
    assert model.predict_table(table.part("val"))["unlike_training"].mean() < 0.05
    model.save(tmp_path / "model")
    said = run_here("explain", tmp_path / "model", "--image", church, "-o", tmp_path / "page.html")
    assert said.code == 0, said.err
    assert f"Look twice: {row['why_look']}." in " ".join(said.out.split())
    assert "look twice" in (tmp_path / "page.html").read_text()
    bird = table.provenance.root + "/" + table.part("val").paths[0]
    assert "Look twice" not in run_here("explain", tmp_path / "model", "--image", bird).out


def test_one_image_a_list_and_embeddings_are_sources_too(run, place, tmp_path):  # noqa: F811
    bird = sorted((place / "birds" / "test").rglob("*.jpg"))[0]
    assert run("predict", "model", bird, "-o", tmp_path / "one.csv")[0] == 0
    (tmp_path / "list.csv").write_text(f"image,class\n{bird},waterbird\n")
    assert run("predict", "model", tmp_path / "list.csv", "-o", tmp_path / "list-out.csv")[0] == 0
    one, listed = (pd.read_csv(tmp_path / name) for name in ("one.csv", "list-out.csv"))
    assert one["path"].tolist() == [bird.name]
    assert listed["label"].tolist() == ["waterbird"]
    assert one["probability"].tolist() == listed["probability"].tolist()
    code, _, err = run("predict", "model", "embeddings", "-o", tmp_path / "all.csv")
    assert code == 0, err
    assert len(pd.read_csv(tmp_path / "all.csv")) == 120


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("scores.parquet", "-o", "p.txt"), "Expected a file that ends in .csv or .parquet, but got p.txt."),
        (("scores.parquet", "-o", "scores.parquet"), "scores.parquet is an input"),
        (("scores.parquet", "-o", "birds/../scores.parquet"), "scores.parquet is an input"),
        (("scores.parquet", "-o", "words.txt/p.csv"), "words.txt is a file"),
        (("nothing", "-o", "p.csv"), "nothing does not exist"),
        (("words.txt", "-o", "p.csv"), "Expected scores (.parquet, .csv), an image"),
        (("scores.parquet", "-o", "p.csv", "--abstain", "95"), "at most 1"),
        (
            ("scores.parquet", "-o", "p.csv", "--workers", "1"),
            "Expected no workers because the source already contains scores",
        ),
        (("birds/test", "-o", "p.csv", "--backbone", "nowhere"), "nowhere"),
    ],
)
def test_mistakes_end_before_the_work(run, place, arguments, message):  # noqa: F811
    code, _, err = run("predict", "model", *arguments)
    assert code == 2
    assert message in " ".join(err.split())
    assert len(err.splitlines()) == 1
    assert not (place / "p.csv").exists()


def test_a_model_is_calibrated_for_one_prediction(run, place, tmp_path):  # noqa: F811
    X, y, _ = bird_scores(400)
    split = np.array(["train", "val", "test", "test"])[np.arange(400) % 4]
    table = cq.ConceptScores(X.to_numpy(), list(X.columns), labels=y, split=split)
    table.save(tmp_path / "scores.parquet")
    cq.fit_scores(table, n_nodes=2, epochs=10).remove_concepts("sea").save(tmp_path / "model")
    arguments = (
        "predict",
        tmp_path / "model",
        tmp_path / "scores.parquet",
        "-o",
        tmp_path / "p.csv",
        "--abstain",
        "0.9",
    )
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert "it was edited since, so the threshold would be wrong" in err
    code, out, err = run(*arguments[:-2])
    assert code == 0
    assert err.count("calibrated before the latest edits or undos") == 1
    assert "The probabilities were calibrated before the latest edits on 100 rows" in " ".join(out.split())
    code, out, err = run(*arguments, "--calibrate", tmp_path / "scores.parquet")
    assert (code, len(err.splitlines())) == (0, 1)  # that the predictions from before are replaced
    assert "The probabilities are calibrated on 100 rows (val rows of the table)." in out
    assert "To reach an accuracy of 90.0%, the model " in " ".join(out.split())
    code, out, _ = run("eval", tmp_path / "model", tmp_path / "scores.parquet")
    assert code == 0
    assert "calibration error " in out
    assert "calibrated before the latest edits on 100 rows (val rows of the table): calibrate it again" in " ".join(
        out.split()
    )


def test_a_link_to_an_input_is_the_input(place, tmp_path):  # noqa: F811
    (tmp_path / "link.parquet").symlink_to(place / "scores.parquet")
    with pytest.raises(cq.ChoqolateError, match="is an input"):
        check_predictions_file(tmp_path / "link.parquet", place / "scores.parquet")
    check_predictions_file(tmp_path / "new.parquet", place / "scores.parquet", None)


def test_labels_that_are_numbers_keep_all_their_digits(tmp_path):
    X, y, _ = bird_scores(60)
    labels = np.where(y == y[0], 12345678.0, 12345679.0)
    table = cq.ConceptScores(X.to_numpy(), list(X.columns), labels=labels)
    model = cq.ChoqolateClassifier(n_nodes=2, epochs=10).fit(X, labels)
    found = predict_source(model, table)
    found.save(tmp_path / "p.csv")
    back = pd.read_csv(tmp_path / "p.csv")
    for name in ("label", "predicted", "runner_up"):
        assert back[name].tolist() == found.table[name].astype(float).tolist()
    np.testing.assert_allclose(back["probability"], found.table["probability"].astype(float), rtol=1e-5)
    assert max(len(text) for text in pd.read_csv(tmp_path / "p.csv", dtype=str)["probability"]) <= 11
    assert back["contribution_3"].isna().tolist() == found.table["contribution_3"].isna().tolist()


def test_drift_is_a_table_or_json(run, place, tmp_path):  # noqa: F811
    table = cq.ConceptScores.load(place / "scores.parquet")
    moved = table.scores.copy()
    moved[:, table.concepts.index("sea")] += 0.3
    cq.ConceptScores(moved, table.concepts, labels=table.labels).save(tmp_path / "later.parquet")
    code, out, err = run("drift", "model", "scores.parquet", tmp_path / "later.parquet")
    assert (code, err) == (0, "")
    assert out.startswith("Drift beyond chance: 1 of 5 concepts differ")
    assert "predicted in A" in out
    code, out, _ = run("drift", "model", "scores.parquet", tmp_path / "later.parquet", "--json")
    assert [one["concept"] for one in json.loads(out)["concepts"] if one["p_value"] < 0.05] == ["sea"]
    code, out, _ = run("drift", "model", "scores.parquet", "scores.parquet")
    assert out.startswith("No drift beyond chance.")


@pytest.mark.parametrize("command", ["predict", "drift"])
def test_help_has_an_example(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"Example: choqolate {command} model" in " ".join(out.split())


def predict(*arguments: str) -> None:
    """Run the command in a process of its own, with small shards."""
    import torch

    import choqolate.concepts.embedding as embedding
    from choqolate.cli import main

    os.setsid()
    for stream in (sys.__stdout__, sys.__stderr__):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    torch.set_num_threads(1)
    embedding.SHARD_ROWS = SHARD_ROWS
    sys.argv = ["choqolate", "predict", *arguments]
    main()


def test_killed_and_run_again_no_row_is_lost_or_twice(place, tmp_path):  # noqa: F811
    names = write_album(tmp_path / "album", 20 * SHARD_ROWS)
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["torch", "sklearn", "choqolate.cli", "choqolate.analysis.predicting"])

    def start(name):
        arguments = [str(place / "model"), str(tmp_path / "album"), "-o", str(tmp_path / f"{name}.csv")]
        arguments += ["--embeddings", str(tmp_path / name), "--workers", "0"]
        process = processes.Process(target=predict, args=arguments)
        process.start()
        return process

    process, shards = start("killed"), tmp_path / "killed" / "images"
    deadline = time.monotonic() + 60
    while len(list(shards.glob("*.parquet"))) < 2 and process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert not (tmp_path / "killed.csv").exists()
    assert 2 <= len(list(shards.glob("*.parquet"))) < 20
    for name in ("killed", "whole"):
        process = start(name)
        process.join(120)
        assert process.exitcode == 0
    killed = pd.read_csv(tmp_path / "killed.csv")
    assert killed["path"].tolist() == sorted(names)
    assert (tmp_path / "killed.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
