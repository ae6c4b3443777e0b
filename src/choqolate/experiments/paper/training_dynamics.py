"""Figure 5: how attributions move in training, in the two nodes where the tracked concepts have weight."""

from choqolate.experiments.engine.experiment import Experiment
from choqolate.experiments.engine.model_figures import show_dynamics
from choqolate.experiments.paper.protocol import START, with_notes

TRACKED = {"coco": ("train", "car", "bed", "frisbee", "surfboard")}
NOTE = (
    "The first to lead is the concept with the largest Shapley value after the first epoch in which one has twice the "
    "share of an even start; there may be none."
)

EXPERIMENT = Experiment(
    name="dynamics",
    title="Training dynamics",
    paper="Figure 5",
    data=("coco",),
    seeds=1,
    settings=lambda source, options: {},  # one model is trained to be looked at
    show=with_notes(show_dynamics("dynamics", TRACKED, NOTE), f"{START}."),
)
