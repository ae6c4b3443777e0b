"""How tables of concept scores are kept in files: one Parquet file, or any table with a column for each concept."""

from __future__ import annotations

import csv
import json
import math
import mmap
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from choqolate._util.checks import check_unique
from choqolate._util.files import check_output, replacing
from choqolate._util.text import listed, printable
from choqolate.data.rows import COLUMN_NAMES
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    from choqolate.data.scores import ConceptScores

FORMAT = 1
KEY = b"choqolate"
_COLUMNS = {"path": "paths", "label": "labels", "split": "split", "group": "groups"}  # in the file, in memory
_ALIASES = {alias: name for name, aliases in COLUMN_NAMES.items() for alias in aliases}
_INDEX_COLUMNS = ("", "unnamed: 0", "__index_level_0__")  # row numbers that pandas leaves behind
_HEADER_CHARACTERS = 1 << 22  # where the separator is looked for
_AGAIN = "compute the scores again, or take the file from a backup"


def read(path: Path) -> dict[str, Any]:
    """The fields of a :class:`~choqolate.data.scores.ConceptScores` from a ``.parquet`` or ``.csv`` file."""
    reader = _by_suffix(path, {".parquet": _read_parquet, ".csv": _read_csv})
    if not path.is_file():
        came = "a folder" if path.is_dir() else "not there"
        raise ChoqolateError(f"expected a table of concept scores, {path} is {came}: check the name")
    if path.stat().st_size == 0:
        raise ChoqolateError(f"expected a table of concept scores, {path} is empty: {_AGAIN}")
    try:
        fields: dict[str, Any] = reader(path)
    except PermissionError:
        raise ChoqolateError(f"expected a file that can be read, {path} may not be: change its permissions") from None
    return fields


def write(path: Path, table: ConceptScores) -> None:
    """Write a table to a ``.parquet`` or ``.csv`` file, under a temporary name first."""
    writer = check_target(path, table.concepts)
    with replacing(path) as temporary:
        writer(temporary, table)


def check_target(path: Path, concepts: Sequence[str]) -> Any:
    """The writer for a file; an error if these concepts could not be written to it."""
    writer = _by_suffix(path, {".parquet": _write_parquet, ".csv": _write_csv})
    check_output(path)
    reserved = [name for name in concepts if name != name.strip() or _is_reserved(name)]
    reserved += concepts if _are_numbers(concepts) else []
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


def _write_parquet(path: Path, table: ConceptScores) -> None:
    flat = pa.array(np.ascontiguousarray(table.scores).reshape(-1))
    lists = pa.list_(pa.field("element", flat.type, nullable=False), len(table.concepts))
    columns = [_text_array(getattr(table, attribute), len(table)) for attribute in _COLUMNS.values()]
    columns.append(pa.FixedSizeListArray.from_arrays(flat, type=lists))
    fields = [*(pa.field(name, pa.string()) for name in _COLUMNS), pa.field("scores", lists, nullable=False)]
    document = {
        "format": FORMAT,
        "concepts": table.concepts,
        "classes": [printable(name) for name in table.classes],
        "spurious": table.spurious,
        "provenance": table.provenance.as_dict(),
    }
    try:
        schema = pa.schema(fields, metadata={KEY: json.dumps(document, allow_nan=False).encode()})
    except (TypeError, ValueError) as error:
        raise ChoqolateError(f"expected a provenance that JSON can hold: {error}") from None
    pa.parquet.write_table(
        pa.table(columns, schema=schema),
        path,
        compression="zstd",
        use_dictionary=["label", "split", "group"],
        use_byte_stream_split=["scores.list.element"],  # a fifth smaller, and no slower
        write_page_checksum=True,
    )


def _read_parquet(path: Path) -> dict[str, Any]:
    try:
        content = pa.parquet.read_table(path, page_checksum_verification=True)
        names = content.column_names
    except PermissionError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0]
        raise ChoqolateError(f"expected a Parquet file, {path} is another or damaged ({reason}): {_AGAIN}") from None
    metadata = (content.schema.metadata or {}).get(KEY)
    listed_type = "scores" in names and _is_list(content.schema.field(names.index("scores")).type)
    if metadata is not None and listed_type:
        return _read_own(content, metadata, path)
    if listed_type:
        raise ChoqolateError(
            f"expected the names of the concepts in the metadata of {path}, they are lost: keep the schema metadata "
            f"when you rewrite the file, or write a column for each concept"
        )
    return _read_wide(content)


def _read_own(content: pa.Table, metadata: bytes, path: Path) -> dict[str, Any]:
    """A file of our own: text columns, and the scores as lists of one length."""
    damaged = f"expected readable metadata in {path}, they are damaged: {_AGAIN}"
    try:
        document = json.loads(metadata)
        version = int(document["format"])
    except (KeyError, TypeError, ValueError):
        raise ChoqolateError(damaged) from None
    if version > FORMAT:
        raise ChoqolateError(
            f"{path} was written by a newer choqolate (format {version}, this one reads {FORMAT}): update choqolate, "
            "or save the table as CSV with the newer one"
        )
    try:
        fields: dict[str, Any] = {name: list(document[name]) for name in ("concepts", "classes", "spurious")}
        fields["provenance"] = dict(document["provenance"])
    except (KeyError, TypeError, ValueError):
        raise ChoqolateError(damaged) from None
    column = content["scores"]
    blocks = [chunk.flatten() for chunk in column.chunks]
    n_rows, n_concepts = len(column), len(fields["concepts"])
    if column.null_count or sum(map(len, blocks)) != n_rows * n_concepts or any(block.null_count for block in blocks):
        raise ChoqolateError(f"expected {n_concepts} scores in each row of {path}, there are others: {_AGAIN}")
    arrays = [block.to_numpy() for block in blocks] or [np.empty(0, dtype=np.float32)]
    flat = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    fields["scores"] = flat.reshape(n_rows, n_concepts)
    for name, attribute in _COLUMNS.items():
        known = name in content.column_names and content[name].null_count < n_rows
        fields[attribute] = content[name].to_pylist() if known else None
    return fields


