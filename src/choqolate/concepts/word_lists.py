"""Word lists as they are published: one concept per line, or JSON with a list of concepts for each class."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from choqolate._util.checks import as_names
from choqolate._util.files import read_text
from choqolate._util.json_files import parse_json
from choqolate._util.text import counted, printable
from choqolate.concepts.vocabulary import Vocabulary, concept_key, merge_spellings
from choqolate.errors import ChoqolateError

MAX_BYTES = 1 << 28
"""Files beyond this size are refused: fifty thousand sentences take five megabytes."""


@dataclass(frozen=True, eq=False, repr=False)
class WordList:
    """Concepts of one or several word lists, each of them once.

    Attributes:
        concepts: the words for each concept ``(M,)``: its name, then its synonyms.
        repeats: spellings that were merged, each with the name that it was merged into.
        written_for: the classes that the concepts were written for, in files with one list per class.
        sources: one line per file: how it was read, and what it holds.

    >>> words = WordList.of(["Horseshoe Arch", "horseshoe arch", "dome | cupola"])
    >>> words.names, words.repeats
    (('Horseshoe Arch', 'dome'), (('horseshoe arch', 'Horseshoe Arch'),))
    """

    concepts: tuple[tuple[str, ...], ...]
    repeats: tuple[tuple[str, str], ...] = ()
    written_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sources: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each concept."""
        return tuple(words[0] for words in self.concepts)

    @property
    def classes(self) -> tuple[str, ...]:
        """All classes that some concept was written for."""
        return tuple(dict.fromkeys(name for classes in self.written_for.values() for name in classes))

    @classmethod
    def of(cls, words: WordList | Vocabulary | Iterable[str]) -> Self:
        """A word list from concepts in memory: names, perhaps with synonyms after ``|``, or a vocabulary."""
        if isinstance(words, cls):
            return words
        if isinstance(words, Vocabulary):
            return cls(words.synonyms)
        return cls._merged([(_words_of(line), None) for line in as_names(words, "words")])

    @classmethod
    def _merged(cls, found: Iterable[tuple[tuple[str, ...], str | None]], sources: Iterable[str] = ()) -> Self:
        """Merge spellings: the first one names the concept, synonyms and classes of all are kept."""
        named = [(words, label) for words, label in found if words]
        concepts, repeats = merge_spellings(words for words, _ in named)
        name_of = {concept_key(words[0]): words[0] for words in concepts}
        classes: dict[str, dict[str, None]] = {}
        for words, label in named:
            if label is not None:
                classes.setdefault(name_of[concept_key(words[0])], {})[label] = None
        written_for = {name: tuple(labels) for name, labels in classes.items()}
        return cls(concepts, repeats, written_for, tuple(sources))

    def __len__(self) -> int:
        return len(self.concepts)

    def __repr__(self) -> str:
        return f"WordList({counted(len(self), 'concept')}, {counted(len(self.repeats), 'repeat')} merged)"


def read_words(*paths: str | os.PathLike[str]) -> WordList:
    """Read one or several word lists and merge them.

    Two layouts are recognized by their content:

    - text with one concept per line, synonyms after ``|`` and comments after ``#``, as Label-free CBM and SpLiCE
      publish their lists (SpLiCE's start with the rarest words);
    - JSON with a list of concepts for each class, as LaBo, VLG-CBM and Label-free CBM do, or one list of concepts.

    Underscores are read as spaces. Nothing in a file is executed.

    Args:
        paths: the files.

    Raises:
        ChoqolateError: if a file cannot be read, is too large, or holds something else.
    """
    if not paths:
        raise ChoqolateError("Expected at least one word list, got none. Name a text or JSON file.")
    found: list[tuple[tuple[str, ...], str | None]] = []
    sources = []
    for path in map(Path, paths):
        layout, entries = _read(path)
        if not any(words for words, _ in entries):
            raise ChoqolateError(f"Expected concepts in {path}, but it has none. Write one per line.")
        sources.append(f"{printable(str(path))}: {layout}")
        found += entries
    return WordList._merged(found, sources)


def _read(path: Path) -> tuple[str, list[tuple[tuple[str, ...], str | None]]]:
    text = _text(path)
    start = text.lstrip()[:1]
    if path.suffix.lower() == ".json" or (start and start in "[{"):
        content = _json(text, path)
        if content is not None:
            return _from_json(content, path)
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    return f"text, {counted(len(lines), 'line')}", [(_words_of(line), None) for line in lines]


def _text(path: Path) -> str:
    if path.is_file() and path.stat().st_size > MAX_BYTES:
        raise ChoqolateError(f"Expected a word list of at most {MAX_BYTES >> 20} MB, but {path} is larger. Split it.")
    return read_text(path, "a word list")


def _json(text: str, path: Path) -> Any:
    """The content of a JSON file; ``None`` for text that only looks like one."""
    try:
        return parse_json(text, str(path))
    except ChoqolateError as error:
        if path.suffix.lower() != ".json":
            return None
        raise ChoqolateError(f"{error} Download the file again.") from None


def _from_json(content: Any, path: Path) -> tuple[str, list[tuple[tuple[str, ...], str | None]]]:
    if isinstance(content, list):
        return f"JSON, {counted(len(content), 'concept')}", [(w, None) for w in _json_words(content, path, "the list")]
    if not isinstance(content, dict):
        raise ChoqolateError(
            f"Expected a list of concepts, or one list per class, but {path} holds {_kind(content)}. Check the name."
        )
    entries: list[tuple[tuple[str, ...], str | None]] = []
    for name, concepts in content.items():
        if not isinstance(concepts, list):
            raise ChoqolateError(
                f"Expected a list of concepts for each class, but {path} has {_kind(concepts)} for {_cut(name)}. "
                "Check the name."
            )
        label = _tidy(name)
        entries += [(words, label) for words in _json_words(concepts, path, _cut(name))]
    return f"JSON, {counted(len(entries), 'concept')} of {counted(len(content), 'class', 'classes')}", entries


def _json_words(concepts: list[Any], path: Path, where: str) -> Iterator[tuple[str, ...]]:
    for concept in concepts:
        if not isinstance(concept, str):
            raise ChoqolateError(
                f"Expected concepts that are text, but {path} has {_kind(concept)} in {where}. Check the name."
            )
        tidy = _tidy(concept.replace("|", " ")).lstrip("# ")  # neither is a mark in JSON
        yield (tidy,) if tidy else ()


def _words_of(line: str) -> tuple[str, ...]:
    """The words of one line of text; parts without any are left out."""
    return tuple(tidy for word in line.split("|") if (tidy := _tidy(word)))


def _tidy(word: str) -> str:
    return " ".join(printable(word).replace("_", " ").split())


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _cut(name: str) -> str:
    return repr(name if len(name) <= 40 else f"{name[:40]}...")
