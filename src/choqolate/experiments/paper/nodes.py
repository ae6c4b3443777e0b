"""Figure A4: more and more nodes, of all methods. What is chosen on validation rows is chosen with eight."""

from __future__ import annotations

from collections.abc import Sequence

from choqolate.experiments.engine.experiment import Collected, Experiment, Settings, Shown
from choqolate.experiments.engine.figures import QUALITIES, Runs, trade_off_grid
from choqolate.experiments.engine.methods import find_method
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.sweep import COLUMNS, by_source
from choqolate.experiments.engine.tables import Row, Table
from choqolate.experiments.engine.tasks import Config, Task, Training

NODES = (4, 8, 12, 16, 18)
QUICK_NODES = (4, 8, 16)


def _counts(settings: Settings) -> tuple[int, ...]:
    return QUICK_NODES if settings.quick else NODES


def _training(source: Source, method: str, settings: Settings) -> Training:
    common = {name: value for name, value in settings.parameters.items() if name != "n_nodes"}
    wanted = tuple(common | {"n_nodes": count} for count in _counts(settings))
    return Training(source, method, wanted, settings.rule, common | {"n_nodes": 8})


def _tasks(source: Source, settings: Settings) -> Sequence[Task]:
    return [_training(source, method, settings) for method in settings.methods]


def _configs(source: Source, method: str, settings: Settings) -> dict[int, Config]:
    return dict(zip(_counts(settings), _training(source, method, settings).configs(), strict=True))


def _table(collected: Collected, source: Source) -> Table:
    rows = [
        Row(
            (str(count), find_method(method).title),
            tuple(collected.cell(_configs(source, method, collected.settings)[count], name) for name in COLUMNS),
        )
        for count in _counts(collected.settings)
        for method in collected.settings.methods
    ]
    return Table(f"Number of nodes on {source.title}", ("Nodes", "Method"), list(COLUMNS.values()), rows)


def _panel(collected: Collected, source: Source, count: int) -> dict[str, Runs]:
    def values(method: str, metric: str) -> tuple[float, ...]:
        return collected.values(_configs(source, method, collected.settings)[count], metric)

    methods = collected.settings.methods
    return {
        name: {find_method(method).title: (values(method, quality), values(method, "accuracy")) for method in methods}
        for quality, name in QUALITIES.items()
    }


def _show(collected: Collected) -> Shown:
    figures = {
        "nodes" if len(collected.sources) == 1 else f"nodes-{source.name}": trade_off_grid(
            {
                f"{source.title}, {count} nodes": _panel(collected, source, count)
                for count in _counts(collected.settings)
            },
            down=True,
        )
        for source in collected.sources
    }
    return Shown(by_source(collected, lambda source: _table(collected, source), "nodes"), figures)


EXPERIMENT = Experiment(
    name="nodes",
    title="Number of nodes",
    paper="Figure A4",
    data=("coco",),
    seeds=5,
    tasks=_tasks,
    show=_show,
)
