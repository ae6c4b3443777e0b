"""Speed and memory as ratios, both sides measured in turns in one run: ``make bench``.

The other side of the layer and its training is the obvious PyTorch implementation in obvious.py; of the embedding, a
loop that only runs the encoder. Where there is no other side, the ratio is that to our own PyTorch kernel. Everything
runs with the number of threads that PyTorch takes by default. ``--only layer,fit`` picks sections.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import tempfile
from pathlib import Path

import numpy as np
import torch
from kernels import (
    BATCH,
    NODES,
    bench_demo,
    bench_factored_layer,
    bench_fit,
    bench_layer,
    bench_memory,
    bench_modules,
    bench_runs,
    bench_temperatures,
    layer_step,
    peak_in_child,
)
from rich.console import Console
from rich.table import Table
from timing import Row, seconds, side_by_side, times

import choqolate as cq


def bench_baselines() -> list[Row]:
    """Twenty seeds of each baseline side by side, against one after the other, at the size of cats, dogs and cars."""
    rng = np.random.default_rng(0)
    X, y = rng.random((4235, 77)), rng.integers(0, 3, 4235)
    rows = []
    for method in (cq.baselines.PCBM, cq.baselines.SLRAVD, cq.baselines.SparseAutoencoder, cq.baselines.PSCBM):
        own = {"min_score": None} if method is cq.baselines.PSCBM else {}

        def wanted(method: type = method, own: dict = own) -> list:
            return [method(random_state=seed, epochs=10, **own) for seed in range(20)]

        (mine, its), (_, ratio) = side_by_side(
            lambda wanted=wanted: cq.baselines.fit_together(wanted(), X, y),
            lambda wanted=wanted: [model.fit(X, y) for model in wanted()],
            rounds=3,
        )
        name = f"{method.__name__}, 20 seeds, 10 epochs"
        rows.append(Row(name, f"{mine:.1f} s", f"{its:.1f} s", times(ratio), "> 1 x"))
    return rows


def bench_birds() -> list[Row]:
    """Bird scenes drawn and written on all cores, against one process; then how long the whole data set takes."""
    from choqolate.datasets.birds import N_IMAGES, render_birds

    with tempfile.TemporaryDirectory() as folder:
        few = 1_200
        (mine, its), (_, ratio) = side_by_side(
            lambda: render_birds(Path(folder) / "ours", few),
            lambda: render_birds(Path(folder) / "alone", few, workers=1),
            rounds=3,
        )
        whole = seconds(lambda: render_birds(Path(folder) / "ours"))
    rates = (f"{few / value:.0f} images/s" for value in (mine, its))
    return [
        Row(f"{few:,} bird scenes", *rates, f"{ratio:.2f} x", "> 1 x"),
        Row(f"{N_IMAGES:,} bird scenes", f"{whole:.1f} s", target="< 60 s"),
    ]


def bench_explain() -> list[Row]:
    """100 images explained at once against one by one, 1,000 with their chain, and all sets of three for one."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 1_000)
    X = rng.normal(size=(1_000, 226)) + 0.5 * rng.normal(size=(5, 226))[y]
    model = cq.ChoqolateClassifier(n_nodes=NODES, epochs=30).fit(X, y)
    few = X[:100]
    (mine, its), (_, ratio) = side_by_side(
        lambda: model.explain(few), lambda: [model.explain(row[None]) for row in few], rounds=3
    )
    whole = seconds(lambda: model.explain(X).concept_to_class)
    many = np.tile(X, (10, 1))
    table = seconds(lambda: model.predict_table(many))
    surest = X[[np.ptp(model.class_scores(X), axis=1).argmax()]]
    search = seconds(lambda: cq.find_counterfactual(model, surest))
    both = (f"{1e3 * value:.0f} ms" for value in (mine, its))
    return [
        Row("explain, 100 rows of 226 concepts", *both, times(ratio), "> 1 x"),
        Row("explain, 1,000 rows of 226 concepts", f"{whole:.1f} s", target="seconds"),
        Row("predict_table, 10,000 rows of 226 concepts", f"{table:.1f} s", target="seconds"),
        Row("counterfactual, 1.9 million sets of three", f"{search:.1f} s", target="seconds"),
    ]


