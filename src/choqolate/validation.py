"""Checks of what users hand in, with messages that name the concept and the way out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import numpy as np

from choqolate.errors import ChoqolateError, ChoqolateWarning


def check_unique_columns(X: Any) -> None:
    """Concept names are how a model is read and edited: each may occur once."""
    columns = getattr(X, "columns", None)
    if columns is None:
        return
    seen: set[Any] = set()
    twice = sorted({str(name) for name in columns if name in seen or seen.add(name)})  # type: ignore[func-returns-value]
    if twice:
        raise ChoqolateError(f"expected every concept once, got {listed(twice)} more than once: rename or drop columns")


def check_finite(X: np.ndarray, concepts: Sequence[str]) -> None:
    """NaN and infinity are errors that name the first row and concept."""
    bad = ~np.isfinite(X)
    if not bad.any():
        return
    row, column = np.argwhere(bad)[0]
    kind = "NaN" if np.isnan(X[row, column]) else "infinity (inf)"
    raise ChoqolateError(
        f"Input X contains {kind}: row {row}, concept {concepts[column]!r}; {int(bad.sum())} of {bad.size} scores are "
        "not finite: drop those rows or fill them in"
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


def warn_constant(concepts: Sequence[str]) -> None:
    """A concept with one value carries no information; it is scaled to zero."""
    if concepts:
        _warn(f"constant on the training scores and so without influence: {listed(concepts)}")


def find_concepts(names: str | Iterable[str], concepts: Sequence[str]) -> list[int]:
    """Indices of concepts by name; an unknown one is an error that proposes the closest."""
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        raise ChoqolateError("expected the name of at least one concept, got none")
    index = {name: position for position, name in enumerate(concepts)}
    unknown = [name for name in wanted if name not in index]
    if unknown:
        raise ChoqolateError(f"expected known concepts, got {listed(unknown)}{_proposal(unknown[0], concepts)}")
    repeated = sorted({name for name in wanted if wanted.count(name) > 1})
    if repeated:
        raise ChoqolateError(f"expected every concept once, got {listed(repeated)} more than once")
    return [index[name] for name in wanted]


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


def listed(names: Sequence[object], most: int = 5) -> str:
    """``'a', 'b' and 3 more``."""
    shown = ", ".join(repr(str(name)) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _proposal(name: object, concepts: Sequence[str]) -> str:
    close = get_close_matches(str(name), concepts, n=3, cutoff=0.5)
    return f": did you mean {listed(close)}?" if close else f": this model knows {listed(concepts)}"


def _warn(message: str) -> None:
    warnings.warn(message, ChoqolateWarning, stacklevel=5)
