"""All methods on a user's own scores: the table, the figure and the notes of ``choqolate compare``."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any

import numpy as np

from choqolate import metrics
from choqolate.analysis.leakage import MOST_ROWS, MOSTLY
from choqolate.errors import ChoqolateError
from choqolate.experiments.engine import all_methods
from choqolate.experiments.engine.concept_tables import NOTE as CONCEPTS_NOTE
from choqolate.experiments.engine.concept_tables import RECURRENCE as RECURRENCE_NOTE
from choqolate.experiments.engine.concept_tables import concepts_figure, concepts_table, left_out, rival_settings
from choqolate.experiments.engine.control_rows import NOTE as CONTROLS_NOTE
from choqolate.experiments.engine.control_rows import control_settings, controls_table, removal_note, removal_table
from choqolate.experiments.engine.experiment import Collected, Experiment, Options, Runs, RunSetting, Shown
from choqolate.experiments.engine.measures import METRICS, QUALITIES
from choqolate.experiments.engine.row_notes import rows_notes
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tables import Row, Table
from choqolate.experiments.engine.trade_off_figures import trade_off_grid
from choqolate.experiments.engine.training_notes import training_notes
from choqolate.experiments.paper.information import NOTE as KERNEL_NOTE
from choqolate.experiments.paper.protocol import ALL_METHODS

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


def _removal_note(options: Options, source: Source) -> str:
    """What removal is, and whether the other scores hold what is removed."""
    said, table = removal_note(options), source.load()
    core = [name for name in table.concepts if name not in set(table.spurious)]
    test = table.part("test").sample(MOST_ROWS)
    try:
        found = np.atleast_1d(metrics.probe_r2(test.select(core).scores, test.select(table.spurious).scores))
    except ChoqolateError:  # too few concepts or rows
        return said
    known = found[np.isfinite(found)]  # of a constant concept there is none
    if not len(known):
        return said
    probe = known.mean()
    held = ": what was removed from the models is still in the scores" if probe >= MOSTLY else ""
    return (
        f"{said} A linear probe computes the removed scores from the other {len(core):,} with an R² of "
        f"{probe:.2f} on average{held}."
    )


def _settings(source: Source, options: Options) -> dict[Any, RunSetting]:
    """All methods; and, on request, rivals and controls."""
    found: dict[Any, RunSetting] = {**all_methods.method_settings(source, options)}
    return found | rival_settings(options) | control_settings(source, options) if options.controls else found


def _show(collected: Collected) -> Shown:
    source = next(iter(collected.runs))
    tables, figures = {"comparison": _table(collected, source)}, {}
    notes = [*rows_notes(collected), *training_notes(collected)]
    if collected.options.controls:
        tables["comparison-concepts"] = concepts_table(collected, source, all_methods.lines(collected))
        figures["comparison-concepts"] = concepts_figure(collected, source, all_methods.lines(collected))
        tables["comparison-controls"] = controls_table(collected, source)
        notes += [CONCEPTS_NOTE, left_out(collected, source), CONTROLS_NOTE]
    if source.load().spurious:
        tables["comparison-removal"] = removal_table(collected, source, all_methods.lines(collected))
        notes.append(_removal_note(collected.options, source))
    if len(collected.options.methods) > 1:
        tables["comparison-significance"] = all_methods.significance_table(collected)
        notes.append(all_methods.significance_note(collected))
        panels = all_methods.trade_offs(collected, source, recurrence=True)
        figures["comparison"] = trade_off_grid({source.title: panels})
        if len(panels) > len(QUALITIES) and not collected.options.controls:
            notes.append(RECURRENCE_NOTE)
    if any(line.suffix for line in all_methods.lines(collected)):
        notes.append(all_methods.OVER_SCORES)
    notes += [KERNEL_NOTE, ALL_METHODS]
    return Shown(tables, figures, [note for note in notes if note])


EXPERIMENT = Experiment(
    name="compare",
    title="All methods",
    paper="As in Tables A3 to A5 and A9 and Figure 3",
    data=(),
    seeds=all_methods.SEEDS,
    settings=_settings,
    show=_show,
)
