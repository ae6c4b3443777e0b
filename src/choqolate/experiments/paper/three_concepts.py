"""Figure 1: three concepts that say nearly the same, and what nodes make of all concepts."""

from choqolate.experiments.engine.concept_figures import misfit, show_concepts
from choqolate.experiments.engine.experiment import Experiment
from choqolate.experiments.paper.protocol import ONE_RUN, with_notes

CONCEPTS = ("hair", "muzzle", "tail")
NOTE = (
    "The shared diagonal is the first principal component of the standardized scores of the test images. For three "
    "independent concepts, it would have a third of the variance. Within classes: class means are subtracted, because "
    "classes alone can make concepts correlate. The figure of the nodes shows absolute weights of the linear network "
    "(no penalty) next to Shapley values, for one run of each."
)

EXPERIMENT = Experiment(
    name="three-concepts",
    title="Redundancy of three concepts",
    paper="Figure 1",
    data=("cats-dogs-cars",),
    seeds=1,
    settings=lambda source, options: {},  # two models are trained to be looked at
    show=with_notes(show_concepts("three-concepts", CONCEPTS, NOTE), ONE_RUN),
    misfit=misfit,
)
