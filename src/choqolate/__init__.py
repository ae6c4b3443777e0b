"""CHOQOLATE: interpretable classifiers over named concepts that people can read and correct.

Names are imported when they are first used, so that ``import choqolate`` and ``choqolate --help`` answer at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from choqolate import baselines, datasets, debiasing, experiments, metrics, plots
    from choqolate.classifier import ChoqolateClassifier, fit_runs
    from choqolate.concepts.backbones import Backbone, load_backbone
    from choqolate.concepts.embedding import Embeddings, embed
    from choqolate.concepts.images import ImageTransform
    from choqolate.concepts.scores import ConceptScores
    from choqolate.concepts.scoring import score
    from choqolate.concepts.vocabulary import Vocabulary
    from choqolate.errors import ChoqolateError, ChoqolateWarning
    from choqolate.evaluation import evaluate, fit_scores
    from choqolate.explain import explain_change, explain_local_change, explain_model, find_counterfactual
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
    from choqolate.manifest import Manifest
    from choqolate.persistence import load
    from choqolate.pictures import score_pictures
    from choqolate.redundancy import check_redundancy
    from choqolate.report.model import write_report
    from choqolate.suspects import find_suspects

_HOME = {
    "Backbone": "choqolate.concepts.backbones",
    "ChoqolateClassifier": "choqolate.classifier",
    "ChoqolateError": "choqolate.errors",
    "ChoqolateWarning": "choqolate.errors",
    "ChoquetLayer": "choqolate.integral",
    "ConceptScores": "choqolate.concepts.scores",
    "Embeddings": "choqolate.concepts.embedding",
    "ImageTransform": "choqolate.concepts.images",
    "Manifest": "choqolate.manifest",
    "Vocabulary": "choqolate.concepts.vocabulary",
    "baselines": "choqolate.baselines",
    "canonical_form": "choqolate.integral",
    "capacity_table": "choqolate.integral",
    "check_redundancy": "choqolate.redundancy",
    "choquet": "choqolate.integral",
    "datasets": "choqolate.datasets",
    "debiasing": "choqolate.debiasing",
    "embed": "choqolate.concepts.embedding",
    "evaluate": "choqolate.evaluation",
    "experiments": "choqolate.experiments",
    "explain_change": "choqolate.explain",
    "explain_local_change": "choqolate.explain",
    "explain_model": "choqolate.explain",
    "find_counterfactual": "choqolate.explain",
    "find_suspects": "choqolate.suspects",
    "fit_runs": "choqolate.classifier",
    "fit_scores": "choqolate.evaluation",
    "interaction_indices": "choqolate.integral",
    "load": "choqolate.persistence",
    "load_backbone": "choqolate.concepts.backbones",
    "local_shapley_values": "choqolate.integral",
    "metrics": "choqolate.metrics",
    "moebius_transform": "choqolate.integral",
    "plots": "choqolate.plots",
    "score": "choqolate.concepts.scoring",
    "score_pictures": "choqolate.pictures",
    "shapley_values": "choqolate.integral",
    "write_report": "choqolate.report.model",
}

__all__ = [
    "Backbone",
    "ChoqolateClassifier",
    "ChoqolateError",
    "ChoqolateWarning",
    "ChoquetLayer",
    "ConceptScores",
    "Embeddings",
    "ImageTransform",
    "Manifest",
    "Vocabulary",
    "__version__",
    "baselines",
    "canonical_form",
    "capacity_table",
    "check_redundancy",
    "choquet",
    "datasets",
    "debiasing",
    "embed",
    "evaluate",
    "experiments",
    "explain_change",
    "explain_local_change",
    "explain_model",
    "find_counterfactual",
    "find_suspects",
    "fit_runs",
    "fit_scores",
    "interaction_indices",
    "load",
    "load_backbone",
    "local_shapley_values",
    "metrics",
    "moebius_transform",
    "plots",
    "score",
    "score_pictures",
    "shapley_values",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'choqolate' has no attribute {name!r}")
    module = import_module(_HOME[name])
    return module if module.__name__ == f"choqolate.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return __all__
