"""Which k of many words to keep: one per cluster of similar words, or the most relevant for the classes."""

from __future__ import annotations

import numpy as np

REDUNDANCY = 0.5  # weight of what the words chosen so far say already


def cluster_medoids(directions: np.ndarray, n_words: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The most central word of each of k clusters.

    Args:
        directions: unit vectors of the words ``(M, r)``.
        n_words: number k of clusters, at most M.
        seed: for the start of k-means.

    Returns:
        The words that are kept ``(k,)``, in ascending order, and for every word the one that stands for it ``(M,)``.
    """
    from sklearn.cluster import KMeans

    means = KMeans(n_words, n_init=1, random_state=seed).fit(directions)
    near = np.einsum("ij,ij->i", directions, means.cluster_centers_[means.labels_])
    order = np.lexsort((np.arange(len(near)), -near, means.labels_))  # by cluster, the most central first
    first = np.flatnonzero(np.diff(means.labels_[order], prepend=-1))
    medoids = np.full(n_words, order[first[0]], dtype=np.intp)
    medoids[means.labels_[order[first]]] = order[first]
    return np.unique(order[first]), medoids[means.labels_]


def most_relevant(relevance: np.ndarray, directions: np.ndarray, n_words: int) -> np.ndarray:
    r"""Words whose scores tell the classes apart and do not repeat each other, in the order they are chosen ``(k,)``.

    Each step serves the class c that is covered least so far, with the word j that maximizes

    .. math:: r_{jc} - \lambda \frac{1}{|S|} \sum_{s \in S} |\rho_{js}|

    where r is the relevance and :math:`\rho` the correlation with the words S chosen so far (mRMR).

    Args:
        relevance: correlation of each word's scores with each class ``(M, C)``, on training rows.
        directions: unit vectors whose inner products are correlations ``(M, r)``.
        n_words: number k of words, at most M.
    """
    free = np.ones(len(relevance), dtype=bool)
    covered = np.zeros(relevance.shape[1])
    shared = np.zeros(len(relevance))
    chosen: list[int] = []
    for _ in range(n_words):
        gain = relevance[:, covered.argmin()] - REDUNDANCY * shared / max(len(chosen), 1)
        word = int(np.where(free, gain, -np.inf).argmax())
        chosen.append(word)
        free[word] = False
        covered += np.clip(relevance[word], 0, None)
        shared += np.abs(directions @ directions[word])
    return np.array(chosen, dtype=np.intp)
