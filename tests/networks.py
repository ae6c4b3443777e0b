"""Networks with parameters that a test chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

import choqolate as cq


def set_parameters(clf: cq.ChoqolateClassifier, parameters: Mapping[str, Tensor]) -> None:
    """Give a fitted classifier other parameters, as if it had been trained to them; edits are gone."""
    clf.network_ = replace(clf.network_, parameters=parameters, edits=())
