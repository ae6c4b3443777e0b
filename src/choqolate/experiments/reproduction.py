"""From experiments and data to tables and figures in a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from choqolate.errors import ChoqolateError
from choqolate.experiments.experiment import QUICK_SEEDS, Collected, Experiment, Settings, Shown
from choqolate.experiments.results import Results
from choqolate.experiments.runner import Batch, run_tasks
from choqolate.experiments.sources import Source
from choqolate.experiments.writing import write_shown, write_summary

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
    tell: Callable[[str], None] = lambda _: None,
    verbose: bool = True,
) -> list[Reproduction]:
    """Run experiments on what there is of their data, and write their tables and figures.

    Runs are kept in ``results.jsonl`` of the folder; those that are there are not trained again.

    Args:
        experiments: which ones.
        sources: the data that are there, by name. If an experiment names none of them and nothing is said to be
            absent, it runs on all.
        folder: for all that is made.
        absent: for data sets that are not there, why.
        seeds: how many runs; by default as many as the paper has, or three if the settings say quick.
        settings: what else can be changed.
        processes: how many work at a time; by default one for each core.
        tell: called with a sentence on each step.
        verbose: show a progress bar (on a terminal).
    """
    settings = settings or Settings()
    plans = [_plan(experiment, sources, absent or {}) for experiment in experiments]
    wanted: list[Batch] = []
    counts = [_n_seeds(experiment, seeds, settings) for experiment in experiments]
    for experiment, (chosen, _), count in zip(experiments, plans, counts, strict=True):
        for source in chosen:
            wanted += [Batch(task, tuple(range(count))) for task in experiment.tasks(source, settings)]
    outcome = run_tasks(wanted, Results(folder / RESULTS), processes=processes, tell=tell, verbose=verbose)
    done: list[Reproduction] = []
    for experiment, (chosen, lacking), count in zip(experiments, plans, counts, strict=True):
        if not chosen:
            done.append(Reproduction(experiment, None, (), lacking))
            continue
        tell(f"showing {experiment.name}")
        shown = experiment.show(Collected(chosen, settings, outcome, range(count)))
        done.append(Reproduction(experiment, shown, tuple(write_shown(shown, folder)), lacking))
    write_summary(folder / "summary.md", [(one.experiment, one.shown, one.lacking) for one in done])
    return done


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
