"""The whole job on data that is at hand: train, read, correct, save."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from choqolate import metrics
from choqolate.classifier import ChoqolateClassifier, fit_runs
from choqolate.removal import MODES

if TYPE_CHECKING:
    from rich.console import Console

N_RUNS = 5
TOP = 4


@dataclass(frozen=True)
class DemoResult:
    """What the demo measured, all of it on held-out rows.

    Attributes:
        runs: number of runs behind ``accuracy``, ``gini`` and ``coherence``, each (mean, standard deviation).
        model: the first run.
        nodes: the leading concepts of each of its nodes, with their Shapley values.
        removed: the concept that its nodes rely on most.
        after: accuracy before and after removing it, by mode, without and with recalibration.
        edited: the model after removal in the paper's mode.
        folder: where the model is.
    """

    runs: int
    accuracy: tuple[float, float]
    gini: tuple[float, float]
    coherence: tuple[float, float]
    model: ChoqolateClassifier
    nodes: list[list[tuple[str, float]]]
    removed: str
    before: float
    after: dict[str, tuple[float, float]]
    edited: ChoqolateClassifier
    folder: Path


def run_breast_cancer(output: Path, *, verbose: bool = True) -> DemoResult:
    """Train on scikit-learn's breast-cancer table: 30 named, strongly correlated measurements of 569 tumours."""
    folder = output / "model"
    folder.mkdir(parents=True, exist_ok=True)  # before the work, not after
    data = load_breast_cancer(as_frame=True)
    y = data.target_names[data.target]
    X_train, X_test, y_train, y_test = train_test_split(data.data, y, test_size=0.3, stratify=y, random_state=0)
    runs = fit_runs(X_train, y_train, seeds=range(N_RUNS), verbose=verbose)
    correlation = metrics.concept_correlation(X_test.to_numpy())
    model = runs[0]
    removed = model.concepts_[int(model.node_attributions_.sum(0).argmax())]
    after = {}
    for mode in MODES:
        plain = model.remove_concepts(removed, mode=mode)
        recalibrated = model.remove_concepts(removed, mode=mode, recalibrate=X_train)
        after[mode] = (plain.score(X_test, y_test), recalibrated.score(X_test, y_test))
    model.save(folder)
    return DemoResult(
        runs=N_RUNS,
        accuracy=_spread([run.score(X_test, y_test) for run in runs]),
        gini=_spread([_mean(metrics.attribution_gini(run.node_attributions_)) for run in runs]),
        coherence=_spread([_mean(metrics.node_coherence(run.node_attributions_, correlation)) for run in runs]),
        model=model,
        nodes=[_leading(model, node) for node in range(len(model.node_attributions_))],
        removed=removed,
        before=model.score(X_test, y_test),
        after=after,
        edited=model.remove_concepts(removed),
        folder=folder,
    )


def show(result: DemoResult, console: Console) -> None:
    """Print the result as tables."""
    from rich.table import Table

    console.print(f"\n[bold]CHOQOLATE[/] on breast-cancer: 30 measurements, 8 nodes, 2 classes, {result.runs} runs")
    summary = Table("", "mean", "std", box=None, pad_edge=False)
    for name in ("accuracy", "gini", "coherence"):
        mean, spread = getattr(result, name)
        summary.add_row(
            {"gini": "Attribution Gini", "coherence": "Node Coherence"}.get(name, "test accuracy"),
            f"{mean:.3f}",
            f"{spread:.3f}",
        )
    console.print(summary)
    nodes = Table(
        "node", "leading concepts (Shapley value)", *map(str, result.model.classes_), box=None, pad_edge=False
    )
    nodes.title, nodes.title_justify = "What each node of the first run reads, and what it counts for", "left"
    for index, leading in enumerate(result.nodes):
        words = ", ".join(f"{concept} [dim]{value:.2f}[/]" for concept, value in leading)
        nodes.add_row(str(index), words, *(f"{share:.2f}" for share in result.model.class_attributions_[:, index]))
    console.print("", nodes, "")
    _show_removal(result, console)
    console.print(f"\nThe model is in {result.folder}: choqolate.load({str(result.folder)!r})", markup=False)


def _show_removal(result: DemoResult, console: Console) -> None:
    from rich.table import Table

    console.print(f"Removing [bold]{result.removed}[/], the concept that the nodes rely on most:")
    table = Table("test accuracy", "plain", "recalibrated", box=None, pad_edge=False)
    table.add_row("before", f"{result.before:.3f}", "")
    for mode, (plain, recalibrated) in result.after.items():
        table.add_row(f"after, {mode}", f"{plain:.3f}", f"{recalibrated:.3f}")
    console.print(table)
    report = result.edited.removal_
    assert report is not None
    lost = ", ".join(f"{share:.0%}" for share in report.mass_lost)
    console.print(f"weight that nodes 0 to {len(report.mass_lost) - 1} lost: {lost}")


def _leading(model: ChoqolateClassifier, node: int) -> list[tuple[str, float]]:
    shares = model.node_attributions_[node]
    return [(model.concepts_[j], float(shares[j])) for j in np.argsort(-shares)[:TOP]]


def _mean(values: np.ndarray) -> float:
    return float(metrics.mean_over_nodes(values).mean)


def _spread(values: list[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1))
