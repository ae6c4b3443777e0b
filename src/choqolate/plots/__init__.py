"""Pictures for papers and notebooks, drawn with matplotlib: every function takes ``ax=`` and returns the axes."""

from choqolate.plots.comparison import accuracy_against_quality, concept_scores, group_accuracy
from choqolate.plots.correlation import correlation_heatmap
from choqolate.plots.flow import class_flow
from choqolate.plots.nodes import attribution_bars, interaction_graph
from choqolate.plots.pictures import waterfall, waterfall_change
from choqolate.plots.training import training_dynamics
from choqolate.plots.words import word_cloud, word_clouds

__all__ = [
    "accuracy_against_quality",
    "attribution_bars",
    "class_flow",
    "concept_scores",
    "correlation_heatmap",
    "group_accuracy",
    "interaction_graph",
    "training_dynamics",
    "waterfall",
    "waterfall_change",
    "word_cloud",
    "word_clouds",
]
