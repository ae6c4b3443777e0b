from __future__ import annotations

import subprocess
import sys

import pytest

import choqolate as cq


def test_public_names_are_these():
    assert sorted(cq.__all__) == [
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
    assert all(hasattr(cq, name) for name in cq.__all__)
    assert dir(cq) == sorted(cq.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = cq.nothing


@pytest.mark.parametrize(
    ("statement", "not_loaded"),
    [
        ("import choqolate", ["torch", "sklearn", "pandas", "transformers", "matplotlib", "onnx"]),
        ("import choqolate.cli", ["torch", "sklearn", "pandas", "scipy", "numpy"]),
        ("import choqolate; choqolate.ChoqolateClassifier", ["matplotlib", "transformers", "rich", "onnx"]),
    ],
)
def test_heavy_packages_are_loaded_where_they_are_used(statement, not_loaded):
    script = f"{statement}\nimport sys\nprint([name for name in {not_loaded} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
