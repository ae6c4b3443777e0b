from __future__ import annotations

from dataclasses import dataclass

import pytest

from choqolate.experiments.engine.results import Results, Run
from choqolate.experiments.engine.runner import Batch, run_tasks
from choqolate.experiments.engine.tasks import Done
from tests.ray_nodes import node_killed_when, two_nodes


@dataclass(frozen=True)
class Slow:
    """A task that takes a moment, so that a node can be killed in the middle of it."""

    name: str

    @property
    def label(self):
        return self.name

    def configs(self):
        return [{"task": self.name}]

    def part(self, places):
        return self

    def run(self, seeds):
        import time

        time.sleep(1)
        return Done([Run(self.configs()[0], seed, {"value": seed}, 1.0, len(seeds), {}) for seed in seeds], {})


@pytest.mark.long
def test_a_cluster_that_loses_a_node_runs_everything_once(tmp_path):
    local, spread = Results(tmp_path / "local.jsonl"), Results(tmp_path / "ray.jsonl")
    wanted = [Batch(Slow(f"task-{number}"), (0, 1)) for number in range(8)]
    run_tasks(wanted[:2], local, processes=1)
    with two_nodes() as cluster, node_killed_when(cluster, spread.path.exists) as killed:
        first = run_tasks(wanted[:6], spread, engine="ray", address=cluster.address)
        assert killed, "the node outlived the run"
        assert first.trained == 12
        again = run_tasks(wanted, spread, engine="ray", address=cluster.address)
    assert again.trained == 4
    keys = [run.key for run in spread.read().runs]
    assert len(keys) == len(set(keys)) == 16
    both = {run.key: run.metrics for run in spread.read().runs}
    assert all(both[run.key] == run.metrics for run in local.read().runs)
