"""The methods that are compared, ours and the baselines, all trained many settings and seeds at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from choqolate._util.checks import find_named
from choqolate.baselines import PCBM, PSCBM, SLRAVD, Bottleneck, SparseAutoencoder, fit_together
from choqolate.data.scores import ConceptScores
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.estimators.seed_runs import fit_runs
from choqolate.experiments.engine.own_methods import load_own
from choqolate.explain.model_protocols import ConceptModel

Parameters = Mapping[str, Any]
TEMPERATURES = (0.005, 0.02, 0.05, 0.1)  # the first is the paper's
RATES = (0.001, 0.01, 0.1)
PENALTIES = (1e-5, 5e-5, 2e-4, 1e-3, 3e-3, 1e-2)  # PCBM's authors use 1e-5 and, on CUB, 2e-4
_OURS, _BASELINES = ("temperature",), ("learning_rate", "penalty")  # what trains side by side


@dataclass(frozen=True)
class Method:
    """A method, and which of its parameters are chosen on validation rows.

    Attributes:
        name: short, as on the command line.
        title: as people write it.
        train: from a table, seeds and settings of the parameters to a model for every seed of every setting.
        grid: values that are tried of each parameter; empty for a method that is used as it is.
        dials: the same for parameters that trade accuracy for sparsity: tried only by the rule ``"sparsest"``.
        variants: settings that cannot be trained side by side, each tried with the whole grid.
        defaults: the parameters that the estimator has if nothing is said.
        side_by_side: parameters whose values share one pass over the data.
        code: hash of the source, of a method that may change between two runs.
    """

    name: str
    title: str
    train: Callable[[ConceptScores, Sequence[int], Sequence[Parameters]], list[list[ConceptModel]]]
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    dials: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    variants: Sequence[Parameters] = ({},)
    defaults: Parameters = field(default_factory=dict)
    side_by_side: tuple[str, ...] = ()
    code: str = ""

    def unusual(self, setting: Parameters) -> dict[str, Any]:
        """Those of some parameters that differ from the defaults: what a run is known by."""
        unsaid = object()
        return {name: value for name, value in setting.items() if self.defaults.get(name, unsaid) != value}


def _train_ours(rows: ConceptScores, seeds: Sequence[int], settings: Sequence[Parameters]) -> list[list[ConceptModel]]:
    """Settings that differ in nothing but the temperature share one pass over the data."""
    trained: dict[int, list[ConceptModel]] = {}
    for shared, members in _alike(settings, _OURS):
        temperatures = list(dict.fromkeys(settings[k]["temperature"] for k in members if "temperature" in settings[k]))
        options: dict[str, Any] = dict(shared) | ({"temperatures": temperatures} if temperatures else {})
        runs = fit_runs(rows.frame, rows.labels, seeds, device="cpu", **options)
        for k in members:
            place = temperatures.index(settings[k]["temperature"]) if "temperature" in settings[k] else 0
            trained[k] = list(runs[place * len(seeds) : (place + 1) * len(seeds)])
    return [trained[k] for k in range(len(settings))]


def _train_baseline(
    estimator: type[Bottleneck], rows: ConceptScores, seeds: Sequence[int], settings: Sequence[Parameters]
) -> list[list[ConceptModel]]:
    """Settings that differ in nothing but learning rate and penalty share one pass over the data."""
    trained: dict[int, list[ConceptModel]] = {}
    for _, members in _alike(settings, _BASELINES):
        wanted = [estimator(device="cpu", random_state=seed, **settings[k]) for k in members for seed in seeds]
        runs = fit_together(wanted, rows.frame, rows.labels)
        for place, k in enumerate(members):
            trained[k] = list(runs[place * len(seeds) : (place + 1) * len(seeds)])
    return [trained[k] for k in range(len(settings))]


def _alike(settings: Sequence[Parameters], own: Iterable[str]) -> list[tuple[Parameters, list[int]]]:
    """Settings grouped by all parameters but some; each group with what is common, and the places of its members.

    A parameter that only some members of a group would set keeps them apart.
    """
    groups: dict[str, tuple[Parameters, list[int]]] = {}
    for place, setting in enumerate(settings):
        common = {name: value for name, value in setting.items() if name not in own}
        key = json.dumps([sorted(common.items()), sorted(set(setting) & set(own))], default=str)
        groups.setdefault(key, (common, []))[1].append(place)
    return list(groups.values())


def _ours() -> Method:
    return Method(
        "choqolate",
        "CHOQOLATE",
        _train_ours,
        dials={"temperature": TEMPERATURES},
        defaults=ChoqolateClassifier().get_params(),
        side_by_side=_OURS,
    )


def _baseline(
    name: str,
    title: str,
    estimator: type[Bottleneck],
    rates: Sequence[float] = RATES,
    penalties: Sequence[float] = PENALTIES,
    variants: Sequence[Parameters] = ({},),
) -> Method:
    grid = {"learning_rate": rates, "penalty": penalties}
    train, defaults = partial(_train_baseline, estimator), estimator().get_params()
    return Method(name, title, train, grid, {}, variants, defaults, side_by_side=_BASELINES)


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        _ours(),
        _baseline("pcbm", "PCBM", PCBM),
        _baseline(
            "pscbm",
            "PSCBM",
            PSCBM,
            penalties=(7e-5, 7e-4, 7e-3, 7e-2),
            variants=({"min_score": 0.20}, {"min_score": None}),
        ),
        _baseline("sparse-autoencoder", "Sparse AE", SparseAutoencoder, (0.001, 0.01, 0.03), (1e-4, 3e-4, 1e-3)),
        _baseline("slr-avd", "SLR-AVD", SLRAVD),
    )
}
"""Ours first, then the baselines in the paper's order."""


def find_method(name: str) -> Method:
    """A method by its name; or an estimator of one's own, as ``module:Class``.

    Raises:
        ChoqolateError: for an unknown name, or an estimator that lacks what is measured.

    >>> find_method("pcbm").title
    'PCBM'
    """
    if ":" not in name:
        return find_named(name, METHODS, "an estimator of your own as module:Class, or a method")
    own = load_own(name)
    return Method(name, own.title, own.train, code=own.code)
