"""A fitted classifier as one ONNX file, to be run without choqolate, scikit-learn or PyTorch."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from choqolate._util.files import check_output, write_bytes
from choqolate.errors import ChoqolateError
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.explain.model_protocols import check_choquet_model

_DESCRIPTION = """A CHOQOLATE classifier: Choquet integrals from concept scores to nodes to classes.

The columns of "scores" follow the concepts in the metadata, those of the outputs the nodes and the classes. Scaling is
inside. The predicted class is the one with the highest probability. A row with a score that is not finite gives NaN.
Metadata: concepts, classes, nodes, edits and provenance are JSON; temperature, identity, choqolate_version are text."""


def export_onnx(classifier: ChoqolateClassifier, path: str | PathLike[str]) -> None:
    """Write a fitted classifier, with all its edits in force, to an ONNX file.

    The file replaces an older one of the same name. Its graph takes ``scores``, raw concept scores ``(batch, M)`` in
    float32, and gives ``node_values (batch, N)``, ``class_scores (batch, C)`` and ``probabilities (batch, C)``. Scaling
    is inside. It computes in float64, as the classifier does, and uses operator set 17, so that ONNX Runtime 1.12 and
    later can run it. The classifier refuses scores that are not finite; a graph cannot, so such a row gives NaN in all
    outputs.

    The metadata hold what a file of numbers does not say: ``concepts``, ``classes``, ``nodes`` (their names),
    ``edits`` (those in force) and ``provenance`` as JSON, ``temperature`` (of the probabilities), the ``identity`` of
    the trained network and ``choqolate_version`` as text.

    Args:
        classifier: fitted.
        path: of the file, which ends in ``.onnx``.

    Raises:
        ChoqolateError: if the package ``onnx`` is missing, the file cannot be written, or the model does not fit into
            an ONNX file (2 GiB).

    >>> import tempfile
    >>> import onnx
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> file = Path(tempfile.mkdtemp()) / "wine.onnx"
    >>> export_onnx(ChoqolateClassifier(n_nodes=4, epochs=5).fit(X, y), file)
    >>> [output.name for output in onnx.load(file).graph.output]
    ['node_values', 'class_scores', 'probabilities']
    """
    check_choquet_model(classifier, "to export")
    target = Path(path)
    check_onnx_target(target)
    from onnx.helper import set_model_props

    from choqolate import __version__
    from choqolate.network.onnx_graph import build_model

    metadata = _metadata(classifier)
    model = build_model(classifier.network_, classifier.probability_temperature_)
    model.producer_name, model.producer_version, model.doc_string = "choqolate", __version__, _DESCRIPTION
    set_model_props(model, metadata)
    write_bytes(target, model.SerializeToString())


def check_onnx_target(path: Path) -> None:
    """Find out before the work that a model cannot be exported to a file, or not at all."""
    if path.suffix.lower() != ".onnx":
        raise ChoqolateError(f"Expected a file that ends in .onnx, got {path}. Choose another name.")
    check_output(path)
    try:
        import onnx  # noqa: F401
    except Exception as error:  # its own imports may fail in many ways
        raise ChoqolateError(
            f"The export needs the package onnx, which cannot be imported ({error}). Install it with "
            "pip install 'choqolate[onnx]'."
        ) from None


def _metadata(classifier: ChoqolateClassifier) -> dict[str, str]:
    """What the numbers of a network do not say, as text."""
    from choqolate import __version__

    network = classifier.network_
    return {
        "concepts": _as_json("concepts", network.concepts),
        "classes": _as_json("class labels", network.classes.tolist()),
        "nodes": _as_json("names of nodes", classifier.node_names_),
        "edits": _as_json("edits", [edit.as_dict() for edit in network.edits_in_force]),
        "provenance": _as_json("provenance", classifier.provenance_.as_dict()),
        "temperature": repr(classifier.probability_temperature_),
        "identity": network.identity,
        "choqolate_version": __version__,
    }


def _as_json(what: str, value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ChoqolateError(f"Expected {what} that can be written as JSON in UTF-8: {error}.") from None
    return text


def _plain(value: Any) -> Any:
    """The Python value of a numpy scalar, which labels of mixed types may hold."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is neither text nor a number")
