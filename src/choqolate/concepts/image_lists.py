"""Telling CSV files that list images from those that hold scores."""

from __future__ import annotations

import csv
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from choqolate._util.text import counted, listed
from choqolate.data.column_roles import is_reserved
from choqolate.data.rows import COLUMN_NAMES

_ROWS = 20  # that are looked at


def lists_images(path: Path, tell: Callable[[str], None] = lambda _: None) -> bool:
    """Whether a file is a CSV file that lists images rather than a table of scores.

    A file without paths holds scores, and one without other columns lists images. With both, it lists images if there
    are files at its paths, unless the other cells are numbers from -1 to 1, as cosines are.

    Args:
        path: the file.
        tell: called with what was decided where there are both.
    """
    if path.suffix.lower() != ".csv" or not path.is_file():
        return False
    header, rows = _first_rows(path)
    at = next((j for j, name in enumerate(header) if name.lower() in COLUMN_NAMES["path"]), None)
    if at is None:
        return False
    others = {name: j for j, name in enumerate(header) if not is_reserved(name)}
    if not others:
        return True
    rows = [row for row in rows if len(row) == len(header)]
    found = any((path.parent / row[at].replace("\\", "/")).is_file() for row in rows)
    if found and not all(_is_cosine(row[j]) for row in rows for j in others.values()):
        tell(f"{path} is read as a list of images, without its columns {listed(list(others))}")
        return True
    tell(f"{path} is read as a table of scores of {counted(len(others), 'concept')}")
    return False


def _first_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """The header of a CSV file and a few rows, as far as they can be read."""
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        header = next((line for line in file if line.strip()), "")
        separator = max(",;\t", key=header.count)
        names = next(csv.reader([header], delimiter=separator), [])
        try:
            rows = list(islice(csv.reader(file, delimiter=separator), _ROWS))
        except csv.Error:  # the reader of the whole file says where
            rows = []
    return [name.strip() for name in names], rows


def _is_cosine(cell: str) -> bool:
    try:
        return -1 <= float(cell) <= 1
    except ValueError:
        return False
