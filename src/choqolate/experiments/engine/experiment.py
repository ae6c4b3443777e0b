"""What a table or figure of the paper is made of: data sets, tasks, seeds, and how the runs are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from choqolate.experiments.engine.methods import METHODS
from choqolate.experiments.engine.runner import Outcome
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tables import Cell, Table
from choqolate.experiments.engine.tasks import Config, Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUICK_SEEDS = 3


@dataclass(frozen=True)
class Settings:
    """What the user may change.

    Attributes:
        methods: which are compared; the first is held against the others.
        rule: how hyperparameters are chosen, see :func:`~choqolate.experiments.engine.tuning.tune`.
        parameters: of all estimators, in place of their own defaults, such as ``epochs``.
        quick: a first impression: few seeds, short sweeps.
    """

    methods: tuple[str, ...] = tuple(METHODS)
    rule: str = "accuracy"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    quick: bool = False


@dataclass(frozen=True)
class Collected:
    """The runs of an experiment, ready to be shown.

    Attributes:
        sources: the data that it ran on.
        settings: as given.
        outcome: of all tasks.
        seeds: that were asked for.
    """

    sources: Sequence[Source]
    settings: Settings
    outcome: Outcome
    seeds: Sequence[int]

    def values(self, config: Config, metric: str) -> tuple[float, ...]:
        """A metric of all runs of a config; NaN where it is not defined."""
        runs = self.outcome.of(config, self.seeds)
        return tuple(float("nan") if (value := run.metrics.get(metric)) is None else value for run in runs)

    def cell(self, config: Config, metric: str, paper: tuple[float, float | None] | None = None) -> Cell:
        """The same as a cell of a table, beside the paper's number; if it was not run, with the reason."""
        values = self.values(config, metric)
        return Cell(values or None, paper, None if values else self.outcome.reason(config))


@dataclass(frozen=True)
class Shown:
    """Tables and figures, by the name of their files, and what is to be said about them."""

    tables: Mapping[str, Table] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Experiment:
    """A table or a figure.

    Attributes:
        name: short, as on the command line.
        title: what it shows.
        paper: where it stands in the paper.
        data: the data sets of the paper.
        seeds: how many runs the paper has.
        tasks: what to train on one of them.
        show: from all runs to tables and figures.
        misfit: why it makes no sense on some data, or ``None``.
    """

    name: str
    title: str
    paper: str
    data: tuple[str, ...]
    seeds: int
    tasks: Callable[[Source, Settings], Sequence[Task]]
    show: Callable[[Collected], Shown]
    misfit: Callable[[Source], str | None] = lambda source: None
