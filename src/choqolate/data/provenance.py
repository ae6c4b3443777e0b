"""Where scores and models come from: encoder, prompts, training rows, versions.

A provenance is read from files that anyone may have written. Each field is checked here, once: what is not understood
is kept as it is, under ``other``, and written back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

from choqolate.errors import ChoqolateError

Forms = Mapping[str, Callable[[Any], Any]]
"""How each field is read: what a value stands for, ``None`` if it is something else."""


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _texts(value: Any) -> tuple[str, ...] | None:
    fine = isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
    return tuple(value) if fine else None


def _texts_by_name(value: Any) -> dict[str, tuple[str, ...]] | None:
    known = {name: _texts(words) for name, words in value.items()} if isinstance(value, Mapping) else {None: None}
    fine = all(isinstance(name, str) and words is not None for name, words in known.items())
    return known if fine else None  # type: ignore[return-value]


def _mapping(value: Any) -> dict[str, Any] | None:
    return dict(value) if isinstance(value, Mapping) else None


def _text_by_name(value: Any) -> dict[str, str] | None:
    return dict(value) if isinstance(value, Mapping) and all(map(_text, value.values())) else None


@dataclass(frozen=True, kw_only=True)
class _Record:
    """Fields that are known, ``None`` where nothing was said, and all else that somebody wrote."""

    forms: ClassVar[Forms] = {}
    other: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Self:
        """Read what :meth:`as_dict` gave, or what somebody wrote in its place."""
        known = {name: form(said[name]) for name, form in cls.forms.items() if name in said}
        known = {name: value for name, value in known.items() if value is not None}
        return cls(**known, other={name: value for name, value in said.items() if name not in known})

    def as_dict(self) -> dict[str, Any]:
        """All that is known, such as JSON can hold."""
        said = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "other"}
        plain = {name: _plain(value) for name, value in said.items() if value is not None}
        known = {name: value for name, value in plain.items() if value != {} or name not in _SECTIONS}
        return known | {name: value for name, value in self.other.items() if name not in known}


@dataclass(frozen=True, kw_only=True)
class BackboneRecord(_Record):
    """The encoder of images and texts.

    Attributes:
        name: what the user calls it.
        identity: names its weights, architecture and preprocessing by their content.
        precision: of its weights and activations.
        dim: length of a vector.
    """

    forms: ClassVar[Forms] = {"name": _text, "identity": _text, "precision": _text, "dim": _whole}
    name: str | None = None
    identity: str | None = None
    precision: str | None = None
    dim: int | None = None


@dataclass(frozen=True, kw_only=True)
class VocabularyRecord(_Record):
    """The concepts and the prompts that stand for them.

    Attributes:
        concepts: their names.
        synonyms: other words for those concepts that have some.
        spurious: those known to be spurious.
        templates: texts in which a word takes the place of ``{}``.
    """

    forms: ClassVar[Forms] = {"concepts": _texts, "synonyms": _texts_by_name, "spurious": _texts, "templates": _texts}
    concepts: tuple[str, ...] | None = None
    synonyms: Mapping[str, tuple[str, ...]] | None = None
    spurious: tuple[str, ...] | None = None
    templates: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingRecord(_Record):
    """The rows that a model was trained on.

    Attributes:
        fingerprint: of the table, see :attr:`ConceptScores.fingerprint`.
        split: ``"given"`` with the table, or ``"made"`` for the training.
        rows: number of training rows.
        sample: hashes of some of them, by which the model recognises them.
        left_out: concepts of the table that were left out.
    """

    forms: ClassVar[Forms] = {
        "fingerprint": _text,
        "split": _text,
        "rows": _whole,
        "sample": _texts,
        "left_out": _texts,
    }
    fingerprint: str | None = None
    split: str | None = None
    rows: int | None = None
    sample: tuple[str, ...] | None = None
    left_out: tuple[str, ...] | None = None


def _section(kind: type[_Record]) -> Callable[[Any], Any]:
    return lambda value: kind.from_dict(value) if isinstance(value, Mapping) else None


@dataclass(frozen=True, kw_only=True, repr=False)
class Provenance(_Record):
    """Where a table of scores or a model comes from. Everything is optional.

    Attributes:
        backbone: the encoder.
        vocabulary: the concepts and prompts.
        source: what the images are: the name of a data set, ``"folder"`` or ``"csv"``.
        root: the folder that the paths of a table start from; models do not keep it.
        labels_from: what the labels are, if they are not annotations: pseudo-labels, and of which classifier.
        data: the training rows of a model.
        versions: of the packages that a model was trained with.
        projection: what was projected out of the concepts, of a table of projected scores.
        debiasing: what was done to a model against a bias.
        other: what else was written.

    >>> known = Provenance.of({"backbone": {"name": "mini"}, "camera": "Leica"})
    >>> known.backbone.name, known.backbone.identity, known.other
    ('mini', None, {'camera': 'Leica'})
    >>> known.as_dict()
    {'backbone': {'name': 'mini'}, 'camera': 'Leica'}
    """

    forms: ClassVar[Forms] = {
        "backbone": _section(BackboneRecord),
        "vocabulary": _section(VocabularyRecord),
        "source": _text,
        "root": _text,
        "labels_from": _text,
        "data": _section(TrainingRecord),
        "versions": _text_by_name,
        "projection": _mapping,
        "debiasing": _mapping,
    }
    backbone: BackboneRecord = field(default_factory=BackboneRecord)
    vocabulary: VocabularyRecord = field(default_factory=VocabularyRecord)
    source: str | None = None
    root: str | None = None
    labels_from: str | None = None
    data: TrainingRecord = field(default_factory=TrainingRecord)
    versions: Mapping[str, str] | None = None
    projection: Mapping[str, Any] | None = None
    debiasing: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        said = {"backbone": self.backbone.name, "source": self.source, "training rows": self.data.rows}
        known = [f"{name} {value!r}" for name, value in said.items() if value is not None]
        return f"Provenance({', '.join(known)})"

    @classmethod
    def of(cls, said: Provenance | Mapping[str, Any] | None) -> Provenance:
        """A provenance from what somebody handed over: one, a dictionary, or nothing."""
        if isinstance(said, Provenance):
            return said
        if said is not None and not isinstance(said, Mapping):
            raise ChoqolateError(f"expected provenance to be a dictionary, found {type(said).__name__}")
        return cls.from_dict(said or {})


_SECTIONS = ("backbone", "vocabulary", "data")


def _plain(value: Any) -> Any:
    """Lists for tuples and dictionaries for records, inside too."""
    if isinstance(value, _Record):
        return value.as_dict()
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return list(map(_plain, value)) if isinstance(value, tuple) else value
