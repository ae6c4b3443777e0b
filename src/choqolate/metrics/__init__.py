"""Metrics: how concentrated and coherent nodes are, how accurate predictions, how much of its input a layer keeps.

Pure functions of numpy arrays, torch tensors, data frames or lists; float64 inside, numpy arrays or floats outside.
"""

from choqolate.metrics.accuracies import accuracy, group_accuracies, reweighted_accuracy, worst_group_accuracy
from choqolate.metrics.block_coherence import node_coherence_of_blocks
from choqolate.metrics.calibration_error import calibration_gaps, expected_calibration_error
from choqolate.metrics.class_auc import WithinClassAUC, within_class_auc
from choqolate.metrics.convergence import late_decrease
from choqolate.metrics.effective_concepts import accuracy_at_nec, anec, keep_largest, sparse_classifier
from choqolate.metrics.intervals import (
    PairedChange,
    Proportion,
    difference_interval,
    mean_interval,
    paired_change,
    resampled_interval,
    wilson_interval,
)
from choqolate.metrics.node_quality import (
    NodeMean,
    attribution_gini,
    concept_correlation,
    concept_count,
    mean_over_nodes,
    node_coherence,
    node_coherence_on,
    per_concept,
)
from choqolate.metrics.pair_mass import interaction_mass
from choqolate.metrics.probes import probe_predictions, probe_r2
from choqolate.metrics.recurrence import match_nodes, node_recurrence
from choqolate.metrics.representations import cknna, hsic

__all__ = ["NodeMean", "attribution_gini", "concept_correlation", "mean_over_nodes", "node_coherence"]
__all__ += ["concept_count", "node_coherence_of_blocks", "node_coherence_on", "per_concept"]
__all__ += ["accuracy_at_nec", "anec", "keep_largest", "sparse_classifier"]
__all__ += ["interaction_mass", "match_nodes", "node_recurrence"]
__all__ += ["accuracy", "group_accuracies", "reweighted_accuracy", "worst_group_accuracy"]
__all__ += ["PairedChange", "Proportion", "difference_interval", "mean_interval", "paired_change", "wilson_interval"]
__all__ += ["resampled_interval"]
__all__ += ["calibration_gaps", "expected_calibration_error"]
__all__ += ["cknna", "hsic"]
__all__ += ["late_decrease"]
__all__ += ["WithinClassAUC", "probe_predictions", "probe_r2", "within_class_auc"]
