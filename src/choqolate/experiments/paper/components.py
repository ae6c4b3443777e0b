"""Table A8 and Figure A3: what each component of CHOQOLATE contributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from choqolate.experiments.engine.experiment import Collected, Experiment, Settings, Shown
from choqolate.experiments.engine.figures import trade_off_grid
from choqolate.experiments.engine.markup import CHECK
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.sweep import by_source, sweep_runs, sweep_table
from choqolate.experiments.engine.tables import Table
from choqolate.experiments.engine.tasks import Config, Task, Training
from choqolate.experiments.paper import published as paper

ROWS = tuple(enumerate(paper.COMPONENTS, start=1))
HEADS = ("Row", "1st order", "2nd order", "Softmax weights", "l1 inter", "l1 all")
NOTE = (
    "Without the softmax, weights are free: neither in [0, 1] nor with sum one, and attributions are absolute Shapley "
    "values. l1 all penalises the interactions of both layers, and with free weights the first order too; under the "
    "softmax a penalty on every weight would be a constant."
)


def parameters(row: paper.Component) -> dict[str, Any]:
    """The classifier of a row of the table.

    >>> parameters(paper.COMPONENTS[5])
    {'interactions': 'pairwise', 'free_weights': False, 'l1': 0.01, 'l1_on': 'first'}
    """
    return {
        "interactions": "pairwise" if row.second_order else "none",
        "free_weights": not row.softmax,
        "l1": 0.01 if row.l1_inter or row.l1_all else 0.0,
        "l1_on": "all" if row.l1_all else "first",
    }


def _label(row: tuple[int, paper.Component]) -> str:
    number, parts = row
    said = ["1st and 2nd" if parts.second_order else "1st", "softmax" if parts.softmax else "free"]
    said += ["l1"] * parts.l1_inter + ["l1 all"] * parts.l1_all
    return f"{number}: {', '.join(said)}"


def _trainings(source: Source, settings: Settings) -> list[Training]:
    common = {"n_nodes": 8} | dict(settings.parameters)
    return [Training(source, "choqolate", (common | parameters(row),)) for row in paper.COMPONENTS]


def _tasks(source: Source, settings: Settings) -> Sequence[Task]:
    return sorted(_trainings(source, settings), key=lambda task: task.settings[0]["interactions"] == "none")


def _show(collected: Collected) -> Shown:
    def configs(source: Source) -> list[Config]:
        return [training.configs()[0] for training in _trainings(source, collected.settings)]

    def table(source: Source) -> Table:
        rows = []
        for (number, row), config in zip(ROWS, configs(source), strict=True):
            marks = [row.first_order, row.second_order, row.softmax, row.l1_inter, row.l1_all]
            texts = (str(number), *(CHECK if mark else "" for mark in marks))
            rows.append((texts, config, row.quality if source.in_paper else None))
        return sweep_table(collected, f"Components of CHOQOLATE on {source.title}", HEADS, rows)

    panels = {
        source.title: sweep_runs(collected, dict(zip(map(_label, ROWS), configs(source), strict=True)))
        for source in collected.sources
    }
    return Shown(by_source(collected, table, "components"), {"components": trade_off_grid(panels)}, [NOTE])


EXPERIMENT = Experiment(
    name="components",
    title="Components of CHOQOLATE",
    paper="Table A8, Figure A3",
    data=("coco",),
    seeds=5,
    tasks=_tasks,
    show=_show,
)
