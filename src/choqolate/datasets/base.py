"""What is known of a data set before anyone has a copy of it: names, concepts, where it is published."""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from choqolate._util.text import listed
from choqolate.data.manifest import Manifest
from choqolate.errors import ChoqolateError


@dataclass(frozen=True)
class Dataset:
    """A published data set, and the reader for a copy of it.

    Attributes:
        name: the short name, as on the command line.
        title: the name as people write it.
        n_classes: how many classes there are.
        published: the address where to get it; or, in words, how it is made.
        layout: the files that a copy has, as a small tree.
        split: where train and test come from, in a few words.
        groups: what a group is, in a few words; empty if there are none.
        reader: the function behind :meth:`read`.
        labels: what the labels are, if the data set has no annotations of its classes.

    >>> from choqolate.datasets import DATASETS
    >>> birds = DATASETS["waterbirds"]
    >>> birds.classes, len(birds.core), len(birds.spurious), birds.spurious[-1]
    (('landbird', 'waterbird'), 48, 9, 'blue')
    """

    name: str
    title: str
    n_classes: int
    published: str
    layout: str
    split: str
    groups: str
    reader: Callable[..., Manifest]
    labels: str = ""

    @property
    def origin(self) -> str:
        """Where it comes from, in words."""
        return f"published at {self.published}" if "://" in self.published else self.published

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names in order; empty where they come with the copy (CUB)."""
        return words(f"{self._stem}.classes")

    @property
    def printed_concepts(self) -> tuple[str, ...]:
        """The concepts as the paper prints them, entries that stand twice included."""
        return words(f"{self._stem}.concepts") or words(f"{self._stem}.core") + self.spurious

    @property
    def concepts(self) -> tuple[str, ...]:
        """All concepts, each once: the core ones, then the spurious ones."""
        return tuple(dict.fromkeys(self.printed_concepts))

    @property
    def core(self) -> tuple[str, ...]:
        """The concepts that may count."""
        spurious = set(self.spurious)
        return tuple(concept for concept in self.concepts if concept not in spurious)

    @property
    def spurious(self) -> tuple[str, ...]:
        """The concepts that go with a class in training for no good reason; empty for most data sets."""
        return words(f"{self._stem}.spurious")

    @property
    def repeated(self) -> tuple[str, ...]:
        """The concepts that stand in the printed list more than once."""
        return tuple(concept for concept, count in Counter(self.printed_concepts).items() if count > 1)

    @property
    def options(self) -> tuple[str, ...]:
        """The names that :meth:`read` takes beside the folder."""
        return tuple(inspect.signature(self.reader).parameters)[1:]

    @property
    def _stem(self) -> str:
        return self.name.replace("-", "_")

    def read(self, root: str | os.PathLike[str], **options: Any) -> Manifest:
        """The rows of a copy.

        Args:
            root: the data set's folder, or the folder that it lies in.
            **options: see :attr:`options`.
        """
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            known = f"among {listed(self.options)}" if self.options else "none"
            raise ChoqolateError(f"expected options for {self.name}: {known}, got {listed(unknown)}")
        folder = Path(root)
        if not folder.is_dir():
            came = f"{folder} is a file" if folder.exists() else f"there is no {folder}"
            raise ChoqolateError(
                f"expected the folder of a copy of {self.title}, {came}; the data set is {self.origin}"
            )
        return self.reader(folder, **options)


@cache
def words(name: str) -> tuple[str, ...]:
    """The lines of a shipped list; empty if there is no such list.

    >>> words("celeba.classes")
    ('not blond', 'blond')
    """
    file = files("choqolate.datasets").joinpath("vocabularies", f"{name}.txt")
    return tuple(file.read_text(encoding="utf-8").splitlines()) if file.is_file() else ()
