"""Training on tables that stay in their file: memory at ten times the rows, and two processes against one.

``python benchmarks/streaming_fit.py`` prints the table; it writes 2.6 GB of temporary files.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from kernels import memory_mib
from timing import Row, times

from choqolate.data.score_file import ScoreFile
from choqolate.data.score_writer import ScoreWriter
from choqolate.data.scores import ConceptScores
from choqolate.estimators.table_training import fit_scores

CONCEPTS, CLASSES = 400, 20
ROWS = 160_000  # 256 MB of scores: as much as the shuffle buffer holds
FEW_ROWS = 40_000  # of the comparison of processes
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
            writer.add(ConceptScores(scores, names, labels=np.array(classes)[targets], split=split, classes=classes))


def measured(task: str, path: Path, workers: int) -> float:
    """What one training in a process of its own gives: its peak in MiB, or the seconds of its epochs."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, task, str(path), str(workers)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout.splitlines()[-1])


def run(task: str, path: Path, workers: int) -> float:
    """Train in this process; see :func:`measured`."""
    options = {"n_nodes": 8, "calibrate": False, "workers": workers}
    if task == "peak":
        fit_scores(ScoreFile(path), interactions="none", epochs=1, **options)
        return memory_mib("VmHWM")
    spent = []
    for epochs in (1, 5):  # the difference leaves out the start of the processes
        begun = time.perf_counter()
        fit_scores(ScoreFile(path), epochs=epochs, **options)
        spent.append(time.perf_counter() - begun)
    return spent[1] - spent[0]


def bench_streaming_fit() -> list[Row]:
    """Peak memory at 1 x and 10 x the rows, and the time of four epochs by one process and by two."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = {"few": FEW_ROWS, "once": ROWS, "ten": 10 * ROWS}
        paths = {name: Path(folder) / f"{name}.parquet" for name in sizes}
        for name, path in paths.items():
            write_table(path, sizes[name])
        once, ten = (measured("peak", paths[name], 1) for name in ("once", "ten"))
        one, two = (measured("seconds", paths["few"], workers) for workers in (1, 2))
    return [
        Row(
            f"peak, streamed fit, {10 * ROWS:,} rows; other side: {ROWS:,}",
            f"{ten:.0f} MiB",
            f"{once:.0f} MiB",
            f"{ten / once:.2f} x",
            "<= 1.2 x",
        ),
        Row(
            f"streamed fit, 2 processes of 1 thread; other side: 1, {FEW_ROWS:,} rows",
            f"{two:.1f} s",
            f"{one:.1f} s",
            times(one / two),
            "> 1 x",
        ),
    ]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(run(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
    else:
        for row in bench_streaming_fit():
            print(*row, sep=" | ")
