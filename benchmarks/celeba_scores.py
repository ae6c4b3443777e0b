"""Biased tasks from CLIP embeddings of CelebA: tables in which being a man goes with the class in training.

    python benchmarks/celeba_scores.py images.npz openimages.npz lvis.npz --target Smiling -o celeba

``images.npz`` holds ``embeddings (n, d)``, ``attribute_names`` and ``attributes (n, 40)``; the others hold ``names``
and ``embeddings`` of concepts in the same space. The command writes one table for each resampling,
``Smiling-00.parquet`` and so on. In 95 % of the training rows the class goes with the attribute Male, in the way that
is more frequent in the data; the test rows have the same number of images in each of the four groups. Names of men and
women, and of clothes and jewelry of either, are marked as spurious.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import choqolate as cq

SPURIOUS = """
Man, Woman, Boy, Girl, Dress, Necklace, Earrings, Tie, Suit, Skirt, Miniskirt, High heels, Handbag, Brassiere, Tiara,
Fedora, Human beard, Swimwear, Briefcase, bow-tie, razorblade, shaving cream, blouse, bonnet, wig, legging, pantyhose,
tights, headband, hairpin, perfume, dress hat, dress suit, nightshirt, bracelet, beret, polo shirt
"""
NEITHER = """
Person, Human face, Human head, Bust, Jeans, Shirt, Coat, Jacket, Trousers, Shorts, Scarf, Sun hat, Cowboy hat, Hat,
Footwear, Boot, Belt, Watch, Crown, Sock, Sandal, Sombrero, Glove, Doll, Lifejacket, Swim cap, Sports uniform
"""  # clothes that both wear, and what names the whole image
OTHERS = 89  # further names of the first list, drawn once


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--target", default="Smiling")
    parser.add_argument("--agreement", type=float, default=0.95)
    parser.add_argument("--resamplings", type=int, default=15)
    parser.add_argument("--output", "-o", type=Path, required=True)
    asked = parser.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    images, (names, vectors) = np.load(asked.images), vocabulary(asked.texts)
    attributes = dict(zip(images["attribute_names"].tolist(), images["attributes"].T, strict=True))
    scores = unit(images["embeddings"]) @ vectors.T
    for seed in range(asked.resamplings):
        table = biased_task(scores, names, attributes[asked.target], attributes["Male"], asked, seed)
        table.save(asked.output / f"{asked.target}-{seed:02d}.parquet")
    print(f"{table}, {len(table.spurious)} concepts spurious; {asked.resamplings} such tables in {asked.output}")


def vocabulary(texts: list[Path]) -> tuple[list[str], np.ndarray]:
    """The spurious names, and others of the first list."""
    spurious, neither = listed(SPURIOUS), listed(NEITHER)
    known: dict[str, np.ndarray] = {}
    for path in texts:
        content = np.load(path)
        for name, vector in zip(content["names"].tolist(), content["embeddings"], strict=True):
            known.setdefault(name.split("_(")[0].replace("_", " "), vector)
    first = [name for name in np.load(texts[0])["names"].tolist() if name not in (*spurious, *neither)]
    drawn = np.random.default_rng(0).permutation(sorted(set(first)))[:OTHERS].tolist()
    names = [*(name for name in spurious if name in known), *drawn]
    return names, unit(np.stack([known[name] for name in names]))


def biased_task(
    scores: np.ndarray, names: list[str], target: np.ndarray, male: np.ndarray, asked: argparse.Namespace, seed: int
) -> cq.ConceptScores:
    """One table: training rows in which the class goes with the attribute, and balanced test rows."""
    rng = np.random.default_rng(seed)
    cells = {(y, m): rng.permutation(np.flatnonzero((target == y) & (male == m))) for y in (0, 1) for m in (0, 1)}
    n_test = min(map(len, cells.values())) // 2
    rest = {cell: rows[n_test:] for cell, rows in cells.items()}
    ways = [[(0, 0), (1, 1)], [(0, 1), (1, 0)]]
    frequent = max(ways, key=lambda way: min(len(rest[cell]) for cell in way))
    n_most = min(len(rest[cell]) for cell in frequent)
    n_few = max(1, round(n_most * (1 - asked.agreement) / asked.agreement))
    train = np.concatenate([rows[: n_most if cell in frequent else n_few] for cell, rows in rest.items()])
    test = np.concatenate([rows[:n_test] for rows in cells.values()])
    chosen = np.concatenate([train, test])
    labels = np.array([f"not {asked.target}", asked.target])[target[chosen].astype(int)]
    groups = [f"{label}, {'male' if m else 'female'}" for label, m in zip(labels, male[chosen], strict=True)]
    split = ["train"] * len(train) + ["test"] * len(test)
    marked = [name for name in names if name in listed(SPURIOUS)]
    return cq.ConceptScores(scores[chosen], names, labels=labels, split=split, groups=groups, spurious=marked)


def listed(names: str) -> list[str]:
    """Names between commas."""
    return [name.strip() for name in names.split(",")]


def unit(x: np.ndarray) -> np.ndarray:
    """Rows of length one, in float64."""
    x = x.astype(np.float64)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


if __name__ == "__main__":
    main()
