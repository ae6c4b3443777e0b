"""Which files below a folder are images. Made for half a million of them: one pass, and no look at a file twice."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from heapq import heappop, heappush

from choqolate.datasets.copy_search import is_folder

# fmt: off
IMAGE_ENDINGS = frozenset((
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".dib", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm",
    ".pnm", ".tga", ".avif", ".jp2", ".ico",
))
# fmt: on
EMBEDDINGS = "embeddings.json"
"""A folder with a file of this name holds what was made of images: no images are looked for in it."""
_STARTS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*")
_BMP_HEADERS = (12, 40, 52, 56, 64, 108, 124)


@dataclass
class Found:
    """What a walk found.

    Attributes:
        paths: the images, relative to where it began, sorted.
        others: how many other files there are of each ending.
        unread: the folders that could not be read.
        again: the folders that were left out because they were found under another name.
    """

    paths: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    unread: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)


def find_images(root: str | os.PathLike[str]) -> Found:
    """All images below a folder.

    Hidden files and folders, ``__MACOSX`` and folders of embeddings are left out. Links to folders are followed, and
    every folder is visited once: where it lies, if that is below the root, otherwise through the link nearest to the
    root, and the first by name.
    """
    top = os.fspath(root)
    found, seen = Found(), set[str]()
    links = [(0, "", os.path.realpath(top))]
    while links:
        _, start, real = heappop(links)
        for prefix, target in _walk(top, start, real, found, seen):
            heappush(links, (prefix.count("/"), prefix, target))
    found.paths.sort()
    return found


def _walk(top: str, prefix: str, real: str, found: Found, seen: set[str]) -> list[tuple[str, str]]:
    """Add what is below a folder, without following links.

    Args:
        top: where the search began.
        prefix: of the folder from there, empty or ending in a slash.
        real: its path without links.
        found: takes what is found.
        seen: the folders that were visited, by their paths without links; takes those visited now.

    Returns:
        the links to folders, except to visited ones above them: for each a prefix, and the path without links.
    """
    links = []
    pending = [(prefix, real)]
    while pending:
        prefix, real = pending.pop()
        if real in seen:
            found.again.append(prefix.rstrip("/"))
            continue
        seen.add(real)
        try:
            with os.scandir(os.path.join(top, prefix)) as listing:
                entries = list(listing)
        except OSError:
            found.unread.append(prefix.rstrip("/"))
            continue
        if prefix and any(entry.name == EMBEDDINGS for entry in entries):
            continue
        for entry in entries:
            name = entry.name
            if name.startswith(".") or name == "__MACOSX":
                continue
            if is_folder(entry):
                if not entry.is_symlink():
                    pending.append((f"{prefix}{name}/", os.path.join(real, name)))
                    continue
                target = os.path.realpath(entry.path)
                if target not in seen or not _is_below(real, target):
                    links.append((f"{prefix}{name}/", target))
            elif is_image(entry):
                found.paths.append(prefix + name)
            else:
                found.others[_ending(name)] += 1
    return links


def _is_below(path: str, folder: str) -> bool:
    return os.path.join(path, "").startswith(os.path.join(folder, ""))


def list_images(folder: str | os.PathLike[str]) -> list[str]:
    """The names of the images that lie in a folder, by their endings, sorted."""
    with os.scandir(folder) as entries:
        return sorted(
            entry.name
            for entry in entries
            if _ending(entry.name) in IMAGE_ENDINGS and not entry.name.startswith(".") and _is_file(entry)
        )


def is_image(entry: os.DirEntry[str]) -> bool:
    """By its ending, otherwise by its first bytes; only files are opened, never pipes or devices.

    A link that leads nowhere counts by its ending: an image is missing, and should be reported.
    """
    if not _is_file(entry):
        return _ending(entry.name) in IMAGE_ENDINGS and entry.is_symlink() and not os.path.exists(entry.path)
    return _ending(entry.name) in IMAGE_ENDINGS or _starts_like_a_image(entry.path)


def sniff(start: bytes) -> bool:
    r"""Whether the first 32 bytes of a file are those of a JPEG, PNG, GIF, BMP, TIFF, WebP or AVIF image.

    >>> sniff(b"\xff\xd8\xff\xe0\x00\x10JFIF"), sniff(b"BMW and other cars")
    (True, False)
    """
    return (
        start.startswith(_STARTS)
        or (start[:4] == b"RIFF" and start[8:12] == b"WEBP")
        or (start[4:8] == b"ftyp" and start[8:12] in (b"avif", b"avis"))
        or (start[:2] == b"BM" and int.from_bytes(start[14:18], "little") in _BMP_HEADERS)
    )


def _starts_like_a_image(path: str) -> bool:
    try:
        with open(path, "rb", buffering=0) as file:
            return sniff(file.read(32))
    except OSError:
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _ending(name: str) -> str:
    """``.jpg`` in small letters; empty if there is none."""
    dot = name.rfind(".")
    return name[dot:].lower() if dot > 0 else ""
