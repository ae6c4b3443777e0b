"""Shares and changes in words, each with its 95% interval; too few to tell is said instead of a number."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import TYPE_CHECKING

from choqolate._util.numbers import decimal
from choqolate._util.text import counted
from choqolate.metrics import PairedChange, Proportion

if TYPE_CHECKING:
    from choqolate.analysis.evaluation_record import Evaluation


def too_few_text(rows: int) -> str:
    """What stands in place of a number of so few images.

    >>> too_few_text(4)
    'too few to tell (4 images)'
    """
    return f"too few to tell ({counted(rows, 'image') if rows else 'no images'})"


def percent_range(ends: tuple[float, float], digits: int = 1) -> str:
    """Format an interval in percent.

    >>> percent_range((0.8412, 0.8976))
    '84.1 to 89.8'
    """
    return " to ".join(decimal(100 * end, digits) for end in ends)


def point_range(ends: tuple[float, float], digits: int = 1) -> str:
    """The interval of a change, in points.

    >>> point_range((-0.021, 0.187))
    '−2.1 to +18.7'
    """
    return " to ".join(decimal(100 * end, digits, signed=True) for end in ends)


def share_text(share: Proportion) -> str:
    """Format a share in percent with its interval.

    >>> share_text(Proportion(360, 480)), share_text(Proportion(3, 4))
    ('75.0% (70.9 to 78.7)', 'too few to tell (4 images)')
    """
    if share.too_few:
        return too_few_text(share.rows)
    return f"{decimal(100 * share.value, 1)}% ({percent_range(share.interval)})"


def change_text(change: PairedChange) -> str:
    """A change in points with its interval.

    >>> change_text(PairedChange(gained=6, lost=2, rows=48)), change_text(PairedChange(3, 0, 4))
    ('+8.3 points (−4.2 to +20.2)', 'too few to tell (4 images)')
    """
    if change.too_few:
        return too_few_text(change.rows)
    return f"{decimal(100 * change.value, 1, signed=True)} points ({point_range(change.interval)})"


def calibration_error_text(result: Evaluation) -> str:
    """Format the calibration error of an evaluation, and how large it may be by chance on as many rows."""
    error, chance = result.calibration_error, result.calibration_chance
    if result.overall.too_few and not isnan(error):
        return too_few_text(result.rows)
    return decimal(error, 3) + ("" if isnan(chance) else f" (by chance up to {decimal(chance, 3)})")


def p_text(p: float) -> str:
    """A p-value with as many digits as it deserves.

    >>> p_text(0.289), p_text(0.0352), p_text(0.00002)
    ('0.29', '0.035', '< 0.001')
    """
    return "< 0.001" if p < 0.001 else decimal(p, 3 if p < 0.1 else 2)


def verdict_text(change: PairedChange) -> str:
    """Whether a change is more than chance, by the exact McNemar test.

    >>> verdict_text(PairedChange(gained=6, lost=2, rows=48)), verdict_text(PairedChange(60, 20, 480))
    ('may be due to chance (p = 0.29)', 'beyond chance (p < 0.001)')
    """
    p = p_text(change.p_value)
    p = f"p {p}" if p.startswith("<") else f"p = {p}"
    return f"{'beyond chance' if change.beyond_chance else 'may be due to chance'} ({p})"


def judged_text(change: PairedChange) -> str:
    """A change, on how many images, and whether it is more than chance.

    >>> judged_text(PairedChange(gained=6, lost=2, rows=48))
    '+8.3 points (−4.2 to +20.2) on 48 images: may be due to chance (p = 0.29)'
    >>> judged_text(PairedChange(0, 0, 48)), judged_text(PairedChange(3, 0, 4))
    ('no change on 48 images', 'too few to tell (4 images)')
    """
    if change.too_few:
        return too_few_text(change.rows)
    if not change.gained + change.lost:
        return f"no change on {counted(change.rows, 'image')}"
    return f"{change_text(change)} on {counted(change.rows, 'image')}: {verdict_text(change)}"


def small_groups_text(groups: Mapping[str, int], most: int = 3) -> str:
    """Groups with too few images, and how many these are.

    >>> small_groups_text({"gulls on land": 4, "wrens at sea": 1})
    'gulls on land (4 images), wrens at sea (1 image)'
    """
    shown = [f"{name} ({counted(rows, 'image')})" for name, rows in list(groups.items())[:most]]
    return ", ".join(shown) + (f" and {len(groups) - most:,} more" if len(groups) > most else "")
