"""Waterbirds: birds of CUB before backgrounds of Places, in training mostly water behind water birds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from choqolate.data.image_list import Columns, read_columns
from choqolate.data.manifest import Manifest
from choqolate.datasets.base import Dataset
from choqolate.datasets.copy_search import find_copy, text_lines
from choqolate.errors import ChoqolateError

INDEX = "metadata.csv"
COLUMNS = ("img_filename", "y", "split", "place")
BIRDS = {"0": "landbird", "1": "waterbird"}
SPLITS = {"0": "train", "1": "val", "2": "test"}
PLACES = {"0": "land", "1": "water"}


def read(root: Path) -> Manifest:
    """The rows of a copy, in the order of metadata.csv.

    Args:
        root: the folder waterbird_complete95_forest2water2, or the one that it lies in.
    """
    wanted = f"{INDEX} (with columns {', '.join(COLUMNS)})"
    folder = find_copy(WATERBIRDS, root, [wanted], lambda place, _: _fits(place / INDEX))
    table = read_columns(folder / INDEX, {name: (name,) for name in COLUMNS}, required=COLUMNS)
    labels = translated(table, "y", BIRDS, folder / INDEX)
    places = translated(table, "place", PLACES, folder / INDEX)
    return Manifest(
        folder,
        np.array(table.cells["img_filename"], dtype=object),
        labels=np.array(labels, dtype=object),
        split=np.array(translated(table, "split", SPLITS, folder / INDEX), dtype=object),
        groups=np.array([f"{bird} on {place}" for bird, place in zip(labels, places, strict=True)], dtype=object),
        classes=WATERBIRDS.classes,
        source=WATERBIRDS.name,
    )


def _fits(file: Path) -> bool:
    """Other data sets have a metadata.csv too."""
    try:
        _, header = next(text_lines(file), (0, ""))
    except ChoqolateError:
        return False
    return set(COLUMNS) <= {name.strip(' "').lower() for name in re.split("[,;\t]", header)}


def translated(table: Columns, column: str, names: Mapping[str, str], file: Path) -> list[str]:
    """The cells of a column of codes, by what the codes stand for."""
    cells = [cell.strip() for cell in table.cells[column]]
    for code in dict.fromkeys(cells):
        if code not in names:
            line = table.lines[cells.index(code)]
            raise ChoqolateError(f"expected {column} {', '.join(names)} in {file}, got {code!r} in line {line}")
    return [names[cell] for cell in cells]


WATERBIRDS = Dataset(
    name="waterbirds",
    title="Waterbirds",
    n_classes=2,
    published="https://github.com/kohpangwei/group_DRO",
    layout="""\
waterbird_complete95_forest2water2/
    metadata.csv
    001.Black_footed_Albatross/Black_Footed_Albatross_0046_18.jpg""",
    split="official train, val and test",
    groups="bird and background",
    reader=read,
)
