"""Files that survive a power cut: written under a temporary name, flushed to the disk, then renamed."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from choqolate._util.leftovers import is_leftover, remove_leftovers_of, temporary_name
from choqolate._util.text import as_size
from choqolate.errors import ChoqolateError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_WRITTEN = (*_NO_ROOM, errno.EIO, errno.EROFS)


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A temporary path to write to; it takes the target's name when the block ends without an error.

    A reader finds the old file or the new one, never half. What a killed process left of such a file is removed.

    Raises:
        ChoqolateError: if the disk is full or fails.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "words.txt"
    >>> with replacing(target) as temporary:
    ...     _ = temporary.write_text("sea")
    >>> target.read_text(), len(list(target.parent.iterdir()))
    ('sea', 1)
    """
    temporary = temporary_name(target)
    try:
        with naming_disk_errors(target, temporary):
            target.parent.mkdir(parents=True, exist_ok=True)
            remove_leftovers_of(target)
            yield temporary
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(temporary, target)
            sync_folder(target.parent)
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def replacing_folder(target: Path) -> Iterator[Path]:
    """A new folder to fill; it takes the target's name, and place, when the block ends without an error.

    The old folder is renamed before it is removed. If the power goes between the two renames, the next call gives it
    its name back. What a killed process left of such folders is removed.

    Raises:
        ChoqolateError: if the disk is full or fails.
    """
    aside = target.with_name(f".{target.name}.replaced")
    with _temporary_folder(target) as temporary:
        if aside.exists():
            if target.exists():
                shutil.rmtree(aside)
            else:
                os.rename(aside, target)
        yield temporary
        if target.exists():
            os.rename(target, aside)
        os.rename(temporary, target)
        sync_folder(target.parent)
        shutil.rmtree(aside, ignore_errors=True)


def write_new_folder(target: Path, fill: Callable[[Path], None]) -> Path:
    """Fill a new folder and give it a name, or the next free one of ``name-2``, ``name-3``, ...

    Nothing is overwritten, also if several processes do the same at the same time, and no folder of such a name is ever
    seen half full.

    Args:
        target: the name to take if it is free.
        fill: writes to the folder that it is given.

    Returns:
        The name that was taken.

    Raises:
        ChoqolateError: if the disk is full or fails.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> def fill(folder):
    ...     _ = (folder / "words.txt").write_text("sea")
    >>> write_new_folder(place / "edited", fill).name, write_new_folder(place / "edited", fill).name
    ('edited', 'edited-2')
    """
    with _temporary_folder(target) as temporary:
        fill(temporary)
        names = (target if n == 1 else target.with_name(f"{target.name}-{n}") for n in itertools.count(1))
        taken = next(name for name in names if _take_name(temporary, name))
        sync_folder(target.parent)
    return taken


def _take_name(folder: Path, name: Path) -> bool:
    """Rename a folder, unless something has that name; an empty folder is replaced."""
    try:
        os.rename(folder, name)
    except OSError:
        if not os.path.lexists(name):
            raise
        return False
    return True


@contextmanager
def _temporary_folder(target: Path) -> Iterator[Path]:
    """A folder beside a target, gone at the end unless it was renamed; those of killed processes go too."""
    temporary = temporary_name(target)
    try:
        with naming_disk_errors(target, temporary):
            target.parent.mkdir(parents=True, exist_ok=True)
            remove_leftovers_of(target)
            temporary.mkdir()
            yield temporary
    except ChoqolateError as error:  # for whoever reads it, the folder has its name already
        if str(temporary) not in str(error):
            raise
        raise ChoqolateError(str(error).replace(str(temporary), str(target))) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def naming_disk_errors(target: Path, temporary: Path | None = None) -> Iterator[None]:
    """Turn the errors of a disk that is full or fails into sentences that name the file.

    Args:
        target: what is written.
        temporary: what it is written to meanwhile.

    Raises:
        ChoqolateError: with what was needed and what is free.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _NOT_WRITTEN:
            raise
        if error.errno not in _NO_ROOM:
            raise ChoqolateError(f"{target} cannot be written: {error.strerror}. Choose another place.") from error
        needed = f" after {as_size(n)}" if (n := _size(temporary)) else ""
        raise ChoqolateError(
            f"{target} cannot be written: {os.strerror(error.errno or 0)}{needed}, and {_free_space(target)} free. "
            "Make room or choose another place."
        ) from error


def _size(path: Path | None) -> int:
    """Bytes in a file or folder; 0 if there is none."""
    if path is None:
        return 0
    with suppress(OSError):
        return sum(one.lstat().st_size for one in (path, *path.rglob("*")) if not one.is_dir())
    return 0


def _free_space(target: Path) -> str:
    above = next(folder for folder in target.absolute().parents if folder.exists())
    with suppress(OSError):
        return f"{as_size(shutil.disk_usage(above).free)} are"
    return "nothing is"


def read_text(path: Path, what: str) -> str:
    """The text of a file in UTF-8; errors name what was expected, such as ``"a word list"``."""
    check_regular(path, what)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ChoqolateError(f"Expected {what} in UTF-8, but {path} is not. Save it as UTF-8.") from None
    except OSError as error:
        reason = error.strerror or error
        raise ChoqolateError(f"Expected {what}, but {path} cannot be read: {reason}. Check the name.") from None
    if "\0" in text:
        raise ChoqolateError(f"Expected {what}, but {path} is a binary file. Name a text file.")
    return text


def write_bytes(target: Path, content: bytes) -> None:
    """Replace a file's content in one step."""
    with replacing(target) as temporary:
        temporary.write_bytes(content)


