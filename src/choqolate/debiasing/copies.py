"""Copies of a fitted classifier with other numbers in it."""

from __future__ import annotations

import copy
from typing import Any

from choqolate.estimators.classifier import ChoqolateClassifier


def changed(model: ChoqolateClassifier, note: dict[str, Any], **attributes: Any) -> ChoqolateClassifier:
    """A copy with some fitted attributes replaced and all that follows from them derived anew; edits stay.

    Args:
        model: a fitted classifier; it is untouched.
        note: what was done, as JSON has it: kept in ``provenance_["debiasing"]`` of the copy.
        **attributes: new values, such as ``parameters_``.
    """
    other = copy.copy(model)
    for name, value in attributes.items():
        setattr(other, name, value)
    other.provenance_ = copy.deepcopy(model.provenance_) | {"debiasing": note}
    return other._finish_edit(None)
