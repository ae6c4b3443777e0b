"""CPU time of writing and reading files, of this source and of others, such as an earlier commit.

    git worktree add ../before COMMIT
    python benchmarks/files.py ../before

runs every job in processes of each source by turns, with one thread, and prints the shortest times and their ratio. The
source must have its native kernel: ``cp src/choqolate/integral/native_* ../before/src/choqolate/integral/``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

ROUNDS = 4
HERE = Path(__file__).parents[1]


def shortest(task: Callable[[], object], calls: int) -> float:
    """CPU milliseconds of the fastest of some calls, after one that does not count."""
    task()
    times = []
    for _ in range(calls):
        start = time.process_time()
        task()
        times.append(time.process_time() - start)
    return 1000 * min(times)


def measure(place: Path) -> dict[str, float]:
    """All jobs in this process."""
    import numpy as np
    import torch
    from PIL import Image

    import choqolate as cq
    from choqolate.concepts.mini_backbone import MiniBackbone
    from choqolate.data.manifest import Manifest

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    found = {}
    for name, n_concepts, options in (
        ("model of 226 concepts and 16 nodes", 226, {"n_nodes": 16}),
        ("factored model of 20,000 concepts", 20_000, {"n_nodes": 8, "interactions": "factored", "rank": 2}),
    ):
        X, y = rng.random((60, n_concepts)), rng.integers(0, 3, 60)
        model = cq.ChoqolateClassifier(epochs=1, **options).fit(X, y)
        found[f"save: {name}"] = shortest(lambda model=model: model.save(place / "model"), 15)
        found[f"load: {name}"] = shortest(lambda: cq.load(place / "model"), 15)
    scores = rng.standard_normal((40_000, 226)).astype(np.float32)
    known = {"labels": [str(row % 3) for row in range(40_000)], "paths": [f"{row}.jpg" for row in range(40_000)]}
    table = cq.ConceptScores(scores, [f"concept {j}" for j in range(226)], **known)
    found["save: scores of 40,000 images, 226 concepts"] = shortest(lambda: table.save(place / "a.parquet"), 7)
    found["load: scores of 40,000 images, 226 concepts"] = shortest(
        lambda: cq.ConceptScores.load(place / "a.parquet"), 7
    )
    (place / "album").mkdir()
    names = [f"{row}.jpg" for row in range(600)]
    for name in names:
        noise = Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
        noise.resize((224, 224)).save(place / "album" / name)
    backbone, manifest, folders = MiniBackbone(), Manifest(place / "album", names), iter(range(1000))
    found["embed: 600 images, small encoder"] = shortest(
        lambda: cq.embed(manifest, backbone, place / f"vectors-{next(folders)}", workers=0), 5
    )
    vectors = cq.embed(manifest, backbone, place / "vectors-0", workers=0)
    found["embed: the same again"] = shortest(lambda: cq.embed(manifest, backbone, place / "vectors-0", workers=0), 10)
    words = cq.Vocabulary(list(backbone.known)[:70])
    found["score: 600 images, 70 concepts"] = shortest(
        lambda: cq.score(vectors, words, backbone).save(place / "b.parquet"), 7
    )
    return found


def measured(source: Path) -> dict[str, float]:
    """All jobs in a new process of a source."""
    environment = os.environ | {"PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--measure"]
    return json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def main(sources: list[Path]) -> None:
    """Print the shortest times of all sources, the last of which is this one."""
    best: list[dict[str, float]] = [{} for _ in sources]
    for _ in range(ROUNDS):
        for source, times in zip(sources, best, strict=True):
            for name, value in measured(source).items():
                times[name] = min(value, times.get(name, value))
    print(f"| CPU ms | {' | '.join(source.resolve().name for source in sources)} | ratio |")
    print(f"|---|{'--:|' * (len(sources) + 1)}")
    for name in best[0]:
        values = [times[name] for times in best]
        print(f"| {name} | {' | '.join(f'{value:.1f}' for value in values)} | {values[-1] / values[0]:.2f} |")


if __name__ == "__main__":
    if sys.argv[1:] == ["--measure"]:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(Path(folder))))
    else:
        main([*map(Path, sys.argv[1:]), HERE])
