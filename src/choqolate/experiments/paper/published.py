"""The numbers that the paper prints, table by table, to stand beside ours.

Data sets are named as in :data:`choqolate.datasets.DATASETS`, methods as in the experiments. Accuracies are shares,
which columns in percent show times 100. The labels are those of the tables in the paper's source.

>>> accuracy("cats-dogs-cars", "pcbm"), gini("cub", "choqolate"), worst_group("celeba", "group-dro")
((0.967, 0.0072), (0.982, 0.006), (0.4722, 0.032))
>>> accuracy("birds", "pcbm") is None
True
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

DATA = ("cats-dogs-cars", "monumai", "coco", "cub")
"""The data sets that the paper compares all methods on."""

Published = tuple[float, float]
"""Mean and standard deviation over the paper's runs."""


class Quality(NamedTuple):
    """What the paper's ablations give of a model."""

    accuracy: Published
    gini: Published
    coherence: Published


class Component(NamedTuple):
    """A row of the ablation of components: which of them are on, and what comes of it."""

    first_order: bool
    second_order: bool
    softmax: bool
    l1_inter: bool
    l1_all: bool
    quality: Quality


class Significance(NamedTuple):
    """Of CHOQOLATE over a baseline: relative median distance, and the p-value as printed."""

    delta: float
    p: str


ACCURACY: dict[str, dict[str, Published]] = {
    "cats-dogs-cars": {
        "pcbm": (0.9670, 0.0072),
        "pscbm": (0.7396, 0.0340),
        "sparse-autoencoder": (0.8019, 0.0449),
        "slr-avd": (0.9037, 0.1770),
        "choqolate": (0.9512, 0.0027),
    },
    "monumai": {
        "pcbm": (0.5812, 0.0806),
        "pscbm": (0.4010, 0.0912),
        "sparse-autoencoder": (0.4716, 0.0472),
        "slr-avd": (0.5457, 0.1003),
        "choqolate": (0.6894, 0.0118),
    },
    "coco": {
        "pcbm": (0.5349, 0.0513),
        "pscbm": (0.5693, 0.0062),
        "sparse-autoencoder": (0.5446, 0.0033),
        "slr-avd": (0.5428, 0.0490),
        "choqolate": (0.6415, 0.0025),
    },
    "cub": {
        "pcbm": (0.1859, 0.1138),
        "pscbm": (0.3584, 0.1226),
        "sparse-autoencoder": (0.2732, 0.0147),
        "slr-avd": (0.1941, 0.1001),
        "choqolate": (0.3420, 0.0156),
    },
}
"""``tab:results_acc``: data set, method."""

QUALITY: dict[str, dict[str, tuple[Published, Published]]] = {
    "cats-dogs-cars": {
        "pcbm": ((0.386, 0.021), (0.549, 0.011)),
        "pscbm": ((0.394, 0.034), (0.612, 0.059)),
        "sparse-autoencoder": ((0.398, 0.013), (0.558, 0.009)),
        "slr-avd": ((0.394, 0.031), (0.550, 0.012)),
        "choqolate": ((0.924, 0.012), (0.680, 0.020)),
    },
    "monumai": {
        "pcbm": ((0.349, 0.034), (0.478, 0.021)),
        "pscbm": ((0.394, 0.032), (0.583, 0.052)),
        "sparse-autoencoder": ((0.345, 0.020), (0.511, 0.013)),
        "slr-avd": ((0.356, 0.031), (0.478, 0.025)),
        "choqolate": ((0.701, 0.076), (0.487, 0.036)),
    },
    "coco": {
        "pcbm": ((0.404, 0.086), (0.408, 0.005)),
        "pscbm": ((0.407, 0.010), (0.233, 0.010)),
        "sparse-autoencoder": ((0.422, 0.019), (0.399, 0.004)),
        "slr-avd": ((0.425, 0.061), (0.408, 0.005)),
        "choqolate": ((0.779, 0.017), (0.409, 0.006)),
    },
    "cub": {
        "pcbm": ((0.482, 0.088), (0.303, 0.016)),
        "pscbm": ((0.390, 0.007), (0.385, 0.029)),
        "sparse-autoencoder": ((0.433, 0.006), (0.303, 0.002)),
        "slr-avd": ((0.321, 0.068), (0.289, 0.009)),
        "choqolate": ((0.982, 0.006), (0.490, 0.051)),
    },
}
"""``tab:quality``: data set, method; attribution Gini and node coherence."""

