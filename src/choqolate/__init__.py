"""CHOQOLATE: interpretable classifiers over named concepts that people can read and correct.

Names are imported when they are first used, so that ``import choqolate`` and ``choqolate --help`` answer at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from choqolate import baselines, datasets, debiasing, experiments, metrics, plots
    from choqolate.analysis.control_tables import control_table
    from choqolate.analysis.controls import run_controls
    from choqolate.analysis.evaluation import evaluate
    from choqolate.analysis.following import measure_following
    from choqolate.analysis.leakage import measure_leakage
    from choqolate.analysis.suspects import find_suspects
    from choqolate.analysis.trade_off import trade_off
    from choqolate.concepts.backbones import Backbone, load_backbone
    from choqolate.concepts.embedding import Embeddings, embed
    from choqolate.concepts.new_images import score_for_model
    from choqolate.concepts.preprocessing import ImageTransform
    from choqolate.concepts.scene_places import predict_places
    from choqolate.concepts.score_images import score_images, score_images_to_file
    from choqolate.concepts.scoring import score
    from choqolate.concepts.vocabulary import Vocabulary
    from choqolate.concepts.vocabulary_choice import choose_vocabulary
    from choqolate.concepts.word_lists import read_words
    from choqolate.data.manifest import Manifest
    from choqolate.data.scores import ConceptScores
    from choqolate.errors import ChoqolateError, ChoqolateWarning
    from choqolate.estimators.classifier import ChoqolateClassifier
    from choqolate.estimators.edits_file import save_edits
    from choqolate.estimators.model_folder import load
    from choqolate.estimators.seed_runs import fit_runs
    from choqolate.estimators.table_training import fit_scores
    from choqolate.explain import (
        explain_change,
        explain_image,
        explain_local_change,
        explain_model,
        find_counterfactual,
    )
    from choqolate.explain.node_stability import node_stability
    from choqolate.explain.redundancy import check_redundancy
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
    from choqolate.integral.configuration import show_config
    from choqolate.network.edits import Note
    from choqolate.report.model_page import write_report

_HOME = {
    "Backbone": "choqolate.concepts.backbones",
    "ChoqolateClassifier": "choqolate.estimators.classifier",
    "ChoqolateError": "choqolate.errors",
    "ChoqolateWarning": "choqolate.errors",
    "ChoquetLayer": "choqolate.integral",
    "ConceptScores": "choqolate.data.scores",
    "Embeddings": "choqolate.concepts.embedding",
    "ImageTransform": "choqolate.concepts.preprocessing",
    "Manifest": "choqolate.data.manifest",
    "Note": "choqolate.network.edits",
    "Vocabulary": "choqolate.concepts.vocabulary",
    "baselines": "choqolate.baselines",
    "canonical_form": "choqolate.integral",
    "capacity_table": "choqolate.integral",
    "check_redundancy": "choqolate.explain.redundancy",
    "choose_vocabulary": "choqolate.concepts.vocabulary_choice",
    "choquet": "choqolate.integral",
    "control_table": "choqolate.analysis.control_tables",
    "datasets": "choqolate.datasets",
    "debiasing": "choqolate.debiasing",
    "embed": "choqolate.concepts.embedding",
    "evaluate": "choqolate.analysis.evaluation",
    "experiments": "choqolate.experiments",
    "explain_change": "choqolate.explain",
    "explain_image": "choqolate.explain",
    "explain_local_change": "choqolate.explain",
    "explain_model": "choqolate.explain",
    "find_counterfactual": "choqolate.explain",
    "find_suspects": "choqolate.analysis.suspects",
    "fit_runs": "choqolate.estimators.seed_runs",
    "fit_scores": "choqolate.estimators.table_training",
    "interaction_indices": "choqolate.integral",
    "load": "choqolate.estimators.model_folder",
    "load_backbone": "choqolate.concepts.backbones",
    "local_shapley_values": "choqolate.integral",
    "measure_following": "choqolate.analysis.following",
    "measure_leakage": "choqolate.analysis.leakage",
    "metrics": "choqolate.metrics",
    "moebius_transform": "choqolate.integral",
    "node_stability": "choqolate.explain.node_stability",
    "plots": "choqolate.plots",
    "predict_places": "choqolate.concepts.scene_places",
    "read_words": "choqolate.concepts.word_lists",
    "run_controls": "choqolate.analysis.controls",
    "save_edits": "choqolate.estimators.edits_file",
    "score": "choqolate.concepts.scoring",
    "score_for_model": "choqolate.concepts.new_images",
    "score_images": "choqolate.concepts.score_images",
    "score_images_to_file": "choqolate.concepts.score_images",
    "shapley_values": "choqolate.integral",
    "show_config": "choqolate.integral.configuration",
    "trade_off": "choqolate.analysis.trade_off",
    "write_report": "choqolate.report.model_page",
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
    "Note",
    "Vocabulary",
    "__version__",
    "baselines",
    "canonical_form",
    "capacity_table",
    "check_redundancy",
    "choose_vocabulary",
    "choquet",
    "control_table",
    "datasets",
    "debiasing",
    "embed",
    "evaluate",
    "experiments",
    "explain_change",
    "explain_image",
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
    "measure_following",
    "measure_leakage",
    "metrics",
    "moebius_transform",
    "node_stability",
    "plots",
    "predict_places",
    "read_words",
    "run_controls",
    "save_edits",
    "score",
    "score_for_model",
    "score_images",
    "score_images_to_file",
    "shapley_values",
    "show_config",
    "trade_off",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'choqolate' has no attribute {name!r}")
    module = import_module(_HOME[name])
    return module if module.__name__ == f"choqolate.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return __all__
