"""Explanations as plain data: of a whole model, of single images, and of what an edit changed.

Nothing here draws; the ``plot_*`` methods call :mod:`choqolate.plots`.
"""

from choqolate.explain.change import LocalChange, ModelChange, explain_change, explain_local_change
from choqolate.explain.counterfactual import Counterfactual, find_counterfactual
from choqolate.explain.interactions import Interaction
from choqolate.explain.local import Attribution, LocalExplanation, Share
from choqolate.explain.node_names import leading, name_nodes
from choqolate.explain.one_image import ImageExplanation, explain_image
from choqolate.explain.whole_model import ModelExplanation, NodePair, explain_model

__all__ = [
    "Attribution",
    "Counterfactual",
    "ImageExplanation",
    "Interaction",
    "LocalChange",
    "LocalExplanation",
    "ModelChange",
    "ModelExplanation",
    "NodePair",
    "Share",
    "explain_change",
    "explain_image",
    "explain_local_change",
    "explain_model",
    "find_counterfactual",
    "leading",
    "name_nodes",
]
