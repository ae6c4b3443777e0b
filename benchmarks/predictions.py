"""Calibration error, abstaining, flags and the time of predictions, on tables of scores.

    python benchmarks/predictions.py birds.parquet dtd.parquet caltech101.parquet cats-dogs-cars.parquet \
        --foreign celeba.parquet monumai.parquet cub.parquet

A model is trained on the training rows of each table, by the search behind ``choqolate fit`` or, with ``--paper``, with
the paper's settings. Everything is measured on test rows. Every other table that has scores of all its concepts is
foreign to a model. Prints Markdown.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import choqolate as cq

AUTO = dict.fromkeys(("n_nodes", "temperature", "interactions"), "auto")
WANTED = (0.8, 0.9, 0.95, 0.99)


def main() -> None:
    """Train the models and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path, nargs="+", help="tables of scores with train and test rows")
    parser.add_argument("--foreign", type=Path, nargs="*", default=[], help="tables of other images")
    parser.add_argument("--paper", action="store_true", help="the paper's settings instead of a search")
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", cq.ChoqolateWarning)
    tables = {path.stem: cq.ConceptScores.load(path) for path in asked.tables}
    others = {path.stem: cq.ConceptScores.load(path) for path in asked.foreign}
    settings = {} if asked.paper else AUTO
    models = {name: train(table, settings, asked.seeds) for name, table in tables.items()}
    show_errors(models, tables)
    show_abstaining(models, tables)
    show_flags(models, tables, tables | others)
    show_time()


def train(table: cq.ConceptScores, settings: dict[str, Any], n_seeds: int) -> list[cq.ChoqolateClassifier]:
    """One model per seed; a search is made once."""
    first = cq.fit_scores(table, random_state=0, **settings)
    chosen = first.trained_settings
    return [first, *(cq.fit_scores(table, **chosen | {"random_state": seed}) for seed in range(1, n_seeds))]


def show_errors(models: dict[str, list[cq.ChoqolateClassifier]], tables: dict[str, cq.ConceptScores]) -> None:
    """Expected calibration error before and after."""
    print_row(
        ["", "calibrated on", "rows", "temperature", "there, before and after", "test, before and after"], head=True
    )
    for name, runs in models.items():
        found = [cq.evaluate(run, tables[name], "test") for run in runs]
        trained, now = ([getattr(one, f"calibration_error{end}") for one in found] for end in ("_trained", ""))
        known = [run.calibration_ for run in runs]
        print_row(
            [
                name,
                known[0].source,
                f"{known[0].rows:,}",
                f"{runs[0].temperature_:g} → {np.mean([one.temperature for one in known]):.3g}",
                f"{mean([one.error_before for one in known])} → {mean([one.error_after for one in known])}",
                f"{mean(trained)} → {mean(now)}",
            ]
        )


def show_abstaining(models: dict[str, list[cq.ChoqolateClassifier]], tables: dict[str, cq.ConceptScores]) -> None:
    """Wanted and reached accuracy, and how many rows are kept."""
    print_row(["", "accuracy", *(f"wanted {wanted:.0%}" for wanted in WANTED)], head=True)
    for name, runs in models.items():
        test = tables[name].part("test")
        cells = [name, f"{np.mean([np.mean(run.predict(test) == test.labels) for run in runs]):.1%}"]
        for wanted in WANTED:
            reached, kept = [], []
            for run in runs:
                if not run.abstention(wanted).reached:
                    continue
                found = run.predict_table(test, abstain=wanted, reasons=0)
                keep = ~found["abstain"].to_numpy(dtype=bool)
                kept.append(keep.mean())
                reached.append(np.mean(found["predicted"].to_numpy()[keep] == test.labels[keep]))
            cells.append(f"{np.mean(reached):.1%} of {np.mean(kept):.0%}" if reached else "not reached")
        print_row(cells)


def show_flags(
    models: dict[str, list[cq.ChoqolateClassifier]],
    tables: dict[str, cq.ConceptScores],
    shown: dict[str, cq.ConceptScores],
) -> None:
    """Share of rows that each flag is raised for, on test rows and on foreign images."""
    print_row(
        ["model of", "shown", "rows", "unlike any training image", "outside the training range", "either"], head=True
    )
    for name, runs in models.items():
        parts = {
            f"its {part} rows": tables[name].part(part) for part in ("val", "test") if tables[name].rows.has_part(part)
        }
        foreign = {other: table for other, table in shown.items() if other != name}
        for other, table in (parts | foreign).items():
            if not set(runs[0].concepts_) <= set(table.concepts):
                continue
            found = runs[0].predict_table(table, reasons=0)
            flags = [found[flag].mean() for flag in ("unlike_training", "outside_range", "look")]
            print_row([name, other, f"{len(table):,}", *(f"{share:.1%}" for share in flags)])


def show_time(n_rows: int = 10_000, n_concepts: int = 226) -> None:
    """Seconds for many rows, with three reasons each."""
    print_row(["rows x concepts", "interactions", "seconds"], head=True)
    rng = np.random.default_rng(0)
    X, y = rng.random((n_rows, n_concepts)), rng.integers(0, 5, n_rows)
    for interactions in ("pairwise", "factored", "none"):
        model = cq.ChoqolateClassifier(epochs=1, interactions=interactions).fit(X[:2_000], y[:2_000])
        begun = time.perf_counter()
        model.predict_table(X)
        print_row([f"{n_rows:,} x {n_concepts}", interactions, f"{time.perf_counter() - begun:.1f}"])


def mean(values: list[float]) -> str:
    """Mean over the seeds."""
    return f"{np.mean(values):.3f}"


def print_row(cells: list[str], *, head: bool = False) -> None:
    """One row of a Markdown table."""
    lines = ["", cells, ["---"] * len(cells)] if head else [cells]
    for line in lines:
        print(f"| {' | '.join(line)} |" if line else "", flush=True)


if __name__ == "__main__":
    main()
