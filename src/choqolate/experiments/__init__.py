"""Every table and figure of the paper, on its data sets or on others: declared in a file each, run by one runner."""

from choqolate._util.checks import find_named
from choqolate.experiments.comparison_table import EXPERIMENT as COMPARISON
from choqolate.experiments.engine.experiment import Experiment, Options
from choqolate.experiments.engine.reproduction import Reproduction, reproduce
from choqolate.experiments.paper import (
    accuracy,
    classes,
    components,
    gradient,
    information,
    mitigation,
    nodes,
    quality,
    seeds,
    significance,
    temperature,
    three_concepts,
)
from choqolate.experiments.paper import method_trade_off as trade_off
from choqolate.experiments.paper import training_dynamics as dynamics
from choqolate.experiments.paper import word_clouds as clouds

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        three_concepts,
        accuracy,
        quality,
        information,
        trade_off,
        significance,
        clouds,
        dynamics,
        gradient,
        mitigation,
        temperature,
        classes,
        components,
        nodes,
        seeds,
    )
}
"""In the order of the paper."""

__all__ = ["COMPARISON", "EXPERIMENTS", "Experiment", "Options", "Reproduction", "find_experiment", "reproduce"]


def find_experiment(name: str) -> Experiment:
    """A table or figure by its name; an unknown one is an error that proposes the nearest.

    >>> find_experiment("accuracy").paper
    'Table A3'
    """
    return find_named(name, EXPERIMENTS, "a table or figure")
