"""Checks of what users hand in, with messages that name the concept and the way out."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from choqolate._util.text import listed, printable
from choqolate.errors import ChoqolateError, ChoqolateWarning

T = TypeVar("T")

_CLASSES_PER_NODE = 4  # more classes than this cannot be told apart well


def check_columns(X: Any) -> None:
    """Concept names are how a model is read and edited: each may occur once, and its scores are numbers."""
    columns = getattr(X, "columns", None)
    if columns is None:
        return
    check_unique([str(name) for name in columns])
    for name, dtype in zip(columns, getattr(X, "dtypes", ()), strict=False):
        if getattr(dtype, "kind", "f") in "OUSTMm":
            try:
                np.asarray(X[name], dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise ChoqolateError(
                    f"expected scores in every column, column {name!r} has other values: {error}"
                ) from None


def check_unique(names: Sequence[str]) -> None:
    """Every name occurs once."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ChoqolateError(f"expected every concept once, got {listed(twice)} more than once: rename or drop columns")


def check_finite(X: np.ndarray, concepts: Sequence[str], first: int = 0) -> None:
    """NaN and infinity are errors that name the first row and concept; ``first`` is the number of the first row."""
    bad = ~np.isfinite(X)
    if not bad.any():
        return
    row, column = np.argwhere(bad)[0]
    kind = "NaN" if np.isnan(X[row, column]) else "infinity (inf)"
    raise ChoqolateError(
        f"Input X contains {kind}: row {first + row}, concept {concepts[column]!r}; {int(bad.sum())} of {bad.size} "
        "scores are not finite: drop those rows or fill them in"
    )


def check_ranges(low: np.ndarray, high: np.ndarray, concepts: Sequence[str]) -> None:
    """The range of every concept must be a number for min-max scaling to work."""
    wide = np.flatnonzero(high / 2 - low / 2 > np.finfo(np.float64).max / 2)
    if len(wide):
        name, least, most = concepts[wide[0]], low[wide[0]], high[wide[0]]
        raise ChoqolateError(f"expected scores of an ordinary size, concept {name!r} goes from {least:g} to {most:g}")


def check_classes(classes: np.ndarray) -> None:
    """There must be something to tell apart."""
    if len(classes) < 2:
        raise ChoqolateError(f"expected labels of at least two classes, got one class only: {classes.tolist()[0]!r}")


def warn_blind(n_features: int, n_nodes: int | None, n_classes: int, bipolar: bool) -> None:
    """Say where an integral has too few inputs: a network of them ignores any shift or scale common to all inputs."""
    if n_features <= 2 and not bipolar:
        seen = "nothing at all" if n_features == 1 else "only which of the two is larger"
        _warn(
            f"of {n_features} concept{'s'[: n_features - 1]} a Choquet network sees {seen}, it ignores any shift or "
            "scale common to all inputs: bipolar=True lets the absence of a concept count as well"
        )
    if n_nodes == 1:
        _warn("with one node all classes get the same score: use n_nodes=2 or more, or bipolar=True with n_nodes=None")
    if n_nodes == 2 and n_classes > 2:
        _warn(
            f"of two nodes only the order counts, so at most 2 of the {n_classes} classes are predicted: use more nodes"
        )
    elif n_nodes is not None and n_classes > _CLASSES_PER_NODE * n_nodes:
        _warn(
            f"{n_classes} classes share {n_nodes} nodes, which costs accuracy. Use more nodes with "
            "interactions='none', or n_nodes='auto', temperature='auto' and interactions='auto'."
        )


def warn_constant(concepts: Sequence[str], *, stacklevel: int = 5) -> None:
    """A concept with one value carries no information; it is scaled to zero."""
    if concepts:
        _warn(f"constant on the training scores and so without influence: {listed(concepts)}", stacklevel)


def find_concepts(names: str | Iterable[str], concepts: Sequence[str], *, known: str = "this model knows") -> list[int]:
    """Indices of concepts by name; an unknown one is an error that proposes the closest."""
    if not isinstance(names, Iterable):
        raise ChoqolateError(f"expected the name of a concept or several, got {names!r}")
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        raise ChoqolateError("expected the name of at least one concept, got none")
    index = {name: position for position, name in enumerate(concepts)}
    unknown = [name for name in wanted if name not in index]
    if unknown:
        raise ChoqolateError(f"expected known concepts, got {listed(unknown)}{_proposal(unknown[0], concepts, known)}")
    repeated = sorted(name for name, count in Counter(wanted).items() if count > 1)
    if repeated:
        raise ChoqolateError(f"expected every concept once, got {listed(repeated)} more than once")
    return [index[name] for name in wanted]


