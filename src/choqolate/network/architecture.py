"""How the layers of a network are built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from choqolate.integral.layer import raw_shapes

CLASS_INTERACTIONS = ("pairwise", "none")


@dataclass(frozen=True)
class Architecture:
    """How the layers of a network are built.

    Attributes:
        n_nodes: number of nodes; ``None`` connects concepts to classes directly.
        interactions, rank, free_weights: see :class:`~choqolate.ChoquetLayer`.
        bipolar: whether the absence of a concept is an input of its own.
        class_interactions: interactions of the second layer, ``"pairwise"`` or ``"none"``. ``None`` follows the first
            layer: all pairs of nodes unless ``interactions`` is ``"none"``.

    >>> Architecture(8, bipolar=True).input_names(["sea"])
    ('sea', 'not sea')
    >>> Architecture(64, class_interactions="none").shapes(n_concepts=80, n_classes=100)
    {'nodes.theta': (64, 80, 80), 'classes.theta': (100, 64)}
    """

    n_nodes: int | None
    interactions: str = "pairwise"
    rank: int = 4
    free_weights: bool = False
    bipolar: bool = False
    class_interactions: str | None = None

    @property
    def class_kind(self) -> str:
        """Interactions of the second layer: ``class_interactions``, or what follows from the first layer."""
        if self.class_interactions is not None:
            return self.class_interactions
        return "none" if self.interactions == "none" else "pairwise"

    @property
    def key(self) -> str:
        """A text that is equal for equal layers, also between versions of this package."""
        first = f"n_nodes={self.n_nodes!r}, interactions={self.interactions!r}, rank={self.rank!r}"
        more = f"free_weights={self.free_weights!r}, bipolar={self.bipolar!r}"
        second = "" if self.class_interactions is None else f", class_interactions={self.class_interactions!r}"
        return f"Architecture({first}, {more}{second})"

    def width(self, n_classes: int) -> int:
        """Number of integrals in the first layer: of nodes or, without them, of classes."""
        return n_classes if self.n_nodes is None else self.n_nodes

    def n_inputs(self, n_concepts: int) -> int:
        """Number of inputs of the first layer: of concepts, with ``bipolar`` of their absences too."""
        return n_concepts * (1 + self.bipolar)

    def input_names(self, concepts: Sequence[str]) -> tuple[str, ...]:
        """Names of the first layer's inputs: the concepts, with ``bipolar`` their absences too."""
        return (*concepts, *map(absence_name, concepts)) if self.bipolar else tuple(concepts)

    def shapes(self, n_concepts: int, n_classes: int) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the unconstrained parameters of both layers."""
        width = self.width(n_classes)
        first = raw_shapes(self.n_inputs(n_concepts), width, self.interactions, self.rank)
        shapes = {f"nodes.{name}": shape for name, shape in first.items()}
        if self.n_nodes is not None:
            second = raw_shapes(width, n_classes, self.class_kind, self.rank)
            shapes |= {f"classes.{name}": shape for name, shape in second.items()}
        return shapes


def absence_name(concept: str) -> str:
    """What the absence of a concept is called.

    >>> absence_name("sea")
    'not sea'
    """
    return f"not {concept}"
