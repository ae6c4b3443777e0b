"""What the columns of a table are: path, label, split, group or a concept; and what its cells may hold."""

from __future__ import annotations

import math
import shlex
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import pyarrow as pa

from choqolate._util.checks import check_unique, find_named
from choqolate._util.text import counted, listed, printable
from choqolate.data.rows import COLUMN_NAMES
from choqolate.errors import ChoqolateError, ChoqolateWarning

ROW_COLUMNS = {"path": "paths", "label": "labels", "split": "split", "group": "groups"}
"""What is known of a row: the name of the column in a file, and in memory."""

_ALIASES = {alias: name for name, aliases in COLUMN_NAMES.items() for alias in aliases}
_INDEX_COLUMNS = ("", "unnamed: 0", "__index_level_0__")  # row numbers that pandas leaves behind
_MOST_NUMBERED_GROUPS = 20


class ColumnNames(TypedDict, total=False):
    """The columns of a table that hold path, label, split and group, where they are called otherwise."""

    path_column: str | None
    label_column: str | None
    split_column: str | None
    group_column: str | None


def column_roles(header: Sequence[str], **columns: Unpack[ColumnNames]) -> tuple[dict[str, int], dict[str, int]]:
    """Which column is the path, label, split or group, and which columns are concepts.

    Only columns that are called path, label, split or group, in any case of letters, or that are named as such, are no
    concepts. A column that is called like a role for which another one is named is left out.
    """
    check_unique(header)
    places = {name: j for j, name in enumerate(header)}
    fields = {role: find_named(name, places, f"the column of the {role}") for role, name in _named(columns).items()}
    if len(set(fields.values())) < len(fields):
        raise ChoqolateError(f"Expected one column for each of {', '.join(fields)}, but one is named twice.")
    named, chosen = set(fields), set(fields.values())
    concepts: dict[str, int] = {}
    for name, j in places.items():
        role = name.strip().lower()
        if j in chosen or role in named:
            continue
        if role in fields:
            both = listed([header[fields[role]], name])
            raise ChoqolateError(f"expected one column for the {role}, got {both}: drop or rename one of them")
        if role in ROW_COLUMNS:
            fields[role] = j
        elif role not in _INDEX_COLUMNS:
            concepts[name] = j
    if not concepts:
        raise ChoqolateError(f"expected a column for each concept, got the columns {listed(header)} only")
    if are_numbers(list(concepts)):
        raise ChoqolateError(
            f"expected the names of the columns in the first line, got {listed(header)}: add a line that names them"
        )
    return fields, concepts


def _named(columns: Mapping[str, Any]) -> dict[str, str]:
    """The name of the column for each role that was given one."""
    for argument in columns:
        if argument not in ColumnNames.__annotations__:
            raise TypeError(f"got an unexpected keyword argument {argument!r}")
    return {argument.removesuffix("_column"): name for argument, name in columns.items() if name is not None}


def told_roles(header: Sequence[str], fields: Mapping[str, int], concepts: Mapping[str, int]) -> str:
    """What the columns of a table were taken as, on one line.

    >>> told_roles(["label", "site", "sea"], {"label": 0, "group": 1}, {"sea": 2})
    "label: column 'label' · group: column 'site' · 1 concept"
    """
    parts = [f"{role}: column {header[fields[role]]!r}" for role in ROW_COLUMNS if role in fields]
    parts.append(counted(len(concepts), "concept"))
    rest = [name for j, name in enumerate(header) if j not in {*fields.values(), *concepts.values()} and name]
    return " · ".join([*parts, f"left out: {listed(rest)}"] if rest else parts)


def warn_of_likely_roles(path: Path, roles: Collection[str], concepts: Iterable[str]) -> None:
    """Warn of concepts that are called as paths, labels or groups often are, where the table has none of these."""
    for name in concepts:
        role = _ALIASES.get(name.strip().lower())
        if role is not None and role not in roles:
            message = f"The column {name!r} of {path} is taken as a concept. {_proposal(role, name)}."
            warnings.warn(message, ChoqolateWarning, stacklevel=2)


def check_groups(groups: Iterable[str], n_rows: int, column: str) -> None:
    """Refuse a measurement as groups: many numbers, of which hardly two rows have the same.

    Args:
        groups: the different ones.
        n_rows: how many rows have a group.
        column: name of the column.
    """
    names = list(groups)
    if len(names) > max(_MOST_NUMBERED_GROUPS, n_rows / 2) and all(map(_is_number, names)):
        raise ChoqolateError(
            f"Expected groups of several rows each, but the column {column!r} has {len(names):,} different numbers in "
            f"{n_rows:,} rows. If it is a concept, call it otherwise; if it is the group, write a range or a name in "
            "place of each number."
        )


def are_numbers(names: Sequence[str]) -> bool:
    """Whether a header is no header but a row of scores."""
    return all(_is_number(name) for name in names) and not all(name.isdigit() for name in names)


def is_reserved(name: str) -> bool:
    """Whether a column of this name would not be read as a concept, or as one only with a warning."""
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
        role = _ALIASES.get(concept.strip().lower(), "label")
        proposal = f"{_proposal(role, concept)}, else drop it (known: {', '.join(ROW_COLUMNS)})"
        if isinstance(cell, str) and _is_number(cell.replace(",", ".")):
            proposal = "Write decimals with a point"
        raise ChoqolateError(
            f"Expected numbers in every column of a concept, but column {concept!r} has {str(cell)!r} in {where} "
            f"{row}. {proposal}."
        )


def _proposal(role: str, name: str) -> str:
    return (
        f"If it is the {role}, call it {role!r}, or name it with {role}_column={name!r} "
        f"(--{role}-column {shlex.quote(name)})"
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
    cells = values.tolist()
    try:
        return pa.array(cells, pa.string())
    except UnicodeEncodeError:
        return pa.array([value and printable(value) for value in cells], pa.string())


def plain_cell(cell: Any) -> Any:
    """Bytes as text; and whole numbers that became 1.0 because others are missing, as 1."""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "backslashreplace")
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell
