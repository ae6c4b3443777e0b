"""Table A6 and Figure A1: the temperature as the dial between accuracy and sparsity. Without the l1 penalty."""

from __future__ import annotations

from collections.abc import Sequence

from choqolate.experiments.engine.experiment import Collected, Experiment, Settings, Shown
from choqolate.experiments.engine.figures import trade_off_grid
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.sweep import by_source, sweep_runs, sweep_table
from choqolate.experiments.engine.tables import Table
from choqolate.experiments.engine.tasks import Task, Training
from choqolate.experiments.paper import published as paper


def _training(source: Source, settings: Settings) -> Training:
    common = {"n_nodes": 8, "l1": 0.0} | dict(settings.parameters)
    return Training(source, "choqolate", tuple(common | {"temperature": value} for value in paper.TEMPERATURES))


def _tasks(source: Source, settings: Settings) -> Sequence[Task]:
    return [_training(source, settings)]


def _show(collected: Collected) -> Shown:
    def configs(source: Source) -> dict[float, dict]:
        return dict(zip(paper.TEMPERATURES, _training(source, collected.settings).configs(), strict=True))

    def table(source: Source) -> Table:
        rows = [
            ((f"{value:g}",), config, paper.TEMPERATURES[value] if source.in_paper else None)
            for value, config in configs(source).items()
        ]
        return sweep_table(collected, f"Effect of the temperature on {source.title}", ("T",), rows)

    panels = {
        source.title: sweep_runs(collected, {f"T = {value:g}": config for value, config in configs(source).items()})
        for source in collected.sources
    }
    return Shown(by_source(collected, table, "temperature"), {"temperature": trade_off_grid(panels)})


EXPERIMENT = Experiment(
    name="temperature",
    title="Effect of the temperature",
    paper="Table A6, Figure A1",
    data=("coco",),
    seeds=5,
    tasks=_tasks,
    show=_show,
)
