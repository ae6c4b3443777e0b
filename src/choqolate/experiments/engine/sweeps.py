"""Settings side by side on each data set, as one table and one figure: what the paper's ablations have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from choqolate.experiments.engine.all_methods import OVER_SCORES, readings
from choqolate.experiments.engine.experiment import Collected, Experiment, Line, Options, Runs, RunSetting, Shown
from choqolate.experiments.engine.measures import METRICS, QUALITIES
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tables import Row, Table
from choqolate.experiments.engine.trade_off_figures import Points, trade_off_grid
from choqolate.experiments.engine.training_notes import chosen

SEEDS = 5
COLUMNS = ("accuracy", *QUALITIES)


class SweepRow(NamedTuple):
    """What a sweep knows a setting by: how it stands in table and figure.

    Attributes:
        texts: that lead its row of the table.
        legend: its name in the figure.
        paper: what the paper prints, with ``accuracy``, ``gini`` and ``coherence``.
        panel: of the figure, if there are several per data set.
    """

    texts: tuple[str, ...]
    legend: str
    paper: Any = None
    panel: str = ""


def sweep(
    *,
    name: str,
    title: str,
    paper: str,
    data: tuple[str, ...],
    caption: str,
    heads: tuple[str, ...],
    settings: Callable[[Source, Options], Mapping[SweepRow, RunSetting]],
    note: str = "",
    misfit: Callable[[Source], str | None] = lambda source: None,
    seeds: int = SEEDS,
    rivals: bool = True,
) -> Experiment:
    """An experiment with one row per setting.

    Args:
        name, title, paper, data, misfit, seeds: of the experiment.
        caption: of the table; ``{data}`` is the data set.
        heads: of the texts that lead a row.
        settings: what to run on a source, by row.
        note: what is to be said about it. What was chosen for methods is added.
        rivals: whether the best row of a column is bold.
    """

    def show(collected: Collected) -> Shown:
        files = {source: f"{name}-{source.name}" if len(collected.runs) > 1 else name for source in collected.runs}
        tables = {
            files[source]: _table(caption.format(data=source.title), heads, source, runs, rivals)
            for source, runs in collected.runs.items()
        }
        panels = {source: _panels(source, runs) for source, runs in collected.runs.items()}
        if all(len(of_source) == 1 for of_source in panels.values()):
            figures = {name: trade_off_grid({title: one for own in panels.values() for title, one in own.items()})}
        else:
            figures = {files[source]: trade_off_grid(own, down=True) for source, own in panels.items()}
        twice = any(line.suffix for runs in collected.runs.values() for _, line in _lines(runs))
        notes = [note, OVER_SCORES if twice else "", *(chosen(source, runs) for source, runs in collected.runs.items())]
        return Shown(tables, figures, [one for one in notes if one])

    return Experiment(name, title, paper, data, seeds, settings, show, misfit)


def _table(caption: str, heads: tuple[str, ...], source: Source, runs: Mapping[SweepRow, Runs], rivals: bool) -> Table:
    """Accuracy, Gini and coherence of each setting; on data sets of the paper its numbers beside ours."""
    rows = []
    for row, line in _lines(runs):
        paper = row.paper if source.in_paper and not line.suffix else None
        own = runs[row]
        rows.append(Row(line.texts, tuple(own.cell(line.of(name), getattr(paper, name, None)) for name in COLUMNS)))
    columns = [METRICS[name] if rivals else replace(METRICS[name], higher_is_better=None) for name in COLUMNS]
    return Table(caption, heads, columns, rows)


def _panels(source: Source, runs: Mapping[SweepRow, Runs]) -> dict[str, dict[str, Points]]:
    """Quality and accuracy of the runs of each setting, for each panel and each quality."""
    panels: dict[str, dict[str, Points]] = {}
    for panel in dict.fromkeys(row.panel for row in runs):
        own = [(row, line) for row, line in _lines(runs) if row.panel == panel]
        own.sort(key=lambda one: bool(one[1].suffix))  # second readings last, so that methods look the same without
        panels[f"{source.title}, {panel}" if panel else source.title] = {
            METRICS[quality].name: {
                _legend(row, line): (runs[row].values(line.of(quality)), runs[row].values("accuracy"))
                for row, line in own
            }
            for quality in QUALITIES
        }
    return panels


def _lines(runs: Mapping[SweepRow, Runs]) -> list[tuple[SweepRow, Line]]:
    """All settings; those whose nodes stand on learned units twice, over these and over the scores below them."""
    return [(row, line) for row, own in runs.items() for line in readings(Line(row, row.texts), [own])]


def _legend(row: SweepRow, line: Line) -> str:
    return f"{row.legend}, over scores" if line.suffix else row.legend
