"""Ways of mitigating a known bias of trained classifiers, ours and others', one a file, and all of them as a table."""

from choqolate.debiasing.cbdebug import cbdebug
from choqolate.debiasing.concept_mixup import Mixed, mix_with_concepts, mixing_probabilities
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
from choqolate.debiasing.permutation_weights import effective_rows, permutation_weights
from choqolate.debiasing.registry import DEBIASING, Case, Debiasing, Needs, missing

__all__ = [
    "DEBIASING",
    "Case",
    "Debiasing",
    "LinearHead",
    "Mixed",
    "Needs",
    "calibrated_projection",
    "calibration_prompts",
    "cbdebug",
    "dfr",
    "effective_rows",
    "group_dro",
    "missing",
    "mix_with_concepts",
    "mixing_probabilities",
    "orthogonal_projection",
    "permutation_weights",
    "project_scores",
    "rescaled",
    "text_projection",
]
