"""Table A9: is our Gini, is our coherence larger than a baseline's, or is it chance?"""

from choqolate.experiments.engine.all_methods import SEEDS, method_settings, show_significance
from choqolate.experiments.engine.experiment import Experiment
from choqolate.experiments.paper.protocol import ONE_RUN, with_notes
from choqolate.experiments.paper.published import DATA, significance

EXPERIMENT = Experiment(
    name="significance",
    title="Significance of the separation",
    paper="Table A9",
    data=DATA,
    seeds=SEEDS,
    settings=method_settings,
    show=with_notes(show_significance("significance", significance), ONE_RUN),
)
