"""Two evaluations side by side: what changed on the same rows, and whether it is more than chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from choqolate._util.numbers import decimal
from choqolate.analysis.interval_text import judged_text, percent_range, share_text, small_groups_text
from choqolate.errors import ChoqolateError
from choqolate.metrics import PairedChange, difference_interval, paired_change

if TYPE_CHECKING:
    from choqolate.analysis.evaluation import Evaluation

FAR = 0.05  # difference between training and held-out accuracy that is worth a note, if it is more than chance


@dataclass(frozen=True, repr=False)
class PairedComparison:
    """What changed from one evaluation to another on the same rows.

    Attributes:
        before: the first evaluation.
        after: the second one.
        overall: change over all rows.
        classes: change for each class.
        groups: change for each group; empty without groups.
    """

    before: Evaluation
    after: Evaluation
    overall: PairedChange
    classes: dict[str, PairedChange]
    groups: dict[str, PairedChange]

    def __repr__(self) -> str:
        return f"PairedComparison({'; '.join(self.lines())})"

    @property
    def worst_group(self) -> tuple[str, PairedChange] | None:
        """The group that was worst before, of those with enough rows, and its change; ``None`` if there is none."""
        worst = self.before.worst_measurable_group
        return None if worst is None else (worst[0], self.groups[worst[0]])

    def lines(self) -> list[str]:
        """What changed, in words: over all images, and in the group that was worst before; which one is worst now."""
        lines = [f"accuracy: {judged_text(self.overall)}"]
        if self.worst_group is not None:
            name, change = self.worst_group
            lines.append(f"worst group before, {name}: {judged_text(change)}")
        if (worst := self.after.worst_measurable_group) is not None:
            lines.append(f"worst group after, {worst[0]}: {share_text(worst[1])}")
        if self.before.small_groups:
            lines.append(f"too few to tell: {small_groups_text(self.before.small_groups)}")
        return lines


def compare_evaluations(before: Evaluation, after: Evaluation) -> PairedComparison:
    """Compare two evaluations of the same rows, such as before and after an edit, with a paired test.

    The test is McNemar's, exact: among the rows whose prediction became right or wrong, are those that became right
    more than chance gives? The worst group is the one that was worst before; the minimum over the groups, which may be
    another group afterwards, gains from chance alone.

    Args:
        before: what :func:`choqolate.evaluate` measured first.
        after: what it measured afterwards, or of another model.
    Raises:
        ChoqolateError: If the rows are not the same, or an evaluation does not hold them.

    >>> import choqolate as cq
    >>> scores = np.random.default_rng(0).random((60, 3))
    >>> table = cq.ConceptScores(scores, ["sea", "oak", "crest"], labels=np.where(scores[:, 0] > 0.5, "gull", "wren"))
    >>> model = cq.fit_scores(table, epochs=20)
    >>> change = compare_evaluations(cq.evaluate(model, table), cq.evaluate(model.remove_concepts("oak"), table))
    >>> change.overall.rows, list(change.classes)
    (18, ['gull', 'wren'])
    """
    hits = _check_same_rows(before, after)
    return PairedComparison(
        before,
        after,
        overall=paired_change(*hits),
        classes=_changes(*hits, before.row_labels, before.class_rows),
        groups=_changes(*hits, before.row_groups, before.group_rows),
    )


def gap_note(training: Evaluation, held_out: Evaluation) -> str | None:
    """Say that a model does much better on its training images than on others, if it is more than chance.

    Args:
        training: of the rows that the model was trained on.
        held_out: of other rows.
    Returns:
        What it may be and what to do about it; ``None`` below five points, or if the 95% interval includes zero.
    """
    gap = training.accuracy - held_out.accuracy
    low, high = difference_interval(training.overall, held_out.overall)
    if gap <= FAR or low <= 0 or held_out.overall.too_few:
        return None
    shares = f"{share_text(training.overall)} on training images and {share_text(held_out.overall)} on held-out images"
    said = f"accuracy is {shares}, a gap of {decimal(100 * gap, 1)} points ({percent_range((low, high))})"
    alike = _with_groups_of(training, held_out)
    if alike is not None and training.accuracy - alike <= FAR:
        return (
            f"{said}. The groups are distributed differently: weighted as in training, held-out accuracy would be "
            f"{decimal(100 * alike, 1)}%, so the model fails on groups that are rare in training"
        )
    return (
        f"{said}. Either the model memorized its training images (more images, fewer concepts, or a higher temperature "
        "or sparsity may help), or the held-out images differ from them"
    )


def _with_groups_of(training: Evaluation, held_out: Evaluation) -> float | None:
    """Held-out accuracy if groups were as frequent as in training; ``None`` if some group was not held out."""
    weights, shares = training.group_rows, held_out.group_accuracy
    if not weights or not weights.keys() <= shares.keys():
        return None
    return sum(rows * shares[name] for name, rows in weights.items()) / sum(weights.values())


def _check_same_rows(before: Evaluation, after: Evaluation) -> tuple[np.ndarray, np.ndarray]:
    if before.hits is None or after.hits is None:
        raise ChoqolateError("Expected evaluations that hold their rows, but got one without. Use choqolate.evaluate.")
    same = (before.rows, before.chosen) == (after.rows, after.chosen)
    same = same and _same(before.row_labels, after.row_labels) and _same(before.row_groups, after.row_groups)
    if not same:
        raise ChoqolateError(
            f"Expected evaluations of the same rows, but the rows, labels or groups differ: {before.rows:,} rows "
            f"({before.chosen}) and {after.rows:,} rows ({after.chosen}). Evaluate both models on the same table."
        )
    return before.hits, after.hits


def _same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return one is other is None or (one is not None and other is not None and np.array_equal(one, other))


def _changes(
    before: np.ndarray, after: np.ndarray, members: np.ndarray | None, names: dict[str, int]
) -> dict[str, PairedChange]:
    if members is None:
        return {}
    return {name: paired_change(before[members == name], after[members == name]) for name in names}
