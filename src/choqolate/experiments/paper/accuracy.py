"""Table A3: accuracy of all methods."""

from choqolate.experiments.engine.all_methods import SEEDS, method_settings, show_metrics
from choqolate.experiments.engine.experiment import Experiment
from choqolate.experiments.paper.published import DATA, published

EXPERIMENT = Experiment(
    name="accuracy",
    title="Accuracy of all methods",
    paper="Table A3",
    data=DATA,
    seeds=SEEDS,
    settings=method_settings,
    show=show_metrics("accuracy", "Accuracy", ["accuracy"], published),
)
