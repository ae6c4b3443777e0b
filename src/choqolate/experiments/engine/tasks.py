"""Pieces of work for the runner: settings that are trained together on one source, for any number of seeds."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from choqolate.analysis.control_tables import NAMES
from choqolate.concepts.embedding import Embeddings
from choqolate.data.scores import ConceptScores
from choqolate.debiasing.registry import DEBIASING, Case, missing
from choqolate.errors import ChoqolateError, SmallRemainderWarning
from choqolate.estimators.table_training import fit_scores_runs, package_versions
from choqolate.experiments.engine.experiment import RunSetting
from choqolate.experiments.engine.measures import Metrics, measure_removal, measuring, recurrence
from choqolate.experiments.engine.methods import Parameters, find_method
from choqolate.experiments.engine.results import Run
from choqolate.experiments.engine.sources import (
    Source,
    control_problem,
    fingerprint,
    load_control,
    load_embeddings,
)

Config = dict[str, Any]
PROTOCOL = 4
"""Goes up when methods, tuning or measures change, so that runs from before and after are not mixed."""
DRAWS = 5
"""Number of different draws of a control; seeds share them in turn."""


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
    """A setting, all parameters to train it with, and what tells its runs from all others."""

    setting: RunSetting
    parameters: Parameters
    config: Config

    @classmethod
    def on(cls, source: Source, setting: RunSetting, chosen: Parameters | None = None) -> Asked:
        """The setting on a source: its runs are known by the data, the method and what is not as usual.

        Args:
            source: the scores.
            setting: which one.
            chosen: what was chosen on validation rows of the parameters that the setting leaves open.
        """
        method = find_method(setting.method)
        parameters = dict(chosen or {}) | dict(setting.parameters)
        config: Config = {"protocol": PROTOCOL, "data": variant_of(source, setting).config(), "method": setting.method}
        config |= {"parameters": method.unusual(parameters)} | ({"code": method.code} if method.code else {})
        if setting.debiasing is not None:
            config |= _vectors(source, setting.debiasing) | {"debiasing": setting.debiasing}
        if setting.control is not None:
            config |= {"control": setting.control} | _drawn_from(source, setting.control)
        return cls(setting, parameters, config)


def _vectors(source: Source, way: str) -> Config:
    """What projections depend on: whose vectors they are, and what spurious words are paired with."""
    if not DEBIASING[way].needs.embeddings or source.embeddings is None:
        return {}
    encoder = Embeddings.load(source.embeddings).folder.backbone.identity
    return {"encoder": encoder, "subjects": list(source.subjects)}


def _drawn_from(source: Source, kind: str) -> Config:
    """What a control depends on: names on another table if there is one, all else on the vectors of the images."""
    if source.others is not None and kind == NAMES:
        return {"others": fingerprint(ConceptScores.load(source.others))[:16]}
    return {} if source.embeddings is None else {"encoder": Embeddings.load(source.embeddings).folder.backbone.identity}


def variant_of(source: Source, setting: RunSetting) -> Source:
    """The source with as many classes and concepts as the setting wants."""
    n_classes = source.n_classes if setting.n_classes is None else setting.n_classes
    return replace(source, n_classes=n_classes, core_only=source.core_only or setting.core_only)


def unmet(source: Source, setting: RunSetting) -> str | None:
    """What a source lacks that a setting needs, in words; ``None`` if it lacks nothing."""
    if setting.core_only and not source.load().spurious:
        return "needs concepts that are marked as spurious"
    if setting.debiasing is None:
        without = "n_nodes" in setting.parameters and setting.parameters["n_nodes"] is None
        if without and find_method(setting.method).needs_nodes:
            return "needs nodes"
        return None if setting.control is None else control_problem(source, setting.control)
    way, table = DEBIASING[setting.debiasing], source.load()
    lack = missing(way, Case((), table, table.spurious, {}, load_embeddings(source), images=source.images))
    return None if lack is None else lack.removeprefix(f"{way.title} ")


def pieces(source: Source, asked: Iterable[Asked]) -> list[Piece]:
    """Settings grouped by what can be trained together; the order is that of the first of each group."""
    groups: dict[str, list[Asked]] = {}
    for one in asked:
        groups.setdefault(json.dumps(_common(one), sort_keys=True, default=str), []).append(one)
    return [Piece(source, tuple(members)) for members in groups.values()]


def _common(asked: Asked) -> list[Any]:
    """What settings have in common that are trained together.

    Ways of debiasing start from the same models. All else shares its work only where the method trains parameters side
    by side.
    """
    setting = asked.setting
    place = [setting.method, setting.n_classes, setting.core_only, setting.debiasing is not None, setting.control]
    if setting.debiasing is not None:
        return [*place, dict(asked.parameters)]
    aside = find_method(setting.method).side_by_side
    own = {name: value for name, value in asked.parameters.items() if name not in aside}
    return [*place, own, sorted(set(asked.parameters) & set(aside))]


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

    def seeds(self, wanted: Sequence[int]) -> tuple[int, ...]:
        """Those of some seeds that are worth running."""
        return find_method(self.asked[0].setting.method).seeds(wanted)

    def part(self, places: Sequence[int]) -> Piece:
        return replace(self, asked=tuple(self.asked[place] for place in places))

    def run(self, seeds: Sequence[int]) -> Done:
        start = time.perf_counter()
        first = self.asked[0].setting
        work = _train if first.debiasing is None else _debias
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallRemainderWarning)  # no news among many runs
            found = work(variant_of(self.source, first), self.asked, seeds)
        done = {place: models for place, models in enumerate(found) if not isinstance(models, str)}
        configs = [self.asked[place].config for place in done]
        problems = {place: why for place, why in enumerate(found) if isinstance(why, str)}
        return Done(_runs(configs, seeds, list(done.values()), time.perf_counter() - start), problems)


class _Measured(NamedTuple):
    metrics: Metrics
    chosen: Mapping[str, Any]


def _train(source: Source, asked: Sequence[Asked], seeds: Sequence[int]) -> list[list[_Measured] | str]:
    """Train a method in several settings; on controls, each draw with its share of the seeds."""
    method, kind = find_method(asked[0].setting.method), asked[0].setting.control
    original = replace(source, core_only=False).load() if source.core_only else None
    found: list[dict[int, _Measured]] = [{} for _ in asked]
    for draw, own in _by_draw(seeds, kind is not None).items():
        table = source.load() if kind is None else load_control(source, kind, draw)
        measure = measuring(table, original=original)
        trained = method.train(table.part("train"), own, [one.parameters for one in asked])
        for measured, models in zip(found, trained, strict=True):
            for seed, model, again in zip(own, models, recurrence(models), strict=True):
                measured[seed] = _Measured(measure(model) | measure_removal(model, table) | again, {})
    return [[measured[seed] for seed in seeds] for measured in found]


def _by_draw(seeds: Sequence[int], is_control: bool) -> dict[int, list[int]]:
    """The seeds that share a draw of a control."""
    if not is_control:
        return {0: list(seeds)}
    return {draw: [seed for seed in seeds if seed % DRAWS == draw] for draw in dict.fromkeys(k % DRAWS for k in seeds)}


def _debias(source: Source, asked: Sequence[Asked], seeds: Sequence[int]) -> list[list[_Measured] | str]:
    """Train CHOQOLATE once, then do each thing that may free it from a bias; a text where that cannot be done."""
    case = _bias_case(source, asked[0].parameters, seeds)
    found: list[list[_Measured] | str] = []
    for one in asked:
        assert one.setting.debiasing is not None
        try:
            models, table = DEBIASING[one.setting.debiasing].apply(case)
        except ChoqolateError as error:  # of this way alone, such as a word that the encoder does not know
            found.append(str(error))
            continue
        measure = measuring(table, information=False, original=case.table)
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
        images=source.images,
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
