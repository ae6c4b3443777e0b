"""Permutation weighting: weights of the rows under which the class no longer goes with the spurious concepts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from choqolate._util.checks import as_labels, check_classes, check_number, check_seed
from choqolate._util.progress import item_bar
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.estimators.validation import stratified_folds

N_PERMUTATIONS = 5
N_FOLDS = 5
MOST_CLASSES = 255  # categories that the trees tell apart
_CERTAIN = 1e-3  # probabilities stay this far from 0 and 1, so that no row weighs more than about a thousand others
_TREES: dict[str, Any] = {"max_leaf_nodes": 8, "l2_regularization": 10.0, "early_stopping": False}
_LEAF_ROWS = 20  # at least, of a leaf; a tenth of the rows if there are fewer than 200


def permutation_weights(
    y: Any,
    S: Any,
    *,
    n_permutations: int = N_PERMUTATIONS,
    n_folds: int = N_FOLDS,
    random_state: int = 0,
    verbose: bool = False,
) -> np.ndarray:
    r"""Weight rows so that labels become independent of spurious scores (Arbour et al. 2021, as used by CBDebug).

    A classifier learns to tell rows :math:`(y_{\pi(i)}, s_i)` with permuted labels, in which the two are independent,
    from the rows :math:`(y_i, s_i)` as they are. With :math:`p_i` its probability that row i is a permuted one,
    predicted by a fit on other rows and averaged over the permutations, the weight is

    .. math:: w_i = \frac{p_i}{1 - p_i} \approx \frac{P(y_i) P(s_i)}{P(y_i, s_i)}

    Rows whose label goes with S get little weight, rows that break the correlation much. Weights have a mean near one;
    if y and S are independent, all are near one.

    The classifier is gradient boosting of small, shrunken trees, with the label as a category. Both copies of a row are
    always in the same fold: otherwise the fit would have seen the scores of the rows that it is applied to, and rows
    that agree would come out too heavy.

    Args:
        y: labels ``(n,)``.
        S: scores of the spurious concepts ``(n, k)``, or of one ``(n,)``; an array, a DataFrame or ``ConceptScores``.
        n_permutations: how many permutations to average over.
        n_folds: number of parts, each of which is predicted by a fit on the others.
        random_state: seed of the permutations.
        verbose: show progress on stderr.

    Returns:
        Weights ``(n,)``, above 0.

    Raises:
        ChoqolateError: if S has no columns or is not finite, for fewer rows than folds, and for fewer than two or more
            than 255 classes.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 1000)
    >>> sea = np.where(rng.random(1000) < 0.95, y, 1 - y)
    >>> w = permutation_weights(y, sea)
    >>> bool(w[y != sea].mean() > 10 * w[y == sea].mean())
    True
    """
    check_number("n_permutations", n_permutations, minimum=1, whole=True)
    check_number("n_folds", n_folds, minimum=2, whole=True)
    scores = _as_columns(S)
    codes = _as_codes(y, len(scores))
    if len(scores) < n_folds:
        raise ChoqolateError(
            f"Expected at least {n_folds} rows, one per fold, but got {len(scores)}. Give more rows or lower n_folds."
        )
    rng = np.random.default_rng(check_seed(random_state))
    folds, weights = stratified_folds(codes, n_folds), np.zeros(len(scores))
    with item_bar(n_permutations * n_folds, "permutation weights", enabled=verbose) as advance:
        for _ in range(n_permutations):
            permuted = rng.permutation(codes)
            for rows, p in _held_out(codes, permuted, scores, folds):
                weights[rows] += p / (1 - p)
                advance(1)
    return weights / n_permutations


def effective_rows(weights: np.ndarray) -> float:
    r"""Number of equally weighted rows that say as much: :math:`(\sum_i w_i)^2 / \sum_i w_i^2` (Kish 1965).

    >>> effective_rows(np.array([1.0, 1.0, 0.0, 0.0]))
    2.0
    """
    return float(weights.sum() ** 2 / (weights**2).sum())


def _held_out(
    codes: np.ndarray, permuted: np.ndarray, scores: np.ndarray, folds: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The rows of each fold, and the probability that each is a permuted one, by a fit on the other folds."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    leaf = max(1, min(_LEAF_ROWS, len(scores) // 10))
    original, shuffled = np.column_stack([codes, scores]), np.column_stack([permuted, scores])
    for fold in np.unique(folds):
        fitted_on, rows = folds != fold, np.flatnonzero(folds == fold)
        stacked = np.vstack([original[fitted_on], shuffled[fitted_on]])
        is_permuted = np.repeat([False, True], fitted_on.sum())
        trees = HistGradientBoostingClassifier(
            categorical_features=[0], min_samples_leaf=leaf, random_state=0, **_TREES
        )
        p = trees.fit(stacked, is_permuted).predict_proba(original[rows])[:, 1]
        yield rows, p.clip(_CERTAIN, 1 - _CERTAIN)


def _as_columns(S: Any) -> np.ndarray:
    scores = S.scores if isinstance(S, ConceptScores) else S
    try:
        scores = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise ChoqolateError(
            f"Expected the scores of the spurious concepts as an array of numbers, but got {type(S).__name__} with "
            "other values."
        ) from None
    scores = scores[:, None] if scores.ndim == 1 else scores
    if scores.ndim != 2 or not scores.shape[1]:
        raise ChoqolateError(
            f"Expected scores of at least one spurious concept, shape (n, k), but got shape {scores.shape}. Name the "
            "spurious concepts."
        )
    if not np.isfinite(scores).all():
        raise ChoqolateError("Expected finite scores of the spurious concepts, but some are not. Drop those rows.")
    return scores


def _as_codes(y: Any, n_rows: int) -> np.ndarray:
    """Number of the class of each row ``(n,)``."""
    classes, codes = np.unique(np.asarray(as_labels(y, "y", n_rows)), return_inverse=True)
    check_classes(classes)
    if len(classes) > MOST_CLASSES:
        raise ChoqolateError(
            f"Expected at most {MOST_CLASSES} classes, but y has {len(classes)}. Pass coarser labels, such as one "
            "label for all classes that share a bias."
        )
    return np.asarray(codes)
