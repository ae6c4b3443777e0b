"""How much a training loss still falls, against curves whose decrease is known."""

import math

import numpy as np
import pytest

import choqolate as cq
from choqolate.metrics import late_decrease


@pytest.mark.parametrize("rate", [0.01, 0.2])
@pytest.mark.parametrize("epochs", [10, 57, 400])
def test_a_geometric_decrease(rate, epochs):
    tenth = epochs // 10
    curve = (1 - rate) ** np.arange(epochs)
    assert late_decrease(curve) == pytest.approx(1 - (1 - rate) ** tenth)
    assert late_decrease(7 * curve) == pytest.approx(late_decrease(curve))
    assert late_decrease(curve[::-1]) == pytest.approx(1 - (1 - rate) ** -tenth)  # a rising loss


def test_noise_around_a_level_is_not_a_decrease():
    noisy = 1 + 0.1 * np.random.default_rng(0).standard_normal(4000)
    assert abs(late_decrease(noisy)) < 0.03  # two medians of 400: one epoch against another would be off by 0.14
    assert late_decrease(noisy.tolist()) == late_decrease(noisy)


@pytest.mark.parametrize("start", [325, 375])
def test_a_jump_for_a_few_epochs_is_no_decrease_and_no_rise(start):
    curve = np.ones(400)
    curve[start : start + 15] = 50.0
    assert late_decrease(curve) == 0


def test_a_loss_that_stays_up_has_risen():
    curve = np.ones(400)
    curve[350:] = 50.0
    assert late_decrease(curve) == -49


def test_short_and_perfect_trainings():
    assert math.isnan(late_decrease([0.7]))
    assert late_decrease([0.5, 0.4]) == pytest.approx(0.2)
    assert late_decrease([1.0, 0.0, 0.0]) == 0
    with pytest.raises(cq.ChoqolateError, match="losses: expected"):
        late_decrease([])
    with pytest.raises(cq.ChoqolateError, match="finite"):
        late_decrease([1.0, math.inf])
