"""Proposition 1 and Corollary 1: the gradient of one layer, checked, and its three factors in training."""

from choqolate.experiments.engine.experiment import Experiment
from choqolate.experiments.engine.gradient_study import misfit, show_gradient

NOTE = (
    "The gradient of the cross-entropy is error times weight times deviation, over T. It is followed in float64, on at "
    "most 1,000 training rows, 48 concepts (those that differ most between classes) and eight classes, in a training "
    "without the penalty. Weights and gradients are small below 1% of their mean at the start."
)

EXPERIMENT = Experiment(
    name="gradient",
    title="The gradient of one layer",
    paper="Prop. 1, Cor. 1",
    data=("cats-dogs-cars", "coco"),
    seeds=1,
    settings=lambda source, options: {},  # one layer is trained to be looked at
    show=show_gradient("gradient", NOTE),
    misfit=misfit,
)
