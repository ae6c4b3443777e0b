"""Biased tables of concept scores, and models trained on them."""

from __future__ import annotations

import numpy as np

from choqolate.data.scores import ConceptScores
from choqolate.estimators.table_training import fit_scores_runs
from tests.small_tables import CONCEPTS, bird_scores

SPURIOUS = ("sea", "forest")
PARAMETERS = dict(n_nodes=5, epochs=30, temperature=0.05, dtype="float64", device="cpu")


def biased_table(n_train: int = 500, n_val: int = 200, n_test: int = 400, **changes) -> ConceptScores:
    """Land and water birds whose place goes with the class, in 95 % of the rows to train and to choose on."""
    parts = [
        bird_scores(n, agreement, seed)
        for seed, (n, agreement) in enumerate([(n_train, 0.95), (n_val, 0.95), (n_test, 0.5)])
        if n
    ]
    scores, labels, groups = (np.concatenate([np.asarray(part[i]) for part in parts]) for i in range(3))
    split = np.repeat(["train", "val", "test"], [n_train, n_val, n_test])
    fields = dict(labels=labels, groups=groups, split=split, spurious=SPURIOUS)
    return ConceptScores(scores, CONCEPTS, **fields | changes)


def trained(table: ConceptScores, n_runs: int = 2, **changes):
    return fit_scores_runs(table, range(n_runs), **PARAMETERS | changes)
