"""Each baseline beside its authors' recipe, on tables of real scores.

    python benchmarks/peers.py dtd.parquet cats-dogs-cars.parquet birds.parquet
    python benchmarks/peers.py dtd.parquet --images dtd_images.npz --only pscbm

Tables need a split with test rows (``benchmarks/real_scores.py --save`` makes them); DFR and Group-DRO need two classes
and groups. ``--images`` holds the ``embeddings (n, d)`` of the rows of the only table: the published concept layer of
PS-CBM then reads these, too. The recipes are in ``peer_methods.py``. Prints Markdown.

Columns: accuracy on the test rows, share of weights that are exactly zero, mean Attribution Gini of the rows of
weights, share of test rows with the same prediction as the first row of the table, and seconds of training.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import peer_methods as peers
import torch
from sklearn.linear_model import LogisticRegression

import choqolate as cq
from choqolate.baselines import PCBM, PSCBM, SLRAVD, Bottleneck, SparseAutoencoder
from choqolate.baselines.selection import concept_labels, find_owners
from choqolate.debiasing import dfr
from choqolate.debiasing.dfr import STRENGTHS, mean_head
from choqolate.debiasing.group_dro import update_group_weights
from choqolate.debiasing.group_rows import balanced_rows
from choqolate.estimators.descent import draw_layers

BUDGETS = ({"steps": 3_000, "batch_size": 512}, {"steps": 1_000, "batch_size": 2_048})


@dataclass(frozen=True)
class Data:
    """A table as arrays: raw and min-max scores, and class indices, of training and test rows."""

    name: str
    table: cq.ConceptScores
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @classmethod
    def load(cls, path: Path) -> Data:
        table = cq.ConceptScores.load(path)
        train, test = table.part("train"), table.part("test")
        classes = np.unique(train.labels)
        targets = (np.searchsorted(classes, part.labels) for part in (train, test))
        return cls(
            path.stem, table, train.scores.astype(float), next(targets), test.scores.astype(float), next(targets)
        )

    @property
    def scaled(self) -> tuple[np.ndarray, np.ndarray]:
        low, width = self.X.min(0), np.ptp(self.X, axis=0)
        return (self.X - low) / width, np.clip((self.X_test - low) / width, 0, 1)


class Rows:
    """A Markdown table whose first row is what the others are held against."""

    def __init__(self, title: str) -> None:
        print_head(title, ("", "accuracy", "zeros", "Gini", "agreement", "seconds"))
        self.reference: np.ndarray | None = None

    def add(self, name: str, predicted: np.ndarray, truth: np.ndarray, W: np.ndarray | None, seconds: float) -> None:
        self.reference = predicted if self.reference is None else self.reference
        cells = [f"{np.mean(predicted == truth):.3f}", "", ""]
        if W is not None:
            gini = cq.metrics.mean_over_nodes(cq.metrics.attribution_gini(W)).mean
            cells = [cells[0], f"{np.mean(W == 0):.0%}", f"{gini:.2f}"]
        print_row([name, *cells, f"{np.mean(predicted == self.reference):.3f}", f"{seconds:.1f}"])

    def fit(self, name: str, make: Callable[[], Any], data: Data, X: np.ndarray, X_test: np.ndarray) -> Any:
        """Fit, time and add a model of scikit-learn's kind."""
        model, seconds = timed(lambda: make().fit(X, data.y))
        self.add(name, model.predict(X_test), data.y_test, weights(model), seconds)
        return model


def weights(model: Any) -> np.ndarray:
    """The weights of the classes over the inputs; of a concept layer's classifier, over the kept units."""
    if isinstance(model, PSCBM):
        return model.node_attributions_[:, model.selection_.columns]
    if isinstance(model, Bottleneck):
        return model.node_attributions_
    return model.coef_ if hasattr(model, "coef_") else np.vstack([one.coef_ for one in model.estimators_])


# ---------------------------------------------------------------------- sparse linear classifiers


