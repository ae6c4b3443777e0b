"""The trade-off between accuracy and sparsity: all settings of a search beside sparse logistic regression."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from choqolate import metrics
from choqolate._util.checks import check_choice
from choqolate._util.progress import item_bar
from choqolate._util.text import counted
from choqolate.baselines.softmax_regression import LOOSE_TOLERANCE, LinearWeights, SoftmaxRegression
from choqolate.data.score_file import ScoreFile
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.estimators.search import measure_paper
from choqolate.estimators.search import search as run_search
from choqolate.estimators.search_record import AUTO, SEARCHED, Search, Trial
from choqolate.estimators.side_by_side import TrainingSet
from choqolate.estimators.table_training import prepare_scores
from choqolate.estimators.validation import Validation, hold_out

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

OURS, PAPER, L1 = "CHOQOLATE", "the paper's settings", "l1 logistic regression"
REFITTED, CEILING = "l1 logistic regression, refitted", "logistic regression"
LEAST_PENALTIES, MOST_PENALTIES = 8, 14
_GAIN = 0.005  # of accuracy that two penalties must bring, or the path ends
REFIT_L2 = (3e-4, 1e-4, 1e-5, 1e-6)  # next to nothing; the most accurate counts
CEILING_L2 = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6, 1e-7)
BETTER = {"concepts_per_class": -1, "gini": 1, "coherence": 1, "n_parameters": -1}  # which way is better


@dataclass(frozen=True)
class RivalPoint:
    """A sparse logistic regression at one penalty, on the validation rows of the search.

    Attributes:
        name: of the method.
        penalty: λ of the l1 penalty, for a loss that is a mean over rows.
        l2: strength of the l2 penalty of a refitted one; else ``None``.
        accuracy: as in :class:`~choqolate.estimators.search_record.Trial`.
        gini: Attribution Gini of the absolute weights, mean over the classes that have weights; ``None`` if none has.
        concepts_per_class: concepts that carry 95% of the absolute weights of a class, mean over the classes.
        nonzeros_per_class: weights other than zero, mean over the classes.
    """

    name: str
    penalty: float
    l2: float | None
    accuracy: float
    gini: float | None
    concepts_per_class: float
    nonzeros_per_class: float


@dataclass(frozen=True, repr=False)
class TradeOff:
    """Accuracy against sparsity, all measured on the same validation rows.

    Attributes:
        search: the settings of CHOQOLATE, see :class:`~choqolate.estimators.search_record.Search`.
        rivals: l1-penalized logistic regression along its path, sparse to dense.
        refitted: the same, refitted with next to no penalty on the concepts that each class selected.
        ceiling: accuracy of logistic regression on all concepts, with the best of some l2 penalties.
    """

    search: Search
    rivals: tuple[RivalPoint, ...]
    refitted: tuple[RivalPoint, ...]
    ceiling: float

    def __repr__(self) -> str:
        counts = f"{counted(len(self.search.trials), 'setting')}, {counted(len(self.rivals), 'penalty', 'penalties')}"
        return f"TradeOff({counts}; chosen {self.search.choice.accuracy:.3f}, ceiling {self.ceiling:.3f})"

    @property
    def standard_error(self) -> float:
        """Standard error of CHOQOLATE's best accuracy."""
        return self.search.standard_error

    @property
    def frame(self) -> pd.DataFrame:
        """One row per setting, penalty and reference, with a column ``method``."""
        import pandas as pd

        front = self.front()
        rows: list[dict[str, Any]] = [
            {"method": OURS, **asdict(trial), "chosen": trial is self.search.choice, "on_front": trial in front}
            for trial in self.search.trials
        ]
        if self.search.paper is not None:
            rows.append({"method": PAPER, **asdict(self.search.paper)})
        for point in (*self.rivals, *self.refitted):
            said = asdict(point)
            rows.append({"method": said.pop("name"), **said})
        rows.append({"method": CEILING, "accuracy": self.ceiling})
        frame = pd.DataFrame(rows)
        for name in ("chosen", "on_front"):
            frame[name] = [value is True for value in frame[name]]
        return frame

    def front(self, x: str = "concepts_per_class") -> tuple[Trial, ...]:
        """The settings of CHOQOLATE that no other one beats in accuracy and in ``x`` at once, the sparsest first.

        Args:
            x: ``"concepts_per_class"`` or ``"n_parameters"`` (fewer is better), ``"gini"`` or ``"coherence"`` (more is
                better). Settings without a value are left out.
        """
        check_choice("x", x, tuple(BETTER))
        known = [trial for trial in self.search.trials if getattr(trial, x) is not None]
        values = np.array([(BETTER[x] * getattr(trial, x), trial.accuracy) for trial in known]).reshape(-1, 2)
        beaten = [bool(((values >= own).all(axis=1) & (values > own).any(axis=1)).any()) for own in values]
        left = [trial for trial, worse in zip(known, beaten, strict=True) if not worse]
        return tuple(sorted(left, key=lambda trial: (-BETTER[x] * getattr(trial, x), trial.accuracy)))

    def rival_accuracy(self, concepts: float, *, refitted: bool = False) -> float:
        """Accuracy of the rival with at most so many concepts per class, between two penalties on the line.

        Args:
            concepts: number of concepts per class.
            refitted: take the refitted one.

        Returns:
            The accuracy; NaN if its sparsest point has more concepts.
        """
        counts, reached = _running_best(self.refitted if refitted else self.rivals)
        return float(np.interp(concepts, counts, reached, left=math.nan))

    def rival_concepts(self, accuracy: float, *, refitted: bool = False) -> float:
        """Concepts per class that the rival needs for an accuracy; NaN if no penalty reaches it."""
        counts, reached = _running_best(self.refitted if refitted else self.rivals)
        first = int(np.searchsorted(reached, accuracy))  # the first point that is accurate enough
        if first == len(reached):
            return math.nan
        between = slice(max(first - 1, 0), first + 1)
        return float(np.interp(accuracy, reached[between], counts[between]))

    def lines(self) -> list[str]:
        """What the chosen setting reaches and what others reach, in sentences."""
        choice = self.search.choice
        count = f"{choice.concepts_per_class:.1f} concepts per class"
        kind = "mean accuracy over groups" if self.search.by_group else "accuracy"
        said = [
            f"The chosen setting ({choice}) reaches {kind} {choice.accuracy:.3f} (standard error "
            f"{self.standard_error:.3f}, {counted(self.search.rows, 'validation row')}) with {count}."
        ]
        sparse, refitted = (self.rival_accuracy(choice.concepts_per_class, refitted=again) for again in (False, True))
        if not math.isnan(sparse) and not math.isnan(refitted):
            said.append(f"With as many, {L1} reaches {sparse:.3f}, and {refitted:.3f} when it is refitted.")
        needed = self.rival_concepts(choice.accuracy, refitted=True)
        said.append(
            f"No penalty makes the refitted {L1} as accurate."
            if math.isnan(needed)
            else f"To be as accurate, the refitted {L1} needs {needed:.1f} concepts per class."
        )
        return [*said, f"Logistic regression on all concepts, which is not sparse, reaches {self.ceiling:.3f}."]

    def plot(self, axes: Sequence[Axes] | Axes | None = None, **options: Any) -> list[Axes]:
        """Draw accuracy against four kinds of sparsity, see :func:`choqolate.plots.trade_off`."""
        from choqolate.plots import trade_off

        return trade_off(self, axes, **options)


