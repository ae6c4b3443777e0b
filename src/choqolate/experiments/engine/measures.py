"""What is measured of a trained model, on the test rows, and how tables name it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from choqolate import metrics
from choqolate.analysis.evaluation import evaluate
from choqolate.analysis.following import measure_following
from choqolate.data.scores import ConceptScores
from choqolate.errors import NothingLeftError
from choqolate.estimators.table_inputs import inputs
from choqolate.experiments.engine.tables import Column
from choqolate.explain.model_protocols import ConceptModel
from choqolate.metrics.effective_concepts import NEC_COUNTS
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
    "concepts_per_class": Column("Concepts per class", higher_is_better=False),
    "interaction_mass": Column("Interaction mass"),
    **{f"nec_{k}": Column(f"Accuracy at {k}", percent=True, higher_is_better=True) for k in NEC_COUNTS},
    "anec": Column("ANEC", percent=True, higher_is_better=True),
    "recurrence": Column("Nodes that recur", percent=True, higher_is_better=True),
    "follows": Column("Follows the bias"),
    "removed_accuracy": Column("Accuracy after removal", percent=True, higher_is_better=True),
    "removed_worst_group": Column("Worst group after removal", percent=True, higher_is_better=True),
    "removed_follows": Column("Follows the bias after removal"),
}
"""The columns of tables, by what is measured. More information is not better: a copy of the input would keep all."""

QUALITIES = ("gini", "coherence")
"""What is measured of the nodes alone."""


def measuring(
    table: ConceptScores, *, information: bool = True, original: ConceptScores | None = None
) -> Callable[[ConceptModel], Metrics]:
    """A function that measures models on the test rows of a table with labels and a split.

    It gives ``accuracy``; ``gini`` and ``coherence``, means over the nodes where they are defined, and
    ``used_nodes``, how many read anything at all, the others having neither; ``hsic`` (normalised, linear kernel) and
    ``cknna`` (k = 10) between the scaled scores Z and the node values; ``concepts_per_class``, ``interaction_mass``,
    ``nec_5``, ``nec_10``, ... (accuracy with so many concepts per class) and their mean ``anec``; ``parameters``;
    ``late_decrease``, how much the training loss still fell at the end, and ``went_back``, whether the training was
    lost and went back to its best epoch; with groups ``worst_group``, and
    ``reweighted_accuracy``, where groups count as in training. A model whose nodes stand on learnt units
    (``score_attributions_``) has ``gini_over_scores`` and ``coherence_over_scores`` as well. Where concepts are marked
    as spurious, ``follows`` is the AUC of :func:`choqolate.measure_following`.

    Args:
        table: with rows to train and to test on.
        information: whether ``hsic`` and ``cknna`` are wanted, which take the longest.
        original: the scores that spurious concepts have in the data; by default those of the table.
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
            "concepts_per_class": result.concepts_per_class,
            "interaction_mass": result.interaction_mass,
            "used_nodes": int(np.any(model.node_attributions_, axis=1).sum()),
            "parameters": getattr(model, "n_parameters_", None),
            "late_decrease": _late_decrease(model),
            "went_back": float(getattr(model, "went_back_", False)),
        }
        if information and len(sample) > NEIGHBOURS:
            nodes = np.asarray(model.transform(inputs(model, sample)), dtype=np.float64)
            measured |= {"hsic": metrics.hsic(Z, nodes), "cknna": metrics.cknna(Z, nodes, k=NEIGHBOURS)}
        measured |= {f"nec_{k}": value for k, value in result.nec_accuracy.items()} | {"anec": result.anec}
        over_scores = getattr(model, "score_attributions_", None)
        if over_scores is not None:
            measured |= _quality(over_scores, test.scores)
        if result.worst_group is not None:
            measured |= {"worst_group": result.worst_group[1]}
            measured |= {"reweighted_accuracy": _reweighted(model, train, test)}
        spurious = (original or table).spurious
        if spurious:
            measured |= {"follows": _follows(model, table, spurious, original)}
        return {name: None if value is None or math.isnan(value) else value for name, value in measured.items()}

    return measure


def recurrence(models: Sequence[ConceptModel]) -> list[Metrics]:
    """For each of several runs that were trained together, how often its nodes recur in the others, in the mean.

    Nodes without any weight do not count. With ``bipolar``, presence and absence of a concept are one.
    """
    nodes = [metrics.per_concept(one.node_attributions_, len(one.concepts_)) for one in models]
    if len(nodes) < 2 or len({shares.shape for shares in nodes}) > 1:  # some methods choose how many nodes they have
        return [{} for _ in models]
    used = [shares[~np.isnan(shares)] for shares in metrics.node_recurrence(nodes).recurrence]
    return [{"recurrence": float(shares.mean()) if len(shares) else None} for shares in used]


def measure_removal(model: ConceptModel, table: ConceptScores) -> Metrics:
    """What becomes of a model when the spurious concepts of a table are removed from it, as its method does it.

    It gives ``removed_accuracy``, ``removed_follows`` and, with groups, ``removed_worst_group``; nothing for a table
    without spurious concepts, a method that cannot remove them, or a network of which nothing would be left.
    """
    if not table.spurious or not hasattr(model, "remove_concepts"):
        return {}
    try:
        edited = model.remove_concepts(table.spurious)
    except NothingLeftError:
        return {}
    result = evaluate(edited, table, "test", concept_counts=())
    measured: Metrics = {
        "removed_accuracy": result.accuracy,
        "removed_follows": _follows(edited, table, table.spurious),
    }
    return measured if result.worst_group is None else measured | {"removed_worst_group": result.worst_group[1]}


def _follows(
    model: ConceptModel, table: ConceptScores, spurious: Sequence[str], original: ConceptScores | None = None
) -> float | None:
    """Whether the class scores follow the spurious concepts; not defined for a method without class scores."""
    if not (hasattr(model, "class_scores") or hasattr(model, "predict_proba")):
        return None
    return measure_following(model, table, spurious, original=original).best.value


def _late_decrease(model: ConceptModel) -> float | None:
    """How much the training loss still fell at the end; not defined without a history of it."""
    known = getattr(model, "late_decrease_", None)
    if known is not None:
        return float(known)
    history = getattr(model, "history_", None)
    losses = history.get("loss", ()) if isinstance(history, dict) else ()
    return metrics.late_decrease(losses) if len(losses) else None


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
