"""The same group proportions in every split."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace

import numpy as np

from choqolate._util.text import listed
from choqolate.data.manifest import Manifest


def with_proportions_of_train(rows: Manifest) -> Manifest:
    """Leave out rows of val and test, as few as possible, until their groups stand as in train.

    The rows that stay are those whose names have the smallest hashes: the same ones on every machine. A note says how
    many were left out. Groups that a split does not have at all do not count when its others are brought into
    proportion; a split that has no group in common with train stays as it is.
    """
    if rows.groups is None or rows.split is None:
        return rows
    train = Counter(rows.groups[rows.split == "train"].tolist())
    keep = np.ones(len(rows), dtype=bool)
    notes = []
    for split in ("val", "test"):
        members = np.flatnonzero(rows.split == split)
        if not len(members):
            continue
        found = Counter(rows.groups[members].tolist())
        if not found.keys() & train.keys():
            notes.append(f"{split} has no group in common with train: left as it is")
            continue
        wanted = proportional(found, train)
        for group, count in wanted.items():
            of_group = members[rows.groups[members] == group]
            ranked = sorted(of_group, key=lambda row: _rank(str(rows.paths[row])))
            keep[ranked[count:]] = False
        left_out = len(members) - sum(wanted.values())
        smallest = [group for group, count in wanted.items() if count == 1 < found[group]]
        if left_out:
            notes.append(
                f"{left_out} of {len(members)} rows of {split} were left out: its groups have the proportions of train"
            )
        if smallest:
            notes.append(f"{split} keeps one row of {listed(smallest)}, more than the proportions of train give")
        absent = sorted(train.keys() - found.keys())
        if absent:
            notes.append(f"{split} has no rows of {listed(absent)}: the other groups have the proportions of train")
    return replace(rows.take(keep), notes=(*rows.notes, *notes))


def proportional(found: Counter[str], model: Counter[str]) -> dict[str, int]:
    """How many of each group to keep: the most that have the proportions of a model, to the nearest row.

    The group that is scarcest, compared with the model, stays whole. No group of the model is lost, one row at least
    stays; groups that the model does not have go.

    >>> proportional(Counter(a=30, b=20), Counter(a=100, b=50))
    {'a': 30, 'b': 15}
    >>> proportional(Counter(a=30, c=5), Counter(a=100, b=50))
    {'a': 30, 'c': 0}
    """
    scarcest = min((group for group in found if model[group]), key=lambda group: found[group] / model[group])
    have, of = found[scarcest], model[scarcest]
    nearest = {group: (2 * have * model[group] + of) // (2 * of) for group in found}
    return {group: max(count, 1) if model[group] else 0 for group, count in nearest.items()}


def _rank(path: str) -> bytes:
    name = path.rpartition("/")[2]
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()
