"""A fitted classifier as a document and arrays, as a model folder holds them; and back, checked."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch

from choqolate._util.checks import check_unique
from choqolate._util.json_files import CHECKSUM
from choqolate._util.text import listed
from choqolate.data.provenance import Provenance
from choqolate.errors import ChoqolateError
from choqolate.estimators.calibration import Calibration
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.estimators.model_checks import check_arrays, check_settings, class_labels
from choqolate.estimators.search_record import Search
from choqolate.estimators.training_reference import TrainingReference
from choqolate.explain.node_stability import NodeStability
from choqolate.network.edits import Edit, Recalibrate, edit_from_dict
from choqolate.network.fitted import FittedNetwork
from choqolate.network.scaling import MinMax

FORMAT = "choqolate-model"
FORMAT_VERSION = 6
FORMAT_WITH_CHECKSUM = 6
"""The first version whose document has a checksum."""

_ARRAYS = ("score_min", "score_max", "concept_means", "label_shares")
_RECORDS = {"calibration": ("confidences", "right"), "reference": ("centers", "directions", "spreads")}


def arrays_of_model(classifier: ChoqolateClassifier) -> dict[str, torch.Tensor]:
    """All arrays of a fitted classifier, by name."""
    network = classifier.network_
    tensors = {name: theta.contiguous() for name, theta in network.parameters.items()}
    for name, array in zip(_ARRAYS, _arrays(network), strict=True):
        tensors[name] = torch.from_numpy(array.copy())
    for name, values in classifier.history_.items():
        tensors[f"history.{name}"] = torch.from_numpy(np.ascontiguousarray(values))
    for record, names in _RECORDS.items():
        for name in names if getattr(classifier, f"{record}_") is not None else ():
            array = np.ascontiguousarray(getattr(getattr(classifier, f"{record}_"), name))
            tensors[f"{record}.{name}"] = torch.from_numpy(array.copy())
    return tensors


def document_of_model(classifier: ChoqolateClassifier) -> dict[str, Any]:
    """All of a fitted classifier that is no array, its edits included, with an empty checksum."""
    from choqolate import __version__

    parameters = classifier.get_params()
    if not isinstance(parameters["random_state"], (int, np.integer, type(None))):
        parameters["random_state"] = None
    if isinstance(parameters["class_weight"], dict):
        parameters["class_weight"] = [[_plain(key), float(value)] for key, value in parameters["class_weight"].items()]
    history = classifier.history_
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        CHECKSUM: "",
        "choqolate_version": __version__,
        "concepts": list(classifier.concepts_),
        "named_concepts": hasattr(classifier, "feature_names_in_"),
        "classes": [_plain(label) for label in classifier.classes_.tolist()],
        "class_dtype": classifier.classes_.dtype.str,
        "hyperparameters": {name: _plain(value) for name, value in parameters.items()},
        "edits": [edit.as_dict() for edit in classifier.edits_],
        "training": {
            "epochs": len(history["loss"]),
            "final_loss": float(history["loss"][-1]),
            "final_accuracy": float(history["accuracy"][-1]),
        },
        "search": None if classifier.search_ is None else classifier.search_.as_dict(),
        "stability": None if classifier.stability_ is None else classifier.stability_.as_dict(),
        "measured": classifier.measured_,
        "calibration": None if classifier.calibration_ is None else classifier.calibration_.as_dict(),
        "reference": None if classifier.reference_ is None else classifier.reference_.as_dict(),
        "provenance": _as_json(classifier.provenance_),
    }


def check_format(config: Any) -> None:
    """Find out whether a document is a model's, and of a version that is known.

    Raises:
        ChoqolateError: if not.
    """
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise ChoqolateError(f"expected config.json to say format {FORMAT!r}")
    version = config.get("format_version")
    if version not in range(1, FORMAT_VERSION + 1) or not isinstance(version, int) or isinstance(version, bool):
        raise ChoqolateError(
            f"it has format version {version!r}, this choqolate reads versions 1 to {FORMAT_VERSION}: "
            "upgrade choqolate, or save the model again with this version"
        )


def model_of(config: dict[str, Any], tensors: dict[str, torch.Tensor]) -> ChoqolateClassifier:
    """Rebuild a classifier from its document and arrays.

    Raises:
        ChoqolateError: if something in them cannot be.
    """
    known = ChoqolateClassifier().get_params().keys()
    classifier = ChoqolateClassifier(**check_settings(config["hyperparameters"], known))
    classifier._check_parameters()
    found = None if config.get("search") is None else Search.from_dict(config["search"])
    settings = classifier if found is None else classifier.with_settings(found.settings)
    settings._check_parameters()
    if settings.is_searching:
        raise ChoqolateError("it leaves settings to a search, but has no record of one")
    architecture = settings.architecture
    concepts, classes = _names(config["concepts"]), class_labels(config["classes"], config["class_dtype"])
    check_unique(architecture.input_names(concepts))
    classifier.n_features_in_ = len(concepts)
    if not isinstance(config["named_concepts"], bool):
        raise ChoqolateError(f"expected named_concepts to be true or false, found {config['named_concepts']!r}")
    if config["named_concepts"]:
        classifier.feature_names_in_ = np.array(concepts, dtype=object)
    parameter_shapes = architecture.shapes(len(concepts), len(classes))
    check_arrays(tensors, parameter_shapes, concepts, len(classes))
    classifier.history_ = {
        n.removeprefix("history."): t.numpy() for n, t in tensors.items() if n.startswith("history.")
    }
    network = FittedNetwork(
        architecture=architecture,
        concepts=tuple(concepts),
        classes=classes,
        scaling=MinMax(tensors["score_min"].numpy(), tensors["score_max"].numpy()),
        concept_means=tensors["concept_means"].numpy(),
        label_shares=tensors["label_shares"].numpy(),
        parameters={name: tensors[name] for name in parameter_shapes},
    )
    classifier.search_ = found
    stability = config.get("stability")
    classifier.stability_ = None if stability is None else NodeStability.from_dict(stability)
    if classifier.stability_ is not None and classifier.stability_.recurrence.shape != (1, network.n_nodes):
        raise ChoqolateError(f"expected the stability of {network.n_nodes} nodes")
    classifier.network_ = network.edited(*_edits(config, tensors))
    classifier.measured_ = config.get("measured")
    if not isinstance(classifier.measured_, dict | None):
        raise ChoqolateError(f"expected measured numbers by name, found {classifier.measured_!r}")
    classifier.calibration_, classifier.reference_ = _records(config, tensors, (len(classes), len(concepts)))
    classifier.provenance_ = _provenance(config.get("provenance", {}))  # models of earlier days have none
    return classifier


def _arrays(network: FittedNetwork) -> tuple[np.ndarray, ...]:
    return network.scaling.low, network.scaling.high, network.concept_means, network.label_shares


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, (str, int, float, bool, list, type(None))):
        raise ChoqolateError(f"expected labels and parameters that are text or numbers, got {value!r}")
    return value


def _records(
    config: dict[str, Any], tensors: dict[str, torch.Tensor], shape: tuple[int, int]
) -> tuple[Calibration | None, TrainingReference | None]:
    """How probabilities were calibrated and what training rows look like; versions before 4 do not know."""
    calibration = reference = None
    for record in _RECORDS:
        if not isinstance(config.get(record), dict | None):
            raise ChoqolateError(f"expected numbers of the {record} by name: incomplete or damaged")
    if config.get("calibration") is not None:
        arrays = _arrays_of("calibration", tensors)
        calibration = Calibration.from_parts(config["calibration"], **arrays)
    if config.get("reference") is not None:
        reference = TrainingReference.from_parts(config["reference"], _arrays_of("reference", tensors), shape)
    return calibration, reference


def _arrays_of(record: str, tensors: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    missing = [f"{record}.{name}" for name in _RECORDS[record] if f"{record}.{name}" not in tensors]
    if missing:
        raise ChoqolateError(f"the file of numbers has no {listed(missing)}")
    return {name: tensors[f"{record}.{name}"].numpy() for name in _RECORDS[record]}


def _edits(config: dict[str, Any], tensors: dict[str, torch.Tensor]) -> list[Edit]:
    """The history of a model; version 1 knew removals only, and the shift of a recalibration as an array."""
    if not isinstance(config["edits"], list):
        raise ChoqolateError(f"expected a list of edits, found {type(config['edits']).__name__}")
    if config["format_version"] > 1:
        return [edit_from_dict(entry) for entry in config["edits"]]
    edits: list[Edit] = [edit_from_dict({"edit": "remove"} | entry) for entry in config["edits"]]
    shift = tensors["class_shift"]
    return [*edits, Recalibrate(tuple(shift.tolist()))] if bool(shift.any()) else edits


def _names(concepts: Any) -> list[str]:
    if not isinstance(concepts, list) or not concepts or not set(map(type, concepts)) <= {str}:
        raise ChoqolateError("expected the concepts to be a list of names: incomplete or damaged")
    return concepts


def _provenance(said: Any) -> Provenance:
    if said is None:
        raise ChoqolateError("expected provenance to be a dictionary, found null")
    return Provenance.of(said)


def _as_json(provenance: Provenance) -> dict[str, Any]:
    said = provenance.as_dict()
    try:
        json.dumps(said, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ChoqolateError(f"expected provenance to hold what JSON can write: {error}") from error
    return said
