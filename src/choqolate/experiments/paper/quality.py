"""Table A4: how concentrated and how coherent the nodes of all methods are."""

from choqolate.experiments.engine.all_methods import OVER_SCORES, SEEDS, method_settings, show_metrics
from choqolate.experiments.engine.experiment import Experiment
from choqolate.experiments.paper.protocol import ALL_METHODS, with_notes
from choqolate.experiments.paper.published import DATA, published

EXPERIMENT = Experiment(
    name="quality",
    title="Quality of the nodes: Gini and coherence",
    paper="Table A4",
    data=DATA,
    seeds=SEEDS,
    settings=method_settings,
    show=with_notes(
        show_metrics(
            "quality", "Attribution Gini and Node Coherence", ["gini", "coherence"], published, note=OVER_SCORES
        ),
        ALL_METHODS,
    ),
)
