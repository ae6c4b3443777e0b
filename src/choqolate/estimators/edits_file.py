"""Edits as a file of their own, to be applied to another model: concepts by name, nodes by their leading concepts.

A node has no name that another training would give it again. So an edit that names nodes is written with the leading
concepts of each, and applied to the nodes of the other model that stand for the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from choqolate._util.files import check_output, write_bytes
from choqolate._util.json_files import CHECKSUM, json_bytes, read_json
from choqolate._util.text import listed
from choqolate.data.rows import class_index
from choqolate.errors import ChoqolateError
from choqolate.estimators.calibration import model_state
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.explain.model_protocols import check_choquet_model
from choqolate.network.edits import Edit, Recalibrate, Remove, Reweight, edit_from_dict, edits_in_force
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
    target = Path(path)
    document = edits_document(classifier)
    if not document["edits"]:
        raise ChoqolateError("Expected a model with edits to save, this one has none. Edit it first.")
    check_output(target)
    try:
        content = json_bytes({CHECKSUM: ""} | document, indent=2) + b"\n"
    except UnicodeEncodeError as error:
        raise ChoqolateError(f"Expected names and notes that can be written as UTF-8: {error}.") from None
    write_bytes(target, content)


def edits_document(classifier: ChoqolateClassifier) -> dict[str, Any]:
    """What a file of edits holds, such as JSON can write: the edits of a classifier, and which model they were made to.

    Raises:
        ChoqolateError: if it is no fitted :class:`ChoqolateClassifier`.
    """
    from choqolate import __version__

    check_choquet_model(classifier, "to save edits")
    network = classifier.network_
    return {
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


def apply_edits(
    classifier: ChoqolateClassifier, path: str | PathLike[str], *, recalibrate: Any = None
) -> ChoqolateClassifier:
    """A copy of a classifier with the edits of a file; the classifier is untouched.

    Concepts are found by name. Nodes are found by the attributions that they had in the model of the file; one that
    has no counterpart is an error. A recalibration belongs to the state of the model that it was computed for: on
    another one it is computed again, on ``recalibrate``. Edits go on top of those that the classifier has. Restorations
    in the file concern only edits in the file, unless it says that it was made on the very state of this classifier, as
    files of the studio do.

    Args:
        classifier: fitted.
        path: a file that :func:`save_edits` wrote.
        recalibrate: training scores ``(n, M)``, for the recalibrations of the file; if it has none, the classifier is
            recalibrated at the end.

    Raises:
        ChoqolateError: if the file is no file of edits, or something in it does not fit this model. Nothing is applied
            then.
    """
    file = Path(path)
    return apply_document(classifier, _read(file), recalibrate=recalibrate, source=str(file))


def apply_document(
    classifier: ChoqolateClassifier, document: Any, *, recalibrate: Any = None, source: str = "the document"
) -> ChoqolateClassifier:
    """Apply edits as a file holds them, see :func:`apply_edits` and :func:`edits_document`.

    Args:
        classifier: fitted; it is untouched.
        document: what JSON made of a file of edits.
        recalibrate: as in :func:`apply_edits`.
        source: what to call the edits in messages.

    Raises:
        ChoqolateError: as :func:`apply_edits`.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> clf = ChoqolateClassifier(n_nodes=4, epochs=10).fit(X, y)
    >>> document = edits_document(clf.remove_concepts("proline"))
    >>> [str(edit) for edit in apply_document(clf, document).edits_]
    ["removed 'proline' (rescale)"]
    """
    check_is_fitted(classifier)
    _check_document(document, source)
    network = classifier.network_
    same_state = _is_made_on(document["model"], network)
    edits = [_fitting(entry, number, source, network) for number, entry in enumerate(document["edits"], start=1)]
    edited = classifier
    for number, edit in edits if same_state or not network.is_edited else _in_force(edits):
        try:
            edited = _apply(edited, edit, same_state, recalibrate)
        except ChoqolateError as error:
            raise _misfit(number, source, error) from error
    if recalibrate is not None and not any(isinstance(edit, Recalibrate) for _, edit in edits):
        edited = edited.recalibrate(recalibrate)
    return edited


def _is_made_on(made_on: dict[str, Any], network: FittedNetwork) -> bool:
    """Whether edits were made on a network in the state that it is in; files that do not say start from training."""
    if made_on.get("identity") != network.identity:
        return False
    return made_on["state"] == model_state(network) if "state" in made_on else not network.is_edited


def _fitting(entry: Any, number: int, source: str, network: FittedNetwork) -> tuple[int, Edit]:
    """An edit of a file, with its nodes as this network numbers them."""
    try:
        named = isinstance(entry, dict) and isinstance(entry.get("nodes"), list)
        return number, edit_from_dict({**entry, "nodes": _find_nodes(entry["nodes"], network)} if named else entry)
    except ChoqolateError as error:
        raise _misfit(number, source, error) from error


def _misfit(number: int, source: str, error: ChoqolateError) -> ChoqolateError:
    return ChoqolateError(f"Edit {number} of {source} does not fit this model: {error}")


def _in_force(edits: list[tuple[int, Edit]]) -> list[tuple[int, Edit]]:
    """The edits of a file after its own restorations; numbers are those of the last edit, which all rest on."""
    return [(edits[-1][0], edit) for edit in edits_in_force(edit for _, edit in edits)]


def _written(edit: Edit, network: FittedNetwork) -> dict[str, Any]:
    entry = edit.as_dict()
    if isinstance(edit, Remove | Reweight) and edit.nodes is not None:
        trained = network.as_trained().node_attributions
        entry["nodes"] = [{"node": n, "leading": leading_concepts(trained[n], network.input_names)} for n in edit.nodes]
        if network.one_layer:  # the nodes are the classes, and these have names
            labels = list(class_index(network.classes))
            entry["nodes"] = [described | {"class": labels[described["node"]]} for described in entry["nodes"]]
    return entry


def leading_concepts(values: np.ndarray, names: Sequence[str]) -> dict[str, float]:
    """Name the concepts that a node is known by, with their shares, the largest first.

    Args:
        values: shares of the inputs in the node as it was trained ``(M,)``.
        names: of the inputs.

    >>> leading_concepts(np.array([0.25, 0.0, 0.75]), ["sea", "lake", "crest"])
    {'crest': 0.75, 'sea': 0.25}
    """
    order = np.argsort(-values, kind="stable")[:LEADING]
    return {names[j]: float(values[j]) for j in order if values[j] > 0}


def _read(file: Path) -> Any:
    try:
        return read_json(file, "a file of edits", "create it again with choqolate.save_edits")[0]
    except FileNotFoundError:
        raise ChoqolateError(f"Expected a file of edits but {file} does not exist. Check the path.") from None
    except IsADirectoryError:
        raise ChoqolateError(
            f"Expected a file of edits but {file} is a folder. Create one with choqolate.save_edits."
        ) from None
    except OSError as error:
        raise ChoqolateError(f"{file} cannot be read: {error.strerror}.") from None


def _check_document(document: Any, source: str) -> None:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ChoqolateError(f"{source} is not a file of edits. Create one with choqolate.save_edits.")
    version = document.get("format_version")
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise ChoqolateError(
            f"{source} has format version {version!r}, and this choqolate reads version {FORMAT_VERSION}. Upgrade "
            "choqolate, or save the edits again with this version."
        )
    if (
        not document.get("edits")
        or not isinstance(document["edits"], list)
        or not isinstance(document.get("model"), dict)
    ):
        raise ChoqolateError(f"{source} is incomplete or damaged. Save the edits again.")


def _apply(classifier: ChoqolateClassifier, edit: Edit, same_state: bool, recalibrate: Any) -> ChoqolateClassifier:
    if isinstance(edit, Recalibrate) and (recalibrate is not None or not same_state):
        if recalibrate is None:
            raise ChoqolateError(
                "It is a recalibration of another model, or of another state of this one, whose shift means nothing "
                "here. Pass training scores to compute it again (recalibrate=..., --recalibrate SCORES)."
            )
        edit = replace(classifier.recalibrate(recalibrate).edits_[-1], note=edit.note)
    edited = classifier.with_network(classifier.network_.edited(edit))
    if isinstance(edit, Remove | Reweight):
        edited.warn_of_small_remainders(stacklevel=6)  # the caller of ChoqolateClassifier.apply_edits
    return edited


def _find_nodes(entries: list[Any], network: FittedNetwork) -> list[int]:
    """The nodes of a network that stand for the same as those that a file describes."""
    found: dict[int, str] = {}
    for entry in entries:
        leading: Any = entry.get("leading") if isinstance(entry, dict) else None
        if not _is_described(leading) or not isinstance(entry.get("node"), int):
            raise ChoqolateError("A node is not described by its leading concepts: the file is damaged.")
        described = f"node {entry['node']} ({', '.join(list(leading)[:3])})"
        find = _find_class if network.one_layer else _find_node
        node = find(entry, described, network)
        if node in found:
            raise ChoqolateError(f"It edits {found[node]} and {described}, which are one node of this model, {node}.")
        found[node] = described
    return list(found)


def _is_described(leading: Any) -> bool:
    """Whether a node is described by names and shares above zero."""
    if not isinstance(leading, dict) or not leading:
        return False
    return all(
        isinstance(share, float | int) and not isinstance(share, bool) and 0 < share <= 1 + 1e-9
        for share in leading.values()
    )


def _find_class(entry: dict[str, Any], described: str, network: FittedNetwork) -> int:
    index, label = class_index(network.classes), entry.get("class")
    if label not in index:
        raise ChoqolateError(f"It edits the class {label!r}, and this model has {listed(list(index))}.")
    return index[label]


def _find_node(entry: dict[str, Any], described: str, network: FittedNetwork) -> int:
    attributions, leading = network.as_trained().node_attributions, entry["leading"]
    index = {name: j for j, name in enumerate(network.input_names)}
    known = {name: share for name, share in leading.items() if name in index}
    columns, shares = [index[name] for name in known], np.array(list(known.values()))
    common = np.minimum(attributions[:, columns], shares).sum(1) / sum(leading.values())
    best = max(range(len(common)), key=lambda n: (round(common[n], 9), n == entry["node"]))
    if not common[best] >= ALIKE:
        raise ChoqolateError(
            f"It edits {described}, and no node of this model matches it: the closest, node {best}, shares "
            f"{common[best]:.0%} ({ALIKE:.0%} is required). Make this edit by hand."
        )
    return best
