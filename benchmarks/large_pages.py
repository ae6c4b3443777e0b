"""Time and peak memory of suspects, redundancy, report and studio from 1,000 to 50,000 concepts, 2,000 rows.

    python benchmarks/large_pages.py

Each measurement is a process of its own, and the model has random parameters: what it costs to look at a model does not
depend on how well it was trained.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import choqolate as cq

sys.path.insert(0, str(Path(__file__).parent))
from timing import Row

SIZES = (1_000, 5_000, 20_000, 50_000)
ROWS, CLASSES, NODES = 2_000, 10, 8
TASKS = ("redundancy", "suspects", "suspects of a bipolar model", "report", "studio export")
MOST_EXPONENT, MOST_GB = 1.15, 3.0


def bench_pages() -> list[Row]:
    """One row per task: time and memory at each size, and the exponent of the time between the first and the last."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            _run("make", size, folder)
        for task in TASKS:
            found = [_run(task, size, folder) for size in SIZES]
            growth = math.log(found[-1]["seconds"] / found[0]["seconds"]) / math.log(SIZES[-1] / SIZES[0])
            rows += [
                Row(f"{task}, {size:,} concepts", f"{one['seconds']:.1f} s", f"{one['gigabytes']:.2f} GB")
                for size, one in zip(SIZES, found, strict=True)
            ]
            target = f"exponent ≤ {MOST_EXPONENT}, {MOST_GB:g} GB"
            rows.append(Row(f"{task}, growth", "", f"{found[-1]['gigabytes']:.2f} GB", f"{growth:.2f}", target))
    return rows


def _run(task: str, size: int, folder: str) -> dict[str, float]:
    """Run a task in a process of its own: seconds of CPU time without loading, and peak memory."""
    done = subprocess.run(
        [sys.executable, __file__, task, str(size), folder], check=True, capture_output=True, text=True
    )
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def make(size: int, folder: Path) -> None:
    """Write correlated scores of a few hidden causes, and factored models that have seen them once."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, ROWS)
    causes = rng.normal(size=(ROWS, 40)).astype(np.float32)
    causes[np.arange(ROWS), labels] += 2
    loadings = rng.normal(size=(40, size)).astype(np.float32) * (rng.random((40, size)) < 0.1)
    scores = 0.2 + 0.02 * (causes @ loadings + rng.normal(size=(ROWS, size)).astype(np.float32))
    table = cq.ConceptScores(
        scores,
        [f"concept {j}" for j in range(size)],
        labels=[f"class {label}" for label in labels],
        split=np.repeat(["train", "val", "test"], [1200, 400, 400]),
        groups=[f"group {group}" for group in (labels + (rng.random(ROWS) < 0.2)) % 2],
    )
    table.save(folder / "scores.parquet")
    for name, bipolar in (("model", False), ("bipolar", True)):
        options = {"n_nodes": NODES, "epochs": 1, "interactions": "factored", "temperature": 0.002, "bipolar": bipolar}
        cq.fit_scores(table, **options).save(folder / name)


def measure(task: str, folder: Path) -> float:
    """Seconds of CPU time of a task, after loading."""
    from choqolate.studio import export_studio

    table = cq.ConceptScores.load(folder / "scores.parquet")
    model = cq.load(folder / ("bipolar" if "bipolar" in task else "model"))
    start = time.process_time()
    if task == "redundancy":
        cq.check_redundancy(table)
    elif task.startswith("suspects"):
        cq.find_suspects(model, table)
    elif task == "report":
        cq.write_report(model, table, folder / "report.html")
    else:
        export_studio(model, table, folder / "studio.html")
    return time.process_time() - start


def main() -> None:
    """Print all rows; or, with a task, a size and a folder, do one thing and print its measurements."""
    if len(sys.argv) == 1:
        for row in bench_pages():
            print(" | ".join(part for part in row if part), flush=True)
        return
    warnings.simplefilter("ignore")
    task, folder = sys.argv[1], Path(sys.argv[3]) / sys.argv[2]
    folder.mkdir(exist_ok=True)
    seconds = 0.0
    if task == "make":
        make(int(sys.argv[2]), folder)
    else:
        seconds = measure(task, folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(json.dumps({"seconds": seconds, "gigabytes": peak}))


if __name__ == "__main__":
    main()
