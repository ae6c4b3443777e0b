"""Which rows the studio holds, in which order, and which of them stay covered until the final check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from choqolate._util.checks import check_number
from choqolate._util.text import counted
from choqolate.data.rows import class_index
from choqolate.data.scores import ConceptScores
from choqolate.data.splits import SPLITS
from choqolate.errors import ChoqolateError
from choqolate.estimators.table_training import was_split_for
from choqolate.explain.model_protocols import ConceptModel

ROWS = 2000  # that a file holds
TRAINING, AUDIT, COVERED = 0, 1, 2
SHARES = (0.25, 0.40, 0.35)  # of these roles in the rows that are loaded
SPLIT_WORDS = {"train": "training", "val": "validation", "test": "test"}


class Stratum(NamedTuple):
    """Rows that are sampled alike: of one role and split, and of one group or, where no groups are known, one class."""

    role: int
    split: int | None
    group: int | None
    label: int | None
    total: int

    def as_dict(self) -> dict[str, Any]:
        """The stratum such as JSON can hold."""
        return {"split": self.split, "group": self.group, "class": self.label, "role": self.role, "total": self.total}


@dataclass(frozen=True, eq=False)
class RowChoice:
    """All rows of a table in the order of the studio, and what each is for. Columns are in the order of the table.

    Attributes:
        order: row numbers of the table ``(n,)``; the first ``loaded`` of them are the sample.
        loaded: how many rows are in the sample.
        role: ``TRAINING`` (or other), ``AUDIT`` or ``COVERED`` ``(n,)``.
        label: index of the class in the model ``(n,)``, -1 where it is not known.
        split: index in ``splits`` ``(n,)``, or -1.
        group: index in ``groups`` ``(n,)``, or -1.
        stratum: index in ``strata`` ``(n,)``.
        splits: names of the splits that occur.
        groups: names of the groups, sorted.
        strata: what the sample was drawn from.
        audit: the rows that edits are judged on, in words.
        covered: the rows that are kept for the final check, in words.
        chosen: which rows were chosen, in words.
    """

    order: np.ndarray
    loaded: int
    role: np.ndarray
    label: np.ndarray
    split: np.ndarray
    group: np.ndarray
    stratum: np.ndarray
    splits: tuple[str, ...]
    groups: tuple[str, ...]
    strata: tuple[Stratum, ...]
    audit: str
    covered: str
    chosen: str

    def __len__(self) -> int:
        return len(self.order)


def choose_rows(model: ConceptModel, table: ConceptScores, rows: int = ROWS) -> RowChoice:
    """Choose the rows that the studio holds at first, and put all rows of a table in a fixed order.

    Validation rows are for the audit: edits are judged on them. Test rows stay covered until the final check. If only
    one of the two parts has labels, one half of it takes each role; if neither has, the labeled rows are halved.

    Of each role small groups are taken whole and the others evenly; without groups the same holds for classes. Rows
    are drawn by a hash of their number, so that the choice is the same on every machine, and the rows that follow the
    sample continue it.

    Args:
        model: a fitted classifier; a split that was made for its training is respected.
        table: scores; labels, split and groups are optional.
        rows: how many to choose at most.

    Raises:
        ChoqolateError: if the table has no rows.

    >>> from choqolate.estimators.table_training import fit_scores
    >>> scores = np.random.default_rng(0).random((40, 3))
    >>> table = ConceptScores(scores, ["sea", "oak", "crest"], labels=["duck", "owl"] * 20)
    >>> choice = choose_rows(fit_scores(table, epochs=5), table, rows=20)
    >>> choice.chosen.split(". ")[0]
    '20 of 40 rows: all 12 test rows and 8 of 28 training rows'
    >>> choice.audit
    '6 of the 12 test rows of the split that was made for training, a fixed half'
    """
    check_number("rows", rows, minimum=1, whole=True)
    if not len(table):
        raise ChoqolateError("Expected a table with rows to show, but it is empty. Score some images first.")
    made = table.split is None and was_split_for(model, table)
    splits, split = _indexed(table.with_split().split if made else table.split, SPLITS, len(table))
    groups, group = _indexed(table.groups, None, len(table))
    label = label_places(model, table)
    roles = _assign_roles(splits, split, group, label, " of the split that was made for training" if made else "")
    quotas = divide(rows, np.bincount(roles.role, minlength=3), np.array(SHARES))
    strata, stratum = _stratify(roles.role, split, group if groups else None, label, quotas)
    order = _sampled_order(stratum, _taken(strata, quotas))
    loaded = min(rows, len(table))
    return RowChoice(
        order=order,
        loaded=loaded,
        role=roles.role,
        label=label,
        split=split,
        group=group,
        stratum=stratum,
        splits=splits,
        groups=groups,
        strata=strata,
        audit=roles.audit,
        covered=roles.covered,
        chosen=_chosen_text(order[:loaded], splits, split, _drawn_text(strata, bool(groups)), label),
    )


def label_places(model: ConceptModel, table: ConceptScores) -> np.ndarray:
    """Index of each row's label among the classes of a model ``(n,)``; -1 for rows without one that it knows."""
    if table.labels is None:
        return np.full(len(table), -1, dtype=np.int32)
    places = class_index(model.classes_)
    return np.array([places.get(label, -1) for label in table.labels.tolist()], dtype=np.int32)


