"""Choosing hyperparameters on validation rows, by the same rule for every method."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from choqolate import metrics
from choqolate._util.checks import check_choice
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.estimators.table_inputs import inputs
from choqolate.experiments.engine.methods import Method, Parameters
from choqolate.explain.model_protocols import ConceptModel

RULES = ("accuracy", "sparsest")
TOLERANCE = 0.01  # of validation accuracy that sparse nodes may cost, by the rule "sparsest"
SEEDS = (0, 1, 2)
_HELD_OUT = 0.2  # of the training rows, where the table has no validation rows


@dataclass(frozen=True)
class Tried:
    """One setting, and what it did on the validation rows, in the mean over the seeds."""

    parameters: Parameters
    accuracy: float
    gini: float


def tune(method: Method, table: ConceptScores, fixed: Parameters, rule: str = "accuracy") -> list[Tried]:
    """Try all settings of a method; the first in the list is the one to take.

    ``"accuracy"`` takes the best mean accuracy on the validation rows and, of equals, the largest Attribution Gini.
    ``"sparsest"`` takes the largest Attribution Gini within a point of the best accuracy. The validation rows are those
    of the table; without any, a fifth of the training rows. Test rows are never looked at.

    Args:
        method: which one.
        table: scores with labels and a split.
        fixed: parameters that are not chosen, such as ``n_nodes``.
        rule: one of ``RULES``.
    """
    check_choice("rule", rule, RULES)
    grid = {name: values for name, values in open_grid(method, rule).items() if name not in fixed}
    open_variants = [{name: v for name, v in variant.items() if name not in fixed} for variant in method.variants]
    variants = [variant for k, variant in enumerate(open_variants) if variant not in open_variants[:k]]
    if not grid and len(variants) == 1:
        return [Tried({}, np.nan, np.nan)]
    try:
        train, validation = validation_split(table)
    except ChoqolateError as error:
        message = f"{method.title} has its default parameters: no rows can be held out to choose on ({error})"
        warnings.warn(message, ChoqolateWarning, stacklevel=2)
        return [Tried({}, np.nan, np.nan)]
    tried: list[Tried] = []
    problems: list[ChoqolateError] = []
    for variant in variants:
        settings = [dict(variant) | dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        try:
            models = method.train(train, SEEDS, [dict(fixed) | setting for setting in settings])
        except ChoqolateError as error:  # of this variant, on these data
            problems.append(error)
            continue
        tried += [_measure(setting, runs, validation) for setting, runs in zip(settings, models, strict=True)]
    if not tried:
        raise problems[0]
    return _ranked(tried, rule)


def open_grid(method: Method, rule: str) -> dict[str, Sequence[Any]]:
    """The values that a rule tries of each parameter of a method."""
    return dict(method.grid) | (dict(method.dials) if rule == "sparsest" else {})


def is_tuned(method: Method, rule: str) -> bool:
    """Whether a rule leaves anything of a method to be chosen."""
    return bool(open_grid(method, rule)) or len(method.variants) > 1


def validation_split(table: ConceptScores) -> tuple[ConceptScores, ConceptScores]:
    """Rows to train on and rows to choose on: the table's own, or a fifth of those for training."""
    train = table.part("train")
    if table.rows.has_part("val"):
        return train, table.part("val")
    parts = train.with_columns(split=None).with_split(_HELD_OUT)
    return parts.part("train"), parts.part("test")


def mean_accuracy(runs: Sequence[ConceptModel], rows: ConceptScores) -> float:
    """The accuracy on some rows, in the mean over runs."""
    truth = rows.labels
    assert truth is not None
    return float(np.mean([metrics.accuracy(truth, run.predict(inputs(run, rows)).astype(str)) for run in runs]))


def least_accuracy(found: Iterable[float]) -> float:
    """The accuracy from which on a setting is within the tolerance of the best.

    >>> round(least_accuracy([0.91, 0.95]), 6)
    0.94
    """
    return max(found) - TOLERANCE


def _measure(setting: Mapping[str, Any], runs: Sequence[ConceptModel], rows: ConceptScores) -> Tried:
    shares = [metrics.per_concept(run.node_attributions_, len(run.concepts_)) for run in runs]
    gini = [metrics.mean_over_nodes(metrics.attribution_gini(own)).mean for own in shares]
    return Tried(setting, mean_accuracy(runs, rows), float(np.nan_to_num(np.mean(gini))))


def _ranked(tried: Sequence[Tried], rule: str) -> list[Tried]:
    if rule == "accuracy":
        return sorted(tried, key=lambda one: (-one.accuracy, -one.gini))
    least = least_accuracy(one.accuracy for one in tried)
    return sorted(tried, key=lambda one: (one.accuracy < least, -one.gini, -one.accuracy))
