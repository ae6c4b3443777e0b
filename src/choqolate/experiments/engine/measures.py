"""What is measured of a trained model, on the test rows, and how tables name it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from choqolate import metrics
from choqolate.analysis.evaluation import evaluate
from choqolate.data.scores import ConceptScores
from choqolate.estimators.table_inputs import inputs
from choqolate.experiments.engine.tables import Column
from choqolate.explain.model_protocols import ConceptModel
from choqolate.network.scaling import MinMax

MOST_ROWS = 5_000  # for HSIC and CKNNA, evenly spread: CKNNA compares every row with every other
NEIGHBOURS = 10

Metrics = dict[str, float | None]

METRICS = {
    "accuracy": Column("Accuracy", percent=True, higher_is_better=True),
    "worst_group": Column("Worst group", percent=True, higher_is_better=True),
    "reweighted_accuracy": Column("Accuracy, reweighted", percent=True, higher_is_better=True),
    "gini": Column("Attribution Gini", higher_is_better=True),
    "coherence": Column("Node Coherence", higher_is_better=True),
    "hsic": Column("HSIC"),
    "cknna": Column("CKNNA"),
}
"""The columns of tables, by what is measured. More information is not better: a copy of the input would keep all."""

QUALITIES = ("gini", "coherence")
"""What is measured of the nodes alone."""


def measuring(table: ConceptScores, *, information: bool = True) -> Callable[[ConceptModel], Metrics]:
    """A function that measures models on the test rows of a table with labels and a split.

    It gives ``accuracy``; ``gini`` and ``coherence``, means over the nodes where they are defined, and
    ``used_nodes``, how many read anything at all, the others having neither; ``hsic`` (normalised, linear kernel) and
    ``cknna`` (k = 10) between the scaled scores Z and the node values; ``parameters``; with groups ``worst_group``, and
    ``reweighted_accuracy``, where groups count as in training. A model whose nodes stand on learnt units
    (``score_attributions_``) has ``gini_over_scores`` and ``coherence_over_scores`` as well.

    Args:
        table: with rows to train and to test on.
        information: whether ``hsic`` and ``cknna`` are wanted, which take the longest.
    """
    train, test = table.part("train"), table.part("test")
    sample = test.take(np.unique(np.linspace(0, len(test) - 1, min(len(test), MOST_ROWS)).astype(int)))
    Z = MinMax.fit(train.scores.astype(np.float64))(sample.scores)

    def measure(model: ConceptModel) -> Metrics:
        result = evaluate(model, table, "test")
        measured: dict[str, Any] = {
            "accuracy": result.accuracy,
            "gini": result.attribution_gini,
            "coherence": result.node_coherence,
            "used_nodes": int(np.any(model.node_attributions_, axis=1).sum()),
            "parameters": getattr(model, "n_parameters_", None),
        }
        if information and len(sample) > NEIGHBOURS:
            nodes = np.asarray(model.transform(inputs(model, sample)), dtype=np.float64)
            measured |= {"hsic": metrics.hsic(Z, nodes), "cknna": metrics.cknna(Z, nodes, k=NEIGHBOURS)}
        over_scores = getattr(model, "score_attributions_", None)
        if over_scores is not None:
            measured |= _quality(over_scores, test.scores)
        if result.worst_group is not None:
            measured |= {"worst_group": result.worst_group[1]}
            measured |= {"reweighted_accuracy": _reweighted(model, train, test)}
        return measured

    return measure


def _quality(W: np.ndarray, scores: np.ndarray) -> Metrics:
    """Gini and coherence of what the nodes read of the scores themselves."""
    gini = metrics.attribution_gini(W)
    coherence = metrics.node_coherence_on(W, scores) if len(scores) > 1 else np.full(1, np.nan)
    return {
        "gini_over_scores": metrics.mean_over_nodes(gini).mean,
        "coherence_over_scores": metrics.mean_over_nodes(coherence).mean,
    }


def _reweighted(model: ConceptModel, train: ConceptScores, test: ConceptScores) -> float | None:
    """Accuracy with groups as frequent as in training; not defined if one of them has no test rows."""
    assert train.groups is not None
    assert test.groups is not None
    known = [group for group in train.groups.tolist() if group is not None]
    if not known or not set(known) <= set(test.groups.tolist()):
        return None
    predicted = model.predict(inputs(model, test)).astype(str)
    rows = np.array([group is not None for group in test.groups.tolist()])
    assert test.labels is not None
    return metrics.reweighted_accuracy(test.labels[rows], predicted[rows], test.groups[rows], known)
