"""What controls say about the concepts of a model, in sentences that follow the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from choqolate._util.numbers import decimal
from choqolate._util.text import capital, counted
from choqolate.analysis.control_tables import DIRECTIONS, NAMES
from choqolate.analysis.interval_text import percent_range, point_range, share_text
from choqolate.analysis.trade_off import CEILING

if TYPE_CHECKING:
    from choqolate.analysis.controls import Control, Controls
    from choqolate.analysis.evaluation import Evaluation

MODEL, AGAIN = "this model", "its concepts, trained again"
RANDOM_NAMES, RANDOM_DIRECTIONS = "random names", "random directions"
RANDOM = {NAMES: RANDOM_NAMES, DIRECTIONS: RANDOM_DIRECTIONS}
SMALL = 0.02  # gap in accuracy within which two sets of concepts are as good as equal
_Z = 1.959963984540054  # of 95%


class Gap(NamedTuple):
    """A difference of two accuracies on the same images, with its 95% interval."""

    value: float
    interval: tuple[float, float]


def accuracy_gap(first: Sequence[Evaluation], second: Sequence[Evaluation]) -> Gap:
    r"""Difference of the mean accuracies of some runs and some others, on the same images.

    Two things are uncertain. The images: with :math:`d_i` the difference of the shares of runs that are right on image
    i, the interval of Bonett and Price (2012), in which two more images count, one for either side,

    .. math:: \frac{\sum_i d_i}{n + 2} \pm 1.96 \sqrt{\frac{1}{n + 2} \left(
              \frac{\sum_i d_i^2 + 2}{n + 2} - \Big(\frac{\sum_i d_i}{n + 2}\Big)^2 \right)}

    and the draws: of k > 1 runs with standard deviation s, :math:`t_{k-1} s / \sqrt{k}`, t the 97.5% quantile of
    Student's distribution. The reaches are added as squares, which is wide rather than narrow, because some of the
    spread of the runs comes from the images.
    """
    d = _shares_right(first) - _shares_right(second)
    n = len(d) + 2
    center = d.sum() / n
    reach = _Z * math.sqrt(((d**2).sum() + 2) / n - center**2) / math.sqrt(n)
    reach = math.hypot(reach, *(_reach([one.accuracy for one in runs]) for runs in (first, second)))
    value = float(d.mean())
    return Gap(value, (max(min(center - reach, value), -1.0), min(max(center + reach, value), 1.0)))


def _reach(values: Sequence[float]) -> float:
    """Half the 95% interval of the mean of some runs or draws, by Student's distribution; zero for a single one."""
    from scipy.stats import t

    k = len(values)
    return float(t.ppf(0.975, k - 1) * np.std(values, ddof=1) / math.sqrt(k)) if k > 1 else 0.0


def _shares_right(runs: Sequence[Evaluation]) -> np.ndarray:
    """Share of the runs that classify each image correctly ``(n,)``."""
    shares: np.ndarray = np.mean(np.array([one.hits for one in runs]), axis=0)
    return shares


def control_lines(controls: Controls) -> list[str]:
    """Sentences on the accuracy of random concepts, their coherence, and the ceiling."""
    lines = [_meaning(controls), _coherence(controls), _ceiling(controls)]
    if controls.missing is not None:
        lines.append(f"Random names were left out. {controls.missing}")
    return [line for line in lines if line]


def accuracy_text(row: Control) -> str:
    """The accuracy of a control: of one run with its interval, of several with their mean and standard deviation."""
    return share_text(row.evaluations[0].overall) if len(row.evaluations) == 1 else _percent(row)


