"""SLR-AVD: sparse logistic regression on the scores of descriptors."""

from __future__ import annotations

import numpy as np

from choqolate.estimators.bottleneck import Bottleneck


class SLRAVD(Bottleneck):
    r"""Sparse logistic regression with aligned visual descriptors (Feng, Bair and Kolter 2024).

    .. math:: \mathrm{CE} + \lambda (|W|_1 + |V|_1)

    Intercepts are not penalised. With ``n_nodes=None`` this is the authors' sparse logistic regression, and its optimum
    is that of scikit-learn's ``LogisticRegression`` with an l1 penalty and C = 1 / (n λ). The layer of nodes is an
    adaptation, so that methods are compared at the same width. Weights become exactly zero, see
    :class:`~choqolate.estimators.descent.ProximalAdam`.

    Args:
        penalty: λ; the authors choose it on validation data.

    The other parameters and the attributes are those of :class:`~choqolate.baselines.Bottleneck`.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = SLRAVD(n_nodes=4, penalty=0.01, learning_rate=0.1).fit(X, y)
    >>> model.score(X, y) > 0.9, bool((model.node_attributions_ == 0).mean() > 0.5)
    (True, True)
    """

    def __init__(
        self,
        n_nodes: int | None = 8,
        *,
        penalty: float = 1e-3,
        epochs: int = 100,
        steps: int | None = None,
        batch_size: int = 512,
        learning_rate: float = 0.01,
        device: str = "auto",
        verbose: bool = False,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        super().__init__(
            n_nodes,
            epochs=epochs,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            device=device,
            verbose=verbose,
            random_state=random_state,
        )
        self.penalty = penalty
