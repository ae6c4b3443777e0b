"""From settings to runs: what is left open is chosen on validation rows, then everything that is missing is trained."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from choqolate.errors import ChoqolateError
from choqolate.experiments.engine.experiment import Label, Runs, RunSetting
from choqolate.experiments.engine.results import Results
from choqolate.experiments.engine.runner import Batch, Finished, run_tasks
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tasks import Asked, pieces, unmet, variant_of
from choqolate.experiments.engine.trials import Tuning


class Declared(NamedTuple):
    """Settings by label, the source to run them on, and for which seeds."""

    source: Source
    settings: Mapping[Any, RunSetting]
    seeds: Sequence[int]


class _Planned(NamedTuple):
    """What to ask for with what was chosen, or why not."""

    asked: Asked | None
    chosen: Mapping[str, Any]
    reason: str | None = None
    failed: bool = False
    untried: str = ""


def run_settings(
    declared: Sequence[Declared],
    results: Results,
    *,
    processes: int | None = None,
    engine: str = "local",
    address: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
    verbose: bool = True,
) -> list[dict[Label, Runs]]:
    """Run what is missing of some settings in the results file, and hand back the runs of each, under its label.

    Parameters that a setting leaves open are chosen first. Every setting that is tried is kept in the results file, so
    a search that is stopped continues where it was. What a setting needs and its source lacks is the reason that it is
    not run. For the arguments see :func:`~choqolate.experiments.engine.runner.run_tasks`.
    """
    run = partial(
        run_tasks, results=results, processes=processes, engine=engine, address=address, tell=tell, verbose=verbose
    )
    searches = _searches(declared)
    tried = run([batch for search in searches.values() for batch in search.batches()], what="tuning")
    plans = [
        {label: _plan(one.source, setting, searches, tried) for label, setting in one.settings.items()}
        for one in declared
    ]
    batches = [
        Batch(piece, piece.seeds(one.seeds))
        for one, plan in zip(declared, plans, strict=True)
        for piece in reversed(pieces(one.source, _each_once(plan.values())))
    ]  # a sweep grows: its longest training goes first
    finished = run(batches, what="training")
    return [
        {label: _runs(one.settings[label], plan[label], one.seeds, finished) for label in plan}
        for one, plan in zip(declared, plans, strict=True)
    ]


def _each_once(plans: Iterable[_Planned]) -> list[Asked]:
    """What is to be asked for; what several labels stand for, once."""
    asked = (plan.asked for plan in plans if plan.asked is not None)
    return list({json.dumps(one.config, sort_keys=True, default=str): one for one in asked}.values())


def _searches(declared: Iterable[Declared]) -> dict[str, Tuning]:
    """All searches that some settings rest on, each once."""
    needed = (
        _search(source, setting)
        for source, settings, _ in declared
        for setting in settings.values()
        if setting.debiasing is None and unmet(source, setting) is None
    )
    return {search.key: search for search in needed}


def _search(source: Source, setting: RunSetting) -> Tuning:
    return Tuning(variant_of(source, setting), setting.method, setting.tuned_at, setting.rule)


def _plan(source: Source, setting: RunSetting, searches: Mapping[str, Tuning], tried: Finished) -> _Planned:
    reason = unmet(source, setting)
    if reason is not None:
        return _Planned(None, {}, reason)
    if setting.debiasing is not None:
        return _Planned(Asked.on(source, setting), {})
    search = searches[_search(source, setting).key]
    try:
        found = search.choose(tried)
    except ChoqolateError as error:
        return _Planned(None, {}, str(error), failed=True)
    chosen = {name: value for name, value in found.items() if name not in setting.parameters}
    return _Planned(Asked.on(source, setting, chosen), chosen, untried=search.untried(tried))


def _runs(setting: RunSetting, plan: _Planned, seeds: Iterable[int], finished: Finished) -> Runs:
    if plan.asked is None:
        return Runs(setting, reason=plan.reason or "not run", failed=plan.failed)
    failure = finished.reason(plan.asked.config)
    runs = tuple(finished.of(plan.asked.config, seeds))
    return Runs(setting, runs, failure or "not run", failure is not None, plan.chosen, plan.untried)
