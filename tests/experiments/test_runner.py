from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from choqolate import ChoqolateError, ChoqolateWarning, ConceptScores
from choqolate.experiments.engine.experiment import RunSetting
from choqolate.experiments.engine.results import Results, Run
from choqolate.experiments.engine.runner import Batch, pending, run_tasks
from choqolate.experiments.engine.settings_runner import Declared, run_settings
from choqolate.experiments.engine.sources import table_source
from choqolate.experiments.engine.tasks import Done
from tests.small_tables import bird_scores
from tests.trust.ledger import note, scaled


@dataclass(frozen=True)
class Noted:
    """A task that leaves a file for every time that a seed is run."""

    folder: str
    name: str = "noted"
    parts: tuple[str, ...] = ("a",)
    problem: str = ""

    @property
    def label(self):
        return self.name

    def configs(self):
        return [{"task": self.name, "part": part} for part in self.parts]

    def part(self, places):
        return replace(self, parts=tuple(self.parts[place] for place in places))

    def run(self, seeds):
        import os
        import uuid
        from pathlib import Path

        if self.problem:
            raise ChoqolateError(self.problem)
        for seed in seeds:
            (Path(self.folder) / f"{self.name}-{seed}-{uuid.uuid4().hex}").touch()
        made_by = {"process": os.getpid()}
        runs = [
            Run(config, seed, {"value": seed + place}, 0.5, len(seeds), made_by)
            for place, config in enumerate(self.configs())
            for seed in seeds
            if config["part"] != "impossible"
        ]
        problems = {place: "it cannot be" for place, part in enumerate(self.parts) if part == "impossible"}
        return Done(runs, problems)


def times_run(folder: Path) -> Counter[str]:
    return Counter(path.name.rpartition("-")[0] for path in folder.iterdir())


