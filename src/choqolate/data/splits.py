"""Which rows are for training, validation and testing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from choqolate._util.checks import check_number
from choqolate._util.text import listed, printable
from choqolate.errors import ChoqolateError

SPLITS = ("train", "val", "test")
SPLIT_NAMES = {
    **dict.fromkeys(("train", "training", "trn"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing", "tst"), "test"),
}
TEST_SHARE = 0.3


def split_names(split: np.ndarray | None) -> np.ndarray | None:
    """Splits by the names of this library: train, val, test.

    >>> split_names(np.array(["Training", "valid"]))
    array(['train', 'val'], dtype='<U5')
    """
    if split is None:
        return None
    found = {name for name in split if name is not None}
    unknown = sorted(name for name in found if name.strip().lower() not in SPLIT_NAMES)
    if unknown:
        raise ChoqolateError(f"expected splits called {', '.join(SPLITS)}, got {listed(unknown)}: rename them")
    names = [None if name is None else SPLIT_NAMES[name.strip().lower()] for name in split]
    return np.array(names, dtype=object if None in names else str)


def stratified_split(
    names: Sequence[str], labels: Sequence[str | None], test_share: float = TEST_SHARE
) -> list[str | None]:
    """``"train"`` or ``"test"`` for each row, the same share of every class in both; ``None`` without a label.

    Rows of a class are ranked by a hash of their name, so the split is the same on every machine, whatever the order
    of the rows, and hardly moves when images are added.

    >>> stratified_split(["a", "b", "c", "d"], ["x", "x", "y", "y"], test_share=0.5)
    ['train', 'test', 'train', 'test']
    """
    place: dict[str, int] = {}
    codes = np.array([-1 if label is None else place.setdefault(label, len(place)) for label in labels], dtype=np.intp)
    split = ranked_split(name_keys(names), codes, test_share)
    return [None if code < 0 else SPLITS[code] for code in split.tolist()]


def ranked_split(keys: np.ndarray, labels: np.ndarray, test_share: float = TEST_SHARE) -> np.ndarray:
    """Places among ``SPLITS`` ``(n,)``: the rows of each class with the smallest keys are for testing.

    Args:
        keys: of the rows, see :func:`name_keys`; the first of two rows with equal keys is the smaller.
        labels: number of each row's class ``(n,)``; -1 for rows without a label, which stay outside of the split.
        test_share: share of each class for testing; a class of two or more rows has some on both sides.
    """
    check_number("test_share", test_share, minimum=0, strict=True)
    if test_share >= 1:
        raise ChoqolateError(f"expected test_share to be less than 1, got {test_share}")
    split = np.full(len(keys), -1, dtype=np.int8)
    order = np.lexsort((keys, labels))
    stop = int((labels < 0).sum())
    for n_members in np.bincount(labels[labels >= 0]).tolist():
        start, stop = stop, stop + n_members
        n_test = min(max(round(test_share * n_members), 1), n_members - 1)
        split[order[start:stop]] = SPLITS.index("train")
        split[order[start : start + max(n_test, 0)]] = SPLITS.index("test")
    return split


def name_keys(names: Iterable[str]) -> np.ndarray:
    """The first eight bytes of the SHA-256 of each name ``(n,)``, as numbers."""
    digests = (hashlib.sha256(name.encode()).digest() for name in names)
    return np.fromiter((int.from_bytes(digest[:8], "big") for digest in digests), dtype=np.uint64)


def row_name(row: int, path: str | None, label: str | None) -> str:
    """What a row is known by where a split is made: its path, or, where it has none, its number and label."""
    return printable(f"{row} {label}" if path is None else path)


def check_part(split: str, found: Sequence[str] | None) -> str:
    """The name of a part of a table: ``"train"``, ``"val"`` or ``"test"``.

    Args:
        split: as the user wrote it.
        found: those that the table has rows for; ``None`` if it has no split.

    Raises:
        ChoqolateError: if there are no rows for it.
    """
    name = SPLIT_NAMES.get(split.strip().lower())
    if name is None:
        raise ChoqolateError(f"expected a split called {', '.join(SPLITS)}, got {split!r}")
    if found is None:
        raise ChoqolateError(f"expected rows for {listed(SPLITS)}, this table has no split: with_split() makes one")
    if name not in found:
        raise ChoqolateError(f"expected rows for {split!r}, this table has rows for {listed(found)} only")
    return name
