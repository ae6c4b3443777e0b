"""Proposition 1 and Corollary 1: the gradient of one layer, checked, and its three factors in training."""

from choqolate.analysis.gradient_course import BATCH_SIZE, LEARNING_RATE
from choqolate.experiments.engine.experiment import Experiment
from choqolate.experiments.engine.gradient_study import misfit, show_gradient
from choqolate.experiments.paper.protocol import START

NOTE = (
    "The gradient of the cross-entropy is error times weight times deviation, over T. It is followed in float64 while "
    "a layer trains without the penalty, on at most 1,000 training rows, 48 concepts (those that differ most between "
    "classes) and eight classes. T = 1 is the softmax over class scores without a temperature. Weights and gradients "
    "count as small if they are below 1% of their mean at the start. The pull on a feature is the mean of error times "
    "deviation, over T, with the sign reversed: a parameter increases where the pull is positive. The size of a "
    "gradient is the weight times the size of the pull. Where gradients are drawn against weights (T = 1), the gray "
    f"line is the weight times the largest pull, an upper bound on the gradients. {START}, the same for all "
    f"temperatures. The learning rate is {LEARNING_RATE:g} and constant; batches have at most {BATCH_SIZE} rows and "
    "are the same for all temperatures."
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
