"""Figures for papers and notebooks, drawn with matplotlib: every function takes ``ax=`` and returns the axes.

What a model reads and what it counts for:

- :func:`word_cloud`: what one node reads, the larger the more.
- :func:`word_clouds`: the same of all nodes.
- :func:`word_clouds_change`: the same before and after an edit.
- :func:`attribution_bars`: the leading concepts of one node as bars.
- :func:`interaction_graph`: pairs of concepts that one node takes together or for each other.
- :func:`class_flow`: what flows from the nodes to the classes.
- :func:`training_dynamics`: what one node read, epoch by epoch.

Why one image is taken for its class:

- :func:`waterfall`: how one score came about, concept by concept.
- :func:`waterfall_change`: the same before and after an edit.

How methods, groups and concepts compare:

- :func:`accuracy_against_quality`: methods by accuracy and by a quality of their explanations.
- :func:`accuracy_against_concepts`: methods by accuracy and by the number of concepts that carry a class.
- :func:`accuracy_at_concepts`: accuracy of methods when each class may use a few concepts only.
- :func:`legend_below`: one legend for several of these three.
- :func:`group_accuracy`: accuracy over all rows and by group, of one model or several.
- :func:`trade_off`: settings of a search by accuracy and by four kinds of sparsity, beside sparse logistic regression.
- :func:`concept_scores`: scores of two or three concepts against each other, by class.
- :func:`correlation_heatmap`: the correlation of all pairs of concepts.

Letters follow ``matplotlib.rcParams["font.size"]``, and new figures grow with it. In given axes, which may be as narrow
as the column of a paper, names are cut and ticks left out until all is inside.
"""

from choqolate.plots.attribution_curves import training_dynamics
from choqolate.plots.bars import attribution_bars
from choqolate.plots.class_flows import class_flow
from choqolate.plots.clouds import word_cloud, word_clouds, word_clouds_change
from choqolate.plots.few_concept_curves import accuracy_against_concepts, accuracy_at_concepts
from choqolate.plots.group_bars import group_accuracy
from choqolate.plots.heatmaps import correlation_heatmap
from choqolate.plots.interaction_graphs import interaction_graph
from choqolate.plots.labels import legend_below
from choqolate.plots.scatters import accuracy_against_quality, concept_scores
from choqolate.plots.trade_off_panels import trade_off
from choqolate.plots.waterfalls import waterfall, waterfall_change

__all__ = [
    "accuracy_against_concepts",
    "accuracy_against_quality",
    "accuracy_at_concepts",
    "attribution_bars",
    "class_flow",
    "concept_scores",
    "correlation_heatmap",
    "group_accuracy",
    "interaction_graph",
    "legend_below",
    "trade_off",
    "training_dynamics",
    "waterfall",
    "waterfall_change",
    "word_cloud",
    "word_clouds",
    "word_clouds_change",
]
