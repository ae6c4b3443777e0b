"""The whole job on data that come with the package: train, read, correct, save."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from choqolate import __version__
from choqolate._util.files import check_new_folder, write_bytes

MARK = "demo.json"
RESULTS = ("embeddings", "scores.parquet", "model", "model-edited", "contact-sheet.jpg", "report.html")
"""What a demo makes again, beside the images."""


def claim() -> dict[str, Any]:
    """What the mark of a demo's folder says."""
    return {"made_by": "choqolate demo", "version": __version__}


def claim_folder(folder: Path) -> None:
    """Take a new or empty folder for a demo, or one that an earlier demo took, whose results are removed.

    Raises:
        ChoqolateError: if the folder holds other things.
    """
    check_new_folder(folder, "the demo", lambda place: (place / MARK).is_file())
    write_bytes(folder / MARK, json.dumps(claim()).encode() + b"\n")
    for name in RESULTS:
        place = folder / name
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
