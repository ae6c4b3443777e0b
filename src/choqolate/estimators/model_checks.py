"""What the arrays and names of a saved model must be: a model may come from a stranger, who made it to mislead."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Set
from typing import Any

import numpy as np
import torch

from choqolate._util.checks import check_number, check_ranges, check_seed
from choqolate._util.text import listed
from choqolate.errors import ChoqolateError

_NUMBERS = (torch.float32, torch.float64)
_LARGEST = 1e30  # of a parameter; sums and products of such are still numbers
_CLASS_TYPE = re.compile(r"[<>|=]?(O|U[1-9]\d{0,4}|[iuf][1248]|b1)")
_NEAR = 1e-3  # what rounding may add to a share


def check_arrays(
    tensors: Mapping[str, torch.Tensor],
    parameters: Mapping[str, tuple[int, ...]],
    concepts: list[str],
    n_classes: int,
) -> None:
    """Every array is there, has the type and shape that the document implies, and holds what it can mean.

    Args:
        tensors: all arrays, by name.
        parameters: shapes of the parameters of the network.
        concepts: names of the concepts.
        n_classes: number of classes.

    Raises:
        ChoqolateError: that names the array.
    """
    expected = dict(parameters) | dict.fromkeys(("score_min", "score_max", "concept_means"), (len(concepts),))
    expected |= dict.fromkeys({"label_shares", "class_shift"} & (tensors.keys() | {"label_shares"}), (n_classes,))
    missing = sorted((expected.keys() | {"history.loss", "history.accuracy"}) - tensors.keys())
    if missing:
        raise ChoqolateError(f"the file of numbers has no {listed(missing)}")
    for name, shape in expected.items():
        if tuple(tensors[name].shape) != shape:
            raise ChoqolateError(f"expected {name} of shape {shape}, found {tuple(tensors[name].shape)}")
    largest = {name: _largest(name, tensor) for name, tensor in tensors.items()}
    large = [name for name in parameters if largest[name] > _LARGEST]
    if large:
        raise ChoqolateError(f"{large[0]} holds numbers that are too large to be weights")
    low, high = tensors["score_min"].double().numpy(), tensors["score_max"].double().numpy()
    if (low > high).any():
        name = concepts[int(np.argmax(low > high))]
        raise ChoqolateError(f"expected a range of scores for each concept, that of {name!r} ends before it begins")
    check_ranges(low, high, concepts)
    _check_shares("concept_means", tensors["concept_means"])
    _check_shares("label_shares", tensors["label_shares"])
    total = float(tensors["label_shares"].sum())
    if abs(total - 1) > _NEAR:
        raise ChoqolateError(f"expected label_shares that sum to 1, found a sum of {total:g}")
    _check_history({name: tensor for name, tensor in tensors.items() if name.startswith("history.")})


def _largest(name: str, tensor: torch.Tensor) -> float:
    """The largest magnitude in an array, which has the right type and is finite."""
    wanted = (torch.bool,) if name == "calibration.right" else _NUMBERS
    if tensor.dtype not in wanted:
        kinds = " or ".join(str(kind).removeprefix("torch.") for kind in wanted)
        raise ChoqolateError(f"expected {name} as {kinds}, found {str(tensor.dtype).removeprefix('torch.')}")
    ends = [abs(float(end)) for end in tensor.aminmax()] if tensor.numel() else [0.0]  # NaN if one number is
    if not all(map(math.isfinite, ends)):
        raise ChoqolateError(f"{name} holds numbers that are not finite")
    if tensor.ndim == 0:
        raise ChoqolateError(f"expected {name} to be a list of numbers, found a single one")
    return max(ends)


def _check_shares(name: str, tensor: torch.Tensor) -> None:
    if bool((tensor < -_NEAR).any()) or bool((tensor > 1 + _NEAR).any()):
        raise ChoqolateError(f"expected {name} from 0 to 1, found {float(tensor.min()):g} to {float(tensor.max()):g}")


def _check_history(history: Mapping[str, torch.Tensor]) -> None:
    epochs = len(history["history.loss"])
    for name, tensor in history.items():
        if len(tensor) != epochs or not epochs or tensor.ndim != (3 if name.endswith("attributions") else 1):
            raise ChoqolateError(f"expected {name} for each of {epochs} epochs, found {tuple(tensor.shape)}")
    _check_shares("history.accuracy", history["history.accuracy"])


def check_settings(parameters: Any, known: Set[str]) -> dict[str, Any]:
    """The settings of a classifier from a document, as far as the classifier itself does not check them.

    Args:
        parameters: what the document has.
        known: names of all settings.

    Raises:
        ChoqolateError: if some are missing or unknown, or of a type that no setting has.
    """
    if not isinstance(parameters, dict):
        raise ChoqolateError("expected hyperparameters by name: incomplete or damaged")
    others = sorted(parameters.keys() - known) or sorted({"class_weight"} - parameters.keys())
    if others:
        raise ChoqolateError(f"hyperparameters are incomplete or damaged, see {listed(others)}")
    found = dict(parameters)
    weights = found["class_weight"]
    if isinstance(weights, list):
        if not all(isinstance(pair, list) and len(pair) == 2 and _is_label(pair[0]) for pair in weights):
            raise ChoqolateError("expected class_weight as pairs of a class and a number")
        found["class_weight"] = weights = dict(weights)
    if isinstance(weights, dict):
        for label, weight in weights.items():
            check_number(f"the weight of class {label!r}", weight, minimum=0)
    elif weights not in (None, "balanced"):
        raise ChoqolateError(f"expected class_weight to be 'balanced' or weights by class, found {weights!r}")
    for name in ("verbose", "track", "free_weights"):
        if not isinstance(found.get(name, False), int):  # truths among them
            raise ChoqolateError(f"expected {name} to be true or false, found {found[name]!r}")
    if not isinstance(found.get("device", ""), str):
        raise ChoqolateError(f"expected device to be a name, found {found['device']!r}")
    if found.get("random_state") is not None:
        check_seed(found["random_state"])
    return found


def class_labels(labels: Any, dtype: Any) -> np.ndarray:
    """The classes of a document, in the type that they had; none of them changes by it.

    Raises:
        ChoqolateError: if they are not at least two different texts or numbers.
    """
    fine = isinstance(labels, list) and len(set(map(str, labels))) == len(labels) > 1 and all(map(_is_label, labels))
    fine = fine and len({isinstance(label, str) for label in labels}) == 1
    if fine and isinstance(dtype, str) and _CLASS_TYPE.fullmatch(dtype):
        try:
            found = np.array(labels, dtype=dtype)
        except (TypeError, ValueError, OverflowError):
            found = np.empty(0)
        if found.tolist() == labels and len({type(label) for label in (*found.tolist(), *labels)}) <= 2:
            return found
    shown = repr(labels)
    shown = shown if len(shown) <= 100 else f"{shown[:97]}..."
    raise ChoqolateError(f"expected at least two text or number classes, found {shown} of type {str(dtype)[:40]!r}")


def _is_label(value: Any) -> bool:
    return isinstance(value, str | int | float)
