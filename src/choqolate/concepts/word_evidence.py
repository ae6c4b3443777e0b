"""What training images say about many words at once, without a matrix of all pairs of words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from choqolate.data.rows import Rows

_MOST_ROWS = 2000  # of a table: enough to tell correlations of 0.95 apart from 0.94
_BLOCK = 1024  # words at a time
_BLOCK_SCORES = 1 << 24  # in memory at a time, in float64
_LEADERS = 8192  # words that a block is compared with at a time
_NO_SPREAD = 1e-12


class WordEvidence(NamedTuple):
    """What the scores of training rows say about M words.

    Attributes:
        directions: unit vectors ``(M, r)``, float32, whose inner products are the correlations of the scores; zero
            for a word whose scores do not vary.
        spread: standard deviation of the scores of each word ``(M,)``.
        relevance: correlation of each word's scores with each class against the others ``(M, C)``, if there are labels.
    """

    directions: np.ndarray
    spread: np.ndarray
    relevance: np.ndarray | None

    def take(self, words: np.ndarray) -> WordEvidence:
        """The evidence on some of the words."""
        relevance = None if self.relevance is None else self.relevance[words]
        return WordEvidence(self.directions[words], self.spread[words], relevance)


def training_rows(rows: Rows) -> np.ndarray:
    """Numbers of the rows that words may be chosen on: those for training, and all where there is no split.

    A table with labels and no split is split as :meth:`Rows.with_split` does it, so that the rows that a model is
    tested on later are not looked at.
    """
    split = rows.with_split().split
    return np.arange(len(rows)) if split is None else np.flatnonzero(split == "train")


class ClassRows(NamedTuple):
    """Which rows are of which class.

    Attributes:
        indicator: one row per class, one column per row of the table, 1 where they belong together ``(C, n)``.
        shares: share of each class ``(C,)``.
    """

    indicator: csr_matrix
    shares: np.ndarray

    @classmethod
    def of(cls, labels: np.ndarray | None) -> ClassRows | None:
        """From the labels of training rows; ``None`` without labels, or with a single class."""
        if labels is None:
            return None
        known = np.flatnonzero([label is not None for label in labels])
        names, places = np.unique(labels[known].astype(str), return_inverse=True)
        if len(names) < 2:
            return None
        indicator = csr_matrix((np.ones(len(known)), (places, known)), shape=(len(names), len(labels)))
        return cls(indicator, np.bincount(places) / len(labels))


def evidence_from_scores(scores: np.ndarray, classes: ClassRows | None, seed: int = 0) -> WordEvidence:
    """Evidence from the scores of training rows ``(n, M)``.

    Args:
        scores: scores of training rows only.
        classes: of these rows.
        seed: for the choice of rows in a long table: correlations of pairs are computed on 2,000 of them.
    """
    n_rows, n_words = scores.shape
    sample = np.arange(n_rows)
    if n_rows > _MOST_ROWS:
        sample = np.sort(np.random.default_rng(seed).choice(n_rows, _MOST_ROWS, replace=False))
    directions = np.empty((n_words, len(sample)), dtype=np.float32)
    spread = np.empty(n_words)
    relevance = None if classes is None else np.empty((n_words, len(classes.shares)))
    step = max(1, min(_BLOCK, _BLOCK_SCORES // max(1, n_rows)))
    for start in range(0, n_words, step):
        block = slice(start, start + step)
        columns = scores[:, block].astype(np.float64)
        columns -= columns.mean(axis=0)
        spread[block] = np.sqrt((columns**2).mean(axis=0))
        if classes is not None and relevance is not None:
            relevance[block] = _correlation((classes.indicator @ columns).T / n_rows, spread[block], classes.shares)
        part = columns[sample] - columns[sample].mean(axis=0)
        directions[block] = _unit_rows(part.T)
    return WordEvidence(directions, spread, relevance)


def evidence_from_images(
    images: Iterable[np.ndarray], texts: np.ndarray, classes: ClassRows | None = None
) -> WordEvidence:
    r"""The same evidence from vectors of training images and of words, without any score.

    With the covariance :math:`\Sigma = L L^\top` of the images, the scores of words s and t have covariance
    :math:`t^\top \Sigma s = \langle L^\top t, L^\top s \rangle`: d numbers per word hold what n scores would.

    Args:
        images: vectors of training images in blocks ``(n_b, d)``.
        texts: vectors of words ``(M, d)``.
        classes: of all these images.
    """
    dim, n_rows = texts.shape[1], 0
    total, products = np.zeros(dim), np.zeros((dim, dim))
    by_class = None if classes is None else np.zeros((len(classes.shares), dim))
    for vectors in images:
        block = vectors.astype(np.float64)
        total += block.sum(axis=0)
        products += block.T @ block
        if classes is not None and by_class is not None:
            by_class += classes.indicator[:, n_rows : n_rows + len(block)] @ block
        n_rows += len(block)
    mean = total / n_rows
    values, axes = np.linalg.eigh(products / n_rows - np.outer(mean, mean))
    projected = texts.astype(np.float64) @ (axes * np.sqrt(np.clip(values, 0, None)))
    spread = np.linalg.norm(projected, axis=1)
    relevance = None
    if classes is not None and by_class is not None:
        about = by_class / n_rows - classes.shares[:, None] * mean
        relevance = _correlation(texts @ about.T, spread, classes.shares)
    return WordEvidence(_unit_rows(projected).astype(np.float32), spread, relevance)


def _correlation(products: np.ndarray, spread: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Correlation of scores with membership in classes, from their covariance ``(M, C)``; zero without spread."""
    scale = np.maximum(spread, _NO_SPREAD)[:, None] * np.sqrt(shares * (1 - shares))
    return np.where(spread[:, None] > _NO_SPREAD, products / scale, 0.0)


