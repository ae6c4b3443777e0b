"""Which k of many words to keep: one per cluster of similar words, or the most relevant for the classes."""

from __future__ import annotations

import numpy as np

_RIDGE = 0.1  # keeps words that are nearly predicted by the chosen ones from winning by noise
_PREDICTED = 1e-6
_STARTS = 4  # of k-means: with one, a cluster is easily missed


def cluster_medoids(directions: np.ndarray, n_words: int, seed: int = 0) -> np.ndarray:
    """The most central word of the cluster of each word, for k clusters.

    Args:
        directions: unit vectors of the words ``(M, r)``.
        n_words: number k of clusters, at most M.
        seed: for the start of k-means.

    Returns:
        For every word the one that stands for it ``(M,)``; those that stand for themselves are the k medoids.
    """
    from sklearn.cluster import KMeans

    means = KMeans(n_words, n_init=_STARTS, random_state=seed).fit(directions)
    near = np.einsum("ij,ij->i", directions, means.cluster_centers_[means.labels_])
    order = np.lexsort((np.arange(len(near)), -near, means.labels_))  # by cluster, the most central first
    first = np.flatnonzero(np.diff(means.labels_[order], prepend=-1))
    medoids = np.full(n_words, order[first[0]], dtype=np.intp)
    medoids[means.labels_[order[first]]] = order[first]
    stands_for: np.ndarray = medoids[means.labels_]
    return stands_for


def most_relevant(relevance: np.ndarray, directions: np.ndarray, n_words: int) -> np.ndarray:
    r"""Words that tell the classes apart and do not repeat each other, in the order they are chosen ``(k,)``.

    Forward selection: each step takes the word j that adds most to the words chosen so far,

    .. math:: \arg\max_j \frac{\sum_c \max(r_{jc}, 0)^2}{\lVert q_j \rVert^2 + \lambda}

    where :math:`q_j` is the part of the scores of word j that the chosen words do not predict linearly, and
    :math:`r_{jc}` its relevance for class c. Every class counts the same, whatever its size.

    Args:
        relevance: correlation of each word's scores with each class ``(M, C)``, on training rows.
        directions: unit vectors whose inner products are correlations ``(M, r)``.
        n_words: number k of words, at most M.
    """
    rest, lengths = relevance.astype(np.float64), np.ones(len(relevance))
    free = np.ones(len(relevance), dtype=bool)
    basis = np.empty((n_words, directions.shape[1]))
    chosen: list[int] = []
    for step in range(n_words):
        gain = (np.clip(rest, 0, None) ** 2).sum(axis=1) / (lengths + _RIDGE)
        word = int(np.where(free, gain, -np.inf).argmax())
        chosen.append(word)
        free[word] = False
        known = basis[:step]
        fresh = directions[word] - (known @ directions[word]) @ known
        length = float(np.linalg.norm(fresh))
        basis[step] = fresh / length if length > _PREDICTED else 0.0
        shared = directions @ basis[step].astype(directions.dtype)
        rest -= np.outer(shared, rest[word] / max(length, _PREDICTED))
        lengths = np.clip(lengths - shared.astype(np.float64) ** 2, 0, None)
    return np.array(chosen, dtype=np.intp)
