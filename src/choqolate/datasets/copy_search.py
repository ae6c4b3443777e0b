"""Finding a copy of a data set in the folder that a user gives, and reading its small text files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from choqolate.datasets.base import Dataset
from choqolate.errors import ChoqolateError


def find_copy(dataset: Dataset, root: Path, wanted: Sequence[str], has: Callable[[Path, str], bool]) -> Path:
    """The folder that has everything wanted: ``root`` itself, or the one folder in it that does.

    Args:
        dataset: for the message.
        root: where to look.
        wanted: what a copy has, by names that the message can use.
        has: tells whether a folder has one of them.
    """
    nearest, most = root, 0
    found = []
    for folder in folders_below(root, 1):
        present = sum(has(folder, name) for name in wanted)
        if present == len(wanted):
            if folder == root:
                return root
            found.append(folder)
        elif present > most:
            nearest, most = folder, present
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(folder.name for folder in found)
        raise ChoqolateError(f"expected one copy of {dataset.title} in {root}, got {len(found)}: give one of {names}")
    missing = [name for name in wanted if not has(nearest, name)]
    lacks = f"; {nearest} has all but {', '.join(missing)}" if most else ""
    raise not_found(dataset, root, wanted, lacks)


def not_found(
    dataset: Dataset, root: Path, wanted: Sequence[str], lacks: str = "", below: str = "in the folders in it"
) -> ChoqolateError:
    """The error for a folder that holds no copy."""
    return ChoqolateError(
        f"expected a copy of {dataset.title}: looked for {', '.join(wanted)} in {root} and {below}"
        f"{lacks or ', found none of them'}; the data set is {dataset.origin}"
    )


def folders_below(root: Path, depth: int) -> Iterator[Path]:
    """A folder and those below it, the nearest first, each level by name; hidden ones are left out.

    Where links lead to a folder twice, it comes twice, but what is in it does not.
    """
    level, seen = [root], set[str]()
    for remaining in range(depth, -1, -1):
        yield from level
        if remaining:
            places: dict[str, Path] = {}
            for folder in level:
                places.setdefault(os.path.realpath(folder), folder)
            level = [Path(path) for real in places if real not in seen for path in _subfolders(places[real])]
            seen.update(places)


def _subfolders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.path for entry in entries if not entry.name.startswith(".") and is_folder(entry))
    except OSError:
        return []


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder, or a link to one; a link in a circle is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def text_lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file that are not empty, with their numbers."""
    try:
        with open(file, encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                if line := line.strip():
                    yield number, line
    except UnicodeDecodeError:
        raise ChoqolateError(f"expected text (UTF-8) in {file}, got other bytes: get the file again") from None
    except OSError as error:
        raise ChoqolateError(f"expected a text file that can be read, got {file}: {error.strerror}") from None


def fields(file: Path, n: int, shape: str) -> Iterator[tuple[int, list[str]]]:
    """The lines of a text file, cut at spaces into ``n`` parts; ``shape`` shows in the message what a line is."""
    for number, line in text_lines(file):
        parts = line.split(maxsplit=n - 1)
        if len(parts) != n:
            raise ChoqolateError(f"expected '{shape}' in line {number} of {file}, got {line!r}")
        yield number, parts
