"""How many steps the baselines need, on tables of real scores.

    python benchmarks/training_budget.py cats-dogs-cars.parquet dtd.parquet --methods pcbm
    python benchmarks/training_budget.py dtd.parquet --methods pscbm --budgets 300x512 1000x2048

For each budget, all learning rates and penalties of a comparison are trained on the training rows and tried on the
validation rows (a fifth of the training rows where a table has none). Prints Markdown: accuracy, Attribution Gini and
share of zero weights of the setting with the best accuracy on the validation rows; how much its loss still fell
(``late_decrease``); the excess of the lowest loss of an epoch, of the best rate for each penalty over that of the best
training of all budgets, in the median over the penalties; and CPU seconds for one seed of all settings.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import choqolate as cq
from choqolate.experiments.engine.methods import METHODS, Method
from choqolate.experiments.engine.tuning import validation_split

BUDGETS = ("300x512", "1000x512", "3000x512", "1000x2048")
HEAD = (
    "data",
    "method",
    "nodes",
    "steps",
    "rows per step",
    "rate",
    "penalty",
    "validation",
    "test",
    "Gini",
    "zeros",
    "late decrease",
)


@dataclass(frozen=True)
class Tried:
    """One setting under one budget, in the mean over the seeds."""

    rate: float
    penalty: float
    validation: float
    test: float
    gini: float
    zeros: float
    late: float
    loss: float


def main() -> None:
    """Print one row per table, method and budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path, nargs="+", help="tables of scores")
    parser.add_argument("--budgets", nargs="+", default=BUDGETS, metavar="STEPSxROWS", help="steps, and rows per step")
    penalized = [name for name, method in METHODS.items() if {"learning_rate", "penalty"} <= set(method.grid)]
    parser.add_argument("--methods", nargs="+", default=["pcbm", "pscbm", "sparse-autoencoder"], choices=penalized)
    parser.add_argument("--nodes", type=int, default=8, help="0 for a single layer")
    parser.add_argument("--seeds", type=int, default=1)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print_row([*HEAD, "excess loss", "seconds"])
    print_row(["---"] * (len(HEAD) + 2))
    for path, name in product(asked.tables, asked.methods):
        table = cq.ConceptScores.load(path)
        found = {
            budget: try_all(METHODS[name], table, budget, asked.nodes or None, asked.seeds) for budget in asked.budgets
        }
        least = {
            penalty: min(map(lowest(penalty), (tried for tried, _ in found.values()))) for penalty in penalties(name)
        }
        for budget, (tried, seconds) in found.items():
            steps, n_rows = map(int, budget.split("x"))
            best = max(tried, key=lambda one: (one.validation, one.gini))
            excess = np.median([lowest(penalty)(tried) / least[penalty] - 1 for penalty in least])
            cells = [
                path.stem,
                METHODS[name].title,
                str(asked.nodes),
                f"{steps:,}",
                f"{n_rows:,}",
                f"{best.rate:g}",
                f"{best.penalty:g}",
            ]
            cells += [f"{value:.3f}" for value in (best.validation, best.test)]
            cells += [f"{best.gini:.2f}", f"{best.zeros:.0%}", f"{best.late:.1%}", f"{excess:.0%}", f"{seconds:.0f}"]
            print_row(cells)


def penalties(name: str) -> list[float]:
    """Those that a comparison tries."""
    return list(METHODS[name].grid["penalty"])


def lowest(penalty: float) -> Any:
    """A function that gives the lowest training loss under one penalty."""
    return lambda tried: min(one.loss for one in tried if one.penalty == penalty)


def try_all(
    method: Method, table: cq.ConceptScores, budget: str, n_nodes: int | None, n_seeds: int
) -> tuple[list[Tried], float]:
    """Every setting of a method (of its first variant), and the CPU seconds for one seed."""
    train, validation = validation_split(table)
    settings = [dict(zip(method.grid, values, strict=True)) for values in product(*method.grid.values())]
    steps, n_rows = map(int, budget.split("x"))
    fixed = {"n_nodes": n_nodes, "steps": steps, "batch_size": n_rows} | dict(method.variants[0])
    start = time.process_time()
    trained = method.train(train, range(n_seeds), [fixed | setting for setting in settings])
    seconds = (time.process_time() - start) / n_seeds
    return [
        measure(s, runs, validation, table.part("test")) for s, runs in zip(settings, trained, strict=True)
    ], seconds


def measure(setting: Any, runs: list[Any], validation: cq.ConceptScores, test: cq.ConceptScores) -> Tried:
    """Means over the runs of a setting."""

    def mean(of_run: Any) -> float:
        return float(np.mean([of_run(run) for run in runs]))

    return Tried(
        rate=setting["learning_rate"],
        penalty=setting["penalty"],
        validation=mean(lambda run: run.score(validation.frame, validation.labels)),
        test=mean(lambda run: run.score(test.frame, test.labels)),
        gini=mean(
            lambda run: np.nan_to_num(
                cq.metrics.mean_over_nodes(cq.metrics.attribution_gini(run.node_attributions_)).mean
            )
        ),
        zeros=mean(lambda run: (run.node_attributions_ == 0).mean()),
        late=mean(lambda run: run.late_decrease_),
        loss=mean(lambda run: run.history_["loss"].min()),  # a run may go back there
    )


def print_row(cells: list[str]) -> None:
    """One row of a Markdown table."""
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
