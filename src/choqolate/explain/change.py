"""Before and after: what a removal changed, in the model and for single images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate._util.text import counted
from choqolate.errors import ChoqolateError
from choqolate.explain.local import LocalExplanation
from choqolate.explain.model_protocols import ChoquetModel, check_choquet_model
from choqolate.explain.whole_model import ModelExplanation, explain_model
from choqolate.network.removal_report import Removal

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class ModelChange:
    """A model before and after an edit.

    Attributes:
        before, after: both explained.
        removal: what the nodes lost and kept, relative to the model as it was trained; ``None`` if nothing is removed.
        class_shift: change of what is added to the class scores ``(C,)``.
    """

    before: ModelExplanation
    after: ModelExplanation
    removal: Removal | None
    class_shift: np.ndarray

    def __repr__(self) -> str:
        removed = len(self.removal.concepts) if self.removal else 0
        return f"ModelChange({counted(len(self.before.nodes), 'node')}, {counted(removed, 'concept')} removed)"

    @property
    def node_attributions(self) -> np.ndarray:
        """Change of the nodes' Shapley values ``(N, M)``, per concept: below zero what was lost, above what was won."""
        return self.after.node_attributions - self.before.node_attributions

    @property
    def moved(self) -> np.ndarray:
        """Share of each node's attributions ``(N,)`` that went from some concepts to others."""
        shares: np.ndarray = np.abs(self.node_attributions).sum(1) / 2
        return shares

    def gains(self, node: int, most: int = 5) -> list[tuple[str, float]]:
        """The concepts that a node now reads more, named as it uses them now, with the change of Shapley values."""
        change, names = self.node_attributions[node], self.after.names_in(node)
        return [(names[j], float(change[j])) for j in np.argsort(-change)[:most] if change[j] > 0]

    def losses(self, node: int, most: int = 5) -> list[tuple[str, float]]:
        """The concepts that a node now reads less, named as it used them, with the change of Shapley values."""
        change, names = self.node_attributions[node], self.before.names_in(node)
        return [(names[j], float(change[j])) for j in np.argsort(change)[:most] if change[j] < 0]

    def plot_words(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the word clouds of every node before and after, see :func:`choqolate.plots.word_clouds_change`."""
        from choqolate.plots import word_clouds_change

        return word_clouds_change(self, ax=ax, **options)


@dataclass(frozen=True, repr=False)
class LocalChange:
    """Images before and after an edit of the model.

    Attributes:
        before, after: the images explained by both models.
    """

    before: LocalExplanation
    after: LocalExplanation

    def __len__(self) -> int:
        return len(self.before)

    def __repr__(self) -> str:
        return f"LocalChange({counted(len(self), 'input')}, {int(self.flipped.sum())} predicted differently)"

    @property
    def flipped(self) -> np.ndarray:
        """Whether the prediction changed ``(n,)``."""
        return np.array([a != b for a, b in zip(self.before.predicted, self.after.predicted, strict=True)], dtype=bool)

    @property
    def transitions(self) -> dict[tuple[object, object], int]:
        """How many images went from which class to which, most frequent first; those that stayed are left out."""
        return count_transitions(zip(self.before.predicted, self.after.predicted, strict=True))

    @property
    def node_values(self) -> np.ndarray:
        """Change of the nodes' values ``(n, N)``."""
        return self.after.node_values - self.before.node_values

    @property
    def class_scores(self) -> np.ndarray:
        """Change of the class scores ``(n, C)``, recalibration included."""
        new = self.after.class_scores + self.after.class_shift
        return new - self.before.class_scores - self.before.class_shift

    def plot_waterfalls(self, row: int = 0, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw how a lead came about before and after, see :func:`choqolate.plots.waterfall_change`."""
        from choqolate.plots import waterfall_change

        return waterfall_change(self, row, ax=ax, **options)


def count_transitions(pairs: Iterable[tuple[object, object]]) -> dict[tuple[object, object], int]:
    """Count how many images went from which class to which, most frequent first; those that stayed are left out.

    Args:
        pairs: the predicted class of each image, before and after.

    >>> count_transitions([("cat", "dog"), ("cat", "cat"), ("dog", "cat"), ("dog", "cat")])
    {('dog', 'cat'): 2, ('cat', 'dog'): 1}
    """
    return {pair: count for pair, count in Counter(pairs).most_common() if pair[0] != pair[1]}


def explain_change(before: ChoquetModel, after: ChoquetModel | None = None) -> ModelChange:
    """What an edit changed in the model.

    Args:
        before: the model before; or the edited model itself, which is then compared with what was trained.
        after: the model after.

    >>> from sklearn.datasets import load_wine
    >>> from choqolate import ChoqolateClassifier
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = ChoqolateClassifier(n_nodes=4, epochs=20).fit(X, y)
    >>> change = explain_change(model, model.remove_concepts("proline", mode="impute"))
    >>> all(concept == "proline" for node in range(4) for concept, _ in change.losses(node))
    True
    """
    before, after = _pair(before, after)
    return ModelChange(
        before=explain_model(before),
        after=explain_model(after),
        removal=after.removal_,
        class_shift=after.network_.class_shift - before.network_.class_shift,
    )


def explain_local_change(
    X: Any, before: ChoquetModel, after: ChoquetModel | None = None, *, baseline: str = "zero"
) -> LocalChange:
    """What an edit changed for single images.

    Args:
        X: raw scores of the images ``(n, M)``.
        before, after: as in :func:`explain_change`.
        baseline: what the images are compared with, as in :meth:`ChoqolateClassifier.explain`.

    >>> from sklearn.datasets import load_wine
    >>> from choqolate import ChoqolateClassifier
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = ChoqolateClassifier(n_nodes=4, epochs=20).fit(X, y)
    >>> change = explain_local_change(X, model, model.remove_concepts("proline"))
    >>> sum(change.transitions.values()) == int(change.flipped.sum())
    True
    """
    before, after = _pair(before, after)
    return LocalChange(before.explain(X, baseline=baseline), after.explain(X, baseline=baseline))


def _pair(before: ChoquetModel, after: ChoquetModel | None) -> tuple[ChoquetModel, ChoquetModel]:
    for model in (before,) if after is None else (before, after):
        check_choquet_model(model, "before and after the edit")
    if after is None:
        before, after = before.with_network(before.network_.as_trained()), before
    one, other = before.network_, after.network_
    same = one.input_names == other.input_names and before.classes_.tolist() == after.classes_.tolist()
    if not same or before.node_attributions_.shape != after.node_attributions_.shape:
        raise ChoqolateError("expected two versions of one model, these differ in concepts, nodes or classes")
    return before, after
