"""Measuring models on tables of concept scores: which rows are for it, and plain numbers out."""

from __future__ import annotations

import copy
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from choqolate import metrics
from choqolate._util.checks import check_choice
from choqolate.analysis.comparison import gap_note
from choqolate.analysis.evaluation_record import Evaluation
from choqolate.analysis.few_concepts import FewConcepts
from choqolate.analysis.row_doubts import warn_of_another_source, warn_of_training_rows
from choqolate.analysis.row_outcomes import measure_rows
from choqolate.data.rows import class_index
from choqolate.data.score_file import ScoreFile, Table
from choqolate.data.scores import ConceptScores
from choqolate.data.splits import SPLITS
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.estimators.table_inputs import select_inputs
from choqolate.estimators.table_training import was_split_for
from choqolate.explain.model_protocols import ConceptModel
from choqolate.metrics.effective_concepts import NEC_COUNTS
from choqolate.network.fitted import FittedNetwork
from choqolate.network.removal import absolute


def held_out(model: ConceptModel, table: Table) -> tuple[Table, str]:
    """The labelled rows to evaluate a model on, and how they were chosen, in words.

    The test rows of the table, else its val rows; without a split the test rows of the split that was made for
    training, if it is the same table; else all.
    """
    if not table.has_split:
        if was_split_for(model, table):
            return table.with_split().part("test"), "test rows of the split that was made for training"
        return table.labelled(), "all labelled rows, as the table has no split"
    labelled = table.labelled()
    for split in ("test", "val"):
        if labelled.has_part(split):
            return labelled.part(split), f"{split} rows of the table"
    return labelled, "all labelled rows, as the table has none for test or val"


def has_held_out(table: ConceptScores | ScoreFile) -> bool:
    """Whether a table, split if it has no split, has labelled rows that are not for training."""
    rows = table.with_split().labelled()
    return rows.has_part("test") or rows.has_part("val")


def spurious_concepts(model: ConceptModel, *tables: ConceptScores | ScoreFile) -> list[str]:
    """Those of the model's concepts that a table or the model's provenance marks as spurious, in the model's order."""
    marked = {name for table in tables for name in table.spurious}
    marked.update(model.provenance_.vocabulary.spurious or ())
    return [name for name in model.concepts_ if name in marked]


def evaluate(
    model: ConceptModel,
    table: ConceptScores | ScoreFile,
    split: str | None = None,
    *,
    concept_counts: Iterable[int] = NEC_COUNTS,
    verbose: bool = False,
) -> Evaluation:
    """Measure a model on a table of scores; columns are matched by name.

    Args:
        model: a fitted classifier, ours or a baseline.
        table: scores with labels; those of a :class:`~choqolate.data.score_file.ScoreFile` are read block by block, in
            three to five passes, and give the same numbers.
        split: ``"train"``, ``"val"``, ``"test"`` or ``"all"``; by default as :func:`held_out` chooses.
        concept_counts: numbers of concepts per class to measure the accuracy with, see
            :func:`choqolate.metrics.accuracy_at_nec`; with many classes this takes seconds. An empty list leaves it
            out.
        verbose: show progress on stderr for a file that is read block by block.

    Raises:
        ChoqolateError: if the table lacks concepts or labels, or has labels that the model does not know.
    """
    check_is_fitted(model)
    rows: ConceptScores | ScoreFile
    rows, chosen = _measured(model, table, split)  # type: ignore[type-var]
    warn_of_another_source(model, rows)
    if split is None:
        warn_of_training_rows(model, rows)
    few = FewConcepts.of(model, table, concept_counts)
    outcome = measure_rows(model, rows, few, verbose=verbose)
    names = list(class_index(model.classes_))
    class_rows = {name: outcome.class_rows[name] for name in names if outcome.class_rows[name]}
    group_accuracy = {group: outcome.group_hits[group] / size for group, size in sorted(outcome.group_rows.items())}
    shares = metrics.per_concept(model.node_attributions_, len(model.concepts_))
    worst = min(group_accuracy, key=lambda group: group_accuracy[group], default=None)
    pairs = outcome.pairs
    return Evaluation(
        rows=len(rows),
        chosen=chosen,
        accuracy=float(np.mean(outcome.hits)),
        class_accuracy={name: pairs[name, name] / count for name, count in class_rows.items()},
        class_rows=class_rows,
        group_accuracy=group_accuracy,
        group_rows={group: outcome.group_rows[group] for group in group_accuracy},
        worst_group=None if worst is None else (worst, group_accuracy[worst]),
        attribution_gini=metrics.mean_over_nodes(metrics.attribution_gini(shares)).mean,
        node_coherence=_coherence(shares, rows),
        concepts_per_class=_concepts_per_class(model, shares),
        confusion={name: {other: pairs[name, other] for other in names if pairs[name, other]} for name in class_rows},
        majority_class=_majority_class(model, names, outcome.class_rows),
        hits=outcome.hits,
        row_labels=outcome.labels,
        row_groups=outcome.groups,
        interaction_mass=_interaction_mass(model),
        calibration_error=outcome.calibration_error,
        calibration_error_trained=outcome.calibration_error_trained,
        calibration_chance=outcome.calibration_chance,
        calibration_chance_trained=outcome.calibration_chance_trained,
        nec_accuracy=few.accuracies,
        labels_from=table.provenance.labels_from,
    )


