"""Controls of a comparison: the same methods on concepts that mean nothing, and the ceiling; what removal leaves."""

from __future__ import annotations

import math
from dataclasses import replace

from choqolate.analysis.control_text import RANDOM
from choqolate.experiments.engine.all_methods import settings_of
from choqolate.experiments.engine.concept_tables import CEILING
from choqolate.experiments.engine.experiment import Collected, Label, Line, Options, Runs, RunSetting
from choqolate.experiments.engine.measures import METRICS
from choqolate.experiments.engine.methods import find_method
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tables import Cell, Row, Table

OURS = ("choqolate", "choqolate-auto")
COLUMNS = ("accuracy", "anec", "gini", "coherence", "concepts_per_class")
NOTE = (
    "Controls: the same methods with the same parameters, trained and tested on as many random names or random "
    "directions as there are concepts; the seeds share at most five draws. A small gap in accuracy to these rows means "
    "that almost any set of names is enough to tell the classes apart, so the accuracy does not show that concepts "
    "mean what their names say. Logistic regression on all scores is the ceiling: the accuracy of a linear model that "
    "need not be interpretable."
)


def controlled(options: Options) -> list[str]:
    """The methods that are controlled: ours and those of the user's own, or the first one."""
    return [name for name in options.methods if name in (*OURS, *options.own_methods)] or list(options.methods[:1])


def control_settings(source: Source, options: Options) -> dict[Label, RunSetting]:
    """The controlled methods on each kind of random concepts."""
    chosen = settings_of(controlled(options), source, options)
    return {(name, kind): replace(setting, control=kind) for name, setting in chosen.items() for kind in RANDOM}


def controls_table(collected: Collected, source: Source) -> Table:
    """Real concepts, random names and random directions below each other, the ceiling last."""
    lines = []
    for name in controlled(collected.options):
        title = find_method(name).title
        lines.append(Line(name, (title, "the concepts")))
        lines += [Line((name, kind), (title, said)) for kind, said in RANDOM.items()]
    if CEILING not in controlled(collected.options):
        lines.append(Line(CEILING, (find_method(CEILING).title, "the concepts")))
    runs = collected.runs[source]
    rows = [Row(line.texts, tuple(runs[line.label].cell(name) for name in COLUMNS)) for line in lines]
    columns = [replace(METRICS[name], higher_is_better=None) for name in COLUMNS]  # random concepts do not compete
    return Table(f"Controls on {source.title}", ("Method", "On"), columns, rows)


def removal_note(options: Options) -> str:
    """How the methods that are shown remove concepts, and what is measured then."""
    kinds = {"ours" if name in OURS else "own" if name in options.own_methods else "" for name in options.methods}
    ways = {
        "ours": "CHOQOLATE: CHOQ-PCR",
        "": "baselines: frozen at their mean",
        "own": "methods of your own: as their remove_concepts does it",
    }
    return (
        "After removal: the spurious concepts are removed from the trained models, without training again "
        f"({'; '.join(way for kind, way in ways.items() if kind in kinds)}). Follows the bias: AUC of the class score "
        "within a class, for the group that is usual for the class in training (without groups: for scores of the "
        "spurious concepts that are high or low as usual for the class); 0.5 means that the model does not follow the "
        "bias."
    )


def removal_table(collected: Collected, source: Source, lines: list[Line]) -> Table:
    """What becomes of every method when the spurious concepts are removed from it."""
    groups = ("worst_group", "removed_worst_group") if source.load().groups is not None else ()
    columns = ("accuracy", "removed_accuracy", *groups, "follows", "removed_follows")
    runs = collected.runs[source]
    rows = [
        Row(line.texts, tuple(_removal_cell(runs[line.label], name) for name in columns))
        for line in lines
        if not line.suffix
    ]
    return Table(f"Removal on {source.title}", ("Method",), [METRICS[name] for name in columns], rows)


def _removal_cell(runs: Runs, metric: str) -> Cell:
    """What was measured; if concepts could not be removed from some runs, with the reason."""
    cell = runs.cell(metric)
    if not metric.startswith("removed_") or not any(map(math.isnan, runs.values("removed_accuracy"))):
        return cell
    own = ":" in runs.setting.method
    return replace(cell, note="no remove_concepts" if own else "a node would be left without any concept")
