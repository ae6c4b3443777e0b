"""Processes that train together: the same result as one, and no hang and no orphan when one is lost."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

import choqolate as cq
from choqolate._util import ray_cluster
from choqolate.estimators.data_parallel import Workers
from choqolate.estimators.side_by_side import RunSpec, class_weights
from choqolate.estimators.streamed_training import TrainingJob
from choqolate.estimators.training_file import FileRows, measure
from tests.estimators.test_streamed_training import make_table, write_in_groups

OPTIONS = {
    "n_nodes": 4,
    "temperature": 0.05,
    "epochs": 3,
    "batch_size": 100,
    "l1_on": "all",
    "shuffle": "seed",
    "class_weight": "balanced",
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Row groups of uneven numbers of rows, so that lanes differ too."""
    return write_in_groups(make_table(600), tmp_path_factory.mktemp("parallel") / "scores.parquet", 47)


@pytest.fixture(scope="module")
def alone(file):
    return cq.fit_scores(file, dtype="float64", calibrate=False, track=True, **OPTIONS)


def assert_same(model, alone):
    for name, theta in alone.parameters_.items():
        torch.testing.assert_close(model.parameters_[name], theta, rtol=0, atol=1e-9)
    for name, values in alone.history_.items():
        np.testing.assert_allclose(model.history_[name], values, rtol=1e-9, atol=1e-12)


def test_two_processes_train_what_one_trains(file, alone):
    together = cq.fit_scores(file, workers=2, dtype="float64", calibrate=False, track=True, **OPTIONS)
    assert_same(together, alone)
    assert together.provenance_.as_dict() == alone.provenance_.as_dict()


class Occupant:
    """An actor that only takes room."""

    def answer(self):
        return True


def test_ray_actors_wait_for_room_and_train_what_one_process_trains(file, alone, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(ray_cluster, "_ROOM_SECONDS", 1)
    options = OPTIONS | {"dtype": "float64", "calibrate": False, "track": True}
    told = []
    with ray_cluster.ray_session(n_cpus=2) as ray:
        occupant = ray.remote(num_cpus=1)(Occupant).remote()
        assert ray.get(occupant.answer.remote())

        def tell(sentence):
            told.append(sentence)
            ray.kill(occupant)

        together = cq.fit_scores(file.path, workers=2, engine="ray", tell=tell, **options)
    assert told == ["waiting for room in the Ray cluster: 2 CPU needed, 1 of 2 free"]
    assert_same(together, alone)
    assert not [child for child in psutil.Process().children(recursive=True) if "ray" in child.name()]


class Meeting:
    """Sums over threads, in the place of processes."""

    def __init__(self, n):
        self.barrier, self.brought = threading.Barrier(n, timeout=60), [[]] * n

    def of(self, rank):
        def add_up(tensors):
            self.brought[rank] = tensors
            self.barrier.wait()
            sums = [sum(parts[1:], parts[0]) for parts in zip(*self.brought, strict=True)]
            self.barrier.wait()
            return sums

        return add_up


@pytest.mark.parametrize(("dtype", "tolerance", "epochs"), [("float64", 1e-10, 3), ("float32", 1e-4, 1)])
@pytest.mark.parametrize("rows_per_group", [5, 300])
def test_lanes_shared_by_four_give_the_same_gradients(tmp_path, dtype, tolerance, epochs, rows_per_group):
    """Also where some have no row in a step: there are 40 rows for 8 lanes, in batches of 6."""
    rows = write_in_groups(make_table(40), tmp_path / "scores.parquet", rows_per_group).labelled()
    classifier = cq.ChoqolateClassifier(3, temperature=0.1, epochs=epochs, batch_size=6, dtype=dtype)
    data, seed = classifier.prepare(rows.load(), rows.load().labels, known=measure(rows))
    untrained, cpu = data.fitted(classifier.architecture), torch.device("cpu")
    weights = class_weights(None, data.classes, data.label_shares)
    source = FileRows(rows, untrained, weights, cpu, getattr(torch, dtype))
    job = TrainingJob(classifier, source, [RunSpec(seed, 0.1), RunSpec(seed + 1, 0.05)], None)
    expected = job.run(cpu, n_lanes=8)
    meeting, workers, outcomes = Meeting(4), Workers(4), [None] * 4

    def work(rank):
        outcomes[rank] = job.run(cpu, lanes=workers.lanes_of(rank), n_lanes=8, add_up=meeting.of(rank))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for outcome in outcomes:
        for run in range(2):
            for name, theta in expected.parameters[run].items():
                torch.testing.assert_close(outcome.parameters[run][name], theta, rtol=0, atol=tolerance)
            np.testing.assert_allclose(outcome.histories[run]["loss"], expected.histories[run]["loss"], rtol=tolerance)


def test_any_number_of_workers_shares_all_lanes():
    for n in range(1, 20):
        workers = Workers(n)
        assert [lane for rank in range(n) for lane in workers.lanes_of(rank)] == list(range(workers.n_lanes))
        assert workers.n_lanes >= 8
    assert {Workers(n).n_lanes for n in (1, 2, 4, 8)} == {8}


def test_another_process_opens_the_file_itself(file, tmp_path):
    rows = file.with_split().part("train").select(["sky", "sea"])
    sent = pickle.loads(pickle.dumps(rows))
    assert sent.row_groups == rows.row_groups
    assert np.array_equal(sent.load().scores, rows.load().scores)
    path = tmp_path / "scores.parquet"
    message = pickle.dumps(write_in_groups(make_table(60), path, 20))
    path.unlink()
    with pytest.raises(cq.ChoqolateError, match="is not there"):
        pickle.loads(message).load()
    write_in_groups(make_table(80), path, 20)
    with pytest.raises(cq.ChoqolateError, match="has other rows here"):
        pickle.loads(message).load()


def worker_processes(parent):
    """Processes below a parent that are training by now."""
    found = [child for child in parent.children(recursive=True) if "popen_loky" in " ".join(child.cmdline())]
    return [child for child in found if any(Path(opened.path).name == "progress" for opened in child.open_files())]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at open files of other processes")
@pytest.mark.parametrize("event", ["worker killed", "Ctrl-C"])
def test_a_fit_that_loses_a_worker_or_is_stopped_ends_and_leaves_no_process(file, tmp_path, event):
    command = [sys.executable, "-c", "from choqolate.cli import main; main()", "fit", file.path]
    command += ["-o", tmp_path / "model", "--paper", "--workers", "2", "--epochs", "1000000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    family = psutil.Process(process.pid)
    deadline = time.monotonic() + 120
    while len(workers := worker_processes(family)) < 2:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.2)
    all_processes = family.children(recursive=True)
    if event == "worker killed":
        workers[1].kill()
    else:
        process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == (2 if event == "worker killed" else 130)
    assert ("one of them was stopped" in output) == (event == "worker killed")
    assert "Traceback" not in output
    _, alive = psutil.wait_procs(all_processes, timeout=30)
    assert not alive
    assert not (tmp_path / "model").exists()
