"""Which rows are for training, validation and testing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from choqolate._util.checks import check_number
from choqolate._util.text import listed
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
    check_number("test_share", test_share, minimum=0, strict=True)
    if test_share >= 1:
        raise ChoqolateError(f"expected test_share to be less than 1, got {test_share}")
    ranked: dict[str, list[int]] = {}
    for index in sorted(range(len(names)), key=lambda i: hashlib.sha256(names[i].encode()).digest()):
        label = labels[index]
        if label is not None:
            ranked.setdefault(label, []).append(index)
    split: list[str | None] = [None] * len(names)
    for members in ranked.values():
        n_test = min(max(round(test_share * len(members)), 1), len(members) - 1)
        for rank, index in enumerate(members):
            split[index] = "test" if rank < n_test else "train"
    return split
