"""All methods on a user's own scores, on one page."""

from __future__ import annotations

import math
from statistics import fmean

from choqolate.experiments.engine import comparison
from choqolate.experiments.engine.experiment import Collected, Experiment, Shown
from choqolate.experiments.engine.figures import trade_off_grid
from choqolate.experiments.engine.methods import find_method
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tables import Column, Row, Table
from choqolate.experiments.engine.tasks import Config
from choqolate.experiments.engine.tuning import validation_split
from choqolate.experiments.paper import significance

COLUMNS = {
    "accuracy": Column("Accuracy", percent=True, higher_is_better=True),
    "worst_group": Column("Worst group", percent=True, higher_is_better=True),
    "gini": Column("Attribution Gini", higher_is_better=True),
    "coherence": Column("Node Coherence", higher_is_better=True),
    "hsic": Column("HSIC"),
    "cknna": Column("CKNNA"),
}


def _table(collected: Collected, source: Source) -> Table:
    columns = {name: column for name, column in COLUMNS.items() if name != "worst_group" or _has_groups(source)}
    rows = []
    for reading in comparison.readings(collected):
        config = comparison.config(source, reading.method, collected.settings)
        texts = (reading.title, _parameters(collected, config), _used_nodes(collected, config))
        rows.append(Row(texts, tuple(collected.cell(config, reading.of(name)) for name in columns)))
    heads = ("Method", "Parameters", "Nodes in use")
    return Table(f"All methods on {source.title}", heads, list(columns.values()), rows)


def _parameters(collected: Collected, config: Config) -> str:
    counts = {int(value) for value in collected.values(config, "parameters") if math.isfinite(value)}
    return " or ".join(f"{count:,}" for count in sorted(counts))


def _used_nodes(collected: Collected, config: Config) -> str:
    """In the mean over the runs; of a node without weights neither Gini nor coherence is defined."""
    counts = [value for value in collected.values(config, "used_nodes") if math.isfinite(value)]
    return f"{fmean(counts):.3g}" if counts else ""


def _has_groups(source: Source) -> bool:
    return source.load().groups is not None


def _chosen(collected: Collected, source: Source) -> str:
    """What was chosen on the validation rows."""
    said = []
    for method in collected.settings.methods:
        runs = collected.outcome.of(comparison.config(source, method, collected.settings), collected.seeds)
        if runs and runs[0].chosen:
            values = ", ".join(f"{name} {_value(value)}" for name, value in runs[0].chosen.items())
            said.append(f"{find_method(method).title}: {values}")
    return f"Chosen on {_validation_rows(source)}: {'; '.join(said)}." if said else ""


def _validation_rows(source: Source) -> str:
    table = source.load()
    own = table.split is not None and (table.split == "val").any()
    kind = "validation rows" if own else "training rows that were held out for it"
    return f"{len(validation_split(table)[1]):,} {kind}"


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _show(collected: Collected) -> Shown:
    source = collected.sources[0]
    tables, notes = {"comparison": _table(collected, source)}, [_chosen(collected, source)]
    if len(collected.settings.methods) > 1:
        tables["comparison-significance"] = significance.table(collected)
        notes.append(significance.note(collected))
    if any(reading.suffix for reading in comparison.readings(collected)):
        notes.append(comparison.OVER_SCORES)
    figures = {}
    if len(collected.settings.methods) > 1:
        figures["comparison"] = trade_off_grid({source.title: comparison.trade_offs(collected, source)})
    return Shown(tables, figures, [note for note in notes if note])


EXPERIMENT = Experiment(
    name="compare",
    title="All methods",
    paper="As in Tables A3 to A5 and A9 and Figure 3",
    data=(),
    seeds=comparison.SEEDS,
    tasks=comparison.tasks,
    show=_show,
)
