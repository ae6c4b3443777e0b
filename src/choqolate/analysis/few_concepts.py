"""Accuracy of a model whose classes may use a few concepts only, counted block by block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from choqolate import metrics
from choqolate._util.numbers import decimal
from choqolate.analysis.interval_text import share_text, too_few_text
from choqolate.data.rows import class_index, class_places
from choqolate.data.sampling import SAMPLE_BYTES, sample_mask
from choqolate.data.score_file import ScoreFile
from choqolate.data.scores import ConceptScores
from choqolate.estimators.table_inputs import as_inputs, select_inputs
from choqolate.estimators.table_training import was_split_for
from choqolate.explain.model_protocols import ConceptModel
from choqolate.metrics.effective_concepts import NEC_COUNTS, SparseClassifier, sparse_classifiers
from choqolate.metrics.intervals import TOO_FEW

_SHOWN = 2  # numbers of concepts with a row of their own
MOST_ROWS = 2_000  # training rows for the shares of the classes


class FewConcepts:
    """Hits of the classifiers that are left of a model if each class uses k concepts only.

    Args:
        model: with ``node_inputs``, the inputs of its nodes.
        classifiers: one for each k, see :func:`choqolate.metrics.sparse_classifier`.
    """

    def __init__(self, model: Any, classifiers: dict[int, SparseClassifier]) -> None:
        self.model, self.classifiers = model, classifiers
        self.hits = dict.fromkeys(classifiers, 0)
        self.n_rows = 0

    @classmethod
    def of(cls, model: ConceptModel, table: ConceptScores | ScoreFile, counts: Iterable[int] = NEC_COUNTS) -> Self:
        """The classifiers of a model, with the shares of the classes among the training rows of a table.

        There are none where the table has no training rows, where the model does not tell what its classes are made
        of or what the inputs of its nodes are, or where it has fewer concepts than the smallest count.
        """
        none = cls(model, {})
        counts = tuple(counts)
        if not counts or min(counts) > len(model.concepts_):
            return none
        if model.class_attributions_ is None or not hasattr(model, "node_inputs"):
            return none
        rows = _training_sample(model, table)
        if rows is None or rows.labels is None or len(rows) < len(model.classes_):
            return none
        if not set(rows.labels.tolist()) <= set(class_index(model.classes_)):
            return none
        W = model.class_attributions_ @ model.node_attributions_
        Z = model.node_inputs(as_inputs(model, select_inputs(model, rows)))
        return cls(model, sparse_classifiers(W, Z, class_places(rows.labels, model.classes_), counts))

    def add(self, X: Any, truth: Iterable[str]) -> None:
        """Count the hits of a block of rows, given as the model takes them."""
        if not self.classifiers:
            return
        Z, targets = self.model.node_inputs(X), class_places(truth, self.model.classes_)
        for k, one in self.classifiers.items():
            self.hits[k] += int((one.predict(Z) == targets).sum())
        self.n_rows += len(targets)

    @property
    def accuracies(self) -> dict[int, float]:
        """The accuracy for each k over the rows so far."""
        return {k: hits / self.n_rows for k, hits in self.hits.items()}


def few_concepts_text(accuracies: Mapping[int, float], rows: int) -> tuple[str, str]:
    """What ``nec_accuracy`` of an evaluation says, as a heading and numbers; both empty if there is nothing to tell.

    Args:
        accuracies: by number of concepts.
        rows: number of rows that they were measured on; the intervals, and so that of their mean, depend on it.

    >>> few_concepts_text({5: 0.5, 10: 0.7}, 480)
    ('accuracy with 5, 10 concepts per class', '0.500, 0.700; mean 0.600 (95% intervals: at most ± 0.045)')
    >>> few_concepts_text({5: 0.5, 10: 0.75}, 4)
    ('accuracy with 5, 10 concepts per class', 'too few to tell (4 images)')
    """
    if not accuracies:
        return "", ""
    heading = f"accuracy with {', '.join(map(str, accuracies))} concepts per class"
    every = [metrics.Proportion(round(share * rows), rows) for share in accuracies.values()]
    if every[0].too_few:
        return heading, too_few_text(rows)
    shares = ", ".join(decimal(share, 3) for share in accuracies.values())
    reach = max(max(one.value - one.interval[0], one.interval[1] - one.value) for one in every)
    return heading, f"{shares}; mean {decimal(metrics.anec(accuracies), 3)} (95% intervals: at most ± {reach:.3f})"


def few_concepts_rows(several: Sequence[tuple[Mapping[int, float], int]]) -> list[tuple[str, list[str]]]:
    """The same of several evaluations as rows of a table: the two smallest numbers of concepts, and the mean over all.

    Args:
        several: for each evaluation, the accuracies by number of concepts, and the number of rows.

    >>> for name, cells in few_concepts_rows([({5: 0.5, 10: 0.75, 15: 1.0}, 400), ({}, 400)]):
    ...     print(name, cells)
    accuracy with 5 concepts per class ['50.0% (45.1 to 54.9)', '–']
    accuracy with 10 concepts per class ['75.0% (70.5 to 79.0)', '–']
    mean accuracy with 5 to 15 concepts per class ['75.0%', '–']
    """
    known = [accuracies for accuracies, _ in several if accuracies]
    if not known:
        return []
    counts = list(known[0])
    rows = [
        (f"accuracy with {k} concepts per class", [_share(accuracies.get(k), rows) for accuracies, rows in several])
        for k in counts[:_SHOWN]
    ]
    mean = f"mean accuracy with {counts[0]} to {counts[-1]} concepts per class"
    return [*rows, (mean, [_mean(accuracies, n) for accuracies, n in several])]


def _share(share: float | None, rows: int) -> str:
    return decimal(None) if share is None else share_text(metrics.Proportion(round(share * rows), rows))


def _mean(accuracies: Mapping[int, float], rows: int) -> str:
    """The mean of shares of the same rows, without an interval: it is about as wide as those above it."""
    if not accuracies or rows < TOO_FEW:
        return decimal(None)
    return f"{decimal(100 * metrics.anec(accuracies), 1)}%"


def _training_sample(model: ConceptModel, table: ConceptScores | ScoreFile) -> ConceptScores | None:
    """At most 2,000 labelled training rows, the same ones of a table and of its file; ``None`` without any."""
    if not table.has_split and not was_split_for(model, table):
        return None
    split = table.with_split()
    if isinstance(split, ScoreFile):
        return split.part("train").labelled().sample(MOST_ROWS, keep_rare=False) if split.has_part("train") else None
    rows = np.flatnonzero((split.split == "train") & split.rows.labelled())
    if not len(rows):
        return None
    alike = np.zeros(len(rows), dtype=int)  # rare classes do not come first: it is the shares that matter
    return split.take(rows[sample_mask(rows, alike, MOST_ROWS, split.scores[0].nbytes, SAMPLE_BYTES)])
