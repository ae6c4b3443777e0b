"""Tables of images: a CSV file with a column of paths, and labels, splits or groups beside it."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from choqolate._util.files import check_regular
from choqolate._util.memory import naming_memory
from choqolate._util.spreadsheet import from_cell
from choqolate._util.text import listed
from choqolate.data.column_roles import check_groups
from choqolate.data.manifest import Manifest
from choqolate.data.rows import COLUMN_NAMES
from choqolate.data.source_errors import naming
from choqolate.data.splits import SPLIT_NAMES, SPLITS
from choqolate.errors import ChoqolateError


@dataclass(frozen=True)
class Columns:
    """Some columns of a table: the cells of each as text, and the line that each row ends on."""

    cells: dict[str, list[str]]
    lines: list[int]


def read_csv(path: str | os.PathLike[str], root: str | os.PathLike[str] | None = None) -> Manifest:
    r"""The rows of a CSV file, in its order.

    The header names the columns, in small letters or capitals: the path is called path, image, file, filename,
    img_filename or image_path; the label, if there is one, label, class, y or target; then split, and group or groups.
    Other columns are ignored. The header also shows whether commas, semicolons or tabs stand between the cells.

    Args:
        path: the file, in UTF-8.
        root: the folder to which the paths are relative; the file's own folder if not given.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "photos.csv"
    >>> _ = file.write_text("Image;Class\nsea/1.jpg;duck\nwood/2.jpg;NA\n")
    >>> rows = read_csv(file)
    >>> rows.paths.tolist(), rows.labels.tolist(), rows.split
    (['sea/1.jpg', 'wood/2.jpg'], ['duck', 'NA'], None)
    """
    file = Path(path)
    folder = file.parent if root is None else Path(root)
    if root is not None and not folder.is_dir():
        raise ChoqolateError(
            f"Expected the folder to which the paths of {file} are relative, but {folder} is not a folder."
        )
    table = read_columns(file, COLUMN_NAMES, required=("path",))
    paths = [_as_here(written, folder) for written in table.cells["path"]]
    turned = sum(new != old and "\\" in old for new, old in zip(paths, table.cells["path"], strict=True))
    _check_paths(paths, table.lines, file)
    known = {name: [cell.strip() for cell in cells] for name, cells in table.cells.items() if name != "path"}
    _check_splits(known.get("split", []), table.lines, file)
    groups = [group for group in known.get("group", []) if group]
    with naming(file):
        check_groups(set(groups), len(groups), "group")
    return Manifest(
        folder,
        np.array(paths, dtype=object),
        labels=_objects(known.get("label")),
        split=_objects(known.get("split")),
        groups=_objects(known.get("group")),
        classes=tuple(sorted({label for label in known.get("label", []) if label})),
        source="csv",
        notes=(f"backslashes were read as slashes in {turned} of the paths",) if turned else (),
    )


def read_columns(file: Path, wanted: Mapping[str, Sequence[str]], required: Sequence[str]) -> Columns:
    """The wanted columns of a CSV file, each under the first of its names that the header has.

    Args:
        file: commas, semicolons or tabs between the cells, quoted or not; UTF-8 with or without a mark.
        wanted: for each column the names it may have.
        required: the columns that must be there.
    """
    check_regular(file, "a CSV file")
    try:
        with naming_memory(file), open(file, encoding="utf-8-sig", newline="") as lines:
            return _read(lines, file, wanted, required)
    except UnicodeDecodeError:
        raise ChoqolateError(f"expected text in UTF-8, {file} has other bytes: save it as 'CSV UTF-8'") from None
    except OSError as error:
        raise ChoqolateError(f"expected a CSV file that can be read, got {file}: {error.strerror}") from None


def _read(text: TextIO, file: Path, wanted: Mapping[str, Sequence[str]], required: Sequence[str]) -> Columns:
    start, header = next(((n, line) for n, line in enumerate(text, 1) if line.strip()), (0, ""))
    if not header:
        raise ChoqolateError(f"expected a header and rows in {file}, the file is empty")
    separator, names = _header(header, wanted, file)
    places = {column: _place(names, accepted, file) for column, accepted in wanted.items()}
    for column in required:
        if places[column] is None:
            expected = f"a column called {' or '.join(wanted[column])}"
            advice = "rename one" if any(place is not None for place in places.values()) else "add a header"
            raise ChoqolateError(f"expected {expected} in {file}, got the columns {listed(names, 12)}: {advice}")
    kept = {column: place for column, place in places.items() if place is not None}
    cells: dict[str, list[str]] = {column: [] for column in kept}
    numbers = []
    reader = csv.reader(text, delimiter=separator, strict=True)
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != len(names):
                raise ChoqolateError(
                    f"expected {len(names)} cells as in the header of {file}, line {start + reader.line_num} has "
                    f"{len(row)}: quote cells that contain {separator!r}"
                )
            if any("\0" in row[place] for place in kept.values()):
                raise ChoqolateError(f"expected text in {file}, line {start + reader.line_num} has the character NUL")
            for column, place in kept.items():
                cells[column].append(from_cell(row[place]))
            numbers.append(start + reader.line_num)
    except csv.Error as error:
        raise ChoqolateError(f"expected CSV in {file}, line {start + reader.line_num}: {error}") from None
    if not numbers:
        raise ChoqolateError(f"expected rows below the header of {file}, there are none")
    return Columns(cells, numbers)


def _header(line: str, wanted: Mapping[str, Sequence[str]], file: Path) -> tuple[str, list[str]]:
    """The separator that finds most of the wanted columns, and the names between."""
    accepted = {name for names in wanted.values() for name in names}

    def found(separator: str) -> tuple[int, int]:
        try:
            names = _cut(line, separator)
        except csv.Error:  # without this separator a name is too long
            return -1, 0
        return sum(name.lower() in accepted for name in names), len(names)

    try:
        separator = max((",", ";", "\t"), key=found)
        return separator, _cut(line, separator)
    except csv.Error as error:
        raise ChoqolateError(f"expected the names of columns in the first line of {file}: {error}") from None


def _cut(line: str, separator: str) -> list[str]:
    return [name.strip() for name in next(csv.reader([line], delimiter=separator))]


def _place(names: Sequence[str], accepted: Sequence[str], file: Path) -> int | None:
    small = [name.lower() for name in names]
    for name in accepted:
        if small.count(name.lower()) > 1:
            raise ChoqolateError(f"expected one column {name!r} in {file}, got {small.count(name.lower())}: drop one")
        if name.lower() in small:
            return small.index(name.lower())
    return None


def _as_here(written: str, folder: Path) -> str:
    """A path as this system writes it: without a leading ``./``, and with slashes if it came from Windows."""
    path = written
    if "\\" in path and os.sep == "/" and not os.path.lexists(os.path.join(folder, path)):
        path = path.replace("\\", "/")
    roundabout = any(part in (".", "..", "") for part in path.removeprefix("/").split("/"))
    return os.path.normpath(path) if path.strip() and roundabout else path


def _check_paths(paths: Sequence[str], lines: Sequence[int], file: Path) -> None:
    seen: dict[str, int] = {}
    for path, line in zip(paths, lines, strict=True):
        if not path.strip():
            raise ChoqolateError(f"expected a path in line {line} of {file}, the cell is empty")
        if path in seen:
            raise ChoqolateError(
                f"expected every image once in {file}, {path!r} stands in line {seen[path]} and in line {line}: "
                "drop one"
            )
        seen[path] = line


def _check_splits(splits: Sequence[str], lines: Sequence[int], file: Path) -> None:
    for name in dict.fromkeys(splits):
        if name and name.lower() not in SPLIT_NAMES:
            line = lines[splits.index(name)]
            raise ChoqolateError(
                f"expected a split called {', '.join(SPLITS)} in line {line} of {file}, got {name!r}: rename it"
            )


def _objects(cells: Sequence[str] | None) -> np.ndarray | None:
    return None if cells is None else np.array(cells, dtype=object)
