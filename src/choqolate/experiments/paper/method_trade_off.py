"""Figure 3: accuracy against the quality of the nodes, with ellipses."""

from choqolate.experiments.engine.all_methods import SEEDS, method_settings, show_trade_off
from choqolate.experiments.engine.experiment import Experiment
from choqolate.experiments.paper.protocol import ALL_METHODS, with_notes
from choqolate.experiments.paper.published import DATA

EXPERIMENT = Experiment(
    name="trade-off",
    title="Accuracy against the quality of the nodes",
    paper="Figure 3",
    data=DATA,
    seeds=SEEDS,
    settings=method_settings,
    show=with_notes(show_trade_off("trade-off"), ALL_METHODS),
)
