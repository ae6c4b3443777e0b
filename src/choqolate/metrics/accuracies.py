"""How accurate predictions are, over all rows and over groups of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from choqolate._util.checks import as_labels
from choqolate.errors import ChoqolateError
from choqolate.metrics.arrays import Labels, correct_predictions


def accuracy(y_true: Labels, y_pred: Labels) -> float:
    r"""Share of correct predictions, :math:`\frac{1}{n} \sum_i \mathbf{1}[\hat{y}_i = y_i]`.

    Args:
        y_true: True labels, shape (n,): numbers or strings.
        y_pred: Predicted labels, shape (n,), of the same kind.
    Raises:
        ChoqolateError: If labels are missing, their numbers differ, or one side is text and the other is not.

    >>> accuracy(["cat", "dog", "dog", "cat"], ["cat", "dog", "cat", "cat"])
    0.75
    """
    return float(np.mean(correct_predictions(y_true, y_pred)))


def group_accuracies(y_true: Labels, y_pred: Labels, groups: Labels) -> dict[Any, float]:
    """Accuracy within each group, in sorted order of the groups; the keys are plain Python values.

    Args:
        y_true: True labels, shape (n,).
        y_pred: Predicted labels, shape (n,).
        groups: Group of each row, shape (n,): any hashable labels, for example numbers, strings or (class, background).
    Raises:
        ChoqolateError: As :func:`accuracy`; also if a row has no group.

    >>> group_accuracies([0, 0, 1, 1], [0, 1, 1, 1], ["land", "water", "land", "land"])
    {'land': 1.0, 'water': 0.0}
    """
    correct = correct_predictions(y_true, y_pred)
    members = as_labels(groups, "groups", len(correct))
    sizes = Counter(members)
    hits = Counter(group for group, hit in zip(members, correct, strict=True) if hit)
    try:
        names = sorted(sizes)
    except TypeError:  # labels of several kinds
        names = sorted(sizes, key=str)
    return {group: hits[group] / sizes[group] for group in names}


def worst_group_accuracy(y_true: Labels, y_pred: Labels, groups: Labels) -> float:
    r"""Lowest accuracy over the groups, :math:`\min_g \frac{1}{|g|} \sum_{i \in g} \mathbf{1}[\hat{y}_i = y_i]`.

    Args:
        y_true: True labels, shape (n,).
        y_pred: Predicted labels, shape (n,).
        groups: Group of each row, shape (n,); usually class and spurious attribute together.
    Raises:
        ChoqolateError: As :func:`group_accuracies`.

    >>> worst_group_accuracy([0, 0, 0, 1], [0, 0, 1, 1], [(0, "land"), (0, "water"), (0, "water"), (1, "water")])
    0.5
    """
    return min(group_accuracies(y_true, y_pred, groups).values())


def reweighted_accuracy(y_true: Labels, y_pred: Labels, groups: Labels, train_groups: Labels) -> float:
    r"""Accuracy with each test group weighted by its share in training, :math:`\sum_g \frac{n_g}{n} \mathrm{Acc}_g`.

    One of the two "average accuracies" on Waterbirds (the other: :func:`accuracy`). Test-only groups have weight 0.

    Args:
        y_true: True labels, shape (n,).
        y_pred: Predicted labels, shape (n,).
        groups: Group of each test row, shape (n,).
        train_groups: Group of each training row, shape (n_train,).
    Raises:
        ChoqolateError: As :func:`group_accuracies`; also if a training group has no test rows.

    >>> reweighted_accuracy([0, 0, 1, 1], [0, 0, 1, 0], ["a", "a", "b", "b"], ["a", "a", "a", "b"])
    0.875
    """
    by_group = group_accuracies(y_true, y_pred, groups)
    sizes = Counter(as_labels(train_groups, "train_groups"))
    absent = ", ".join(repr(group) for group in sizes if group not in by_group)
    if absent:
        raise ChoqolateError(f"groups: expected every training group, got no {absent}; leave it out of train_groups.")
    known = [group for group in by_group if group in sizes]
    return float(np.average([by_group[group] for group in known], weights=[sizes[group] for group in known]))
