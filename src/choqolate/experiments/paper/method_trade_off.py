"""Figure 3: accuracy against the quality of the nodes, with ellipses."""

from choqolate.experiments.engine.all_methods import SEEDS, method_settings, show_trade_off
from choqolate.experiments.engine.experiment import Experiment
from choqolate.experiments.paper.published import DATA

EXPERIMENT = Experiment(
    name="trade-off",
    title="Accuracy against the quality of the nodes",
    paper="Figure 3",
    data=DATA,
    seeds=SEEDS,
    settings=method_settings,
    show=show_trade_off("trade-off"),
)
