"""The studio as one file, to be mailed or put on a static host."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from choqolate._util.files import write_bytes
from choqolate._util.text import counted
from choqolate.errors import ChoqolateError
from choqolate.report.model_page import check_page
from choqolate.studio.bundle import NAMES, Bundle, build_bundle
from choqolate.studio.one_page import PAGE, inline_page
from choqolate.studio.row_choice import ROWS
from choqolate.studio.thumbnails import SIDES, choose_side, make_thumbnails

if TYPE_CHECKING:
    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.classifier import ChoqolateClassifier

MOST_BYTES = 15_000_000  # of a file
ROOM_FOR_ROWS = 6_000_000  # bytes, beside a model that takes most of this
FEWEST_ROWS = 20  # below which a file is no use
_ENCODED = 4 / 3  # bytes of base64 for each byte


@dataclass(frozen=True)
class StudioFile:
    """What was written.

    Attributes:
        path: of the file.
        size: in bytes.
        rows: how many it holds.
        total: rows of the table.
        chosen: which rows these are, in words.
        audit: the rows that edits are judged on, in words.
        covered: the rows that are kept for the final check, in words.
        images: how many rows have a thumbnail.
        side: pixels of the longer side of thumbnails.
        unreadable: images that were found and could not be read.
    """

    path: Path
    size: int
    rows: int
    total: int
    chosen: str
    audit: str
    covered: str
    images: int
    side: int
    unreadable: int

    @property
    def megabytes(self) -> str:
        """The size in words."""
        return f"{self.size / 1e6:.1f} MB"


def export_studio(
    model: ChoqolateClassifier,
    table: ConceptScores,
    path: str | os.PathLike[str],
    *,
    rows: int = ROWS,
    images: str | os.PathLike[str] | None = None,
    names: tuple[str, str] = NAMES,
    title: str | None = None,
    most_bytes: int | None = None,
    page: Path = PAGE,
    verbose: bool = False,
) -> StudioFile:
    """Write the studio of a model as one HTML file that needs nothing but itself.

    If the file would be larger than ``most_bytes``, thumbnails become smaller, then there are fewer rows; the file says
    so. The weights of a large vocabulary may take more than that alone: without a limit of yours, the file is then as
    large as they are and has room for a few rows.

    Args:
        model: a fitted classifier.
        table: scores of the model's concepts; labels, split, groups and paths are optional.
        path: of the file, which ends in ``.html``.
        rows, images, names, title: see :func:`~choqolate.studio.bundle.build_bundle`.
        most_bytes: the largest size; by default 15 MB, or more if the model alone takes more than 9 MB.
        page: the folder of the page.
        verbose: show progress on stderr.

    Raises:
        ChoqolateError: if the path does not end in ``.html``, the table lacks concepts of the model, or the model alone
            is too large for a file.

    >>> import tempfile
    >>> import numpy as np
    >>> from choqolate import ConceptScores, fit_scores
    >>> scores = np.random.default_rng(0).random((40, 3))
    >>> table = ConceptScores(scores, ["sea", "oak", "crest"], labels=["duck", "owl"] * 20)
    >>> written = export_studio(fit_scores(table, epochs=5), table, Path(tempfile.mkdtemp()) / "audit.html")
    >>> written.rows, written.chosen, written.size < 15_000_000
    (40, 'All 40 rows of the table.', True)
    """
    target = Path(path)
    check_page(target)
    bundle = build_bundle(model, table, rows=rows, images=images, names=names, title=title, verbose=verbose)
    bundle, thumbnails, side, content = _fitting(bundle, page, most_bytes or _room(bundle, page), verbose)
    write_bytes(target, content)
    made = sum(one is not None for one in thumbnails)
    told = bundle.document["rows"]
    return StudioFile(
        path=target,
        size=len(content),
        rows=bundle.loaded,
        total=told["total"],
        chosen=told["chosen"],
        audit=told["audit"],
        covered=told["covered"],
        images=made,
        side=side,
        unreadable=sum(file is not None for file in bundle.rows.files(0, bundle.loaded)) - made,
    )


def _fitting(
    bundle: Bundle, page: Path, most_bytes: int, verbose: bool
) -> tuple[Bundle, Sequence[bytes | None], int, bytes]:
    """A bundle, its thumbnails, their side, and the file of them, which is not too large."""
    asked, sides = bundle.loaded, SIDES
    why = f"Fewer than {counted(asked, 'row')}, so that the file stays under {most_bytes / 1e6:.3g} MB."
    while True:
        content = inline_page(bundle, [None] * bundle.loaded, page).encode()
        if len(content) <= most_bytes:
            files = bundle.rows.files(0, bundle.loaded)
            side = choose_side(files, (most_bytes - len(content)) / _ENCODED, sides)
            thumbnails = make_thumbnails(files, side, verbose=verbose)
            shown = bundle.with_images([one is not None for one in thumbnails])
            content = inline_page(shown, thumbnails, page).encode()
            if len(content) <= most_bytes:
                return shown, thumbnails, side, content
            sides = tuple(smaller for smaller in sides if smaller < side)
            if sides:
                continue
        sides = SIDES[-1:]
        bundle = bundle.shrunk(_fewer_rows(bundle, len(content), most_bytes, page), why)


def _room(bundle: Bundle, page: Path) -> int:
    """How large a file may be: 15 MB, or the model and some room for rows."""
    return max(MOST_BYTES, _least_size(bundle, page) + ROOM_FOR_ROWS)


def _least_size(bundle: Bundle, page: Path) -> int:
    """Bytes of a file with one row and no image."""
    return len(inline_page(bundle.shrunk(1, ""), [None], page).encode())


def _fewer_rows(bundle: Bundle, size: int, most_bytes: int, page: Path) -> int:
    """How many rows fit, if each takes as much as now."""
    fixed = _least_size(bundle, page)
    fewer = int(0.97 * bundle.loaded * (most_bytes - fixed) / (size - fixed))
    if fewer < min(FEWEST_ROWS, len(bundle.rows)):
        raise ChoqolateError(
            f"Expected a model that fits into a file of {most_bytes / 1e6:.3g} MB but it takes {fixed / 1e6:.1f} MB "
            "without any images. Open it with a server (choqolate studio without --export), or simplify it first."
        )
    return fewer
