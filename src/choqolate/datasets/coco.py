"""COCO: everyday scenes by the kind of place. COCO itself has no such labels; they come in a CSV file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from choqolate._util.text import counted, listed
from choqolate.data.image_list import Columns, read_columns
from choqolate.data.manifest import Manifest
from choqolate.data.rows import COLUMN_NAMES
from choqolate.datasets.base import Dataset
from choqolate.datasets.copy_search import folders_below, not_found
from choqolate.datasets.image_search import list_images
from choqolate.datasets.places import find_place, location_types
from choqolate.errors import ChoqolateError

FOLDERS = ("train2017", "val2017")
PSEUDO_LABELS = "pseudo-labels, not annotations"
IMAGE_COLUMN = tuple(dict.fromkeys(["image", *COLUMN_NAMES["path"]]))
CLASS_COLUMN = tuple(dict.fromkeys(["class", *COLUMN_NAMES["label"]]))


@dataclass(frozen=True)
class _Labels:
    """What a CSV file says of images.

    Attributes:
        file: the file.
        table: its columns ``image`` and, perhaps, ``split``.
        classes: of each row; ``None`` for rows to leave out.
        labels_from: what the labels are, for the provenance.
        notes: what was left out.
    """

    file: Path
    table: Columns
    classes: list[str | None]
    labels_from: str
    notes: tuple[str, ...] = ()


def read(
    root: Path, labels: str | os.PathLike[str] | None = None, places: str | os.PathLike[str] | None = None
) -> Manifest:
    """The labelled images of a copy, in the order of the labels. One of ``labels`` and ``places`` is needed.

    Args:
        root: the folder that holds train2017, val2017 or both, or one up to two levels above it.
        labels: a CSV file with the columns image (a file name, with or without its folder) and class (one of the six of
            the paper), and perhaps split. Without splits they are made here and are always the same.
        places: a CSV file with the columns image and place, one of the 365 places of Places365 as predicted by a
            classifier, and perhaps split and model (what predicted them). The 160 indoor places have a class; images of
            other places are left out.
    """
    if labels is not None and places is None:
        given = _read_classes(Path(labels))
    elif places is not None and labels is None:
        given = _read_places(Path(places))
    else:
        raise ChoqolateError(
            f"Expected labels= with a CSV file of classes or places= with one of predicted places, but got "
            f"{'neither' if labels is None else 'both'}. COCO says what is in an image, not what place it shows. "
            "Write a file such as\nimage,class\nval2017/000000000139.jpg,home or hotel\n"
            "or predict the places: choqolate places COCO -o coco.places.csv"
        )
    folder, present = _images(root)
    images, lines = given.table.cells["image"], given.table.lines
    wanted = [row for row, label in enumerate(given.classes) if label is not None]
    paths = {row: _locate(images[row], present, lines[row], given.file) for row in wanted}
    rows = [row for row in wanted if paths[row] is not None]
    _check_once([paths[row] for row in rows], [lines[row] for row in rows], given.file)
    if not rows:
        raise ChoqolateError(
            f"Expected the images of {given.file} in {' and '.join(present)} of {folder}, but none of {len(wanted)} is "
            f"there, such as {images[wanted[0]]!r}. Check the file names."
        )
    left_out = len(wanted) - len(rows)
    note = f"{left_out} of {len(wanted)} labelled images are not in {' or '.join(present)}: left out"
    split = given.table.cells.get("split")
    return Manifest(
        folder,
        np.array([paths[row] for row in rows], dtype=object),
        labels=np.array([given.classes[row] for row in rows], dtype=object),
        split=None if split is None else np.array([split[row] for row in rows], dtype=object),
        classes=COCO.classes,
        source=COCO.name,
        notes=(*given.notes, note) if left_out else given.notes,
        labels_from=given.labels_from,
    ).with_split()


def read_images(root: str | os.PathLike[str]) -> Manifest:
    """All images of a copy, without labels: what places are predicted for.

    Args:
        root: as for :func:`read`.
    """
    folder, present = _images(Path(root))
    paths = [f"{name}/{image}" for name, images in present.items() for image in sorted(images)]
    if not paths:
        raise ChoqolateError(
            f"Expected images in {' and '.join(present)} of {folder}, but there are none. Unpack them."
        )
    return Manifest(folder, np.array(paths, dtype=object), source=COCO.name)


def _check_once(paths: Sequence[str | None], lines: Sequence[int], file: Path) -> None:
    first: dict[str | None, int] = {}
    for path, line in zip(paths, lines, strict=True):
        if first.setdefault(path, line) != line:
            raise ChoqolateError(
                f"Expected every image once in {file}, but {path} appears on lines {first[path]} and {line}. Drop one."
            )


def _images(root: Path) -> tuple[Path, dict[str, set[str]]]:
    """The folder of the copy, and the images in each of its two folders that is there."""
    for folder in folders_below(root, 2):
        present = [name for name in FOLDERS if os.path.isdir(folder / name)]
        if present:
            return folder, {name: set(list_images(folder / name)) for name in present}
    raise not_found(COCO, root, [f"{name}/" for name in FOLDERS], below="up to two levels below")


def _read_classes(file: Path) -> _Labels:
    wanted = {"image": IMAGE_COLUMN, "class": CLASS_COLUMN, "split": ("split",)}
    table = read_columns(file, wanted, required=("image", "class"))
    return _Labels(file, table, [*_classes(table, file)], f"classes given in {file.name}, not annotations of COCO")


def _read_places(file: Path) -> _Labels:
    """The classes of predicted places, with notes on the images that get none."""
    wanted = {"image": IMAGE_COLUMN, "place": ("place", "scene"), "split": ("split",), "model": ("model",)}
    table = read_columns(file, wanted, required=("image", "place"))
    written = table.cells["place"]
    places = [find_place(name) for name in written]
    classes = [None if place is None else location_types().get(place) for place in places]
    blank = sum(not name.strip() for name in written)
    unknown = [name for name, place in zip(written, places, strict=True) if place is None and name.strip()]
    if not any(classes):
        shown = listed(list(dict.fromkeys(name for name in written if name.strip())), 3) or "none at all"
        raise ChoqolateError(
            f"Expected places of Places365 in {file}, some of them among the 160 indoor places with a class, such as "
            f"{listed(list(location_types()), 3)}, but got {shown}. Write the names as Places365 does."
        )
    models = list(dict.fromkeys(name.strip() for name in table.cells.get("model", []) if name.strip()))
    predicted_by = " and ".join(models) or f"the classifier behind {file.name}"
    labels_from = f"{PSEUDO_LABELS}: places predicted by {predicted_by}, mapped to location types"
    notes = [labels_from]
    outside = classes.count(None) - len(unknown) - blank
    if outside:
        notes.append(f"{outside:,} of {counted(len(classes), 'image')} show none of the 160 indoor places: left out")
    if unknown:
        names = listed(list(dict.fromkeys(unknown)), 3)
        notes.append(f"{counted(len(unknown), 'image')} with a place that is not among the 365 ({names}): left out")
    if blank:
        notes.append(f"{counted(blank, 'image')} without a place: left out")
    return _Labels(file, table, classes, labels_from, tuple(notes))


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
    val2017/000000000139.jpg,home or hotel
or of predicted places, as written by choqolate places:
    image,place
    val2017/000000000139.jpg,living_room""",
    split="from the labels, or made here: 30% of each class for testing",
    groups="",
    reader=read,
    labels="not COCO annotations, but classes from a file that you provide, or pseudo-labels from predicted places",
)
