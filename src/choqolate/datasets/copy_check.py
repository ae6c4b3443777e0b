"""Whether the images that a manifest names are there."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

from choqolate._util.text import counted, printable
from choqolate.data.manifest import Manifest

_STEP = 1000


@dataclass(frozen=True)
class CopyCheck:
    """What a look at every image found.

    Attributes:
        n_rows: how many images the manifest names.
        n_missing: how many of them are not there.
        missing: the first of those, as the manifest writes them.
    """

    n_rows: int
    n_missing: int
    missing: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Nothing is missing."""
        return self.n_missing == 0

    def __str__(self) -> str:
        if self.complete:
            return f"all {self.n_rows:,} images are there"
        shown = ", ".join(printable(path) for path in self.missing)
        more = f" and {self.n_missing - len(self.missing):,} more" if self.n_missing > len(self.missing) else ""
        verb = "is" if self.n_missing == 1 else "are"
        return f"{self.n_missing:,} of {counted(self.n_rows, 'image')} {verb} missing: {shown}{more}"


def check_copy(manifest: Manifest, limit: int = 5, progress: Callable[[int, int], None] | None = None) -> CopyCheck:
    """Look whether every image is there, in the order of the rows; no image is opened.

    Args:
        manifest: the rows of a copy.
        limit: how many missing images to name.
        progress: called every thousand rows and at the end with the rows done and the rows in all.

    >>> from pathlib import Path
    >>> print(check_copy(Manifest(Path("nowhere"), ["a.jpg", "b.jpg"]), limit=1))
    2 of 2 images are missing: a.jpg and 1 more
    """
    missing: list[str] = []
    n_missing = 0
    for done, path in enumerate(manifest.files(), 1):
        if not _is_there(path):
            n_missing += 1
            if len(missing) < limit:
                missing.append(str(manifest.paths[done - 1]))
        if progress is not None and (done % _STEP == 0 or done == len(manifest)):
            progress(done, len(manifest))
    return CopyCheck(len(manifest), n_missing, tuple(missing))


def _is_there(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False
