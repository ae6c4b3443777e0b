"""From experiments and data to tables and figures in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from choqolate import __version__
from choqolate._util.files import check_new_folder
from choqolate._util.text import counted
from choqolate.datasets import DATASETS
from choqolate.errors import ChoqolateError
from choqolate.experiments.engine.experiment import (
    QUICK_SEEDS,
    Collected,
    Experiment,
    Label,
    Options,
    Runs,
    Shown,
)
from choqolate.experiments.engine.results import Results
from choqolate.experiments.engine.settings_runner import Declared, run_settings
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.writing import PAGES, remove_stale, write_page, write_shown, write_summary

RESULTS = "results.jsonl"


@dataclass(frozen=True)
class Reproduction:
    """What became of an experiment.

    Attributes:
        experiment: which one.
        shown: its tables and figures; ``None`` if there were no data for it.
        files: where they are.
        lacking: for each data set that it did not run on, why.
        failed: a sentence on all settings that were to be run and failed for one reason.
    """

    experiment: Experiment
    shown: Shown | None
    files: tuple[Path, ...]
    lacking: Mapping[str, str]
    failed: tuple[str, ...]


def reproduce(
    experiments: Sequence[Experiment],
    sources: Mapping[str, Source],
    folder: Path,
    *,
    absent: Mapping[str, str] | None = None,
    seeds: int | None = None,
    options: Options | None = None,
    processes: int | None = None,
    engine: str = "local",
    address: str | None = None,
    command: str = "",
    tell: Callable[[str], None] = lambda _: None,
    verbose: bool = True,
) -> list[Reproduction]:
    """Run experiments on what there is of their data, and write their tables and figures.

    Runs are kept in ``results.jsonl`` of the folder; those that are there are not trained again. ``summary.md`` has all
    tables and figures that the folder has. Those that an experiment made before and no longer makes are removed.

    Args:
        experiments: which ones.
        sources: the data that are there, by name. If an experiment names none of them and nothing is said to be
            absent, it runs on all.
        folder: for all that is made.
        absent: for data sets that are not there, why.
        seeds: how many runs; by default as many as the paper has, or three if the options say quick.
        options: what else can be changed.
        processes: how many work at a time; by default one for each core, or each CPU slot of a Ray cluster.
        engine: ``"local"``, or ``"ray"`` for a Ray cluster, all of whose machines see the scores at the same path.
        address: of the cluster, ``"host:port"`` or ``"auto"``; by default Ray is started on this machine alone.
        command: that this was called by, for the summary.
        tell: called with a sentence on each step.
        verbose: show progress on stderr.

    Raises:
        ChoqolateError: if the folder holds other things.
    """
    check_folder(folder)
    options = options or Options()
    plans = [_plan(experiment, sources, absent or {}) for experiment in experiments]
    counts = [_n_seeds(experiment, seeds, options) for experiment in experiments]
    declared = [
        Declared(source, experiment.settings(source, options), range(count))
        for experiment, plan, count in zip(experiments, plans, counts, strict=True)
        for source in plan.sources
    ]
    results = Results(folder / RESULTS)
    found = iter(
        run_settings(declared, results, processes=processes, engine=engine, address=address, tell=tell, verbose=verbose)
    )
    done: list[Reproduction] = []
    for experiment, plan, count in zip(experiments, plans, counts, strict=True):
        runs = {source: next(found) for source in plan.sources}
        done.append(_show(experiment, runs, options, plan.lacking, folder))
        told = _told(count, options) if any(runs.values()) else []
        write_page(folder, experiment, done[-1].shown, done[-1].lacking, _made(command, told))
        remove_stale(folder, experiment, done[-1].files)
    write_summary(folder, [experiment.name for experiment in experiments])
    return done


def check_folder(folder: Path) -> None:
    """A new or empty folder, or one of an earlier run, before the work.

    Raises:
        ChoqolateError: if it is a file, or holds other things.
    """
    check_new_folder(folder, "tables and figures", _is_ours)


def _is_ours(folder: Path) -> bool:
    found, results = {entry.name for entry in folder.iterdir()}, Results(folder / RESULTS)
    if RESULTS in found:
        return bool(results.read().runs) or not results.path.stat().st_size
    return PAGES in found or found <= set(DATASETS)  # nothing could be run, or it was stopped before


def _show(
    experiment: Experiment,
    runs: Mapping[Source, Mapping[Label, Runs]],
    options: Options,
    lacking: Mapping[str, str],
    folder: Path,
) -> Reproduction:
    """Write the tables and figures of an experiment, on the sources where something of it could be run."""
    nothing = {source: _failure(of_source) for source, of_source in runs.items()}
    failed = [sentence for source, of_source in runs.items() for sentence in _failures(source, of_source.values())]
    missing = dict(lacking) | {source.name: why for source, why in nothing.items() if why is not None}
    shown: Shown | None = None
    files: tuple[Path, ...] = ()
    chosen = {source: of_source for source, of_source in runs.items() if nothing[source] is None}
    if chosen:
        try:
            shown = experiment.show(Collected(chosen, options))
            shown = replace(shown, notes=[*shown.notes, *_pseudo_labels(chosen)])
            files = tuple(write_shown(shown, folder))
        except ChoqolateError as error:  # of figures that train what they show
            missing |= {source.name: str(error) for source in chosen}
            failed += [_failed([experiment.title], source, str(error)) for source in chosen]
    return Reproduction(experiment, shown, files, missing, tuple(dict.fromkeys(failed)))


def _pseudo_labels(sources: Iterable[Source]) -> list[str]:
    """A sentence on each source whose labels are no annotations."""
    known = {source: source.labels_from for source in sources}
    return [f"Labels of {source.title}: {said}." for source, said in known.items() if said]


def _failures(source: Source, runs: Iterable[Runs]) -> list[str]:
    """A sentence on each reason why settings failed on a source."""
    found: dict[str, list[str]] = {}
    for one in runs:
        if one.failed:
            found.setdefault(one.reason, []).append(one.setting.title)
    return [_failed(list(dict.fromkeys(titles)), source, reason) for reason, titles in found.items()]


def _failed(titles: Iterable[str], source: Source, reason: str) -> str:
    return f"{'; '.join(titles)} on {source.title} failed: {reason.rstrip('.')}."


def _failure(runs: Mapping[Label, Runs]) -> str | None:
    """Why nothing of an experiment could be run on a source; ``None`` if something was, or nothing has to be."""
    if not runs or any(one.runs for one in runs.values()):
        return None
    return next(iter(runs.values())).reason


def _told(seeds: int, options: Options) -> list[str]:
    """What the runs of an experiment were made with."""
    told = [counted(seeds, "seed"), *(["quick"] if options.quick else []), f"rule {options.rule}"]
    return told + [f"{name} {value}" for name, value in options.parameters.items()]


def _made(command: str, told: Iterable[str]) -> str:
    """How the numbers came about."""
    made = f"Made with CHOQOLATE {__version__}" + (f" by `{command}`" if command else "")
    return f"{': '.join([made, ', '.join(told)] if told else [made])}."


def _n_seeds(experiment: Experiment, seeds: int | None, options: Options) -> int:
    if seeds is not None:
        if seeds < 1:
            raise ChoqolateError(f"Expected at least one seed, but got {seeds}.")
        return seeds
    return min(QUICK_SEEDS, experiment.seeds) if options.quick else experiment.seeds


class _Plan(NamedTuple):
    """The sources that an experiment runs on, and why not on others, by name."""

    sources: list[Source]
    lacking: dict[str, str]


def _plan(experiment: Experiment, sources: Mapping[str, Source], absent: Mapping[str, str]) -> _Plan:
    named = [name for name in experiment.data if name in sources or name in absent]
    own = [name for name in (*sources, *absent) if name not in DATASETS]
    names = [*named, *own] if named else list(sources)
    lacking = {name: absent[name] for name in names if name in absent}
    chosen: list[Source] = []
    for name in names:
        if name in sources:
            misfit = experiment.misfit(sources[name])
            if misfit is None:
                chosen.append(sources[name])
            else:
                lacking[name] = misfit
    return _Plan(chosen, lacking)
