"""Numbers as people read them, and what several runs have in common."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

NOTHING = "–"  # stands for a number that is not defined
MINUS = "−"


def decimal(
    value: float | None, digits: int = 2, *, signed: bool = False, commas: bool = True, minus: str = MINUS
) -> str:
    """Format a number with a fixed number of digits after the point; a dash if it is not defined.

    Args:
        value: the number; ``None`` and NaN are not defined.
        digits: after the point.
        signed: whether a number above zero gets its sign.
        commas: whether thousands are separated.
        minus: the sign of a number below zero; zero, also a rounded one, has none.

    >>> decimal(-1.25, 1), decimal(-0.001), decimal(3, 1, signed=True), decimal(0, 1, signed=True), decimal(1234.5, 1)
    ('−1.2', '0.00', '+3.0', '0.0', '1,234.5')
    >>> decimal(None), decimal(math.nan), decimal(-0.5, minus="-")
    ('–', '–', '-0.50')
    """
    if value is None or math.isnan(value):
        return NOTHING
    rounded = round(float(value), digits) + 0.0  # turns -0.0 into 0.0; numpy rounds in another way
    return f"{rounded:{'+' if signed and rounded else ''}{',' * commas}.{digits}f}".replace("-", minus)


def known(value: float) -> float | None:
    """A number as JSON can hold it: ``None`` for NaN.

    >>> known(0.5), known(math.nan)
    (0.5, None)
    """
    return None if math.isnan(value) else value


def decimals_for(value: float, significant: int, *, least: int = 0, most: int = 9) -> int:
    """Count the digits after the point that show so many significant digits of a number.

    Args:
        value: above zero.
        significant: digits that count.
        least, most: limits of the result.

    >>> decimals_for(0.31, 3), decimals_for(0.0123, 3), decimals_for(31, 3), decimals_for(31, 3, least=2)
    (3, 4, 1, 2)
    """
    return min(max(significant - 1 - math.floor(math.log10(value)), least), most)


def fine_decimal(value: float | None, digits: int = 3, *, most: int = 6) -> str:
    """Format a number as :func:`decimal` does, with more digits if it would be rounded to zero: two that count.

    Args:
        value: the number; ``None`` and NaN are not defined.
        digits: after the point.
        most: after the point, of a number that is nearly zero.

    >>> fine_decimal(0.0321), fine_decimal(0.00002134), fine_decimal(0.0), fine_decimal(math.nan)
    ('0.032', '0.000021', '0.000', '–')
    """
    if value is None or math.isnan(value) or not value or round(value, digits):
        return decimal(value, digits)
    return decimal(value, decimals_for(abs(value), 2, least=digits, most=most))


class Spread(NamedTuple):
    """Mean and sample standard deviation of some values; a single value has no deviation.

    >>> Spread.over([0.5, 0.75, 1.0])
    Spread(mean=0.75, std=0.25)
    >>> Spread.over([0.5, None, math.nan])
    Spread(mean=0.5, std=None)
    """

    mean: float
    std: float | None

    @classmethod
    def over(cls, values: Iterable[float | None]) -> Spread:
        """Take the mean and standard deviation of the values that are defined; without any, the mean is NaN."""
        known = [value for value in values if value is not None and not math.isnan(value)]
        if not known:
            return cls(math.nan, None)
        return cls(float(np.mean(known)), float(np.std(known, ddof=1)) if len(known) > 1 else None)

    def text(self, digits: int = 2, *, scale: float = 1, signed: bool = False, minus: str = MINUS) -> str:
        """Format both, as in ``85.3 ± 1.2``; the mean alone if there is no deviation, a dash if there is no mean.

        Args:
            digits: after the point.
            scale: a factor of both: 100 for per cent.
            signed: whether a mean above zero gets its sign.
            minus: the sign of a mean below zero.

        >>> Spread(0.8532, 0.0121).text(1, scale=100), Spread(0.032, None).text(signed=True)
        ('85.3 ± 1.2', '+0.03')
        """
        mean = decimal(scale * self.mean, digits, signed=signed, minus=minus)
        return mean if self.std is None else f"{mean} ± {decimal(scale * self.std, digits)}"