@pytest.fixture
def notes(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


def test_only_seeds_that_are_missing_are_run_in_processes_of_their_own(tmp_path, notes):
    results = Results(tmp_path / "results.jsonl")
    tasks = [Noted(str(notes), name, ("a", "b")) for name in ("first", "second")]
    bad = Noted(str(notes), "bad", problem="expected groups, the table has none")
    outcome = run_tasks([Batch(task, (0, 1)) for task in (bad, *tasks)], results, processes=2)
    assert outcome.trained == 8
    assert outcome.reason(bad.configs()[0]) == "expected groups, the table has none"
    assert os.getpid() not in {run.versions["process"] for run in outcome.runs.values()}
    assert [run.metrics["value"] for run in outcome.of({"task": "second", "part": "b"}, [0, 1])] == [1, 2]
    again = run_tasks([Batch(task, (0, 1, 2)) for task in tasks], results, processes=1)
    assert again.trained == 4
    assert times_run(notes) == {f"{name}-{seed}": 1 for name in ("first", "second") for seed in range(3)}
    assert len(again.of({"task": "first", "part": "a"}, range(3))) == 3


def test_what_is_wanted_twice_is_done_once_for_all_seeds(tmp_path, notes):
    task, other = Noted(str(notes)), Noted(str(notes), "other")
    wanted = [Batch(task, (0, 1)), Batch(other, (0,)), Batch(task, (1, 2, 3))]
    assert pending(wanted, {}) == [Batch(task, (0, 1)), Batch(other, (0,)), Batch(task, (2, 3))]
    run_tasks(wanted, Results(tmp_path / "results.jsonl"), processes=1)
    assert set(times_run(notes).values()) == {1}


def test_of_a_task_with_several_parts_only_those_are_run_that_are_missing(tmp_path, notes):
    one, two = (Noted(str(notes), parts=parts) for parts in (("a", "b"), ("c", "b", "d")))
    wanted = [Batch(one, (0, 1)), Batch(two, (1, 2))]
    found = [(batch.task.parts, batch.seeds) for batch in pending(wanted, {Run.key_of(one.configs()[0], 0)})]
    assert found == [(("a", "b"), (0, 1)), (("c", "b", "d"), (1, 2))]
    known = {Run.key_of(config, seed) for config in one.configs() for seed in (0, 1, 2)}
    assert [(batch.task.parts, batch.seeds) for batch in pending(wanted, known)] == [(("c", "d"), (1, 2))]


def test_a_task_that_cannot_be_done_on_its_data_is_said_and_the_others_run(tmp_path, notes):
    told = []
    bad = Noted(str(notes), "bad", problem="expected groups, the table has none")
    wanted = [Batch(bad, (0, 1)), Batch(Noted(str(notes)), (0, 1))]
    outcome = run_tasks(wanted, Results(tmp_path / "results.jsonl"), processes=1, tell=told.append)
    assert outcome.reason(bad.configs()[0]) == "expected groups, the table has none"
    assert outcome.of(bad.configs()[0], [0, 1]) == []
    assert outcome.trained == 2
    assert "bad: expected groups, the table has none" in told


def test_what_part_of_a_task_cannot_be_done_leaves_the_other_parts(tmp_path, notes):
    task = Noted(str(notes), parts=("a", "impossible", "b"))
    outcome = run_tasks([Batch(task, (0, 1))], Results(tmp_path / "results.jsonl"), processes=1)
    found = {config["part"]: len(outcome.of(config, (0, 1))) for config in task.configs()}
    assert found == {"a": 2, "impossible": 0, "b": 2}
    assert outcome.reason(task.configs()[1]) == "it cannot be"


def test_a_damaged_line_is_reported_and_only_its_run_is_repeated(tmp_path, notes):
    path, task = tmp_path / "results.jsonl", Noted(str(notes))
    run_tasks([Batch(task, (0, 1, 2))], Results(path), processes=1)
    lines = path.read_text().splitlines()
    lines[1] = lines[1][:40]
    path.write_text("\n".join(lines) + "\n")
    with pytest.warns(
        ChoqolateWarning, match=r"results.jsonl: line 2 skipped \(it is not valid JSON.*these runs are repeated"
    ):
        outcome = run_tasks([Batch(task, (0, 1, 2))], Results(path), processes=1)
    assert outcome.trained == 1
    assert times_run(notes) == {"noted-0": 1, "noted-1": 2, "noted-2": 1}


@pytest.mark.trust
def test_a_killed_comparison_goes_on_where_it_was(tmp_path):
    X, labels, groups = bird_scores(1200)
    split = np.where(np.arange(1200) % 3 == 0, "test", "train")
    ConceptScores(X.to_numpy(), list(X.columns), labels=labels, split=split, groups=groups).save(tmp_path / "s.parquet")
    methods = [word for name in ("choqolate", "slr-avd", "pcbm") for word in ("--method", name)]
    command = [sys.executable, "-c", "from choqolate.cli import main; main()", "compare", "s.parquet"]
    command += ["-o", "out", "--seeds", "3", "--processes", "1", *methods]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    results = tmp_path / "out" / "results.jsonl"
    n_tuned, n_kills = 2 * 18 * 3, 0  # of two methods, each setting with three seeds
    before: list[str] = []
    while n_kills < scaled(1) and len(before) < n_tuned // 2:
        with subprocess.Popen(
            [*command, "--epochs", "30"], cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL
        ) as run:
            while len(found := finished_lines(results)) <= len(before):
                assert run.poll() is None, "it was over before it could be killed"
                time.sleep(0.02)
            run.send_signal(signal.SIGKILL)
        assert found[: len(before)] == before
        before = finished_lines(results)
        n_kills += 1
    assert 0 < len(before) < n_tuned
    done = subprocess.run(
        [*command, "--epochs", "30"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    after = results.read_text().splitlines()
    assert after[: len(before)] == before
    keys = [Run.from_json(line).key for line in after]
    assert len(keys) == len(set(keys)) == n_tuned + 9
    assert all(
        {"config", "seed", "metrics", "seconds", "shared", "versions"} <= set(json.loads(line)) for line in after
    )
    assert "SLR-AVD" in (tmp_path / "out" / "tables" / "comparison.md").read_text()
    note("kills", "compare", n_kills)


def finished_lines(path):
    """The lines of a file that have an end."""
    return path.read_text().split("\n")[:-1] if path.exists() else []


@pytest.mark.usefixtures("two_threads")
def test_results_are_the_same_bit_for_bit_for_any_number_of_processes(tmp_path):
    X, labels, groups = bird_scores(1_000)
    noise = np.random.default_rng(0).normal(size=(len(X), 200))  # enough for libraries to share sums among threads
    concepts = [*X.columns, *(f"noise {k}" for k in range(200))]
    table = ConceptScores(np.hstack([X, noise]).astype(np.float32), concepts, labels=labels, groups=groups)
    table.save(tmp_path / "birds.parquet")
    given = {"epochs": 1, "learning_rate": 0.01, "penalty": 1e-4}  # nothing is left to be chosen
    settings = {
        ("choqolate", 0): RunSetting("choqolate", {"epochs": 1}),
        ("sparse-autoencoder", 0): RunSetting("sparse-autoencoder", given, tuned_at=given),
    }
    declared = [Declared(table_source(tmp_path / "birds.parquet"), settings, (0, 1))]
    before, metrics = thread_limits(), {}
    for processes in (1, 2):
        results = Results(tmp_path / f"{processes}.jsonl")
        run_settings(declared, results, processes=processes, verbose=False)
        metrics[processes] = {run.key: run.metrics for run in results.read().runs}
    assert len(metrics[1]) == 4
    assert metrics[1] == metrics[2]
    assert thread_limits() == before


def thread_limits():
    """Of PyTorch, and of every library that threadpoolctl knows of."""
    import torch
    from threadpoolctl import threadpool_info

    return torch.get_num_threads(), {info["filepath"]: info["num_threads"] for info in threadpool_info()}


def test_an_address_without_ray_is_a_mistake(tmp_path):
    with pytest.raises(ChoqolateError, match="Expected engine='ray' with an address, but the engine is local"):
        run_tasks([], Results(tmp_path / "results.jsonl"), address="auto")
