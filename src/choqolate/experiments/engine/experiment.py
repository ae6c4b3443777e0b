"""What a table or figure is made of: data sets, settings to run, seeds, and how the runs are shown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from choqolate.baselines import budget_for
from choqolate.debiasing.registry import DEBIASING
from choqolate.experiments.engine.measures import METRICS, QUALITIES
from choqolate.experiments.engine.methods import BUDGET, METHODS, Parameters, find_method
from choqolate.experiments.engine.results import Run
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tables import Cell, Row, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUICK_SEEDS = 3

Label = Hashable
"""What an experiment knows one of its settings by: the name of a method, a row of a sweep."""

PaperMean = tuple[float, float | None]
"""Mean and standard deviation that the paper prints."""

PaperLookUp = Callable[[str, str, Any], PaperMean | None]
"""From metric, data set and label to what the paper prints, or ``None`` if it prints nothing."""


@dataclass(frozen=True)
class Options:
    """What the user may change.

    Attributes:
        methods: which are compared; the first is tested against the others.
        rule: how hyperparameters are chosen, see :func:`~choqolate.experiments.engine.tuning.choose`.
        parameters: of all estimators, in place of their own defaults, such as ``epochs``.
        quick: a first impression: few seeds, short sweeps.
        controls: whether a comparison has controls, the ceiling and sparse logistic regression beside the methods.
    """

    methods: tuple[str, ...] = tuple(METHODS)
    rule: str = "accuracy"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    quick: bool = False
    controls: bool = True

    @property
    def common(self) -> dict[str, Any]:
        """The parameters of all estimators: eight nodes, unless the user says otherwise, and no budget of steps."""
        return {"n_nodes": 8} | {name: value for name, value in self.parameters.items() if name not in BUDGET}

    @property
    def own_methods(self) -> tuple[str, ...]:
        """Estimators of the user's own."""
        return tuple(name for name in self.methods if ":" in name)

    def budgeted(self, source: Source) -> dict[str, Any]:
        """The same for methods side by side on a source: the same number of steps of all, unless the user gives epochs.

        It is that of :func:`~choqolate.baselines.budget_for`, for all training rows of the source.
        """
        given = "epochs" in self.parameters
        budget = {} if given else budget_for(len(source.load().part("train")))
        return {"n_nodes": 8} | budget | dict(self.parameters)


@dataclass(frozen=True)
class RunSetting:
    """What to train on a source, as plain data.

    Attributes:
        method: see :func:`~choqolate.experiments.engine.methods.find_method`.
        parameters: of the estimator; what they leave open is chosen on validation rows.
        rule: how open parameters are chosen, see :func:`~choqolate.experiments.engine.tuning.choose`.
        tuned_at: the parameters that are set while others are chosen.
        n_classes: only the first so many classes of the source.
        core_only: without the spurious concepts of the source.
        debiasing: what is done to the trained model, a name in ``DEBIASING``; nothing is chosen then.
        control: a kind of :func:`~choqolate.analysis.control_tables.control_table` that takes the place of the scores
            in training and testing; what is open is chosen on the scores themselves.
    """

    method: str = "choqolate"
    parameters: Parameters = field(default_factory=dict)
    rule: str = "accuracy"
    tuned_at: Parameters = field(default_factory=dict)
    n_classes: int | None = None
    core_only: bool = False
    debiasing: str | None = None
    control: str | None = None

    @property
    def title(self) -> str:
        """What is trained or done, as people write it."""
        return find_method(self.method).title if self.debiasing is None else DEBIASING[self.debiasing].title


@dataclass(frozen=True)
class Runs:
    """What came of one setting on one source.

    Attributes:
        setting: which one.
        runs: one per seed.
        reason: why there are none, or not all.
        failed: whether something that was to be run failed.
        chosen: the parameters that were chosen on validation rows.
        untried: which settings could not be tried for that, and why; empty if all could.
    """

    setting: RunSetting
    runs: tuple[Run, ...] = ()
    reason: str = "not run"
    failed: bool = False
    chosen: Parameters = field(default_factory=dict)
    untried: str = ""

    @property
    def parameters(self) -> dict[str, Any]:
        """All parameters that the runs were trained with, those with their default values left out."""
        return find_method(self.setting.method).unusual(dict(self.chosen) | dict(self.setting.parameters))

    def values(self, metric: str) -> tuple[float, ...]:
        """A metric of all runs; NaN where it is not defined."""
        return tuple(math.nan if (value := run.metrics.get(metric)) is None else value for run in self.runs)

    def recurrence(self) -> tuple[float, ...]:
        """How often the nodes of each run recur in the other runs that were trained together with it.

        A share among few runs and one among many are not alike. If seeds were added later, those of the largest sets
        that were trained together count; the others are NaN.
        """
        together = Counter((run.shared, run.seconds) for run in self.runs)
        most = max(together.values(), default=0)
        values = zip(self.values("recurrence"), self.runs, strict=True)
        return tuple(value if together[run.shared, run.seconds] == most else math.nan for value, run in values)

    def cell(self, metric: str, paper: PaperMean | None = None) -> Cell:
        """The same as a cell of a table, beside the paper's number; if it was not run, with the reason."""
        return Cell(self.values(metric), paper) if self.runs else Cell(None, paper, self.reason)


class Line(NamedTuple):
    """A row of a table: the texts that lead it, and whose runs it shows.

    Attributes:
        label: of the runs.
        texts: under the heads.
        suffix: of metrics that are measured in several ways, such as ``"_over_scores"``.
    """

    label: Label
    texts: tuple[str, ...]
    suffix: str = ""

    def of(self, metric: str) -> str:
        """The name of a metric in this line."""
        return f"{metric}{self.suffix}" if metric in QUALITIES else metric


@dataclass(frozen=True)
class Collected:
    """The runs of an experiment, ready to be shown.

    Attributes:
        runs: by source, and by the labels that the experiment declared.
        options: as given.
    """

    runs: Mapping[Source, Mapping[Any, Runs]]
    options: Options

    def table(
        self,
        caption: str,
        heads: Sequence[str],
        metrics: Sequence[str],
        lines: Sequence[Line],
        published: PaperLookUp | None = None,
    ) -> Table:
        """Lines in rows, metrics by source in columns; on data sets of the paper its numbers beside ours."""
        columns = [replace(METRICS[metric], group=source.title) for source in self.runs for metric in metrics]

        def cell(source: Source, line: Line, metric: str) -> Cell:
            known = published if source.in_paper and not line.suffix else None
            paper = None if known is None else known(metric, source.name, line.label)
            return self.runs[source][line.label].cell(line.of(metric), paper)

        rows = [
            Row(line.texts, tuple(cell(source, line, metric) for source in self.runs for metric in metrics))
            for line in lines
        ]
        return Table(caption, heads, columns, rows)


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
        settings: what to run on a source, by labels of the experiment's own; a sweep grows, its longest training last.
        show: from the runs under these labels to tables and figures.
        misfit: why it makes no sense on some data, or ``None``.
    """

    name: str
    title: str
    paper: str
    data: tuple[str, ...]
    seeds: int
    settings: Callable[[Source, Options], Mapping[Any, RunSetting]]
    show: Callable[[Collected], Shown]
    misfit: Callable[[Source], str | None] = lambda source: None