def sparse_linear(data: Data) -> None:
    """PCBM and SLR-AVD without nodes, against one-vs-rest and multinomial solvers."""
    (z, z_test), raw = data.scaled, (data.X, data.X_test)
    for penalty in (1e-5, 2e-4):
        rows = Rows(f"PCBM, {data.name}, penalty {penalty:g}")
        rows.fit("authors' core: one-vs-rest SGD, min-max", lambda p=penalty: peers.one_vs_rest_sgd(p), data, z, z_test)
        rows.fit("the same, raw scores", lambda p=penalty: peers.one_vs_rest_sgd(p), data, *raw)
        rows.fit("multinomial, saga, min-max", lambda p=penalty: peers.multinomial(len(z), p, 0.99), data, z, z_test)
        ours(rows, PCBM, data, penalty=penalty)
    rows = Rows(f"SLR-AVD, {data.name}, penalty 0.001")
    rows.fit("multinomial l1, saga, min-max", lambda: peers.multinomial(len(z), 1e-3, 1.0), data, z, z_test)
    rows.fit("one-vs-rest l1, liblinear, min-max", lambda: peers.one_vs_rest_l1(len(z), 1e-3), data, z, z_test)
    ours(rows, SLRAVD, data, penalty=1e-3)


def ours(rows: Rows, method: Any, data: Data, **options: Any) -> Any:
    """Our method without nodes, as it is by default and with budgets; the last of these models."""
    model = rows.fit("ours, 100 epochs, rate 0.01", lambda: method(n_nodes=None, **options), data, data.X, data.X_test)
    for budget in BUDGETS:
        title = f"ours, {budget['steps']:,} steps of {budget['batch_size']:,} rows, rate 0.1"
        wanted = {"n_nodes": None, "learning_rate": 0.1} | budget | options
        model = rows.fit(title, lambda w=wanted: method(**w), data, data.X, data.X_test)
    return model


# ---------------------------------------------------------------------- PS-CBM


def pscbm(data: Data, images: np.ndarray | None) -> None:
    """Selection, concept layer and last step."""
    best = np.sort(data.X, axis=0)[-4:].mean(0).max()
    if best < 0.2:
        print(f"\nPS-CBM, {data.name}: no concept reaches a cosine of 0.2, the best {best:.2f}")
        return
    rows = Rows(f"PS-CBM, {data.name}, penalty 0.0007")
    model = PSCBM(n_nodes=None, epochs=1).fit(data.X, data.y)
    chosen, classes = model.selection_, len(np.unique(data.y))
    owners = [np.flatnonzero(own).tolist() for own in find_owners(data.X, data.y, classes)]
    kept = peers.partially_shared(data.X, data.y, owners, 0.2, 0.9998, 5)
    mine = {j: set(np.flatnonzero(own).tolist()) for j, own in zip(chosen.columns.tolist(), chosen.owned, strict=True)}
    labels = concept_labels(data.X, data.y, chosen, 0.2)
    inputs = {"scores": data.scaled}
    if images is not None:
        inputs |= {"embeddings": tuple(images[np.asarray(data.table.split) == part] for part in ("train", "test"))}
    for name, (train, test) in inputs.items():
        for n_layers in (1, 2):
            start = time.perf_counter()
            layer = peers.concept_layer(train, labels, n_layers=n_layers, rate=1e-3, steps=5_000)
            units, test_units = peers.standardized_units(layer, train, test)
            last = peers.multinomial(len(units), 7e-4, 0.99).fit(units, data.y)
            seconds = time.perf_counter() - start
            title = f"published recipe, {n_layers} layer{'s'[: n_layers - 1]} on {name}"
            rows.add(title, last.predict(test_units), data.y_test, last.coef_, seconds)
    rows.fit("ours, 100 epochs, rate 0.001", lambda: PSCBM(n_nodes=None, learning_rate=1e-3), data, data.X, data.X_test)
    ours_at_length = ours(rows, PSCBM, data)
    u, u_test = ((part @ ours_at_length.unit_weights_.T + ours_at_length.unit_intercepts_) for part in data.scaled)
    rows.fit("our units, last step by saga", lambda: peers.multinomial(len(u), 7e-4, 0.99), data, u, u_test)
    same = (
        f"{len(set(kept) & set(mine))} of {len(mine)} kept concepts are those of the published selection, which keeps"
    )
    equal = sum(kept[j] == mine[j] for j in set(kept) & set(mine))
    print(f"\n{same} {len(kept)}; {equal} with the same classes.")


