"""All methods on the same scores: the runs behind the paper's main tables and its figure of trade-offs."""

from __future__ import annotations

from collections.abc import Sequence

from choqolate.experiments import paper
from choqolate.experiments.experiment import Collected, Settings
from choqolate.experiments.figures import QUALITIES, Runs
from choqolate.experiments.methods import find_method
from choqolate.experiments.sources import Source
from choqolate.experiments.tables import Column, Row, Table
from choqolate.experiments.tasks import Config, Task, Training

DATA = ("cats-dogs-cars", "monumai", "coco", "cub")
SEEDS = 20
METRICS = {"accuracy": "Accuracy", "hsic": "HSIC", "cknna": "CKNNA"} | QUALITIES


def training(source: Source, method: str, settings: Settings) -> Training:
    """One method with eight nodes, or as many as the settings say."""
    parameters = {"n_nodes": 8} | dict(settings.parameters)
    return Training(source, method, (parameters,), settings.rule, parameters)


def tasks(source: Source, settings: Settings) -> Sequence[Task]:
    """All methods."""
    return [training(source, method, settings) for method in settings.methods]


def config(source: Source, method: str, settings: Settings) -> Config:
    """What tells the runs of a method from all others."""
    return training(source, method, settings).configs()[0]


def table(collected: Collected, title: str, metrics: Sequence[str], *, better: bool = True) -> Table:
    """Methods in rows, metrics by data set in columns, the paper's numbers beside ours."""
    settings, sources = collected.settings, collected.sources
    columns = [
        Column(METRICS[metric], source.title, metric == "accuracy", True if better else None)
        for source in sources
        for metric in metrics
    ]
    rows = [
        Row(
            (find_method(method).title,),
            tuple(
                collected.cell(config(source, method, settings), metric, printed(source, metric, method))
                for source in sources
                for metric in metrics
            ),
        )
        for method in settings.methods
    ]
    return Table(title, ("Method",), columns, rows)


def printed(source: Source, metric: str, method: str) -> paper.Published | None:
    """What the paper prints, if the source is one of its data sets."""
    return paper.published(metric, source.name, method) if source.in_paper else None


def trade_offs(collected: Collected, source: Source) -> dict[str, Runs]:
    """Quality and accuracy of all runs of all methods on one data set, for each quality."""
    settings = collected.settings
    return {
        name: {
            find_method(method).title: (
                collected.values(config(source, method, settings), quality),
                collected.values(config(source, method, settings), "accuracy"),
            )
            for method in settings.methods
        }
        for quality, name in QUALITIES.items()
    }
