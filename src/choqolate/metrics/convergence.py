"""Whether a training has converged."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from choqolate.metrics.arrays import as_array


def late_decrease(losses: ArrayLike) -> float:
    r"""Relative decrease of a training loss late in training.

    With the median loss over the last tenth of the epochs and that over the tenth before,

    .. math:: 1 - \tilde L_{10} / \tilde L_9

    Near zero for a training that has converged; negative where the loss rose. Medians over a tenth are compared,
    because the loss of one epoch of mini-batches is noisy, and that of a training at a high rate may jump for a few
    epochs. A tenth is at least one epoch.

    Args:
        losses: Loss of each epoch ``(epochs,)``, not negative.

    Returns:
        The decrease, at most 1; NaN for fewer than two epochs.
    Raises:
        ChoqolateError: If ``losses`` is empty or not finite.

    >>> late_decrease([2.0] * 18 + [1.2, 0.8] + [0.9, 0.9])  # a tenth of 22 epochs is two
    0.1
    >>> late_decrease([3.0, 1.5, 1.5])
    0.0
    """
    curve = as_array(losses, "losses", ndims=(1,))
    tenth = max(1, len(curve) // 10)
    if len(curve) < 2:
        return math.nan
    before, last = float(np.median(curve[-2 * tenth : -tenth])), float(np.median(curve[-tenth:]))
    return 1 - last / before if before else 0.0
