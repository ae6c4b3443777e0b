"""Pieces of work for the runner: settings that are trained together on one source, for any number of seeds."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from choqolate.concepts.embedding import Embeddings
from choqolate.debiasing.registry import DEBIASING, Case, missing
from choqolate.errors import ChoqolateError, SmallRemainderWarning
from choqolate.estimators.table_training import fit_scores_runs, package_versions
from choqolate.experiments.engine.experiment import RunSetting
from choqolate.experiments.engine.measures import Metrics, measuring
from choqolate.experiments.engine.methods import Method, Parameters, find_method
from choqolate.experiments.engine.results import Run
from choqolate.experiments.engine.sources import Source, load_embeddings
from choqolate.experiments.engine.tuning import is_tuned, open_grid, tune

Config = dict[str, Any]
PROTOCOL = 1
"""Goes up when methods, tuning or measures change, so that runs from before and after are not mixed."""


class Done(NamedTuple):
    """What came of a task: the runs, and for configs that cannot be run on these data, by their place, why."""

    runs: list[Run]
    problems: dict[int, str]


class Task(Protocol):
    """Something to do once for each seed, with one or several results per seed."""

    @property
    def label(self) -> str:
        """In a few words, for people who wait."""

    def configs(self) -> list[Config]:
        """What tells each of the results from all others."""

    def part(self, places: Sequence[int]) -> Task:
        """The same for some of the configs alone."""

    def run(self, seeds: Sequence[int]) -> Done:
        """Train and measure; raises :class:`ChoqolateError` if nothing of it can be done on these data."""


class Asked(NamedTuple):
    """A setting, and what tells its runs from all others."""

    setting: RunSetting
    config: Config

    @classmethod
    def on(cls, source: Source, setting: RunSetting) -> Asked:
        """The setting on a source: its runs are known by the data, the method and what is not as usual."""
        method = find_method(setting.method)
        config: Config = {"protocol": PROTOCOL, "data": _variant(source, setting).config(), "method": setting.method}
        parameters = {"parameters": method.unusual(setting.parameters)}
        if setting.debiasing is not None:
            vectors = _vectors(source, setting.debiasing)
            return cls(setting, config | parameters | vectors | {"debiasing": setting.debiasing})
        config |= {"rule": setting.rule} | ({"code": method.code} if method.code else {})
        return cls(setting, config | parameters | _tuned_at(method, setting))


def _tuned_at(method: Method, setting: RunSetting) -> Config:
    """The parameters that were set while others were chosen, if any were chosen and with other values than trained."""
    tuned_at = method.unusual(setting.tuned_at)
    counts = open_grid(method, setting.rule) and tuned_at != method.unusual(setting.parameters)
    return {"tuned_at": tuned_at} if counts else {}


def _vectors(source: Source, way: str) -> Config:
    """What projections depend on: whose vectors they are, and what spurious words are paired with."""
    if not DEBIASING[way].needs.embeddings or source.embeddings is None:
        return {}
    encoder = Embeddings.load(source.embeddings).folder.backbone.identity
    return {"encoder": encoder, "subjects": list(source.subjects)}


def _variant(source: Source, setting: RunSetting) -> Source:
    return source if setting.n_classes is None else replace(source, n_classes=setting.n_classes)


def unmet(source: Source, setting: RunSetting) -> str | None:
    """What a source lacks that a setting needs, in words; ``None`` if it lacks nothing."""
    if setting.debiasing is None:
        return None
    way, table = DEBIASING[setting.debiasing], source.load()
    lack = missing(way, Case((), table, table.spurious, {}, load_embeddings(source)))
    return None if lack is None else lack.removeprefix(f"{way.title} ")


def pieces(source: Source, asked: Iterable[Asked]) -> list[Piece]:
    """Settings grouped by what can be trained together; the order is that of the first of each group."""
    groups: dict[str, list[Asked]] = {}
    for one in asked:
        groups.setdefault(json.dumps(_common(one.setting), sort_keys=True, default=str), []).append(one)
    return [Piece(source, tuple(members)) for members in groups.values()]


def _common(setting: RunSetting) -> list[Any]:
    """What settings have in common that are trained together.

    Ways of debiasing start from the same models. What is chosen on validation rows is chosen once for all settings that
    rest on it. All else shares its work only where the method trains parameters side by side.
    """
    method = find_method(setting.method)
    place = [setting.method, setting.n_classes, setting.rule, setting.debiasing is not None]
    if setting.debiasing is not None:
        return [*place, dict(setting.parameters)]
    if is_tuned(method, setting.rule):
        return [*place, dict(setting.tuned_at)]
    aside = method.side_by_side
    own = {name: value for name, value in setting.parameters.items() if name not in aside}
    return [*place, own, sorted(set(setting.parameters) & set(aside))]


@dataclass(frozen=True)
class Piece:
    """Settings of one source that are trained together, see :func:`pieces`."""

    source: Source
    asked: tuple[Asked, ...]

    @property
    def label(self) -> str:
        first = self.asked[0].setting
        return f"{first.method if first.debiasing is None else 'debiasing'} on {self.source.title}"

    def configs(self) -> list[Config]:
        return [one.config for one in self.asked]

    def part(self, places: Sequence[int]) -> Piece:
        return replace(self, asked=tuple(self.asked[place] for place in places))

    def run(self, seeds: Sequence[int]) -> Done:
        start = time.perf_counter()
        settings = [one.setting for one in self.asked]
        work = _train if settings[0].debiasing is None else _debias
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallRemainderWarning)  # no news among many runs
            found = work(_variant(self.source, settings[0]), settings, seeds)
        done = {place: models for place, models in enumerate(found) if not isinstance(models, str)}
        configs = [self.asked[place].config for place in done]
        problems = {place: why for place, why in enumerate(found) if isinstance(why, str)}
        return Done(_runs(configs, seeds, list(done.values()), time.perf_counter() - start), problems)


class _Measured(NamedTuple):
    metrics: Metrics
    chosen: Mapping[str, Any]


def _train(source: Source, settings: Sequence[RunSetting], seeds: Sequence[int]) -> list[list[_Measured] | str]:
    """Train a method in several settings; what these leave open is chosen once, on validation rows."""
    table, first = source.load(), settings[0]
    method = find_method(first.method)
    chosen = dict(tune(method, table, first.tuned_at, first.rule)[0].parameters)
    trained = method.train(table.part("train"), seeds, [chosen | dict(setting.parameters) for setting in settings])
    measure = measuring(table)
    return [[_Measured(measure(model), chosen) for model in models] for models in trained]


def _debias(source: Source, settings: Sequence[RunSetting], seeds: Sequence[int]) -> list[list[_Measured] | str]:
    """Train CHOQOLATE once, then do each thing that may free it from a bias; a text where that cannot be done."""
    case = _bias_case(source, settings[0].parameters, seeds)
    found: list[list[_Measured] | str] = []
    for setting in settings:
        assert setting.debiasing is not None
        try:
            models, table = DEBIASING[setting.debiasing].apply(case)
        except ChoqolateError as error:  # of this way alone, such as a word that the encoder does not know
            found.append(str(error))
            continue
        measure = measuring(table, information=False)
        found.append([_Measured(measure(model), model.provenance_.debiasing or {}) for model in models])
    return found


def _bias_case(source: Source, parameters: Parameters, seeds: Sequence[int]) -> Case:
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
