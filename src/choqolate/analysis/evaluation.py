"""Measuring models on tables of concept scores: which rows are for it, and plain numbers out."""

from __future__ import annotations

import copy
import math
import warnings
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from choqolate import metrics
from choqolate._util.checks import check_choice
from choqolate.analysis.comparison import gap_note
from choqolate.analysis.evaluation_record import Evaluation
from choqolate.analysis.row_doubts import warn_of_another_source, warn_of_training_rows
from choqolate.data.rows import class_index, class_places
from choqolate.data.scores import ConceptScores
from choqolate.data.splits import SPLITS
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.estimators.calibration import uncalibrated
from choqolate.estimators.table_inputs import inputs
from choqolate.estimators.table_training import was_split_for
from choqolate.explain.model_protocols import ConceptModel
from choqolate.network.fitted import FittedNetwork
from choqolate.network.removal import absolute

if TYPE_CHECKING:
    pass


def held_out(model: ConceptModel, table: ConceptScores) -> tuple[ConceptScores, str]:
    """The labelled rows to evaluate a model on, and how they were chosen, in words.

    The test rows of the table, else its val rows; without a split the test rows of the split that was made for
    training, if it is the same table; else all.
    """
    if table.split is None:
        if was_split_for(model, table):
            return table.with_split().part("test"), "test rows of the split that was made for training"
        return table.labelled(), "all labelled rows, as the table has no split"
    labelled = table.labelled()
    for split in ("test", "val"):
        if labelled.rows.has_part(split):
            return labelled.part(split), f"{split} rows of the table"
    return labelled, "all labelled rows, as the table has none for test or val"


def has_held_out(table: ConceptScores) -> bool:
    """Whether a table, split if it has no split, has labelled rows that are not for training."""
    rows = table.with_split().labelled().rows
    return rows.has_part("test") or rows.has_part("val")


def spurious_concepts(model: ConceptModel, *tables: ConceptScores) -> list[str]:
    """Those of the model's concepts that a table or the model's provenance marks as spurious, in the model's order."""
    marked = {name for table in tables for name in table.spurious}
    marked.update(model.provenance_.vocabulary.spurious or ())
    return [name for name in model.concepts_ if name in marked]


def evaluate(model: ConceptModel, table: ConceptScores, split: str | None = None) -> Evaluation:
    """Measure a model on a table of scores; columns are matched by name.

    Args:
        model: a fitted classifier, ours or a baseline.
        table: scores with labels.
        split: ``"train"``, ``"val"``, ``"test"`` or ``"all"``; by default as :func:`held_out` chooses.

    Raises:
        ChoqolateError: if the table lacks concepts or labels, or has labels that the model does not know.
    """
    check_is_fitted(model)
    rows, chosen = held_out(model, table) if split is None else _part(model, table, split)
    X = inputs(model, rows)
    warn_of_another_source(model, rows)
    if split is None:
        warn_of_training_rows(model, rows)
    assert rows.labels is not None
    truth, names = rows.labels.tolist(), list(class_index(model.classes_))
    class_places(truth, model.classes_)  # all labels must be known
    scores = _class_scores(model, X)
    labels = model.predict(X) if scores is None else model.classes_[scores.argmax(axis=1)]
    predicted = [str(label) for label in labels.tolist()]
    pairs = Counter(zip(truth, predicted, strict=True))
    counts = Counter(truth)
    class_rows = {name: counts[name] for name in names if counts[name]}
    group_accuracy, group_rows = _by_group(rows.groups, truth, predicted)
    shares = metrics.per_concept(model.node_attributions_, len(model.concepts_))
    worst = min(group_accuracy, key=lambda group: group_accuracy[group], default=None)
    return Evaluation(
        rows=len(rows),
        chosen=chosen,
        accuracy=metrics.accuracy(truth, predicted),
        class_accuracy={name: pairs[name, name] / count for name, count in class_rows.items()},
        class_rows=class_rows,
        group_accuracy=group_accuracy,
        group_rows=group_rows,
        worst_group=None if worst is None else (worst, group_accuracy[worst]),
        attribution_gini=metrics.mean_over_nodes(metrics.attribution_gini(shares)).mean,
        node_coherence=_coherence(shares, np.asarray(X)),
        concepts_per_class=_concepts_per_class(model, shares),
        confusion={name: {other: pairs[name, other] for other in names if pairs[name, other]} for name in class_rows},
        majority_class=_majority_class(model, names, counts),
        hits=np.array(truth) == np.array(predicted),
        row_labels=rows.labels,
        row_groups=rows.groups,
        interaction_mass=_interaction_mass(model),
        calibration_error=_calibration_error(model, X, truth, scores),
        calibration_error_trained=_calibration_error(uncalibrated(model), X, truth, scores),
    )


