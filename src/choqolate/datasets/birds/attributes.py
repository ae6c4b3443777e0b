"""What a bird scene shows: attributes of the bird, the place behind it, and how both go with the class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from choqolate._util.checks import check_seed

ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "bill": ("conical", "long", "hooked", "flat"),
    "neck": ("short", "long"),
    "legs": ("short", "long"),
    "feet": ("clawed", "webbed"),
    "size": ("small", "large"),
    "colour": ("brown", "white", "black", "grey", "blue", "yellow"),
    "breast": ("plain", "spotted", "red"),
    "wings": ("plain", "barred"),
    "tail": ("short", "long", "forked"),
    "crest": ("none", "crested"),
    "place": ("sea", "lake", "river", "sand", "rocks", "forest", "meadow", "trees", "bamboo"),
    "light": ("bright", "evening", "overcast"),
}
"""The values of every attribute; all but ``place`` and ``light`` are the bird's."""

_BIRD = tuple(name for name in ATTRIBUTES if name not in ("place", "light"))

CLASSES = ("landbird", "waterbird")
SIDES = {"land": ("forest", "meadow", "trees", "bamboo"), "water": ("sea", "lake", "river", "sand", "rocks")}
GROUPS = tuple(f"{label} on {side}" for label in CLASSES for side in SIDES)
NOISE = 0.3  # how often an attribute of a bird is not that of its kind, but any

KINDS: dict[str, dict[str, str]] = {  # bill, neck, legs, feet, size, colour, breast, wings, tail, crest
    "landbird": {
        "sparrow": "conical short short clawed small brown plain barred short none",
        "swallow": "conical short short clawed small blue red plain forked none",
        "thrush": "conical short long clawed small brown spotted plain short none",
        "jay": "conical short short clawed small blue plain barred long crested",
        "hawk": "hooked short short clawed large brown spotted barred long none",
        "finch": "conical short short clawed small yellow red plain long crested",
    },
    "waterbird": {
        "duck": "flat short short webbed large brown plain plain short none",
        "heron": "long long long clawed large grey plain plain short crested",
        "gull": "hooked short short webbed large white plain plain short none",
        "cormorant": "hooked long short webbed large black plain plain long none",
        "tern": "long short short webbed small white plain plain forked none",
        "swan": "flat long short webbed large white plain plain short none",
    },
}


@dataclass(frozen=True, eq=False)
class Scenes:
    """Scenes to be drawn: the ground truth, and nothing yet of what they look like.

    Attributes:
        values: for each attribute its value in every scene ``(n,)``.
        labels: the class of every bird ``(n,)``; ``None`` if it has none.
        seeds: of what the attributes leave open in each scene, such as the pose ``(n,)``.

    >>> scenes = sample_scenes(400, agreement=0.95)
    >>> [int((scenes.groups == group).sum()) for group in GROUPS]
    [190, 10, 10, 190]
    >>> sorted(scenes.scene(0))
    ['bill', 'breast', 'colour', 'crest', 'feet', 'legs', 'light', 'neck', 'place', 'size', 'tail', 'wings']
    """

    values: dict[str, np.ndarray]
    labels: np.ndarray
    seeds: np.ndarray

    def __len__(self) -> int:
        return len(self.seeds)

    def scene(self, row: int) -> dict[str, str]:
        """All attributes of one scene."""
        return {name: str(column[row]) for name, column in self.values.items()}

    @property
    def groups(self) -> np.ndarray:
        """Class and side of each scene ``(n,)``, such as ``"waterbird on land"``."""
        side = np.where(np.isin(self.values["place"], SIDES["water"]), "water", "land")
        return np.array([f"{label} on {where}" for label, where in zip(self.labels, side, strict=True)], dtype=object)

    def join(self, other: Scenes) -> Self:
        """The scenes of both."""
        values = {name: np.concatenate([column, other.values[name]]) for name, column in self.values.items()}
        labels, seeds = (np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("labels", "seeds"))
        return type(self)(values, labels, seeds)


def sample_scenes(n: int, agreement: float, seed: int | Sequence[int] = 0) -> Scenes:
    """As many birds of either class, each before a place that suits its class in a given share of the scenes.

    A bird has a kind, drawn from those of its class, and the attributes of its kind but for noise: each one is any
    value with a probability of :data:`NOISE`. The birds depend on ``n`` and ``seed`` only; another agreement gives the
    same birds before other places.

    Args:
        n: number of scenes.
        agreement: share of the birds of each class that are where their class lives, in [0, 1].
        seed: all of it is drawn from this number, or these.
    """
    birds, backdrops = (np.random.default_rng([*_seeds(seed), stream]) for stream in (1, 2))
    labels = birds.permutation(np.array(CLASSES, dtype=object)[np.arange(n) % len(CLASSES)])
    kinds = [list(KINDS[label].values()) for label in labels]
    chosen = [of_class[birds.integers(len(of_class))].split() for of_class in kinds]
    values = {
        name: np.where(birds.random(n) < NOISE, _any(name, n, birds), [kind[column] for kind in chosen])
        for column, name in enumerate(_BIRD)
    }
    values |= {"place": np.empty(n, dtype=object), "light": _any("light", n, birds)}
    for label, own, other in zip(CLASSES, SIDES.values(), reversed(SIDES.values()), strict=True):
        rows = backdrops.permutation(np.flatnonzero(labels == label))
        at_home = round(agreement * len(rows))
        values["place"][rows[:at_home]] = backdrops.choice(own, at_home)
        values["place"][rows[at_home:]] = backdrops.choice(other, len(rows) - at_home)
    return Scenes(values, labels, birds.integers(1 << 62, size=n))


def sample_freely(n: int, seed: int | Sequence[int] = 0) -> Scenes:
    """Birds of no kind and no class: every attribute takes any of its values, as likely as the others."""
    rng = np.random.default_rng([*_seeds(seed), 3])
    values = {name: _any(name, n, rng) for name in ATTRIBUTES}
    return Scenes(values, np.full(n, None, dtype=object), rng.integers(1 << 62, size=n))


def _seeds(seed: int | Sequence[int]) -> list[int]:
    return [check_seed(part) for part in ([seed] if isinstance(seed, int) else seed)]


def _any(attribute: str, n: int, rng: np.random.Generator) -> np.ndarray:
    drawn: np.ndarray = rng.choice(np.array(ATTRIBUTES[attribute], dtype=object), n)
    return drawn
