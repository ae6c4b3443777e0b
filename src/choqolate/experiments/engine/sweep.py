"""CHOQOLATE in several settings on one data set: what the paper's ablations have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from choqolate.experiments.engine.experiment import Collected
from choqolate.experiments.engine.figures import QUALITIES, Runs
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tables import Column, Row, Table
from choqolate.experiments.engine.tasks import Config
from choqolate.experiments.paper import published as paper

COLUMNS = {
    "accuracy": Column("Accuracy", percent=True, higher_is_better=True),
    "gini": Column("Attribution Gini", higher_is_better=True),
    "coherence": Column("Node Coherence", higher_is_better=True),
}


def sweep_table(
    collected: Collected,
    title: str,
    heads: Sequence[str],
    rows: Sequence[tuple[tuple[str, ...], Config, paper.Quality | None]],
) -> Table:
    """Accuracy, Gini and coherence of each setting, beside the paper's."""
    return Table(
        title,
        heads,
        list(COLUMNS.values()),
        [
            Row(texts, tuple(collected.cell(config, name, getattr(printed, name, None)) for name in COLUMNS))
            for texts, config, printed in rows
        ],
    )


def sweep_runs(collected: Collected, configs: Mapping[str, Config]) -> dict[str, Runs]:
    """Quality and accuracy of the runs of each setting, for each quality."""
    return {
        name: {
            label: (collected.values(config, quality), collected.values(config, "accuracy"))
            for label, config in configs.items()
        }
        for quality, name in QUALITIES.items()
    }


def by_source(collected: Collected, make: Callable[[Source], Table], name: str) -> dict[str, Table]:
    """A table for each source, named after it if there are several."""
    if len(collected.sources) == 1:
        return {name: make(collected.sources[0])}
    return {f"{name}-{source.name}": make(source) for source in collected.sources}
