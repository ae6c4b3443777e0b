"""The methods that are compared, ours and the baselines, all trained many settings and seeds at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from choqolate._util.checks import find_named
from choqolate.analysis.trade_off import CEILING_L2, REFIT_L2
from choqolate.baselines import (
    PCBM,
    PSCBM,
    SLRAVD,
    Bottleneck,
    LogisticLasso,
    LogisticRidge,
    SparseAutoencoder,
    fit_together,
)
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.estimators.seed_runs import fit_runs
from choqolate.experiments.engine.own_methods import load_own
from choqolate.explain.model_protocols import ConceptModel
from choqolate.network.batches import epochs_for

Parameters = Mapping[str, Any]
TEMPERATURES = (0.005, 0.02, 0.05, 0.1)  # the first is the paper's
AUTO_TEMPERATURES = (0.002, 0.005, 0.01, 0.02, 0.05)
AUTO_FORMS = ({"interactions": "pairwise"}, {"interactions": "none"}, {"interactions": "none", "bipolar": True})
RATES = (0.001, 0.01, 0.1)
PENALTIES = (1e-5, 5e-5, 2e-4, 1e-3, 3e-3, 1e-2)  # PCBM's authors use 1e-5 and, on CUB, 2e-4
STRENGTHS = tuple(0.7 * 0.5**k for k in range(10))  # of the l1 penalty, from half of the classes empty to nearly dense
OF_NODES = ("n_nodes", "steps", "batch_size", "epochs")
AUTO_START: Parameters = {"init": "clusters", "schedule": "cosine"}
BUDGET, USUAL_BATCH = ("steps", "batch_size"), ChoqolateClassifier().batch_size
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
        ignored: parameters of a comparison that the method goes without.
        needs_nodes: whether it cannot connect concepts to classes directly.
        deterministic: whether it is the same for all seeds; it is run for the first one then.
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
    ignored: tuple[str, ...] = ()
    needs_nodes: bool = False
    deterministic: bool = False
    code: str = ""

    def seeds(self, wanted: Sequence[int]) -> tuple[int, ...]:
        """Those of some seeds that are worth running."""
        return tuple(wanted)[:1] if self.deterministic else tuple(wanted)

    def unusual(self, setting: Parameters) -> dict[str, Any]:
        """Those of some parameters that differ from the defaults: what a run is known by."""
        unsaid = object()
        said = {name: value for name, value in setting.items() if name not in self.ignored}
        return {name: value for name, value in said.items() if self.defaults.get(name, unsaid) != value}


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


def _train_paper(rows: ConceptScores, seeds: Sequence[int], settings: Sequence[Parameters]) -> list[list[ConceptModel]]:
    """The paper's number of epochs and rows per step, whatever the others have."""
    own = [{name: value for name, value in setting.items() if name not in BUDGET} for setting in settings]
    return _train_ours(rows, seeds, own)


def _train_auto(rows: ConceptScores, seeds: Sequence[int], settings: Sequence[Parameters]) -> list[list[ConceptModel]]:
    """The start and the schedule of the search behind ``"auto"``, and the same number of steps as the baselines."""
    return _train_ours(rows, seeds, [dict(AUTO_START) | in_epochs(setting, len(rows)) for setting in settings])


def in_epochs(setting: Parameters, n_rows: int) -> dict[str, Any]:
    """A setting with its budget in epochs instead of steps.

    >>> in_epochs({"n_nodes": 4, "steps": 1_000}, n_rows=1_600)
    {'n_nodes': 4, 'epochs': 250}
    """
    rest = {name: value for name, value in setting.items() if name != "steps"}
    if setting.get("steps") is None:
        return rest
    return rest | {"epochs": epochs_for(setting["steps"], n_rows, rest.get("batch_size", USUAL_BATCH))}


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


