"""What the search chooses, and what the start of the nodes and the schedule do, on tables of scores.

    python benchmarks/good_choices.py search scores.parquet ...          # paper's settings, auto, logistic regression
    python benchmarks/good_choices.py start scores.parquet ... --seeds 10    # random or clusters, constant or cosine

Tables need a split with test rows. Both print Markdown.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import choqolate as cq
from choqolate.analysis.evaluation import Evaluation
from choqolate.estimators.table_training import fit_scores_runs

AUTO = dict.fromkeys(("n_nodes", "temperature", "interactions"), "auto")
STARTS = {
    "random, constant": {"init": "random", "schedule": "constant"},
    "random, cosine": {"init": "random", "schedule": "cosine"},
    "clusters, constant": {"init": "clusters", "schedule": "constant"},
    "clusters, cosine": {"init": "clusters", "schedule": "cosine"},
}


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("search", "start"))
    parser.add_argument("tables", type=Path, nargs="+", help="tables of scores")
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", cq.ChoqolateWarning)
    for path in asked.tables:
        table = cq.ConceptScores.load(path)
        (compare_search if asked.what == "search" else compare_starts)(path.stem, table, range(asked.seeds))


def compare_search(name: str, table: cq.ConceptScores, seeds: range) -> None:
    """The paper's settings, the settings that are searched, and logistic regression on all scores."""
    head = ["", "accuracy", "Attribution Gini", "Node Coherence", "concepts per class", "seconds"]
    print(f"\n**{name}**: {len(table):,} rows, {len(table.concepts)} concepts, {len(table.classes)} classes\n")
    print_row(head)
    print_row(["---"] * len(head))
    chosen: list[str] = []
    for label, settings in (("the paper's settings", {}), ("auto", AUTO)):
        measured, seconds = [], []
        for seed in seeds:
            begun = time.perf_counter()
            model = cq.fit_scores(table, random_state=seed, **settings)
            seconds.append(time.perf_counter() - begun)
            measured.append(cq.evaluate(model, table, "test"))
            chosen += [] if model.search_ is None else [str(model.search_.choice)]
        print_row([label, *spreads(measured), f"{statistics.median(seconds):.1f}"])
    print_row(["logistic regression on all scores", f"{ceiling(table):.3f}", "", "", "", ""])
    print(
        "\nchosen: " + "; ".join(f"{choice} ({chosen.count(choice)} x)" for choice in dict.fromkeys(chosen)), flush=True
    )


def ceiling(table: cq.ConceptScores) -> float:
    """Test accuracy of logistic regression, its penalty chosen by cross-validation on the training rows."""
    train, test = table.part("train"), table.part("test")
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=3_000))
    penalties = {"logisticregression__C": [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]}
    found = GridSearchCV(model, penalties, cv=3).fit(train.scores, train.labels)
    return float(found.score(test.scores, test.labels))


def compare_starts(name: str, table: cq.ConceptScores, seeds: range) -> None:
    """Random and cluster start, constant and falling learning rate, at two architectures."""
    settings: dict[str, dict[str, Any]] = {"8 nodes, all pairs, temperature 0.005": {}}
    if len(table.classes) > 16:
        settings["64 nodes, weighted means, temperature 0.005"] = {"n_nodes": 64, "interactions": "none"}
    else:
        settings["16 nodes, all pairs, temperature 0.02"] = {"n_nodes": 16, "temperature": 0.02}
    biased = bool(table.spurious) and table.groups is not None
    head = [
        "start, learning rate",
        "accuracy",
        "Attribution Gini",
        "Node Coherence",
        "concepts per class",
        "match",
        "recur",
    ]
    head += ["worst group", "after removal", "retrained without"] if biased else []
    for label, parameters in settings.items():
        print(f"\n**{name}**, {label}\n")
        print_row(head)
        print_row(["---"] * len(head))
        for start, how in STARTS.items():
            runs = fit_scores_runs(table, seeds, **parameters, **how)
            found = cq.node_stability(runs)
            cells = [start, *spreads([cq.evaluate(run, table, "test") for run in runs])]
            cells += [f"{found.match:.2f}", f"{found.share:.0%}"]
            if biased:
                core = table.select([concept for concept in table.concepts if concept not in table.spurious])
                again = fit_scores_runs(core, seeds, **parameters, **how)
                removed = [run.remove_concepts(table.spurious) for run in runs]
                cells += [worst(runs, table), worst(removed, table), worst(again, core)]
            print_row(cells)
    print(flush=True)


def worst(runs: list[cq.ChoqolateClassifier], table: cq.ConceptScores) -> str:
    """Worst-group accuracy in percent."""
    return spread([100 * cq.evaluate(run, table, "test").worst_group[1] for run in runs], 1)


def spreads(measured: list[Evaluation]) -> list[str]:
    """Mean and standard deviation of accuracy, Gini, coherence and concepts per class."""
    names = (("accuracy", 3), ("attribution_gini", 3), ("node_coherence", 3), ("concepts_per_class", 1))
    return [spread([getattr(one, name) for one in measured], digits) for name, digits in names]


def spread(values: list[float], digits: int) -> str:
    """Mean ± standard deviation."""
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}"


def print_row(cells: list[str]) -> None:
    """One row of a Markdown table."""
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
