"""Suspects in a page: removals that help the worst group, and questions with the images on which the model fails."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from choqolate.analysis.comparison import compare_evaluations
from choqolate.analysis.evaluation import spurious_concepts
from choqolate.analysis.suspects import without
from choqolate.concepts.new_images import find_images
from choqolate.report.image_cards import in_turn, thumbnail
from choqolate.report.model_origin import removal_command

if TYPE_CHECKING:
    from choqolate.analysis.failing_slices import FailingSlice, FailingSlices
    from choqolate.report.page_data import View

MOST_SUSPECTS = 20  # removals of a table
MOST_QUESTIONS = 8
MOST_SIBLINGS = 12
MOST_IMAGES = 6  # of a failing slice
SIDE = 120  # pixels of their longer side


def suspects_section(view: View, names: tuple[str, str]) -> dict[str, Any] | None:
    """All that a page says of suspects: what helps the worst group, removed alone and together, and failing slices."""
    found = view.suspects
    if found is None or view.table is None or view.measured is None:
        return None
    gone = set(view.model.removal_.concepts) if view.model.removal_ else set()
    marked = [name for name in spurious_concepts(view.model, view.table) if name not in gone]
    proposals = {"all that help the worst group": found.to_remove, "all marked as spurious": tuple(marked)}
    together: list[dict[str, Any]] = []
    for name, concepts in proposals.items():
        edited = without(view.model, concepts) if concepts else None
        if edited is not None and view.measured.worst_measurable_group is not None:
            compared = compare_evaluations(view.measured, view.measure(edited))
            together.append({"name": name, "concepts": concepts, "compared": compared})
    chosen: Sequence[str] = next((one["concepts"] for one in together), ("CONCEPT",))
    return {
        "helpful": found.helpful[:MOST_SUSPECTS],
        "idle": found.idle[:MOST_SUSPECTS],
        "n_helpful": len(found.helpful),
        "n_idle": len(found.idle),
        "chosen": found.chosen,
        "rows": found.rows,
        "needed": found.needed,
        "worst_group": found.worst_group,
        "unclear": found.unclear,
        "tried": found.tried,
        "too_few": found.too_few,
        "together": together,
        "failing": None if found.failing is None else _failing(found.failing, view, names),
        "peeked": found.chosen == view.measured.chosen,
        "command": _command(chosen, names),
    }


def _failing(failing: FailingSlices, view: View, names: tuple[str, str]) -> dict[str, Any]:
    """All that a page says of failing slices."""
    predicted = [str(label) for label in view.model.predict(failing.rows).tolist()] if failing.suspects else []
    cards = [
        {
            "question": one.question,
            "slices": one.slices,
            "siblings": one.concepts[:MOST_SIBLINGS],
            "n_concepts": len(one.concepts),
            "share": one.share,
            "spurious": one.spurious,
            "images": _images(failing, one.slices[0], predicted, view.root),
            "command": _command(one.concepts, names),
        }
        for one in failing.suspects[:MOST_QUESTIONS]
    ]
    return {"cards": cards, "n_suspects": len(failing.suspects), "verdict": failing.verdict(), "chosen": failing.chosen}


def _command(concepts: Sequence[str], names: tuple[str, str]) -> str:
    return shlex.join(removal_command(names[0], concepts, "-o", f"{names[0]}-edited", "--scores", names[1]))


def _images(
    failing: FailingSlices, worst: FailingSlice, predicted: list[str], root: str | os.PathLike[str] | None
) -> list[dict[str, Any]]:
    """Misclassified images of a slice that are at hand, of each wrong class in turn."""
    chosen = in_turn(worst.mistakes, predicted)[:MOST_IMAGES]
    files = find_images(failing.rows.take(chosen), root) if failing.rows.paths is not None and chosen else []
    shown = [
        {"image": thumbnail(file, SIDE), "name": file.name, "taken_for": predicted[row]}
        for row, file in zip(chosen, files, strict=False)
        if file is not None
    ]
    return [one for one in shown if one["image"] is not None]
