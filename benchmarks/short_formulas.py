"""How short the formulas of nodes are, and what simplification costs and proves, on tables of scores.

    python benchmarks/short_formulas.py birds.parquet dtd.parquet caltech101.parquet cats-dogs-cars.parquet

Tables need a split with test rows. Prints Markdown: for the paper's settings and those of a search, how many terms hold
95 and 99 % of the weight of a node, and with 5, 10 and 20 terms per node the accuracy on test rows, the share of them
that provably keep their class, and the share that keeps it.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

import choqolate as cq

SETTINGS = {
    "the paper's": {},
    "the paper's, temperature 0.05": {"temperature": 0.05},
    "auto": dict.fromkeys(("n_nodes", "temperature", "interactions"), "auto"),
}
TERMS = (5, 10, 20)


def main() -> None:
    """Print one row per table and setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path, nargs="+", help="tables of scores")
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", cq.ChoqolateWarning)
    head = ["data", "settings", "Gini", "interaction mass", "terms for 95 / 99 %", "accuracy"]
    print_row([*head, *(f"{k} terms: accuracy, certified, unchanged" for k in TERMS)])
    print_row(["---"] * (len(head) + len(TERMS)))
    for path in asked.tables:
        table = cq.ConceptScores.load(path)
        for name, settings in SETTINGS.items():
            runs = [cq.fit_scores(table, random_state=seed, **settings) for seed in range(asked.seeds)]
            print_row([path.stem, name, *measure(runs, table)])


def measure(runs: list[cq.ChoqolateClassifier], table: cq.ConceptScores) -> list[str]:
    """Means over the runs."""
    test = table.part("test")
    found = [cq.evaluate(run, table, "test") for run in runs]
    cells = [mean([getattr(one, name) for one in found]) for name in ("attribution_gini", "interaction_mass")]
    counts = [np.mean([n_terms(run, mass) for run in runs]) for mass in (0.95, 0.99)]
    cells += [" / ".join(f"{count:,.0f}" for count in counts), mean([one.accuracy for one in found])]
    for terms in TERMS:
        short = [run.simplify(max_terms=terms) for run in runs]
        proofs = [one.certify(test) for one in short]
        accuracy = mean([cq.evaluate(one, table, "test").accuracy for one in short])
        cells.append(f"{accuracy}, {mean([p.share for p in proofs])}, {mean([p.agreement for p in proofs])}")
    return cells


def n_terms(model: cq.ChoqolateClassifier, mass: float) -> float:
    """Number of terms that hold a share of the weight, mean over the nodes."""
    return float(model.simplify(mass=mass).simplification_.terms.mean())


def mean(values: list[float]) -> str:
    """Of the runs, to three digits."""
    return f"{np.mean(values):.3f}"


def print_row(cells: list[str]) -> None:
    """One row of a Markdown table."""
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
