"""Table A5: how much of the input the nodes keep."""

from choqolate.experiments.engine.all_methods import SEEDS, method_settings, show_metrics
from choqolate.experiments.engine.experiment import Experiment
from choqolate.experiments.paper.protocol import ALL_METHODS, with_notes
from choqolate.experiments.paper.published import DATA, published

NOTE = (
    "HSIC is normalized (CKA) and has a linear kernel. CKNNA has k = 10 neighbors. Both compare the scaled scores with "
    "the node values of the test images. The paper does not say which kernel it uses."
)

EXPERIMENT = Experiment(
    name="information",
    title="What the nodes keep of the input: HSIC and CKNNA",
    paper="Table A5",
    data=DATA,
    seeds=SEEDS,
    settings=method_settings,
    show=with_notes(
        show_metrics("information", "HSIC and CKNNA", ["hsic", "cknna"], published, note=NOTE), ALL_METHODS
    ),
)
