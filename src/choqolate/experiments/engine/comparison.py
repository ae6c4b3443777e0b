"""All methods on the same scores: the runs behind the paper's main tables and its figure of trade-offs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from choqolate.experiments.engine.experiment import Collected, Settings
from choqolate.experiments.engine.figures import QUALITIES, Runs
from choqolate.experiments.engine.methods import find_method
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tables import Column, Row, Table
from choqolate.experiments.engine.tasks import Config, Task, Training
from choqolate.experiments.paper import published as paper

DATA = ("cats-dogs-cars", "monumai", "coco", "cub")
SEEDS = 20
OVER_SCORES = (
    "The nodes of PSCBM weigh concept units that are learnt from all scores. Over these units, as its authors read it, "
    "a concept that is not kept counts as zero; over scores are the weights of the scores themselves, through the "
    "units."
)
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
            (reading.title,),
            tuple(
                collected.cell(
                    config(source, reading.method, settings),
                    reading.of(metric),
                    None if reading.suffix else printed(source, metric, reading.method),
                )
                for source in sources
                for metric in metrics
            ),
        )
        for reading in readings(collected)
        if not reading.suffix or set(metrics) & set(QUALITIES)
    ]
    return Table(title, ("Method",), columns, rows)


class Reading(NamedTuple):
    """A method, and which of its attributions are measured."""

    method: str
    title: str
    suffix: str = ""

    def of(self, metric: str) -> str:
        """The name of a metric in this reading."""
        return f"{metric}{self.suffix}" if metric in QUALITIES else metric


def readings(collected: Collected) -> list[Reading]:
    """All methods; one whose nodes stand on learnt units is read twice, over these and over the scores below them."""
    found: list[Reading] = []
    for method in collected.settings.methods:
        found.append(Reading(method, find_method(method).title))
        again = Reading(method, f"{find_method(method).title}, over scores", "_over_scores")
        values = [collected.values(config(s, method, collected.settings), again.of("gini")) for s in collected.sources]
        if any(math.isfinite(value) for of_source in values for value in of_source):
            found.append(again)
    return found


def printed(source: Source, metric: str, method: str) -> paper.Published | None:
    """What the paper prints, if the source is one of its data sets."""
    return paper.published(metric, source.name, method) if source.in_paper else None


def trade_offs(collected: Collected, source: Source) -> dict[str, Runs]:
    """Quality and accuracy of all runs of all methods on one data set, for each quality."""

    def pair(reading: Reading, quality: str) -> tuple[Sequence[float], Sequence[float]]:
        of_method = config(source, reading.method, collected.settings)
        return collected.values(of_method, reading.of(quality)), collected.values(of_method, "accuracy")

    return {
        name: {reading.title: pair(reading, quality) for reading in readings(collected)}
        for quality, name in QUALITIES.items()
    }
