"""Ways of mitigating a known bias of trained classifiers, ours and others', one a file, and all of them as a table."""

from choqolate.debiasing.dfr import LinearHead, dfr
from choqolate.debiasing.group_dro import group_dro
from choqolate.debiasing.orthogonal import (
    calibrated_projection,
    calibration_prompts,
    orthogonal_projection,
    project_scores,
    rescaled,
    text_projection,
)
from choqolate.debiasing.registry import DEBIASING, Case, Debiasing, Needs, missing

__all__ = [
    "DEBIASING",
    "Case",
    "Debiasing",
    "LinearHead",
    "Needs",
    "calibrated_projection",
    "calibration_prompts",
    "dfr",
    "group_dro",
    "missing",
    "orthogonal_projection",
    "project_scores",
    "rescaled",
    "text_projection",
]
