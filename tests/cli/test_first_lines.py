"""The first line of each command, and what it says of outputs that are there already."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from choqolate.cli import ORDER
from tests.cli.test_data_commands import choqolate
from tests.cli.test_model_commands import place, write_table  # noqa: F401

# Each in a process that cannot load what takes seconds: a first line that waits for it is not said.
EVERY_COMMAND = """
import contextlib, io, json, sys
sys.modules.update(dict.fromkeys(["torch", "transformers", "sklearn", "scipy", "pandas", "matplotlib", "pyarrow"]))
from choqolate.cli import main

said = {}
for command in json.loads(sys.argv[1]):
    sys.argv = ["choqolate", *command]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        with contextlib.suppress(SystemExit):
            main()
    said[command[0]] = out.getvalue().splitlines()[0]
print(json.dumps(said))
"""
COMMANDS = {
    "demo -o out": "starting the demo in out ...",
    "datasets cub photos": "looking for images in photos ...",
    "places photos -o new.csv": "reading photos ...",
    "vocabulary words.txt --for s.csv": "reading words.txt ...",
    "embed photos -o vectors": "looking for images in photos ...",
    "score photos --concepts words.txt -o s.parquet": "reading photos ...",
    "fit s.csv -o model": "reading s.csv ...",
    "eval model s.csv": "reading model and s.csv ...",
    "predict model photos": "reading model and photos ...",
    "drift model s.csv t.csv": "reading model and s.csv and t.csv ...",
    "explain model --scores s.csv": "reading model and s.csv ...",
    "card model": "reading model ...",
    "studio model --scores s.csv --export studio.html": "Reading model and s.csv ...",
    "remove model sea -o edited": "reading model ...",
    "simplify model -o short --terms 3": "reading model ...",
    "apply model edits.json -o edited": "reading model and edits.json ...",
    "export model -o model.onnx": "reading model ...",
    "compare s.csv": "reading s.csv ...",
    "debias -o out": "starting in out ...",
    "reproduce --root data": "reading data ...",
}


def test_every_command_says_something_before_it_loads_what_takes_seconds(tmp_path):
    for name in ("s.csv", "t.csv"):
        (tmp_path / name).touch()
    commands = json.dumps([shlex.split(command) for command in COMMANDS])
    done = subprocess.run(
        [sys.executable, "-c", EVERY_COMMAND, commands], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {command.split()[0]: line for command, line in COMMANDS.items()}
    assert set(ORDER) == {command.split()[0] for command in COMMANDS}


SAVED = r"choqolate: note: replaces {}, saved 2001-09-09 \d\d:46"
LONG_AGO = 1_000_000_000


def age(path):
    """Let a file, or all in a folder, have been saved long ago."""
    for one in [path, *path.rglob("*")]:
        os.utime(one, (LONG_AGO, LONG_AGO))


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("fit {0}/birds.parquet -o out --paper --nodes 2 --epochs 1 --runs 1", "out"),
        ("remove {0}/model sea -o out", "out"),
        ("simplify {0}/model -o out --terms 3", "out"),
        ("predict {0}/model {0}/birds.parquet -o out.csv", "out.csv"),
        ("explain {0}/model -o out.html", "out.html"),
        ("card {0}/model -o out.md", "out.md"),
        ("export {0}/model -o out.onnx", "out.onnx"),
        ("vocabulary --for {0}/birds.parquet -o out.txt", "out.txt"),
    ],
)
def test_replacing_an_output_is_said(place, tmp_path, monkeypatch, command, output):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    arguments = shlex.split(command.format(place))
    first = choqolate(*arguments)
    assert first.code == 0, first.err
    assert "replaces" not in first.err
    age(tmp_path / output)
    again = choqolate(*arguments)
    assert again.code == 0, again.err
    (said,) = [line for line in again.err.splitlines() if "replaces" in line]
    assert re.fullmatch(SAVED.format(re.escape(output)), said)


def test_what_is_refused_is_not_said_to_be_replaced(place, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").touch()
    (tmp_path / "out.md").touch()
    for command in ("remove {0}/model sea -o out", "card {0}/model --scores nowhere.csv -o out.md"):
        said = choqolate(*shlex.split(command.format(place)))
        assert (said.code, len(said.err.splitlines())) == (2, 1)
        assert "replaces" not in said.err