def trade_off(
    table: ConceptScores | ScoreFile | str | PathLike[str],
    *,
    leave_out: Iterable[str] = (),
    search: Search | None = None,
    **parameters: Any,
) -> TradeOff:
    """Measure how accurate a model can be for how few concepts, and how sparse logistic regression compares.

    The settings that the search behind ``"auto"`` tries, l1-penalized logistic regression on the same scaled scores
    along its path, the same refitted, and logistic regression on all concepts are all trained on the same training rows
    and measured on the same validation rows. Where groups are known, accuracy is the mean over them.

    Args:
        table: scores with labels, or the file of them; its training rows are used, or the sample of them that
            :func:`~choqolate.fit_scores` searches on.
        leave_out: concepts to do without.
        search: a finished search on the same rows, such as ``search_`` of a model; by default it is run.
        **parameters: of :class:`~choqolate.ChoqolateClassifier`; ``n_nodes``, ``temperature`` and ``interactions`` are
            searched unless they are given.

    Raises:
        ChoqolateError: if nothing is left to search, or a finished search was run on other rows.

    >>> rng = np.random.default_rng(0)
    >>> labels = np.array(["cat", "dog"] * 100)
    >>> scores = rng.random((200, 3)) + (labels == "cat")[:, None] * [1, -1, 0]
    >>> table = ConceptScores(scores, ["whiskers", "collar", "grass"], labels=labels)
    >>> result = trade_off(table, n_nodes=None, interactions="none", epochs=10)
    >>> len(result.rivals) >= 8, result.ceiling > 0.9
    (True, True)
    """
    parameters = dict.fromkeys(SEARCHED, AUTO) | parameters
    classifier, data, seed = prepare_scores(table, leave_out=leave_out, **parameters)
    validation = hold_out(data)
    if search is None:
        if not classifier.is_searching:
            raise ChoqolateError(
                "Expected settings to search, but n_nodes, temperature and interactions are all given. Leave one out."
            )
        search = run_search(classifier, data, seed)
    else:
        here = int(validation.seen.sum()), len(data.concepts), validation.groups is not None
        if (search.rows, search.n_concepts, search.by_group) != here:
            raise ChoqolateError(
                f"Expected a search on the {here[0]:,} validation rows and {here[1]:,} concepts of this table but got "
                f"one on {search.rows:,} rows and {search.n_concepts:,} concepts. Leave out search to run it again."
            )
    search = replace(search, paper=measure_paper(classifier, data, validation, seed))  # on all of these rows
    with threadpool_limits(1):  # the products are small: threads would wait for each other most of the time
        rivals, refitted, ceiling = _rivals(data, validation, verbose=classifier.verbose)
    return TradeOff(search=search, rivals=rivals, refitted=refitted, ceiling=ceiling)


