"""COCO: everyday scenes by the kind of place. COCO itself has no such labels; they come in a CSV file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from choqolate._util.text import listed
from choqolate.data.image_list import Columns, read_columns
from choqolate.data.manifest import Manifest
from choqolate.data.rows import COLUMN_NAMES
from choqolate.datasets.base import Dataset
from choqolate.datasets.copy_search import folders_below, not_found
from choqolate.datasets.image_search import list_images
from choqolate.errors import ChoqolateError

FOLDERS = ("train2017", "val2017")


def read(root: Path, labels: str | os.PathLike[str] | None = None) -> Manifest:
    """The labelled images of a copy, in the order of the labels.

    Args:
        root: the folder that holds train2017, val2017 or both, or one up to two levels above it.
        labels: a CSV file with the columns image (a file name, with or without its folder) and class (one of the six of
            the paper), and perhaps split. Without splits they are made here and are always the same.
    """
    if labels is None:
        raise ChoqolateError(
            "expected labels= with a CSV file of places: COCO says what is in an image, not what kind of place it is; "
            "write a file such as\nimage,class\nval2017/000000000139.jpg,home or hotel"
        )
    folder = next(
        (place for place in folders_below(root, 2) if any(os.path.isdir(place / name) for name in FOLDERS)), None
    )
    if folder is None:
        raise not_found(COCO, root, [f"{name}/" for name in FOLDERS], below="up to two levels below")
    file = Path(labels)
    wanted = {
        "image": ("image", *COLUMN_NAMES["path"]),
        "class": ("class", *COLUMN_NAMES["label"]),
        "split": ("split",),
    }
    table = read_columns(file, wanted, required=("image", "class"))
    classes = _classes(table, file)
    present = {name: set(list_images(folder / name)) for name in FOLDERS if os.path.isdir(folder / name)}
    paths = [_locate(image, present, line, file) for image, line in zip(table.cells["image"], table.lines, strict=True)]
    rows = [row for row, path in enumerate(paths) if path is not None]
    if not rows:
        raise ChoqolateError(
            f"expected the images of {file} in {' and '.join(present)} of {folder}, none of {len(paths)} is there, "
            f"such as {table.cells['image'][0]!r}"
        )
    left_out = len(paths) - len(rows)
    note = f"{left_out} of {len(paths)} labelled images are not in {' or '.join(present)}: left out"
    split = table.cells.get("split")
    return Manifest(
        folder,
        np.array([paths[row] for row in rows], dtype=object),
        labels=np.array([classes[row] for row in rows], dtype=object),
        split=None if split is None else np.array([split[row] for row in rows], dtype=object),
        classes=COCO.classes,
        source=COCO.name,
        notes=(note,) if left_out else (),
    ).with_split()


def _classes(table: Columns, file: Path) -> list[str]:
    """The class of each row as the paper spells it."""
    spelled = {name.lower(): name for name in COCO.classes}
    classes = []
    for written, line in zip(table.cells["class"], table.lines, strict=True):
        name = spelled.get(" ".join(written.lower().split()))
        if name is None:
            known = listed(COCO.classes, most=len(COCO.classes))
            raise ChoqolateError(f"expected a class among {known} in line {line} of {file}, got {written!r}")
        classes.append(name)
    return classes


def _locate(image: str, present: Mapping[str, set[str]], line: int, file: Path) -> str | None:
    """The path of an image below the copy, or ``None`` if it is not there."""
    *folders, name = image.strip().replace("\\", "/").split("/")
    found = [folder for folder, names in present.items() if name in names and (not folders or folders[-1] == folder)]
    if len(found) > 1:
        raise ChoqolateError(
            f"expected the folder of {name!r} in line {line} of {file}: it is in {' and in '.join(found)}"
        )
    return f"{found[0]}/{name}" if found else None


COCO = Dataset(
    name="coco",
    title="COCO",
    n_classes=6,
    published="https://cocodataset.org/#download",
    layout="""\
coco/
    train2017/000000000009.jpg  (one of the two folders is enough)
    val2017/000000000139.jpg
and a CSV file of labels:
    image,class
    val2017/000000000139.jpg,home or hotel""",
    split="from the labels, or made here: 30% of each class for testing",
    groups="",
    reader=read,
)