# ---------------------------------------------------------------------- sparse autoencoder


def sparse_autoencoder(data: Data) -> None:
    """The first stage beside a plain loop, from the same draws."""
    print_head(
        f"Sparse autoencoder, {data.name}: largest difference from a plain loop",
        ("units", "epochs", "resampled", "loss curve", "encoder", "decoder", "loss at the end"),
    )
    z, _ = data.scaled
    for n_units, epochs, rate in ((8, 20, 0.01), (8, 100, 0.01), (64, 40, 0.03)):
        model = SparseAutoencoder(n_units, epochs=epochs, learning_rate=rate).fit(data.X, data.y)
        generator = torch.Generator().manual_seed(0)
        drawn = draw_layers([generator], [z.shape[1], n_units, z.shape[1]])
        start = [drawn[0][0], drawn[2][0]]
        theta, curve, resampled = peers.autoencoder(z, start, generator, penalty=3e-4, rate=rate, epochs=epochs)
        mine = model.history_["reconstruction"]
        differences = [
            np.abs(curve - mine).max(),
            *(
                np.abs(theirs.numpy() - own).max()
                for theirs, own in ((theta[0], model.node_attributions_), (theta[2], model.decoder_))
            ),
        ]
        print_row([str(n_units), str(epochs), str(resampled), *(f"{d:.0e}" for d in differences), f"{mine[-1]:.5f}"])


# ---------------------------------------------------------------------- debiasing


def debiasing(data: Data) -> None:
    """DFR and Group-DRO, on node values of a trained classifier."""
    table = data.table
    model = cq.fit_scores(table, device="cpu")
    train, test = table.part("train").grouped(), table.part("test").grouped()
    values, test_values = (np.asarray(model.transform(part)) for part in (train, test))
    centre, spread = values.mean(0), values.std(0)
    x, x_test = (values - centre) / spread, (test_values - centre) / spread
    y, y_test = (np.searchsorted(model.classes_, part.labels) for part in (train, test))
    groups = np.unique(train.groups, return_inverse=True)[1]
    title = f"DFR, {data.name}, on training rows, smallest group {np.bincount(groups).min()}"
    print_head(title, ("", "C", "accuracy", "worst group", "agreement"))
    first: np.ndarray | None = None
    for seed in range(3):
        C = peers.dfr_strength(values, y, groups, STRENGTHS, seed)
        w, b = peers.dfr_head(x, y, groups, C, 10, seed)
        predicted = (x_test @ w + b > 0).astype(int)
        first = predicted if first is None else first
        print_row([f"authors' procedure, seed {seed}", f"{C:g}", *of_groups(predicted, y_test, test, first)])
    for seed in range(3):
        (head,) = dfr([model], without_validation(table), n_draws=10, random_state=seed)
        predicted = np.searchsorted(model.classes_, head.predict(test))
        C = head.provenance_.debiasing["C"]
        print_row([f"ours, seed {seed}", f"{C:g}", *of_groups(predicted, y_test, test, first)])
    print(f"\nThe mean head of given draws: largest difference of the weights {same_draws(x, y, groups):.0e}.")
    rng = np.random.default_rng(0)
    losses, sizes = rng.exponential(size=(1_000, 4)), np.bincount(groups).astype(float)
    for adjustment in (0.0, 2.0):
        q = torch.full((4,), 0.25, dtype=torch.float64)
        history = []
        for step in torch.from_numpy(losses):
            q = update_group_weights(q, step, torch.from_numpy(sizes), adjustment=adjustment)
            history.append(q.numpy())
        gap = np.abs(np.array(history) - peers.group_weights(losses, sizes, 0.01, adjustment)).max()
        print(f"\nGroup-DRO, 1,000 updates, C = {adjustment:g}: largest difference of the weights {gap:.0e}.")


