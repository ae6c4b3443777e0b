"""How long baselines are trained where they are compared."""

from __future__ import annotations

_ALL_AT_ONCE = 2_048  # rows up to which a step can hold all of them


def budget_for(n_rows: int) -> dict[str, int]:
    """The ``steps`` and ``batch_size`` at which baselines are compared, for a number of training rows.

    Up to 2,048 rows, 1,000 steps of all rows: without the noise of batches, small weights become exactly zero. Beyond,
    3,000 steps of 512 rows, which come nearer to the optimum than as much work in larger steps. Measured by
    ``benchmarks/training_budget.py``.

    >>> budget_for(1_128), budget_for(4_235)
    ({'steps': 1000, 'batch_size': 2048}, {'steps': 3000, 'batch_size': 512})
    """
    if n_rows <= _ALL_AT_ONCE:
        return {"steps": 1_000, "batch_size": _ALL_AT_ONCE}
    return {"steps": 3_000, "batch_size": 512}
