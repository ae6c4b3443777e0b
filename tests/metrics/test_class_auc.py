"""Areas under the ROC curve within classes, against scikit-learn and the bootstrap."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from choqolate import ChoqolateError
from choqolate.metrics import within_class_auc


def _sample(n: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    classes = rng.choice(["gull", "wren", "owl"], n)
    sides = rng.choice([-1, 1, 1], (n, 4))
    return rng.normal(size=n).round(1) + 0.5 * sides.mean(axis=1), sides, classes  # rounding makes ties


def test_areas_are_those_of_scikit_learn_class_by_class():
    values, sides, classes = _sample()
    names = list(dict.fromkeys(classes.tolist()))
    areas = np.array(
        [[roc_auc_score(column[classes == name] > 0, values[classes == name]) for column in sides.T] for name in names]
    )

    found = within_class_auc(values, sides, classes)

    assert found.value == pytest.approx(areas.mean())
    assert found.by_column == pytest.approx(areas.mean(axis=0))
    assert found.by_class == pytest.approx(dict(zip(names, areas.mean(axis=1), strict=True)))


def test_the_interval_is_about_that_of_the_bootstrap():
    values, sides, classes = _sample(400, seed=3)
    rng, means = np.random.default_rng(0), []
    cells = [np.flatnonzero(classes == name) for name in set(classes.tolist())]
    for _ in range(400):
        rows = np.concatenate([rng.choice(cell, len(cell)) for cell in cells])
        means.append(within_class_auc(values[rows], sides[rows], classes[rows]).value)

    low, high = within_class_auc(values, sides, classes).interval

    assert high - low == pytest.approx(2 * 1.96 * np.std(means), rel=0.15)
    assert low < np.mean(means) < high


def test_the_variance_of_one_area_is_that_of_delong():
    values, sides, _ = _sample(60)
    upper, lower = values[sides[:, 0] > 0], values[sides[:, 0] < 0]
    wins = np.array([[float(u > v) + 0.5 * (u == v) for v in lower] for u in upper])
    variance = wins.mean(axis=1).var(ddof=1) / len(upper) + wins.mean(axis=0).var(ddof=1) / len(lower)

    found = within_class_auc(values, sides[:, 0], ["gull"] * 60)

    assert found.value == pytest.approx(wins.mean())
    assert found.interval[0] == pytest.approx(wins.mean() - 1.959964 * math.sqrt(variance))


def test_a_score_of_the_class_alone_follows_nothing():
    _, sides, classes = _sample()
    values = np.select([classes == "gull", classes == "wren"], [1.0, 2.0], 3.0)

    assert within_class_auc(values, sides, classes).value == 0.5


def test_rows_of_neither_side_do_not_count_and_classes_without_both_sides_are_left_out():
    values, sides, classes = _sample()
    only_up = np.where(classes == "owl", 1, sides[:, 0])
    part = only_up * (np.arange(120) % 3 > 0)
    rows = (part != 0) & (classes != "owl")

    found = within_class_auc(values, part, classes)

    assert set(found.by_class) == {"gull", "wren"}
    assert found.value == pytest.approx(within_class_auc(values[rows], sides[rows, 0], classes[rows]).value)


def test_few_rows_are_said_to_be_few():
    apart = np.repeat([1, -1, 1, -1], [3, 4, 6, 9])
    classes = ["gull"] * 7 + ["wren"] * 15

    found = within_class_auc(apart, apart, classes)

    assert (found.interval, found.rows, found.too_few) == ((1.0, 1.0), 9, True)
    two = within_class_auc(apart, np.stack([apart, -apart * (np.arange(22) != 0)], axis=1), classes)
    assert two.rows == 9
    assert not within_class_auc(np.arange(20.0), np.arange(20) % 2 - 0.5, ["gull"] * 20).too_few


def test_nothing_to_tell_apart_has_no_area():
    found = within_class_auc([0.1, 0.2, 0.3], [1, 1, 1], ["gull"] * 3)

    assert math.isnan(found.value)
    assert np.isnan(found.by_column).all()
    assert found.by_class == {}
    assert found.too_few


def test_wrong_rows_are_refused():
    with pytest.raises(ChoqolateError, match="expected the 2 rows of values, got 3"):
        within_class_auc([0.1, 0.2], [1, -1, 1], ["gull"] * 2)
    with pytest.raises(ChoqolateError, match="classes"):
        within_class_auc([0.1, 0.2], [1, -1], ["gull"])


def test_booleans_are_the_two_sides():
    values, sides, classes = _sample()
    upper = sides > 0

    for given in (upper, upper.tolist(), torch.tensor(upper)):
        assert within_class_auc(values, given, classes).value == within_class_auc(values, sides, classes).value
