"""The layer and its training: with the native kernel, without it, and as others would write it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from obvious import NodeByNode, ObviousLayer
from obvious import fit as obvious_fit
from timing import Row, milliseconds, on_fallback, side_by_side, times

import choqolate as cq
from choqolate.demo.birds import N_RUNS
from choqolate.experiments.engine.methods import TEMPERATURES

BATCH, NODES = 512, 8
CUB_ROWS, CUB_CONCEPTS, CUB_CLASSES = 5994, 225, 200
FEW_ROWS, FEW_CONCEPTS, FEW_CLASSES = 4235, 77, 3  # cats, dogs and cars
BIRDS_ROWS, BIRDS_CONCEPTS, CORE_CONCEPTS = 3600, 48, 29  # the demo's
LEAST_SECONDS = 0.1  # of each side per round


def layer_step(layer: torch.nn.Module, u: torch.Tensor) -> Callable[[], None]:
    """A forward and a backward pass, softmax of the weights included."""

    def step() -> None:
        layer.zero_grad()
        out = layer(u)
        (out[0] if isinstance(out, tuple) else out).square().sum().backward()

    return step


def bench_layer() -> list[Row]:
    """Forward + backward with softmax, batch 512, 8 nodes; many steps in a row, as in training."""
    rows = []
    for concepts, target, rounds in ((226, 30, 9), (80, 8, 15), (39, 5, 15)):
        u = torch.rand(BATCH, concepts)
        ours = layer_step(cq.ChoquetLayer(concepts, NODES), u)
        obvious = layer_step(ObviousLayer(concepts, NODES), u)
        medians, ratios = side_by_side(ours, on_fallback(ours), obvious, rounds=rounds, at_least=LEAST_SECONDS)
        mine, fallback, its = map(milliseconds, medians)
        rows.append(Row(f"layer, {concepts} concepts", mine, its, times(ratios[2]), f">= {target} x", fallback))
    return rows


def bench_factored_layer() -> list[Row]:
    """Forward + backward of a factored layer, 8 nodes of rank 4: of many inputs, and of few inputs in a large batch."""
    rows = []
    for concepts, batch in ((5_000, 64), (50_000, 64), (FEW_CONCEPTS, BATCH)):
        step = layer_step(cq.ChoquetLayer(concepts, NODES, "factored"), torch.rand(batch, concepts))
        (mine, fallback), (_, ratio) = side_by_side(step, on_fallback(step), rounds=5, at_least=LEAST_SECONDS)
        name = f"factored layer, {concepts:,} concepts, batch {batch}"
        rows.append(Row(name, milliseconds(mine), "", times(ratio), ">= 3 x", milliseconds(fallback)))
    return rows


def bench_modules() -> list[Row]:
    """The same at 226 concepts, against one module per node."""
    u = torch.rand(BATCH, 226)
    ours, alone = (layer_step(layer, u) for layer in (cq.ChoquetLayer(226, NODES), NodeByNode(226, NODES)))
    (mine, its), (_, ratio) = side_by_side(ours, alone, rounds=5, at_least=LEAST_SECONDS)
    name = "layer, 226 concepts; other side: NeurHCI"
    return [Row(name, milliseconds(mine), milliseconds(its), times(ratio), ">= 400 x")]


def peak_in_child(task: str) -> float:
    """MiB that a task adds to the peak of a fresh process."""
    done = subprocess.run([sys.executable, __file__, task], capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def peak_of(task: str) -> float:
    """MiB that a task adds to the peak of this process."""
    u = torch.rand(BATCH, 512)
    if task == "factored":
        X = np.random.default_rng(0).random((2000, 20_000), dtype=np.float32)
        y = np.arange(2000) % 10

        def run() -> object:
            return cq.ChoqolateClassifier(interactions="factored", epochs=1).fit(X, y)

    else:
        layer = ObviousLayer(512, NODES) if task == "obvious" else cq.ChoquetLayer(512, NODES)
        run = layer_step(layer, u)
        run = on_fallback(run) if task == "fallback" else run
    layer_step(cq.ChoquetLayer(20, 2), torch.rand(8, 20))()  # libraries and threads are up
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is held now
    before = memory_mib("VmRSS")
    run()
    return memory_mib("VmHWM") - before


def memory_mib(field: str) -> float:
    """A number of this process's status, in MiB (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def bench_memory() -> list[Row]:
    """Peak memory of one forward + backward at 512 concepts."""
    mine, fallback, its = (peak_in_child(task) for task in ("native", "fallback", "obvious"))
    texts = (f"{value:.0f} MiB" for value in (mine, its))
    return [Row("peak memory, 512 concepts", *texts, times(its / mine), ">= 10 x", f"{fallback:.0f} MiB")]


def random_scores(rows: int, concepts: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores around a prototype of each class, and labels."""
    rng = np.random.default_rng(0)
    y = np.arange(rows) % classes
    return rng.random((classes, concepts))[y] + 0.3 * rng.random((rows, concepts)), y


def bench_fit(epochs: int) -> list[Row]:
    """A fit at CUB's size against the same loop with obvious layers, and a whole fit of a small table."""
    X, y = random_scores(CUB_ROWS, CUB_CONCEPTS, CUB_CLASSES)
    u, targets = torch.from_numpy(X).float(), torch.from_numpy(y)

    def large() -> object:
        return cq.ChoqolateClassifier(epochs=epochs).fit(X, y)

    medians, ratios = side_by_side(
        large, on_fallback(large), lambda: obvious_fit(u, targets, CUB_CLASSES, epochs=epochs), rounds=5
    )
    mine, fallback, its = (f"{value:.2f} s" for value in medians)
    rows = [Row(f"fit, CUB's size, {epochs} epochs", mine, its, times(ratios[2]), ">= 20 x", fallback)]

    few, labels = random_scores(FEW_ROWS, FEW_CONCEPTS, FEW_CLASSES)

    def small() -> object:
        return cq.ChoqolateClassifier().fit(few, labels)

    (mine, fallback), (_, ratio) = side_by_side(small, on_fallback(small), rounds=5)
    name = f"fit, {FEW_ROWS:,} rows, {FEW_CONCEPTS} concepts, 100 epochs"
    return [*rows, Row(name, f"{mine:.2f} s", "", times(ratio), ">= 2.5 x", f"{fallback:.2f} s")]


def bench_runs(epochs: int) -> list[Row]:
    """20 runs side by side against twenty times the obvious loop, which is measured once per round."""
    X, y = random_scores(CUB_ROWS, CUB_CONCEPTS, CUB_CLASSES)
    u, targets = torch.from_numpy(X).float(), torch.from_numpy(y)

    def ours() -> object:
        return cq.fit_runs(X, y, seeds=range(20), epochs=epochs)

    medians, ratios = side_by_side(
        ours, on_fallback(ours), lambda: obvious_fit(u, targets, CUB_CLASSES, epochs=epochs), rounds=5
    )
    mine, fallback, its = (f"{value:.1f} s" for value in medians)
    name = f"fit_runs, 20 seeds, {epochs} epochs"
    return [Row(name, mine, f"20 x {its}", times(20 * ratios[2]), ">= 30 x", fallback)]


def bench_demo() -> list[Row]:
    """What the demo trains: its seeds at all temperatures, without the background concepts, and on unbiased images."""
    X, y = random_scores(BIRDS_ROWS, BIRDS_CONCEPTS, 2)

    def ours() -> None:
        cq.fit_runs(X, y, seeds=range(N_RUNS), temperatures=TEMPERATURES)
        for scores in (X[:, :CORE_CONCEPTS], X):
            cq.fit_runs(scores, y, seeds=range(N_RUNS))

    (mine, fallback), (_, ratio) = side_by_side(ours, on_fallback(ours), rounds=3)
    return [Row("the demo's training", f"{mine:.1f} s", "", times(ratio), ">= 2 x", f"{fallback:.1f} s")]


def bench_temperatures() -> list[Row]:
    """Five seeds at four temperatures in one pass, against a pass for each temperature, at the demo's size."""
    X, y = random_scores(BIRDS_ROWS, BIRDS_CONCEPTS, 2)
    values, shared = (0.005, 0.02, 0.05, 0.1), {"seeds": range(5), "epochs": 20}

    def ours() -> object:
        return cq.fit_runs(X, y, temperatures=values, **shared)

    medians, ratios = side_by_side(
        ours, on_fallback(ours), lambda: [cq.fit_runs(X, y, temperature=value, **shared) for value in values], rounds=3
    )
    mine, fallback, its = (f"{value:.2f} s" for value in medians)
    return [Row("fit_runs, 5 seeds, 4 temperatures", mine, its, times(ratios[2]), "> 1 x", fallback)]


if __name__ == "__main__":  # a process of its own for peak_in_child
    print(json.dumps(peak_of(sys.argv[1])))
