"""Edits as data: what was done to a trained network, in order, and who did it, when and why.

The parameters of a network are never changed. Its state follows from the parameters and the list of edits, so that
undoing an edit is exact, a model carries its history, and the same edits can be applied to another model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from itertools import takewhile
from numbers import Integral, Real
from typing import Any, ClassVar, Self

from choqolate._util.text import counted, listed
from choqolate.errors import ChoqolateError
from choqolate.network.removal import MODES

LARGEST_FACTOR = 1e6  # of a concept: larger ones say no more, and pairs of them would overflow


@dataclass(frozen=True)
class Note:
    """Who made an edit, when and why, and whether somebody has reviewed it. Everything is optional.

    Attributes:
        author: a name.
        time: in ISO 8601, such as ``"2025-03-01T12:00:00+00:00"``.
        reason: a sentence.
        reviewed: whether the edit was looked at and accepted.

    >>> Note("Ada", reason="the sea is background").as_dict()
    {'author': 'Ada', 'reason': 'the sea is background'}
    """

    author: str | None = None
    time: str | None = None
    reason: str | None = None
    reviewed: bool | None = None

    def __post_init__(self) -> None:
        for name in ("author", "time", "reason"):
            value = getattr(self, name)
            if not isinstance(value, str | None):
                raise ChoqolateError(f"Expected {name} of a note to be text, got {value!r}.")
        if not isinstance(self.reviewed, bool | None):
            raise ChoqolateError(f"Expected reviewed of a note to be True, False or None, got {self.reviewed!r}.")

    @classmethod
    def of(cls, note: Note | str | None) -> Note | None:
        """A note from a note or a reason. If it has no time, the current time is used."""
        if note is None:
            return None
        given = cls(reason=note) if isinstance(note, str) else note
        if not isinstance(given, Note):
            raise ChoqolateError(f"Expected a Note, or the reason as text, got {note!r}.")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return given if given.time is not None else replace(given, time=now)

    def as_dict(self) -> dict[str, Any]:
        """What is known, such as JSON can hold."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One change of a fitted network.

    Kinds: :class:`Remove`, :class:`Reweight`, :class:`Simplify`, :class:`Recalibrate` and :class:`Restore`.

    Attributes:
        note: who made it, when and why.
    """

    kind: ClassVar[str]
    note: Note | None = None

    def without(self, concepts: Iterable[str] | None) -> Self | None:
        """What is left of the edit after some concepts (``None``: all) are restored; ``None`` if nothing is."""
        return self

    def as_dict(self) -> dict[str, Any]:
        """The edit such as JSON can hold; :func:`edit_from_dict` reads it."""
        said = {name: getattr(self, name) for name in (field.name for field in fields(self)) if name != "note"}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in said.items()}
        return {"edit": self.kind} | plain | ({} if self.note is None else {"note": self.note.as_dict()})


@dataclass(frozen=True)
class Remove(Edit):
    """Concepts are taken out of some nodes.

    Attributes:
        concepts: their names.
        nodes: indices of the nodes; ``None``: all of them.
        mode: one of :data:`~choqolate.network.removal.MODES`.

    >>> print(Remove(("sea", "river"), mode="impute", nodes=(0, 3)))
    removed 'sea', 'river' (impute) in nodes 0, 3
    """

    kind: ClassVar[str] = "remove"
    concepts: tuple[str, ...]
    nodes: tuple[int, ...] | None = None
    mode: str = "rescale"

    def __post_init__(self) -> None:
        object.__setattr__(self, "concepts", _names(self.concepts))
        object.__setattr__(self, "nodes", _indices(self.nodes))
        if self.mode not in MODES:
            raise ChoqolateError(f"Expected a mode of removal among {', '.join(MODES)}, got {self.mode!r}.")

    def without(self, concepts: Iterable[str] | None) -> Self | None:
        back = set(self.concepts if concepts is None else concepts)
        left = tuple(name for name in self.concepts if name not in back)
        return replace(self, concepts=left) if left else None

    def __str__(self) -> str:
        return f"removed {listed(self.concepts)} ({self.mode}){_in_nodes(self.nodes)}"


@dataclass(frozen=True)
class Reweight(Edit):
    """Concepts count more or less than they were trained to.

    Attributes:
        factors: a factor from 0 to 1,000,000 for each concept, by name. Every term that involves the concept is
            multiplied by it, a pair by both, and all terms are rescaled to sum to one.
        nodes: indices of the nodes; ``None``: all of them.

    >>> print(Reweight({"sea": 0.3}))
    reweighted 'sea' by 0.3
    """

    kind: ClassVar[str] = "reweight"
    factors: Mapping[str, float]
    nodes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.factors, Mapping):
            raise ChoqolateError(f"Expected a factor for each concept, such as {{'sea': 0.3}}, got {self.factors!r}.")
        for name, factor in self.factors.items():
            if not isinstance(factor, Real) or isinstance(factor, bool) or not 0 <= factor <= LARGEST_FACTOR:
                raise ChoqolateError(f"Expected a factor from 0 to {LARGEST_FACTOR:,.0f} for {name!r}, got {factor!r}.")
        object.__setattr__(self, "factors", {str(name): float(factor) for name, factor in self.factors.items()})
        object.__setattr__(self, "nodes", _indices(self.nodes))

    def __hash__(self) -> int:
        return hash((tuple(sorted(self.factors.items())), self.nodes, self.note))

    def without(self, concepts: Iterable[str] | None) -> Self | None:
        gone = set(self.factors if concepts is None else concepts)
        left = {name: factor for name, factor in self.factors.items() if name not in gone}
        return replace(self, factors=left) if left else None

    def __str__(self) -> str:
        said = ", ".join(f"{name!r} by {factor:g}" for name, factor in self.factors.items())
        return f"reweighted {said}{_in_nodes(self.nodes)}"


@dataclass(frozen=True)
class Simplify(Edit):
    """Every node keeps its heaviest terms, rescaled to sum to one. Exactly one limit is given.

    Attributes:
        max_terms: how many terms a node keeps at most.
        mass: the share of its weight that a node keeps, with as few terms as possible.
        classes: whether the second layer is simplified by the same rule too.

    >>> print(Simplify(max_terms=10))
    simplified to 10 terms per node
    >>> print(Simplify(mass=0.99, classes=True))
    simplified to 99% of the weight per node and class
    """

    kind: ClassVar[str] = "simplify"
    max_terms: int | None = None
    mass: float | None = None
    classes: bool = False

    def __post_init__(self) -> None:
        if (self.max_terms is None) == (self.mass is None):
            raise ChoqolateError(
                f"Expected either max_terms or mass, got max_terms={self.max_terms!r} and mass={self.mass!r}. Pass one "
                "of them, such as max_terms=10."
            )
        if self.max_terms is not None and (not _is_whole(self.max_terms) or self.max_terms < 1):
            raise ChoqolateError(f"Expected max_terms to be a whole number of at least 1, got {self.max_terms!r}.")
        fine = self.mass is None or (isinstance(self.mass, Real) and not isinstance(self.mass, bool))
        if not fine or (self.mass is not None and not 0 < self.mass <= 1):
            raise ChoqolateError(f"Expected mass to be a number above 0 and up to 1, such as 0.99, got {self.mass!r}.")
        if not isinstance(self.classes, bool):
            raise ChoqolateError(f"Expected classes to be True or False, got {self.classes!r}.")
        object.__setattr__(self, "max_terms", None if self.max_terms is None else int(self.max_terms))
        object.__setattr__(self, "mass", None if self.mass is None else float(self.mass))

    def __str__(self) -> str:
        where = "per node and class" if self.classes else "per node"
        if self.max_terms is None:
            return f"simplified to {100 * (self.mass or 0):g}% of the weight {where}"
        return f"simplified to {counted(self.max_terms, 'term')} {where}"


@dataclass(frozen=True)
class Recalibrate(Edit):
    """The class scores are shifted so that predicted classes are as frequent as they were among the training labels.

    Attributes:
        shift: what is added to the score of each class ``(C,)``, in place of an earlier shift.
        rows: number of rows that it was computed on; ``None`` if not known.
        fingerprint: SHA-256 of their scores; ``None`` if not known.
    """

    kind: ClassVar[str] = "recalibrate"
    shift: tuple[float, ...]
    rows: int | None = None
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        shift = self.shift if isinstance(self.shift, Sequence) and not isinstance(self.shift, str) else (None,)
        if not all(isinstance(one, Real) and not isinstance(one, bool) and math.isfinite(one) for one in shift):
            raise ChoqolateError(f"Expected a shift of class scores that is finite, got {self.shift!r}.")
        object.__setattr__(self, "shift", tuple(float(value) for value in self.shift))
        if not (self.rows is None or (_is_whole(self.rows) and self.rows >= 0)):
            raise ChoqolateError(f"Expected the number of rows of a recalibration, got {self.rows!r}.")
        if not isinstance(self.fingerprint, str | None):
            raise ChoqolateError(f"Expected the fingerprint of a recalibration to be text, got {self.fingerprint!r}.")

    def __str__(self) -> str:
        return "recalibrated" if self.rows is None else f"recalibrated on {counted(self.rows, 'row')}"


@dataclass(frozen=True)
class Restore(Edit):
    """Removed or reweighted concepts are back as they were trained.

    Attributes:
        concepts: their names; with the last of them, recalibrations made since the first go too. ``None``: all, and
            simplifications and recalibrations with them.
    """

    kind: ClassVar[str] = "restore"
    concepts: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "concepts", None if self.concepts is None else _names(self.concepts))

    def __str__(self) -> str:
        return "restored everything" if self.concepts is None else f"restored {listed(self.concepts)}"


def edits_in_force(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits that a network's state follows from: a restoration takes back what it names, and is gone itself.

    >>> history = [Remove(("sea", "river")), Reweight({"crest": 2.0}), Restore(("river",))]
    >>> [str(edit) for edit in edits_in_force(history)]
    ["removed 'sea' (rescale)", "reweighted 'crest' by 2"]
    >>> [str(edit) for edit in edits_in_force([Simplify(10), *history, Restore(("sea", "crest"))])]
    ['simplified to 10 terms per node']
    >>> edits_in_force([*history, Recalibrate((0.1, -0.1)), Restore()])
    ()
    """
    kept: list[Edit] = []
    for edit in edits:
        if isinstance(edit, Restore):
            before = kept if edit.concepts is not None else []
            kept = [left for left in (one.without(edit.concepts) for one in before) if left is not None]
            if not affected_concepts(kept):
                untouched = list(takewhile(lambda one: not affected_concepts([one]), before))
                since = before[len(untouched) :]
                kept = [*untouched, *(one for one in since if isinstance(one, Simplify))]
        else:
            kept.append(edit)
    return tuple(kept)


