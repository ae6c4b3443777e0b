"""How redundant three concepts are, and what nodes make of concepts: the figures that motivate the nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from choqolate._util.markup import DASH
from choqolate._util.numbers import decimal
from choqolate._util.text import listed
from choqolate.baselines import LinearBottleneck
from choqolate.data.scores import ConceptScores
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.experiments.engine.experiment import Collected, Options, Shown
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tables import Row, Table
from choqolate.metrics import concept_correlation
from choqolate.plots.concept_triples import draw_triple
from choqolate.plots.node_heatmaps import node_heatmaps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SEARCHED = 1_000  # concepts among which a triple is looked for: a second or two


def show_concepts(name: str, preferred: Sequence[str], note: str) -> Callable[[Collected], Shown]:
    """Show three concepts as a scatter and a table, and the concepts in the nodes of a linear network and of ours.

    Args:
        name: of the files, before that of the data set.
        preferred: the three concepts, where a table has them; elsewhere the three that correlate most.
        note: what is to be said about it.
    """

    def show(collected: Collected) -> Shown:
        tables: dict[str, Table] = {}
        figures: dict[str, Figure] = {}
        notes = [note]
        for source in collected.runs:
            test = source.load().part("test")
            known = set(preferred) <= set(test.concepts)
            concepts = tuple(preferred) if known else most_correlated(test)
            why = "those of the paper" if known else "the three with the highest mean correlation"
            notes.append(f"On {source.title}: {listed(concepts, most=3)}, {why}.")
            diagonal = shared_diagonal(_columns(test, concepts))
            tables[f"{name}-{source.name}"] = _table(test, concepts, source.title)
            figures[f"{name}-{source.name}"] = draw_triple(test, concepts, diagonal.direction, source.title)
            figures[f"{name}-nodes-{source.name}"] = _draw_nodes(source, collected.options)
        return Shown(tables, figures, notes)

    return show


def misfit(source: Source) -> str | None:
    """Why there are no three concepts to show."""
    varying = int((np.ptp(source.load().part("test").scores, axis=0) > 0).sum())
    if varying >= 3:
        return None
    return f"the figure needs three concepts whose scores differ on the test rows, but {source.title} has {varying}"


class Diagonal(NamedTuple):
    """The first principal component of three standardized concepts.

    Attributes:
        direction: ``(3,)``, of length one.
        share: of the variance.
    """

    direction: np.ndarray
    share: float


def shared_diagonal(X: np.ndarray) -> Diagonal:
    """First principal component of scores ``(n, 3)``, each in units of its standard deviation.

    If a concept is constant, the share is NaN and the direction zero.

    >>> x = np.array([0.1, 0.4, 0.2])
    >>> direction, share = shared_diagonal(np.column_stack([x, 2 * x, x + 1]))
    >>> direction.round(3), round(share, 3)
    (array([0.577, 0.577, 0.577]), 1.0)
    """
    correlation = concept_correlation(X)
    if not np.isfinite(correlation).all():
        return Diagonal(np.zeros(3), math.nan)
    variances, directions = np.linalg.eigh(correlation)
    direction = directions[:, -1]
    return Diagonal(direction * np.sign(direction.sum() or 1.0), float(variances[-1] / variances.sum()))


def most_correlated(table: ConceptScores) -> tuple[str, ...]:
    """The three concepts with the highest mean correlation, in the order of the table.

    Of more than 1,000 concepts, those are looked at that correlate most with any other one.
    """
    matrix = concept_correlation(table.scores)
    np.fill_diagonal(matrix, np.nan)
    matrix = np.where(np.isnan(matrix), -np.inf, matrix)  # of a concept that is constant
    looked_at = np.sort(np.argsort(-matrix.max(axis=0), kind="stable")[:_SEARCHED])
    near = matrix[np.ix_(looked_at, looked_at)]
    best, found = -np.inf, (0, 1, 2)
    for j in range(len(near) - 2):
        sums = near[j, j + 1 :, None] + near[j, None, j + 1 :] + near[j + 1 :, j + 1 :]
        k, l = np.unravel_index(sums.argmax(), sums.shape)
        if sums[k, l] > best:
            best, found = float(sums[k, l]), (j, j + 1 + int(k), j + 1 + int(l))
    return tuple(table.concepts[looked_at[place]] for place in sorted(found))


def _columns(table: ConceptScores, concepts: Sequence[str]) -> np.ndarray:
    return table.scores[:, [table.concepts.index(name) for name in concepts]].astype(np.float64)


def _table(test: ConceptScores, concepts: Sequence[str], title: str) -> Table:
    """Correlation of each pair and the share of the diagonal: over all test rows, and within their classes."""
    X = _columns(test, concepts)
    assert test.labels is not None
    within = X.copy()
    for label in set(test.labels.tolist()):
        within[test.labels == label] -= within[test.labels == label].mean(axis=0)
    kinds = (X, within)
    matrices = [concept_correlation(kind) for kind in kinds]
    rows = [
        (f"{concepts[j]}, {concepts[l]}", *(decimal(matrix[j, l]) for matrix in matrices))
        for j, l in combinations(range(3), 2)
    ]
    shares = [_percent(shared_diagonal(kind).share) for kind in kinds]
    rows.append(("share of the variance on the diagonal", *shares))
    heads = ("Concepts", "Correlation", "Within classes")
    return Table(f"Three concepts on {title}", heads, (), [Row(row, ()) for row in rows])


def _percent(share: float) -> str:
    return DASH if math.isnan(share) else f"{100 * share:.0f}%"


def _draw_nodes(source: Source, options: Options) -> Figure:
    """The concepts in the nodes of a linear network and of CHOQOLATE, one run each."""
    rows = source.load().part("train")
    models = {
        "Linear network": LinearBottleneck(device="cpu", **options.common).fit(rows.frame, rows.labels),
        "CHOQOLATE": ChoqolateClassifier(device="cpu", **options.common).fit(rows.frame, rows.labels),
    }
    attributions = {name: model.node_attributions_ for name, model in models.items()}
    return node_heatmaps(attributions, rows.concepts, source.title)
