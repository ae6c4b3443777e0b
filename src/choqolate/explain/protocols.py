"""What is expected of a model that is explained or measured."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class ConceptModel(Protocol):
    """What is measured: a fitted estimator over named concepts, a :class:`ChoqolateClassifier` or a baseline.

    ``node_attributions_`` has one row a node and one column a concept (of a ``bipolar`` model, as many again for their
    absences), ``class_attributions_`` one row a class and one column a node. A model with
    ``feature_names_in_`` is handed a DataFrame.
    """

    classes_: np.ndarray
    concepts_: list[str]
    node_attributions_: np.ndarray
    class_attributions_: np.ndarray
    provenance_: dict[str, Any]

    def predict(self, X: Any) -> np.ndarray:
        """Labels ``(n,)`` of raw scores ``X (n, M)``."""

    def transform(self, X: Any) -> np.ndarray:
        """Node values ``(n, N)`` of raw scores."""
