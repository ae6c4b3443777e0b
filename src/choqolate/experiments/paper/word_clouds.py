"""Figure 4 and the clouds of the appendix: what the nodes of CHOQOLATE read, beside those of PCBM."""

from choqolate.experiments.engine.all_methods import settings_of
from choqolate.experiments.engine.experiment import Experiment
from choqolate.experiments.engine.model_figures import show_clouds
from choqolate.experiments.paper.protocol import ONE_RUN, with_notes

NOTE = "Concepts with a negative weight have a minus sign. Nodes whose weights are all zero are empty."

EXPERIMENT = Experiment(
    name="clouds",
    title="Word clouds of CHOQOLATE and PCBM",
    paper="Figures 4, A5 to A8",
    data=("cats-dogs-cars", "monumai", "coco"),
    seeds=1,
    settings=lambda source, options: settings_of(("pcbm", "choqolate", *options.own_methods), source, options),
    show=with_notes(show_clouds("clouds", NOTE), ONE_RUN),
)
