from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from choqolate import ConceptScores
from choqolate.experiments.engine.experiment import RunSetting
from choqolate.experiments.engine.results import Results
from choqolate.experiments.engine.runner import Declared, run_settings
from choqolate.experiments.engine.sources import table_source
from tests.ray_nodes import node_killed_when, two_nodes
from tests.small_tables import bird_scores

SEEDS = (0, 1)


def settings(*epochs: int) -> dict[tuple[str, int], RunSetting]:
    """Two methods, trained for different times, so that each is a batch of its own."""
    pairs = [(method, count) for count in epochs for method in ("choqolate", "pcbm")]
    return {(method, count): RunSetting(method, {"epochs": count}) for method, count in pairs}


def test_a_cluster_that_loses_a_node_runs_everything_once_with_the_results_of_one_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, labels, groups = bird_scores(240)
    ConceptScores(X.to_numpy(), list(X.columns), labels=labels, groups=groups).save("birds.parquet")
    source = table_source(Path("birds.parquet"))  # which the workers find although their working directory is another
    local, spread = Results(tmp_path / "local.jsonl"), Results(tmp_path / "ray.jsonl")
    run_settings([Declared(source, settings(4, 5, 6, 7), SEEDS)], local, processes=2, verbose=False)
    told: list[str] = []
    finished_before: list[int] = []

    with two_nodes() as cluster:
        address = cluster.address
        second = psutil.Process(cluster.second.all_processes["raylet"][0].process.pid)

        def in_the_middle() -> bool:
            busy = any("_do_with_one_thread" in " ".join(worker.cmdline()) for worker in second.children())
            if busy and spread.path.exists():
                finished_before.append(len(spread.read().runs))
            return bool(finished_before)

        def run(*epochs: int) -> None:
            declared = [Declared(source, settings(*epochs), SEEDS)]
            where = {"engine": "ray", "address": address}
            run_settings(declared, spread, **where, tell=told.append, verbose=False)

        with node_killed_when(cluster, in_the_middle) as killed:
            run(4, 5, 6)
        assert killed.is_set()
        assert 0 < finished_before[0] < 12 == len(spread.read().runs)
        run(4, 5, 6, 7)
    assert told[:2] == [
        f"joining the Ray cluster at {address}",
        "training 12 runs in 6 batches, 2 at a time",
    ]
    assert "training 4 runs in 2 batches, 1 at a time" in told
    found = spread.read().runs
    assert len({run.key for run in found}) == len(found) == 16
    assert {run.key: (run.metrics, run.chosen) for run in found} == {
        run.key: (run.metrics, run.chosen) for run in local.read().runs
    }


pytestmark = pytest.mark.long
