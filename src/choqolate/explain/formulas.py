"""Nodes and classes as formulas: a weighted sum of inputs, minima and maxima, the heaviest term first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
import torch

from choqolate._util.checks import check_choice, check_number
from choqolate._util.text import counted
from choqolate.data.rows import class_index
from choqolate.errors import ChoqolateError
from choqolate.integral import Terms
from choqolate.network.fitted import FittedNetwork
from choqolate.network.simplification import MOST_TERMS

LAYERS = ("nodes", "classes")
_VALUES = 1 << 22  # values of terms held at a time
_SMALLEST = 0.0005  # weight that is not rounded to zero
_SYNTAX = set("(),+=−")  # a name that has one of these is put in quotes


class Term(NamedTuple):
    """One term of a formula.

    Attributes:
        weight: what it is multiplied by.
        kind: ``"input"``, ``"min"`` or ``"max"``; ``"constant"`` for an input that is frozen.
        inputs: names of one input, or of two; instead of the name of a frozen input, its value.

    >>> print(Term(0.24, "min", ("woods", "parkland")))
    0.24 min(woods, parkland)
    """

    weight: float
    kind: str
    inputs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'− ' if self.weight < 0 else ''}{_rounded(abs(self.weight))} {self.expression()}"

    def expression(self, show: Callable[[str], str] = str) -> str:
        """What the weight is multiplied by; ``show`` says how a name is written."""
        names = [show(name) for name in self.inputs]
        if self.kind == "constant":
            return f"× {names[0]}"
        return names[0] if self.kind == "input" else f"{self.kind}({', '.join(names)})"


@dataclass(frozen=True, repr=False, eq=False)
class Formula:
    """A node or a class as a sum of terms, the heaviest first. Its items are :class:`Term` objects.

    Attributes:
        subject: what it is the value of, such as ``"node 3"``.
        names: of all inputs.
        terms: the terms that are listed, as arrays.
        n_rest, rest: number of smaller terms that are not listed, and their weight.
        fixed: values of the inputs that are frozen, by index.
        shift: what a recalibration adds.
        bipolar: whether the second half of the inputs are the absences of the first half.
    """

    subject: str
    names: tuple[str, ...]
    terms: Terms
    n_rest: int
    rest: float
    fixed: dict[int, float]
    shift: float = 0.0
    bipolar: bool = False

    def __len__(self) -> int:
        return len(self.terms.weight)

    def __getitem__(self, index: int) -> Term:
        first, second = int(self.terms.first[index]), int(self.terms.second[index])
        weight, is_max = float(self.terms.weight[index]), bool(self.terms.is_max[index])
        if first == second:
            return Term(weight, "constant" if first in self.fixed else "input", (self._name(first),))
        return Term(weight, "max" if is_max else "min", (self._name(first), self._name(second)))

    def __iter__(self) -> Iterator[Term]:
        return (self[index] for index in range(len(self)))

    def _name(self, index: int) -> str:
        return f"{self.fixed[index]:.2f}" if index in self.fixed else self.names[index]

    def __repr__(self) -> str:
        return f"Formula({self.subject}, {counted(len(self), 'term')}, {counted(self.n_rest, 'smaller one')})"

    def __str__(self) -> str:
        return self.text()

    def text(self, most: int | None = None, show: Callable[[str], str] = str) -> str:
        """The formula on one line, with at most so many terms; ``show`` says how a name is written."""
        return f"{show(self.subject)} = {' '.join(self.parts(most, show))}"

    def parts(self, most: int | None = None, show: Callable[[str], str] = str) -> list[str]:
        """The right-hand side, term by term, each with the sign before it.

        Terms of frozen inputs alone are one constant. The smaller terms stand together at the end, and so do those that
        would be rounded to zero.
        """
        constant = self._is_constant()
        moving = torch.nonzero(~constant)[:, 0]
        weights = self.terms.weight[moving].abs()
        n_readable = max(1, int((weights >= _SMALLEST).sum()))
        n_listed = min(n_readable, len(moving), len(moving) if most is None else most)
        listed = [self[index] for index in moving[:n_listed].tolist()]
        shown = [(term.weight, term.expression(lambda name: _quoted(show(name)))) for term in listed]
        if constant.any():
            shown.append((self._constant(constant), "(frozen concepts)"))
        n_rest = self.n_rest + len(moving) - n_listed
        if n_rest:
            shown.append((self.rest + float(weights[n_listed:].sum()), f"({counted(n_rest, 'smaller term')})"))
        if self.shift:
            shown.append((self.shift, "(shift)"))
        signs = ("− " if weight < 0 else "+ " if place else "" for place, (weight, _) in enumerate(shown))
        return [f"{sign}{_rounded(abs(weight))} {what}" for sign, (weight, what) in zip(signs, shown, strict=True)]

    def _is_constant(self) -> torch.Tensor:
        """Which terms are of frozen inputs alone."""
        fixed = torch.tensor(sorted(self.fixed), dtype=self.terms.first.dtype)
        return torch.isin(self.terms.first, fixed) & torch.isin(self.terms.second, fixed)

    def _constant(self, chosen: torch.Tensor) -> float:
        """The sum of terms of frozen inputs alone."""
        u = torch.zeros(1, len(self.names), dtype=torch.float64)
        for index, value in self.fixed.items():
            u[0, index] = value
        return float((self.terms.values(u)[0] * self.terms.weight)[chosen].sum())

    def evaluate(self, z: Any) -> np.ndarray:
        """The sum of the listed terms ``(n,)``: the value itself if all terms are listed, else at most ``rest`` below.

        Args:
            z: values of the inputs ``(n, M)``: scaled scores of the concepts, as ``clf.scale`` gives them, for a
                formula of concepts; node values for a formula of nodes.
        """
        values = np.asarray(z, dtype=np.float64)
        n_columns = len(self.names) // (2 if self.bipolar else 1)
        if values.ndim != 2 or values.shape[1] != n_columns:
            raise ChoqolateError(f"Expected values of {n_columns} inputs in each row but got shape {values.shape}.")
        u = torch.from_numpy(np.concatenate([values, 1 - values], 1) if self.bipolar else values.copy())
        for index, value in self.fixed.items():
            u[:, index] = value
        rows = u.split(max(1, _VALUES // max(1, len(self))))
        result: np.ndarray = torch.cat([self.terms.values(some) @ self.terms.weight for some in rows]).numpy()
        return result + self.shift


class Formulas(Sequence[Formula]):
    """The formulas of the nodes or of the classes of a network, each made when it is asked for.

    Printed, they are one line each.
    """

    def __init__(self, network: FittedNetwork, max_terms: int | None, layer: str) -> None:
        check_choice("layer", layer, LAYERS)
        if max_terms is not None:
            check_number("max_terms", max_terms, minimum=1, whole=True)
        self._network, self._max_terms, self._layer = network, max_terms, layer
        between = layer == "classes" and network.class_layer is not None
        self._capacity = network.class_layer if between and network.class_layer else network.nodes.capacity
        self._names = tuple(f"node {n}" for n in range(network.n_nodes)) if between else network.input_names
        self._frozen = None if between else network.nodes.frozen
        self._n_terms = self._capacity.n_terms().tolist()

    def __len__(self) -> int:
        return self._capacity.shape[0]

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def __repr__(self) -> str:
        return f"Formulas({len(self)} {self._layer})"

    @overload
    def __getitem__(self, index: int) -> Formula: ...
    @overload
    def __getitem__(self, index: slice) -> list[Formula]: ...
    def __getitem__(self, index: int | slice) -> Formula | list[Formula]:
        if isinstance(index, slice):
            return [self._formula(one) for one in range(*index.indices(len(self)))]
        return self._formula(range(len(self))[index])

    def _formula(self, index: int) -> Formula:
        if self._max_terms is None and self._n_terms[index] > MOST_TERMS:
            found = f"{self._subject(index)} has {self._n_terms[index]:,}"
            raise ChoqolateError(f"Expected at most {MOST_TERMS:,} terms to list, but {found}. Use max_terms.")
        terms = self._capacity.terms(index, self._max_terms)
        n_rest = max(0, self._n_terms[index] - len(terms.weight))
        alone = self._capacity.select([index])
        total = float(alone.interaction_mass()[0] + alone.singles().abs().sum())
        of_classes = self._layer == "classes" or self._network.one_layer
        return Formula(
            subject=self._subject(index),
            names=self._names,
            terms=terms,
            n_rest=n_rest,
            rest=max(0.0, total - float(terms.weight.abs().sum())) if n_rest else 0.0,
            fixed=self._fixed(index),
            shift=float(self._network.class_shift[index]) if of_classes else 0.0,
            bipolar=self._frozen is not None and self._network.architecture.bipolar,
        )

    def _subject(self, index: int) -> str:
        if self._layer == "nodes" and not self._network.one_layer:
            return f"node {index}"
        return list(class_index(self._network.classes))[index]

    def _fixed(self, index: int) -> dict[int, float]:
        if self._frozen is None:
            return {}
        frozen = torch.nonzero(self._frozen[index])[:, 0]
        return dict(zip(frozen.tolist(), self._network.nodes.means[frozen].tolist(), strict=True))


def _quoted(name: str) -> str:
    """A name that cannot be taken for a part of the formula."""
    return f"'{name}'" if _SYNTAX & set(name) else name


def _rounded(weight: float) -> str:
    """The size of a weight to read: two decimals, or the first digit of a small one."""
    if weight >= 0.0095:
        return f"{weight:.2f}"
    return f"{weight:.3f}" if weight >= _SMALLEST else "<0.001"
