"""How tables of concept scores are kept in files: one Parquet file, or any table with a column for each concept."""

from __future__ import annotations

import csv
import mmap
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.csv

from choqolate._util.files import check_output, replacing
from choqolate._util.spreadsheet import as_cell, from_cell
from choqolate._util.text import listed
from choqolate.data.column_roles import (
    ROW_COLUMNS,
    ColumnNames,
    are_numbers,
    check_cells,
    check_groups,
    column_roles,
    is_reserved,
    text_array,
    told_roles,
    warn_of_likely_roles,
)
from choqolate.data.parquet_reader import ParquetReader
from choqolate.data.score_file import ScoreFile
from choqolate.data.score_writer import ScoreWriter
from choqolate.data.scores import ConceptScores
from choqolate.data.source_errors import check_name, check_source, naming
from choqolate.errors import ChoqolateError, ChoqolateWarning

_MOST_COLUMNS = 200_000  # of a CSV file, which is read as a whole; Parquet has no limit
_HEADER_CHARACTERS = 1 << 22  # where the separator is looked for


def read(path: Path, **columns: Unpack[ColumnNames]) -> ConceptScores:
    """Read a table from a ``.parquet`` or ``.csv`` file."""
    reader = _by_suffix(path, {".parquet": _read_parquet, ".csv": _read_csv})
    table: ConceptScores = reader(path, **columns)
    return table


def describe_columns(path: Path, **columns: Unpack[ColumnNames]) -> str:
    """What the columns of a file are taken as, on one line; empty for a Parquet file that we wrote.

    Args:
        path: of a ``.parquet`` or ``.csv`` file.
        **columns: as for :meth:`ConceptScores.load`.
    """
    if path.suffix.lower() == ".parquet":
        return ParquetReader(path, **columns).told_roles
    _, _, header = csv_header(path)
    return told_roles(header, *column_roles(header, **columns))


def write(path: Path, table: ConceptScores) -> None:
    """Write a table to a ``.parquet`` or ``.csv`` file, under a temporary name first."""
    writer = check_target(path, table.concepts)
    writer(path, table)
    if writer is _write_csv and table.provenance.labels_from is not None:
        warnings.warn(
            f"{path} does not say what its labels are ({table.provenance.labels_from}). Save the table as .parquet to "
            "keep this information.",
            ChoqolateWarning,
            stacklevel=3,
        )


def check_target(path: Path, concepts: Sequence[str]) -> Any:
    """The writer for a file; an error if these concepts could not be written to it."""
    writer = _by_suffix(path, {".parquet": _write_parquet, ".csv": _write_csv})
    check_name(path)
    check_output(path)
    reserved = [name for name in concepts if name != name.strip() or is_reserved(name)]
    reserved += concepts if are_numbers(concepts) else []
    if reserved and writer is _write_csv:
        raise ChoqolateError(
            f"expected concepts that a CSV file can name, {listed(reserved)} would be read as something else: save the "
            "table as .parquet, or rename the concept"
        )
    return writer


def _by_suffix(path: Path, choices: dict[str, Any]) -> Any:
    suffix = path.suffix.lower()
    if suffix not in choices:
        raise ChoqolateError(f"expected a file that ends in {' or '.join(choices)}, got {path}: rename or convert it")
    return choices[suffix]


def _read_parquet(path: Path, **columns: Unpack[ColumnNames]) -> ConceptScores:
    return ScoreFile(path, **columns).load()


def _write_parquet(path: Path, table: ConceptScores) -> None:
    about = {"classes": table.classes, "spurious": table.spurious, "provenance": table.provenance}
    with ScoreWriter(path, table.concepts, **about) as writer:
        writer.add(table)


def _write_csv(path: Path, table: ConceptScores) -> None:
    columns: dict[str, Any] = {}
    for name, attribute in ROW_COLUMNS.items():
        if getattr(table, attribute) is not None:
            texts = text_array(getattr(table, attribute), len(table)).to_pylist()
            columns[name] = pa.array([text and as_cell(text) for text in texts], pa.string())
    for j, name in enumerate(table.concepts):
        columns[as_cell(name)] = pa.array(table.scores[:, j].astype(np.float64))
    with replacing(path) as temporary:
        pa.csv.write_csv(pa.table(columns), temporary)
        if _has_nul(temporary):
            raise ChoqolateError(
                "expected names without the character NUL, which no CSV file can hold: save as .parquet"
            )


def _read_csv(path: Path, **columns: Unpack[ColumnNames]) -> ConceptScores:
    check_source(path)
    with naming(path):
        return ConceptScores(**_csv_fields(path, columns))


