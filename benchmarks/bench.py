"""Speed and memory as ratios, both sides measured in turns in one run: ``make bench``.

The other side is the obvious PyTorch implementation in obvious.py; of the embedding, a loop that only runs the encoder.
Everything runs with the number of threads that PyTorch takes by default. ``--only layer,memory,fit,runs,temperatures,
baselines,factored,embed,vocabulary,birds,explain`` picks sections.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from obvious import ObviousLayer
from obvious import fit as obvious_fit
from rich.console import Console
from rich.table import Table

import choqolate as cq

BATCH, NODES = 512, 8
CUB_ROWS, CUB_CONCEPTS, CUB_CLASSES = 5994, 225, 200


def seconds(task: Callable[[], object]) -> float:
    """Time of one call."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def side_by_side(ours: Callable[[], object], other: Callable[[], object], rounds: int) -> tuple[float, float, float]:
    """Median times of both, and the median of the ratios of neighbouring rounds."""
    ours(), other()
    pairs = [(seconds(ours), seconds(other)) for _ in range(rounds)]
    mine, its = (statistics.median(column) for column in zip(*pairs, strict=True))
    return mine, its, statistics.median(b / a for a, b in pairs)


def layer_step(layer: torch.nn.Module, u: torch.Tensor) -> Callable[[], None]:
    """A forward and a backward pass, softmax of the weights included."""

    def step() -> None:
        layer.zero_grad()
        out = layer(u)
        (out[0] if isinstance(out, tuple) else out).square().sum().backward()

    return step


def bench_layer() -> list[tuple[str, ...]]:
    """Forward + backward with softmax, batch 512, 8 nodes."""
    rows = []
    for concepts, target, rounds in ((226, 9.0, 15), (80, 3.0, 60), (39, 1.0, 150)):
        u = torch.rand(BATCH, concepts)
        ours = layer_step(cq.ChoquetLayer(concepts, NODES), u)
        other = layer_step(ObviousLayer(concepts, NODES), u)
        mine, its, ratio = side_by_side(ours, other, rounds)
        rows.append(
            (
                f"layer, {concepts} concepts",
                f"{1e3 * mine:.1f} ms",
                f"{1e3 * its:.1f} ms",
                f"{ratio:.1f} x",
                f">= {target:g} x",
            )
        )
    return rows


def peak_in_child(task: str) -> float:
    """MiB that a task adds to the peak of a fresh process."""
    done = subprocess.run([sys.executable, __file__, "--peak", task], capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def peak_of(task: str) -> float:
    """MiB that a task adds to the peak of this process."""
    u = torch.rand(BATCH, 512)
    if task == "factored":
        X = np.random.default_rng(0).random((2000, 20_000), dtype=np.float32)
        y = np.arange(2000) % 10
        run: Callable[[], object] = lambda: cq.ChoqolateClassifier(interactions="factored", epochs=1).fit(X, y)  # noqa: E731
    else:
        layer = cq.ChoquetLayer(512, NODES) if task == "ours" else ObviousLayer(512, NODES)
        run = layer_step(layer, u)
    layer_step(cq.ChoquetLayer(20, 2), torch.rand(8, 20))()  # libraries and threads are up
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from what is held now
    before = memory_mib("VmRSS")
    run()
    return memory_mib("VmHWM") - before


def memory_mib(field: str) -> float:
    """A number of this process's status, in MiB (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def bench_memory() -> list[tuple[str, ...]]:
    """Peak memory of one forward + backward at 512 concepts."""
    mine, its = peak_in_child("ours"), peak_in_child("obvious")
    return [("peak memory, 512 concepts", f"{mine:.0f} MiB", f"{its:.0f} MiB", f"{its / mine:.1f} x", ">= 10 x")]


def cub_sized() -> tuple[torch.Tensor, torch.Tensor]:
    """Scores and labels of the size of CUB-200-2011's training set."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(CUB_ROWS) % CUB_CLASSES
    prototypes = torch.rand(CUB_CLASSES, CUB_CONCEPTS, generator=generator)
    return prototypes[y] + 0.3 * torch.rand(CUB_ROWS, CUB_CONCEPTS, generator=generator), y


def bench_fit(epochs: int) -> list[tuple[str, ...]]:
    """A whole fit at CUB's size, against the same loop with obvious layers."""
    X, y = cub_sized()
    mine, its, ratio = side_by_side(
        lambda: cq.ChoqolateClassifier(epochs=epochs).fit(X.numpy(), y.numpy()),
        lambda: obvious_fit(X, y, CUB_CLASSES, epochs=epochs),
        rounds=3,
    )
    return [(f"fit, CUB's size, {epochs} epochs", f"{mine:.1f} s", f"{its:.1f} s", f"{ratio:.1f} x", ">= 6 x")]


def bench_runs(epochs: int) -> list[tuple[str, ...]]:
    """20 runs side by side against twenty times the obvious loop (measured once a round)."""
    X, y = cub_sized()
    mine, its, ratio = side_by_side(
        lambda: cq.fit_runs(X.numpy(), y.numpy(), seeds=range(20), epochs=epochs),
        lambda: obvious_fit(X, y, CUB_CLASSES, epochs=epochs),
        rounds=3,
    )
    name = f"fit_runs, 20 seeds, {epochs} epochs"
    return [(name, f"{mine:.1f} s", f"20 x {its:.1f} s", f"{20 * ratio:.1f} x", ">= 15 x")]


def bench_temperatures() -> list[tuple[str, ...]]:
    """Five seeds at four temperatures in one pass, against a pass for each temperature, at the demo's size."""
    rng = np.random.default_rng(0)
    X, y, values = rng.random((3600, 48)), rng.integers(0, 2, 3600), (0.005, 0.02, 0.05, 0.1)
    shared = dict(seeds=range(5), epochs=20)
    mine, its, ratio = side_by_side(
        lambda: cq.fit_runs(X, y, temperatures=values, **shared),
        lambda: [cq.fit_runs(X, y, temperature=value, **shared) for value in values],
        rounds=3,
    )
    return [("fit_runs, 5 seeds, 4 temperatures", f"{mine:.1f} s", f"{its:.1f} s", f"{ratio:.1f} x", "> 1 x")]


def bench_baselines() -> list[tuple[str, ...]]:
    """Twenty seeds of each baseline side by side, against one after the other, at the size of cats, dogs and cars."""
    rng = np.random.default_rng(0)
    X, y = rng.random((4235, 77)), rng.integers(0, 3, 4235)
    rows = []
    for method in (cq.baselines.PCBM, cq.baselines.SLRAVD, cq.baselines.SparseAutoencoder, cq.baselines.PSCBM):
        own = {"min_score": None} if method is cq.baselines.PSCBM else {}

        def wanted(method: type = method, own: dict = own) -> list:
            return [method(random_state=seed, epochs=10, **own) for seed in range(20)]

        mine, its, ratio = side_by_side(
            lambda wanted=wanted: cq.baselines.fit_together(wanted(), X, y),
            lambda wanted=wanted: [model.fit(X, y) for model in wanted()],
            rounds=3,
        )
        name = f"{method.__name__}, 20 seeds, 10 epochs"
        rows.append((name, f"{mine:.1f} s", f"{its:.1f} s", f"{ratio:.1f} x", "> 1 x"))
    return rows


def bench_birds() -> list[tuple[str, ...]]:
    """Bird scenes drawn and written on all cores, against one process; then how long the whole data set takes."""
    from choqolate.datasets.birds import N_IMAGES, render_birds

    with tempfile.TemporaryDirectory() as folder:
        few = 1_200
        mine, its, ratio = side_by_side(
            lambda: render_birds(Path(folder) / "ours", few),
            lambda: render_birds(Path(folder) / "alone", few, workers=1),
            rounds=3,
        )
        whole = seconds(lambda: render_birds(Path(folder) / "ours"))
    rates = (f"{few / time:.0f} images/s" for time in (mine, its))
    return [
        (f"{few:,} bird scenes", *rates, f"{ratio:.2f} x", "> 1 x"),
        (f"{N_IMAGES:,} bird scenes", f"{whole:.1f} s", "", "", "< 60 s"),
    ]


def bench_explain() -> list[tuple[str, ...]]:
    """100 images explained at once against one by one, 1,000 with their chain, and all sets of three for one."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 1_000)
    X = rng.normal(size=(1_000, 226)) + 0.5 * rng.normal(size=(5, 226))[y]
    model = cq.ChoqolateClassifier(n_nodes=NODES, epochs=30).fit(X, y)
    few = X[:100]
    mine, its, ratio = side_by_side(lambda: model.explain(few), lambda: [model.explain(row[None]) for row in few], 3)
    whole = seconds(lambda: model.explain(X).concept_to_class)
    surest = X[[np.ptp(model.class_scores(X), axis=1).argmax()]]
    search = seconds(lambda: cq.find_counterfactual(model, surest))
    times = (f"{1e3 * time:.0f} ms" for time in (mine, its))
    return [
        ("explain, 100 rows of 226 concepts", *times, f"{ratio:.1f} x", "> 1 x"),
        ("explain, 1,000 rows of 226 concepts", f"{whole:.1f} s", "", "", "seconds"),
        ("counterfactual, 1.9 million sets of three", f"{search:.1f} s", "", "", "seconds"),
    ]


def bench_factored() -> list[tuple[str, ...]]:
    """Cost of doubling the vocabulary (batch 64), and the peak of a fit with 20,000 concepts and 2,000 rows."""
    rows = []
    sizes = [1000 * 2**k for k in range(6)]
    steps = [layer_step(cq.ChoquetLayer(size, NODES, "factored"), torch.rand(64, size)) for size in sizes]
    for step in steps:
        step()
    rounds = [[seconds(step) for step in steps] for _ in range(11)]
    medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
    for index in range(1, len(sizes)):
        growth = statistics.median(times[index] / times[index - 1] for times in rounds)
        name = f"factored, {sizes[index - 1]:,} to {sizes[index]:,}"
        before, after = (f"{1e3 * medians[k]:.0f} ms" for k in (index - 1, index))
        rows.append((name, after, before, f"{growth:.2f} x", "<= 2.3 x"))
    peak = peak_in_child("factored")
    rows.append(("factored, 20,000, peak memory", f"{peak / 1024:.2f} GiB", "", "", "<= 3 GB"))
    return rows


def bench_embed() -> list[tuple[str, ...]]:
    """Images a second of a whole embedding run, against the encoder alone on ready tensors."""
    from images import IMAGES, embedding_tasks

    mine, its, ratio = side_by_side(*embedding_tasks(), rounds=3)
    rates = (f"{IMAGES / time:.1f} images/s" for time in (mine, its))
    return [("embedding, ViT-B/32's size", *rates, f"{ratio:.2f} x", ">= 0.85 x")]


def bench_vocabulary() -> list[tuple[str, ...]]:
    """New words on cached images."""
    from images import CACHED, WORDS, vocabulary_seconds

    return [(f"{WORDS} new words, {CACHED:,} cached images", f"{vocabulary_seconds():.1f} s", "", "", "seconds")]


def main() -> None:
    """Measure the chosen sections and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    every = "layer,memory,fit,runs,temperatures,baselines,factored,embed,vocabulary,birds,explain"
    parser.add_argument("--only", default=every)
    parser.add_argument("--epochs", type=int, default=5, help="length of the measured fits (the paper's is 100)")
    parser.add_argument("--peak", choices=["ours", "obvious", "factored"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        print(json.dumps(peak_of(arguments.peak)))
        return
    sections = {
        "layer": bench_layer,
        "memory": bench_memory,
        "fit": lambda: bench_fit(arguments.epochs),
        "runs": lambda: bench_runs(arguments.epochs),
        "temperatures": bench_temperatures,
        "baselines": bench_baselines,
        "factored": bench_factored,
        "embed": bench_embed,
        "vocabulary": bench_vocabulary,
        "birds": bench_birds,
        "explain": bench_explain,
    }
    console = Console()
    table = Table("", "ours", "other side", "ratio", "to reach", title=f"batch {BATCH}, {NODES} nodes, float32")
    with console.status("measuring") as status:
        for name in arguments.only.split(","):
            status.update(f"measuring: {name}")
            for row in sections[name]():
                table.add_row(*row)
    console.print(table)
    console.print(f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}")


if __name__ == "__main__":
    main()
