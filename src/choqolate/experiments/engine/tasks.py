"""Pieces of work for the runner: what to train and measure, for any number of seeds."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from choqolate.concepts.embedding import Embeddings
from choqolate.debiasing.ways import DEBIASING, Case, missing
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.estimators.table_training import fit_scores_runs, package_versions
from choqolate.experiments.engine.measures import Metrics, measuring
from choqolate.experiments.engine.methods import Method, Parameters, find_method
from choqolate.experiments.engine.results import Run
from choqolate.experiments.engine.sources import Source, load_embeddings
from choqolate.experiments.engine.tuning import open_grid, tune

Config = dict[str, Any]
PROTOCOL = 1
"""Goes up when methods, tuning or measures change, so that runs from before and after are not mixed."""


class Done(NamedTuple):
    """What came of a task: the runs, and for configs that cannot be run on these data, by their place, why."""

    runs: list[Run]
    problems: dict[int, str]


class Task(Protocol):
    """Something to do once for each seed, with one or several results a seed."""

    @property
    def label(self) -> str:
        """In a few words, for people who wait."""

    def configs(self) -> list[Config]:
        """What tells each of the results from all others."""

    def part(self, places: Sequence[int]) -> Task:
        """The same for some of the configs alone."""

    def run(self, seeds: Sequence[int]) -> Done:
        """Train and measure; raises :class:`ChoqolateError` if nothing of it can be done on these data."""


@dataclass(frozen=True)
class Training:
    """Train a method in one or several settings; what these leave open is chosen on validation rows.

    Attributes:
        source: the data.
        method: see :func:`~choqolate.experiments.engine.methods.find_method`.
        settings: parameters of the estimator, with one result each.
        rule: how open parameters are chosen, see :func:`~choqolate.experiments.engine.tuning.tune`.
        tuned_at: the parameters that are set while others are chosen, the same for all settings.
    """

    source: Source
    method: str
    settings: tuple[Parameters, ...] = ({},)  # never written to
    rule: str = "accuracy"
    tuned_at: Parameters = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"{self.method} on {self.source.title}"

    def configs(self) -> list[Config]:
        common = {"protocol": PROTOCOL, "data": self.source.config(), "method": self.method, "rule": self.rule}
        method = find_method(self.method)
        if method.code:
            common |= {"code": method.code}
        return [common | self._parameters(method, setting) for setting in self.settings]

    def _parameters(self, method: Method, setting: Parameters) -> Config:
        own, tuned_at = method.unusual(setting), method.unusual(self.tuned_at)
        counts = open_grid(method, self.rule) and tuned_at != own
        return {"parameters": own} | ({"tuned_at": tuned_at} if counts else {})

    def part(self, places: Sequence[int]) -> Training:
        return replace(self, settings=tuple(self.settings[place] for place in places))

    def run(self, seeds: Sequence[int]) -> Done:
        start = time.perf_counter()
        table, method = self.source.load(), find_method(self.method)
        with _usual_warnings():
            chosen = dict(tune(method, table, self.tuned_at, self.rule)[0].parameters)
            settings = [chosen | dict(setting) for setting in self.settings]
            outcomes = method.train(table.part("train"), seeds, settings)
            measure = measuring(table)
            measured = [[_Measured(measure(model), chosen) for model in models] for models in outcomes]
        return Done(_runs(self.configs(), seeds, measured, time.perf_counter() - start), {})


@dataclass(frozen=True)
class Mitigation:
    """Train CHOQOLATE, then do all that may free it from a bias.

    Attributes:
        source: the data, with groups and spurious concepts.
        parameters: of the classifier.
        ways: names in ``DEBIASING``.
    """

    source: Source
    ways: tuple[str, ...]
    parameters: Parameters = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"debiasing on {self.source.title}"

    def configs(self) -> list[Config]:
        common = {"protocol": PROTOCOL, "data": self.source.config(), "method": "choqolate"}
        common |= {"parameters": find_method("choqolate").unusual(self.parameters)}
        return [common | self._vectors(way) | {"debiasing": way} for way in self.ways]

    def _vectors(self, way: str) -> Config:
        """What projections depend on: whose vectors they are, and what spurious words are paired with."""
        if not DEBIASING[way].needs.embeddings or self.source.embeddings is None:
            return {}
        encoder = Embeddings.load(self.source.embeddings).folder.backbone.identity
        return {"encoder": encoder, "subjects": list(self.source.subjects)}

    def part(self, places: Sequence[int]) -> Mitigation:
        return replace(self, ways=tuple(self.ways[place] for place in places))

    def run(self, seeds: Sequence[int]) -> Done:
        start = time.perf_counter()
        with _usual_warnings():
            case = bias_case(self.source, self.parameters, seeds)
            measured, done, problems = [], [], {}
            for place, (way, config) in enumerate(zip(self.ways, self.configs(), strict=True)):
                try:
                    models, table = DEBIASING[way].apply(case)
                except ChoqolateError as error:  # of this way alone, such as a word that the encoder does not know
                    problems[place] = str(error)
                    continue
                measure = measuring(table, information=False)
                measured.append([_Measured(measure(m), m.provenance_.debiasing or {}) for m in models])
                done.append(config)
        return Done(_runs(done, seeds, measured, time.perf_counter() - start), problems)


def bias_case(source: Source, parameters: Parameters, seeds: Sequence[int]) -> Case:
    """Models trained on a biased table, and all that a way to free them of the bias may need."""
    table = source.load()
    models = fit_scores_runs(table, seeds, device="cpu", **parameters)
    return Case(
        models=tuple(models),
        table=table,
        spurious=table.spurious,
        parameters=dict(parameters) | {"device": "cpu"},
        embeddings=load_embeddings(source),
        subjects=source.subjects or table.classes,
    )


def possible_ways(source: Source) -> tuple[list[str], dict[str, str]]:
    """The ways to mitigate a bias whose needs a source meets, and what the others lack."""
    case = Case((), source.load(), source.load().spurious, {}, load_embeddings(source))
    lacking = {name: missing(way, case) for name, way in DEBIASING.items()}
    return [name for name, lack in lacking.items() if lack is None], {n: lack for n, lack in lacking.items() if lack}


class _Measured(NamedTuple):
    metrics: Metrics
    chosen: Mapping[str, Any]


def _runs(
    configs: Sequence[Config], seeds: Sequence[int], measured: Sequence[Sequence[_Measured]], seconds: float
) -> list[Run]:
    """One run for each seed of each config; the time is that of all of them."""
    versions, shared = package_versions(), len(seeds) * len(configs)
    return [
        Run(config, seed, dict(metrics), seconds, shared, versions, dict(chosen))
        for config, of_config in zip(configs, measured, strict=True)
        for seed, (metrics, chosen) in zip(seeds, of_config, strict=True)
    ]


@contextmanager
def _usual_warnings() -> Iterator[None]:
    """What is no news among many runs: nodes of which a removal leaves little."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "little is left of some nodes", ChoqolateWarning)
        yield
