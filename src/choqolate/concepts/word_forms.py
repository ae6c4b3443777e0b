"""Words by their letters: inflections of one word, and words that name a class."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_ARTICLES = {"a", "an", "the"}
_NUMBERED = re.compile(r"^\d+\s*[._-]\s*")  # as in 001.Black_footed_Albatross
_MISSPELLED = 7  # letters from which one more or less is a slip, not another word


def tokens(text: str) -> list[str]:
    """The words of a text in small letters, without articles.

    >>> tokens("A grayish-brown_body.")
    ['grayish', 'brown', 'body']
    """
    found = re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).casefold())
    return [token for token in found if token not in _ARTICLES] or found


def singular(token: str) -> str:
    """A word without the ending of its plural.

    >>> [singular(word) for word in ("cats", "berries", "boxes", "horses", "glass", "bus")]
    ['cat', 'berry', 'box', 'horse', 'glass', 'bus']
    """
    if len(token) > 4 and token.endswith("ies"):
        return f"{token[:-3]}y"
    if len(token) > 4 and token.endswith(("sses", "xes", "ches", "shes")):
        return token[:-2]
    if len(token) > 3 and token.endswith("s") and not token.endswith(("ss", "us", "is")):
        return token[:-1]
    return token


def inflection_key(text: str) -> str:
    """What a word, its plural, and its forms with an article, a hyphen or a space have in common.

    >>> inflection_key("the ice-creams") == inflection_key("icecream")
    True
    """
    return "".join(map(singular, tokens(text))) or text


def stem(token: str) -> str:
    """A word without the endings of plurals and participles, so that ``striped``, ``stripes`` and ``stripe`` agree."""
    word = singular(token)
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            word = word.removesuffix(ending)
            return word[:-1] if word[-1] == word[-2] else word
    return word[:-1] if word.endswith("e") and len(word) > 4 else word


class ClassMatch(NamedTuple):
    """A class that a word gives away, and how: it ``names`` the class, ``contains`` its name, or is ``part`` of it."""

    name: str
    how: str


class ClassNames:
    """Names of classes, to find words that give one away.

    >>> names = ClassNames(["dogs", "Laysan Albatross"])
    >>> names.match("Dog"), names.match("dog collar"), names.match("albatross").how, names.match("dogma")
    (ClassMatch(name='dogs', how='names'), ClassMatch(name='dogs', how='contains'), 'part', None)
    """

    def __init__(self, classes: Iterable[str]) -> None:
        self._whole: dict[tuple[str, ...], str] = {}
        self._parts: dict[tuple[str, ...], str] = {}
        self._spellings: dict[str, str] = {}
        for name in classes:
            stems = _stems(_NUMBERED.sub("", name))
            if not any(letter.isalpha() for token in stems for letter in token):
                continue  # labels that are numbers name nothing
            self._whole.setdefault(stems, name)
            for start in range(1, len(stems)):
                self._parts.setdefault(stems[start:], name)  # "albatross" of "laysan albatross"
            for spelling in _spellings("".join(stems)):
                self._spellings.setdefault(spelling, name)
        self._longest = max(map(len, self._whole), default=0)

    def __len__(self) -> int:
        return len(self._whole)

    def match(self, word: str) -> ClassMatch | None:
        """The class that a word gives away, if there is one."""
        stems = _stems(word)
        if stems in self._whole:
            return ClassMatch(self._whole[stems], "names")
        joined = "".join(stems)
        for spelling in _spellings(joined):
            if spelling in self._spellings:
                return ClassMatch(self._spellings[spelling], "names")
        for size in range(min(len(stems), self._longest), 0, -1):
            for start in range(len(stems) - size + 1):
                if stems[start : start + size] in self._whole:
                    return ClassMatch(self._whole[stems[start : start + size]], "contains")
        return ClassMatch(self._parts[stems], "part") if stems in self._parts else None


def _stems(text: str) -> tuple[str, ...]:
    return tuple(map(stem, tokens(text)))


def _spellings(joined: str) -> Iterator[str]:
    """A name without spaces and, if it is long, with any one letter left out: equal for names one slip apart."""
    yield joined
    if len(joined) >= _MISSPELLED:
        yield from (joined[:place] + joined[place + 1 :] for place in range(1, len(joined)))
