"""How many concepts a class takes: table and figure of a comparison, with sparse logistic regression as the rival."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING, Any

from choqolate.experiments.engine.experiment import Collected, Label, Line, Options, Runs, RunSetting
from choqolate.experiments.engine.measures import METRICS
from choqolate.experiments.engine.methods import RIVALS, STRENGTHS, find_method
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tables import Cell, Row, Table
from choqolate.metrics.effective_concepts import NEC_COUNTS
from choqolate.plots import accuracy_against_concepts, accuracy_at_concepts, legend_below
from choqolate.plots.labels import write_title
from choqolate.plots.style import font, scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CEILING = "logistic"
PATHS = ("l1-logistic", "l1-logistic-refitted")
SHOWN_COUNTS = (5, 10, 20)
COLUMNS = ("accuracy", "concepts_per_class", "recurrence", *(f"nec_{k}" for k in SHOWN_COUNTS), "anec")
RECURRENCE = (
    "Nodes that recur: share of the other runs that have a node with the same concepts (cosine of the attributions at "
    "least 0.8); nodes without any weight do not count. If seeds are added later, their runs are not compared with the "
    "earlier runs."
)
NOTE = (
    "Concepts per class: how many concepts make up 95% of the attributions of a class through both layers. Accuracy at "
    "k: each class keeps its k largest concepts, and class scores are shifted to the class shares of the training "
    f"rows; ANEC is the mean over k = {', '.join(map(str, NEC_COUNTS))}. For models with interactions, or with units "
    "that are not linear, this is a linear surrogate. The concepts of PSCBM are learned units, each computed from all "
    f"scores. {RECURRENCE} l1 logistic regression is a sparse reference without nodes. Refitted means trained again, "
    "almost without a penalty, on the concepts that each class selected."
)


def rival_settings(options: Options) -> dict[Label, RunSetting]:
    """Logistic regression as chosen on validation rows, and at every strength of the l1 penalty."""
    found: dict[Label, RunSetting] = {name: RunSetting(name, {}, options.rule) for name in RIVALS}
    for name in PATHS:
        for strength in STRENGTHS:
            at = {"strength": strength}
            found[name, strength] = RunSetting(name, at, options.rule, tuned_at=at)
    return found


def concepts_table(collected: Collected, source: Source, lines: list[Line]) -> Table:
    """Methods and rivals in rows, each once; accuracy, concepts per class and accuracy with few of them in columns."""
    runs = collected.runs[source]
    shown = {line.label: line for line in lines if not line.suffix}
    lines = [*shown.values(), *(Line(name, (find_method(name).title,)) for name in RIVALS if name not in shown)]
    rows = [
        Row((*line.texts, _interactions(runs[line.label])), tuple(_cell(runs[line.label], name) for name in COLUMNS))
        for line in lines
    ]
    heads = ("Method", "Interaction mass")
    return Table(f"Concepts per class on {source.title}", heads, [METRICS[name] for name in COLUMNS], rows)


def _cell(runs: Runs, metric: str) -> Cell:
    return Cell(runs.recurrence()) if metric == "recurrence" and runs.runs else runs.cell(metric)


def left_out(collected: Collected, source: Source) -> str:
    """Say which methods have no concepts per class, and whether the table has too few concepts for accuracy at few."""
    runs = collected.runs[source]
    without = [
        one.setting.title
        for one in map(runs.get, collected.options.methods)
        if one and one.runs and not _points(one)[0]
    ]
    said = "Not in the figure of concepts per class (no class_attributions_, or no weights)"
    notes = [f"{said}: {', '.join(without)}."] if without else []
    n_concepts = len(source.load().concepts)
    if n_concepts < NEC_COUNTS[0]:
        least = f"Accuracy with few concepts takes at least {NEC_COUNTS[0]} concepts"
        notes.append(f"{least}, but the table has {n_concepts}.")
    return " ".join(notes)


def _interactions(runs: Runs) -> str:
    """Of a node, in the mean; empty for a method without Choquet integrals."""
    known = [value for value in runs.values("interaction_mass") if math.isfinite(value)]
    return f"{fmean(known):.2f}" if known else ""


def concepts_figure(collected: Collected, source: Source, lines: list[Line]) -> Figure:
    """Accuracy against concepts per class, with the paths of the rivals; and accuracy at few concepts per class.

    The second panel is left out where the table has fewer concepts than the smallest number of concepts per class.
    """
    import matplotlib.pyplot as plt

    runs, lines = collected.runs[source], [line for line in lines if not line.suffix]
    at_few = {line.texts[0]: _at_few(runs[line.label]) for line in lines}
    others = (name for name in PATHS if name not in collected.options.methods)
    rivals = {find_method(name).title: _at_few(runs[name]) for name in others}
    n_panels = 2 if any([*at_few.values(), *rivals.values()]) else 1
    size = (5.5 * n_panels * scale(), 4.4 * scale())
    figure, grid = plt.subplots(1, n_panels, figsize=size, layout="constrained", squeeze=False)
    axes = grid[0]
    ceiling = runs[CEILING].values("accuracy")
    accuracy_against_concepts(
        {line.texts[0]: _points(runs[line.label]) for line in lines},
        axes[0],
        paths=rival_paths(runs),
        ceiling=ceiling[0] if ceiling else None,
        legend=False,
    )
    if n_panels > 1:
        accuracy_at_concepts(at_few, axes[1], paths=rivals, legend=False)
    write_title(axes[0], source.title, font(12))
    legend_below(axes)
    return figure


def _points(runs: Runs) -> tuple[list[float], list[float]]:
    """Concepts per class and accuracy of the runs where both are defined."""
    pairs = zip(runs.values("concepts_per_class"), runs.values("accuracy"), strict=True)
    known = [pair for pair in pairs if all(map(math.isfinite, pair))]
    return [x for x, _ in known], [y for _, y in known]


def _at_few(runs: Runs) -> list[dict[int, float]]:
    """Accuracy at each number of concepts per class, run by run."""
    columns = [runs.values(f"nec_{k}") for k in NEC_COUNTS]
    curves = [dict(zip(NEC_COUNTS, values, strict=True)) for values in zip(*columns, strict=True)]
    return [curve for curve in curves if all(map(math.isfinite, curve.values()))]


def rival_paths(runs: Mapping[Any, Any]) -> dict[str, tuple[list[float], list[float]]]:
    """Concepts per class and accuracy along the path of each rival, from sparse to dense."""
    paths = {}
    for name in PATHS:
        counts, accuracies = zip(*(_points(runs[name, strength]) for strength in STRENGTHS), strict=True)
        if any(counts):
            paths[find_method(name).title] = (list(chain(*counts)), list(chain(*accuracies)))
    return paths
