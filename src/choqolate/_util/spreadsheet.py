"""Text in the cells of CSV files: a spreadsheet takes it for a formula if it starts like one, and computes it."""

from __future__ import annotations

import re

_STARTS = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = r"[-+]?(\d[\d.,]*([eE][-+]?\d+)?%?|inf|nan)"
_NUMBERS = re.compile(rf"{_NUMBER}( to {_NUMBER})?")


def as_cell(text: str) -> str:
    """Text as a spreadsheet shows it: with an apostrophe in front of what would be a formula and is not a number.

    >>> as_cell("=1+1"), as_cell("-0.5"), as_cell("-1 to +1"), as_cell("sea")
    ("'=1+1", '-0.5', '-1 to +1', 'sea')
    """
    is_formula = text.lstrip("'").startswith(_STARTS) and _NUMBERS.fullmatch(text) is None
    return f"'{text}" if is_formula else text


def from_cell(cell: str) -> str:
    """The text that :func:`as_cell` was given.

    >>> from_cell("'=1+1"), from_cell("'sea'")
    ('=1+1', "'sea'")
    """
    return cell[1:] if cell.startswith("'") and cell.lstrip("'").startswith(_STARTS) else cell
