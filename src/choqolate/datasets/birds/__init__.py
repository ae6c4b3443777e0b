"""Bird scenes: a data set that is drawn, not downloaded, in the spirit of Waterbirds.

Land birds and water birds before land and water. In training the place goes with the class nearly always, in testing
half of the time; what each image shows is known. ``scenes.draw_scene`` draws a single one.
"""

from __future__ import annotations

from choqolate.datasets.birds.attributes import ATTRIBUTES, CLASSES, GROUPS, Scenes, sample_freely, sample_scenes
from choqolate.datasets.birds.dataset import AGREEMENT, BIRDS, N_IMAGES, read_truth, render_birds
from choqolate.datasets.birds.words import FAMILIES, truth

__all__ = [
    "AGREEMENT",
    "ATTRIBUTES",
    "BIRDS",
    "CLASSES",
    "FAMILIES",
    "GROUPS",
    "N_IMAGES",
    "Scenes",
    "read_truth",
    "render_birds",
    "sample_freely",
    "sample_scenes",
    "truth",
]