def _csv_fields(path: Path, columns: ColumnNames) -> dict[str, Any]:
    try:
        if _has_nul(path):  # Arrow would lose rows
            raise UnicodeDecodeError("utf-8", b"\0", 0, 1, "NUL")
        separator, lines, header = csv_header(path)
        fields, concepts = column_roles(header, **columns)
        types = [pa.string()] * len(header)
        for j in concepts.values():
            types[j] = pa.float64()
        content = _csv_cells(path, separator, lines, types)
        if content is None:
            content = _csv_cells(path, separator, lines, [pa.string()] * len(header)) or pa.table({})
            for name, j in concepts.items():
                check_cells(name, content.column(j).to_pylist(), "line", lines + 1)
            raise ChoqolateError(f"expected numbers as scores, {path} has others: write them as 0.25 or 2.5e-1")
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    except (pa.ArrowException, csv.Error) as error:
        if "straddles" in str(error):  # so Arrow says that it never came to the end of a row
            raise ChoqolateError(
                f"expected rows below the header of {path}, there are none, or a quote is not closed"
            ) from None
        raise ChoqolateError(f"expected a CSV file, {path} is another or damaged: {error}") from None
    known: dict[str, Any] = {
        ROW_COLUMNS[role]: list(map(from_cell, content.column(j).to_pylist())) for role, j in fields.items()
    }
    if "group" in fields:
        groups = [group for group in known["groups"] if group.strip()]
        check_groups(set(groups), len(groups), header[fields["group"]])
    warn_of_likely_roles(path, fields, concepts)
    scores = np.empty((len(content), len(concepts)))
    for position, j in enumerate(concepts.values()):
        scores[:, position] = content.column(j).to_numpy()
    return known | {"scores": scores, "concepts": tuple(concepts)}


def _csv_cells(path: Path, separator: str, lines: int, types: list[pa.DataType]) -> pa.Table | None:
    """The rows after the header, text as it is written; ``None`` where a cell is no number though it should be."""
    names = [str(j) for j in range(len(types))]
    uneven: list[Any] = []

    def stop(row: Any) -> str:
        uneven.append(row)
        return "error"

    try:
        return pa.csv.read_csv(
            path,
            pa.csv.ReadOptions(column_names=names, skip_rows_after_names=lines, block_size=1 << 24, use_threads=False),
            pa.csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=stop),
            pa.csv.ConvertOptions(column_types=dict(zip(names, types, strict=True)), null_values=[]),
        )
    except pa.ArrowInvalid as error:
        if uneven:
            row, text = uneven[0], uneven[0].text[:40]
            came = f"{row.actual_columns} in line {row.number} ({text!r} ...)"
            raise ChoqolateError(f"expected {row.expected_columns} cells as in the header, got {came}") from None
        if "invalid UTF8" in str(error):
            raise UnicodeDecodeError("utf-8", b"", 0, 1, str(error)) from None
        if "conversion error" in str(error):
            return None
        raise


def csv_header(path: Path) -> tuple[str, int, list[str]]:
    """The separator of a CSV file, the number of records up to the header, and the names of the columns.

    Raises:
        ChoqolateError: if it is no text, or has names that are too long or too many.
    """
    try:
        separator, lines, cells = _read_header(path)
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    except csv.Error as error:
        raise ChoqolateError(f"expected a CSV file, {path} is another or damaged: {error}") from None
    if len(cells) > _MOST_COLUMNS:
        raise ChoqolateError(
            f"Expected at most {_MOST_COLUMNS:,} columns in a CSV file, but {path} has {len(cells):,}. Save the table "
            "as .parquet."
        )
    return separator, lines, [from_cell(cell.strip()) for cell in cells]


def _read_header(path: Path) -> tuple[str, int, list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        first = re.match(r'[\r\n]*((?:"[^"]*"|[^\r\n])*)', file.read(_HEADER_CHARACTERS))
        unquoted = re.sub(r'"[^"]*"', "", first[1] if first else "")
        separator = max(",;\t", key=unquoted.count)  # the comma if there are as many
        file.seek(0)
        rows = enumerate(csv.reader(file, delimiter=separator), start=1)
        return separator, *next(((line, row) for line, row in rows if row), (0, []))


def _not_utf8(path: Path) -> ChoqolateError:
    return ChoqolateError(f'expected UTF-8 text, {path} is not: save it as "CSV UTF-8"')


def _has_nul(path: Path) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b"\0") >= 0
