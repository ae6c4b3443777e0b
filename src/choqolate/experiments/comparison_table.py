"""All methods on a user's own scores: the table, the figure and the notes of ``choqolate compare``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean

from choqolate.experiments.engine import all_methods
from choqolate.experiments.engine.experiment import Collected, Experiment, Runs, Shown
from choqolate.experiments.engine.measures import METRICS
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tables import Row, Table
from choqolate.experiments.engine.trade_off_figures import trade_off_grid
from choqolate.experiments.engine.tuning import validation_split

HEADS = ("Method", "Parameters", "Nodes in use")
COLUMNS = ("accuracy", "worst_group", "gini", "coherence", "hsic", "cknna")
"""What is measured, see ``METRICS``; the worst group only where there are groups."""


def _table(collected: Collected, source: Source) -> Table:
    has_groups = source.load().groups is not None
    columns = [name for name in COLUMNS if name != "worst_group" or has_groups]
    rows = []
    for line in all_methods.lines(collected):
        runs = collected.runs[source][line.label]
        texts = (*line.texts, _parameters(runs), _used_nodes(runs))
        rows.append(Row(texts, tuple(runs.cell(line.of(name)) for name in columns)))
    return Table(f"All methods on {source.title}", HEADS, [METRICS[name] for name in columns], rows)


def _parameters(runs: Runs) -> str:
    counts = {int(value) for value in runs.values("parameters") if math.isfinite(value)}
    return " or ".join(f"{count:,}" for count in sorted(counts))


def _used_nodes(runs: Runs) -> str:
    """In the mean over the runs; of a node without weights neither Gini nor coherence is defined."""
    counts = [value for value in runs.values("used_nodes") if math.isfinite(value)]
    return f"{fmean(counts):.3g}" if counts else ""


def _chosen(source: Source, runs: Mapping[str, Runs]) -> str:
    """What was chosen on the validation rows."""
    said = []
    for one in runs.values():
        if one.runs and one.runs[0].chosen:
            values = ", ".join(f"{name} {_value(value)}" for name, value in one.runs[0].chosen.items())
            said.append(f"{one.setting.title}: {values}")
    return f"Chosen on {_validation_rows(source)}: {'; '.join(said)}." if said else ""


def _validation_rows(source: Source) -> str:
    table = source.load()
    own = table.rows.has_part("val")
    kind = "validation rows" if own else "training rows that were held out for it"
    return f"{len(validation_split(table)[1]):,} {kind}"


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _show(collected: Collected) -> Shown:
    source, runs = next(iter(collected.runs.items()))
    tables, notes, figures = {"comparison": _table(collected, source)}, [_chosen(source, runs)], {}
    if len(runs) > 1:
        tables["comparison-significance"] = all_methods.significance_table(collected)
        notes.append(all_methods.significance_note(collected))
        figures["comparison"] = trade_off_grid({source.title: all_methods.trade_offs(collected, source)})
    if any(line.suffix for line in all_methods.lines(collected)):
        notes.append(all_methods.OVER_SCORES)
    return Shown(tables, figures, [note for note in notes if note])


EXPERIMENT = Experiment(
    name="compare",
    title="All methods",
    paper="As in Tables A3 to A5 and A9 and Figure 3",
    data=(),
    seeds=all_methods.SEEDS,
    settings=all_methods.method_settings,
    show=_show,
)
