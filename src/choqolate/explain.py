"""Explanations as plain data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LocalExplanation:
    r"""Exact Shapley attributions of n inputs, layer by layer, relative to a baseline.

    Attributes:
        concept_to_node: ``(n, N, M)``; over the concepts they sum to the node values minus ``node_baseline``.
        node_to_class: ``(n, C, N)``; over the nodes they sum to the class scores minus ``class_baseline``.
        node_values: ``(n, N)``.
        class_scores: ``(n, C)``, without the shift of a recalibration.
        node_baseline: ``(N,)``, the node values at the baseline.
        class_baseline: ``(C,)``, the class scores at the baseline.
        concepts: names of the M inputs of the first layer.
        classes: names of the C classes.
    """

    concept_to_node: np.ndarray
    node_to_class: np.ndarray
    node_values: np.ndarray
    class_scores: np.ndarray
    node_baseline: np.ndarray
    class_baseline: np.ndarray
    concepts: tuple[str, ...]
    classes: tuple[object, ...]