def _unit_rows(rows: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: np.ndarray = np.where(lengths > _NO_SPREAD, rows / np.maximum(lengths, _NO_SPREAD), 0.0)
    return unit


def centered_directions(vectors: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Unit vectors seen from a center, float32: text vectors of CLIP all point nearly the same way otherwise."""
    return _unit_rows(vectors.astype(np.float64) - center).astype(np.float32)


class Leader(NamedTuple):
    """An earlier word that a word repeats, and their similarity."""

    word: int
    similarity: float


def find_leaders(
    directions: np.ndarray, threshold: float, advance: Callable[[int], None] = lambda n: None
) -> dict[int, Leader]:
    """Words that repeat an earlier word which is itself kept, by number.

    Blocks of words are compared with the words kept so far; the matrix of all pairs is never held.

    Args:
        directions: unit vectors ``(M, r)``, the words that should rather be kept first.
        threshold: inner product from which a word repeats another.
        advance: called with the number of words done.

    >>> find_leaders(np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]), 0.75)
    {2: Leader(word=1, similarity=0.8)}
    """
    found: dict[int, Leader] = {}
    kept = np.empty(len(directions), dtype=np.intp)
    n_kept = 0
    for start in range(0, len(directions), _BLOCK):
        block = directions[start : start + _BLOCK]
        best, leader = np.full(len(block), -np.inf), np.zeros(len(block), dtype=np.intp)
        for first in range(0, n_kept, _LEADERS):
            others = kept[first : min(first + _LEADERS, n_kept)]
            similar = block @ directions[others].T
            places = similar.argmax(axis=1)
            highest = similar[np.arange(len(block)), places]
            better = highest > best
            best[better], leader[better] = highest[better], others[places[better]]
        inside = block @ block.T
        here: list[int] = []
        for row in range(len(block)):
            if here:
                place = here[int(inside[row, here].argmax())]
                if inside[row, place] > best[row]:
                    best[row], leader[row] = inside[row, place], start + place
            if best[row] >= threshold:
                found[start + row] = Leader(int(leader[row]), float(best[row]))
            else:
                here.append(row)
        kept[n_kept : n_kept + len(here)] = np.array(here, dtype=np.intp) + start
        n_kept += len(here)
        advance(len(block))
    return found
