"""Whether the nodes of a model recur when training starts from another seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from choqolate import metrics
from choqolate._util.text import counted
from choqolate.errors import ChoqolateError
from choqolate.explain.model_protocols import ConceptModel

STABLE = 0.8  # share of the other runs from which a node that recurs is called stable


@dataclass(frozen=True, eq=False, repr=False)
class NodeStability:
    """How often the nodes of a run are found again in the other runs.

    Nodes of two runs are paired one to one such that the sum of the cosines of their attributions is largest. A node
    recurs in another run if the cosine with its partner is at least 0.8. With ``bipolar``, presence and absence are
    told apart here: a node of "sea" is not one of "not sea". (Tables of methods add the two, as for Gini.)

    Attributes:
        recurrence: share of the other runs in which each node of each run recurs ``(R, N)``.
        similarity: mean cosine of each node with its partners in the other runs ``(R, N)``.
        n_runs: number of runs that were compared; by default R. It is larger than R for the nodes of one run only.
    """

    recurrence: np.ndarray
    similarity: np.ndarray
    n_runs: int = 0

    def __post_init__(self) -> None:
        if not self.n_runs:
            object.__setattr__(self, "n_runs", len(self.recurrence))
        if self.n_runs < 2:
            raise ChoqolateError(f"Expected n_runs to be at least 2 but got {self.n_runs}. Count all runs compared.")

    def __repr__(self) -> str:
        nodes = self.recurrence.shape[1]
        sizes = f"{counted(self.n_runs, 'run')}, {counted(nodes, 'node')}"
        return f"NodeStability({sizes}; match {self.match:.2f}, {self.share:.0%} recur)"

    @property
    def n_others(self) -> int:
        """Number of other runs in which each node was looked for."""
        return self.n_runs - 1

    @property
    def counts(self) -> np.ndarray:
        """Number of the other runs in which each node of each run recurs ``(R, N)``."""
        return np.rint(self.recurrence * self.n_others).astype(int)

    @property
    def stable(self) -> np.ndarray:
        """Whether each node of each run recurs in at least 80% of the other runs ``(R, N)``."""
        return self.recurrence >= STABLE - 1e-9  # shares are rounded

    @property
    def match(self) -> float:
        """Mean cosine of matched nodes over all pairs of runs."""
        return float(self.similarity.mean())

    @property
    def share(self) -> float:
        """Share of all nodes that recur in at least 80% of the other runs."""
        return float(self.stable.mean())

    def of_run(self, run: int) -> NodeStability:
        """The same for the nodes of one run only, which were compared with all the others.

        >>> found = NodeStability(np.array([[1.0, 0.5], [0.5, 0.5], [0.5, 1.0]]), np.full((3, 2), 0.9)).of_run(0)
        >>> found.counts, found.n_others
        (array([[2, 1]]), 2)
        """
        return NodeStability(self.recurrence[[run]], self.similarity[[run]], self.n_runs)

    def as_dict(self) -> dict[str, Any]:
        """The numbers such as JSON can hold."""
        return {
            "recurrence": self.recurrence.tolist(),
            "similarity": self.similarity.tolist(),
            "n_runs": self.n_runs,
        }

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> NodeStability:
        """Read what :meth:`as_dict` wrote.

        Raises:
            ChoqolateError: if it is incomplete or damaged.
        """
        try:
            recurrence, similarity = (np.array(said[name], dtype=np.float64) for name in ("recurrence", "similarity"))
            n_runs = said["n_runs"]
            fine = isinstance(n_runs, int) and recurrence.ndim == 2 and recurrence.shape == similarity.shape
            if not fine or not ((recurrence >= 0) & (recurrence <= 1) & (np.abs(similarity) <= 1 + 1e-6)).all():
                raise ValueError("its numbers do not fit together")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ChoqolateError(f"The record of node stability is incomplete or damaged: {error}") from error
        return cls(recurrence, similarity, n_runs)


def node_stability(runs: Iterable[ConceptModel]) -> NodeStability:
    """Find the nodes of each run in all other runs.

    Args:
        runs: at least two fitted models with the same concepts and the same number of nodes, such as
            :func:`~choqolate.fit_runs` gives.

    Raises:
        ChoqolateError: if there are fewer than two, or if they differ in their concepts or number of nodes.

    >>> from sklearn.datasets import load_wine
    >>> from choqolate import fit_runs
    >>> found = node_stability(fit_runs(*load_wine(return_X_y=True), seeds=range(3), n_nodes=4, epochs=20))
    >>> found.recurrence.shape, bool(0 <= found.match <= 1)
    ((3, 4), True)
    """
    models = list(runs)
    if len(models) < 2:
        raise ChoqolateError(f"Expected at least two runs to compare, got {len(models)}. Train more seeds.")
    for model in models:
        check_is_fitted(model)
    shares = [np.abs(model.node_attributions_) for model in models]
    if len({(tuple(model.concepts_), own.shape) for model, own in zip(models, shares, strict=True)}) > 1:
        raise ChoqolateError("Expected runs with the same concepts and the same number of nodes, got different ones.")
    found = metrics.node_recurrence(shares)
    return NodeStability(
        np.nan_to_num(found.recurrence), np.nan_to_num(found.similarity)
    )  # NaN: a node without weights
