"""Drift: whether two tables of scores, such as of last year and of today, differ in ways that matter to a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from choqolate._util.text import counted
from choqolate.analysis.row_doubts import warn_of_another_source
from choqolate.data.rows import class_index
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.estimators.predictions import novelty, used_concepts
from choqolate.estimators.table_inputs import select_inputs
from choqolate.estimators.table_training import n_sampled_rows
from choqolate.explain.model_protocols import check_choquet_model
from choqolate.metrics import Proportion, difference_interval
from choqolate.metrics.intervals import fisher_p_values

if TYPE_CHECKING:
    from choqolate.estimators.classifier import ChoqolateClassifier

FEWEST_ROWS = 30  # in each table; of fewer, differences say nothing
LEVEL = 0.05  # chance of at least one false alarm among all that is tested
KINDS = 4  # of tests: concepts, predicted classes, accuracy, images unlike training images
_BLOCK_VALUES = 1 << 22
_SHARES = ("first", "second", "accuracy_first", "accuracy_second")


class ConceptDrift(NamedTuple):
    """How the scores of one concept differ between two tables.

    Attributes:
        concept: its name.
        share: mean over the classes of its attribution in the model, through both layers.
        shift: mean of the second table minus that of the first, in units of the training range.
        statistic: two-sample Kolmogorov-Smirnov statistic, from 0 to 1.
        p_value: of the statistic, corrected for the number of concepts (Holm) and for the four kinds of tests.
        outside_first, outside_second: share of rows outside the training range.
    """

    concept: str
    share: float
    shift: float
    statistic: float
    p_value: float
    outside_first: float
    outside_second: float

    @property
    def beyond_chance(self) -> bool:
        """Whether the difference is significant at 5%, over all tests."""
        return self.p_value < LEVEL


class ClassDrift(NamedTuple):
    """How predictions of one class differ between two tables.

    Attributes:
        name: of the class.
        first, second: share of rows for which the class is predicted.
        interval: 95% interval of the second share minus the first, corrected for the number of classes.
        p_value: of Fisher's exact test, corrected for the number of classes (Holm) and for the four kinds of tests.
        accuracy_first, accuracy_second: share of the rows labeled with it that are correct; no rows without labels.
    """

    name: str
    first: Proportion
    second: Proportion
    interval: tuple[float, float]
    p_value: float
    accuracy_first: Proportion
    accuracy_second: Proportion

    @property
    def change(self) -> float:
        """The second share minus the first."""
        return self.second.value - self.first.value

    @property
    def beyond_chance(self) -> bool:
        """Whether the difference is significant at 5%, over all tests."""
        return self.p_value < LEVEL


@dataclass(frozen=True, repr=False)
class Drift:
    """Differences between two tables of scores, as a model sees them.

    Attributes:
        rows: number of rows of the first and of the second table.
        concepts: all concepts, sorted by statistic times share in the model, largest first.
        classes: all of them, in the model's order.
        accuracy: of the first and of the second table, over rows that are labeled with a class of the model.
        unlike: share of rows in each table that are unlike any training image; ``None`` if the model has no limits.
        trained_on: whether the model was trained on rows of the first table, and of the second. If so, accuracies and
            ``unlike`` differ anyway and are not judged.
    """

    rows: tuple[int, int]
    concepts: tuple[ConceptDrift, ...]
    classes: tuple[ClassDrift, ...]
    accuracy: tuple[Proportion, Proportion]
    unlike: tuple[Proportion, Proportion] | None
    trained_on: tuple[bool, bool] = (False, False)

    def __repr__(self) -> str:
        return f"Drift({self.rows[0]:,} and {counted(self.rows[1], 'row')}: {self.verdict})"

    @property
    def too_few(self) -> bool:
        """Whether a table has too few rows (under 30) to tell anything."""
        return min(self.rows) < FEWEST_ROWS

    @property
    def drifted(self) -> tuple[ConceptDrift, ...]:
        """Concepts whose scores differ beyond chance, in the order of ``concepts``."""
        return tuple(concept for concept in self.concepts if concept.beyond_chance)

    @property
    def verdict(self) -> str:
        """One sentence: what differs beyond chance, if anything."""
        if self.too_few:
            first, second = self.rows
            return f"Too few rows to tell: {first:,} and {second:,}. At least {FEWEST_ROWS} are needed in each table."
        found, classes = self.drifted, [one for one in self.classes if one.beyond_chance]
        said = []
        if found:
            share = sum(concept.share for concept in found)
            weight = f"{share:.0%} of the model" if share >= 0.005 else "the model does not use them"
            said.append(f"{len(found):,} of {counted(len(self.concepts), 'concept')} differ ({weight})")
        if classes:
            largest = max(classes, key=lambda one: (round(abs(one.change), 9), one.change))
            change = f"{largest.first.value:.0%} to {largest.second.value:.0%}"
            often = "more" if largest.change > 0 else "less"
            said.append(f"{largest.name!r} is predicted {often} often ({change})")
        fresh = not any(self.trained_on)
        if fresh and all(share.rows for share in self.accuracy) and _corrected_p(*self.accuracy) < LEVEL:
            said.append(f"accuracy goes from {self.accuracy[0].value:.0%} to {self.accuracy[1].value:.0%}")
        more = self.unlike is not None and self.unlike[1].value > self.unlike[0].value
        if fresh and self.unlike is not None and more and _corrected_p(*self.unlike) < LEVEL:
            said.append(f"more images are unlike the training images ({self.unlike[1].value:.0%})")
        return f"Drift beyond chance: {'; '.join(said)}." if said else "No drift beyond chance."

    def outside(self, concept: ConceptDrift) -> tuple[Proportion, Proportion]:
        """Share of the rows of each table outside the training range of a concept, with its interval."""
        first, second = (concept.outside_first, self.rows[0]), (concept.outside_second, self.rows[1])
        return Proportion(round(first[0] * first[1]), first[1]), Proportion(round(second[0] * second[1]), second[1])

    def as_dict(self) -> dict[str, Any]:
        """The numbers as JSON can hold them."""
        shares = {"accuracy": self.accuracy, "unlike_training": self.unlike}
        return {
            "rows": list(self.rows),
            "verdict": self.verdict,
            "trained_on": list(self.trained_on),
            "concepts": [
                one._asdict() | {"outside_intervals": [list(share.interval) for share in self.outside(one)]}
                for one in self.concepts
            ],
            "classes": [
                {
                    "name": one.name,
                    "interval": list(one.interval),
                    "p_value": one.p_value,
                    **{name: _share(getattr(one, name)) for name in _SHARES},
                }
                for one in self.classes
            ],
            **{name: None if pair is None else [_share(one) for one in pair] for name, pair in shares.items()},
        }


def compare_tables(model: ChoqolateClassifier, first: ConceptScores, second: ConceptScores) -> Drift:
    """Compare two tables of scores concept by concept and class by class, as a model sees them.

    Takes time and memory proportional to the size of the tables. Labels are not needed; with them, accuracies are
    compared too.

    Args:
        model: a fitted classifier.
        first, second: scores of all its concepts, such as those of the training images and of new ones.

    Raises:
        ChoqolateError: if a table is empty or lacks a concept.

    >>> from choqolate.estimators.classifier import ChoqolateClassifier
    >>> rng = np.random.default_rng(0)
    >>> table = ConceptScores(rng.random((200, 3)), ["sea", "oak", "crest"])
    >>> model = ChoqolateClassifier(n_nodes=2, epochs=5).fit(table, table.scores[:, 0] > 0.5)
    >>> later = ConceptScores(table.scores + [0.2, 0, 0], table.concepts)
    >>> [(one.concept, round(one.shift, 2), one.beyond_chance) for one in compare_tables(model, table, later).concepts]
    [('sea', 0.2, True), ('oak', 0.0, False), ('crest', 0.0, False)]
    """
    check_choquet_model(model, "to compare tables")
    tables = [_checked(model, table) for table in (first, second)]
    for table in (first, second):
        warn_of_another_source(model, table)
    seen = [_seen(model, table) for table in tables]
    return Drift(
        rows=(len(first), len(second)),
        concepts=_concept_drifts(model, *tables),
        classes=_class_drifts(model, seen[0], seen[1]),
        accuracy=(seen[0].accuracy(), seen[1].accuracy()),
        unlike=None if seen[0].unlike is None or seen[1].unlike is None else (seen[0].unlike, seen[1].unlike),
        trained_on=(n_sampled_rows(model, first) > 0, n_sampled_rows(model, second) > 0),
    )


def _checked(model: ChoqolateClassifier, table: ConceptScores) -> ConceptScores:
    if not len(table):
        raise ChoqolateError("Expected two tables with rows to compare, but one is empty.")
    model.raw_scores(table.take([0]))  # all concepts are there
    return select_inputs(model, table)


class _Seen(NamedTuple):
    """What a model makes of a table: predictions, labels as text, and how many rows are unlike training images."""

    predicted: np.ndarray
    labels: np.ndarray | None
    unlike: Proportion | None

    def share(self, name: str) -> Proportion:
        return Proportion(int((self.predicted == name).sum()), len(self.predicted))

    def accuracy(self, name: str | None = None) -> Proportion:
        if self.labels is None:
            return Proportion(0, 0)
        rows = np.array([label is not None and name in (None, label) for label in self.labels], dtype=bool)
        return Proportion(int((self.predicted[rows] == self.labels[rows]).sum()), int(rows.sum()))


def _seen(model: ChoqolateClassifier, table: ConceptScores) -> _Seen:
    used, step = used_concepts(model), max(1, _BLOCK_VALUES // len(table.concepts))
    predicted: list[str] = []
    unlike, known = 0, True
    for start in range(0, len(table), step):
        raw = model.raw_scores(table.take(slice(start, start + step)))
        scores = model.network_.class_scores(model.network_.as_inputs(model.scaling_(raw)))
        predicted += [str(label) for label in model.classes_[scores.argmax(axis=1)].tolist()]
        found = novelty(model, raw, used)
        known = found is not None
        unlike += 0 if found is None else int(found.unlike.sum())
    known_classes = set(map(str, model.classes_.tolist()))
    labels = None
    if table.labels is not None:  # a label that the model cannot predict says nothing about it
        labels = np.array([label if label in known_classes else None for label in table.labels.tolist()], dtype=object)
    return _Seen(np.array(predicted, dtype=object), labels, Proportion(unlike, len(table)) if known else None)


def _class_drifts(model: ChoqolateClassifier, first: _Seen, second: _Seen) -> tuple[ClassDrift, ...]:
    names = list(class_index(model.classes_))
    shares = [(first.share(name), second.share(name)) for name in names]
    p_values = np.minimum(KINDS * holm(np.array([_p_value(*pair) for pair in shares])), 1.0)
    confidence = 1 - LEVEL / len(names)
    return tuple(
        ClassDrift(
            name,
            *pair,
            interval=difference_interval(pair[1], pair[0], confidence),
            p_value=float(p),
            accuracy_first=first.accuracy(name),
            accuracy_second=second.accuracy(name),
        )
        for name, pair, p in zip(names, shares, p_values, strict=True)
    )


def _p_value(first: Proportion, second: Proportion) -> float:
    """Fisher's exact test of two shares, two-sided: twice the smaller tail."""
    one, other = (tuple(np.array([float(count)]) for count in side) for side in (first, second))
    tails = fisher_p_values(*one, *other)[0], fisher_p_values(*other, *one)[0]
    return float(min(1.0, 2 * min(tails)))


