"""What is doubtful about the rows that a model is measured on."""

from __future__ import annotations

import warnings
from typing import Any

from choqolate._util.text import listed
from choqolate.data.score_file import ScoreFile
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateWarning
from choqolate.estimators.table_training import n_sampled_rows
from choqolate.explain.model_protocols import ConceptModel


def warn_of_another_source(model: ConceptModel, table: ConceptScores | ScoreFile) -> None:
    """Warn of scores from a different backbone, or from different prompts, than the model was trained on."""
    ours, theirs = model.provenance_, table.provenance
    if _differ(ours.backbone.identity, theirs.backbone.identity):
        names = f"{ours.backbone.name}, not {theirs.backbone.name}"
        _warn(f"the model was trained on scores from a different backbone than these: {names}")
    mine, others = ours.vocabulary, theirs.vocabulary
    if _differ(mine.templates, others.templates):
        prompts = f"{listed(mine.templates or ())}, not {listed(others.templates or ())}"
        _warn(f"the model was trained on scores from different prompts than these: {prompts}")
    if mine.synonyms is not None and others.synonyms is not None:
        words = [(name, mine.synonyms.get(name, ()), others.synonyms.get(name, ())) for name in model.concepts_]
        differing = [name for name, own, other in words if _differ(own, other)]
        if differing:
            _warn(f"these scores use different synonyms than the model was trained with: {listed(differing)}")


def warn_of_training_rows(model: ConceptModel, rows: ConceptScores | ScoreFile) -> None:
    """Warn of rows that the model was trained on, which say nothing about new images; a sample of them is known."""
    found = n_sampled_rows(model, rows)
    if found:
        _warn(
            f"some of these rows were used for training ({found} of {len(model.provenance_.data.sample)} sampled "
            "training rows are among them), so the accuracy does not carry over to new images"
        )


def _differ(ours: Any, theirs: Any) -> bool:
    """Whether both sides say something, and not the same; the order of a list says nothing."""
    ours, theirs = (sorted(map(str, side)) if isinstance(side, tuple) else side for side in (ours, theirs))
    return ours is not None and theirs is not None and ours != theirs


def _warn(message: str, stacklevel: int = 4) -> None:
    warnings.warn(message, ChoqolateWarning, stacklevel=stacklevel)
