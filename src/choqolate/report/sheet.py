"""A contact sheet: many small pictures on one, a row or two for each group."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

from choqolate.errors import ChoqolateError
from choqolate.manifest import Manifest

_GAP = 2  # pixels between two pictures
_GROUND = (128, 128, 128)  # of the gaps


def contact_sheet(rows: Manifest, groups: Sequence[str], columns: int = 12, lines: int = 1, side: int = 96) -> bytes:
    """The first pictures of each group as one JPEG file, the groups below each other.

    Args:
        rows: pictures that can be read, with groups.
        groups: which ones, from the top to the bottom.
        columns: pictures beside each other.
        lines: lines of pictures for each group; what a group lacks stays empty.
        side: pixels of a picture.
    """
    if rows.groups is None:
        raise ChoqolateError("expected pictures with groups, these have none")
    step = side + _GAP
    sheet = Image.new("RGB", (columns * step - _GAP, len(groups) * lines * step - _GAP), _GROUND)
    files = rows.files()
    for index, group in enumerate(groups):
        for place, row in enumerate(np.flatnonzero(rows.groups == group)[: columns * lines]):
            line, column = divmod(place, columns)
            with Image.open(files[row]) as picture:
                small = picture.convert("RGB").resize((side, side))
            sheet.paste(small, (column * step, (index * lines + line) * step))
    content = io.BytesIO()
    sheet.save(content, "JPEG", quality=88)
    return content.getvalue()
