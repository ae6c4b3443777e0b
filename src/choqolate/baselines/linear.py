"""The linear concept bottleneck: two linear layers, as wide as the network they are compared with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from choqolate.estimators.bottleneck import Bottleneck, check_alike, train_together
from choqolate.estimators.concept_estimator import check_seeds


class LinearBottleneck(Bottleneck):
    r"""Concept scores to a few nodes to classes, both layers linear: :math:`h = Wz + b`, :math:`o = Vh + d`.

    Our own baseline, after concept bottleneck models: the same scaled scores, the same number of nodes and the same
    order of batches as :class:`~choqolate.ChoqolateClassifier`, with no constraint on the weights and nothing between
    the layers. Training minimises the cross-entropy with Adam.

    Parameters and attributes are those of :class:`~choqolate.baselines.Bottleneck`.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = LinearBottleneck(n_nodes=4).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.node_attributions_.shape, model.class_attributions_.shape
    ((4, 13), (3, 4))
    """


def fit_linear_runs(X: Any, y: Any, seeds: Iterable[int], **parameters: Any) -> list[LinearBottleneck]:
    """Train one linear bottleneck for each seed, side by side in one pass over the data.

    A run is the same as if it had been trained alone, up to rounding. Runs that differ in more than the seed:
    :func:`~choqolate.baselines.fit_together`.

    Args:
        X: raw concept scores ``(n, M)``.
        y: labels ``(n,)``.
        seeds: the ``random_state`` of each run.
        **parameters: any other parameter of :class:`LinearBottleneck`.

    >>> from sklearn.datasets import load_wine
    >>> runs = fit_linear_runs(*load_wine(return_X_y=True), seeds=range(3), n_nodes=4, epochs=2)
    >>> [run.random_state for run in runs]
    [0, 1, 2]
    """
    runs = [LinearBottleneck(**parameters, random_state=seed) for seed in check_seeds(seeds, parameters)]
    check_alike(runs)
    train_together(runs, *runs[0].prepare(X, y))  # not fit_together: a warning names the caller's line
    return runs