def without_validation(table: cq.ConceptScores) -> cq.ConceptScores:
    """The table without validation rows, so that both procedures see the training rows alone."""
    return table.take(np.asarray(table.split) != "val")


def of_groups(predicted: np.ndarray, truth: np.ndarray, test: cq.ConceptScores, first: np.ndarray) -> list[str]:
    """Accuracy, that of the worst group, and agreement, as cells."""
    worst = cq.metrics.worst_group_accuracy(truth, predicted, test.groups)
    return [f"{np.mean(predicted == truth):.3f}", f"{worst:.3f}", f"{np.mean(predicted == first):.3f}"]


def same_draws(x: np.ndarray, y: np.ndarray, groups: np.ndarray) -> float:
    """Largest difference of a mean head of ours to scikit-learn's fits on the same draws."""
    V, d = mean_head(x, y, groups, 0.3, 10, np.random.default_rng(0))
    rng, fits = np.random.default_rng(0), []
    for _ in range(10):
        rows = balanced_rows(groups, rng)
        single = LogisticRegression(C=0.3, l1_ratio=1.0, solver="liblinear", max_iter=1_000, random_state=0)
        fits.append(single.fit(x[rows], y[rows]))
    gaps = [V[1] - V[0] - np.mean([fit.coef_[0] for fit in fits], axis=0)]
    gaps.append(d[1:] - d[:1] - np.mean([fit.intercept_ for fit in fits], axis=0))
    return float(np.abs(np.concatenate(gaps)).max())


# ---------------------------------------------------------------------- representations


def representations(data: Data) -> None:
    """HSIC and CKNNA between scaled scores and node values."""
    z = data.scaled[1][:1_500]
    model = cq.ChoqolateClassifier(device="cpu").fit(data.X, data.y)
    nodes = np.asarray(model.transform(data.X_test[:1_500]))
    title = f"Representations, {data.name}, {len(z):,} rows"
    print_head(title, ("measure", "ours", "dense formula", "with the authors' 1e-6"))
    print_row(["HSIC, linear", f"{cq.metrics.hsic(z, nodes):.12f}", f"{peers.cka(z, nodes):.12f}", ""])
    dense = [f"{peers.cknna(z, nodes, floor=floor):.12f}" for floor in (0.0, 1e-6)]
    print_row(["CKNNA, k = 10", f"{cq.metrics.cknna(z, nodes):.12f}", *dense])


# ---------------------------------------------------------------------- script

PARTS = ("linear", "pscbm", "autoencoder", "debiasing", "representations")


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What some work gives, and its seconds."""
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def print_head(title: str, cells: Sequence[str]) -> None:
    """Title and head of a Markdown table."""
    print(f"\n**{title}**\n")
    print_row(cells)
    print_row(["---"] * len(cells))


def print_row(cells: Sequence[str]) -> None:
    """One row of a Markdown table."""
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path, nargs="+", help="tables of scores")
    parser.add_argument("--images", type=Path, help="the embeddings of the images of the only table")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.images and len(asked.tables) > 1:
        parser.error("--images goes with one table")
    images = None if asked.images is None else np.load(asked.images)["embeddings"].astype(float)
    for path in asked.tables:
        data = Data.load(path)
        grouped = data.table.groups is not None and len(np.unique(data.y)) == 2
        if "linear" in asked.only:
            sparse_linear(data)
        if "pscbm" in asked.only:
            pscbm(data, images)
        if "autoencoder" in asked.only:
            sparse_autoencoder(data)
        if "debiasing" in asked.only and grouped:
            debiasing(data)
        if "representations" in asked.only:
            representations(data)


if __name__ == "__main__":
    main()
