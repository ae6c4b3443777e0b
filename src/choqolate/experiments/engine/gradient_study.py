"""Proposition 1 and Corollary 1 on a table of scores: the checks, and what the factors do while a layer trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from choqolate._util.numbers import decimal
from choqolate._util.text import counted
from choqolate.analysis.gradient_course import (
    EPOCHS,
    TEMPERATURES,
    Course,
    GradientRows,
    anchor_of,
    at_end,
    factor_sizes,
    follow_training,
    step_of,
)
from choqolate.analysis.gradient_factors import check_gradients
from choqolate.errors import ChoqolateError
from choqolate.experiments.engine.experiment import Collected, Shown
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tables import Row, Table
from choqolate.plots import gradient_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHECKED = (1.0, 0.1, 0.005)
"""Temperatures of the checks: Proposition 1 is the first, Corollary 1 the others."""

L1 = 0.01  # of the checks with the penalty
FIGURES: dict[str, Callable[..., Figure]] = {
    "factors": gradient_panels.draw_factors,
    "freezing": gradient_panels.draw_freezing,
    "temperature": gradient_panels.draw_temperatures,
    "anchors": gradient_panels.draw_anchors,
}


def show_gradient(name: str, note: str) -> Callable[[Collected], Shown]:
    """Show checks, what shows in training, and four figures, for each data set."""

    def show(collected: Collected) -> Shown:
        tables: dict[str, Table] = {}
        figures: dict[str, Figure] = {}
        notes = [note]
        for source in collected.runs:
            rows = GradientRows.of(source.load().part("train"))
            epochs = int(collected.options.parameters.get("epochs", EPOCHS))
            course = follow_training(rows, epochs)
            notes.append(f"On {source.title}: {sizes(rows)}; {counted(epochs, 'epoch')}.")
            made = {"checks": checks_table(rows), "factors": factors_table(course), "anchors": anchors_table(course)}
            tables |= {f"{name}-{kind}-{source.name}": table for kind, table in made.items()}
            figures |= {f"{name}-{kind}-{source.name}": draw(course, source.title) for kind, draw in FIGURES.items()}
        return Shown(tables, figures, notes)

    return show


def misfit(source: Source) -> str | None:
    """Why the analysis cannot run on a source."""
    try:
        GradientRows.of(source.load().part("train"))
    except ChoqolateError as error:
        return str(error)
    return None


def sizes(rows: GradientRows) -> str:
    """How much is looked at.

    >>> import torch
    >>> sizes(GradientRows(torch.rand(9, 3), torch.arange(9) % 2, ("sea", "crest", "sand"), ("gull", "wren")))
    '9 training rows, 3 concepts, 9 features for each of 2 classes'
    """
    n_concepts = len(rows.concepts)
    features = f"{n_concepts**2:,} features for each of {len(rows.classes)} classes"
    return f"{counted(len(rows.u), 'training row')}, {counted(n_concepts, 'concept')}, {features}"


def checks_table(rows: GradientRows) -> Table:
    """How far the formula is from other ways to the gradient, with and without the penalty."""
    found = {(l1, T): check_gradients(rows.u, rows.targets, T, l1) for l1 in (0.0, L1) for T in CHECKED}
    ways = list(next(iter(found.values())))
    texts = [
        (f"{T:g}", f"{l1:g}", *(f"{relative:.1e}" for _, relative in each.values())) for (l1, T), each in found.items()
    ]
    title = "Proposition 1 (T = 1) and Corollary 1: largest difference from the formula over the largest gradient"
    return Table(title, ("T", "l1", *ways), (), [Row(row, ()) for row in texts])


def factors_table(course: Course) -> Table:
    """The factors at the end of training, from the start where that tells more."""
    rows = []
    for run, temperature in enumerate(TEMPERATURES):
        sizes, end = factor_sizes(course, run), at_end(course, run)
        last = step_of(course, run, len(course.theta) - 1)
        texts = [f"{temperature:g}", _from_to(sizes["error"][0], sizes["error"][-1], 3), f"{end.quiet:.0%}"]
        texts += [f"{sizes[name][-1]:.0%}" for name in ("small weights", "small gradients")]
        texts += [_from_to(sizes["deviation"][0], sizes["deviation"][-1]), decimal(sizes["weighted deviation"][-1])]
        texts += [decimal(_rank_correlation(last.weights, last.gradients))]
        texts += [decimal(end.confidence), f"{100 * end.accuracy:.1f}", decimal(end.gini)]
        rows.append(Row(tuple(texts), ()))
    heads = ("T", "Mean error", "Error below 0.1", "Small weights", "Small gradients", "Mean deviation")
    more = ("Weighted deviation", "Rank r of gradient and weight", "Highest probability", "Accuracy (%)", "Gini")
    return Table("Factors of the gradient, start to end of training", (*heads, *more), (), rows)


def anchors_table(course: Course) -> Table:
    """Which concept leads the last class, and whether the pull goes with the relation to it."""
    rows = []
    for run, temperature in enumerate(TEMPERATURES):
        anchor, pulls = anchor_of(course, run), course.pulls(run)
        first, last = (_rank_correlation(anchor.relation, pulls[epoch]) for epoch in (0, -1))
        up = [int((pulls[epoch] > 0).sum()) for epoch in (0, -1)]
        texts = [f"{temperature:g}", course.rows.concepts[anchor.concept], decimal(anchor.share)]
        texts += [decimal(at_end(course, run).on_pairs), _from_to(first, last), f"{up[0]} to {up[1]}"]
        rows.append(Row(tuple(texts), ()))
    heads = (
        "T",
        "Leading concept at the end",
        "Its share",
        "Weight on pairs",
        "Rank r of pull and correlation with it",
    )
    n_concepts = len(course.rows.concepts)
    title = f"Anchors of class {course.rows.classes[-1]}, start to end of training"
    return Table(title, (*heads, f"Concepts pulled up, of {n_concepts}"), (), rows)


def _from_to(first: float, last: float, digits: int = 2) -> str:
    return f"{decimal(first, digits)} to {decimal(last, digits)}"


def _rank_correlation(x: object, y: object) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(x, y).statistic)
