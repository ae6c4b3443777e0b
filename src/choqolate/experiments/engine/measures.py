"""What is measured of a trained model, on the test rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from choqolate import metrics
from choqolate.analysis.evaluation import Evaluation, evaluate
from choqolate.data.scores import ConceptScores
from choqolate.estimators.table_inputs import inputs
from choqolate.explain.protocols import ConceptModel

MOST_ROWS = 5_000  # for HSIC and CKNNA, evenly spread: CKNNA compares every row with every other
NEIGHBOURS = 10

Metrics = dict[str, float | None]


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
    test = table.part("test")
    sample = test.take(np.unique(np.linspace(0, len(test) - 1, min(len(test), MOST_ROWS)).astype(int)))
    Z = _scaled(table, sample)

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
            measured |= {"worst_group": result.worst_group[1], "reweighted_accuracy": _reweighted(result, table)}
        return measured

    return measure


def _quality(W: np.ndarray, scores: np.ndarray) -> Metrics:
    """Gini and coherence of what the nodes read of the scores themselves."""
    gini = metrics.attribution_gini(W)
    coherence = (
        metrics.node_coherence(W, metrics.concept_correlation(scores)) if len(scores) > 1 else np.full(1, np.nan)
    )
    return {
        "gini_over_scores": metrics.mean_over_nodes(gini).mean,
        "coherence_over_scores": metrics.mean_over_nodes(coherence).mean,
    }


def _scaled(table: ConceptScores, rows: ConceptScores) -> np.ndarray:
    """The scores of some rows in the range of those for training, clipped to [0, 1]."""
    train = table.part("train").scores.astype(np.float64)
    low, extent = train.min(axis=0), np.ptp(train, axis=0)
    scaled: np.ndarray = np.clip((rows.scores - low) / np.where(extent > 0, extent, 1.0), 0.0, 1.0)
    return scaled


def _reweighted(result: Evaluation, table: ConceptScores) -> float | None:
    """Accuracy with groups as frequent as in training; not defined if one of them has no test rows."""
    groups = table.part("train").groups
    known = [] if groups is None else [group for group in groups.tolist() if group is not None]
    names, sizes = np.unique(known, return_counts=True)
    if not len(names) or any(name not in result.group_accuracy for name in names.tolist()):
        return None
    return float(np.average([result.group_accuracy[name] for name in names.tolist()], weights=sizes))
