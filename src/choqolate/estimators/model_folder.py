"""A fitted model as a folder: ``config.json`` to read, ``model.safetensors`` for the numbers. Nothing is executed.

A save replaces an older model in one step: the new numbers are written beside the old ones under a name that tells
their content, then ``config.json``, which says their checksum, is put in place by a rename, then the numbers take their
name. A reader finds the old model or the new one, whenever the power goes. Saves of several processes to one folder
wait for each other.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as read_tensors
from safetensors.torch import save as tensor_bytes
from sklearn.utils.validation import check_is_fitted

from choqolate._util.files import (
    check_folder,
    check_new_folder,
    check_regular,
    naming_disk_errors,
    rename_file,
    write_bytes,
)
from choqolate._util.folder_lock import locked
from choqolate._util.json_files import json_bytes, parse_json, read_json
from choqolate._util.leftovers import is_leftover, remove_leftovers
from choqolate._util.memory import check_memory
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.estimators.model_document import (
    FORMAT,
    FORMAT_WITH_CHECKSUM,
    arrays_of_model,
    check_format,
    document_of_model,
    model_of,
)

CONFIG, TENSORS = "config.json", "model.safetensors"
_BEGIN = json_bytes({"format": FORMAT}, indent=2).removesuffix(b"\n}")
_NEXT = re.compile(r"model(-[0-9a-f]{64})?\.safetensors\.next")  # without a checksum before format version 6


def save(classifier: ChoqolateClassifier, path: str | PathLike[str]) -> None:
    """Write a fitted classifier, its edits included, to a folder (made if missing).

    Raises:
        ChoqolateError: if the folder is a file, or holds a ``config.json`` that is not a model's, or the disk is full.
    """
    check_is_fitted(classifier)
    folder = Path(path)
    check_target(folder)
    tensors = arrays_of_model(classifier)
    numbers = tensor_bytes(tensors)
    checksum = hashlib.sha256(numbers).hexdigest()
    config = document_of_model(classifier) | {"sha256": checksum}
    model_of(config, tensors)  # what cannot be loaded is not saved
    try:
        text = json_bytes(config, indent=2) + b"\n"
    except UnicodeEncodeError as error:
        raise ChoqolateError(f"expected names that can be written as UTF-8: {error}") from error
    with naming_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder) as alone:
            try:
                _finish(folder)
                write_bytes(_next_tensors(folder, checksum), numbers)
                write_bytes(folder / CONFIG, text)
                _finish(folder, checksum if alone else None)
            finally:
                if alone:
                    _sweep(folder)


def load(path: str | PathLike[str]) -> ChoqolateClassifier:
    """Read a classifier that :func:`save` wrote.

    Raises:
        ChoqolateError: if the folder is no model, is damaged or was changed, or comes from a newer version.
    """
    folder = Path(path)
    if folder.is_file():
        raise ChoqolateError(
            f"expected the folder of a model, {folder} is a file: give the folder that it was saved to"
        )
    try:
        return _load(folder)
    except ChoqolateError:  # a save in another process may have replaced one file between our reads of the two
        if not folder.is_dir():
            raise
        with locked(folder, exclusive=False):
            return _load(folder)


def _load(folder: Path) -> ChoqolateClassifier:
    config, sealed = _read_config(folder)
    try:
        check_format(config)
        if not sealed and config["format_version"] >= FORMAT_WITH_CHECKSUM:
            message = (
                f"{folder / CONFIG} has no checksum, so that changes go unnoticed. Save the model again to add one."
            )
            warnings.warn(message, ChoqolateWarning, stacklevel=3)
        return model_of(config, _read_numbers(folder, config["sha256"]))
    except ChoqolateError as error:
        raise ChoqolateError(f"{folder} is not a model that can be loaded: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, IndexError, OverflowError) as error:
        raise ChoqolateError(
            f"{folder} is not a model that can be loaded: {CONFIG} is incomplete or damaged "
            f"({type(error).__name__}: {error}); save the model again"
        ) from error


def _read_config(folder: Path) -> tuple[Any, bool]:
    """What ``config.json`` says, and whether it has a checksum, which is right then."""
    config = folder / CONFIG
    try:
        return read_json(config, f"the {CONFIG} of a model", "restore it from a backup, or save the model again")
    except FileNotFoundError as error:
        raise ChoqolateError(
            f"expected a model folder with {CONFIG} at {folder}, found none: check the path"
        ) from error
    except OSError as error:
        raise ChoqolateError(f"{config} cannot be read ({error.strerror or error}): save the model again") from error


def check_model_folder(path: str | PathLike[str]) -> None:
    """Find out before the work whether a model gets a folder of its own: new, empty, or with an earlier model.

    A save that was killed before there was a model does not count. ``save`` asks for less: it writes beside other
    files, but never over a ``config.json`` that is not a model's.

    Raises:
        ChoqolateError: if it is a file, holds other things, or cannot be written to.
    """
    check_new_folder(Path(path), "the model", lambda folder: (folder / CONFIG).exists() or _was_cut_short(folder))
    check_target(path)


def _was_cut_short(folder: Path) -> bool:
    """Whether all that a folder holds was left by a first save that was killed."""
    return all(_NEXT.fullmatch(entry.name) or is_leftover(entry) for entry in folder.iterdir())


def check_target(path: str | PathLike[str]) -> None:
    """Find out before the work, not after it, that a model cannot be saved to a folder."""
    folder = Path(path)
    check_folder(folder, "the model")
    config = folder / CONFIG
    if config.exists():
        check_regular(config, f"the {CONFIG} of a model")
        if not _is_ours(config.read_bytes()):
            raise ChoqolateError(f"{config} is not a model's and would be overwritten: choose another folder")


def _is_ours(config: bytes) -> bool:
    """Whether the content of a ``config.json`` is a model's, also a damaged one."""
    if config.startswith(_BEGIN):  # as it is written, so that a long one need not be parsed
        return True
    try:
        return bool(parse_json(config, CONFIG).get("format") == FORMAT)
    except (ChoqolateError, AttributeError):
        return False


