"""From experiments and data to tables and figures in a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from choqolate import __version__
from choqolate._util.files import check_parent
from choqolate._util.text import counted
from choqolate.datasets import DATASETS
from choqolate.errors import ChoqolateError
from choqolate.experiments.engine.experiment import QUICK_SEEDS, Collected, Experiment, Settings, Shown
from choqolate.experiments.engine.results import Results
from choqolate.experiments.engine.runner import Batch, Outcome, run_tasks
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.writing import PAGES, write_page, write_shown, write_summary

RESULTS = "results.jsonl"


@dataclass(frozen=True)
class Reproduction:
    """What became of an experiment.

    Attributes:
        experiment: which one.
        shown: its tables and figures; ``None`` if there were no data for it.
        files: where they are.
        lacking: for each data set that it did not run on, why.
    """

    experiment: Experiment
    shown: Shown | None
    files: tuple[Path, ...]
    lacking: Mapping[str, str]


def reproduce(
    experiments: Sequence[Experiment],
    sources: Mapping[str, Source],
    folder: Path,
    *,
    absent: Mapping[str, str] | None = None,
    seeds: int | None = None,
    settings: Settings | None = None,
    processes: int | None = None,
    command: str = "",
    tell: Callable[[str], None] = lambda _: None,
    verbose: bool = True,
) -> list[Reproduction]:
    """Run experiments on what there is of their data, and write their tables and figures.

    Runs are kept in ``results.jsonl`` of the folder; those that are there are not trained again. ``summary.md`` has all
    tables and figures that the folder has.

    Args:
        experiments: which ones.
        sources: the data that are there, by name. If an experiment names none of them and nothing is said to be
            absent, it runs on all.
        folder: for all that is made.
        absent: for data sets that are not there, why.
        seeds: how many runs; by default as many as the paper has, or three if the settings say quick.
        settings: what else can be changed.
        processes: how many work at a time; by default one for each core.
        command: that this was called by, for the summary.
        tell: called with a sentence on each step.
        verbose: show a progress bar (on a terminal).

    Raises:
        ChoqolateError: if the folder holds other things.
    """
    check_folder(folder)
    settings = settings or Settings()
    plans = [_plan(experiment, sources, absent or {}) for experiment in experiments]
    wanted: list[Batch] = []
    counts = [_n_seeds(experiment, seeds, settings) for experiment in experiments]
    for experiment, (chosen, _), count in zip(experiments, plans, counts, strict=True):
        for source in chosen:
            wanted += [Batch(task, tuple(range(count))) for task in experiment.tasks(source, settings)]
    outcome = run_tasks(wanted, Results(folder / RESULTS), processes=processes, tell=tell, verbose=verbose)
    done: list[Reproduction] = []
    for experiment, (planned, lacking), count in zip(experiments, plans, counts, strict=True):
        failed = {source.name: _failure(experiment, source, settings, outcome, range(count)) for source in planned}
        lacking |= {name: reason for name, reason in failed.items() if reason is not None}
        chosen = [source for source in planned if failed[source.name] is None]
        shown: Shown | None = None
        files: tuple[Path, ...] = ()
        if chosen:
            try:
                shown = experiment.show(Collected(chosen, settings, outcome, range(count)))
                files = tuple(write_shown(shown, folder))
            except ChoqolateError as error:  # of figures that train what they show
                lacking |= {source.name: str(error) for source in chosen}
        write_page(folder, experiment, shown, lacking, _made(command, count, settings))
        done.append(Reproduction(experiment, shown, files, lacking))
    write_summary(folder, [experiment.name for experiment in experiments])
    return done


def check_folder(folder: Path) -> None:
    """A new or empty folder, or one of an earlier run, before the work.

    Raises:
        ChoqolateError: if it is a file, or holds other things.
    """
    if folder.exists() and not folder.is_dir():
        raise ChoqolateError(f"expected a folder for tables and figures, {folder} is a file: choose another name")
    check_parent(folder)
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    results = Results(folder / RESULTS)
    found = {entry.name for entry in folder.iterdir()}
    if RESULTS in found:
        ours = bool(results.read().runs) or not results.path.stat().st_size
    else:
        ours = PAGES in found or found <= set(DATASETS)  # nothing could be run, or it was stopped before
    if not ours:
        raise ChoqolateError(
            f"expected a new or empty folder, or one with results of an earlier run, {folder} holds other things: "
            "choose another"
        )


def _failure(
    experiment: Experiment, source: Source, settings: Settings, outcome: Outcome, seeds: Sequence[int]
) -> str | None:
    """Why nothing of an experiment could be run on a source; ``None`` if something was, or nothing has to be."""
    configs = [config for task in experiment.tasks(source, settings) for config in task.configs()]
    if not configs or any(outcome.of(config, seeds) for config in configs):
        return None
    return outcome.reason(configs[0])


def _made(command: str, seeds: int, settings: Settings) -> str:
    """How the numbers came about."""
    told = [counted(seeds, "seed"), *(["quick"] if settings.quick else []), f"rule {settings.rule}"]
    told += [f"{name} {value}" for name, value in settings.parameters.items()]
    made = f"Made with CHOQOLATE {__version__}" + (f" by `{command}`" if command else "")
    return f"{made}: {', '.join(told)}."


def _n_seeds(experiment: Experiment, seeds: int | None, settings: Settings) -> int:
    if seeds is not None:
        if seeds < 1:
            raise ChoqolateError(f"expected at least one seed, got {seeds}")
        return seeds
    return min(QUICK_SEEDS, experiment.seeds) if settings.quick else experiment.seeds


def _plan(
    experiment: Experiment, sources: Mapping[str, Source], absent: Mapping[str, str]
) -> tuple[list[Source], dict[str, str]]:
    """The sources that an experiment runs on, and why not on others."""
    named = [name for name in experiment.data if name in sources or name in absent]
    names = named or list(sources)
    lacking = {name: absent[name] for name in names if name in absent}
    chosen: list[Source] = []
    for name in names:
        if name in sources:
            misfit = experiment.misfit(sources[name])
            if misfit is None:
                chosen.append(sources[name])
            else:
                lacking[name] = misfit
    return chosen, lacking
