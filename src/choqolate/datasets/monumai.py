"""MonuMAI: facades of four architectural styles."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from choqolate.data.manifest import Manifest
from choqolate.datasets.base import Dataset
from choqolate.datasets.copy_search import find_copy
from choqolate.datasets.image_search import list_images
from choqolate.errors import ChoqolateError


def read(root: Path) -> Manifest:
    """The images of a copy, style by style; the split is made here and always the same.

    Args:
        root: the folder MonuMAI_dataset, or the one that it lies in.
    """
    styles = MONUMAI.classes
    folder = find_copy(
        MONUMAI, root, [f"{style}/" for style in styles], lambda place, name: os.path.isdir(place / name)
    )
    found = {style: list_images(folder / style) for style in styles}
    empty = [style for style, names in found.items() if not names]
    if empty:
        raise ChoqolateError(
            f"expected images of every style in {folder}, {', '.join(empty)} has none; the data set is {MONUMAI.origin}"
        )
    return Manifest(
        folder,
        np.array([f"{style}/{name}" for style, names in found.items() for name in names], dtype=object),
        labels=np.array([style for style, names in found.items() for _ in names], dtype=object),
        classes=styles,
        source=MONUMAI.name,
    ).with_split()


MONUMAI = Dataset(
    name="monumai",
    title="MonuMAI",
    n_classes=4,
    published="https://github.com/ari-dasci/OD-MonuMAI",
    layout="""\
MonuMAI_dataset/
    Baroque/casa_almirante_cadiz.jpg
    Baroque/xml/          (not used)
    Gothic/
    Hispanic-Muslim/
    Renaissance/""",
    split="made here: 30% of each class for testing",
    groups="",
    reader=read,
)