def _next_tensors(folder: Path, checksum: str) -> Path:
    return folder / f"model-{checksum}.safetensors.next"


def _waiting_tensors(folder: Path, checksum: Any) -> Path | None:
    """Numbers of a checksum that have not taken their name yet, if there are any."""
    if isinstance(checksum, str) and (found := _next_tensors(folder, checksum)).is_file():
        return found
    earlier = folder / f"{TENSORS}.next"  # before format version 6
    return earlier if earlier.is_file() and _sha256(earlier) == checksum else None


def _named_tensors(folder: Path) -> Path | None:
    """The numbers that a folder's ``config.json`` names, if they have not taken their name yet."""
    if not any(map(_NEXT.fullmatch, os.listdir(folder))):
        return None
    try:
        return _waiting_tensors(folder, parse_json((folder / CONFIG).read_bytes(), CONFIG)["sha256"])
    except (FileNotFoundError, ChoqolateError, KeyError, TypeError):
        return None


def _finish(folder: Path, checksum: str | None = None) -> None:
    """Let the numbers that ``config.json`` names, by their checksum if it is known, take their name."""
    waiting = _named_tensors(folder) if checksum is None else _next_tensors(folder, checksum)
    if waiting is not None:
        rename_file(waiting, folder / TENSORS)


def _sweep(folder: Path) -> None:
    """Remove what saves left that were killed or failed, while no other one is under way."""
    remove_leftovers(folder)
    needed = _named_tensors(folder)
    for path in folder.iterdir():
        if _NEXT.fullmatch(path.name) and path != needed:
            path.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_numbers(folder: Path, checksum: Any) -> dict[str, torch.Tensor]:
    for find in (lambda: folder / TENSORS, lambda: _waiting_tensors(folder, checksum)):
        path = find()
        if path is None or not path.exists():
            continue
        check_regular(path, "the numbers of a model")
        check_memory(path, 2 * path.stat().st_size)  # its content, and the arrays in it
        numbers = path.read_bytes()
        if hashlib.sha256(numbers).hexdigest() == checksum:
            try:
                return read_tensors(numbers)
            except SafetensorError as error:
                raise ChoqolateError(f"{path.name} is not a safetensors file ({error})") from error
    if not (folder / TENSORS).exists():
        raise ChoqolateError(f"{TENSORS} is missing: copy the whole folder")
    raise ChoqolateError(f"{TENSORS} is truncated or not the one that {CONFIG} names: copy the folder again")
