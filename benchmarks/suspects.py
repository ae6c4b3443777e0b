"""How many of the known spurious concepts are among the first ten suspects, with the groups hidden.

    python benchmarks/suspects.py scores.parquet
    python benchmarks/suspects.py celeba/Smiling-*.parquet --temperature 0.02
    python benchmarks/suspects.py scores.parquet --biased

Tables need a split and concepts marked as spurious. Mistakes are counted on the test rows; with ``--biased`` on 30 % of
the training rows that are held out instead, which share the bias. Prints Markdown, means over all tables and seeds.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import choqolate as cq
from choqolate.analysis.failing_slices import find_failing_slices

FIRST = 10


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path, nargs="+", help="tables of scores")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--temperature", type=float, default=0.005)
    parser.add_argument("--biased", action="store_true", help="hold out training rows instead of the test rows")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", cq.ChoqolateWarning)
    found = [
        measure(prepare(cq.ConceptScores.load(path), asked.biased), seed, asked.temperature)
        for path in asked.tables
        for seed in range(asked.seeds)
    ]
    print("| |", " | ".join(found[0]), "|")
    print("|---" * (1 + len(found[0])) + "|")
    means = [f"{np.mean([one[name] for one in found]):.3g}" for name in found[0]]
    print(f"| {asked.tables[0].stem}, {len(found)} models |", " | ".join(means), "|")


def prepare(table: cq.ConceptScores, biased: bool) -> cq.ConceptScores:
    """Hide the groups; leave rows for training and for the mistakes."""
    table = table.with_columns(groups=None).take(table.split != "val")
    if not biased:
        return table
    train = table.part("train")
    return train.with_columns(split=np.where(np.random.default_rng(0).random(len(train)) < 0.3, "test", "train"))


def measure(table: cq.ConceptScores, seed: int, temperature: float) -> dict[str, float]:
    """Train a model and count."""
    model = cq.fit_scores(table, random_state=seed, temperature=temperature)
    spurious, failing = set(table.spurious), find_failing_slices(model, table)
    unneeded = [one.concepts[0] for one in cq.find_suspects(model, table).idle]

    def among_first(names: Sequence[str]) -> int:
        return sum(name in spurious for name in names[:FIRST])

    return {
        "accuracy": cq.evaluate(model, table).accuracy,
        "concepts": len(table.concepts),
        "spurious": len(spurious),
        "first ten: in random order": FIRST * len(spurious) / len(table.concepts),
        "relied on, hardly needed": among_first(unneeded),
        "by correlation with the label": among_first(by_correlation(table.part("train"))),
        "by failing slices": among_first(failing.ranking),
        "beyond chance": len(failing.concepts),
        "of these, spurious": sum(name in spurious for name in failing.concepts),
    }


def by_correlation(train: cq.ConceptScores) -> list[str]:
    """Concepts in the order of their largest correlation with a class."""
    classes = np.array([train.labels == name for name in train.classes], dtype=float)
    found = np.abs(np.corrcoef(train.scores.T, classes)[: len(train.concepts), len(train.concepts) :]).max(1)
    return [train.concepts[j] for j in np.argsort(-found)]


if __name__ == "__main__":
    main()
