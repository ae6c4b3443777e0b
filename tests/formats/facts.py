"""What a file says when it is loaded, as JSON can hold it: compared with what it said when it was written."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import choqolate as cq
from choqolate.experiments.engine.results import Results

RECORDS = ("search", "stability", "measured", "calibration", "reference")
FILES = {"models": "model", "scores": "table", "embeddings": "embeddings", "results": "results", "edits": "edits"}


def facts_of_model(model: cq.ChoqolateClassifier, rows: list[list[float]]) -> dict[str, Any]:
    """Predictions on rows of raw scores, attributions, edits, and every record that is kept beside the network."""
    X = np.array(rows)
    X = pd.DataFrame(X, columns=model.concepts_) if hasattr(model, "feature_names_in_") else X
    records = {name: getattr(model, f"{name}_") for name in RECORDS}
    known = {name: record for name, record in records.items() if record is not None}
    facts = {
        "concepts": list(model.concepts_),
        "classes": model.classes_.tolist(),
        "class_scores": model.class_scores(X).tolist(),
        "proba": model.predict_proba(X).tolist(),
        "predicted": [str(label) for label in model.predict(X)],
        "node_attributions": model.node_attributions_.tolist(),
        "class_shift": model.class_shift_.tolist(),
        "restored": model.restore().class_scores(X).tolist(),
        "identity": model.network_.identity,
        "edits": [edit.as_dict() for edit in model.edits_],
        "provenance": model.provenance_.as_dict(),
        "loss": model.history_["loss"].tolist(),
        "settings": {name: value for name, value in model.get_params().items() if name != "random_state"},
        "records": {name: record if name == "measured" else record.as_dict() for name, record in known.items()},
    }
    if model.calibration_ is not None:
        facts["confidences"] = model.calibration_.confidences.tolist()
    if model.reference_ is not None:
        facts["distances"] = model.reference_.distances(model.scale(X)).tolist()
    return facts


def facts_of_table(table: cq.ConceptScores) -> dict[str, Any]:
    """All scores and all that is known of their rows."""
    columns = {name: getattr(table, name) for name in ("labels", "split", "groups", "paths")}
    return {
        "concepts": list(table.concepts),
        "scores": table.scores.tolist(),
        "dtype": str(table.scores.dtype),
        **{name: None if column is None else column.tolist() for name, column in columns.items()},
        "classes": list(table.classes),
        "spurious": list(table.spurious),
        "provenance": table.provenance.as_dict(),
        "fingerprint": table.fingerprint,
    }


def facts_of_embeddings(folder: Path, words: list[str]) -> dict[str, Any]:
    """Rows and vectors, which file had which content, and the scores of words whose texts are encoded already."""
    embeddings = cq.Embeddings.load(folder)
    _, seen = embeddings.folder.contents()
    return {
        "backbone": embeddings.folder.backbone.as_dict(),
        "digests": [digest.hex() for digest in embeddings.digests],
        "vectors": embeddings.vectors().tolist(),
        "files": {Path(path).name: digest.hex() for (path, _), digest in seen.items()},
        "table": facts_of_table(cq.score(embeddings, words)),
    }


def facts_of_results(file: Path) -> dict[str, Any]:
    """All runs, and what was skipped."""
    runs, damaged = Results(file).read()
    names = ("key", "config", "seed", "seconds", "shared", "versions", "chosen")
    metrics = [{name: None if math.isnan(value) else value for name, value in run.metrics.items()} for run in runs]
    said = [{name: getattr(run, name) for name in names} for run in runs]
    return {
        "runs": [one | {"metrics": own} for one, own in zip(said, metrics, strict=True)],
        "damaged": [list(one) for one in damaged],
    }
