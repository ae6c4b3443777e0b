"""Words for what bird scenes show. Several mean the same, as in real vocabularies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from choqolate.datasets.birds.attributes import ATTRIBUTES, SIDES, Scenes


class Family(NamedTuple):
    """Words that are true of a scene whose attribute has one of the values."""

    attribute: str
    values: tuple[str, ...]
    words: tuple[str, ...]


def _families() -> Iterator[Family]:
    for attribute, by_value in _WORDS.items():
        for values, words in by_value.items():
            yield Family(attribute, tuple(values.split()), tuple(words.split(", ")))
    for colour in ATTRIBUTES["colour"]:
        yield Family("colour", (colour,), (f"{colour} plumage", f"{colour} feathers"))
    yield Family("place", SIDES["water"], ("waterside", "shore"))
    yield Family("place", SIDES["land"], ("countryside", "greenery"))


_WORDS: dict[str, dict[str, str]] = {
    "bill": {
        "conical": "conical bill, stubby beak",
        "long": "long bill, spear beak",
        "hooked": "hooked bill, curved beak",
        "flat": "flat bill, spoon beak",
    },
    "neck": {"short": "short neck, thick neck", "long": "long neck, slender neck"},
    "legs": {"short": "short legs, stumpy legs", "long": "long legs, stilt legs"},
    "feet": {
        "clawed": "clawed feet, perching feet, gripping toes",
        "webbed": "webbed feet, paddle feet, swimming feet",
    },
    "size": {"small": "small body, tiny body", "large": "large body, big body"},
    "breast": {"spotted": "spotted breast, speckled belly", "red": "red breast, robin breast"},
    "wings": {"barred": "wing bars, striped wings"},
    "tail": {"short": "short tail", "long": "long tail, trailing tail", "forked": "forked tail, split tail"},
    "crest": {"crested": "crested head, tufted head"},
    "light": {"bright": "sunshine, daylight", "evening": "evening, sunset", "overcast": "overcast, clouds"},
    "place": {
        "sea": "sea, ocean, waves",
        "lake": "lake, pond",
        "river": "river, stream",
        "sand": "sand, beach",
        "rocks": "rocks, boulders",
        "sea lake river": "water",
        "forest": "forest, woods",
        "meadow": "meadow, grass",
        "trees": "trees, parkland",
        "bamboo": "bamboo, canes",
    },
}

FAMILIES: tuple[Family, ...] = tuple(_families())
MEANING: dict[str, Family] = {word: family for family in FAMILIES for word in family.words}


def truth(word: str, scenes: Scenes) -> np.ndarray:
    """Whether a word is true of each scene ``(n,)``.

    >>> from choqolate.datasets.birds.attributes import sample_scenes
    >>> scenes = sample_scenes(100, agreement=1.0)
    >>> bool(truth("waterside", scenes)[scenes.labels == "waterbird"].all())
    True
    """
    family = MEANING[word]
    return np.isin(scenes.values[family.attribute], family.values)
