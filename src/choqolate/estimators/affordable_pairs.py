"""Whether all pairs of concepts fit into memory, and what to train where they do not."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import torch

from choqolate._util.memory import available_memory
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.estimators.search_record import AUTO, PAPER
from choqolate.estimators.side_by_side import DTYPES
from choqolate.integral.layer import training_bytes
from choqolate.network.architecture import Architecture

FACTORED = "interactions='factored'"


def affordable(
    parameters: Mapping[str, Any], n_concepts: int, n_classes: int, *, advice: str = FACTORED, stacklevel: int = 3
) -> dict[str, Any]:
    """Parameters of a classifier that fits into memory: where none are given, interactions may become factored.

    Args:
        parameters: those that are given; pairwise interactions are the default.
        n_concepts, n_classes: how many there are.
        advice: how the caller asks for factored interactions.
        stacklevel: of the warning.

    Warns:
        ChoqolateWarning: if interactions become factored.

    Raises:
        ChoqolateError: if pairwise interactions are given and do not fit.

    >>> affordable({"n_nodes": 4}, n_concepts=100, n_classes=2)
    {'n_nodes': 4}
    """
    given = parameters.get("interactions")
    memory = available_memory()
    if given not in (None, PAPER["interactions"]) or memory is None:
        return dict(parameters)
    needed = _pairs_bytes(parameters, n_concepts, n_classes)
    if needed <= memory:
        return dict(parameters)
    too_much = f"all pairs of {n_concepts:,} concepts would need {needed / 1e9:,.0f} GB"
    free = bool(parameters.get("free_weights"))
    if given is not None or free:
        way_out = "Free weights cannot be factored: use fewer concepts, or leave out free_weights."
        raise ChoqolateError(
            f"Expected interactions that fit into memory, but {too_much} and {memory / 1e9:,.0f} GB are available. "
            + (way_out if free else f"Use {advice}, which is linear in the concepts.")
        )
    warnings.warn(f"Training uses factored interactions because {too_much}.", ChoqolateWarning, stacklevel=stacklevel)
    return {**parameters, "interactions": "factored"}


def _pairs_bytes(parameters: Mapping[str, Any], n_concepts: int, n_classes: int) -> int:
    """Memory that training takes with all pairs; where a search chooses the nodes, with the paper's number of them."""
    n_nodes = parameters.get("n_nodes", PAPER["n_nodes"])
    n_nodes = PAPER["n_nodes"] if n_nodes == AUTO else n_nodes
    if not isinstance(n_nodes, int | None):
        return 0  # a mistake, which is named where parameters are checked
    architecture = Architecture(n_nodes, bipolar=bool(parameters.get("bipolar")))
    n_weights = sum(math.prod(shape) for shape in architecture.shapes(n_concepts, n_classes).values())
    return training_bytes(n_weights, DTYPES.get(parameters.get("dtype", "float32"), torch.float32))