def evaluate_parts(
    model: ConceptModel, table: ConceptScores | ScoreFile, *, verbose: bool = False
) -> dict[str, Evaluation]:
    """Measure a model on the table that it was trained on: on the rows for training, and on those held out.

    If there are no held-out rows, or the model cannot be measured on them, a warning says so; another one, if the two
    accuracies are far apart.

    Args:
        model: a fitted classifier, ours or a baseline.
        table: scores with labels.
        verbose: as in :func:`evaluate`.

    Returns:
        Evaluations by name: ``"training"`` and, where possible, ``"held out"``.

    >>> from choqolate.estimators.table_training import fit_scores
    >>> scores = np.random.default_rng(0).random((40, 3))
    >>> table = ConceptScores(scores, ["sea", "oak", "crest"], labels=["duck", "owl"] * 20)
    >>> results = evaluate_parts(fit_scores(table, epochs=5), table)
    >>> {name: result.rows for name, result in results.items()}
    {'training': 28, 'held out': 12}
    """
    results = {"training": evaluate(model, table, "train", verbose=verbose)}
    problem: object = "all rows with a label are for training"
    if has_held_out(table):
        try:
            results["held out"] = evaluate(model, table, verbose=verbose)
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


def _measured(model: ConceptModel, table: Table, split: str | None) -> tuple[Table, str]:
    """The rows to measure a model on, with its concepts in its order, and how they were chosen."""
    rows, chosen = held_out(model, table) if split is None else _part(model, table, split)
    return select_inputs(model, rows), chosen


def _part(model: ConceptModel, table: Table, split: str) -> tuple[Table, str]:
    check_choice("split", split, (*SPLITS, "all"))
    if split == "all":
        return table.labelled(), "all labelled rows"
    if table.has_split:
        return table.part(split).labelled(), f"{split} rows of the table"
    if not was_split_for(model, table):
        raise ChoqolateError(
            f"expected a table with a split to take the {split} rows of, this one has none and is not the one that the "
            "model was trained on: take all its rows (all)"
        )
    return table.with_split().part(split), f"{split} rows of the split that was made for training"


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


def _coherence(shares: np.ndarray, rows: ConceptScores | ScoreFile) -> float:
    if len(rows) < 2:
        return math.nan
    if isinstance(rows, ScoreFile):
        coherence = metrics.node_coherence_of_blocks(shares, lambda: (scores for _, scores in rows.arrays()))
    else:
        coherence = metrics.node_coherence_on(shares, rows.scores)
    return metrics.mean_over_nodes(coherence).mean
