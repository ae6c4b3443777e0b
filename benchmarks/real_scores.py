"""CHOQOLATE on real CLIP scores, from saved embeddings, beside a linear bottleneck of the same width.

    python benchmarks/real_scores.py images.npz texts.npz --drop cat dog car
    python benchmarks/real_scores.py images.npz texts.npz --drop cat dog car --save cats-dogs-cars.parquet

The second command only saves the scores, for ``choqolate compare``. ``images.npz`` holds ``embeddings (n, d)``,
``labels (n,)`` and ``split`` (train / test) of images, and perhaps ``classes``, the names of the labels;
``texts.npz`` holds ``names (k,)`` and ``embeddings (k, d)`` of concepts in the same space. Scores are cosines. Concepts
that name a class are dropped: they would be the answer itself.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd
import torch
from rich.console import Console
from rich.table import Table

import choqolate as cq


def read_scores(images: str, texts: str, drop: list[str]) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Cosine scores with concepts as columns, labels, and which rows are for training."""
    images, words = np.load(images), np.load(texts)
    names = [str(name) for name in words["names"]]
    keep = [index for index, name in enumerate(names) if name not in drop]
    scores = unit(images["embeddings"]) @ unit(words["embeddings"][keep]).T
    return (
        pd.DataFrame(scores, columns=[names[index] for index in keep]),
        images["labels"],
        images["split"] == "train",
    )


def unit(x: np.ndarray) -> np.ndarray:
    """Rows of length one, in float64."""
    x = x.astype(np.float64)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def save_scores(X: pd.DataFrame, images: str, path: str) -> None:
    """Write the scores as a table that every command takes."""
    images = np.load(images)
    names = [str(name) for name in images["classes"]] if "classes" in images else None
    labels = [str(label) if names is None else names[label] for label in images["labels"]]
    split = [str(part) for part in images["split"]]
    cq.ConceptScores(X.to_numpy(), list(X.columns), labels=labels, split=split, classes=names or ()).save(path)


def linear_bottleneck(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A linear M-8-C network on the same scaled scores: its predictions and the rows of its first layer."""
    torch.manual_seed(seed)
    low, high = X.min(0), X.max(0)
    z, z_test = (torch.from_numpy((scores - low) / (high - low)).float() for scores in (X, X_test))
    network = torch.nn.Sequential(torch.nn.Linear(X.shape[1], 8), torch.nn.Linear(8, int(y.max()) + 1))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(100):
        for batch in torch.randperm(len(z)).split(512):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(z[batch]), torch.from_numpy(y[batch.numpy()]).long()).backward()
            optimizer.step()
    return network(z_test).argmax(1).numpy(), network[0].weight.detach().numpy()


def measure(
    predictions: np.ndarray, y: np.ndarray, W: np.ndarray, correlation: np.ndarray
) -> tuple[float, float, float]:
    """Accuracy, mean Attribution Gini, mean Node Coherence."""
    return (
        cq.metrics.accuracy(y, predictions),
        cq.metrics.mean_over_nodes(cq.metrics.attribution_gini(W)).mean,
        cq.metrics.mean_over_nodes(cq.metrics.node_coherence(W, correlation)).mean,
    )


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images")
    parser.add_argument("texts")
    parser.add_argument("--drop", nargs="*", default=[])
    parser.add_argument("--save", metavar="FILE", help="write the scores to this .parquet or .csv file, and stop")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--interactions", nargs="*", default=["pairwise", "factored", "none"])
    arguments = parser.parse_args()
    X, y, train = read_scores(arguments.images, arguments.texts, arguments.drop)
    if arguments.save:
        save_scores(X, arguments.images, arguments.save)
        return
    correlation = cq.metrics.concept_correlation(X[~train].to_numpy())
    off_diagonal = correlation[np.triu_indices(len(correlation), 1)].mean()
    console = Console()
    console.print(f"{X.shape[1]} concepts, {train.sum()} + {(~train).sum()} rows, mean correlation {off_diagonal:.2f}")
    table = Table("", "accuracy", "Gini", "coherence", "seconds")
    for interactions in arguments.interactions:
        start = time.perf_counter()
        runs = cq.fit_runs(X[train], y[train], seeds=range(arguments.seeds), interactions=interactions, verbose=True)
        seconds = time.perf_counter() - start
        rows = [measure(run.predict(X[~train]), y[~train], run.node_attributions_, correlation) for run in runs]
        table.add_row(f"CHOQOLATE, {interactions}", *spread(rows), f"{seconds:.0f}")
    start = time.perf_counter()
    fits = [linear_bottleneck(X[train].to_numpy(), y[train], X[~train].to_numpy(), s) for s in range(arguments.seeds)]
    rows = [measure(predicted, y[~train], W, correlation) for predicted, W in fits]
    table.add_row(f"linear {X.shape[1]}-8-{y.max() + 1}", *spread(rows), f"{time.perf_counter() - start:.0f}")
    console.print(table)


def spread(rows: list[tuple[float, float, float]]) -> list[str]:
    """Mean and standard deviation of each column."""
    return [f"{np.mean(column):.3f} ± {np.std(column, ddof=1):.3f}" for column in zip(*rows, strict=True)]


if __name__ == "__main__":
    main()
