"""Edits as a file of their own, to be applied to another model: by names of concepts and by what nodes stand for.

A node has no name that another training would give it again. So an edit that names nodes is written with the leading
concepts of each, and applied to the nodes of the other model that stand for the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from choqolate._util.files import check_output, write_bytes
from choqolate.data.rows import class_index
from choqolate.errors import ChoqolateError
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.network.edits import Edit, Recalibrate, Remove, Reweight, edit_from_dict
from choqolate.network.fitted import FittedNetwork

FORMAT = "choqolate-edits"
FORMAT_VERSION = 1
LEADING = 50  # concepts that a node is known by
ALIKE = 0.8  # share of these concepts' attributions that a node must have in common to be the same


def save_edits(classifier: ChoqolateClassifier, path: str | PathLike[str]) -> None:
    """Write the edits of a classifier to a JSON file.

    Args:
        classifier: fitted and edited.
        path: of the file, such as ``edits.json``.

    Raises:
        ChoqolateError: if the classifier has no edits, or the file cannot be written.
    """
    from choqolate import __version__

    check_is_fitted(classifier)
    target, network = Path(path), classifier.network_
    if not network.edits:
        raise ChoqolateError("Expected a model with edits to save, this one has none. Edit it first.")
    check_output(target)
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "choqolate_version": __version__,
        "model": {
            "identity": network.identity,
            "concepts": len(network.concepts),
            "nodes": network.n_nodes,
            "classes": list(class_index(network.classes)),
        },
        "edits": [_written(edit, network) for edit in network.edits],
    }
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    write_bytes(target, text.encode() + b"\n")


def apply_edits(
    classifier: ChoqolateClassifier, path: str | PathLike[str], *, recalibrate: Any = None
) -> ChoqolateClassifier:
    """A copy of a classifier with the edits of a file; the classifier is untouched.

    Concepts are found by name. Nodes are found by the attributions that they had in the model of the file; one that
    has no counterpart is an error. A recalibration belongs to the model that it was computed for: on another one it is
    computed again, on ``recalibrate``.

    Args:
        classifier: fitted.
        path: a file that :func:`save_edits` wrote.
        recalibrate: training scores ``(n, M)``, for recalibrations of another model.

    Raises:
        ChoqolateError: if the file is no file of edits, or something in it does not fit this model. Nothing is applied
            then.
    """
    check_is_fitted(classifier)
    file = Path(path)
    document = _read(file)
    edited = classifier
    for number, entry in enumerate(document["edits"], start=1):
        try:
            edited = _apply(edited, entry, document["model"], recalibrate)
        except ChoqolateError as error:
            raise ChoqolateError(f"Edit {number} of {file} does not fit this model: {error}") from error
    return edited


def _written(edit: Edit, network: FittedNetwork) -> dict[str, Any]:
    entry = edit.as_dict()
    if isinstance(edit, Remove | Reweight) and edit.nodes is not None:
        trained = network.as_trained().node_attributions
        entry["nodes"] = [{"node": n, "leading": _leading(trained[n], network.input_names)} for n in edit.nodes]
    return entry


def _leading(values: np.ndarray, names: tuple[str, ...]) -> dict[str, float]:
    order = np.argsort(-values, kind="stable")[:LEADING]
    return {names[j]: float(values[j]) for j in order if values[j] > 0}


def _read(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise ChoqolateError(f"Expected a file of edits but {file} does not exist. Check the path.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ChoqolateError(f"{file} cannot be read ({error}). Save the edits again.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ChoqolateError(f"Expected a file of edits, but {file} does not say format {FORMAT!r}. Check the path.")
    version = document.get("format_version")
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise ChoqolateError(
            f"{file} has format version {version!r}, and this choqolate reads version {FORMAT_VERSION}. Upgrade "
            "choqolate, or save the edits again with this version."
        )
    if not isinstance(document.get("edits"), list) or not isinstance(document.get("model"), dict):
        raise ChoqolateError(f"{file} is incomplete or damaged. Save the edits again.")
    return document


def _apply(
    classifier: ChoqolateClassifier, entry: Any, model: Mapping[str, Any], recalibrate: Any
) -> ChoqolateClassifier:
    network = classifier.network_
    named = isinstance(entry, dict) and isinstance(entry.get("nodes"), list)
    edit = edit_from_dict({**entry, "nodes": _find_nodes(entry["nodes"], network)} if named else entry)
    if isinstance(edit, Recalibrate) and model.get("identity") != network.identity:
        if recalibrate is None:
            raise ChoqolateError(
                "it is a recalibration of another model, whose shift means nothing here. Pass training scores to "
                "compute it again (recalibrate)."
            )
        again = classifier.recalibrate(recalibrate).edits_[-1]
        edit = replace(again, note=edit.note)
    return classifier.with_network(network.edited(edit))


def _find_nodes(entries: list[Any], network: FittedNetwork) -> list[int]:
    """The nodes of a network that stand for the same as those that a file describes."""
    attributions = network.as_trained().node_attributions
    index = {name: j for j, name in enumerate(network.input_names)}
    found: dict[int, str] = {}
    for entry in entries:
        leading = entry.get("leading") if isinstance(entry, dict) else None
        if not isinstance(leading, dict) or not leading or not isinstance(entry.get("node"), int):
            raise ChoqolateError("a node is not described by its leading concepts: the file is damaged.")
        known = {name: share for name, share in leading.items() if name in index and isinstance(share, float | int)}
        columns, shares = [index[name] for name in known], np.array(list(known.values()))
        common = np.minimum(attributions[:, columns], shares).sum(1) / sum(leading.values())
        best = max(range(len(common)), key=lambda n: (round(common[n], 9), n == entry["node"]))
        described = f"node {entry['node']} ({', '.join(list(leading)[:3])})"
        if common[best] < ALIKE:
            raise ChoqolateError(
                f"it edits {described}, and no node of this model stands for the same concepts: the nearest, node "
                f"{best}, has {common[best]:.0%} in common."
            )
        if best in found:
            raise ChoqolateError(f"it edits {found[best]} and {described}, which are one node of this model, {best}.")
        found[best] = described
    return list(found)
