"""How much the concepts say the same: the method gathers concepts whose scores rise and fall together into nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from choqolate._util.checks import check_number, find_concepts
from choqolate._util.numbers import decimal
from choqolate._util.text import counted, listed
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.explain.correlated_concepts import equal_concepts, find_neighborhoods, with_neighbors
from choqolate.metrics import concept_correlation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUANTILES = (5, 25, 50, 75, 95)  # per cent
MIN_ROWS, MIN_CONCEPTS = 20, 3  # with less nothing can be said of the assumption
_DUPLICATE = 1 - 1e-6
_CHANCE = 0.05  # how often independent concepts may show a partner at all
_MAX_ORDERED = 600  # concepts up to which the best order of leaves takes seconds
EXACT_UP_TO = 2_000  # concepts of which all pairs are looked at
DRAWN = 1_000  # of more concepts, those whose pairs with all others stand for all pairs


class Group(NamedTuple):
    """Concepts that are correlated with each other, and the mean correlation of their pairs."""

    concepts: tuple[str, ...]
    correlation: float


@dataclass(frozen=True, eq=False, repr=False)
class Redundancy:
    """How the scores of M concepts are correlated. Constant concepts are left out of all numbers.

    Of more than 2,000 concepts, the mean, the constant concepts and the duplicates are still those of all pairs. The
    quantiles and the partners come from 1,000 concepts drawn at random, each with all others, and groups and matrix
    are those around the concepts that were looked at.

    Attributes:
        correlation: Pearson correlation of the K concepts that were looked at ``(K, K)``, NaN for constant concepts.
        concepts: names of the M concepts.
        n_rows: number of rows that it was measured on.
        mean: mean correlation of all pairs; NaN if there is no pair.
        quantiles: the 5, 25, 50, 75 and 95% quantiles of the same, by percent.
        groups: groups of two or more mutually correlated concepts, the strongest first.
        group_at: mean correlation from which concepts and groups were joined.
        constant: concepts with one score for all rows.
        duplicates: pairs of concepts whose scores are the same up to shift, scale and rounding.
        threshold: correlation from which a concept counts as the partner of another.
        partnered: share of the concepts that have at least one partner.
        doubtful: a sentence where the assumption of the method looks doubtful or cannot be checked, else ``None``.
        looked_at: indices of the concepts in ``correlation`` ``(K,)``: all of up to 2,000.
        drawn: number of concepts that quantiles and partners were estimated from; ``None`` if from all.
    """

    correlation: np.ndarray
    concepts: tuple[str, ...]
    n_rows: int
    mean: float
    quantiles: dict[int, float]
    groups: tuple[Group, ...]
    group_at: float
    constant: tuple[str, ...]
    duplicates: tuple[tuple[str, str], ...]
    threshold: float
    partnered: float
    doubtful: str | None
    looked_at: np.ndarray
    drawn: int | None = None

    def __repr__(self) -> str:
        found = f"mean correlation {decimal(self.mean, minus='-')}, {counted(len(self.groups), 'group')}"
        return f"Redundancy({counted(len(self.concepts), 'concept')}, {found})"

    @cached_property
    def order(self) -> np.ndarray:
        """Places in ``correlation`` such that correlated concepts are neighbors ``(K,)``; constant ones come last."""
        from scipy.cluster.hierarchy import leaves_list, optimal_leaf_ordering

        constant = np.isnan(np.diagonal(self.correlation))
        varying = np.flatnonzero(~constant)
        if len(varying) > 2:
            distances, tree = _tree(self.correlation[np.ix_(varying, varying)])
            tree = optimal_leaf_ordering(tree, distances) if len(varying) <= _MAX_ORDERED else tree
            varying = varying[leaves_list(tree)]
        return np.concatenate([varying, np.flatnonzero(constant)])

    @property
    def ordered_concepts(self) -> list[str]:
        """Names of the concepts that were looked at, in this order ``(K,)``."""
        return [self.concepts[j] for j in self.looked_at[self.order]]

    def plot_heatmap(self, ax: Axes | None = None) -> Axes:
        """Draw the correlation of the pairs, see :func:`choqolate.plots.correlation_heatmap`."""
        from choqolate.plots import correlation_heatmap

        return correlation_heatmap(self, ax=ax)

    def lines(self, most: int = 5) -> list[str]:
        """A report for a terminal, with the ``most`` strongest groups and pairs."""
        varying = len(self.concepts) - len(self.constant)
        found = f"{counted(varying, 'concept')} over {counted(self.n_rows, 'row')}"
        if varying > 1:
            report = [f"correlation of {found}: mean {self.mean:.2f}", *self._pair_lines(most)]
        else:
            report = [f"correlation of {found}: there is no pair"]
        if self.constant:
            report.append(f"constant, and so without influence: {listed(self.constant)}")
        if self.duplicates:
            pairs = ", ".join(f"{first!r} and {second!r}" for first, second in self.duplicates[:most])
            more = f" and {len(self.duplicates) - most} more pairs" if len(self.duplicates) > most else ""
            report.append(f"the same scores up to shift and scale: {pairs}{more}")
        if self.doubtful:
            report.append(f"doubtful: {self.doubtful}")
        return report

    def _pair_lines(self, most: int) -> list[str]:
        quantiles = ", ".join(f"{share}% {value:.2f}" for share, value in self.quantiles.items())
        drawn = "" if self.drawn is None else f", estimated from {self.drawn:,} concepts drawn at random"
        partners = f"concepts with a partner (correlation of at least {self.threshold:.2f}): {self.partnered:.0%}"
        some = f"the {most} strongest of {len(self.groups):,}" if len(self.groups) > most else f"{len(self.groups)}"
        around = "" if self.drawn is None else f" around {len(self.looked_at):,} concepts"
        groups = f"groups{around} with a mean correlation of at least {self.group_at:.2f}"
        members = [f"  {group.correlation:.2f}  {listed(group.concepts, 6)}" for group in self.groups[:most]]
        return [
            f"quantiles{drawn}: {quantiles}",
            f"{partners}{drawn}",
            f"{groups}: {some if self.groups else 'none'}",
            *members,
        ]


def check_redundancy(
    table: Any,
    concepts: Sequence[str] | None = None,
    *,
    group_at: float = 0.8,
    partner_at: float = 0.5,
    leading: Sequence[str] | None = None,
) -> Redundancy:
    r"""Measure how much the concepts say the same.

    Groups come from average-linkage clustering with the distance 1 - R, cut at ``1 - group_at``.

    The method assumes that scores of related concepts are strongly correlated. The assumption looks doubtful if fewer
    than half of the M concepts (constant ones left out) have a partner: another concept with a correlation of at least

    .. math:: t = \max\left(\text{partner\_at},\; \tanh \frac{z}{\sqrt{n - 3}}\right), \qquad
        z = \sqrt{2 \ln \frac{M (M - 1)}{4 \cdot 0.05}}

    The second term is what chance gives. For two independent concepts and n rows, artanh R is nearly normal with mean
    0 and variance 1/(n - 3) (Fisher), and a standard normal exceeds z with a probability of at most exp(-z²/2) / 2.
    Summed over the M(M - 1)/2 pairs this is 0.05: in 95 of 100 tables of independent concepts none has a partner. For
    77 concepts the second term counts below 72 rows. With few rows or concepts ``doubtful`` says that they are few.

    All pairs of up to 2,000 concepts are looked at. Of more, time and memory stay linear in their number: the mean
    over all pairs, constant concepts and duplicates (ten of a concept at most) are exact. Quantiles and partners are
    estimated from 1,000 concepts drawn at random, each correlated with all others: the share of concepts with a
    partner, and the share of pairs below a quantile, are within 4.3 percentage points of the truth in 95 of 100 draws
    (Hoeffding). Groups are clusters among 1,000 concepts and their neighbors: at most ten of each, 3,000 concepts in
    all.

    Args:
        table: a :class:`~choqolate.data.scores.ConceptScores`, a data frame, or scores ``(n, M)``, n >= 2.
        concepts: names of the columns where ``table`` has none; by default x0, x1, ...
        group_at: mean correlation from which concepts and groups are joined.
        partner_at: correlation from which a concept counts as the partner of another, if chance does not ask for more.
        leading: concepts to look for groups around if there are more than 2,000, the most important first; 1,000 are
            taken. By default those drawn at random.
    Raises:
        ChoqolateError: If there are fewer than two rows, or scores are not finite, or names do not fit.

    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> found = check_redundancy(np.hstack([X, X + 0.1]), ["sea", "oak", "bill", "ocean", "tree", "beak"])
    >>> [group.concepts for group in found.groups], found.partnered, found.doubtful
    ([('bill', 'beak'), ('oak', 'tree'), ('sea', 'ocean')], 1.0, None)
    >>> check_redundancy(X).doubtful
    'only 0 of 3 concepts have a partner with a correlation of at least 0.50 (mean over all pairs -0.05), and ...'
    """
    for name, value in (("group_at", group_at), ("partner_at", partner_at)):
        check_number(name, value, minimum=0)
        if value > 1:
            raise ChoqolateError(f"expected {name} to be a correlation, at most 1, got {value!r}")
    scores, names = _scores(table, concepts)
    if len(names) <= EXACT_UP_TO:
        return _of_all_pairs(scores, names, group_at, partner_at)
    return _of_neighbors(scores, names, group_at, partner_at, leading)


def _of_all_pairs(scores: np.ndarray, names: tuple[str, ...], group_at: float, partner_at: float) -> Redundancy:
    correlation = concept_correlation(scores)
    constant = np.isnan(np.diagonal(correlation))
    varying = np.flatnonzero(~constant)
    inner = correlation[np.ix_(varying, varying)]
    above = np.triu_indices(len(varying), 1)
    pairs = inner[above]
    same = [(above[0][k], above[1][k]) for k in np.flatnonzero(pairs > _DUPLICATE)]
    threshold = max(partner_at, _chance(len(scores), len(varying)))
    partners: np.ndarray = np.any(inner - 2 * np.eye(len(varying)) >= threshold, axis=1)
    mean = float(pairs.mean()) if len(pairs) else math.nan
    return Redundancy(
        correlation=correlation,
        concepts=names,
        n_rows=len(scores),
        mean=mean,
        quantiles={share: float(np.percentile(pairs, share)) if len(pairs) else math.nan for share in QUANTILES},
        groups=tuple(_groups(inner, [names[j] for j in varying], group_at)),
        group_at=group_at,
        constant=tuple(names[j] for j in np.flatnonzero(constant)),
        duplicates=tuple((names[varying[j]], names[varying[l]]) for j, l in same),
        threshold=threshold,
        partnered=float(partners.mean()) if len(partners) else 0.0,
        doubtful=_doubt(len(scores), partners, threshold, mean),
        looked_at=np.arange(len(names)),
    )


def _of_neighbors(
    scores: np.ndarray, names: tuple[str, ...], group_at: float, partner_at: float, leading: Sequence[str] | None
) -> Redundancy:
    """The same of a large vocabulary, see :func:`check_redundancy` for what is exact and what is estimated."""
    varying = np.flatnonzero(scores.max(0) > scores.min(0))
    drawn = np.sort(np.random.default_rng(0).permutation(varying)[:DRAWN])
    found = find_neighborhoods(scores, drawn, group_at)
    threshold = max(partner_at, _chance(len(scores), len(varying)))
    partners = found.strongest >= threshold
    looked_at, neighbors = drawn, found.neighbors
    if leading is not None:
        looked_at = np.sort(find_concepts(list(leading)[:DRAWN], names))
        neighbors = find_neighborhoods(scores, looked_at, group_at).neighbors
    together = with_neighbors(looked_at, neighbors)
    together = together[~found.constant[together]]
    same = equal_concepts(scores, found, math.sqrt(2 * (1 - _DUPLICATE)))
    return Redundancy(
        correlation=concept_correlation(scores[:, looked_at]),
        concepts=names,
        n_rows=len(scores),
        mean=found.mean,
        quantiles={share: found.quantile(share / 100) for share in QUANTILES},
        groups=tuple(_groups(concept_correlation(scores[:, together]), [names[j] for j in together], group_at))
        if len(together) > 1
        else (),
        group_at=group_at,
        constant=tuple(names[j] for j in np.flatnonzero(found.constant)),
        duplicates=tuple((names[j], names[l]) for j, l in same),
        threshold=threshold,
        partnered=float(partners.mean()) if len(partners) else 0.0,
        doubtful=_doubt(len(scores), partners, threshold, found.mean, drawn=len(drawn) < len(varying)),
        looked_at=looked_at,
        drawn=len(drawn),
    )


def _scores(table: Any, concepts: Sequence[str] | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """The scores (n, M) and the names of the concepts."""
    if not isinstance(table, ConceptScores):
        array, own = np.asarray(table), getattr(table, "columns", None)
        names = [f"x{j}" for j in range(array.shape[-1] if array.ndim else 0)] if own is None else own
        table = ConceptScores(array, tuple(names if concepts is None else concepts))
    elif concepts is not None:
        table = replace(table, concepts=tuple(concepts), spurious=())
    if len(table) < 2:
        raise ChoqolateError(f"expected at least two rows to correlate, got {len(table)}: score more images")
    return table.scores, table.concepts


def _chance(n_rows: int, n_concepts: int) -> float:
    """The correlation that the best of all pairs of independent concepts exceeds in 5 of 100 tables."""
    if n_concepts < 2:
        return 0.0
    if n_rows <= 3:
        return 1.0
    z = math.sqrt(2 * math.log(n_concepts * (n_concepts - 1) / (4 * _CHANCE)))
    return math.tanh(z / math.sqrt(n_rows - 3))


def _doubt(n_rows: int, partners: np.ndarray, threshold: float, mean: float, *, drawn: bool = False) -> str | None:
    """What speaks against the assumption that scores of related concepts are strongly correlated.

    Args:
        n_rows: number of rows.
        partners: whether each concept has a partner.
        threshold: correlation of partners.
        mean: of all pairs.
        drawn: whether the concepts were drawn at random from more.
    """
    count, size = int(partners.sum()), len(partners)
    if n_rows < MIN_ROWS or size < MIN_CONCEPTS:
        needed = f"at least {MIN_ROWS} rows and {MIN_CONCEPTS} concepts that vary are needed, there are"
        return f"too little to tell whether related concepts are correlated: {needed} {n_rows} and {size}"
    if 2 * count >= size:
        return None
    looked_at = f"{count:,} of {size:,} concepts{' drawn at random' if drawn else ''}"
    return (
        f"only {looked_at} have a partner with a correlation of at least {threshold:.2f} (mean over all pairs "
        f"{mean:.2f}), and the method expects related concepts to be strongly correlated: nodes may gather unrelated "
        "concepts"
    )


def _tree(correlation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances 1 - R of all pairs, and the average-linkage tree of at least two concepts."""
    from scipy.cluster.hierarchy import linkage

    distances = 1 - correlation[np.triu_indices(len(correlation), 1)]
    return distances, linkage(distances, method="average")


def correlated_groups(correlation: np.ndarray, group_at: float) -> np.ndarray:
    """Label the cluster of each concept ``(M,)``, M >= 2: average linkage of 1 - R, cut at ``1 - group_at``."""
    from scipy.cluster.hierarchy import fcluster

    labels: np.ndarray = fcluster(_tree(correlation)[1], 1 - group_at, criterion="distance")
    return labels


def _groups(correlation: np.ndarray, names: Sequence[str], group_at: float) -> list[Group]:
    """Clusters of two or more, the one with the highest mean correlation first; of equals, the larger one."""
    if len(names) < 2:
        return []
    labels = correlated_groups(correlation, group_at)
    groups = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if len(members) > 1:
            inner = correlation[np.ix_(members, members)][np.triu_indices(len(members), 1)]
            groups.append(Group(tuple(names[int(j)] for j in members), float(inner.mean())))
    return sorted(groups, key=lambda group: (-round(group.correlation, 9), -len(group.concepts), group.concepts))
