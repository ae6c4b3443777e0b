"""Readers: the data sets of the paper, bird scenes, folders of images, CSV files; each yields a manifest.

Nothing here downloads anything. A reader takes the user's own copy in the layout that it is published in.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from choqolate._util.checks import find_named
from choqolate.data.image_list import read_csv
from choqolate.data.manifest import Manifest
from choqolate.datasets.base import Dataset
from choqolate.datasets.birds import BIRDS
from choqolate.datasets.cats_dogs_cars import CATS_DOGS_CARS
from choqolate.datasets.celeba import CELEBA
from choqolate.datasets.coco import COCO
from choqolate.datasets.copy_check import CopyCheck, check_copy
from choqolate.datasets.cub import CUB
from choqolate.datasets.image_folder import read_folder
from choqolate.datasets.monumai import MONUMAI
from choqolate.datasets.places import PlacePredictions
from choqolate.datasets.waterbirds import WATERBIRDS
from choqolate.errors import ChoqolateError

DATASETS: dict[str, Dataset] = {
    dataset.name: dataset for dataset in (CATS_DOGS_CARS, MONUMAI, COCO, CUB, WATERBIRDS, CELEBA, BIRDS)
}

__all__ = [
    "DATASETS",
    "CopyCheck",
    "Dataset",
    "PlacePredictions",
    "check_copy",
    "find_dataset",
    "read_csv",
    "read_dataset",
    "read_folder",
    "read_source",
]


def find_dataset(name: str) -> Dataset:
    """A data set by its short name; an unknown one is an error that proposes the nearest.

    >>> find_dataset("cub").title
    'CUB-200-2011'
    """
    return find_named(name, DATASETS, "a data set")


def read_dataset(name: str, root: str | os.PathLike[str], **options: Any) -> Manifest:
    """The rows of a copy of a data set.

    Args:
        name: the short name, one of ``DATASETS``.
        root: the folder of the copy, or the one that it lies in.
        **options: what the data set's reader takes: ``n_classes`` for cub, ``labels`` or ``places`` for coco,
            ``proportions`` for celeba.
    """
    return find_dataset(name).read(root, **options)


def read_source(path: str | os.PathLike[str]) -> Manifest:
    """The rows of whatever is there: a folder of images, or a table of them (``.csv``, ``.tsv``)."""
    source = Path(path)
    if source.is_dir():
        return read_folder(source)
    if not source.exists():
        raise ChoqolateError(f"expected a folder of images or a CSV file, there is no {source}")
    if source.suffix.lower() in (".csv", ".tsv"):
        return read_csv(source)
    raise ChoqolateError(f"expected a folder of images or a file that ends in .csv or .tsv, got {source}")
