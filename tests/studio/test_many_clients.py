"""Many people at the same time: everybody gets the right answer, and nothing of them stays."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from choqolate.data.scores import ConceptScores
from choqolate.estimators.edits_file import edits_document
from choqolate.estimators.table_training import fit_scores
from choqolate.studio import create_app
from choqolate.studio.row_choice import choose_rows
from choqolate.studio.worker_threads import WorkerThreads
from tests.studio.running import OWN, running

CLIENTS = 50
CONCEPTS, ROWS = 60, 1500


@pytest.fixture(scope="module")
def table():
    """As much as a real audit holds."""
    rng = np.random.default_rng(0)
    labels = np.array(["landbird", "waterbird"])[rng.integers(0, 2, ROWS)]
    return ConceptScores(
        rng.random((ROWS, CONCEPTS)) + 0.3 * (labels == "waterbird")[:, None],
        [f"concept {j}" for j in range(CONCEPTS)],
        labels=labels,
        groups=[f"{label} {place}" for label, place in zip(labels, rng.integers(0, 2, ROWS), strict=True)],
        split=np.array(["train", "val", "test"])[np.arange(ROWS) % 3],
    )


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory of the process as Linux tells it")
def test_fifty_people_leave_nothing_behind(table, studio_place):
    model = fit_scores(table, n_nodes=8, epochs=1, device="cpu", calibrate=False)
    edited = [model.remove_concepts(name) for name in model.concepts_[:CLIENTS]]
    documents = [edits_document(one) for one in edited]
    app = create_app(model, table, page=studio_place.page)

    def visit(server, client):
        size = len(server.get("/api/bundle").body)
        assert server.get("/api/rows?start=100&count=50").status == 200
        answer = server.post("/api/numbers", {"document": documents[client], "rows": [0, 1, 2]})
        with socket.create_connection(("127.0.0.1", server.port)) as leaving:  # without waiting for the answer
            head = "".join(f"{name}: {value}\r\n" for name, value in OWN.items())
            leaving.sendall(
                f"POST /api/report HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: 9\r\n\r\n{{".encode()
            )
        return size, answer.json["scores"]

    def wave(server):
        with ThreadPoolExecutor(CLIENTS) as pool:
            return list(pool.map(lambda client: visit(server, client), range(CLIENTS)))

    with running(app) as server:
        first = wave(server)
        before = resident_bytes()
        again = [wave(server) for _ in range(3)]
        grown = resident_bytes() - before
    assert again == [first] * 3
    rows = table.take(choose_rows(model, table).order[:3])
    for client in (0, 17, 49):
        np.testing.assert_allclose(first[client][1], edited[client].class_scores(rows), atol=1e-12)
    assert grown < 3 * CLIENTS * first[0][0] / 4  # a quarter of what was sent


def test_work_waits_for_its_turn_and_too_much_of_it_is_refused():
    threads, running_now, most = WorkerThreads(2, waiting=3), [], []

    def work(number):
        running_now.append(number)
        most.append(len(running_now))
        time.sleep(0.02)
        running_now.remove(number)
        return number

    async def ask_all():
        return await asyncio.gather(*(threads.run(work, n) for n in range(7)), return_exceptions=True)

    for _ in range(2):
        answers = asyncio.run(ask_all())
        assert answers[:5] == list(range(5))
        assert [error.status_code for error in answers[5:]] == [503, 503]
    assert max(most) == 2
