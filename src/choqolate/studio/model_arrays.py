"""A fitted network as plain data for the engine of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from choqolate.estimators.classifier import ChoqolateClassifier


def describe_network(classifier: ChoqolateClassifier) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Stand-in: names alone."""
    network = classifier.network_
    described = {
        "identity": network.identity,
        "concepts": list(network.concepts),
        "inputs": list(network.input_names),
        "classes": [str(label) for label in network.classes.tolist()],
        "n_nodes": network.n_nodes,
        "label_shares": network.label_shares.tolist(),
    }
    return described, {"low": network.scaling.low, "high": network.scaling.high}