INFORMATION: dict[str, dict[str, tuple[Published, Published]]] = {
    "cats-dogs-cars": {
        "pcbm": ((0.588, 0.130), (0.389, 0.262)),
        "pscbm": ((0.779, 0.009), (0.485, 0.112)),
        "sparse-autoencoder": ((0.945, 0.008), (1.084, 0.173)),
        "slr-avd": ((0.490, 0.209), (0.279, 0.301)),
        "choqolate": ((0.924, 0.035), (0.739, 0.151)),
    },
    "monumai": {
        "pcbm": ((0.540, 0.180), (0.331, 0.272)),
        "pscbm": ((0.874, 0.015), (0.557, 0.035)),
        "sparse-autoencoder": ((0.845, 0.035), (0.710, 0.359)),
        "slr-avd": ((0.460, 0.205), (0.204, 0.233)),
        "choqolate": ((0.927, 0.024), (0.708, 0.125)),
    },
    "coco": {
        "pcbm": ((0.088, 0.051), (0.000, 0.000)),
        "pscbm": ((0.499, 0.013), (0.142, 0.041)),
        "sparse-autoencoder": ((0.769, 0.105), (0.082, 0.080)),
        "slr-avd": ((0.097, 0.040), (0.000, 0.000)),
        "choqolate": ((0.950, 0.014), (0.666, 0.139)),
    },
    "cub": {
        "pcbm": ((0.745, 0.116), (0.328, 0.220)),
        "pscbm": ((0.938, 0.011), (0.553, 0.132)),
        "sparse-autoencoder": ((0.887, 0.010), (1.113, 0.149)),
        "slr-avd": ((0.725, 0.220), (0.394, 0.316)),
        "choqolate": ((0.706, 0.047), (0.130, 0.074)),
    },
}
"""``tab:appendix_cknna_hsic``: data set, method; HSIC and CKNNA between concept scores and node values."""

TEMPERATURES: dict[float, Quality] = {
    0.001: Quality((0.6554, 0.0024), (0.377, 0.016), (0.402, 0.002)),
    0.002: Quality((0.6537, 0.0016), (0.482, 0.025), (0.403, 0.002)),
    0.005: Quality((0.6493, 0.0014), (0.694, 0.008), (0.397, 0.003)),
    0.01: Quality((0.6360, 0.0041), (0.828, 0.011), (0.410, 0.008)),
    0.05: Quality((0.5193, 0.0080), (0.968, 0.003), (0.457, 0.029)),
    0.1: Quality((0.5105, 0.0119), (0.973, 0.006), (0.462, 0.030)),
    1.0: Quality((0.4938, 0.0062), (0.955, 0.013), (0.435, 0.018)),
}
"""``tab:ablation_temp``: CHOQOLATE on COCO without l1, by the temperature of the cross-entropy."""

CLASSES: dict[int, Quality] = {
    5: Quality((0.8652, 0.0246), (0.365, 0.158), (0.430, 0.007)),
    10: Quality((0.8840, 0.0192), (0.467, 0.072), (0.397, 0.003)),
    20: Quality((0.8847, 0.0128), (0.732, 0.017), (0.354, 0.009)),
    50: Quality((0.7605, 0.0094), (0.844, 0.016), (0.307, 0.010)),
    100: Quality((0.6758, 0.0100), (0.876, 0.015), (0.318, 0.009)),
    200: Quality((0.5456, 0.0086), (0.910, 0.012), (0.322, 0.003)),
}
"""``tab:ablation_nclasses``: CHOQOLATE on CUB, by the number of classes."""

COMPONENTS: tuple[Component, ...] = (
    Component(True, False, False, False, False, Quality((0.6311, 0.0038), (0.416, 0.009), (0.397, 0.005))),
    Component(True, False, False, False, True, Quality((0.6312, 0.0045), (0.418, 0.005), (0.395, 0.001))),
    Component(True, False, True, False, False, Quality((0.6485, 0.0022), (0.691, 0.018), (0.402, 0.003))),
    Component(True, True, False, False, False, Quality((0.5690, 0.0160), (0.425, 0.013), (0.393, 0.003))),
    Component(True, True, True, False, False, Quality((0.6493, 0.0014), (0.694, 0.008), (0.397, 0.003))),
    Component(True, True, True, True, False, Quality((0.6443, 0.0029), (0.767, 0.009), (0.411, 0.003))),
    Component(True, True, True, False, True, Quality((0.4291, 0.0344), (0.001, 0.000), (0.415, 0.000))),
    Component(True, True, False, True, False, Quality((0.5556, 0.0205), (0.450, 0.021), (0.389, 0.004))),
)
"""``tab:ablation_table``: CHOQOLATE on COCO, row by row."""

