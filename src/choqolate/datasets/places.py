"""The 365 scene names of Places365: how they are spelled, which location type some have, and predictions of them."""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from choqolate._util.files import check_output, check_regular, replacing
from choqolate._util.memory import check_memory, naming_memory
from choqolate._util.spreadsheet import as_cell
from choqolate._util.text import counted, listed
from choqolate.data.column_roles import is_reserved
from choqolate.data.score_files import csv_header
from choqolate.data.scores import ConceptScores
from choqolate.data.source_errors import check_source, naming
from choqolate.datasets.base import words
from choqolate.errors import ChoqolateError

SCORE_FILES = (".npz", ".parquet", ".csv")


def places365() -> tuple[str, ...]:
    """The scene names in the order of Places365, which is that of the outputs of its classifiers.

    >>> len(places365()), places365()[212]
    (365, 'library/indoor')
    """
    return words("places365")


@cache
def location_types() -> dict[str, str]:
    """The location type of each of the 160 indoor places that have one.

    >>> len(location_types()), location_types()["library/indoor"]
    (160, 'cultural')
    """
    file = files("choqolate.datasets").joinpath("vocabularies", "coco.places365.csv")
    return {row["place"]: row["class"] for row in csv.DictReader(file.read_text(encoding="utf-8").splitlines())}


def find_place(written: str) -> str | None:
    """The name of a place as Places365 spells it; ``None`` if it is none of the 365.

    The folder of the first letter, the number after the name, case, and the sign between words do not matter.

    >>> find_place("/l/library/indoor 212"), find_place("Library-Indoor"), find_place("art gallery"), find_place("moon")
    ('library/indoor', 'library/indoor', 'art_gallery', None)
    """
    return _by_key().get(_key(written))


@cache
def _by_key() -> dict[str, str]:
    return {_key(place): place for place in places365()}


@cache
def _key(written: str) -> str:
    """What all spellings of one place share."""
    name = re.sub(r"^/?[a-z]/|\s+\d+$", "", written.strip().lower().replace("\\", "/").replace("'", ""))
    return "_".join(re.findall("[a-z0-9]+", name))


