"""The files of the page, read once: a request can name one of these and nothing else."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from choqolate.errors import ChoqolateError

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


class PageFile(NamedTuple):
    """A file as it is sent.

    Attributes:
        content: its bytes.
        kind: its content type.
        tag: that tells its content apart from another one.
    """

    content: bytes
    kind: str
    tag: str


def read_page(folder: Path) -> dict[str, PageFile]:
    """All files of a page by their paths, with slashes; ``""`` stands for ``index.html``.

    Raises:
        ChoqolateError: if the folder holds no page.
    """
    files = {
        file.relative_to(folder).as_posix(): _page_file(file)
        for file in sorted(folder.rglob("*"))
        if file.suffix in TYPES and file.is_file()
    }
    if "index.html" not in files:
        raise ChoqolateError("Expected the page of the studio, but it is not installed. Install choqolate again.")
    return {"": files["index.html"], **files}


def entity_tag(content: bytes) -> str:
    """A tag that tells content apart from any other, as the header ETag has it."""
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def _page_file(file: Path) -> PageFile:
    content = file.read_bytes()
    return PageFile(content, TYPES[file.suffix], entity_tag(content))
