"""Tables that stay in their file: memory of score, fit and eval at ten times the rows, and two processes against one.

``python benchmarks/streaming.py`` prints the table; it writes 3 GB of temporary files.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from kernels import memory_mib
from timing import Row, times

import choqolate as cq
from choqolate.concepts.embedding_folder import EmbeddingFolder
from choqolate.concepts.scoring import write_scores
from choqolate.data.score_file import ScoreFile
from choqolate.data.score_writer import ScoreWriter

CONCEPTS, CLASSES = 400, 20
ROWS = 160_000  # 256 MB of scores: as much as the shuffle buffer holds
ENCODED, WORDS = 100_000, 4_000  # images and concepts to score: 1.6 GB of scores
_BLOCK = 20_000


def write_table(path: Path, n_rows: int) -> None:
    """Write random scores with labels, block by block."""
    rng = np.random.default_rng(0)
    names, classes = [f"concept {j}" for j in range(CONCEPTS)], [f"class {c:02}" for c in range(CLASSES)]
    with ScoreWriter(path, names, classes=classes) as writer:
        for start in range(0, n_rows, _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, n_rows))
            scores = rng.random((len(rows), CONCEPTS), dtype=np.float32)
            targets = scores[:, :CLASSES].argmax(axis=1)
            split = np.where(rows % 10 < 7, "train", "test")
            writer.add(cq.ConceptScores(scores, names, labels=np.array(classes)[targets], split=split, classes=classes))


def write_embeddings(path: Path, n_images: int) -> None:
    """Write random vectors of images and of the concepts' names."""
    rng, encoder = np.random.default_rng(0), cq.load_backbone("mini")
    folder = EmbeddingFolder.create(path, encoder)
    texts = [hashlib.sha256(f"concept {j}".encode()).digest() for j in range(WORDS)]
    folder.texts.add(texts, rng.standard_normal((WORDS, encoder.dim), dtype=np.float32))
    digests = [rng.bytes(32) for _ in range(n_images)]
    for start in range(0, n_images, 256):
        part = digests[start : start + 256]
        folder.images.add(part, rng.standard_normal((len(part), encoder.dim), dtype=np.float32))
    folder.write_rows(cq.Manifest(path, [f"{row:08}.jpg" for row in range(n_images)]), digests)


def measured(task: str, path: Path, workers: int) -> float:
    """What one task in a process of its own gives: its peak in MiB, or the seconds of its epochs."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, task, str(path), str(workers)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout.splitlines()[-1])


def run(task: str, path: Path, workers: int) -> float:
    """Do a task in this process; see :func:`measured`."""
    options = {"n_nodes": 8, "calibrate": False, "workers": workers}
    if task == "score":
        words = cq.Vocabulary.parse([f"concept {j}" for j in range(WORDS)])
        write_scores(path.with_suffix(".parquet"), cq.Embeddings.load(path), words)
        return memory_mib("VmHWM")
    if task in ("fit", "eval"):
        file = ScoreFile(path)
        model = cq.fit_scores(file if task == "fit" else file.sample(2_000), interactions="none", epochs=1, **options)
        if task == "eval":
            cq.evaluate(model, file, "all")
        return memory_mib("VmHWM")
    spent = []
    for epochs in (1, 5):  # the difference leaves out the start of the processes
        begun = time.perf_counter()
        cq.fit_scores(ScoreFile(path), epochs=epochs, batch_size=4096, **options)
        spent.append(time.perf_counter() - begun)
    return spent[1] - spent[0]


def bench_streaming() -> list[Row]:
    """Peak memory at 1 x and 10 x the rows, and the time of four epochs by one process and by two."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        tables = [Path(folder) / f"{n_rows}.parquet" for n_rows in (ROWS, 10 * ROWS)]
        for path in tables:
            write_table(path, int(path.stem))
        for task in ("fit", "eval"):
            once, ten = (measured(task, path, 1) for path in tables)
            name = f"peak, streamed {task}, {10 * ROWS:,} rows; other side: {ROWS:,}"
            rows.append(Row(name, f"{ten:.0f} MiB", f"{once:.0f} MiB", f"{ten / once:.2f} x", "<= 1.2 x"))
        write_embeddings(Path(folder) / "encoded", ENCODED)
        peak, scores = measured("score", Path(folder) / "encoded", 1), 4 * ENCODED * WORDS / 2**20
        name = f"peak, score, {ENCODED:,} images x {WORDS:,} concepts; other side: the scores themselves"
        rows.append(Row(name, f"{peak:.0f} MiB", f"{scores:.0f} MiB", f"{peak / scores:.2f} x", "< 1 x"))
        one, two = (measured("seconds", tables[0], workers) for workers in (1, 2))
    name = f"streamed fit, batches of 4,096, 2 processes of 1 thread; other side: 1, {ROWS:,} rows"
    return [*rows, Row(name, f"{two:.1f} s", f"{one:.1f} s", times(one / two), "> 1 x")]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(run(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
    else:
        for row in bench_streaming():
            print(*row, sep=" | ")
