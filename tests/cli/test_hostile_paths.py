"""Places that cannot be read from or written to: one sentence with exit code 2, and nothing is left there."""

from __future__ import annotations

import os

import numpy as np
import pytest

import choqolate as cq
from tests.cli.test_data_commands import choqolate

pytestmark = pytest.mark.hostile("places to write to")

PLACES = {
    "a name too long": "n" * 300,
    "a path too long": "/".join(["p" * 200] * 30),
    "below a file": "scores.parquet/x",
    "below a device": "/dev/null/x",
    "below no folder": "/proc/self/none/x",
    "a circle of links": "circle",
    "below a circle of links": "circle/x",
    "no UTF-8": os.fsdecode(b"caf\xe9/\xe9"),
}
COMMANDS = {
    "remove": ("remove", "model", "sea", "-o", "{}"),
    "predict": ("predict", "model", "scores.parquet", "-o", "{}.csv"),
    "explain": ("explain", "model", "--scores", "scores.parquet", "-o", "{}.html"),
    "card": ("card", "model", "-o", "{}.md"),
    "score": ("score", "images", "--concepts", "words.txt", "--backbone", "mini", "-o", "{}.parquet"),
    "embed": ("embed", "images", "--backbone", "mini", "-o", "{}"),
    "model": ("eval", "{}", "scores.parquet"),
    "table": ("eval", "model", "{}.parquet"),
    "table of text": ("eval", "model", "{}.csv"),
    "words": ("score", "images", "--concepts", "{}", "--backbone", "mini", "-o", "o.parquet"),
    "encoder": ("embed", "images", "--backbone", "{}", "-o", "o"),
    "edits": ("apply", "model", "{}", "-o", "o"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paths")
    scores = np.random.default_rng(0).random((40, 3))
    labels = np.where(scores[:, 0] > 0.5, "gull", "wren")
    table = cq.ConceptScores(scores, ["sea", "forest", "lake"], labels=labels, split=["train"] * 30 + ["test"] * 10)
    table.save(folder / "scores.parquet")
    cq.ChoqolateClassifier(n_nodes=2, epochs=2).fit(table.scores, table.labels).save(folder / "model")
    (folder / "circle").symlink_to("circle")
    (folder / "words.txt").write_text("sea\nforest\n")
    (folder / "images").mkdir()
    (folder / "images" / "1.png").write_bytes(b"no image")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("where", PLACES)
def test_a_place_that_cannot_be_used_is_one_sentence(place, monkeypatch, command, where):
    monkeypatch.chdir(place)
    monkeypatch.setenv("CHOQOLATE_CACHE", str(place / "cache"))
    before = sorted(os.listdir())
    done = choqolate(*(word.replace("{}", PLACES[where]) for word in COMMANDS[command]))
    made = [name for name in set(os.listdir()) - set(before) if not name.endswith("quarantine.csv")]
    assert done.code == 2 or (done.code == 0 and made)  # a circle of links may be replaced by a file
    assert "Traceback" not in done.err
    assert "Errno" not in done.err
    if done.code == 2:
        assert len(done.err.splitlines()) <= 2
        assert [name for name in made if name.startswith(".")] == []


def test_the_root_is_no_place_for_embeddings(place, monkeypatch):
    monkeypatch.chdir(place)
    done = choqolate("embed", "images", "--backbone", "mini", "-o", "/")
    assert done.code == 2
    assert "Expected a new folder or file for the output, but got /" in done.err
