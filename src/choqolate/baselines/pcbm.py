"""Post-hoc concept bottleneck models: a linear classifier of concept scores under an elastic net."""

from __future__ import annotations

import numpy as np

from choqolate.estimators.bottleneck import Bottleneck


class PCBM(Bottleneck):
    r"""Post-hoc concept bottleneck (Yuksekgonul, Wang and Zou 2023): cross-entropy under an elastic net.

    .. math:: \mathrm{CE} + \lambda \sum_{U \in \{W, V\}} \rho |U|_1 + \frac{1 - \rho}{2} |U|^2

    Intercepts are not penalised. With ``n_nodes=None`` this is the authors' sparse linear classifier, and its optimum
    is that of scikit-learn's ``LogisticRegression`` with C = 1 / (n λ). The layer of nodes is an adaptation, so that
    methods are compared at the same width: the penalty covers both layers. Weights become exactly zero, see
    :class:`~choqolate.estimators.descent.ProximalAdam`.

    Args:
        penalty: λ; the authors use 1e-5, on CUB 2e-4.
        l1_ratio: ρ.

    The other parameters and the attributes are those of :class:`~choqolate.baselines.Bottleneck`.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = PCBM(n_nodes=4, penalty=0.01, learning_rate=0.1).fit(X, y)
    >>> model.score(X, y) > 0.9, bool((model.node_attributions_ == 0).mean() > 0.5)
    (True, True)
    """

    def __init__(
        self,
        n_nodes: int | None = 8,
        *,
        penalty: float = 1e-5,
        l1_ratio: float = 0.99,
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
        self.l1_ratio = l1_ratio
