"""Figure 5: how attributions move in training, in the two nodes where the tracked concepts have weight."""

from choqolate.experiments.engine.experiment import Experiment
from choqolate.experiments.engine.model_figures import show_dynamics
from choqolate.experiments.paper.protocol import START, with_notes

TRACKED = {"coco": ("train", "car", "bed", "frisbee", "surfboard")}
NOTE = (
    "First to lead: the concept with the largest Shapley value at the end of the first epoch in which some concept has "
    "at least twice the share 1 / M of an even start. There may be none."
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
