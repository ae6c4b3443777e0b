"""What is expected of a model that is explained or measured."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from sklearn.utils.validation import check_is_fitted

from choqolate.errors import ChoqolateError
from choqolate.explain.local import LocalExplanation
from choqolate.network.fitted import FittedNetwork
from choqolate.network.removal_report import Removal


class ConceptModel(Protocol):
    """A fitted estimator over named concepts, a :class:`~choqolate.ChoqolateClassifier` or a baseline.

    ``node_attributions_`` has one row per node and one column per concept (of a ``bipolar`` model, as many again for
    their absences; :func:`choqolate.metrics.per_concept` adds the two), ``class_attributions_`` one row per class and
    one column per node. A model with ``feature_names_in_`` is handed a DataFrame.
    """

    classes_: Any  # np.ndarray; an attribute or a property, as are the others
    concepts_: Any  # list[str]
    node_attributions_: Any  # np.ndarray
    class_attributions_: Any  # np.ndarray
    provenance_: Any  # Provenance

    def predict(self, X: Any) -> np.ndarray:
        """Labels ``(n,)`` of raw scores ``X (n, M)``."""

    def transform(self, X: Any) -> np.ndarray:
        """Node values ``(n, N)`` of raw scores."""


class ChoquetModel(ConceptModel, Protocol):
    """A fitted classifier around a :class:`~choqolate.network.fitted.FittedNetwork`."""

    network_: FittedNetwork

    @property
    def removal_(self) -> Removal | None:
        """What was removed or reweighted since training."""

    def scale(self, X: Any) -> np.ndarray:
        """Scaled scores ``(n, M)`` of raw ones, checked."""

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities ``(n, C)`` of raw scores."""

    def explain(self, X: Any, *, baseline: str = "zero") -> LocalExplanation:
        """Exact local attributions of each row."""

    def with_network(self, network: FittedNetwork) -> Any:
        """The same classifier around another network."""


def check_choquet_model(model: Any, purpose: str) -> None:
    """Check that a model is a fitted classifier of Choquet integrals, not a baseline.

    Args:
        model: what the user gave.
        purpose: what it is needed for, such as ``"to find suspects"``.

    Raises:
        ChoqolateError: if it is another kind of model.
        sklearn.exceptions.NotFittedError: if it is not fitted.

    >>> check_choquet_model("models/birds", "to explain an image")
    Traceback (most recent call last):
    choqolate.errors.ChoqolateError: Expected a ChoqolateClassifier to explain an image, but got a str.
    """
    if isinstance(model, type) or not hasattr(model, "with_network"):
        kind = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
        raise ChoqolateError(f"Expected a ChoqolateClassifier {purpose}, but got {kind}.")
    check_is_fitted(model)
