"""Table A3: accuracy of all methods."""

from choqolate.experiments.engine import comparison
from choqolate.experiments.engine.experiment import Collected, Experiment, Shown


def _show(collected: Collected) -> Shown:
    return Shown({"accuracy": comparison.table(collected, "Accuracy", ["accuracy"])})


EXPERIMENT = Experiment(
    name="accuracy",
    title="Accuracy of all methods",
    paper="Table A3",
    data=comparison.DATA,
    seeds=comparison.SEEDS,
    tasks=comparison.tasks,
    show=_show,
)