def divide(budget: int, sizes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Divide a number of rows among parts by weight; what a part cannot use goes to the others.

    Args:
        budget: rows in all.
        sizes: rows that each part has ``(K,)``.
        weights: of the parts ``(K,)``, above zero.

    >>> divide(10, np.array([2, 50, 50]), np.ones(3))
    array([2, 4, 4])
    """
    sizes = np.asarray(sizes, dtype=np.int64)
    shares = sizes.astype(float)
    unfilled = np.ones(len(sizes), dtype=bool)
    left = float(min(budget, sizes.sum()))
    while unfilled.any():
        proposed = left * weights / weights[unfilled].sum()
        full = unfilled & (sizes <= proposed + 1e-9)
        if not full.any():
            shares[unfilled] = proposed[unfilled]
            break
        left -= sizes[full].sum()
        unfilled &= ~full
    given: np.ndarray = np.floor(shares + 1e-9).astype(np.int64)
    rest = int(min(budget, sizes.sum()) - given.sum())
    given[np.argsort(given - shares, kind="stable")[:rest]] += 1
    return given


def mixed(numbers: np.ndarray) -> np.ndarray:
    """A fixed pseudo-random number for each row number, the same on every machine (splitmix64).

    >>> mixed(np.array([0, 1])).tolist()
    [16294208416658607535, 7960286522194355700]
    """
    with np.errstate(over="ignore"):
        x = (np.asarray(numbers).astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


# ---------------------------------------------------------------------- roles


class _Roles(NamedTuple):
    role: np.ndarray
    audit: str
    covered: str


def _assign_roles(
    splits: Sequence[str], split: np.ndarray, group: np.ndarray, label: np.ndarray, remark: str
) -> _Roles:
    role = np.full(len(label), TRAINING, dtype=np.uint8)
    known = label >= 0
    if not known.any():
        role[:] = AUDIT
        return _Roles(role, f"all {counted(len(role), 'row')}, none of which has a label to measure with", "no rows")
    parts = {name: split == splits.index(name) for name in ("val", "test") if name in splits}
    parts = {name: mask for name, mask in parts.items() if (mask & known).any()}
    if len(parts) == 2:
        role[parts["val"]], role[parts["test"]] = AUDIT, COVERED
        words = [f"the {counted(int(mask.sum()), f'{SPLIT_WORDS[name]} row')}" for name, mask in parts.items()]
        return _Roles(role, words[0], words[1])
    if parts:
        ((name, mask),) = parts.items()
        called, doubt = SPLIT_WORDS[name], ""
    else:
        mask, called, doubt = known, "labeled", " that may include training rows"
    members = np.flatnonzero(mask)
    # sorted by group and class, every other row: both halves have the same share of each
    members = members[np.lexsort((mixed(members), label[members], group[members]))]
    role[members[::2]], role[members[1::2]] = AUDIT, COVERED
    n_covered = len(members) // 2
    audit = f"{len(members) - n_covered:,} of the {counted(len(members), f'{called} row')}{remark}, a fixed half{doubt}"
    covered = f"the other {counted(n_covered, f'{called} row')}" if n_covered else "no rows"
    return _Roles(role, audit, covered)


def _indexed(column: np.ndarray | None, order: Sequence[str] | None, n_rows: int) -> tuple[tuple[str, ...], np.ndarray]:
    """The names that occur in a column, and the index of each row's; -1 where it has none."""
    if column is None:
        return (), np.full(n_rows, -1, dtype=np.int32)
    found = {name for name in column.tolist() if name is not None}
    names = tuple(sorted(found) if order is None else (name for name in order if name in found))
    at = {name: index for index, name in enumerate(names)}
    return names, np.array([at.get(name, -1) for name in column.tolist()], dtype=np.int32)


# ---------------------------------------------------------------------- the sample


def _stratify(
    role: np.ndarray, split: np.ndarray, group: np.ndarray | None, label: np.ndarray, quotas: np.ndarray
) -> tuple[tuple[Stratum, ...], np.ndarray]:
    """What rows are drawn from; a role with more groups than rows to draw is drawn from as a whole."""
    fine = label if group is None else group
    keys = np.stack([role, split, fine], axis=1).astype(np.int64)
    for one in (TRAINING, AUDIT, COVERED):
        members = role == one
        if len(np.unique(keys[members], axis=0)) > quotas[one]:
            keys[members, 2] = -1
    found, stratum, totals = np.unique(keys, axis=0, return_inverse=True, return_counts=True)

    def described(key: Sequence[int], total: int) -> Stratum:
        which, part, name = (None if value < 0 else int(value) for value in key)
        assert which is not None
        return Stratum(which, part, None if group is None else name, name if group is None else None, int(total))

    strata = tuple(described(key, total) for key, total in zip(found.tolist(), totals, strict=True))
    return strata, stratum.reshape(-1).astype(np.int32)


def _taken(strata: Sequence[Stratum], quotas: np.ndarray) -> np.ndarray:
    """How many rows of each stratum are in the sample."""
    taken = np.zeros(len(strata), dtype=np.int64)
    for role, quota in enumerate(quotas):
        members = [index for index, one in enumerate(strata) if one.role == role]
        sizes = np.array([strata[index].total for index in members], dtype=np.int64)
        taken[members] = divide(int(quota), sizes, np.ones(len(members)))
    return taken


def _sampled_order(stratum: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Row numbers, those of the sample first; in both parts the strata are spread evenly from first to last."""
    chance = mixed(np.arange(len(stratum)))
    grouped = np.lexsort((chance, stratum))
    sizes = np.bincount(stratum, minlength=len(taken))
    rank = np.empty(len(stratum))
    rank[grouped] = np.arange(len(stratum)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    first, all_of = taken[stratum], sizes[stratum]
    inside = (rank + 0.5) / np.maximum(first, 1)
    beyond = 1 + (rank - first + 0.5) / np.maximum(all_of - first, 1)
    order: np.ndarray = np.lexsort((chance, np.where(rank < first, inside, beyond)))
    return order


# ---------------------------------------------------------------------- words


def _chosen_text(sample: np.ndarray, splits: Sequence[str], split: np.ndarray, drawn: str, label: np.ndarray) -> str:
    unlabelled = int((label < 0).sum())
    shown = f" {counted(unlabelled, 'row')} without a label known to the model: shown, not measured."
    notes = shown if 0 < unlabelled < len(label) else ""
    if len(sample) == len(split):
        return f"{'All ' if len(split) > 1 else ''}{counted(len(split), 'row')} of the table.{notes}"
    parts = ""
    if splits:
        named = [
            (splits.index(name), f"{SPLIT_WORDS[name]} row") for name in ("val", "test", "train") if name in splits
        ]
        named.append((-1, "other row"))
        said = [_part_text(int((split[sample] == i).sum()), int((split == i).sum()), name) for i, name in named]
        parts = f": {_joined([text for text in said if text])}"
    how = f"{drawn}; numbers are weighted to stand for all rows."
    return f"{len(sample):,} of {counted(len(split), 'row')}{parts}. {how}{notes}"


def _drawn_text(strata: Sequence[Stratum], grouped: bool) -> str:
    """How rows are drawn; a role may have no room for every group."""
    told_apart = {one.role for one in strata if one.group is not None or one.label is not None}
    if not told_apart:
        return "Rows are drawn at random"
    room = "" if told_apart == {one.role for one in strata} else " where there is room for all of them"
    return f"Small {'groups' if grouped else 'classes'} are taken whole, larger ones evenly{room}"


def _part_text(taken: int, total: int, name: str) -> str:
    if not total:
        return ""
    return f"all {counted(total, name)}" if taken == total else f"{taken:,} of {counted(total, name)}"


def _joined(texts: Sequence[str]) -> str:
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
