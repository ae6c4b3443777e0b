"""The methods that are compared, ours and the baselines, all trained many settings and seeds at a time."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from choqolate.baselines import PCBM, PSCBM, SLRAVD, Bottleneck, SparseAutoencoder, fit_together
from choqolate.data.provenance import Provenance
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.estimators.runs import fit_runs
from choqolate.explain.protocols import ConceptModel

Parameters = Mapping[str, Any]
RATES = (0.001, 0.01, 0.1)
PENALTIES = (1e-5, 5e-5, 2e-4, 1e-3, 3e-3, 1e-2)  # PCBM's authors use 1e-5 and, on CUB, 2e-4


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
        code: hash of the source, of a method that may change between two runs.
    """

    name: str
    title: str
    train: Callable[[ConceptScores, Sequence[int], Sequence[Parameters]], list[list[ConceptModel]]]
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    dials: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    variants: Sequence[Parameters] = ({},)
    defaults: Parameters = field(default_factory=dict)
    code: str = ""

    def unusual(self, setting: Parameters) -> dict[str, Any]:
        """Those of some parameters that differ from the defaults: what a run is known by."""
        unsaid = object()
        return {name: value for name, value in setting.items() if self.defaults.get(name, unsaid) != value}


def _train_ours(rows: ConceptScores, seeds: Sequence[int], settings: Sequence[Parameters]) -> list[list[ConceptModel]]:
    """Settings that differ in nothing but the temperature share one pass over the data."""
    trained: dict[int, list[ConceptModel]] = {}
    for shared, members in _alike(settings, ("temperature",)):
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
    for _, members in _alike(settings, ("learning_rate", "penalty")):
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
    dials = {"temperature": (0.005, 0.02, 0.05, 0.1)}
    return Method("choqolate", "CHOQOLATE", _train_ours, dials=dials, defaults=ChoqolateClassifier().get_params())


def _baseline(
    name: str,
    title: str,
    estimator: type[Bottleneck],
    rates: Sequence[float] = RATES,
    penalties: Sequence[float] = PENALTIES,
    variants: Sequence[Parameters] = ({},),
) -> Method:
    grid = {"learning_rate": rates, "penalty": penalties}
    return Method(name, title, partial(_train_baseline, estimator), grid, {}, variants, estimator().get_params())


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
    if name in METHODS:
        return METHODS[name]
    if ":" in name:
        return _own_method(name)
    close = get_close_matches(name.lower(), METHODS, n=1, cutoff=0.6)
    proposal = f": did you mean {close[0]!r}?" if close else ":"
    raise ChoqolateError(
        f"expected a known method, got {name!r}{proposal} known are {', '.join(METHODS)}; an estimator of your own is "
        "given as module:Class"
    )


def _own_method(name: str) -> Method:
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # where people keep what they are working on
    try:
        made = getattr(importlib.import_module(module), attribute)
        estimator = made() if inspect.isclass(made) else made
    except Exception as error:
        raise ChoqolateError(
            f"expected a method as module:Class that can be imported and made without arguments, {name} cannot: "
            f"{type(error).__name__}: {error}"
        ) from error
    lacking = [needed for needed in ("fit", "predict", "transform") if not callable(getattr(estimator, needed, None))]
    if lacking or not isinstance(estimator, BaseEstimator):
        came = f"it has no {lacking[0]}" if lacking else "it does not derive from sklearn.base.BaseEstimator"
        raise ChoqolateError(
            f"expected {name} to be an estimator of scikit-learn with fit, predict and transform, {came}"
        )

    def train(rows: ConceptScores, seeds: Sequence[int], settings: Sequence[Parameters]) -> list[list[ConceptModel]]:
        return [[_fit_own(estimator, name, rows, seed, setting) for seed in seeds] for setting in settings]

    source = inspect.getsourcefile(type(estimator))
    code = hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16] if source is not None else ""
    return Method(name, attribute, train, code=code)


def _fit_own(estimator: Any, name: str, rows: ConceptScores, seed: int, setting: Parameters) -> ConceptModel:
    wanted = {"random_state": seed} | dict(setting)
    known = estimator.get_params()
    model = clone(estimator).set_params(**{key: value for key, value in wanted.items() if key in known})
    try:
        model.fit(rows.frame, rows.labels)
    except Exception as error:
        raise ChoqolateError(f"{name}: its fit failed with {type(error).__name__}: {error}") from error
    shape = getattr(getattr(model, "node_attributions_", None), "shape", None)
    if shape is None or len(shape) != 2 or shape[1] != len(rows.concepts):
        raise ChoqolateError(
            f"expected {name} to have node_attributions_ of shape (nodes, {len(rows.concepts)}) after fit, got {shape}"
        )
    model.concepts_ = list(rows.concepts)
    for missing, value in (
        ("classes_", np.unique(np.asarray(rows.labels, dtype=str))),
        ("provenance_", Provenance()),
        ("class_attributions_", None),
    ):
        if not hasattr(model, missing):
            setattr(model, missing, value)
    fitted: ConceptModel = model
    return fitted
