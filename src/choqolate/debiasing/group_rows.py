"""Rows whose class and group are known, and fair draws from them: for methods that learn from group labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from choqolate._util.text import listed
from choqolate.data.rows import class_places
from choqolate.data.scores import ConceptScores
from choqolate.data.splits import stratified_split
from choqolate.errors import ChoqolateError
from choqolate.estimators.classifier import ChoqolateClassifier

HELD_OUT = 0.2  # of the training rows, to choose on where there are no validation rows for it
_FEWEST = 2  # rows of a group: one to fit on and one to measure on


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """Rows of a table with a label and a group.

    Attributes:
        table: their scores.
        targets: index of the class of each row ``(n,)``.
        groups: index of the group of each row ``(n,)``.
        names: names of the groups, sorted.
    """

    table: ConceptScores
    targets: np.ndarray
    groups: np.ndarray
    names: tuple[str, ...]

    @classmethod
    def of(cls, table: ConceptScores, classes: np.ndarray) -> GroupedRows:
        """The rows of a table that have both.

        Raises:
            ChoqolateError: if no row has, or one has a label that is not among the classes.
        """
        table = table.labelled()
        if table.groups is None:
            raise ChoqolateError(
                'expected a group for each row, this table has none: add a column "group", such as class and background'
            )
        table = table.grouped()
        if not len(table) or table.labels is None:
            raise ChoqolateError("expected rows that have a label and a group, this table has none")
        targets = class_places(table.labels, classes)
        names, groups = np.unique(np.asarray(table.groups, dtype=str), return_inverse=True)
        return cls(table, targets, groups, tuple(names.tolist()))

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows of each group."""
        return np.bincount(self.groups, minlength=len(self.names))

    def take(self, rows: np.ndarray) -> GroupedRows:
        """The rows of a mask or index; the groups keep their numbers."""
        return GroupedRows(self.table.take(rows), self.targets[rows], self.groups[rows], self.names)

    def node_values(self, models: Sequence[ChoqolateClassifier]) -> np.ndarray:
        """Node values of each model ``(R, n, N)``."""
        return np.stack([np.asarray(model.transform(self.table)) for model in models])

    def hold_out(self, share: float = HELD_OUT) -> tuple[GroupedRows, GroupedRows]:
        """Two parts, always the same: rows to fit on, and a share of every group to choose on."""
        groups = [self.names[group] for group in self.groups]
        split = np.array(stratified_split([f"{row} {name}" for row, name in enumerate(groups)], groups, share))
        return self.take(split == "train"), self.take(split == "test")


def grouped_parts(table: ConceptScores, classes: np.ndarray) -> tuple[GroupedRows, GroupedRows | None]:
    """The training rows with a group, and the validation rows if each of the groups has at least two there.

    A table without a split gets the one that training makes. Training rows need two rows of every group as well.
    """
    table = table.with_split().labelled()
    train = GroupedRows.of(table.part("train"), classes)
    few = [name for name, size in zip(train.names, train.sizes, strict=True) if size < _FEWEST]
    if few:
        raise ChoqolateError(
            f"expected at least {_FEWEST} training rows of every group, got fewer of {listed(few)}: join it to another "
            "group, or leave its rows without a group"
        )
    rows = np.flatnonzero(table.split == "val")
    if table.groups is None or not set(train.names) <= set(table.groups[rows].tolist()):
        return train, None
    val = GroupedRows.of(table.take(rows), classes)
    return train, val if val.sizes.min() >= _FEWEST else None


def check_bottlenecks(models: Sequence[Any]) -> list[ChoqolateClassifier]:
    """Fitted classifiers with nodes and the same classes, at least one."""
    models = list(models)
    if not models or not all(isinstance(model, ChoqolateClassifier) for model in models):
        raise ChoqolateError(f"expected trained classifiers in a list, got {models!r}")
    if any(model.one_layer_ for model in models):
        raise ChoqolateError(
            "expected models with nodes, whose last layer can be trained again, got one with n_nodes=None: train it "
            "with nodes"
        )
    if any(model.classes_.tolist() != models[0].classes_.tolist() for model in models):
        raise ChoqolateError("expected models of the same classes, got others: train them on the same labels")
    return models


def balanced_rows(groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Equally many rows of every group, drawn without replacement: as many as the smallest group has.

    >>> balanced_rows(np.array([0, 0, 0, 0, 1, 1]), np.random.default_rng(0)).shape
    (4,)
    """
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    fewest = min(map(len, members))
    return np.concatenate([rng.choice(rows, fewest, replace=False) for rows in members])


def balanced_batches(groups: Tensor, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Batches ``(G, k)`` of row numbers, k of each group: one pass over the largest group.

    Every group is shuffled; a smaller one is shuffled and passed again until the largest has been passed once. So a
    single group gives the batches of ordinary training.

    >>> groups = torch.tensor([0, 0, 0, 0, 1])
    >>> [tuple(batch.shape) for batch in balanced_batches(groups, 6, torch.Generator())]
    [(2, 3), (2, 1)]
    """
    members = [torch.nonzero(groups == group)[:, 0] for group in groups.unique()]
    length = max(map(len, members))
    passes = torch.stack([_repeat(rows, length, generator) for rows in members])
    yield from passes.split(max(1, batch_size // len(members)), dim=1)


def _repeat(rows: Tensor, length: int, generator: torch.Generator) -> Tensor:
    times = -(-length // len(rows))
    shuffles = torch.rand(times, len(rows), generator=generator).argsort(1)
    return rows[shuffles.flatten()[:length]]