def _rivals(
    data: TrainingSet, validation: Validation, *, verbose: bool
) -> tuple[tuple[RivalPoint, ...], tuple[RivalPoint, ...], float]:
    """The path, the refitted path, and the accuracy on all concepts."""

    def regression(rows: Any) -> SoftmaxRegression:
        return SoftmaxRegression(data.scaled[rows], data.targets[rows], len(data.classes), data.weights[rows])

    folds = [regression(train) for train, _ in validation.splits()]
    penalties = regression(slice(None)).penalty_path(MOST_PENALTIES)
    rivals: list[RivalPoint] = []
    refitted: list[RivalPoint] = []
    with item_bar(len(penalties), "logistic regression, penalties", enabled=verbose) as advance:
        for penalty, *fits in zip(penalties.tolist(), *(fold.l1_path(penalties) for fold in folds), strict=True):
            rivals.append(RivalPoint(L1, penalty, None, **_measure(fits, data, validation)))
            again = [
                fold.l2_fits(REFIT_L2, fitted.W != 0, LOOSE_TOLERANCE) for fold, fitted in zip(folds, fits, strict=True)
            ]
            tried = zip(REFIT_L2, *again, strict=True)
            points = [RivalPoint(REFITTED, penalty, l2, **_measure(each, data, validation)) for l2, *each in tried]
            refitted.append(max(points, key=lambda point: point.accuracy))
            advance(1)
            if len(rivals) >= LEAST_PENALTIES and not (_still_gains(rivals) or _still_gains(refitted)):
                break
    dense = zip(*(fold.l2_fits(CEILING_L2) for fold in folds), strict=True)
    ceiling = max(_measure(fits, data, validation)["accuracy"] for fits in dense)
    return tuple(rivals), tuple(refitted), ceiling


def _still_gains(path: Sequence[RivalPoint]) -> bool:
    """Whether the last two penalties brought a better accuracy, by more than chance."""
    accuracies = [point.accuracy for point in path]
    return max(accuracies[-2:]) > max(accuracies[:-2]) + _GAIN


def _measure(fits: Sequence[LinearWeights], data: TrainingSet, validation: Validation) -> dict[str, Any]:
    """What a linear classifier that was trained once per fold reaches on the held-out rows; sparsity is a mean."""
    correct = np.zeros(len(data.targets), dtype=bool)
    for fitted, (_, rows) in zip(fits, validation.splits(), strict=True):
        correct[rows] = fitted.predict(data.scaled[rows]) == data.targets[rows]
    ginis = [metrics.mean_over_nodes(metrics.attribution_gini(fitted.W)).mean for fitted in fits]
    gini = metrics.mean_over_nodes(ginis).mean
    return {
        "accuracy": validation.accuracy(correct),
        "gini": None if math.isnan(gini) else gini,
        "concepts_per_class": float(np.mean([metrics.concept_count(fitted.W).mean() for fitted in fits])),
        "nonzeros_per_class": float(np.mean([(fitted.W != 0).sum(axis=1).mean() for fitted in fits])),
    }


def _running_best(points: Sequence[RivalPoint]) -> tuple[np.ndarray, np.ndarray]:
    """Concepts per class in ascending order, and the best accuracy with at most so many."""
    order = sorted(points, key=lambda point: (point.concepts_per_class, -point.accuracy))
    counts = np.array([point.concepts_per_class for point in order])
    return counts, np.maximum.accumulate([point.accuracy for point in order])
