"""Table A3: accuracy of all methods."""

from choqolate.experiments.engine.all_methods import SEEDS, method_settings, show_metrics
from choqolate.experiments.engine.experiment import Experiment
from choqolate.experiments.paper.protocol import ALL_METHODS, cub_contradiction, with_notes
from choqolate.experiments.paper.published import DATA, published

EXPERIMENT = Experiment(
    name="accuracy",
    title="Accuracy of all methods",
    paper="Table A3",
    data=DATA,
    seeds=SEEDS,
    settings=method_settings,
    show=with_notes(show_metrics("accuracy", "Accuracy", ["accuracy"], published), ALL_METHODS, cub_contradiction),
)
