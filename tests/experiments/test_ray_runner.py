from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from choqolate import ConceptScores
from choqolate.experiments.engine.experiment import RunSetting
from choqolate.experiments.engine.results import Results
from choqolate.experiments.engine.settings_runner import Declared, run_settings
from choqolate.experiments.engine.sources import table_source
from tests.ray_nodes import node_killed_when, two_nodes
from tests.small_tables import bird_scores
from tests.trust.ledger import note

GIVEN = {"epochs": 4, "learning_rate": 0.01, "penalty": 1e-5}  # nothing is left to be chosen
SETTINGS = {  # each of the first is a batch of its own
    **{("choqolate", epochs): RunSetting("choqolate", {"epochs": epochs}) for epochs in (4, 5, 6, 7)},
    ("pcbm", 4): RunSetting("pcbm", GIVEN, tuned_at=GIVEN),
}
SEEDS = (0, 1)


def busy(raylet: psutil.Process) -> list[psutil.Process]:
    """The processes of a node that are at work."""
    return [worker for worker in raylet.children() if "_run_batch" in " ".join(worker.cmdline())]


@pytest.mark.long
@pytest.mark.trust
@pytest.mark.usefixtures("two_threads")
def test_a_cluster_that_loses_a_node_finishes_what_one_machine_began_with_the_same_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, labels, groups = bird_scores(150)
    ConceptScores(X.to_numpy(), list(X.columns), labels=labels, groups=groups).save("birds.parquet")
    source = table_source(Path("birds.parquet"))  # which the workers find although their working directory is another
    declared = [Declared(source, SETTINGS, SEEDS)]
    local, spread = Results(tmp_path / "local.jsonl"), Results(tmp_path / "ray.jsonl")
    run_settings(declared, local, processes=1, verbose=False)
    expected = local.read().runs
    spread.append(expected[:2])
    finished: list[int] = []  # when the node is killed
    told: list[str] = []
    killed: list[int] = []

    with two_nodes() as cluster:
        address = cluster.address
        first, second = (
            psutil.Process(node.all_processes["raylet"][0].process.pid) for node in (cluster.head_node, cluster.second)
        )

        def in_the_middle() -> bool:
            n_finished = len(spread.read().runs)
            if busy(second) and n_finished > 2:
                finished.append(n_finished)
                for worker in busy(first):  # a process alone, too; its node goes on
                    worker.kill()
                    killed.append(worker.pid)
            return bool(finished)

        with node_killed_when(cluster, in_the_middle, tmp_path / "killed"):
            run_settings(declared, spread, engine="ray", address=address, tell=told.append, verbose=False)
        assert (tmp_path / "killed").exists()
    assert 2 < finished[0] < len(expected)
    assert told[:2] == [f"joining the Ray cluster at {address}", "training: 8 runs in 4 batches, 2 at a time"]
    found = spread.read().runs
    assert len({run.key for run in found}) == len(found) == len(expected) == 10
    assert {run.key: (run.metrics, run.chosen) for run in found} == {
        run.key: (run.metrics, run.chosen) for run in expected
    }
    note("kills", "compare --engine ray", 1 + len(killed))
