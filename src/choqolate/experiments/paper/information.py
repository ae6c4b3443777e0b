"""Table A5: how much of the input the nodes keep. More is not better: a copy of the input would keep all."""

from choqolate.experiments.engine import comparison
from choqolate.experiments.engine.experiment import Collected, Experiment, Shown

NOTE = (
    "HSIC is normalised (CKA) with a linear kernel, CKNNA counts 10 neighbours; both between the scaled scores and the "
    "node values of the test images. The paper does not say which kernel it uses."
)


def _show(collected: Collected) -> Shown:
    table = comparison.table(collected, "HSIC and CKNNA", ["hsic", "cknna"], better=False)
    return Shown({"information": table}, notes=[NOTE])


EXPERIMENT = Experiment(
    name="information",
    title="What the nodes keep of the input: HSIC and CKNNA",
    paper="Table A5",
    data=comparison.DATA,
    seeds=comparison.SEEDS,
    tasks=comparison.tasks,
    show=_show,
)
