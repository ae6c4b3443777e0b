"""Two models side by side: which nodes they share, and the images on which they disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from choqolate._util.text import counted, listed
from choqolate.analysis.evaluation import held_out
from choqolate.analysis.row_doubts import warn_of_another_source, warn_of_training_rows
from choqolate.data.rows import class_index, class_places
from choqolate.errors import ChoqolateError
from choqolate.estimators.table_inputs import inputs
from choqolate.explain.change import count_transitions
from choqolate.explain.model_protocols import check_choquet_model
from choqolate.metrics import PairedChange, Proportion, match_nodes, paired_change
from choqolate.metrics.recurrence import RECURS

if TYPE_CHECKING:
    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.classifier import ChoqolateClassifier

SMALLEST = 0.001  # change of a Shapley value that is listed


class NodeMatch(NamedTuple):
    """A node of the first model and its partner in the second; ``None`` on one side if there is no partner.

    Attributes:
        first, second: indices of the nodes.
        similarity: cosine of their Shapley values; 0 without a partner.
        changes: Shapley values in the second node minus those in the first, by concept, the largest change first.
    """

    first: int | None
    second: int | None
    similarity: float
    changes: tuple[tuple[str, float], ...]

    @property
    def same(self) -> bool:
        """Whether the nodes are considered the same: a cosine of at least 0.8."""
        return self.similarity >= RECURS


@dataclass(frozen=True, repr=False)
class Disagreements:
    """Predictions of two models for the same rows, and the rows on which they disagree.

    Attributes:
        rows: the rows that were used.
        chosen: which rows these are, in words.
        first, second: the predicted class of each row, by name.
        where: indices of the rows on which they disagree, sorted by the sum of both margins, largest first.
        right: share of the labeled rows that each model predicts correctly; ``None`` without labels.
        change: how many rows only the second model, and only the first, predicts correctly; ``None`` without labels.
        groups: the same for each group; empty without labels or groups.
    """

    rows: ConceptScores
    chosen: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    where: tuple[int, ...]
    right: tuple[Proportion, Proportion] | None
    change: PairedChange | None
    groups: dict[str, PairedChange]

    def __repr__(self) -> str:
        return f"Disagreements({len(self.where):,} of {counted(len(self.rows), 'row')})"

    @property
    def agreement(self) -> Proportion:
        """Share of the rows on which both models predict the same class."""
        return Proportion(len(self.rows) - len(self.where), len(self.rows))

    @property
    def transitions(self) -> dict[tuple[object, object], int]:
        """Number of rows for each pair of differing predictions (first, second), most frequent first."""
        return count_transitions(zip(self.first, self.second, strict=True))


@dataclass(frozen=True, repr=False)
class ModelDifference:
    """Two models side by side.

    Attributes:
        first, second: the models.
        matches: their nodes, paired one to one; those without a partner come last.
        only_first, only_second: concepts that only one of the models knows.
        disagreements: on the rows of a table; ``None`` without one.
    """

    first: ChoqolateClassifier
    second: ChoqolateClassifier
    matches: tuple[NodeMatch, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    disagreements: Disagreements | None

    def __repr__(self) -> str:
        same = sum(match.same for match in self.matches)
        on_rows = "" if self.disagreements is None else f", {self.disagreements!r}"
        return f"ModelDifference({same} of {counted(len(self.matches), 'node')} the same{on_rows})"


def compare_models(
    first: ChoqolateClassifier, second: ChoqolateClassifier, table: ConceptScores | None = None
) -> ModelDifference:
    """Compare two models, node by node and image by image.

    Nodes are paired one to one so that the sum of the cosines of their Shapley values, concept by concept, is the
    largest. Versions of one model, such as before and after an edit, keep their nodes; models of one layer are compared
    class by class.

    Args:
        first, second: fitted classifiers with the same classes. Their concepts may differ.
        table: scores for the concepts of both, to predict on: its held-out rows if it has labels, else all rows.

    Raises:
        ChoqolateError: if the classes differ, or the table lacks concepts.

    >>> from sklearn.datasets import load_wine
    >>> from choqolate import ChoqolateClassifier
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = ChoqolateClassifier(n_nodes=4, epochs=20).fit(X, y)
    >>> compare_models(model, model)
    ModelDifference(4 of 4 nodes the same)
    """
    for model in (first, second):
        check_choquet_model(model, "to compare models")
    classes = [list(class_index(model.classes_)) for model in (first, second)]
    if set(classes[0]) != set(classes[1]):
        differing = sorted(set(classes[0]) ^ set(classes[1]))
        raise ChoqolateError(
            f"Expected two models of the same classes, but only one of them knows {listed(differing)}. Train both on "
            "the same labels."
        )
    names = list(dict.fromkeys([*first.concepts_, *second.concepts_]))
    shares = [_attributions(model, names) for model in (first, second)]
    return ModelDifference(
        first=first,
        second=second,
        matches=tuple(_matches(shares[0], shares[1], names, _known_partners(first, second, classes))),
        only_first=_only(first, second),
        only_second=_only(second, first),
        disagreements=None if table is None else _disagreements(first, second, table),
    )


def _only(one: ChoqolateClassifier, other: ChoqolateClassifier) -> tuple[str, ...]:
    known = set(other.concepts_)
    return tuple(name for name in one.concepts_ if name not in known)


def _attributions(model: ChoqolateClassifier, names: list[str]) -> np.ndarray:
    """Shapley values of concepts by these names ``(N, K)``; 0 for those that the model does not know."""
    place = {name: k for k, name in enumerate(names)}
    shares = np.zeros((len(model.concept_attributions_), len(names)))
    shares[:, [place[name] for name in model.concepts_]] = model.concept_attributions_
    return shares


def _known_partners(
    first: ChoqolateClassifier, second: ChoqolateClassifier, classes: list[list[str]]
) -> list[int] | None:
    """The partner of each node of the first model where it need not be looked for.

    Versions of one trained model have the same nodes; where the nodes are the classes, these have names.
    """
    if first.one_layer_ and second.one_layer_:
        return [classes[1].index(name) for name in classes[0]]
    same = first.network_.identity == second.network_.identity
    return list(range(first.network_.n_nodes)) if same else None


def _matches(one: np.ndarray, other: np.ndarray, names: list[str], partners: list[int] | None) -> list[NodeMatch]:
    if partners is None:
        rows, columns, cosines = match_nodes(one, other)
    else:
        rows, columns = np.arange(len(one)), np.array(partners)
        cosines = np.array([match_nodes(one[[r]], other[[c]])[2][0] for r, c in zip(rows, columns, strict=True)])
    found = [
        NodeMatch(int(r), int(c), float(cosine), _changes(other[c] - one[r], names))
        for r, c, cosine in zip(rows, columns, cosines, strict=True)
    ]
    alone = [NodeMatch(r, None, 0.0, _changes(-one[r], names)) for r in range(len(one)) if r not in set(rows)]
    new = [NodeMatch(None, c, 0.0, _changes(other[c], names)) for c in range(len(other)) if c not in set(columns)]
    return [*found, *alone, *new]


def _changes(difference: np.ndarray, names: list[str], most: int = 10) -> tuple[tuple[str, float], ...]:
    order = np.argsort(-np.abs(difference), kind="stable")[:most]
    return tuple((names[k], float(difference[k])) for k in order if abs(difference[k]) >= SMALLEST)


def _disagreements(first: ChoqolateClassifier, second: ChoqolateClassifier, table: ConceptScores) -> Disagreements:
    if not len(table):
        raise ChoqolateError("Expected rows to compare the models on, but the table is empty.")
    labelled = table.labels is not None
    rows, chosen = held_out(second, table) if labelled else (table, "all rows")
    for model in (first, second):
        warn_of_another_source(model, rows)
        if labelled:
            warn_of_training_rows(model, rows)
    predicted, margins = zip(*(_predict(model, rows) for model in (first, second)), strict=True)
    differ = np.flatnonzero(predicted[0] != predicted[1])
    right = change = None
    groups: dict[str, PairedChange] = {}
    if labelled:
        class_places(rows.labels, second.classes_)  # all labels must be known
        hits = [names == rows.labels for names in predicted]
        right = tuple(Proportion(int(one.sum()), len(rows)) for one in hits)
        change = paired_change(*hits)
        known = [] if rows.groups is None else rows.groups.tolist()
        for group in sorted({one for one in known if one is not None}):
            groups[group] = paired_change(*(one[rows.groups == group] for one in hits))
    return Disagreements(
        rows=rows,
        chosen=chosen,
        first=tuple(predicted[0].tolist()),
        second=tuple(predicted[1].tolist()),
        where=tuple(differ[np.argsort(-(margins[0] + margins[1])[differ], kind="stable")].tolist()),
        right=right,  # type: ignore[arg-type]
        change=change,
        groups=groups,
    )


def _predict(model: ChoqolateClassifier, rows: ConceptScores) -> tuple[np.ndarray, np.ndarray]:
    """The predicted class of each row by name, and the margin of its score over the next, in units of all margins."""
    scores = model.class_scores(inputs(model, rows))
    names = np.array(list(class_index(model.classes_)), dtype=object)[scores.argmax(1)]
    ordered = np.sort(scores, axis=1)
    margins = ordered[:, -1] - ordered[:, -2]
    return names, margins / (margins.mean() or 1.0) if len(margins) else margins
