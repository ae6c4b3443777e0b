"""Commands that are killed at random moments: there is the old state or the new one, and the same command goes on."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import choqolate as cq
from choqolate._util.leftovers import is_leftover
from choqolate.experiments.engine.results import Results
from tests.concepts.test_kill import HEAVY
from tests.formats.write import FORMATS
from tests.small_tables import bird_scores
from tests.trust.ledger import note, scaled

pytestmark = pytest.mark.trust
COMMANDS = ["fit_command", "model_commands", "data_commands", "studio_command", "show_demo", "show_model", "show_data"]
MORE = [f"choqolate.cli.{name}" for name in [*COMMANDS, "show_formulas", "terminal"]]
MORE += ["choqolate.concepts.mini_backbone", "choqolate.demo.birds", "choqolate.demo.birds_page", "pandas", "pydantic"]
MORE += ["choqolate.report.model_page", "choqolate.studio.launch", "choqolate.studio.studio_file", "typer.main", "rich"]
MORE += ["choqolate.experiments", "matplotlib.figure"]


def run_command(folder: str, *arguments: str) -> None:
    """Run a command in a process of its own."""
    import torch

    from choqolate.cli import main

    os.chdir(folder)
    os.dup2(os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os.dup2(1, 2)
    torch.set_num_threads(1)
    sys.argv = ["choqolate", *arguments]
    main()


def run_comparison(folder: str, *_: str) -> None:
    """Make a table of the paper on a table of one's own, with one method and two runs."""
    from choqolate.experiments import COMPARISON, Options, reproduce
    from choqolate.experiments.engine.sources import table_source

    os.chdir(folder)
    options = Options(("choqolate",), parameters={"n_nodes": 2, "epochs": 2})
    source = table_source(Path("scores.parquet"))
    reproduce([COMPARISON], {"scores": source}, Path("new"), seeds=2, options=options, processes=1, verbose=False)


class Command(NamedTuple):
    """A command, where its output goes, and what a reader finds there.

    The old output stays until there is a new one, unless the command does not keep it.
    """

    arguments: tuple[str, ...]
    output: str
    read: Callable[[Path], Any]
    run: Callable[..., None] = run_command
    keeps: bool = True

    @property
    def name(self) -> str:
        """Its name in the ledger."""
        return self.arguments[0] + (" --export" if "--export" in self.arguments else "")


