"""Small concept-score tables for tests."""

from __future__ import annotations

import numpy as np
import pandas as pd

FORMS = {  # of a classifier: options that change what it computes
    "pairwise": {},
    "factored": {"interactions": "factored", "rank": 2},
    "none": {"interactions": "none"},
    "additive classes": {"class_interactions": "none"},
    "pairs of nodes": {"interactions": "none", "class_interactions": "pairwise"},
    "one layer": {"n_nodes": None},
    "bipolar": {"bipolar": True},
    "bipolar factored": {"interactions": "factored", "rank": 2, "bipolar": True},
    "free": {"free_weights": True, "temperature": 1.0},
}
CONCEPTS = ["webbed feet", "long bill", "hooked bill", "crest", "sea", "forest"]


def bird_scores(n_rows: int = 400, agreement: float = 0.95, seed: int = 0):
    """Scores of six concepts for landbirds and waterbirds; the background agrees with the class most of the time.

    Returns a DataFrame of scores, the labels as text, and the groups (label and background).
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    water = np.where(rng.random(n_rows) < agreement, y, 1 - y)
    means = np.stack([y, 0.6 * y, 1 - y, 0.5 - 0.5 * y, 1.5 * water, 1.5 - 1.5 * water], 1)
    noise = rng.normal(0, [0.6, 0.6, 0.6, 0.6, 0.4, 0.4], means.shape)  # the background is the easier thing to see
    X = pd.DataFrame(0.2 + 0.05 * (means + noise), columns=CONCEPTS)
    labels = np.array(["landbird", "waterbird"])[y]
    return (
        X,
        labels,
        np.array([f"{label} on {'water' if w else 'land'}" for label, w in zip(labels, water, strict=True)]),
    )
