"""Figure 3: accuracy against the quality of the nodes, with ellipses."""

from choqolate.experiments.engine import comparison
from choqolate.experiments.engine.experiment import Collected, Experiment, Shown
from choqolate.experiments.engine.figures import trade_off_grid


def _show(collected: Collected) -> Shown:
    panels = {source.title: comparison.trade_offs(collected, source) for source in collected.sources}
    return Shown(figures={"trade-off": trade_off_grid(panels)})


EXPERIMENT = Experiment(
    name="trade-off",
    title="Accuracy against the quality of the nodes",
    paper="Figure 3",
    data=comparison.DATA,
    seeds=comparison.SEEDS,
    tasks=comparison.tasks,
    show=_show,
)
