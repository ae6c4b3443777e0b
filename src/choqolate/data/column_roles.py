"""What the columns of a table are: path, label, split, group or a concept; and what its cells may hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from choqolate._util.checks import check_unique
from choqolate._util.text import listed, printable
from choqolate.data.rows import COLUMN_NAMES
from choqolate.errors import ChoqolateError

ROW_COLUMNS = {"path": "paths", "label": "labels", "split": "split", "group": "groups"}
"""What is known of a row: the name of the column in a file, and in memory."""

_ALIASES = {alias: name for name, aliases in COLUMN_NAMES.items() for alias in aliases}
_INDEX_COLUMNS = ("", "unnamed: 0", "__index_level_0__")  # row numbers that pandas leaves behind


def column_roles(header: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Which column is the path, label, split or group, and which columns are concepts."""
    check_unique(header)
    fields: dict[str, int] = {}
    concepts: dict[str, int] = {}
    for j, name in enumerate(header):
        role = _ALIASES.get(name.strip().lower())
        if role in fields:
            both = listed([header[fields[role]], name])
            raise ChoqolateError(f"expected one column for the {role}, got {both}: drop or rename one of them")
        if role is not None:
            fields[role] = j
        elif not is_reserved(name):
            concepts[name] = j
    if not concepts:
        raise ChoqolateError(f"expected a column for each concept, got the columns {listed(header)} only")
    if are_numbers(list(concepts)):
        raise ChoqolateError(
            f"expected the names of the columns in the first line, got {listed(header)}: add a line that names them"
        )
    return fields, concepts


def are_numbers(names: Sequence[str]) -> bool:
    """Whether a header is no header but a row of scores."""
    return all(_is_number(name) for name in names) and not all(name.isdigit() for name in names)


def is_reserved(name: str) -> bool:
    """Whether a column of this name would not be read as a concept."""
    return name.strip().lower() in (*_ALIASES, *_INDEX_COLUMNS)


def check_cells(concept: str, cells: Iterable[Any], where: str = "row", first: int = 0) -> None:
    """Name the first cell that is no finite number."""
    for row, cell in enumerate(cells, start=first):
        if _is_number(cell):
            continue
        if cell is None or cell != cell or str(cell).strip() == "":
            raise ChoqolateError(
                f"expected a score for every concept, {concept!r} has none in {where} {row}: fill it in"
            )
        proposal = f'if it is the label, call the column "label", else drop it (known: {", ".join(ROW_COLUMNS)})'
        if isinstance(cell, str) and _is_number(cell.replace(",", ".")):
            proposal = "write decimals with a point"
        raise ChoqolateError(
            f"expected numbers in every column of a concept, column {concept!r} has {str(cell)!r} in {where} {row}: "
            f"{proposal}"
        )


def _is_number(cell: Any) -> bool:
    try:
        return math.isfinite(float(cell))
    except (TypeError, ValueError, OverflowError):
        return False


def text_array(values: np.ndarray | None, n_rows: int) -> pa.Array:
    """A column of text; missing entries are null, and names that are no UTF-8 are spelled out."""
    if values is None:
        return pa.nulls(n_rows, pa.string())
    return pa.array([value and printable(value) for value in values.tolist()], pa.string())


def plain_cell(cell: Any) -> Any:
    """Bytes as text; and whole numbers that became 1.0 because others are missing, as 1."""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "backslashreplace")
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell
