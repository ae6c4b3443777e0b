"""Time and peak memory of fit, eval, remove and explain as the vocabulary grows, through the command line.

Every command runs in a process of its own, with one thread. Its seconds are those of the CPU, without the start of a
process that loads the libraries; how they grow with the number of concepts is the slope of a line through
log(seconds) over log(concepts).

``python benchmarks/vocabulary_size.py --sizes 1000 5000`` prints the table for these numbers of concepts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from timing import Row

from choqolate.data.scores import ConceptScores

SIZES = (1_000, 5_000, 20_000, 50_000)
ROWS, CLASSES, TOPICS = 2_000, 4, 40
MOST_EXPONENT, MOST_GIGABYTES, MOST_REMOVE_SECONDS = 1.15, 3.0, 5.0
FIT = ("--interactions", "factored", "--nodes", "8", "--temperature", "0.02", "--epochs", "2", "--runs", "1")
_LEAST_SECONDS = 0.01  # what a clock can tell
_LIBRARIES = "import choqolate.estimators.model_folder, choqolate.analysis.evaluation, choqolate.cli.show_model"


class Cost(NamedTuple):
    """What a process took."""

    seconds: float
    gigabytes: float


def write_table(path: Path, n_concepts: int) -> None:
    """Write scores of correlated concepts: each follows some of a few topics, and topics tell the classes apart."""
    rng = np.random.default_rng(0)
    targets = rng.integers(CLASSES, size=ROWS)
    topics = rng.normal(size=(ROWS, TOPICS)) + 1.5 * rng.normal(size=(CLASSES, TOPICS))[targets]
    mixed = rng.normal(size=(TOPICS, n_concepts)) * (rng.random((TOPICS, n_concepts)) < 0.1)
    scores = (topics @ mixed).astype(np.float32)
    scores += rng.standard_normal(scores.shape, dtype=np.float32)
    names = [f"concept {j}" for j in range(n_concepts)]
    labels = np.array([f"class {c}" for c in range(CLASSES)])[targets]
    ConceptScores(scores, names, labels=labels).save(path)


def cost(*command: str) -> Cost:
    """Run a command in a process of its own; its CPU seconds and its peak memory."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env={**os.environ, "OMP_NUM_THREADS": "1"})
        _, status, used = os.wait4(process.pid, 0)
        if status:
            said.seek(0)
            raise RuntimeError(f"{' '.join(command)} failed: {said.read().decode(errors='replace')[-2_000:]}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss * unit / 1e9)


def measure(n_concepts: int, folder: Path) -> dict[str, Cost]:
    """What each command takes with so many concepts."""
    table, model, edited, page = (folder / name for name in ("scores.parquet", "model", "edited", "page.html"))
    subprocess.run([sys.executable, __file__, "--write", str(table), str(n_concepts)], check=True)
    commands = {
        "fit": ("fit", table, "-o", model, *FIT),
        "eval": ("eval", model, table),
        "remove": ("remove", model, "concept 0", "-o", edited),
        "explain": ("explain", model, "--scores", table, "-o", page),
    }
    start = (sys.executable, "-c", "import choqolate.cli; choqolate.cli.main()")
    return {name: cost(*start, *map(str, arguments)) for name, arguments in commands.items()}


def exponent(sizes: list[int], values: list[float]) -> float:
    """The slope of log(values) over log(sizes) by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(values, _LEAST_SECONDS)), 1)[0])


def bench_vocabulary(sizes: tuple[int, ...] = SIZES) -> list[Row]:
    """One row per command and size, and one per command with the exponents of time and memory."""
    idle = cost(sys.executable, "-c", _LIBRARIES)
    measured: dict[str, list[Cost]] = {}
    for n_concepts in sizes:
        with tempfile.TemporaryDirectory() as folder:
            for name, used in measure(n_concepts, Path(folder)).items():
                measured.setdefault(name, []).append(used)
    rows = [Row("start of a process with the libraries", f"{idle.seconds:.1f} s", f"{idle.gigabytes:.2f} GB")]
    for name, costs in measured.items():
        for n_concepts, used in zip(sizes, costs, strict=True):
            target = f"< {MOST_GIGABYTES:g} GB" if n_concepts == max(SIZES) else ""
            if name == "remove" and target:
                target = f"< {MOST_REMOVE_SECONDS:g} s + start, {target}"
            rows.append(
                Row(
                    f"{name}, {n_concepts:,} concepts, factored, {ROWS:,} rows",
                    f"{used.seconds:.1f} s",
                    f"{used.gigabytes:.2f} GB",
                    target=target,
                )
            )
        if len(sizes) > 1:
            time, memory = (
                exponent(list(sizes), [used[k] - idle[k] if k == 0 else used[k] for used in costs]) for k in (0, 1)
            )
            rows.append(
                Row(
                    f"{name}: exponents of time without start, and of memory",
                    f"{time:.2f}",
                    f"{memory:.2f}",
                    target=f"<= {MOST_EXPONENT}",
                )
            )
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of concepts")
    parser.add_argument("--write", nargs=2, metavar=("FILE", "CONCEPTS"), help="only write a table of scores")
    chosen = parser.parse_args()
    if chosen.write:
        write_table(Path(chosen.write[0]), int(chosen.write[1]))
    else:
        for row in bench_vocabulary(tuple(chosen.sizes)):
            print(*row, sep=" | ")
