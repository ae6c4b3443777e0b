"""Cats, dogs and cars: Kaggle's Dogs vs. Cats and Stanford Cars side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from choqolate.data.manifest import Manifest
from choqolate.datasets.base import Dataset
from choqolate.datasets.copy_search import folders_below
from choqolate.datasets.image_search import list_images
from choqolate.errors import ChoqolateError

WANTED = {"cats": "train/cat.0.jpg", "dogs": "train/dog.0.jpg", "cars": "cars_train/00001.jpg or cars_test/00001.jpg"}
FOLDERS = ("train", "cars_train", "cars_test")


def read(root: Path) -> Manifest:
    """The images of a copy: cats, dogs, then cars; the split is made here and always the same.

    Args:
        root: the folder that holds train, cars_train and cars_test, or one up to two levels above each.
    """
    found: dict[str, Path] = {}
    images: dict[str, list[tuple[str, str]]] = {}
    notes = []
    for folder in folders_below(root, 3):
        name = folder.name
        if name not in FOLDERS or folder == root or not (labelled := _labelled(folder)):
            continue
        if name in found:
            notes.append(f"{folder} was left out, {name} was found in {found[name].parent}")
        else:
            found[name], images[name] = folder, labelled
    rows = [(label, folder, name) for folder in FOLDERS for label, name in images.get(folder, [])]
    order = CATS_DOGS_CARS.classes
    rows.sort(key=lambda row: order.index(row[0]))
    missing = [label for label in order if label not in {row[0] for row in rows}]
    if missing:
        looked = "; ".join(f"no {label} ({WANTED[label]})" for label in missing)
        raise ChoqolateError(
            f"expected cats, dogs and cars in {root} or up to two levels below, found {looked}; the data sets are "
            f"{CATS_DOGS_CARS.origin}"
        )
    # The split goes by these names, so that it does not depend on where the two data sets lie.
    plain = Manifest(
        root,
        np.array([f"{folder}/{name}" for _, folder, name in rows], dtype=object),
        labels=np.array([label for label, _, _ in rows], dtype=object),
        classes=order,
        source=CATS_DOGS_CARS.name,
        notes=tuple(notes),
    ).with_split()
    places = {name: folder.relative_to(root).as_posix() for name, folder in found.items()}
    return plain.with_columns(paths=[f"{places[folder]}/{name}" for _, folder, name in rows])


def _labelled(folder: Path) -> list[tuple[str, str]]:
    """Label and name of each image; in ``train`` the name tells, and other images do not belong to the data set."""
    names = list_images(folder)
    if folder.name != "train":
        return [("cars", name) for name in names]
    labels = {"cat": "cats", "dog": "dogs"}
    starts = ((name.partition(".")[0].lower(), name) for name in names)
    return [(labels[start], name) for start, name in starts if start in labels]


CATS_DOGS_CARS = Dataset(
    name="cats-dogs-cars",
    title="Cats, Dogs and Cars",
    n_classes=3,
    published="https://www.kaggle.com/c/dogs-vs-cats and https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
    layout="""\
any folder/
    dogs-vs-cats/train/cat.0.jpg
    dogs-vs-cats/train/dog.0.jpg
    stanford_cars/cars_train/00001.jpg
    stanford_cars/cars_test/00001.jpg""",
    split="made here: 30% of each class for testing",
    groups="",
    reader=read,
)