def _corrected_p(first: Proportion, second: Proportion) -> float:
    return min(1.0, KINDS * _p_value(first, second))


def _concept_drifts(
    model: ChoqolateClassifier, first: ConceptScores, second: ConceptScores
) -> tuple[ConceptDrift, ...]:
    names, shares = model.concepts_, model.concept_shares_
    columns: list[np.ndarray] = []
    step = max(1, _BLOCK_VALUES // (len(first) + len(second)))
    for start in range(0, len(names), step):
        part = slice(start, start + step)
        scaling = model.scaling_.take(part)
        a, b = (scaling.unclipped(table.scores[:, part].astype(np.float64)) for table in (first, second))
        outside = [((z < 0) | (z > 1)).mean(axis=0) for z in (a, b)]
        columns.append(np.stack([b.mean(axis=0) - a.mean(axis=0), ks_statistics(a, b), *outside]))
    shift, statistic, outside_first, outside_second = np.concatenate(columns, axis=1)
    p_values = np.minimum(KINDS * holm(ks_p_values(statistic, len(first), len(second))), 1.0)
    order = np.argsort(-statistic * shares, kind="stable")
    numbers = np.stack([shares, shift, statistic, p_values, outside_first, outside_second], axis=1)
    return tuple(ConceptDrift(names[j], *numbers[j].tolist()) for j in order)


def ks_statistics(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Two-sample Kolmogorov-Smirnov statistic of each column ``(M,)`` of ``(n, M)`` and ``(m, M)``.

    >>> ks_statistics(np.array([[0.0], [1.0]]), np.array([[1.0], [2.0]]))
    array([0.5])
    """
    both = np.concatenate([first, second])
    order = np.argsort(both, axis=0, kind="stable")
    steps = np.where(order < len(first), 1 / len(first), -1 / len(second))
    values = np.take_along_axis(both, order, axis=0)
    last = np.ones(values.shape, dtype=bool)  # of equal values: the distributions are compared after all of them
    last[:-1] = values[1:] > values[:-1]
    return np.asarray(np.where(last, np.abs(np.cumsum(steps, axis=0)), 0.0).max(axis=0))


def ks_p_values(statistics: np.ndarray, n_first: int, n_second: int) -> np.ndarray:
    """Asymptotic two-sided p-values of the statistics, as ``scipy.stats.ks_2samp`` computes them."""
    from scipy.stats import kstwo

    return np.asarray(kstwo.sf(statistics, max(1, round(n_first * n_second / (n_first + n_second)))))


def holm(p_values: np.ndarray) -> np.ndarray:
    """Apply Holm's correction, which keeps the chance of even one false alarm below the level.

    >>> holm(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    order = np.argsort(p_values, kind="stable")
    scaled = p_values[order] * np.arange(len(p_values), 0, -1)
    corrected = np.empty_like(p_values)
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return corrected


def _share(share: Proportion) -> dict[str, Any] | None:
    """A share with its interval; ``None`` of no rows."""
    if not share.rows:
        return None
    return {"value": share.value, "hits": share.hits, "rows": share.rows, "interval": list(share.interval)}
