"""CHOQOLATE: interpretable classifiers over named concepts that people can read and correct.

Names are imported when they are first used, so that ``import choqolate`` and ``choqolate --help`` answer at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from choqolate import metrics
    from choqolate.classifier import ChoqolateClassifier, fit_runs
    from choqolate.errors import ChoqolateError, ChoqolateWarning
    from choqolate.integral import (
        ChoquetLayer,
        canonical_form,
        capacity_table,
        choquet,
        interaction_indices,
        local_shapley_values,
        moebius_transform,
        shapley_values,
    )
    from choqolate.persistence import load

_HOME = {
    "ChoqolateClassifier": "choqolate.classifier",
    "ChoqolateError": "choqolate.errors",
    "ChoqolateWarning": "choqolate.errors",
    "ChoquetLayer": "choqolate.integral",
    "canonical_form": "choqolate.integral",
    "capacity_table": "choqolate.integral",
    "choquet": "choqolate.integral",
    "fit_runs": "choqolate.classifier",
    "interaction_indices": "choqolate.integral",
    "load": "choqolate.persistence",
    "local_shapley_values": "choqolate.integral",
    "metrics": "choqolate.metrics",
    "moebius_transform": "choqolate.integral",
    "shapley_values": "choqolate.integral",
}

__all__ = [
    "ChoqolateClassifier",
    "ChoqolateError",
    "ChoqolateWarning",
    "ChoquetLayer",
    "__version__",
    "canonical_form",
    "capacity_table",
    "choquet",
    "fit_runs",
    "interaction_indices",
    "load",
    "local_shapley_values",
    "metrics",
    "moebius_transform",
    "shapley_values",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'choqolate' has no attribute {name!r}")
    module = import_module(_HOME[name])
    return module if name == "metrics" else getattr(module, name)


def __dir__() -> list[str]:
    return __all__
