"""The methods under test, quick ones, and raw and scaled scores for them."""

from __future__ import annotations

import numpy as np
import torch

from choqolate.baselines import PCBM, PSCBM, SLRAVD, LinearBottleneck, SparseAutoencoder
from choqolate.estimators.descent import Descent

QUICK = {  # small and fast, and what each has of its own is at work
    LinearBottleneck: {},
    PCBM: {"penalty": 0.01, "l1_ratio": 0.8},
    SLRAVD: {"penalty": 0.005},
    SparseAutoencoder: {"penalty": 1e-3},
    PSCBM: {"penalty": 0.005, "min_score": 0.2, "per_class": 2},
}
METHODS = list(QUICK)
OPTIONAL_NODES = [method for method in METHODS if method is not SparseAutoencoder]


def quick(method, **parameters):
    return method(
        **{"n_nodes": 3, "epochs": 12, "batch_size": 128, "learning_rate": 0.03, **QUICK[method], **parameters}
    )


def scale(X, train):
    low, high = np.min(train, axis=0), np.max(train, axis=0)
    return np.clip((np.asarray(X) - np.asarray(low)) / np.asarray(high - low), 0, 1)


def noisy_labels(n_rows=300, n_concepts=8, n_used=4, n_classes=3, seed=0):
    """Scores of which some are for nothing, and labels drawn from a softmax of the others."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, n_concepts))
    logits = 3 * (X[:, :n_used] - 0.5) @ rng.normal(size=(n_used, n_classes))
    return X, (logits + rng.gumbel(size=logits.shape)).argmax(1)


def runs_on(z, *, n_runs=1, penalty=0.0, epochs=1, learning_rate=0.01):
    """Runs of seeds 0, 1, ... on scaled scores without labels."""
    z = torch.as_tensor(z, dtype=torch.float64)
    return Descent(
        X=z.numpy(),
        z=z,
        targets=torch.zeros(len(z), dtype=torch.int64),
        generators=[torch.Generator().manual_seed(seed) for seed in range(n_runs)],
        learning_rate=torch.full((n_runs,), learning_rate, dtype=torch.float64),
        penalty=torch.full((n_runs,), penalty, dtype=torch.float64),
        epochs=epochs,
        batch_size=512,
    )