def find_named(name: str, known: Mapping[str, T], what: str) -> T:
    """Look up something by its name; an unknown one is an error that proposes the nearest.

    Args:
        name: as the user wrote it.
        known: all that there are, by name.
        what: what they are, such as ``"a data set"``.

    >>> find_named("cub", {"cub": 1, "coco": 2}, "a data set")
    1
    >>> find_named("cup", {"cub": 1, "coco": 2}, "a data set")
    Traceback (most recent call last):
    choqolate.errors.ChoqolateError: Expected a data set among cub, coco, got 'cup'. Did you mean 'cub'?
    """
    if name in known:
        return known[name]
    close = get_close_matches(str(name).lower(), known, n=1, cutoff=0.6)
    proposal = f" Did you mean {close[0]!r}?" if close else ""
    raise ChoqolateError(f"Expected {what} among {', '.join(known)}, got {name!r}.{proposal}")


def as_names(value: Any, name: str) -> tuple[str, ...]:
    """A tuple of text; one text is a mistake, not a list of its letters."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ChoqolateError(f"expected {name} to be a list of names, got {value!r}: put it into a list")
    return tuple(printable(str(item)) for item in value)


def as_labels(value: Any, name: str, n: int | None = None) -> list[Any]:
    """One plain Python value per row, hashable and not missing."""
    try:
        if isinstance(value, str | Mapping | Set):
            raise TypeError("no sequence")
        labels = [_plain(item) for item in (value.tolist() if hasattr(value, "tolist") else value)]
    except (TypeError, ValueError) as error:
        came = f"{type(value).__name__}: {error}; drop rows without a label, take the arg-max of probabilities"
        raise ChoqolateError(f"{name}: expected one label per row, got {came}.") from None
    if not labels or n not in (None, len(labels)):
        raise ChoqolateError(f"{name}: expected {n or 'some'} labels, got {len(labels)}; pass one for every row.")
    return labels


def check_same_kind(labels: Sequence[Any], known: Sequence[Any], name: str) -> None:
    """Text labels never equal numbers: comparing them would silently find nothing right."""
    if {isinstance(label, str) for label in known}.isdisjoint(isinstance(label, str) for label in labels):
        raise ChoqolateError(f"{name}: expected labels such as {known[0]!r}, got {labels[0]!r}; translate one side.")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """A parameter with a fixed set of values."""
    if value not in choices:
        raise ChoqolateError(f"expected {name} to be one of {', '.join(choices)}, got {value!r}")


def check_number(name: str, value: Any, *, minimum: float, strict: bool = False, whole: bool = False) -> None:
    """A parameter with a lower bound."""
    kind = "a whole number" if whole else "a number"
    bound = f"above {minimum:g}" if strict else f"of at least {minimum:g}"
    fine = isinstance(value, Integral if whole else Real) and not isinstance(value, bool) and math.isfinite(value)
    if not fine or value < minimum or (strict and value == minimum):
        raise ChoqolateError(f"expected {name} to be {kind} {bound}, got {value!r}")


def check_seed(seed: Any) -> int:
    """A whole number that both numpy and PyTorch take as a seed."""
    if not isinstance(seed, Integral) or isinstance(seed, bool) or not 0 <= int(seed) < 2**32:
        raise ChoqolateError(f"expected a seed from 0 to 2**32 - 1, got {seed!r}")
    return int(seed)


def _proposal(name: object, concepts: Sequence[str], known: str) -> str:
    close = get_close_matches(str(name), concepts, n=3, cutoff=0.5)
    return f": did you mean {listed(close)}?" if close else f": {known} {listed(concepts)}"


def _warn(message: str, stacklevel: int = 5) -> None:
    warnings.warn(message, ChoqolateWarning, stacklevel=stacklevel)


def _plain(item: Any) -> Any:
    """The Python value in a numpy or torch scalar, inside tuples too; TypeError for None, NaN and lists."""
    if isinstance(item, tuple):
        return tuple(map(_plain, item))
    item = item.item() if getattr(item, "ndim", None) == 0 else item
    if item is None or item != item or not isinstance(item, Hashable):  # pandas.NA != pandas.NA raises TypeError too
        raise TypeError(f"{item!r} is no label")
    return item