BIAS: dict[str, dict[str, tuple[Published, Published]]] = {
    "waterbirds": {
        "baseline": ((0.8456, 0.0104), (0.4651, 0.0287)),
        "oracle": ((0.8842, 0.0061), (0.6028, 0.0349)),
        "rescale": ((0.8952, 0.0112), (0.6826, 0.1014)),
        "ortho-proj": ((0.8852, 0.0108), (0.5882, 0.0368)),
        "ortho-cali": ((0.8861, 0.0033), (0.6414, 0.0211)),
        "dfr": ((0.8565, 0.0202), (0.5315, 0.0884)),
        "group-dro": ((0.8209, 0.0268), (0.6734, 0.0946)),
    },
    "celeba": {
        "baseline": ((0.8921, 0.0028), (0.2389, 0.0272)),
        "oracle": ((0.9181, 0.0015), (0.3222, 0.0145)),
        "rescale": ((0.9244, 0.0153), (0.3778, 0.1199)),
        "ortho-proj": ((0.9165, 0.0067), (0.3200, 0.0333)),
        "ortho-cali": ((0.8944, 0.0047), (0.1144, 0.0418)),
        "dfr": ((0.8701, 0.0155), (0.3789, 0.0291)),
        "group-dro": ((0.8554, 0.0145), (0.4722, 0.0320)),
    },
}
"""``tab:bias_mitigation``: data set, method; accuracy and worst-group accuracy. ``rescale`` is the paper's edit."""

SIGNIFICANCE: dict[str, dict[str, tuple[tuple[float, str], tuple[float, str]]]] = {
    "cats-dogs-cars": {
        "pcbm": ((1.37, "<0.001"), (0.23, "<0.001")),
        "pscbm": ((1.35, "<0.001"), (0.12, "<0.001")),
        "sparse-autoencoder": ((1.33, "<0.001"), (0.21, "<0.001")),
        "slr-avd": ((1.35, "<0.001"), (0.23, "<0.001")),
    },
    "monumai": {
        "pcbm": ((0.99, "<0.001"), (0.01, "0.231")),
        "pscbm": ((0.83, "<0.001"), (-0.13, "1.000")),
        "sparse-autoencoder": ((1.10, "<0.001"), (-0.05, "0.994")),
        "slr-avd": ((1.04, "<0.001"), (0.02, "0.157")),
    },
    "coco": {
        "pcbm": ((1.06, "<0.001"), (0.01, "0.579")),
        "pscbm": ((0.91, "<0.001"), (0.76, "<0.001")),
        "sparse-autoencoder": ((0.85, "<0.001"), (0.02, "<0.001")),
        "slr-avd": ((0.85, "<0.001"), (0.01, "0.505")),
    },
    "cub": {
        "pcbm": ((1.07, "<0.001"), (0.64, "<0.001")),
        "pscbm": ((1.53, "<0.001"), (0.29, "<0.001")),
        "sparse-autoencoder": ((1.27, "<0.001"), (0.63, "<0.001")),
        "slr-avd": ((2.13, "<0.001"), (0.73, "<0.001")),
    },
}
"""``tab:significance_old``: data set, baseline; delta and p of attribution Gini, then of node coherence."""


def accuracy(data: str, method: str) -> Published | None:
    """Mean and standard deviation of the accuracy, a share; ``None`` where the paper has no number."""
    return ACCURACY.get(data, {}).get(method) or _one_of_two(BIAS, data, method, 0)


def worst_group(data: str, method: str) -> Published | None:
    """The same of the accuracy of the worst group."""
    return _one_of_two(BIAS, data, method, 1)


def gini(data: str, method: str) -> Published | None:
    """The same of the attribution Gini."""
    return _one_of_two(QUALITY, data, method, 0)


def coherence(data: str, method: str) -> Published | None:
    """The same of the node coherence."""
    return _one_of_two(QUALITY, data, method, 1)


def hsic(data: str, method: str) -> Published | None:
    """The same of the HSIC between concept scores and node values."""
    return _one_of_two(INFORMATION, data, method, 0)


def cknna(data: str, method: str) -> Published | None:
    """The same of the CKNNA between concept scores and node values."""
    return _one_of_two(INFORMATION, data, method, 1)


def published(metric: str, data: str, method: str) -> Published | None:
    """The same of a metric by its name; ``None`` also for a metric that the paper does not give.

    >>> published("coherence", "monumai", "pscbm"), published("parameters", "monumai", "pscbm")
    ((0.583, 0.052), None)
    """
    known = dict(accuracy=accuracy, worst_group=worst_group, gini=gini, coherence=coherence, hsic=hsic, cknna=cknna)
    return known[metric](data, method) if metric in known else None


def significance(metric: str, data: str, baseline: str) -> Significance | None:
    """Whether CHOQOLATE's ``"gini"`` or ``"coherence"`` lies above a baseline's.

    >>> significance("coherence", "monumai", "sparse-autoencoder")
    Significance(delta=-0.05, p='0.994')
    """
    pair = SIGNIFICANCE.get(data, {}).get(baseline)
    metrics = ("gini", "coherence")
    return Significance(*pair[metrics.index(metric)]) if pair and metric in metrics else None


def _one_of_two(
    table: Mapping[str, Mapping[str, tuple[Published, Published]]], data: str, method: str, place: int
) -> Published | None:
    pair = table.get(data, {}).get(method)
    return pair[place] if pair else None
