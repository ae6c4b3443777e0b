"""What the studio's server can do, in Python: everything but the talking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from choqolate.concepts.new_images import find_images
from choqolate.report.image_cards import shown_path
from choqolate.studio.edited_model import (
    Workshop,
    check_reviewed,
    remainder_warnings,
    report_edited,
    save_edited,
    zip_edited,
)
from choqolate.studio.row_choice import AUDIT, COVERED
from choqolate.studio.thumbnails import cached_thumbnail

if TYPE_CHECKING:
    from choqolate.estimators.classifier import ChoqolateClassifier
    from choqolate.studio.bundle import Bundle
    from choqolate.studio.dropped_image import DroppedImages


@dataclass(frozen=True, eq=False)
class StudioService:
    """What the server answers with.

    Attributes:
        bundle: the model and rows of a table.
        blob: the bundle as the page gets it.
        workshop: where edits are applied.
        save_to: folder for edited models.
        dropped: scores images; ``None`` if the model cannot.
    """

    bundle: Bundle
    blob: bytes
    workshop: Workshop
    save_to: Path
    dropped: DroppedImages | None

    def thumbnail(self, number: int) -> bytes | None:
        """A small copy of the image of a row of the table, ``None`` if there is none."""
        table = self.bundle.rows.table
        if table.paths is None or number >= len(table):
            return None
        return cached_thumbnail(find_images(table.take([number]))[0])

    def numbers(
        self, document: Mapping[str, Any], rows: Sequence[int] = (), *, recalibrate: bool = True, covered: bool = False
    ) -> dict[str, Any]:
        """What Python computes for edits.

        Args:
            document: of edits, as the page sends it.
            rows: whose values are wanted, by their places in the order of the bundle.
            recalibrate: whether recalibrations are computed again on the training rows.
            covered: whether the covered rows are measured too.
        """
        model = self.workshop.edited(document, recalibrate=recalibrate)
        return {
            **self._judged(model),
            "covered": self.workshop.measure(model, COVERED) if covered else None,
            **self.workshop.values(model, rows),
        }

    def save(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Save the edited model to a new folder."""
        model = self._reviewed(document)
        judged = self._judged(model)
        return {"folder": shown_path(str(save_edited(model, self.save_to))), **judged}

    def zipped(self, document: Mapping[str, Any]) -> bytes:
        """The edited model as an archive."""
        return zip_edited(self._reviewed(document), self.save_to.name)

    def report(self, document: Mapping[str, Any]) -> bytes:
        """The report of the edited model."""
        return report_edited(self.workshop.edited(document), self.bundle, shown_path(str(self.save_to)))

    def _reviewed(self, document: Mapping[str, Any]) -> ChoqolateClassifier:
        model = self.workshop.edited(document)
        check_reviewed(document)
        return model

    def _judged(self, model: ChoqolateClassifier) -> dict[str, Any]:
        return {
            "audit": self.workshop.measure(model, AUDIT),
            "shift": model.class_shift_.tolist(),
            "warnings": remainder_warnings(model),
        }