def bench_factored() -> list[Row]:
    """Cost of doubling the vocabulary (batch 64), and the peak of a fit with 20,000 concepts and 2,000 rows."""
    rows = []
    sizes = [1000 * 2**k for k in range(6)]
    steps = [layer_step(cq.ChoquetLayer(size, NODES, "factored"), torch.rand(64, size)) for size in sizes]
    for step in steps:
        step()
    rounds = [[seconds(step) for step in steps] for _ in range(11)]
    medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
    for index in range(1, len(sizes)):
        growth = statistics.median(row[index] / row[index - 1] for row in rounds)
        name = f"factored, {sizes[index - 1]:,} to {sizes[index]:,}"
        before, after = (f"{1e3 * medians[k]:.0f} ms" for k in (index - 1, index))
        rows.append(Row(name, after, before, f"{growth:.2f} x", "<= 2.3 x"))
    peak = peak_in_child("factored")
    return [*rows, Row("factored, 20,000, peak memory", f"{peak / 1024:.2f} GiB", target="<= 3 GB")]


def bench_embed() -> list[Row]:
    """Images a second of a whole embedding run, against the encoder alone on ready tensors."""
    from images import IMAGES, embedding_tasks

    (mine, its), (_, ratio) = side_by_side(*embedding_tasks(), rounds=3)
    rates = (f"{IMAGES / value:.1f} images/s" for value in (mine, its))
    return [Row("embedding, ViT-B/32's size", *rates, f"{ratio:.2f} x", ">= 0.85 x")]


def bench_vocabulary() -> list[Row]:
    """New words on cached images."""
    from images import CACHED, WORDS, vocabulary_seconds

    return [Row(f"{WORDS} new words, {CACHED:,} cached images", f"{vocabulary_seconds():.1f} s", target="seconds")]


def bench_studio() -> list[Row]:
    """Edits in the browser."""
    from studio_engine import bench_studio

    return bench_studio()


def bench_many_concepts() -> list[Row]:
    """The commands from 1,000 to 50,000 concepts: how time and memory grow."""
    from vocabulary_size import bench_vocabulary as measured

    return measured()


def bench_large_pages() -> list[Row]:
    """Redundancy, suspects, report and studio from 1,000 to 50,000 concepts."""
    from large_pages import bench_pages

    return bench_pages()


def bench_many_rows() -> list[Row]:
    """Tables that stay in their file: memory at ten times the rows."""
    from streaming import bench_streaming

    return bench_streaming()


def bench_ray_workers() -> list[Row]:
    """Two Ray workers that encode images, against one."""
    from ray_embedding import bench_ray

    return bench_ray()


def main() -> None:
    """Measure the chosen sections and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="sections to measure, separated by commas; all of them without this option")
    parser.add_argument("--epochs", type=int, default=5, help="length of the measured fits (the paper's is 100)")
    arguments = parser.parse_args()
    sections = {
        "layer": bench_layer,
        "modules": bench_modules,
        "memory": bench_memory,
        "fit": lambda: bench_fit(arguments.epochs),
        "runs": lambda: bench_runs(arguments.epochs),
        "demo": bench_demo,
        "temperatures": bench_temperatures,
        "baselines": bench_baselines,
        "factored": bench_factored,
        "factored_layer": bench_factored_layer,
        "embed": bench_embed,
        "vocabulary": bench_vocabulary,
        "birds": bench_birds,
        "explain": bench_explain,
        "studio": bench_studio,
        "concepts": bench_many_concepts,
        "pages": bench_large_pages,
        "streaming": bench_many_rows,
        "ray": bench_ray_workers,
    }
    chosen = arguments.only.split(",") if arguments.only else list(sections)
    if unknown := set(chosen) - set(sections):
        parser.error(f"expected sections among {', '.join(sections)}, got {', '.join(sorted(unknown))}")
    console = Console(width=max(Console().width, 112))
    table = Table("", "ours", "PyTorch kernel", "other side", "ratio", "to reach")
    table.title = f"batch {BATCH}, {NODES} nodes, float32"
    with console.status("measuring") as status:
        for name in chosen:
            status.update(f"measuring: {name}")
            for row in sections[name]():
                table.add_row(row.name, row.ours, row.fallback, row.other, row.ratio, row.target)
    console.print(table)
    console.print(
        f"{platform.machine()}, {torch.get_num_threads()} threads, kernel: {cq.show_config('dict')['kernel']}"
    )


if __name__ == "__main__":
    main()
