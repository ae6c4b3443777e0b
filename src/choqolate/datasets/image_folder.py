"""Folders of images: a folder for each class, perhaps inside a folder for each split."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from choqolate._util.text import printable
from choqolate.data.manifest import Manifest
from choqolate.data.splits import SPLIT_NAMES
from choqolate.datasets.image_search import EMBEDDINGS, Found, find_images
from choqolate.errors import ChoqolateError


def read_folder(root: str | os.PathLike[str]) -> Manifest:
    """The images below a folder, sorted by path.

    ``PHOTOS/<class>/…/x.jpg`` gives labels, ``PHOTOS/train/<class>/…/x.jpg`` splits as well (two folders called train,
    val or test, or one and nothing beside it). Images outside of all class folders have no label.

    >>> import tempfile
    >>> photos = Path(tempfile.mkdtemp())
    >>> for name in ("duck/1.jpg", "crow/2.PNG", "crow/old/3.jpg"):
    ...     (photos / name).parent.mkdir(parents=True, exist_ok=True)
    ...     _ = (photos / name).write_bytes(b"")
    >>> rows = read_folder(photos)
    >>> rows.paths.tolist(), rows.labels.tolist()
    (['crow/2.PNG', 'crow/old/3.jpg', 'duck/1.jpg'], ['crow', 'crow', 'duck'])
    """
    folder = Path(root)
    if not folder.is_dir():
        name = printable(str(folder))
        came = f"{name} is a file" if folder.exists() else f"there is no {name}"
        raise ChoqolateError(f"expected a folder of images, {came}")
    found = find_images(root)
    if not found.paths:
        below = printable(str(folder))
        raise ChoqolateError(f"expected images such as x.jpg or x.png below {below}, {_instead(folder, found)}")
    parts = [path.split("/") for path in found.paths]
    tops = Counter(names[0] for names in parts if len(names) > 1)
    n_flat = len(parts) - tops.total()
    splits = {top: SPLIT_NAMES[top.strip().lower()] for top in tops if top.strip().lower() in SPLIT_NAMES}
    if len(splits) == 1 and (len(tops) > 1 or n_flat):
        splits = {}
    if splits:
        split = [splits.get(names[0]) if len(names) > 1 else None for names in parts]
        labels = [names[1] if names[0] in splits and len(names) > 2 else None for names in parts]
    else:
        split = []
        labels = [names[0] if len(names) > 1 else None for names in parts]
    return Manifest(
        folder,
        np.array(found.paths, dtype=object),
        labels=np.array(labels, dtype=object),
        split=np.array(split, dtype=object) if splits else None,
        classes=tuple(sorted({label for label in labels if label is not None})),
        notes=(
            *_label_notes(labels, split),
            *_named_like_a_split(tops, splits),
            *_one_class(folder, parts, tops, splits),
            *_left_out(found),
        ),
    )


def _label_notes(labels: Sequence[str | None], split: Sequence[str | None]) -> list[str]:
    unlabelled = labels.count(None)
    outside = split.count(None)
    notes = []
    if 0 < unlabelled < len(labels):
        notes.append(f"{_images(unlabelled)} in no class folder: without a label")
    if outside:
        notes.append(f"{_images(outside)} in none of the folders for train, val and test: without a split")
    return notes


def _named_like_a_split(tops: Counter[str], splits: dict[str, str]) -> list[str]:
    found = sorted(top for top in tops if top.strip().lower() in SPLIT_NAMES) if not splits else []
    return [f"the folder {printable(top)!r} is taken for a class, as there are others beside it" for top in found]


def _one_class(folder: Path, parts: Sequence[list[str]], tops: Counter[str], splits: dict[str, str]) -> list[str]:
    """One folder with folders in it is often the wrong folder: its parent was given."""
    below = {names[1] for names in parts if len(names) > 2}
    if splits or len(tops) != 1 or len(below) < 2:
        return []
    top = printable(next(iter(tops)))
    return [f"one class only, {top!r}: if the classes are the folders in it, give {printable(str(folder))}/{top}"]


def _left_out(found: Found) -> list[str]:
    notes = []
    if found.others:
        n = found.others.total()
        what = "1 file that is no image was" if n == 1 else f"{n} files that are no images were"
        notes.append(f"{what} left out ({_kinds(found.others)})")
    if found.unread:
        was = "was" if len(found.unread) == 1 else "were"
        notes.append(f"{_folders(len(found.unread))} could not be read and {was} left out ({_first(found.unread)})")
    if found.again:
        was = "was" if len(found.again) == 1 else "were"
        notes.append(
            f"{_folders(len(found.again))} that links lead to a second time {was} left out ({_first(found.again)})"
        )
    return notes


def _first(paths: Sequence[str], most: int = 5) -> str:
    return ", ".join([*(printable(path) for path in sorted(paths)[:most]), *(["..."] if len(paths) > most else [])])


def _kinds(others: Counter[str], most: int = 5) -> str:
    ranked = sorted(others.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{printable(ending) or 'no ending'} {count}" for ending, count in ranked[:most]]
    rest = sum(count for _, count in ranked[most:])
    return ", ".join([*shown, f"others {rest}"] if rest else shown)


def _instead(folder: Path, found: Found) -> str:
    if (folder / EMBEDDINGS).is_file():
        return "it is a folder of embeddings: give the folder of the images themselves"
    if found.unread:
        return f"{_folders(len(found.unread))} could not be read: check the permissions"
    if found.others:
        return f"got {found.others.total()} other files ({_kinds(found.others)}): check the path"
    return "the folder is empty: check the path"


def _folders(n: int) -> str:
    return "1 folder" if n == 1 else f"{n} folders"


def _images(n: int) -> str:
    return "1 image lies" if n == 1 else f"{n} images lie"
