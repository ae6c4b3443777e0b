"""Choosing hyperparameters on validation rows, by the same rule for every method."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from choqolate import metrics
from choqolate._util.checks import check_choice
from choqolate.data.scores import ConceptScores
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


def choose(tried: Iterable[Tried], rule: str) -> Parameters:
    """The setting to take.

    ``"accuracy"`` takes the best mean accuracy on the validation rows and, of equals, the largest Attribution Gini.
    ``"sparsest"`` takes the largest Attribution Gini within a point of the best accuracy.

    >>> tried = [Tried({"penalty": 1e-5}, 0.912, 0.4), Tried({"penalty": 1e-3}, 0.905, 0.7)]
    >>> choose(tried, "accuracy"), choose(tried, "sparsest")
    ({'penalty': 1e-05}, {'penalty': 0.001})
    """
    check_choice("rule", rule, RULES)
    found = list(tried)
    if rule == "sparsest":
        least = least_accuracy(one.accuracy for one in found)
        best = min(found, key=lambda one: (one.accuracy < least, -one.gini, -one.accuracy))
    else:
        best = min(found, key=lambda one: (-one.accuracy, -one.gini))
    return best.parameters


def settings_to_try(method: Method, fixed: Parameters, rule: str) -> list[list[Parameters]]:
    """All settings of the parameters that are left open, in groups that are trained together.

    A group shares one pass over the data. It is what is lost if a search is stopped, so the values of the first
    parameter of the grid are groups of their own, unless there is only one parameter or one fit for all seeds. The
    settings of a method that shares nothing, such as one of the user's own, are all by themselves.

    Args:
        method: which one.
        fixed: parameters that are not chosen, such as ``n_nodes``.
        rule: one of ``RULES``; the dials of a method are tried by the rule ``"sparsest"`` alone.
    """
    check_choice("rule", rule, RULES)
    grid = {name: values for name, values in _open_grid(method, rule).items() if name not in fixed}
    found: list[list[Parameters]] = [list(_combinations(variant, grid)) for variant in _open_variants(method, fixed)]
    if sum(map(len, found)) < 2:
        return []
    if not method.side_by_side:
        return [[setting] for settings in found for setting in settings]
    is_split = len(grid) > 1 and not method.deterministic
    return [group for settings in found for group in (_split(settings, grid) if is_split else [settings])]


def _open_grid(method: Method, rule: str) -> dict[str, Sequence[Any]]:
    return dict(method.grid) | (dict(method.dials) if rule == "sparsest" else {})


def _open_variants(method: Method, fixed: Parameters) -> list[dict[str, Any]]:
    """The variants without what is fixed, each once."""
    found: list[dict[str, Any]] = []
    for variant in method.variants:
        open_part = {name: value for name, value in variant.items() if name not in fixed}
        found += [open_part] * (open_part not in found)
    return found


def _combinations(variant: Parameters, grid: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for values in product(*grid.values()):
        yield dict(variant) | dict(zip(grid, values, strict=True))


def _split(settings: Sequence[Parameters], grid: Mapping[str, Sequence[Any]]) -> list[list[Parameters]]:
    first = next(iter(grid))
    return [[one for one in settings if one[first] == value] for value in grid[first]]


def validation_split(table: ConceptScores) -> tuple[ConceptScores, ConceptScores]:
    """Rows to train on and rows to choose on: the table's own, or a fifth of those for training.

    Test rows are never looked at.
    """
    train = table.part("train")
    if table.rows.has_part("val"):
        return train, table.part("val")
    parts = train.with_columns(split=None).with_split(_HELD_OUT)
    return parts.part("train"), parts.part("test")


def mean_accuracy(runs: Sequence[ConceptModel], rows: ConceptScores) -> float:
    """The accuracy on some rows, in the mean over runs."""
    return float(np.mean([validation_accuracy(run, rows) for run in runs]))


def validation_accuracy(model: ConceptModel, rows: ConceptScores) -> float:
    """The accuracy of one model on some rows."""
    assert rows.labels is not None
    return float(metrics.accuracy(rows.labels, model.predict(inputs(model, rows)).astype(str)))


def validation_gini(model: ConceptModel) -> float:
    """The mean Attribution Gini of the nodes, per concept; 0 if no node has any weight."""
    shares = metrics.per_concept(model.node_attributions_, len(model.concepts_))
    return float(np.nan_to_num(metrics.mean_over_nodes(metrics.attribution_gini(shares)).mean))


def least_accuracy(found: Iterable[float]) -> float:
    """The accuracy from which on a setting is within the tolerance of the best.

    >>> round(least_accuracy([0.91, 0.95]), 6)
    0.94
    """
    return max(found) - TOLERANCE