def _read_wide(content: pa.Table) -> dict[str, Any]:
    """A Parquet file with a column for each concept."""
    fields, concepts = _roles(content.column_names)
    types = [content.schema.field(j).type for j in concepts.values()]
    single = all(pa.types.is_float32(kind) or pa.types.is_float16(kind) for kind in types)
    scores = np.empty((len(content), len(concepts)), dtype=np.float32 if single else np.float64)
    for position, (name, j) in enumerate(concepts.items()):
        column = content.column(j)
        kind = column.type
        if pa.types.is_boolean(kind):
            column, kind = column.cast(pa.int8()), pa.int8()
        if pa.types.is_floating(kind) or pa.types.is_integer(kind):
            scores[:, position] = column.to_numpy()
        else:
            cells = column.to_pylist()
            _check_cells(name, cells)
            scores[:, position] = np.array(cells, dtype=np.float64)
    known: dict[str, Any] = {
        _COLUMNS[role]: [_plain(cell) for cell in content.column(j).to_pylist()] for role, j in fields.items()
    }
    return known | {"scores": scores, "concepts": tuple(concepts)}


def _write_csv(path: Path, table: ConceptScores) -> None:
    columns: dict[str, Any] = {}
    for name, attribute in _COLUMNS.items():
        if getattr(table, attribute) is not None:
            columns[name] = _text_array(getattr(table, attribute), len(table))
    for j, name in enumerate(table.concepts):
        columns[name] = pa.array(table.scores[:, j].astype(np.float64))
    pa.csv.write_csv(pa.table(columns), path)
    if _has_nul(path):
        raise ChoqolateError("expected names without the character NUL, which no CSV file can hold: save as .parquet")


def _read_csv(path: Path) -> dict[str, Any]:
    try:
        if _has_nul(path):  # Arrow would lose rows
            raise UnicodeDecodeError("utf-8", b"\0", 0, 1, "NUL")
        separator, lines, header = _header(path)
        fields, concepts = _roles(header)
        types = [pa.string()] * len(header)
        for j in concepts.values():
            types[j] = pa.float64()
        content = _csv_cells(path, separator, lines, types)
        if content is None:
            content = _csv_cells(path, separator, lines, [pa.string()] * len(header)) or pa.table({})
            for name, j in concepts.items():
                _check_cells(name, content.column(j).to_pylist(), "line", lines + 1)
            raise ChoqolateError(f"expected numbers as scores, {path} has others: write them as 0.25 or 2.5e-1")
    except UnicodeDecodeError:
        raise ChoqolateError(f'expected UTF-8 text, {path} is not: save it as "CSV UTF-8"') from None
    except (pa.ArrowException, csv.Error) as error:
        raise ChoqolateError(f"expected a CSV file, {path} is another or damaged: {error}") from None
    known: dict[str, Any] = {_COLUMNS[role]: content.column(j).to_pylist() for role, j in fields.items()}
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


def _header(path: Path) -> tuple[str, int, list[str]]:
    """The separator, the number of records up to the header, and the names of the columns."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        first = re.match(r'[\r\n]*((?:"[^"]*"|[^\r\n])*)', file.read(_HEADER_CHARACTERS))
        unquoted = re.sub(r'"[^"]*"', "", first[1] if first else "")
        separator = max(",;\t", key=unquoted.count)  # the comma if there are as many
        file.seek(0)
        rows = enumerate(csv.reader(file, delimiter=separator), start=1)
        lines, cells = next(((line, row) for line, row in rows if row), (0, []))
    return separator, lines, [cell.strip() for cell in cells]


def _has_nul(path: Path) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b"\0") >= 0


def _roles(header: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
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
        elif not _is_reserved(name):
            concepts[name] = j
    if not concepts:
        raise ChoqolateError(f"expected a column for each concept, got the columns {listed(header)} only")
    if _are_numbers(list(concepts)):
        raise ChoqolateError(
            f"expected the names of the columns in the first line, got {listed(header)}: add a line that names them"
        )
    return fields, concepts


def _are_numbers(names: Sequence[str]) -> bool:
    """Whether a header is no header but a row of scores."""
    return all(_is_number(name) for name in names) and not all(name.isdigit() for name in names)


def _is_reserved(name: str) -> bool:
    return name.strip().lower() in (*_ALIASES, *_INDEX_COLUMNS)


def _check_cells(concept: str, cells: Iterable[Any], where: str = "row", first: int = 0) -> None:
    """Name the first cell that is no finite number."""
    for row, cell in enumerate(cells, start=first):
        if _is_number(cell):
            continue
        if cell is None or cell != cell or str(cell).strip() == "":
            raise ChoqolateError(
                f"expected a score for every concept, {concept!r} has none in {where} {row}: fill it in"
            )
        proposal = f'if it is the label, call the column "label", else drop it (known: {", ".join(_COLUMNS)})'
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


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)


def _text_array(values: np.ndarray | None, n_rows: int) -> pa.Array:
    """A column of text; missing entries are null, and names that are no UTF-8 are spelled out."""
    if values is None:
        return pa.nulls(n_rows, pa.string())
    return pa.array([value and printable(value) for value in values.tolist()], pa.string())


def _plain(cell: Any) -> Any:
    """Bytes as text; and whole numbers that became 1.0 because others are missing, as 1."""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "backslashreplace")
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell
