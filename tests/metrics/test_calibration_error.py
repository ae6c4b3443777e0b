"""Expected calibration error against its definition, written out bin by bin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from choqolate.errors import ChoqolateError
from choqolate.metrics import expected_calibration_error
from choqolate.metrics.calibration_error import binned_error, calibration_spreads, chance_calibration_error


def written_out(truth, probabilities, classes, bins):
    total = 0.0
    for k in range(bins):
        rows = [
            (max(p), classes[list(p).index(max(p))] == label)
            for p, label in zip(probabilities, truth, strict=True)
            if k / bins < max(p) <= (k + 1) / bins
        ]
        if rows:
            confidence, right = zip(*rows, strict=True)
            total += len(rows) / len(truth) * abs(sum(right) / len(rows) - sum(confidence) / len(rows))
    return total


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(2, 5), st.sampled_from([1, 4, 15, 16]))
def test_it_is_the_definition(seed, n_rows, n_classes, bins):
    rng = np.random.default_rng(seed)
    probabilities = softmax(rng.normal(0, 2, (n_rows, n_classes)), axis=1)
    classes = [f"class {k}" for k in range(n_classes)]
    truth = rng.choice(classes, n_rows).tolist()
    expected = written_out(truth, probabilities, classes, bins)
    assert expected_calibration_error(truth, probabilities, classes, bins) == pytest.approx(expected, abs=1e-12)


def test_it_is_small_for_honest_probabilities_and_large_for_boasting():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1, 20_000)
    truth = (rng.random(20_000) > p).astype(int)  # class 0 as often as it is said
    assert expected_calibration_error(truth, np.stack([p, 1 - p], 1)) < 0.02
    assert expected_calibration_error(truth, np.eye(2)[np.zeros(20_000, int)]) == pytest.approx(0.25, abs=0.02)


def test_certain_and_right_is_no_error():
    assert expected_calibration_error(["a", "b"], [[1, 0], [0, 1]], ["a", "b"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a"], [[0.5, 0.5]], ["b", "c"]), "expected labels among"),
        (([0], [[0.5, 1.5]]), "from 0 to 1"),
        (([0, 1], [[0.5, 0.5]]), "y_true"),
        (([0], [[0.5, 0.5]], [0, 1, 2]), "one for each column"),
        (([0], [[0.5, 0.5]], None, 0), "bins"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ChoqolateError, match=message):
        expected_calibration_error(*arguments)


@pytest.mark.parametrize("n_rows", [40, 400])
@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
def test_calibrated_probabilities_stay_below_the_chance_level_in_95_percent_of_samples(n_rows, spread):
    rng = np.random.default_rng(0)
    probabilities = softmax(rng.normal(0, spread, (n_rows, 3)), axis=1)
    confidence = probabilities.max(axis=1)
    level = chance_calibration_error(calibration_spreads(probabilities), n_rows)
    errors = [binned_error(confidence, rng.random(n_rows) < confidence) for _ in range(400)]
    assert 0.91 <= np.mean(np.array(errors) < level) <= 0.985


def test_spreads_of_blocks_add_up():
    probabilities = softmax(np.random.default_rng(1).normal(0, 2, (50, 3)), axis=1)
    parts = calibration_spreads(probabilities[:20]) + calibration_spreads(probabilities[20:])
    assert parts == pytest.approx(calibration_spreads(probabilities))