def _meaning(controls: Controls) -> str:
    """What the gap between real and random concepts says about the names."""
    name = RANDOM_DIRECTIONS if controls.find(RANDOM_NAMES) is None else RANDOM_NAMES
    real, random, gap = controls[AGAIN], controls[name], controls.gap(name)
    low, high = gap.interval
    said = (
        f"Models trained in the same way on the same number of {name} reach {_percent(random)}; on these concepts, "
        f"{_percent(real)}. The gap is {decimal(100 * gap.value, 1, signed=True)} points ({point_range(gap.interval)})"
    )
    if len(random.evaluations) == 1:
        return (
            f"{said}. The interval covers the images, not the draw: one draw is too few to tell whether there is a "
            "difference. Use at least three."
        )
    gained = _gained(controls, real, random)
    if low > 0:
        but = f" But {gained}, so the accuracy alone says little about the names." if gained else ""
        return f"{said}: models do better on these concepts.{but}"
    if high < 0:
        return (
            f"{said}: {name} do better. So the accuracy is no evidence that the concepts mean what their names "
            "say. Other concepts, or more of them, may serve the task better."
        )
    if max(-low, high) <= SMALL:
        return (
            f"{said}: no difference that matters. Scores for almost any {name} are enough to tell these classes "
            "apart, so the accuracy does not show that the concepts mean what their names say. Only the images can "
            "show whether they do."
        )
    if gained:
        return (
            f"{said}, so on these images it cannot be distinguished from zero. {capital(gained)}: the accuracy is no "
            "evidence that the concepts mean what their names say. Only the images can show whether they do."
        )
    return f"{said}, so on these images it cannot be distinguished from zero. More images would narrow the interval."


def _gained(controls: Controls, real: Control, random: Control) -> str:
    """What random concepts bring of the gain over the most frequent class, if it is more than half of it."""
    start = 0.0 if controls.majority is None else controls.majority[1].value
    gain = real.accuracy.mean - start
    share = (random.accuracy.mean - start) / gain if gain > 0 else math.nan
    if not share > 0.5:
        return ""
    percent = decimal(100 * min(share, 1.0), 0)
    return f"{random.name} reach {percent}% of the gain over always predicting the most frequent class"


def _coherence(controls: Controls) -> str:
    """Whether the concepts of a node have more in common than random ones."""
    real = controls[AGAIN]
    found = [row for name in (RANDOM_NAMES, RANDOM_DIRECTIONS) if (row := controls.find(name)) is not None]
    rows = [row for row in found if not math.isnan(row.node_coherence.mean)]
    if math.isnan(real.node_coherence.mean) or not rows:
        return ""
    others = " and ".join(f"{row.node_coherence.text()} for {row.name}" for row in rows)
    said = (
        "Node Coherence, which is high if the concepts of a node rise and fall together, is "
        f"{real.node_coherence.text()} for these concepts, compared with {others}."
    )
    above = [row.name for row in rows if _is_above(real, row)]
    rest = [row.name for row in rows if row.name not in above]
    if len(real.evaluations) == 1:
        return f"{said} One run of each is too few to compare them."
    if not rest:
        return f"{said} Nodes are more coherent with these concepts than with {' and '.join(above)}."
    if above:
        return (
            f"{said} Nodes are more coherent with these concepts than with {above[0]}. Compared with {rest[0]}, the "
            "draws do not show that they are."
        )
    return f"{said} The draws do not show that nodes are more coherent with these concepts than with random ones."


def _is_above(real: Control, random: Control) -> bool:
    """Whether the real concepts are more coherent in the mean, beyond the spread of the runs and of the draws."""
    several = [[one.node_coherence for one in row.evaluations] for row in (real, random)]
    known = [[value for value in values if not math.isnan(value)] for values in several]
    gap = real.node_coherence.mean - random.node_coherence.mean
    return min(map(len, known)) > 1 and gap > math.hypot(*map(_reach, known))


def _ceiling(controls: Controls) -> str:
    """What the model leaves of what a linear model finds in the scores."""
    gap, removed = controls.gap(CEILING), "" if controls.leakage is None else ", including those of removed concepts,"
    low, high = gap.interval
    if controls[CEILING].evaluations[0].overall.too_few:
        return "There are too few held-out images to compare the model with logistic regression."
    said = (
        f"Logistic regression on all {counted(controls.n_concepts, 'score')}{removed} reaches "
        f"{share_text(controls[CEILING].evaluations[0].overall)}"
    )
    if high < 0:
        ends = percent_range((-high, -low))
        return f"{said}. This ceiling is {decimal(-100 * gap.value, 1)} points ({ends}) above the model."
    if low > 0:
        points = f"{decimal(100 * gap.value, 1)} points ({percent_range(gap.interval)})"
        return f"{said}. The model is {points} more accurate."
    distance = f"{decimal(100 * gap.value, 1, signed=True)} points ({point_range(gap.interval)})"
    return f"{said}. On these images, the model cannot be distinguished from it: {distance}."


def _percent(row: Control) -> str:
    return f"{row.accuracy.text(1, scale=100)}%"
