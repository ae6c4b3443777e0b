"""Edits that come from the page, applied by Python: the authority on what they do."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate._util.files import check_parent, write_new_folder
from choqolate.analysis.evaluation import evaluate
from choqolate.errors import ChoqolateError
from choqolate.estimators.calibration import model_state
from choqolate.estimators.edits_file import apply_document
from choqolate.estimators.table_training import training_rows
from choqolate.network.fitted import SMALL_REMAINDER
from choqolate.report.model_page import write_report

if TYPE_CHECKING:
    from choqolate.estimators.classifier import ChoqolateClassifier
    from choqolate.studio.bundle import Bundle


class AnotherModelError(ChoqolateError):
    """Edits that were made to another model than the one that is served."""


@dataclass(frozen=True, eq=False)
class Workshop:
    """Where the edits of the page are made: on the model as it was opened, judged on the rows of its table.

    Attributes:
        bundle: what the page was given.
    """

    bundle: Bundle

    def edited(self, document: Mapping[str, Any], *, recalibrate: bool = True) -> ChoqolateClassifier:
        """Apply a document of edits, as :func:`~choqolate.estimators.edits_file.apply_document` takes it.

        Args:
            document: of this model; it may be without edits.
            recalibrate: whether recalibrations are computed again on the table's training rows.

        Raises:
            ChoqolateError: if the edits are of another model or do not fit this one.
        """
        opened, made_on = self.bundle.rows.model, document["model"]
        state = model_state(opened.network_)
        if made_on["identity"] != opened.network_.identity or made_on.get("state", state) != state:
            raise AnotherModelError(
                "Expected edits of the model that is open here, but these were made to another one. Reload the page."
            )
        if not document["edits"]:
            return opened
        again = recalibrate and any(entry["edit"] == "recalibrate" for entry in document["edits"])
        rows = training_rows(opened, self.bundle.rows.table) if again else None
        return apply_document(opened, document, recalibrate=rows, source="the history")

    def measure(self, model: ChoqolateClassifier, role: int) -> dict[str, Any] | None:
        """How good a model is on all labeled rows of a role; ``None`` if there are none.

        Args:
            model: this one, edited or not.
            role: ``AUDIT`` or ``COVERED``, see :mod:`choqolate.studio.row_choice`.
        """
        choice = self.bundle.rows.choice
        rows = np.flatnonzero((choice.role == role) & (choice.label >= 0))
        if not len(rows):
            return None
        result = evaluate(model, self.bundle.rows.table.take(rows), "all", concept_counts=())
        worst = result.worst_measurable_group
        return {
            "all": _hits(result.overall.hits, result.overall.rows),
            "classes": [_hits(share.hits, share.rows, name) for name, share in result.by_class.items()],
            "groups": [_hits(share.hits, share.rows, name) for name, share in result.by_group.items()],
            "worst_group": None if worst is None else _hits(worst[1].hits, worst[1].rows, worst[0]),
        }

    def values(self, model: ChoqolateClassifier, places: Sequence[int]) -> dict[str, list[Any]]:
        """Node values, class scores and predicted classes of some rows, by their places in the order of the bundle.

        Raises:
            ChoqolateError: if there is no such row.
        """
        rows = self.bundle.rows
        if any(not 0 <= place < len(rows) for place in places):
            raise ChoqolateError(f"Expected rows from 0 to {len(rows) - 1}, but got {max(places)}.")
        if not places:
            return {"node_values": [], "scores": [], "predicted": []}
        table = rows.table.take(rows.choice.order[list(places)])
        scores = model.class_scores(table)
        return {
            "node_values": model.transform(table).tolist(),
            "scores": scores.tolist(),
            "predicted": scores.argmax(axis=1).tolist(),
        }


def _hits(hits: int, rows: int, name: str | None = None) -> dict[str, Any]:
    return {"hits": hits, "rows": rows, "accuracy": hits / rows} | ({} if name is None else {"name": name})


def check_reviewed(document: Mapping[str, Any]) -> None:
    """Check that there are edits, and that somebody has reviewed each of them.

    Raises:
        ChoqolateError: if not; the message says which.
    """
    if not document["edits"]:
        raise ChoqolateError("Expected edits to save, but there are none. Edit the model first.")
    reviewed = [(entry.get("note") or {}).get("reviewed") is True for entry in document["edits"]]
    if not all(reviewed):
        count = f"{reviewed.count(False):,} of {len(reviewed):,}"
        raise ChoqolateError(
            f"Expected every edit to be reviewed before saving, but {count} are not. The first is edit "
            f"{reviewed.index(False) + 1}. Review them in the history."
        )


def remainder_warnings(model: ChoqolateClassifier) -> list[str]:
    """Say which nodes the edits in force leave with little of their trained weight."""
    names, shares = model.node_names_, model.network_.retained.tolist()
    return [
        f"Node {n} ({names[n]}) keeps only {share:.2%} of its trained weight."
        for n, share in enumerate(shares)
        if share < SMALL_REMAINDER
    ]


def edited_folder(name: str) -> Path:
    """Where an edited model is saved by default: beside the model, whose name may be that of the working directory.

    >>> edited_folder("models/birds/").as_posix()
    'models/birds-edited'
    >>> edited_folder(".") == Path.cwd().with_name(f"{Path.cwd().name}-edited")
    True
    """
    model = Path(name) if Path(name).name not in ("", "..") else Path(name).resolve()
    return model.with_name(f"{model.name}-edited")


def save_edited(model: ChoqolateClassifier, target: Path) -> Path:
    """Save an edited model to a new folder: the target, or the next free name after it. Nothing is overwritten.

    Returns:
        The folder.

    Raises:
        ChoqolateError: if it cannot be written.
    """
    check_parent(target)
    try:
        return write_new_folder(target, model.save)
    except OSError as error:
        said = error.strerror or error
        raise ChoqolateError(f"Expected to save the model, but {target} cannot be written: {said}.") from error


def zip_edited(model: ChoqolateClassifier, name: str) -> bytes:
    """Pack an edited model into a ZIP archive, in a folder of the given name."""
    content = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        model.save(folder)
        for file in sorted(Path(folder).iterdir()):
            archive.write(file, f"{name}/{file.name}")
    return content.getvalue()


def report_edited(model: ChoqolateClassifier, bundle: Bundle, name: str) -> bytes:
    """The report of an edited model as an HTML page, see :func:`choqolate.write_report`.

    Args:
        model: edited or not.
        bundle: whose table it is measured on.
        name: of the model, in the commands that the page proposes.
    """
    scores = bundle.document["names"]["scores"]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        title = f"{bundle.document['title']}, edited" if model.network_.is_edited else bundle.document["title"]
        write_report(model, bundle.rows.table, page, title=title, names=(name, scores))
        return page.read_bytes()