def evaluate_parts(model: ConceptModel, table: ConceptScores) -> dict[str, Evaluation]:
    """Measure a model on the table that it was trained on: on the rows for training, and on those held out.

    If there are no held-out rows, or the model cannot be measured on them, a warning says so; another one, if the two
    accuracies are far apart.

    Args:
        model: a fitted classifier, ours or a baseline.
        table: scores with labels.

    Returns:
        Evaluations by name: ``"training"`` and, where possible, ``"held out"``.

    >>> from choqolate.estimators.table_training import fit_scores
    >>> scores = np.random.default_rng(0).random((40, 3))
    >>> table = ConceptScores(scores, ["sea", "oak", "crest"], labels=["duck", "owl"] * 20)
    >>> results = evaluate_parts(fit_scores(table, epochs=5), table)
    >>> {name: result.rows for name, result in results.items()}
    {'training': 28, 'held out': 12}
    """
    results = {"training": evaluate(model, table, "train")}
    problem: object = "all rows with a label are for training"
    if has_held_out(table):
        try:
            results["held out"] = evaluate(model, table)
        except ChoqolateError as error:  # the model is fine, what to measure it on is not
            problem = error
    if "held out" not in results:
        warnings.warn(f"not evaluated on held-out rows: {problem}", ChoqolateWarning, stacklevel=2)
    elif (gap := gap_note(results["training"], results["held out"])) is not None:
        warnings.warn(gap, ChoqolateWarning, stacklevel=2)
    return results


def note_numbers(model: Any, results: Mapping[str, Evaluation]) -> Any:
    """A copy of a classifier that knows what was measured on held-out rows, for its card; see ``measured_``.

    Args:
        model: a fitted classifier.
        results: of :func:`evaluate_parts`; without held-out rows, nothing is noted.
    """
    noted = copy.copy(model)
    noted.measured_ = results["held out"].as_dict() if "held out" in results else None
    return noted


def marked_concepts(model: ConceptModel, *tables: ConceptScores) -> list[str]:
    """List the concepts of a model that it or a table marks as spurious, as :func:`spurious_concepts` does.

    Raises:
        ChoqolateError: if there are none.
    """
    marked = spurious_concepts(model, *tables)
    if not marked:
        raise ChoqolateError(
            "expected concepts marked as spurious, neither the model nor the scores given mark any: name them"
        )
    return marked


def _part(model: ConceptModel, table: ConceptScores, split: str) -> tuple[ConceptScores, str]:
    check_choice("split", split, (*SPLITS, "all"))
    if split == "all":
        return table.labelled(), "all labelled rows"
    if table.split is not None:
        return table.part(split).labelled(), f"{split} rows of the table"
    if not was_split_for(model, table):
        raise ChoqolateError(
            f"expected a table with a split to take the {split} rows of, this one has none and is not the one that the "
            "model was trained on: take all its rows (all)"
        )
    return table.with_split().part(split), f"{split} rows of the split that was made for training"


def _by_group(
    groups: np.ndarray | None, truth: list[str], predicted: list[str]
) -> tuple[dict[str, float], dict[str, int]]:
    if groups is None:
        return {}, {}
    rows = [row for row in zip(truth, predicted, groups.tolist(), strict=True) if row[2] is not None]
    sizes = Counter(group for _, _, group in rows)
    return metrics.group_accuracies(*zip(*rows, strict=True)), {group: sizes[group] for group in sorted(sizes)}


def _majority_class(model: ConceptModel, names: list[str], counts: Counter[str]) -> str:
    """The most frequent class in training; baselines do not keep the shares of their labels."""
    shares = getattr(model, "label_shares_", None)
    return max(names, key=counts.__getitem__) if shares is None else names[int(np.argmax(shares))]


def _concepts_per_class(model: ConceptModel, shares: np.ndarray) -> float:
    if model.class_attributions_ is None:  # a method of one's own need not say what its classes are made of
        return math.nan
    return float(metrics.concept_count(model.class_attributions_ @ shares).mean())


def _interaction_mass(model: Any) -> float:
    network: FittedNetwork | None = getattr(model, "network_", None)
    return math.nan if network is None else float(absolute(network.nodes.capacity).interaction_mass().mean())


def _class_scores(model: Any, X: Any) -> np.ndarray | None:
    """Class scores ``(n, C)`` of our own classifiers, from which all else follows; ``None`` for other models."""
    return model.class_scores(X) if hasattr(model, "probability_temperature_") else None


def _calibration_error(model: Any, X: Any, truth: list[str], scores: np.ndarray | None) -> float:
    if not hasattr(model, "predict_proba"):
        return math.nan
    probabilities = (
        model.predict_proba(X) if scores is None else softmax(scores / model.probability_temperature_, axis=1)
    )
    return metrics.expected_calibration_error(truth, probabilities, list(class_index(model.classes_)))


def _coherence(shares: np.ndarray, scores: np.ndarray) -> float:
    if len(scores) < 2:
        return math.nan
    return metrics.mean_over_nodes(metrics.node_coherence_on(shares, scores)).mean
