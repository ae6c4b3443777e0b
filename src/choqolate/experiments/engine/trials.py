"""Searches on validation rows as work for the runner: every setting that is tried is a run in the results file."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.estimators.table_training import package_versions
from choqolate.experiments.engine.methods import Parameters, find_method
from choqolate.experiments.engine.results import Run
from choqolate.experiments.engine.runner import Batch, Finished
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tasks import PROTOCOL, Config, Done
from choqolate.experiments.engine.tuning import (
    SEEDS,
    Tried,
    choose,
    settings_to_try,
    validation_accuracy,
    validation_gini,
    validation_split,
)


@dataclass(frozen=True)
class Trials:
    """Settings of one method that are trained together and measured on validation rows.

    Attributes:
        source: the scores.
        method: see :func:`~choqolate.experiments.engine.methods.find_method`.
        settings: all parameters of each, fixed ones included.
    """

    source: Source
    method: str
    settings: tuple[Parameters, ...]

    @property
    def label(self) -> str:
        return f"tuning {find_method(self.method).title} on {self.source.title}"

    def configs(self) -> list[Config]:
        method = find_method(self.method)
        known: Config = {"protocol": PROTOCOL, "data": self.source.config(), "method": self.method}
        known |= {"tuning": True} | ({"code": method.code} if method.code else {})
        return [known | {"parameters": method.unusual(setting)} for setting in self.settings]

    def part(self, places: Sequence[int]) -> Trials:
        return replace(self, settings=tuple(self.settings[place] for place in places))

    def run(self, seeds: Sequence[int]) -> Done:
        start = time.perf_counter()
        train, validation = validation_split(self.source.load())
        trained = find_method(self.method).train(train, seeds, self.settings)
        measured = [
            [{"accuracy": validation_accuracy(one, validation), "gini": validation_gini(one)} for one in models]
            for models in trained
        ]
        seconds, versions, shared = time.perf_counter() - start, package_versions(), len(seeds) * len(self.settings)
        runs = [
            Run(config, seed, dict(metrics), seconds, shared, versions)
            for config, of_config in zip(self.configs(), measured, strict=True)
            for seed, metrics in zip(seeds, of_config, strict=True)
        ]
        return Done(runs, {})


@dataclass(frozen=True)
class Tuning:
    """What is to be chosen for a method on a source.

    Attributes:
        source, method: where, and of what.
        fixed: parameters that are set while others are chosen.
        rule: how, see :func:`~choqolate.experiments.engine.tuning.choose`.
    """

    source: Source
    method: str
    fixed: Parameters = field(default_factory=dict)
    rule: str = "accuracy"

    @property
    def key(self) -> str:
        """What the search is known by: two that share it choose the same."""
        known = [self.source.config(), self.method, dict(self.fixed), self.rule]
        return json.dumps(known, sort_keys=True, default=str)

    def groups(self) -> list[list[Parameters]]:
        """The open parameters to try, in groups that are trained together; none if nothing is open."""
        return settings_to_try(find_method(self.method), self.fixed, self.rule)

    def batches(self) -> list[Batch]:
        """The work to be done before :meth:`choose`; none if nothing is open, or no rows can be held out."""
        groups = self.groups()
        if not groups or not self._can_hold_out():
            return []
        fixed = dict(self.fixed)
        seeds = find_method(self.method).seeds(SEEDS)
        return [Batch(self._trials([fixed | dict(setting) for setting in group]), seeds) for group in groups]

    def choose(self, finished: Finished) -> Parameters:
        """The open parameters to train with; none if nothing is open or was tried.

        Raises:
            ChoqolateError: if no setting could be trained on these data.
        """
        tried, reasons = self._tried(finished)
        if reasons and not tried:
            raise ChoqolateError(reasons[0])
        untried = self.untried(finished)
        if untried:
            warnings.warn(
                f"{find_method(self.method).title} is tuned without {untried}", ChoqolateWarning, stacklevel=2
            )
        return choose(tried, self.rule) if tried else {}

    def untried(self, finished: Finished) -> str:
        """How many settings could not be trained, and why; empty if all could."""
        tried, reasons = self._tried(finished)
        return f"{len(reasons)} of {len(reasons) + len(tried)} settings, which failed: {reasons[0]}" if reasons else ""

    def _tried(self, finished: Finished) -> tuple[list[Tried], list[str]]:
        """What each setting that could be trained gave, and why the others could not."""
        seeds = find_method(self.method).seeds(SEEDS)
        tried: list[Tried] = []
        reasons: list[str] = []
        for setting in (setting for group in self.groups() for setting in group):
            (config,) = self._trials([dict(self.fixed) | dict(setting)]).configs()
            runs = finished.of(config, seeds)
            if len(runs) == len(seeds):
                tried.append(Tried(setting, *(_mean(runs, name) for name in ("accuracy", "gini"))))
            reason = finished.reason(config)
            reasons += [] if reason is None else [reason]
        return tried, reasons

    def _trials(self, settings: Iterable[Mapping[str, Any]]) -> Trials:
        return Trials(self.source, self.method, tuple(settings))

    def _can_hold_out(self) -> bool:
        try:
            validation_split(self.source.load())
        except ChoqolateError as error:
            title = find_method(self.method).title
            message = f"{title} keeps its default parameters: no rows can be held out for tuning ({error})"
            warnings.warn(message, ChoqolateWarning, stacklevel=2)
            return False
        return True


def _mean(runs: Sequence[Run], metric: str) -> float:
    values = [run.metrics[metric] for run in runs]
    return float(np.mean([np.nan if value is None else value for value in values]))
