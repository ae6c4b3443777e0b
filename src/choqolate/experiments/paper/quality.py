"""Table A4: how concentrated and how coherent the nodes of all methods are."""

from choqolate.experiments.engine import comparison
from choqolate.experiments.engine.experiment import Collected, Experiment, Shown


def _show(collected: Collected) -> Shown:
    title = "Attribution Gini and Node Coherence"
    table = comparison.table(collected, title, ["gini", "coherence"])
    return Shown({"quality": table}, notes=[comparison.OVER_SCORES])


EXPERIMENT = Experiment(
    name="quality",
    title="Quality of the nodes: Gini and coherence",
    paper="Table A4",
    data=comparison.DATA,
    seeds=comparison.SEEDS,
    tasks=comparison.tasks,
    show=_show,
)
