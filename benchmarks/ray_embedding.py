"""Embedding on Ray: two workers with one thread each against one, with a CLIP of ViT-B/32's size.

``python benchmarks/ray_embedding.py`` prints the table.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType

from images import BATCH, IMAGES, album, backbone
from timing import Row

import choqolate as cq
from choqolate._util.ray_cluster import ray_session
from choqolate.concepts.embedding_folder import EmbeddingFolder
from choqolate.concepts.embedding_run import EmbeddingRun, encode_with
from choqolate.concepts.ray_encoders import ray_encoders

ROUNDS = 2


def seconds(ray: ModuleType, manifest: cq.Manifest, workers: int) -> float:
    """Time to encode all images, from the moment on that all workers have loaded the weights."""
    with tempfile.TemporaryDirectory() as folder:
        target = EmbeddingFolder.create(Path(folder) / "embeddings", backbone())
        run = EmbeddingRun(manifest, target, "fail", BATCH)  # blocks of one batch: both workers are busy to the end
        with ray_encoders(
            ray, backbone(), target.path, batch_size=BATCH, started=run.started, workers=workers
        ) as encoders:
            while len(encoders.ready()) < workers:
                time.sleep(0.1)
            begun = time.perf_counter()
            for block, outcome in encode_with(encoders, run)(run.blocks(), lambda _: None):
                run.add(block, outcome)
            spent = time.perf_counter() - begun
        assert run.n_encoded == IMAGES
        return spent


def measure() -> None:
    """Print the times of one worker and of two, the best of some rounds, in which they take turns."""
    manifest = cq.datasets.read_folder(album())
    with ray_session(n_cpus=2) as ray:
        rounds = [[seconds(ray, manifest, workers) for workers in (1, 2)] for _ in range(ROUNDS)]
    print(*(min(column) for column in zip(*rounds, strict=True)))


def bench_ray() -> list[Row]:
    """Images per second of two Ray workers and of one."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "measure"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    one, two = map(float, done.stdout.splitlines()[-1].split())
    rates = (f"{IMAGES / value:.1f} images/s" for value in (two, one))
    return [Row("embed, 2 Ray workers of 1 thread; other side: 1", *rates, f"{one / two:.2f} x", ">= 1.7 x")]


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        measure()
    else:
        for row in bench_ray():
            print(" | ".join(row))
