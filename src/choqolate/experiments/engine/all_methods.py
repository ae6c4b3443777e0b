"""All methods on the same scores: what to run, and how the paper's main tables and its figure of trade-offs show it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from choqolate._util.markup import DASH
from choqolate.experiments.engine.experiment import Collected, Line, Options, PaperLookUp, Runs, RunSetting, Shown
from choqolate.experiments.engine.measures import METRICS, QUALITIES
from choqolate.experiments.engine.methods import find_method
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.statistics import compare, show_p
from choqolate.experiments.engine.tables import Row, Table
from choqolate.experiments.engine.trade_off_figures import Points, trade_off_grid
from choqolate.experiments.engine.training_notes import training_notes

SEEDS = 20
OVER_SCORES = (
    "The nodes of PSCBM weight concept units that are learned from all scores. Its first row is over these units, as "
    'in its authors\' work; a concept that is not kept counts as zero. The row "over scores" is for the weights of the '
    "scores themselves, through the units."
)


def method_settings(source: Source, options: Options) -> dict[str, RunSetting]:
    """Every method, under its name."""
    return settings_of(options.methods, source, options)


def settings_of(methods: Sequence[str], source: Source, options: Options) -> dict[str, RunSetting]:
    """Some methods, under their names; what is chosen on validation rows is chosen with the same parameters."""
    fixed = options.budgeted(source)
    return {name: RunSetting(name, fixed, options.rule, tuned_at=fixed) for name in methods}


def lines(collected: Collected) -> list[Line]:
    """All methods; one whose nodes stand on learnt units is read twice, over these and over the scores below them."""
    found: list[Line] = []
    for method in collected.options.methods:
        title = find_method(method).title
        found += readings(Line(method, (title,)), [runs[method] for runs in collected.runs.values()])
    return found


def readings(line: Line, several: Iterable[Runs]) -> list[Line]:
    """The line of a method; where its nodes weight learned units, a second one over the scores below the units."""
    again = line._replace(texts=(*line.texts[:-1], f"{line.texts[-1]}, over scores"), suffix="_over_scores")
    values = [value for runs in several for value in runs.values(again.of("gini"))]
    return [line, again] if any(map(math.isfinite, values)) else [line]


# ---------------------------------------------------------------------- metrics


def show_metrics(
    name: str, caption: str, metrics: Sequence[str], published: PaperLookUp, note: str = ""
) -> Callable[[Collected], Shown]:
    """Show methods in rows and metrics by data set in columns, the paper's numbers beside ours.

    Notes say what was chosen for each method, and what had not converged.
    """

    def show(collected: Collected) -> Shown:
        kept = [line for line in lines(collected) if not line.suffix or set(metrics) & set(QUALITIES)]
        table = collected.table(caption, ("Method",), metrics, kept, published)
        return Shown({name: table}, notes=[*([note] if note else []), *training_notes(collected)])

    return show


# ---------------------------------------------------------------------- trade-off


def show_trade_off(name: str) -> Callable[[Collected], Shown]:
    """Show accuracy against the quality of the nodes, one panel per data set."""
    return lambda collected: Shown(
        figures={name: trade_off_grid({source.title: trade_offs(collected, source) for source in collected.runs})},
        notes=[OVER_SCORES] if any(line.suffix for line in lines(collected)) else [],
    )


def trade_offs(collected: Collected, source: Source, *, recurrence: bool = False) -> dict[str, Points]:
    """Quality and accuracy of all runs of all methods on one data set, for each quality.

    Second readings come last, so that methods look the same in figures without them.

    Args:
        collected: the runs.
        source: the data set.
        recurrence: whether the recurrence of nodes is a quality too, where at least one method has it.
    """
    runs = collected.runs[source]
    found = sorted(lines(collected), key=lambda line: bool(line.suffix))
    panels: dict[str, Points] = {
        METRICS[quality].name: {
            line.texts[0]: (runs[line.label].values(line.of(quality)), runs[line.label].values("accuracy"))
            for line in found
        }
        for quality in QUALITIES
    }
    recurring: Points = {
        line.texts[0]: ([100 * share for share in own.recurrence()], own.values("accuracy"))
        for line in found
        if not line.suffix
        for own in [runs[line.label]]
    }
    if recurrence and any(math.isfinite(share) for shares, _ in recurring.values() for share in shares):
        panels[f"{METRICS['recurrence'].name} (%)"] = recurring
    return panels


# ---------------------------------------------------------------------- significance


PaperTest = Callable[[str, str, Any], tuple[float, str] | None]
"""From metric, data set and baseline to Δ and p that the paper prints of CHOQOLATE against it."""


def show_significance(name: str, published: PaperTest) -> Callable[[Collected], Shown]:
    """Show whether the first method's nodes are better than those of each other method."""
    return lambda collected: Shown(
        {name: significance_table(collected, published)}, notes=[significance_note(collected)]
    )


def significance_note(collected: Collected) -> str:
    """What Δ and p are."""
    ours = find_method(collected.options.methods[0]).title
    return (
        "Δ is the distance of the medians relative to the size of the other's; p is that of the one-sided Mann-Whitney "
        f"U test that the values of {ours} are larger."
    )


def significance_table(collected: Collected, published: PaperTest = lambda *_: None) -> Table:
    """A row for each baseline on each data set."""
    ours, *others = lines(collected)
    heads = ["Data set", "Other"]
    for name in ("Gini", "Coherence"):
        heads += [f"{name} Δ", f"{name} p", f"{name} Δ, paper", f"{name} p, paper"]
    texts = [
        [source.title, *other.texts, *_tests(source, runs, ours, other, published)]
        for source, runs in collected.runs.items()
        for other in others
    ]
    printed = [k for k in range(len(heads)) if any(row[k] for row in texts)]  # without empty columns of the paper
    rows = [Row(tuple(row[k] for k in printed), ()) for row in texts]
    return Table(f"{ours.texts[0]} against the others", tuple(heads[k] for k in printed), (), rows)


def _tests(source: Source, runs: Mapping[Any, Runs], ours: Line, other: Line, published: PaperTest) -> list[str]:
    """Δ and p of each quality, and what the paper prints of them."""
    texts: list[str] = []
    for metric in QUALITIES:
        result = compare(*(runs[one.label].values(one.of(metric)) for one in (ours, other)))
        known = source.in_paper and ours.label == "choqolate" and not other.suffix
        paper = published(metric, source.name, other.label) if known else None
        enough = min(result.n_ours, result.n_baseline) > 1
        texts += [_delta(result.delta), show_p(result.p)] if enough else [DASH, DASH]
        texts += ["", ""] if paper is None else [_delta(paper[0]), paper[1]]
    return texts


def _delta(value: float) -> str:
    return DASH if math.isnan(value) else f"{value:z.2f}"