@dataclass(frozen=True, repr=False)
class PlacePredictions:
    """The place that a classifier sees in each image: pseudo-labels.

    Attributes:
        images: paths of the images.
        places: the place with the highest score for each, as Places365 spells it.
        model: what predicted them, in a few words.

    >>> seen = PlacePredictions(("1.jpg", "2.jpg"), ("library/indoor", "beach"), "ResNet-18")
    >>> seen.classes
    ['cultural', None]
    """

    images: tuple[str, ...]
    places: tuple[str, ...]
    model: str

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        return f"PlacePredictions({counted(len(self), 'image')}, by {self.model})"

    @property
    def classes(self) -> list[str | None]:
        """The location type of each image; ``None`` where its place has none."""
        return [location_types().get(place) for place in self.places]

    @classmethod
    def from_scores(cls, scores: ConceptScores, model: str) -> PlacePredictions:
        """The place with the highest score in each row; of equal ones the first.

        Args:
            scores: one column per place, all 365 of them, and the path of each image.
            model: what made the scores, in a few words.

        Raises:
            ChoqolateError: if the columns are not the 365 places, or a row has no path.
        """
        places = _check_places(scores.concepts)
        lacking = len(scores) if scores.paths is None else scores.paths.tolist().count(None)
        if lacking:
            some = f"{lacking:,} of {counted(len(scores), 'row')} {'has' if lacking == 1 else 'have'} none"
            came = "there is no such column" if lacking == len(scores) else some
            raise ChoqolateError(
                f"Expected the path of each image with its scores, in a column called image, but {came}. Add the paths."
            )
        twice = [path for path, number in Counter(scores.paths.tolist()).items() if number > 1]
        if twice:
            raise ChoqolateError(
                f"Expected every image once, but found several rows of {counted(len(twice), 'image')}, such as "
                f"{listed(twice, 3)}. Drop the copies."
            )
        best = np.asarray(scores.scores).argmax(axis=1)
        return cls(tuple(scores.paths.tolist()), tuple(places[column] for column in best), model)

    @classmethod
    def from_score_file(cls, path: Path) -> PlacePredictions:
        """The same from a file of scores.

        Args:
            path: a table (``.parquet``, ``.csv``) with a column ``image`` and one column per place; or ``.npz`` with
                the arrays ``files``, ``scores`` (n, 365) and, unless they are in the order of Places365, ``places``.
        """
        if path.suffix.lower() not in SCORE_FILES:
            raise ChoqolateError(
                f"Expected scores of places in a file that ends in {', '.join(SCORE_FILES)}, but got {path}. Convert "
                "it, or give a folder of images."
            )
        with naming(path):
            table = _read_npz(path) if path.suffix.lower() == ".npz" else _read_table(path)
            return cls.from_scores(table, f"the classifier behind {path.name}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a new CSV file with the columns image, place and model.

        Raises:
            ChoqolateError: if there is such a file.
        """
        target = Path(path)
        check_predictions_file(target)
        with replacing(target) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["image", "place", "model"])
            rows = zip(self.images, self.places, strict=True)
            writer.writerows(map(as_cell, (image, place, self.model)) for image, place in rows)


def check_predictions_file(target: Path) -> None:
    """Find out before the work that predictions cannot be written to a file. Nothing is overwritten."""
    if target.suffix.lower() != ".csv":
        raise ChoqolateError(f"Expected an output that ends in .csv, but got {target}. Change its name.")
    check_output(target)
    if target.exists():
        raise ChoqolateError(f"Expected a new file, but {target} exists. Choose another name, or delete it.")


def _check_places(names: Sequence[str]) -> list[str]:
    """Names of columns as Places365 spells them; all 365 have to be there, or the highest score would mean nothing."""
    found = [find_place(name) for name in names]
    unknown = [name for name, place in zip(names, found, strict=True) if place is None]
    missing = [place for place in places365() if place not in set(found)]
    if not unknown and not missing and len(found) == len(places365()):
        return [place for place in found if place is not None]
    came = f"{listed(missing, 3)} missing" if missing else "some places named twice"
    came = f"{listed(unknown, 3)}, which Places365 does not have" if unknown else came
    raise ChoqolateError(
        f"Expected one column of scores for each of the 365 places of Places365, such as {listed(places365()[:3])}, "
        f"but got {counted(len(names), 'column')} with {came}. Name the columns as Places365 does."
    )


def _read_table(path: Path) -> ConceptScores:
    """A table with a column ``image``, or ``path``, and one for each place."""
    check_source(path)
    try:
        header = pq.read_schema(path).names if path.suffix.lower() == ".parquet" else csv_header(path)[2]
    except (OSError, UnicodeDecodeError, csv.Error, pa.ArrowException):
        return ConceptScores.load(path)  # which says more
    image = next((name for name in header if name.strip().lower() == "image"), None)
    if path.suffix.lower() == ".csv":
        _check_header(path, [name for name in header if name != image and not is_reserved(name)])
    return ConceptScores.load(path, path_column=image)


def _check_header(path: Path, names: Sequence[str]) -> None:
    """Find out that the columns of a CSV file are not the places before a cell is no number."""
    if "place" in names:
        raise ChoqolateError(
            f"Expected scores of places in {path}, but it has predicted places already. Use the file as it is: "
            f"choqolate score COCO --dataset coco --option places={path}"
        )
    _check_places(names)


def _read_npz(path: Path) -> ConceptScores:
    check_regular(path, "scores of places")
    try:
        with naming_memory(path), open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            check_memory(path, sum(entry.file_size for entry in arrays.zip.infolist()))
            found = {name: arrays[name] for name in ("files", "scores", "places") if name in arrays}
    except ChoqolateError:
        raise
    except Exception as error:  # zip and zlib have errors of their own for each kind of damage
        raise ChoqolateError(
            f"Expected scores of places in {path}, but it cannot be read as .npz: {error}. Save it again."
        ) from None
    if any(array.ndim == 0 or array.dtype.kind not in "US" for name, array in found.items() if name != "scores"):
        raise ChoqolateError(
            f"Expected lists of names as files and places in {path}, but they are none. Save it again."
        )
    if "scores" in found and found["scores"].dtype.kind not in "iuf":
        raise ChoqolateError(f"Expected numbers as scores in {path}, but they are none. Save it again.")
    lacking = [name for name in ("files", "scores") if name not in found]
    if lacking:
        came = f"it has no {' and no '.join(lacking)}"
        raise ChoqolateError(
            f"Expected the arrays files and scores in {path}, but {came}. Save them under these names."
        )
    names = _texts(found["places"]) if "places" in found else places365()
    n_files, shape = len(found["files"]), found["scores"].shape
    if shape != (n_files, len(names)):
        wanted = f"{len(names):,} names in places" if "places" in found else f"the {len(names):,} classes of Places365"
        raise ChoqolateError(
            f"Expected scores of shape ({n_files}, {len(names)}) in {path}, one row for each of {n_files:,} files and "
            f"one column for each of {wanted}, but their shape is {shape}. Save the scores of all places, or add the "
            "names of the columns as an array named places."
        )
    return ConceptScores(found["scores"], names, paths=_texts(found["files"]))


def _texts(values: Iterable[object]) -> list[str]:
    return [value.decode() if isinstance(value, bytes) else str(value) for value in values]
