"""CelebA: 202,599 faces; the class is blond hair, the groups are hair and gender."""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Iterable, Sequence
from pathlib import Path

import numpy as np

from choqolate._util.checks import check_choice
from choqolate.data.image_list import read_columns
from choqolate.data.manifest import Manifest
from choqolate.datasets.base import Dataset
from choqolate.datasets.copy_search import fields, find_copy, text_lines
from choqolate.datasets.group_proportions import with_proportions_of_train
from choqolate.errors import ChoqolateError

ATTRIBUTES = "list_attr_celeba.txt"
PARTITION = "list_eval_partition.txt"
IMAGES = "img_align_celeba"
SPLITS = {"0": "train", "1": "val", "2": "test"}
SIGNS = {"1": True, "-1": False, "0": False}
IMAGE_COLUMN = ("image_id", "filename", "image")


def read(root: Path, proportions: str = "train") -> Manifest:
    """The rows of a copy, in the order of the attributes.

    The files may be those of the authors, side by side or in Anno, Eval and Img, or those on Kaggle, which are CSV.

    Args:
        root: the data set's folder, or the one that it lies in.
        proportions: ``"train"`` leaves out rows of val and test until their groups have the proportions of train, as
            the paper has it; ``"official"`` leaves val and test as they are.
    """
    check_choice("proportions", proportions, ("train", "official"))
    folder = find_copy(CELEBA, root, [ATTRIBUTES, PARTITION], lambda place, name: _file(place, name) is not None)
    attribute_file, partition_file = _file(folder, ATTRIBUTES), _file(folder, PARTITION)
    assert attribute_file is not None  # find_copy saw them
    assert partition_file is not None
    faces, announced = _attributes(attribute_file)
    splits = _partition(partition_file)
    names = [name for name in faces if name in splits]
    if not names:
        raise ChoqolateError(
            f"expected the same images in {attribute_file} and {partition_file}, they have none in common"
        )
    images = next((place for place in _places(IMAGES, "Img") if os.path.isdir(folder / place)), None)
    notes = []
    if announced not in (None, len(faces)):
        notes.append(f"{attribute_file.name} announces {announced} images and has {len(faces)}")
    notes += _only_in(attribute_file, faces, splits) + _only_in(partition_file, splits, faces)
    if images is None:
        notes.append(f"no folder {IMAGES} was found: the images are expected there")
    labels = ["blond" if faces[name][0] else "not blond" for name in names]
    genders = ["male" if faces[name][1] else "female" for name in names]
    rows = Manifest(
        folder,
        np.array([f"{images or IMAGES}/{name}" for name in names], dtype=object),
        labels=np.array(labels, dtype=object),
        split=np.array([splits[name] for name in names], dtype=object),
        groups=np.array([f"{hair} {gender}" for hair, gender in zip(labels, genders, strict=True)], dtype=object),
        classes=CELEBA.classes,
        source=CELEBA.name,
        notes=tuple(notes),
    )
    return with_proportions_of_train(rows) if proportions == "train" else rows


def _places(name: str, folder: str) -> tuple[str, ...]:
    """Where a file of the data set may lie; Kaggle's archive has the folder of images inside one of the same name."""
    inner = (f"{IMAGES}/{IMAGES}",) if name == IMAGES else ()
    return tuple(place for one in (*inner, name) for place in (one, f"{folder}/{one}"))


def _file(folder: Path, name: str) -> Path | None:
    for text in _places(name, "Anno" if name == ATTRIBUTES else "Eval"):
        for place in (folder / text, (folder / text).with_suffix(".csv")):
            if os.path.isfile(place):
                return place
    return None


def _attributes(file: Path) -> tuple[dict[str, tuple[bool, bool]], int | None]:
    """Blond and male for each image, and how many images the file says there are, if it does."""
    if file.suffix == ".csv":
        wanted = {"image": IMAGE_COLUMN, "Blond_Hair": ("blond_hair",), "Male": ("male",)}
        table = read_columns(file, wanted, required=list(wanted))
        cells = zip(table.lines, *(table.cells[name] for name in wanted), strict=True)
        return {name: (_sign(blond, line, file), _sign(male, line, file)) for line, name, blond, male in cells}, None
    lines = text_lines(file)
    _, header = next(lines, (0, ""))
    announced = int(header) if header.isdecimal() else None
    if announced is not None:
        _, header = next(lines, (0, ""))
    columns = ["image", *header.split()]
    if not {"Blond_Hair", "Male"} <= set(columns):
        raise ChoqolateError(f"expected Blond_Hair and Male among the attributes of {file}, got {header[:80]!r}")
    blond, male = columns.index("Blond_Hair"), columns.index("Male")
    faces = {}
    for number, line in lines:
        parts = line.split()
        if len(parts) != len(columns):
            expected = f"a file name and {len(columns) - 1} values"
            raise ChoqolateError(f"expected {expected} in line {number} of {file}, got {len(parts)} parts")
        faces[parts[0]] = (_sign(parts[blond], number, file), _sign(parts[male], number, file))
    return faces, announced


def _sign(value: str, line: int, file: Path) -> bool:
    if value not in SIGNS:
        raise ChoqolateError(f"expected 1 or -1 for an attribute in line {line} of {file}, got {value!r}")
    return SIGNS[value]


def _partition(file: Path) -> dict[str, str]:
    """The split of each image."""
    rows: Iterable[tuple[int, Sequence[str]]]
    if file.suffix == ".csv":
        wanted = {"image": IMAGE_COLUMN, "partition": ("partition", "split")}
        table = read_columns(file, wanted, required=list(wanted))
        rows = zip(table.lines, zip(*(table.cells[name] for name in wanted), strict=True), strict=True)
    else:
        rows = fields(file, 2, "000001.jpg 0")
    splits = {}
    for line, (name, code) in rows:
        if code not in SPLITS:
            raise ChoqolateError(f"expected 0, 1 or 2 for the split in line {line} of {file}, got {code!r}")
        splits[name] = SPLITS[code]
    return splits


def _only_in(file: Path, names: Collection[str], others: Container[str]) -> list[str]:
    n = sum(name not in others for name in names)
    return [f"{n} of {len(names)} images stand in {file.name} only: left out"] if n else []


CELEBA = Dataset(
    name="celeba",
    title="CelebA",
    n_classes=2,
    published="https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
    layout="""\
celeba/
    list_attr_celeba.txt     (or in Anno/, or Kaggle's list_attr_celeba.csv)
    list_eval_partition.txt  (or in Eval/, or Kaggle's list_eval_partition.csv)
    img_align_celeba/000001.jpg  (or in Img/)""",
    split="official train, val and test; val and test thinned to the proportions of train",
    groups="hair and gender",
    reader=read,
)
