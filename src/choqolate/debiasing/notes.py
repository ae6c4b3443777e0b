"""What a method did to a model, noted in the model's provenance."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from choqolate.estimators.classifier import ChoqolateClassifier


def with_note(model: ChoqolateClassifier, note: dict[str, Any]) -> ChoqolateClassifier:
    """A copy of a model whose ``provenance_.debiasing`` says what was done, such as JSON can hold."""
    other = copy.copy(model)
    other.provenance_ = replace(model.provenance_, debiasing=note)
    return other
