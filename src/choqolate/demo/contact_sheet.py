"""A contact sheet: many small images on one, a row for each group."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

from choqolate.data.manifest import Manifest
from choqolate.errors import ChoqolateError

COLUMNS, SIDE = 12, 96  # images in a row, pixels of an image
_GAP = 2  # pixels between two images
_GROUND = (128, 128, 128)  # of the gaps


def contact_sheet(rows: Manifest, groups: Sequence[str]) -> bytes:
    """The first images of each group as one JPEG file, a row for each group; what a group lacks stays empty.

    Args:
        rows: images that can be read, with groups.
        groups: which ones, from the top to the bottom.
    """
    if rows.groups is None:
        raise ChoqolateError("expected images with groups, these have none")
    step = SIDE + _GAP
    sheet = Image.new("RGB", (COLUMNS * step - _GAP, len(groups) * step - _GAP), _GROUND)
    files = rows.files()
    for line, group in enumerate(groups):
        for column, row in enumerate(np.flatnonzero(rows.groups == group)[:COLUMNS]):
            with Image.open(files[row]) as image:
                sheet.paste(image.convert("RGB").resize((SIDE, SIDE)), (column * step, line * step))
    content = io.BytesIO()
    sheet.save(content, "JPEG", quality=88)
    return content.getvalue()
