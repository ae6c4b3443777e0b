"""CUB-200-2011: 11,788 images of 200 kinds of birds."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from choqolate._util.checks import check_number
from choqolate.data.manifest import Manifest
from choqolate.datasets.base import Dataset
from choqolate.datasets.copy_search import fields, find_copy
from choqolate.errors import ChoqolateError

INDEX = ("classes.txt", "images.txt", "image_class_labels.txt", "train_test_split.txt")


def read(root: Path, n_classes: int | None = None) -> Manifest:
    """The rows of a copy, in the order of images.txt.

    Args:
        root: the folder CUB_200_2011, or the one that it lies in.
        n_classes: only the first so many classes by their number; the paper uses 5, 10, 20, 50, 100 and 200.
    """
    folder = find_copy(CUB, root, INDEX, lambda place, name: os.path.isfile(place / name))
    names = {number: _readable(name) for number, name in _pairs(folder / "classes.txt", "1 001.Name").items()}
    kept = sorted(names)[: _check_count(n_classes, len(names))]
    images = _pairs(folder / "images.txt", "1 001.Name/x.jpg")
    classes = _numbers(folder / "image_class_labels.txt", images, set(names))
    train = _numbers(folder / "train_test_split.txt", images, {0, 1})
    rows = [image for image in images if classes[image] in set(kept)]
    return Manifest(
        folder,
        np.array([f"images/{images[image]}" for image in rows], dtype=object),
        labels=np.array([names[classes[image]] for image in rows], dtype=object),
        split=np.array(["train" if train[image] else "test" for image in rows], dtype=object),
        classes=tuple(names[number] for number in kept),
        source=CUB.name,
        notes=tuple(f"{concept!r} stands twice in the list: used once" for concept in CUB.repeated),
    )


def _check_count(n_classes: int | None, available: int) -> int:
    if n_classes is None:
        return available
    check_number("n_classes", n_classes, minimum=2, whole=True)
    if n_classes > available:
        raise ChoqolateError(f"expected n_classes to be at most {available}, the classes of this copy, got {n_classes}")
    return n_classes


def _readable(name: str) -> str:
    """``001.Black_footed_Albatross`` as ``Black footed Albatross``."""
    return name.partition(".")[2].replace("_", " ") or name


def _pairs(file: Path, shape: str) -> dict[int, str]:
    pairs: dict[int, str] = {}
    for line, (number, value) in fields(file, 2, shape):
        if not number.isdecimal() or int(number) in pairs:
            raise ChoqolateError(f"expected a new number at the start of line {line} of {file}, got {number!r}")
        pairs[int(number)] = value
    return pairs


def _numbers(file: Path, images: dict[int, str], known: set[int]) -> dict[int, int]:
    """The number that a file gives for each image."""
    values: dict[int, int] = {}
    for image, value in _pairs(file, "1 1").items():
        if not value.isdecimal() or int(value) not in known:
            raise ChoqolateError(
                f"expected a number from {min(known)} to {max(known)} for image {image} in {file}, got {value!r}"
            )
        values[image] = int(value)
    missing = [image for image in images if image not in values]
    if missing:
        raise ChoqolateError(
            f"expected a line for every image of images.txt in {file}, {len(missing)} are missing, the first is image "
            f"{missing[0]}: get the file again from {CUB.published}"
        )
    return values


CUB = Dataset(
    name="cub",
    title="CUB-200-2011",
    n_classes=200,
    published="https://www.vision.caltech.edu/datasets/cub_200_2011/",
    layout="""\
CUB_200_2011/
    classes.txt
    images.txt
    image_class_labels.txt
    train_test_split.txt
    images/001.Black_footed_Albatross/Black_Footed_Albatross_0046_18.jpg""",
    split="official train and test",
    groups="",
    reader=read,
)
