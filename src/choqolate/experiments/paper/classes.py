"""Table A7 and Figure A2: more and more classes behind eight nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from choqolate.experiments.engine.experiment import Collected, Experiment, Settings, Shown
from choqolate.experiments.engine.figures import trade_off_grid
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.sweep import by_source, sweep_runs, sweep_table
from choqolate.experiments.engine.tables import Table
from choqolate.experiments.engine.tasks import Config, Task, Training
from choqolate.experiments.paper import published as paper


def _trainings(source: Source, settings: Settings) -> dict[int, Training]:
    """The paper's numbers of classes, up to those that there are, the largest first."""
    parameters = {"n_nodes": 8} | dict(settings.parameters)
    counts = [count for count in paper.CLASSES if count <= len(source.load().classes)]
    if settings.quick:
        counts = counts[:3]
    return {count: Training(replace(source, n_classes=count), "choqolate", (parameters,)) for count in reversed(counts)}


def _tasks(source: Source, settings: Settings) -> Sequence[Task]:
    return list(_trainings(source, settings).values())


def _show(collected: Collected) -> Shown:
    def configs(source: Source) -> dict[int, Config]:
        trainings = _trainings(source, collected.settings)
        return {count: trainings[count].configs()[0] for count in sorted(trainings)}

    def table(source: Source) -> Table:
        rows = [
            ((str(count),), config, paper.CLASSES[count] if source.in_paper else None)
            for count, config in configs(source).items()
        ]
        return sweep_table(collected, f"Number of classes of {source.title}", ("Classes",), rows)

    panels = {
        source.title: sweep_runs(collected, {f"{count} classes": config for count, config in configs(source).items()})
        for source in collected.sources
    }
    return Shown(by_source(collected, table, "classes"), {"classes": trade_off_grid(panels)})


def _misfit(source: Source) -> str | None:
    least = min(paper.CLASSES)
    found = len(source.load().classes)
    return None if found >= least else f"the sweep begins with {least} classes, {source.title} has {found}"


EXPERIMENT = Experiment(
    name="classes",
    title="Number of classes",
    paper="Table A7, Figure A2",
    data=("cub",),
    seeds=5,
    tasks=_tasks,
    show=_show,
    misfit=_misfit,
)
