from __future__ import annotations

import os
import subprocess
import sys

import pytest

import choqolate as cq
from tests.cli.test_data_commands import choqolate as run_here


def choqolate(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from choqolate.cli import main; main()", *arguments]
    environment = os.environ | {"COLUMNS": "120", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, **options)


def test_help_names_the_commands_and_gives_an_example():
    assert "demo" in choqolate("--help").stdout
    done = choqolate("demo", "--help")
    assert done.returncode == 0
    assert "Example: choqolate demo -o choqolate-demo" in done.stdout
    assert choqolate("--version").stdout == f"choqolate {cq.__version__}\n"


def test_paragraphs_of_help_are_as_wide_as_the_terminal():
    lines = [line.strip() for line in choqolate("compare", "--help").stdout.splitlines()]
    assert len(next(line for line in lines if line.startswith("Resumable: run the same command again"))) > 110


def test_demo_on_a_table_trains_reads_corrects_and_saves(tmp_path):
    done = choqolate("demo", "--data", "breast-cancer", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "starting the demo in choqolate-demo ...\n"
    for word in ("accuracy", "Attribution Gini", "Node Coherence", "Removing", "rescale", "canonical", "impute"):
        assert word in done.stdout
    model = cq.load(tmp_path / "choqolate-demo" / "model")
    assert len(model.concepts_) == 30
    assert all(f"\n{node} " in done.stdout for node in range(8))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--data", "moon"], "'moon' is not one of 'birds', 'breast-cancer'"),
        (["demo", "-o", "taken"], "taken is a file"),
        (["demo", "--images", "3"], "Invalid value for '--images'"),
        (["demo", "--nothing"], "No such option"),
        (["walk"], "No such command"),
    ],
)
def test_mistakes_end_with_one_line_and_exit_code_2(tmp_path, arguments, message):
    (tmp_path / "taken").write_text("a file")
    done = choqolate(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_debug_shows_the_traceback(tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("a file")
    done = choqolate("--debug", "demo", "-o", "taken", cwd=tmp_path)
    assert done.returncode != 0
    assert "Traceback" in done.stderr
    monkeypatch.chdir(tmp_path)
    with pytest.raises(cq.ChoqolateError, match="taken is a file"):  # which ends a process in the same way
        run_here("demo", "-o", "taken", "--debug")