def rename_file(path: Path, target: Path) -> None:
    """Let a file that is on the disk take a name, and place, for good."""
    os.replace(path, target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to the same file, by whatever names and links; neither has to exist.

    >>> same_file(Path("scores.csv"), Path("data/../scores.csv"))
    True
    """
    try:
        return one.samefile(other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)  # resolve() fails where links lead in a circle


def check_output(target: Path) -> None:
    """Find out before the work, not after it, that a file cannot be written. Nothing is made yet."""
    if target.is_dir():
        raise ChoqolateError(f"expected a file to write to, {target} is a folder: choose another name")
    check_parent(target)


def check_figure(target: Path) -> None:
    """Find out before the work that a figure cannot be written: its name must say a format that can be drawn."""
    if target.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ChoqolateError(f"Expected a figure that ends in .png, .svg or .pdf, but got {target}. Change its name.")
    check_output(target)


def check_parent(target: Path) -> None:
    """A file or folder can be made at a place if the nearest folder above it that exists can be written to."""
    _check_writable(target, target.absolute().parents)


def check_folder(folder: Path, what: str) -> None:
    """Find out before the work, not after it, that files cannot be written to a folder. Nothing is made yet.

    Args:
        folder: new or not.
        what: what it is for, such as ``"the model"``.

    Raises:
        ChoqolateError: if it is a file, cannot be made, or cannot be written to.
    """
    if folder.exists() and not folder.is_dir():
        raise ChoqolateError(f"Expected a folder for {what}, but {folder} is a file. Choose another name.")
    _check_writable(folder, [folder.absolute(), *folder.absolute().parents])


def _check_writable(target: Path, folders: Sequence[Path]) -> None:
    """The first of some folders that exists must be one, and must take the target."""
    above = next(folder for folder in folders if folder.exists())
    if not above.is_dir():
        raise ChoqolateError(f"expected a folder to write {target.name} to, {above} is a file: choose another path")
    if not os.access(above, os.W_OK):
        raise ChoqolateError(f"expected a folder that can be written to, {above} is read-only: choose another path")


def check_new_folder(folder: Path, what: str, ours: Callable[[Path], bool] = lambda _: False) -> None:
    """Find out before the work whether a folder may be written to: new, empty, or one of an earlier run.

    What a killed process was writing to it does not count.

    Args:
        folder: that something is to be written to. Nothing is made yet.
        what: what it is for, such as ``"the model"``.
        ours: whether a folder that is not empty was made by an earlier run.

    Raises:
        ChoqolateError: if it is a file, holds other things, or cannot be made or written to.
    """
    check_folder(folder, what)
    if folder.is_dir() and not all(map(is_leftover, folder.iterdir())) and not ours(folder):
        raise ChoqolateError(
            f"Expected a new or empty folder for {what}, but {folder} holds other things. Choose another one."
        )


def check_regular(path: Path, what: str) -> None:
    """Refuse to read a pipe, socket or device, which might never end. A link to a file is fine.

    What is missing, or a folder, passes: opening it says so.

    Args:
        path: that is to be read.
        what: what was expected, such as ``"a word list"``.

    Raises:
        ChoqolateError: if it is neither a file nor a folder.
    """
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except (OSError, ValueError):
        return
    if kind not in (stat.S_IFREG, stat.S_IFDIR):
        came = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}.get(kind, "device")
        raise ChoqolateError(f"Expected {what} in a regular file, but {path} is a {came}. Save its content to a file.")
