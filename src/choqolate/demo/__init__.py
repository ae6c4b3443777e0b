"""The whole job on data that come with the package: train, read, correct, save."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from choqolate import __version__
from choqolate._util.files import check_parent, write_bytes
from choqolate.errors import ChoqolateError

MARK = "demo.json"
RESULTS = ("embeddings", "scores.parquet", "model", "model-edited", "contact-sheet.jpg", "report.html")
"""What a demo makes anew, beside the images."""


def claim() -> dict[str, Any]:
    """What the mark of a demo's folder says."""
    return {"made_by": "choqolate demo", "version": __version__}


def claim_folder(folder: Path) -> None:
    """Take a new or empty folder for a demo, or one that an earlier demo took, whose results are removed.

    Raises:
        ChoqolateError: if the folder holds other things.
    """
    check_parent(folder)
    if folder.exists() and not folder.is_dir():
        raise ChoqolateError(f"expected a folder for the demo, {folder} is a file: choose another name")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise ChoqolateError(
            f"expected an empty or new folder for the demo, {folder} holds other things: choose another"
        )
    write_bytes(folder / MARK, json.dumps(claim()).encode() + b"\n")
    for name in RESULTS:
        place = folder / name
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
