"""A fitted network as the engine of the page takes it: a document for JSON, and arrays.

The engine edits the network in the browser. It starts from a base: the trained network or, if the model was simplified,
the network after its last simplification, because a simplification is computed in Python alone. Edits made after the
base are part of the document, and the engine applies them first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from choqolate.data.rows import class_index
from choqolate.estimators.calibration import model_state
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.estimators.edits_file import leading_concepts
from choqolate.explain.model_protocols import check_choquet_model
from choqolate.integral import AdditiveCapacity, Capacity, FactoredCapacity, PairwiseCapacity, SparseCapacity, Terms
from choqolate.network.edits import Edit, Simplify, affected_concepts
from choqolate.network.fitted import FittedNetwork

MOST_BYTES = 6_000_000  # of the weights of a layer in double precision, then in single precision
LEAST_HELD = 1 - 1e-7  # mass of a node whose heaviest terms stand for all


def describe_network(classifier: ChoqolateClassifier) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Describe a fitted classifier for the engine of the studio.

    Args:
        classifier: fitted; its edits stay as they are.

    Returns:
        What the page has to know of the model, such as JSON can hold, and its arrays by name.

    Raises:
        ChoqolateError: if it is no fitted :class:`~choqolate.ChoqolateClassifier`.
    """
    check_choquet_model(classifier, "to open it in the studio")
    network = classifier.network_
    locked, later = _split(network.edits_in_force)
    base, trained = replace(network, edits=locked), network.as_trained()
    form, weights, left_out = _node_arrays(base)
    document = {
        "identity": network.identity,
        "state": model_state(network),
        "interactions": _interactions(base),
        "form": form,
        "bipolar": network.architecture.bipolar,
        "one_layer": network.one_layer,
        "free": network.architecture.free_weights,
        "rank": network.architecture.rank,
        "concepts": list(network.concepts),
        "inputs": list(network.input_names),
        "classes": list(class_index(network.classes)),
        "n_nodes": network.n_nodes,
        "label_shares": network.label_shares.tolist(),
        "edits": [edit.as_dict() for edit in later],
        "locked": [str(edit) for edit in locked],
        "locked_concepts": list(affected_concepts(locked)),
        "left_out": left_out.tolist(),
        "leading": [leading_concepts(shares, network.input_names) for shares in trained.node_attributions],
    }
    return document, weights | _class_arrays(base) | _other_arrays(base)


def _split(edits: Sequence[Edit]) -> tuple[tuple[Edit, ...], tuple[Edit, ...]]:
    """The edits up to the last simplification, which the engine cannot repeat, and those after it."""
    end = max((place for place, edit in enumerate(edits, start=1) if isinstance(edit, Simplify)), default=0)
    return tuple(edits[:end]), tuple(edits[end:])


def _interactions(base: FittedNetwork) -> str:
    return "sparse" if isinstance(base.nodes.capacity, SparseCapacity) else base.architecture.interactions


def _node_arrays(base: FittedNetwork) -> tuple[str, dict[str, np.ndarray], np.ndarray]:
    """The form of the first layer, its arrays, and the mass of the terms that were left out of each node ``(N,)``."""
    capacity, left_out = base.nodes.capacity, np.zeros(base.n_nodes)
    form, arrays = _arrays(capacity)
    if form == "pairwise" and not capacity.free and _size(arrays) > MOST_BYTES:
        shorter, held = _heaviest(capacity)
        listed = _arrays(shorter)
        if _size(listed[1]) < _size(arrays):
            (form, arrays), left_out = listed, 1 - held
    return form, {f"nodes.{name}": array for name, array in arrays.items()}, left_out


def _class_arrays(base: FittedNetwork) -> dict[str, np.ndarray]:
    """The second layer; a simplified one is short of terms but not of room, so it is a matrix as well."""
    capacity = base.class_layer
    if capacity is None:
        return {}
    if isinstance(capacity, SparseCapacity):
        capacity = PairwiseCapacity.from_weights(*capacity.weights())
    return {f"classes.{name}": array for name, array in _arrays(capacity)[1].items()}


def _other_arrays(base: FittedNetwork) -> dict[str, np.ndarray]:
    return {
        "base.frozen": base.nodes.frozen.numpy().astype(np.uint8),
        "base.gone": base.gone.numpy().astype(np.uint8),
        "base.retained": base.retained.numpy().copy(),
        "base.shift": base.class_shift,
        "means": base.nodes.means.numpy().astype(np.float64),
        "low": np.asarray(base.scaling.low, dtype=np.float64),
        "high": np.asarray(base.scaling.high, dtype=np.float64),
    }


def _arrays(capacity: Capacity) -> tuple[str, dict[str, np.ndarray]]:
    """The form of capacities, and their arrays by short names."""
    if isinstance(capacity, PairwiseCapacity):
        return "pairwise", _weights(w=capacity.w)
    if isinstance(capacity, AdditiveCapacity):
        return "additive", _weights(a=capacity.a)
    if isinstance(capacity, FactoredCapacity):
        return "factored", _weights(m=capacity.m, a=capacity.a, p=capacity.p, q=capacity.q)
    assert isinstance(capacity, SparseCapacity)
    indices = {"node": capacity.node, "first": capacity.first, "second": capacity.second}
    places = {name: part.numpy().astype(np.int32) for name, part in indices.items()}
    kinds = {"is_max": capacity.is_max.numpy().astype(np.uint8)}
    return "sparse", places | kinds | _weights(weight=capacity.weight)


def _weights(**parts: torch.Tensor) -> dict[str, np.ndarray]:
    """Weights in double precision if there is room, else in single precision, whose relative error is as small."""
    arrays = {name: np.ascontiguousarray(part.detach().numpy(), dtype=np.float64) for name, part in parts.items()}
    if _size(arrays) <= MOST_BYTES:
        return arrays
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def _size(arrays: dict[str, np.ndarray]) -> int:
    return sum(array.nbytes for array in arrays.values())


def _heaviest(capacity: Capacity) -> tuple[SparseCapacity, np.ndarray]:
    """The heaviest terms of each node, not rescaled, and the mass that they hold ``(N,)``."""
    kept: list[Terms] = [capacity.terms(node, mass=LEAST_HELD) for node in range(capacity.shape[0])]
    held = np.array([float(terms.weight.sum()) for terms in kept])
    return SparseCapacity.of_terms(kept, capacity.shape[1]), np.minimum(held, 1.0)
