"""Table 1: accuracy and worst group of a biased model, and of all that may free it from the bias."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from choqolate.debiasing.ways import DEBIASING, Debiasing
from choqolate.experiments.engine.comparison import printed
from choqolate.experiments.engine.experiment import Collected, Experiment, Settings, Shown
from choqolate.experiments.engine.markup import CHECK
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tables import Cell, Column, Row, Table
from choqolate.experiments.engine.tasks import Config, Mitigation, Task, possible_ways

METRICS = {"accuracy": "Accuracy", "worst_group": "Worst group", "reweighted_accuracy": "Accuracy, reweighted"}
HEADS = ("Method", "No group labels", "No training", "Test time")
NOTE = (
    "Reweighted: groups count as often as in training. A mark says that a method needs no group labels, trains nothing "
    "(not even the last layer), and can be applied to a model in use. The paper marks its oracle, which is a training "
    "without the words, as free of fine-tuning, and the projections not; with the same weights they train nothing."
)


def _mitigation(source: Source, settings: Settings) -> Mitigation:
    parameters: dict[str, Any] = {"n_nodes": 8} | dict(settings.parameters)
    return Mitigation(source, tuple(possible_ways(source)[0]), parameters)


def _tasks(source: Source, settings: Settings) -> Sequence[Task]:
    return [_mitigation(source, settings)]


def _cells(collected: Collected, source: Source, way: str) -> list[Cell]:
    lacking = possible_ways(source)[1]
    if way in lacking:
        why = lacking[way].removeprefix(f"{DEBIASING[way].title} ")
        return [Cell(None, printed(source, metric, way), why) for metric in METRICS]
    mitigation = _mitigation(source, collected.settings)
    config: Config = mitigation.configs()[mitigation.ways.index(way)]
    return [collected.cell(config, metric, printed(source, metric, way)) for metric in METRICS]


def _marks(way: Debiasing) -> tuple[str, ...]:
    if way.name == "baseline":
        return "", "", ""
    needs = way.needs
    return tuple(CHECK if mark else "" for mark in (not needs.group_labels, not needs.retraining, needs.test_time))


def _show(collected: Collected) -> Shown:
    columns = [
        Column(name, source.title, percent=True, higher_is_better=True)
        for source in collected.sources
        for name in METRICS.values()
    ]
    rows = [
        Row((way.title, *_marks(way)), tuple(cell for s in collected.sources for cell in _cells(collected, s, name)))
        for name, way in DEBIASING.items()
    ]
    return Shown({"mitigation": Table("Bias mitigation", HEADS, columns, rows)}, notes=[NOTE])


def _misfit(source: Source) -> str | None:
    table = source.load()
    if table.groups is None:
        return f'{source.title} has no groups, so no worst one: add a column "group", such as bird and background'
    unmarked = f"{source.title} has no concepts marked as spurious: name them in a file (--spurious words.txt)"
    return None if table.spurious else unmarked


EXPERIMENT = Experiment(
    name="mitigation",
    title="Bias mitigation",
    paper="Table 1",
    data=("waterbirds", "celeba"),
    seeds=20,
    tasks=_tasks,
    show=_show,
    misfit=_misfit,
)
