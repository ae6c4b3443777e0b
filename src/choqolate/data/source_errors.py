"""What may be wrong with a file of scores before its content is known, in errors that name it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from choqolate._util.files import check_regular
from choqolate._util.memory import naming_memory
from choqolate._util.text import printable
from choqolate.errors import ChoqolateError

AGAIN = "compute the scores again, or take the file from a backup"


def check_name(path: Path) -> None:
    """Raise an error if a name is no UTF-8: Arrow cannot open such a file."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ChoqolateError(
            f"Expected a name in UTF-8 for a table of concept scores, but {printable(str(path))} is none. Rename it."
        ) from None


def check_source(path: Path) -> None:
    """Raise an error if there is no such file, or nothing in it."""
    check_name(path)
    check_regular(path, "a table of concept scores")
    if not path.is_file():
        came = "a folder" if path.is_dir() else "not there"
        raise ChoqolateError(f"expected a table of concept scores, {path} is {came}: check the name")
    if path.stat().st_size == 0:
        raise ChoqolateError(f"expected a table of concept scores, {path} is empty: {AGAIN}")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in every error about its content."""
    try:
        with naming_memory(path, "Use a machine with more memory, or read a .parquet file block by block (--stream)."):
            yield
    except PermissionError:
        raise ChoqolateError(f"expected a file that can be read, {path} may not be: change its permissions") from None
    except ChoqolateError as error:
        raise error if str(path) in str(error) else ChoqolateError(f"{path}: {error}") from None
