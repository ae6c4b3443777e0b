"""Vocabularies: the concepts that images are scored for, and the prompts that stand for them."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from choqolate._util.checks import as_names, check_unique, find_concepts
from choqolate._util.files import read_text
from choqolate._util.text import counted, listed
from choqolate.data.provenance import VocabularyRecord
from choqolate.errors import ChoqolateError, ChoqolateWarning

TEMPLATES = ("{}",)  # Eq. (1) of the paper encodes the concept itself


def concept_key(name: str) -> str:
    """What all spellings of one concept share: case, spaces, underscores, Unicode forms and a final period are ignored.

    >>> concept_key(" Horseshoe_Arch. ") == concept_key("horseshoe  arch")
    True
    """
    words = unicodedata.normalize("NFKC", name).casefold().replace("_", " ").split()
    return " ".join(words).rstrip(". ") or name


@dataclass(frozen=True, repr=False)
class Vocabulary:
    """Concepts with their synonyms, and the templates that make prompts of them.

    Attributes:
        concepts: names of the M concepts; those known to be spurious stand last.
        synonyms: all words for each concept, its name first ``(M,)``; without any, the names alone.
        spurious: those of the concepts that are known to be spurious.
        templates: texts such as ``"a photo of a {}."``, in which the word takes the place of ``{}``.

    >>> words = Vocabulary.parse(["webbed feet", "long bill | long beak"], spurious=["sea | ocean"])
    >>> words.concepts, words.spurious
    (('webbed feet', 'long bill', 'sea'), ('sea',))
    >>> words.prompts()
    ['webbed feet', 'long bill', 'long beak', 'sea', 'ocean']
    """

    concepts: tuple[str, ...]
    synonyms: tuple[tuple[str, ...], ...] = ()
    spurious: tuple[str, ...] = ()
    templates: tuple[str, ...] = TEMPLATES

    def __post_init__(self) -> None:
        concepts = as_names(self.concepts, "concepts")
        synonyms = tuple(as_names(words, "synonyms") for words in self.synonyms) or tuple((name,) for name in concepts)
        fields = {
            "concepts": concepts,
            "synonyms": synonyms,
            "spurious": as_names(self.spurious, "spurious"),
            "templates": tuple(dict.fromkeys(as_names(self.templates, "templates"))),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        if not concepts:
            raise ChoqolateError("expected at least one concept, got none: list one per line")
        check_unique(concepts)
        if any(not word.strip() for words in synonyms for word in words):
            raise ChoqolateError("expected concepts and synonyms with a name, got an empty one: leave it out")
        if [words[:1] for words in synonyms] != [(name,) for name in concepts]:
            raise ChoqolateError("expected synonyms for every concept, the name itself first: see Vocabulary.parse")
        if self.spurious:
            find_concepts(self.spurious, concepts, known="this vocabulary has")
        _check_templates(self.templates)

    @classmethod
    def parse(cls, lines: Iterable[str], spurious: Iterable[str] = (), templates: Sequence[str] = TEMPLATES) -> Self:
        """Read a vocabulary from lines of text: one concept per line, its synonyms after ``|``.

        Blank lines and lines that start with ``#`` are skipped. A concept that is listed twice, or in two spellings
        (``Horseshoe Arch`` and ``horseshoe arch``), is used once: with its first spelling and the synonyms of both
        lines. A warning says so. See :func:`concept_key` for what counts as a spelling.

        Args:
            lines: the concepts.
            spurious: those known to be spurious, in the same form; they are appended.
            templates: texts with ``{}`` where the word goes.
        Raises:
            ChoqolateError: If there is no concept, or one is in both lists.
        """
        return cls._from_words(lines, spurious, templates)

    @classmethod
    def read(cls, path: str | Path, spurious: str | Path | None = None, templates: Sequence[str] = TEMPLATES) -> Self:
        """A vocabulary from a text file, and the spurious concepts from another: see :meth:`parse`."""
        lines, marked = _lines(Path(path)), [] if spurious is None else _lines(Path(spurious))
        words = cls._from_words(lines, marked, templates)
        if len(words) == 1 and "," in words.concepts[0]:
            message = f"one concept only, {words.concepts[0]!r}: if these are several, write one per line"
            warnings.warn(message, ChoqolateWarning, stacklevel=2)
        return words

    @classmethod
    def _from_words(cls, lines: Iterable[str], spurious: Iterable[str], templates: Sequence[str]) -> Self:
        core, marked = _parse(lines), _parse(spurious)
        known = set(map(concept_key, core))
        both = [name for name in marked if concept_key(name) in known]
        if both:
            raise ChoqolateError(
                f"expected every concept either among the concepts or among the spurious ones, got {listed(both)} in "
                "both: strike it from one list"
            )
        words = core | marked
        return cls(tuple(words), tuple(words.values()), tuple(marked), as_names(templates, "templates"))

    def prompts(self) -> list[str]:
        """All distinct prompts, concept by concept: each word in each template."""
        return list(dict.fromkeys(prompt for prompts in self._prompts() for prompt in prompts))

    def combine(self, vectors: Mapping[str, np.ndarray] | Callable[[str], np.ndarray]) -> np.ndarray:
        r"""One unit vector per concept from the vectors of its prompts, shape (M, d), float32.

        For the distinct prompts :math:`P_j` of concept j (synonyms times templates) with vectors v,

        .. math:: t_j = \frac{m_j}{\lVert m_j \rVert}, \qquad
            m_j = \frac{1}{|P_j|} \sum_{p \in P_j} \frac{v_p}{\lVert v_p \rVert}

        Args:
            vectors: the vector ``(d,)`` of each prompt, as a mapping or a function.
        Raises:
            ChoqolateError: If a prompt has no vector, one is not finite or zero, or the vectors of a concept cancel.

        >>> vectors = {"sea": np.array([2.0, 0.0]), "ocean": np.array([0.0, 1.0])}
        >>> Vocabulary.parse(["sea | ocean"]).combine(vectors)
        array([[0.7071, 0.7071]], dtype=float32)
        """
        look = vectors if callable(vectors) else vectors.__getitem__
        units: dict[str, np.ndarray] = {}
        for prompt in self.prompts():
            try:
                vector = np.asarray(look(prompt), dtype=np.float64)
            except KeyError:
                raise ChoqolateError(f"expected a vector for every prompt, got none for {prompt!r}") from None
            units[prompt] = _unit(vector, f"the vector of prompt {prompt!r}")
        shapes = {unit.shape for unit in units.values()}
        if len(shapes) > 1 or len(next(iter(shapes))) != 1:
            raise ChoqolateError(f"expected vectors of one length, got the shapes {sorted(shapes)}")
        rows = []
        for name, prompts in zip(self.concepts, self._prompts(), strict=True):
            mean = np.mean([units[prompt] for prompt in prompts], axis=0)
            rows.append(_unit(mean, f"the mean of the prompts of {name!r}"))
        return np.array(rows, dtype=np.float32)

    def as_record(self) -> VocabularyRecord:
        """All of it, for the provenance of scores; synonyms for those concepts only that have some."""
        return VocabularyRecord(
            concepts=self.concepts,
            synonyms={words[0]: words[1:] for words in self.synonyms if len(words) > 1},
            spurious=self.spurious,
            templates=self.templates,
        )

    @classmethod
    def from_record(cls, record: VocabularyRecord, concepts: Sequence[str] | None = None) -> Self:
        """The vocabulary that :meth:`as_record` came from, or the part of it that some concepts are.

        Concepts that the record does not know have no synonyms.

        >>> record = Vocabulary.parse(["crest", "sea | ocean"], templates=["a photo of {}"]).as_record()
        >>> Vocabulary.from_record(record, ["sea"]).prompts()
        ['a photo of sea', 'a photo of ocean']
        """
        names = tuple(concepts if concepts is not None else record.concepts or ())
        others, marked = record.synonyms or {}, set(record.spurious or ())
        synonyms = tuple((name, *others.get(name, ())) for name in names)
        spurious = tuple(name for name in names if name in marked)
        return cls(names, synonyms, spurious, record.templates or TEMPLATES)

    def __len__(self) -> int:
        return len(self.concepts)

    def __repr__(self) -> str:
        spurious = f", {len(self.spurious):,} of them spurious" if self.spurious else ""
        return f"Vocabulary({counted(len(self), 'concept')}{spurious}; {counted(len(self.templates), 'template')})"

    def _prompts(self) -> Iterator[list[str]]:
        for words in self.synonyms:
            yield list(dict.fromkeys(template.replace("{}", word) for word in words for template in self.templates))


def _parse(lines: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """All words of each concept by its name."""
    concepts, repeats = merge_spellings(read_lines(lines))
    if repeats:
        last = {name: other for other, name in repeats}
        texts = [name if name == other else f"{name} (also {other})" for name, other in last.items()]
        message = f"listed more than once and used once: {listed(texts)}"
        warnings.warn(message, ChoqolateWarning, stacklevel=4)  # the caller of parse or read
    return {words[0]: words for words in concepts}


def merge_spellings(
    found: Iterable[tuple[str, ...]],
) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, str], ...]]:
    """Merge concepts that differ in their spelling only.

    Args:
        found: the words of each concept: its name, then its synonyms.

    Returns:
        The words of each concept, named by its first spelling, with the synonyms of all; and each name that was merged
        with the name that it was merged into.

    >>> merge_spellings([("Arch", "bow"), ("dome",), ("arch", "curve")])
    ((('Arch', 'bow', 'curve'), ('dome',)), (('arch', 'Arch'),))
    """
    concepts: dict[str, dict[str, str]] = {}  # by key of the concept: its words by their keys
    repeats: list[tuple[str, str]] = []
    for words in found:
        known = concepts.setdefault(concept_key(words[0]), {})
        if known:
            repeats.append((words[0], next(iter(known.values()))))
        for word in words:
            known.setdefault(concept_key(word), word)
    return tuple(tuple(words.values()) for words in concepts.values()), tuple(repeats)


def read_lines(lines: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """The name and the synonyms of each line; blank lines and comments are skipped.

    Raises:
        ChoqolateError: if a word is missing beside a ``|``.
    """
    for number, line in enumerate(lines.splitlines() if isinstance(lines, str) else lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        words = tuple(word.strip() for word in text.split("|"))
        if not all(words):
            raise ChoqolateError(f"expected a word on both sides of every |, got {text!r} in line {number}")
        yield words


def _lines(path: Path) -> list[str]:
    """The lines of a text file, with at least one concept among them."""
    lines = read_text(path, "a text file with one concept per line").splitlines()
    if not any(line.strip() and not line.strip().startswith("#") for line in lines):
        raise ChoqolateError(f"Expected one concept per line, but {path} has none. Write one on each line.")
    return lines


def _check_templates(templates: Sequence[str]) -> None:
    if not templates:
        raise ChoqolateError('expected at least one template, got none: use "{}" for the concept itself')
    for template in templates:
        if template.count("{}") != 1:
            raise ChoqolateError(
                f'expected {{}} once in every template, as in "a photo of a {{}}.", got {template!r}: put {{}} where '
                "the concept goes"
            )


def _unit(vector: np.ndarray, what: str) -> np.ndarray:
    """The vector at length 1; where there is no direction, or only rounding, an error."""
    length = float(np.linalg.norm(vector))
    if not np.isfinite(length) or length < 1e-12:
        raise ChoqolateError(f"expected vectors with a direction, {what} has length {length:.3g}: change its words")
    unit: np.ndarray = vector / length
    return unit
