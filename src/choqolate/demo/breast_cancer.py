"""The job on a table: train, read, correct, save."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from choqolate import metrics
from choqolate._util.checks import check_number
from choqolate._util.numbers import Spread
from choqolate.demo import claim_folder
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.estimators.seed_runs import fit_runs
from choqolate.network.removal import MODES

N_RUNS = 5


@dataclass(frozen=True)
class BreastCancerDemo:
    """What the demo measured, all of it on held-out rows.

    Attributes:
        runs: number of runs behind ``accuracy``, ``gini`` and ``coherence``, each over the runs.
        model: the first run.
        removed: the concept that its nodes rely on most.
        rows: number of held-out rows.
        after: accuracy before and after removing it, by mode, without and with recalibration.
        edited: the model after removal in the paper's mode.
        folder: where the model is.
    """

    runs: int
    accuracy: Spread
    gini: Spread
    coherence: Spread
    model: ChoqolateClassifier
    removed: str
    before: float
    after: dict[str, tuple[float, float]]
    edited: ChoqolateClassifier
    folder: Path
    rows: int

    @property
    def before_share(self) -> metrics.Proportion:
        """Accuracy of the first run, with its interval."""
        return metrics.Proportion(round(self.before * self.rows), self.rows)


def run_breast_cancer(output: Path, *, n_runs: int = N_RUNS, verbose: bool = True) -> BreastCancerDemo:
    """Train on scikit-learn's breast-cancer table: 30 named, strongly correlated measurements of 569 tumours."""
    check_number("n_runs", n_runs, minimum=1, whole=True)
    claim_folder(output)  # before the work, not after
    folder = output / "model"
    data = load_breast_cancer(as_frame=True)
    y = data.target_names[data.target]
    X_train, X_test, y_train, y_test = train_test_split(data.data, y, test_size=0.3, stratify=y, random_state=0)
    runs = fit_runs(X_train, y_train, seeds=range(n_runs), verbose=verbose)
    correlation = metrics.concept_correlation(X_test.to_numpy())
    model = runs[0]
    removed = model.concepts_[int(model.concept_attributions_.sum(0).argmax())]
    after = {}
    for mode in MODES:
        plain = model.remove_concepts(removed, mode=mode)
        recalibrated = model.remove_concepts(removed, mode=mode, recalibrate=X_train)
        after[mode] = (plain.score(X_test, y_test), recalibrated.score(X_test, y_test))
    model.save(folder)
    return BreastCancerDemo(
        runs=n_runs,
        accuracy=Spread.over([run.score(X_test, y_test) for run in runs]),
        gini=Spread.over([_mean(metrics.attribution_gini(run.concept_attributions_)) for run in runs]),
        coherence=Spread.over([_mean(metrics.node_coherence(run.concept_attributions_, correlation)) for run in runs]),
        model=model,
        removed=removed,
        before=model.score(X_test, y_test),
        after=after,
        edited=model.remove_concepts(removed),
        folder=folder,
        rows=len(y_test),
    )


def _mean(values: np.ndarray) -> float:
    return float(metrics.mean_over_nodes(values).mean)