def affected_concepts(edits: Iterable[Edit]) -> tuple[str, ...]:
    """Names of all concepts that edits in force remove or reweight, in the order in which that happened."""
    names: dict[str, None] = {}
    for edit in edits:
        if isinstance(edit, Remove):
            names |= dict.fromkeys(edit.concepts)
        elif isinstance(edit, Reweight):
            names |= dict.fromkeys(edit.factors)
    return tuple(names)


def changed_factors(edit: Remove | Reweight) -> Mapping[str, float]:
    """The factor of each concept that an edit names: 0 if it is removed."""
    return dict.fromkeys(edit.concepts, 0.0) if isinstance(edit, Remove) else edit.factors


def edit_from_dict(entry: Mapping[str, Any]) -> Edit:
    """Read what :meth:`Edit.as_dict` gave.

    Raises:
        ChoqolateError: if it is no edit, or of a kind that this version does not know.

    >>> edit_from_dict(Remove(("sea",), nodes=(1,)).as_dict()) == Remove(("sea",), nodes=(1,))
    True
    """
    kinds = {one.kind: one for one in (Remove, Reweight, Simplify, Recalibrate, Restore)}
    came = entry.get("edit") if isinstance(entry, Mapping) else entry
    if not isinstance(entry, Mapping) or not isinstance(came, str) or came not in kinds:
        raise ChoqolateError(f"Expected an edit among {', '.join(kinds)}, got {came!r}. Upgrade choqolate to read it.")
    said = {name: value for name, value in entry.items() if name not in ("edit", "note")}
    note = entry.get("note")
    kind = kinds[came]
    known = {field.name for field in fields(kind)}
    wrong = sorted(set(said) - known) or sorted({"concepts", "factors", "shift"} & (known - set(said) - {"nodes"}))
    if wrong and not (kind is Restore and wrong == ["concepts"]):
        raise ChoqolateError(f"The edit {came!r} has missing or unknown fields: {', '.join(map(str, wrong))}.")
    if note is not None and not (isinstance(note, Mapping) and set(note) <= {field.name for field in fields(Note)}):
        raise ChoqolateError(f"Expected a note with author, time, reason and reviewed, got {note!r}.")
    return kind(**said, note=None if note is None else Note(**note))


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(name, str) for name in value):
        raise ChoqolateError(f"Expected a list of concepts, got {value!r}.")
    return tuple(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _indices(value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ChoqolateError(f"Expected a list of nodes, got {value!r}.")
    return tuple(value)


def _in_nodes(nodes: tuple[int, ...] | None) -> str:
    return "" if nodes is None else f" in node{'s' * (len(nodes) != 1)} {', '.join(map(str, nodes))}"