def _train_logistic(
    estimator: type[Bottleneck], rows: ConceptScores, seeds: Sequence[int], settings: Sequence[Parameters]
) -> list[list[ConceptModel]]:
    """One model for all seeds; what a comparison sets for methods with nodes is left out."""
    wanted = [{name: value for name, value in one.items() if name not in OF_NODES} for one in settings]
    fitted = fit_together([estimator(**one) for one in wanted], rows.frame, rows.labels)
    return [[model] * len(seeds) for model in fitted]


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
        _train_paper,
        dials={"temperature": TEMPERATURES},
        defaults=ChoqolateClassifier().get_params(),
        side_by_side=_OURS,
        ignored=BUDGET,
    )


def _auto() -> Method:
    return Method(
        "choqolate-auto",
        "CHOQOLATE, auto",
        _train_auto,
        grid={"temperature": AUTO_TEMPERATURES},
        variants=AUTO_FORMS,
        defaults=ChoqolateClassifier(**AUTO_START).get_params(),
        side_by_side=_OURS,
    )


def _baseline(
    name: str,
    title: str,
    estimator: type[Bottleneck],
    rates: Sequence[float] = RATES,
    penalties: Sequence[float] = PENALTIES,
    variants: Sequence[Parameters] = ({},),
    needs_nodes: bool = False,
) -> Method:
    grid = {"learning_rate": rates, "penalty": penalties}
    train, defaults = partial(_train_baseline, estimator), estimator().get_params()
    return Method(name, title, train, grid, {}, variants, defaults, side_by_side=_BASELINES, needs_nodes=needs_nodes)


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        _ours(),
        _auto(),
        _baseline("pcbm", "PCBM", PCBM),
        _baseline(
            "pscbm",
            "PSCBM",
            PSCBM,
            penalties=(7e-5, 7e-4, 7e-3, 7e-2),
            variants=({"min_score": 0.20}, {"min_score": None}),
        ),
        _baseline(
            "sparse-autoencoder",
            "Sparse AE",
            SparseAutoencoder,
            (0.001, 0.01, 0.03),
            (1e-4, 3e-4, 1e-3),
            needs_nodes=True,
        ),
        _baseline("slr-avd", "SLR-AVD", SLRAVD),
    )
}
"""Ours first, as in the paper and with settings chosen on validation rows, then the baselines in the paper's order."""


def _rival(name: str, title: str, estimator: type[Bottleneck], grid: Mapping[str, Sequence[Any]]) -> Method:
    train, defaults = partial(_train_logistic, estimator), estimator().get_params()
    return Method(
        name, title, train, grid, defaults=defaults, side_by_side=tuple(grid), ignored=OF_NODES, deterministic=True
    )


RIVALS: dict[str, Method] = {
    method.name: method
    for method in (
        _rival("logistic", "Logistic regression, all scores", LogisticRidge, {"penalty": CEILING_L2}),
        _rival("l1-logistic", "l1 logistic regression", LogisticLasso, {"strength": STRENGTHS}),
        _rival(
            "l1-logistic-refitted",
            "l1 logistic regression, refitted",
            LogisticLasso,
            {"strength": STRENGTHS, "refit": REFIT_L2},
        ),
    )
}
"""Without nodes: the ceiling, and what is to be beaten in accuracy for the number of concepts per class."""


def check_methods(names: Iterable[str]) -> None:
    """Find out before the work that a method is unknown, or that tables could not tell two of them apart.

    Raises:
        ChoqolateError: as :func:`find_method`, or if two methods have the same title.
    """
    known = {method.title: name for name, method in (METHODS | RIVALS).items()}
    for name in names:
        title = find_method(name).title
        if known.setdefault(title, name) != name:
            raise ChoqolateError(
                f"Expected methods with different titles, but {known[title]} and {name} are both called {title!r}. "
                "Give one of the classes another attribute title."
            )


def find_method(name: str) -> Method:
    """A method by its name; or an estimator of one's own, as ``module:Class``.

    Raises:
        ChoqolateError: for an unknown name, or an estimator that lacks what is measured.

    >>> find_method("pcbm").title
    'PCBM'
    """
    if ":" not in name:
        return find_named(name, METHODS | RIVALS, "an estimator of your own as module:Class, or a method")
    own = load_own(name)
    return Method(name, own.title, own.train, own.grid, own.dials, code=own.code)
