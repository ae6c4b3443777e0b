"""The data set of bird scenes: drawn into a folder, and read from there like any other."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

import numpy as np

from choqolate._util.checks import check_choice, check_number
from choqolate._util.files import check_new_folder, check_parent, replacing_folder, write_bytes
from choqolate.data.image_list import read_columns, read_csv
from choqolate.data.manifest import Manifest
from choqolate.data.splits import SPLITS
from choqolate.datasets.base import Dataset
from choqolate.datasets.birds.attributes import ATTRIBUTES, CLASSES, Scenes, sample_scenes
from choqolate.datasets.copy_search import find_copy
from choqolate.errors import ChoqolateError

INDEX = "birds.csv"
N_IMAGES = 6_000
AGREEMENT = 0.95  # of place and class, in training and validation
SHARES = {"train": 0.6, "val": 0.1, "test": 0.3}
_COLUMNS = ("path", "label", "split", "group")
_FEWEST = 40  # so that every group for training has an image


def render_birds(
    folder: str | os.PathLike[str],
    n_images: int = N_IMAGES,
    *,
    agreement: float = AGREEMENT,
    seed: int = 0,
    parts: Sequence[str] = SPLITS,
    workers: int | None = None,
    verbose: bool = False,
) -> Manifest:
    """Draw the data set into a folder: ``split/class/number.jpg``, and ``birds.csv`` with all that is known of each.

    60% of the images are for training, 10% for validation, 30% for testing. Place and class agree in a given share
    of those for training and validation, and in half of those for testing. The same arguments give the same images;
    another agreement gives the same birds before other places.

    Args:
        folder: new, empty, or with such a data set, which is replaced.
        n_images: number of images, of all parts.
        agreement: share of the birds for training that are where their class lives.
        seed: everything is drawn from this.
        parts: draw only these of train, val and test.
        workers: number of processes; by default one for each core.
        verbose: show progress on stderr.

    Raises:
        ChoqolateError: if the folder holds other things.

    >>> import tempfile
    >>> rows = render_birds(Path(tempfile.mkdtemp()) / "birds", 40)
    >>> [int((rows.split == part).sum()) for part in ("train", "val", "test")]
    [24, 4, 12]
    """
    from choqolate.datasets.birds.scenes import write_scenes  # it needs Pillow, reading does not

    check_number("n_images", n_images, minimum=_FEWEST, whole=True)
    check_number("agreement", agreement, minimum=0)
    if agreement > 1:
        raise ChoqolateError(f"expected agreement to be a share between 0 and 1, got {agreement!r}")
    if workers is not None:
        check_number("workers", workers, minimum=1, whole=True)
    for part in parts:
        check_choice("parts", part, SPLITS)
    if not parts:
        raise ChoqolateError("expected at least one of train, val and test as parts, got none")
    target = Path(folder).resolve()
    check_target(target)
    sampled = {part: _sample(part, n_images, agreement, seed) for part in SPLITS if part in parts}
    with replacing_folder(target) as temporary:
        paths: list[str] = []
        for part, scenes in sampled.items():
            for label in CLASSES:
                (temporary / part / label).mkdir(parents=True)
            paths += [f"{part}/{label}/{row:05d}.jpg" for row, label in enumerate(scenes.labels)]
        split = [part for part, scenes in sampled.items() for _ in range(len(scenes))]
        joined = reduce(Scenes.join, sampled.values())
        write_scenes(joined, [temporary / path for path in paths], workers=workers, verbose=verbose)
        write_bytes(temporary / INDEX, _index(joined, paths, split))
    return read(Path(folder))


def read(root: Path) -> Manifest:
    """The rows of a folder of bird scenes.

    Args:
        root: the folder with birds.csv, or the one that it lies in.
    """
    folder = find_copy(BIRDS, root, [INDEX], lambda place, name: (place / name).is_file())
    return replace(read_csv(folder / INDEX), source=BIRDS.name).with_columns(classes=CLASSES)


def read_truth(root: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """What each image of a folder of bird scenes shows: the value of every attribute, in the order of the rows."""
    folder = find_copy(BIRDS, Path(root), [INDEX], lambda place, name: (place / name).is_file())
    table = read_columns(folder / INDEX, {name: (name,) for name in ATTRIBUTES}, required=tuple(ATTRIBUTES))
    return {name: np.array(cells, dtype=object) for name, cells in table.cells.items()}


def _sample(part: str, n: int, agreement: float, seed: int) -> Scenes:
    count = n - sum(round(SHARES[other] * n) for other in SPLITS[1:]) if part == "train" else round(SHARES[part] * n)
    return sample_scenes(count, 0.5 if part == "test" else agreement, seed=[seed, SPLITS.index(part)])


def _index(scenes: Scenes, paths: Sequence[str], split: Sequence[str]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_COLUMNS, *ATTRIBUTES])
    known = [paths, scenes.labels, split, scenes.groups, *(scenes.values[name] for name in ATTRIBUTES)]
    writer.writerows(zip(*known, strict=True))
    return text.getvalue().encode()


def check_target(target: Path) -> None:
    """A folder of images of ours may be replaced, nothing else."""
    check_parent(target)  # another folder takes its place
    check_new_folder(target, "the images", _is_ours)


def _is_ours(folder: Path) -> bool:
    """Whether a folder holds a drawn data set and nothing that somebody has put there since."""
    if not (folder / INDEX).is_file():
        return False
    try:
        with open(folder / INDEX, encoding="utf-8") as file:
            header = file.readline().rstrip("\n")
    except (OSError, UnicodeDecodeError):
        return False
    if header != ",".join([*_COLUMNS, *ATTRIBUTES]):
        return False
    known = {folder / INDEX, *(folder / path for path in read_csv(folder / INDEX).paths)}
    return all(path in known or path.is_dir() for path in folder.rglob("*"))


BIRDS = Dataset(
    name="birds",
    title="Bird scenes",
    n_classes=len(CLASSES),
    published="drawn by choqolate demo",
    layout=f"""\
images/
    {INDEX}
    train/landbird/00000.jpg""",
    split="made with the images",
    groups="bird and background",
    reader=read,
)