def start(folder: Path, command: Command) -> BaseProcess:
    """Start a command in a process that has loaded the heavy packages."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([*HEAVY, *MORE])
    process = processes.Process(target=command.run, args=[str(folder), *command.arguments])
    process.start()
    return process


def entries(folder: Path) -> set[tuple[str, int]]:
    """Everything in a folder, and when it was changed."""
    found = set()
    for place, _, names in os.walk(folder):  # which takes no offence at what is gone by now
        for path in (Path(place), *(Path(place) / name for name in names)):
            with suppress(FileNotFoundError):
                found.add((str(path), path.lstat().st_mtime_ns))
    return found


def kill_at_random(process: BaseProcess, folder: Path, chance: random.Random, seconds: float) -> bool:
    """Kill a process: soon after the folder changes, or at any time of its run; tell whether that was in time."""
    deadline = time.monotonic() + (60 if chance.random() < 0.7 else chance.uniform(0, seconds))
    before = entries(folder)
    changes = chance.randrange(4)
    while process.is_alive() and time.monotonic() < deadline:
        if (now := entries(folder)) != before:
            before, changes = now, changes - 1
            if changes < 0:
                time.sleep(chance.uniform(0, 0.01))
                break
        time.sleep(0.001)
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


def kill_often(place: Path, command: Command, n_kills: int) -> None:
    """Kill a command many times: in an empty place, on what a kill has left, and where it has been before."""
    chance = random.Random(0)
    start_time = time.monotonic()
    run_to_the_end(place, command)
    seconds = time.monotonic() - start_time
    expected, whole = command.read(place / command.output), names_in(place)
    output, struck = place / command.output, 0
    for number in range(scaled(n_kills)):
        old = number % 3 == 2  # else there is nothing, or what the kill before has left
        if number % 3 == 0:
            shutil.rmtree(output) if output.is_dir() else output.unlink(missing_ok=True)
        struck += kill_at_random(start(place, command), place, chance, seconds)
        if old and command.keeps:
            assert command.read(output) == expected, "neither the old state nor the new one"
        if number % 3 == 1:
            run_to_the_end(place, command)
            assert command.read(output) == expected
            assert names_in(place) == whole, "something is left of a command that was killed"
    run_to_the_end(place, command)
    assert command.read(place / command.output) == expected
    assert names_in(place) == whole
    note("kills", command.name, struck)


def run_to_the_end(place: Path, command: Command) -> None:
    process = start(place, command)
    process.join(120)
    assert process.exitcode == 0, (place / "said.txt").read_text()


def names_in(place: Path) -> list[str]:
    """Everything in a folder but shards, which are as many as it took; no leftovers are among it."""
    found = list(place.rglob("*"))
    assert not [path for path in found if is_leftover(path)]
    return sorted(path.relative_to(place).as_posix() for path in found if "embeddings" not in path.parts)


@pytest.fixture
def place(tmp_path):
    """A table and a model of it, with a vocabulary and edits."""
    X, labels, groups = bird_scores(80)
    table = cq.ConceptScores(X.to_numpy(), list(X.columns), labels=labels, groups=groups)
    table.save(tmp_path / "scores.parquet")
    model = cq.fit_scores(table, n_nodes=2, epochs=2, device="cpu", calibrate=False)
    model.save(tmp_path / "model")
    cq.save_edits(model.remove_concepts(model.concepts_[0]), tmp_path / "edits.json")
    (tmp_path / "words.txt").write_text("sea\nforest\nlong bill\n")
    return tmp_path


def read_model(folder: Path) -> Any:
    model = cq.load(folder)
    return model.predict_proba(bird_scores(80)[0]).tolist(), [str(edit) for edit in model.edits_]


def test_fit(place):
    arguments = ("fit", "scores.parquet", "-o", "new", "--nodes", "2", "--epochs", "2", "--device", "cpu")
    kill_often(place, Command(arguments, "new", read_model), 3)


def test_remove(place):
    concept = cq.load(place / "model").concepts_[0]
    kill_often(place, Command(("remove", "model", concept, "-o", "new"), "new", read_model), 3)


def test_apply(place):
    kill_often(place, Command(("apply", "model", "edits.json", "-o", "new"), "new", read_model), 3)


def test_score(place):
    shutil.copytree(FORMATS / "embeddings" / "version_1" / "birds", place / "birds")
    arguments = ("score", "birds", "--concepts", "words.txt", "--backbone", "mini", "-o", "new.parquet")
    kill_often(place, Command(arguments, "new.parquet", lambda path: cq.ConceptScores.load(path).fingerprint), 3)


def test_studio_export(place):
    arguments = ("studio", "model", "--scores", "scores.parquet", "--export", "new.html")
    kill_often(place, Command(arguments, "new.html", lambda path: len(path.read_text().partition("</html>")[1])), 3)


def test_demo(place):
    arguments = ("demo", "--images", "40", "--seeds", "1", "-o", "new")
    kill_often(place, Command(arguments, "new", read_demo, keeps=False), 3)  # it begins with an empty folder


def read_demo(folder: Path) -> Any:
    models = sorted(path.parent for path in folder.rglob("config.json"))
    assert models
    said = [cq.load(model).network_.identity for model in models]
    return said, [cq.ConceptScores.load(path).fingerprint for path in sorted(folder.glob("*.parquet"))]


def test_reproduce(place):
    kill_often(place, Command(("reproduce",), "new", read_results, run_comparison), 3)


def read_results(folder: Path) -> Any:
    read = Results(folder / "results.jsonl").read()
    assert not read.damaged
    return sorted((run.key, repr(run.metrics)) for run in read.runs)
