"""The steps from a big word list to a small one; each says what it drops and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from choqolate._util.progress import item_bar
from choqolate._util.text import counted
from choqolate.concepts.vocabulary import Vocabulary
from choqolate.concepts.word_evidence import WordEvidence, centered_directions, find_leaders
from choqolate.concepts.word_forms import ClassNames, inflection_key
from choqolate.concepts.word_lists import WordList
from choqolate.concepts.word_selection import cluster_medoids, most_relevant
from choqolate.errors import ChoqolateError

REASONS = {
    "repeat": "repeat another word",
    "no letter": "contain no letter",
    "length": "are too long",
    "class": "name or nearly name a class",
    "unscored": "have no scores",
    "duplicate": "nearly repeat another word",
    "constant": "hardly vary on the training images",
    "not chosen": "were not chosen",
}
"""Why words are dropped, in the order of the steps, as the end of a sentence."""

_MANY_WORDS = 50  # from which their mean is a center to look at words from
_HOW = {"names": "names the class", "contains": "contains the class", "part": "is part of the class"}


class Dropped(NamedTuple):
    """A word that was dropped.

    Attributes:
        word: as it was written.
        reason: the step that dropped it, one of ``REASONS``.
        detail: what was found, as a phrase.
        other: the word or class that it was dropped for, or ``""``.
    """

    word: str
    reason: str
    detail: str
    other: str = ""


Found = Mapping[int, tuple[str, str]]
"""Words to drop by number: what was found of each, and for which other word or class."""


class Remaining:
    """The words that are left, with a record of those that are not. Steps return the numbers of the words that stay.

    Attributes:
        words: the name and synonyms of each word that is left.
        dropped: the others, in the order they were dropped.
        notes: what to know about the steps.
    """

    def __init__(self, words: WordList) -> None:
        self.words = list(words.concepts)
        self.dropped = [Dropped(word, "repeat", f"is spelled like {kept!r}", kept) for word, kept in words.repeats]
        self.notes: list[str] = []

    def __len__(self) -> int:
        return len(self.words)

    @property
    def names(self) -> list[str]:
        """The names of the words that are left."""
        return [words[0] for words in self.words]

    def vocabulary(self, templates: Sequence[str]) -> Vocabulary:
        """The words that are left, as a vocabulary."""
        return Vocabulary(tuple(self.names), tuple(self.words), templates=tuple(templates))

    def drop(self, reason: str, found: Found) -> np.ndarray:
        """Drop words for one reason.

        Raises:
            ChoqolateError: if no word is left.
        """
        self.dropped += [Dropped(self.words[word][0], reason, *found[word]) for word in sorted(found)]
        stay = [word for word in range(len(self.words)) if word not in found]
        if not stay:
            raise ChoqolateError(
                f"Expected some words to be left, but all were dropped; the last ones {REASONS[reason]}. Give more "
                "words, or relax that step."
            )
        self.words = [self.words[word] for word in stay]
        return np.array(stay, dtype=np.intp)

    # ------------------------------------------------------------------ by text

    def drop_unusable(self, max_words: int | None) -> None:
        """Drop words without a letter and, on request, long ones."""
        silent = [number for number, name in enumerate(self.names) if not any(map(str.isalpha, name))]
        self.drop("no letter", dict.fromkeys(silent, ("has no letter", "")))
        if max_words is not None:
            lengths = [len(name.split()) for name in self.names]
            long = {n: (f"has {length} words", "") for n, length in enumerate(lengths) if length > max_words}
            self.drop("length", long)

    def drop_class_names(self, classes: Sequence[str], keep_phrases: bool) -> None:
        """Drop words that give a class away by their letters."""
        names = ClassNames(classes)
        if len(names) < len(classes):
            nameless = len(classes) - len(names)
            self.notes.append(f"{counted(nameless, 'class', 'classes')} without a name: words for them are not dropped")
        found = {}
        for number, words in enumerate(self.words):
            matches = [match for word in words if (match := names.match(word)) is not None]
            if keep_phrases:
                matches = [match for match in matches if match.how == "names"]
            if matches:
                found[number] = (f"{_HOW[matches[0].how]} {matches[0].name!r}", matches[0].name)
        self.drop("class", found)

    def drop_inflections(self) -> None:
        """Drop plurals and other forms of an earlier word."""
        first: dict[str, str] = {}
        found = {}
        for number, name in enumerate(self.names):
            earlier = first.setdefault(inflection_key(name), name)
            if earlier is not name:
                found[number] = (f"is a form of {earlier!r}", earlier)
        self.drop("duplicate", found)

    # ------------------------------------------------------------------ by text vectors

    def drop_near_classes(
        self, texts: np.ndarray, classes: Sequence[str], class_texts: np.ndarray, threshold: float
    ) -> np.ndarray:
        """Drop words whose text vectors ``(M, d)`` are close to that of a class ``(C, d)``, seen from their mean."""
        if not self._can_center() or not len(class_texts):
            return np.arange(len(self))
        center = texts.mean(axis=0, dtype=np.float64)
        words, named = centered_directions(texts, center), centered_directions(class_texts, center)
        similar = words @ named.T
        nearest = similar.argmax(axis=1)
        highest = similar[np.arange(len(words)), nearest]
        close = np.flatnonzero(highest >= threshold)
        return self.drop(
            "class",
            {
                int(word): (
                    f"is close to the class {classes[nearest[word]]!r} (cosine {highest[word]:.2f})",
                    classes[nearest[word]],
                )
                for word in close
            },
        )

    def drop_similar(self, texts: np.ndarray, threshold: float, verbose: bool) -> np.ndarray:
        """Drop words whose text vectors ``(M, d)`` are close to that of an earlier word, seen from their mean."""
        if not self._can_center():
            return np.arange(len(self))
        directions = centered_directions(texts, texts.mean(axis=0, dtype=np.float64))
        return self._drop_followers(directions, threshold, "means nearly the same as {!r} (cosine {:.2f})", verbose)

    def _can_center(self) -> bool:
        return len(self) >= _MANY_WORDS

    # ------------------------------------------------------------------ by scores

    def drop_constant(self, spread: np.ndarray, share: float) -> np.ndarray:
        """Drop words whose scores spread less than a share of the median."""
        least = max(share * float(np.median(spread)), np.finfo(np.float32).eps)
        found = {
            int(word): (f"has a standard deviation of {spread[word]:.2g}", "")
            for word in np.flatnonzero(spread < least)
        }
        return self.drop("constant", found)

    def drop_correlated(self, directions: np.ndarray, threshold: float, verbose: bool) -> np.ndarray:
        """Drop words whose scores are correlated with those of an earlier word."""
        return self._drop_followers(
            directions, threshold, "has nearly the scores of {!r} (correlation {:.2f})", verbose
        )

    def _drop_followers(self, directions: np.ndarray, threshold: float, detail: str, verbose: bool) -> np.ndarray:
        with item_bar(len(self), "comparing words", enabled=verbose) as advance:
            leaders = find_leaders(directions, threshold, advance)
        names = self.names
        found = {
            word: (detail.format(names[leader.word], leader.similarity), names[leader.word])
            for word, leader in leaders.items()
        }
        return self.drop("duplicate", found)

    # ------------------------------------------------------------------ choice

    def choose(self, evidence: WordEvidence, keep: int, by: str, seed: int) -> None:
        """Keep a number of words: one per cluster, or the most relevant."""
        names = self.names
        if by == "relevance":
            assert evidence.relevance is not None
            chosen = set(most_relevant(evidence.relevance, evidence.directions, keep).tolist())
            found = {
                word: ("adds less to telling the classes apart", "") for word in range(len(self)) if word not in chosen
            }
        else:
            medoids = cluster_medoids(evidence.directions, keep, seed)
            found = {
                word: (f"is in the cluster of {names[medoid]!r}", names[medoid])
                for word, medoid in enumerate(medoids.tolist())
                if word != medoid
            }
        self.drop("not chosen", found)
