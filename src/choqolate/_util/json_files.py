"""JSON documents: read with care, and written with a checksum that tells whether they still are what was written.

The checksum is the CRC-32 of the text in which the checksum itself is empty. It finds every accident that changes up
to four bytes in a row, and any other one but for one in four billion. It is no signature: who changes a document on
purpose can also change the checksum.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from choqolate._util.files import check_regular
from choqolate._util.text import capital
from choqolate.errors import ChoqolateError

CHECKSUM = "checksum"
"""The name of the checksum in a document. It comes before any text that somebody has chosen."""

_TOO_DEEP = "it is nested too deeply."
_EMPTY = f'"{CHECKSUM}": ""'
_LARGEST = 1 << 64  # whole numbers beyond fit into no array
_NESTS = frozenset((dict, list))
_DEEPEST = 100  # levels; what walks through a document takes a few frames of the stack for each


def parse_json(content: bytes | str, name: str, *, large_numbers: bool = False) -> Any:
    """Parse JSON that may come from a stranger.

    Args:
        content: UTF-8, with or without a byte order mark.
        name: what to call it in messages.
        large_numbers: read whole numbers that are too large as the largest that are taken; by default, they are an
            error.

    Raises:
        ChoqolateError: if it is not JSON, is nested too deeply, names something twice in one object, or has a number
            that is not finite or too large. The message is one sentence, to be followed by what to do.

    >>> parse_json('{"rate": 1e-2}', "config.json")
    {'rate': 0.01}
    >>> parse_json('{"rate": 1e999}', "config.json")
    Traceback (most recent call last):
    choqolate.errors.ChoqolateError: config.json is not valid JSON: the number 1e999 is too large.
    """
    try:
        text = content.decode("utf-8-sig") if isinstance(content, bytes) else content.removeprefix("\ufeff")
        whole = _cut_off if large_numbers else _whole
        document = json.loads(
            text, parse_constant=_no_constant, parse_float=_finite, parse_int=whole, object_pairs_hook=_object
        )
        _check_depth(document)
        return document
    except UnicodeDecodeError:
        raise ChoqolateError(f"{name} is not valid JSON: it is not UTF-8 text.") from None
    except RecursionError:
        raise ChoqolateError(f"{name} is not valid JSON: {_TOO_DEEP}") from None
    except ChoqolateError as error:
        raise ChoqolateError(f"{name} is not valid JSON: {error}") from None
    except ValueError as error:
        raise ChoqolateError(f"{name} is not valid JSON: {error}.") from None


def read_json(path: Path, what: str, advice: str) -> tuple[Any, bool]:
    """Read a document from a file that may come from a stranger.

    Args:
        path: of the file.
        what: what was expected, such as ``"a file of edits"``.
        advice: what to do if the file is damaged, as a part of a sentence.

    Returns:
        The document, and whether it has a checksum, which is right then.

    Raises:
        ChoqolateError: as :func:`parse_json`; or if it is no regular file, or the checksum does not match.
        OSError: if the file cannot be read.
    """
    check_regular(path, what)
    content = path.read_bytes()
    try:
        document = parse_json(content, str(path))
    except ChoqolateError as error:
        raise ChoqolateError(f"{error} {capital(advice)}.") from None
    unchanged = is_unchanged(content, document)
    if unchanged is False:
        raise ChoqolateError(
            f"{path} is damaged, or was edited after it was saved: its checksum does not match. If you edited it on "
            f'purpose, delete the line "{CHECKSUM}" from it. If not, {advice}.'
        )
    return document, unchanged is not None


def json_bytes(document: Mapping[str, Any], *, indent: int | None = None) -> bytes:
    """Write a document as UTF-8, see :func:`with_checksum`.

    Args:
        document: what JSON can hold; ``{CHECKSUM: ""}`` stands where the checksum is to be.
        indent: as in :func:`json.dumps`; by default all is on one line.

    Raises:
        UnicodeEncodeError: if a text cannot be written as UTF-8.
        ValueError: if a number is not finite.

    >>> json_bytes({"format": "edits", "checksum": "", "edits": []})
    b'{"format": "edits", "checksum": "crc32 dd8d6ebc", "edits": []}'
    """
    return with_checksum(json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)).encode()


def with_checksum(text: str) -> str:
    """Fill in the checksum of a document if it has an empty one before all that somebody has chosen."""
    return text.replace(_EMPTY, f'"{CHECKSUM}": "{text_checksum(text)}"', 1)


def is_unchanged(content: bytes, document: Any) -> bool | None:
    """Whether a document is what was written; ``None`` if it has no checksum.

    Line ends and white space around the document do not count.

    Args:
        content: of the file.
        document: what :func:`parse_json` made of it.

    >>> content = json_bytes({"checksum": "", "temperature": 0.005})
    >>> is_unchanged(content, json.loads(content))
    True
    >>> edited = content.replace(b"0.005", b"0.05")
    >>> is_unchanged(edited, json.loads(edited))
    False
    """
    if not isinstance(document, dict) or CHECKSUM not in document:
        return None
    said = document[CHECKSUM]
    text = content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").strip()
    return said == text_checksum(text.replace(f'"{CHECKSUM}": "{said}"'.encode("utf-8", "replace"), _EMPTY.encode(), 1))


def text_checksum(text: str | bytes) -> str:
    """The checksum of a text, and its name.

    >>> text_checksum("123456789")
    'crc32 cbf43926'
    """
    return f"crc32 {zlib.crc32(text.encode() if isinstance(text, str) else text):08x}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ChoqolateError(f"{max(names, key=names.count)!r} stands twice in one object.")
    return found


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ChoqolateError(f"the number {_shortened(digits)} is too large.")
    return value


def _whole(digits: str) -> int:
    value = int(digits) if len(digits) < 30 else _LARGEST
    if abs(value) >= _LARGEST:
        raise ChoqolateError(f"the number {_shortened(digits)} is too large.")
    return value


def _cut_off(digits: str) -> int:
    value = int(digits[:30])
    return max(-_LARGEST, min(value, _LARGEST))


def _check_depth(document: Any) -> None:
    level = [document]
    for _ in range(_DEEPEST + 1):
        inner = [value for value in level if type(value) in _NESTS]
        if not inner:
            return
        level = list(chain.from_iterable(value.values() if type(value) is dict else value for value in inner))
    raise ChoqolateError(_TOO_DEEP)


def _no_constant(name: str) -> Any:
    raise ChoqolateError(f"{name} is not a number that JSON can hold.")


def _shortened(digits: str) -> str:
    return digits if len(digits) <= 20 else f"{digits[:12]}..."
