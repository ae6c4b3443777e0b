"""What all estimators share: named columns of raw scores, their scaling, seeds, and the class with the best score."""

from __future__ import annotations

import copy
from collections.abc import Container, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from choqolate import metrics
from choqolate._util.checks import check_columns, check_finite, check_number, check_ranges, check_seed, find_named
from choqolate.data.provenance import Provenance
from choqolate.data.rows import class_index
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.estimators.table_inputs import frame_view, inputs
from choqolate.explain.node_names import absence_shares, name_nodes
from choqolate.network.scaling import MinMax

PRECISIONS = [np.float64, np.float32]  # in which scores are taken as they are; others become the first


class ConceptEstimator:
    """Raw concept scores in, min-max scaled with the training range and clipped to [0, 1]; labels out.

    Attributes:
        concepts_: names of the M concepts; of the columns if ``X`` had some, else x0, x1, ...
        classes_: the class labels ``(C,)``.
        concept_attributions_: attributions of the nodes per concept ``(N, M)``.
        scaling_: range of the training scores.
        provenance_: where the training scores came from; nothing is known of it after ``fit`` alone.
    """

    concepts_: Any  # list[str]; of a subclass an attribute or a property, as are the next two
    classes_: Any  # np.ndarray
    scaling_: Any  # MinMax
    node_attributions_: Any  # np.ndarray
    n_nodes: Any  # int | None; of a classifier that searches, "auto"
    epochs: int
    batch_size: int
    learning_rate: float
    device: str
    random_state: int | np.random.RandomState | None

    # what the estimator brings along
    def class_scores(self, X: Any) -> np.ndarray:
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """The class with the highest score, ``(n,)``."""
        scores = self.class_scores(X)
        predicted: np.ndarray = self.classes_[scores.argmax(axis=1)]
        return predicted

    @property
    def provenance_(self) -> Provenance:
        """Where the training scores came from: backbone, vocabulary, rows, versions."""
        return Provenance.of(self.__dict__.get("_provenance"))

    @provenance_.setter
    def provenance_(self, said: Provenance | Mapping[str, Any] | None) -> None:
        self._provenance = Provenance.of(said)

    def with_provenance(self, **changes: Any) -> Self:
        """A copy whose ``provenance_`` says something else in some fields.

        Raises:
            ChoqolateError: if there is no such field.
        """
        for name in changes:
            find_named(name, {one.name: one for one in fields(Provenance)}, "a field of the provenance")
        other = copy.copy(self)
        other.provenance_ = replace(self.provenance_, **changes)
        return other

    def scale(self, X: Any) -> np.ndarray:
        """Scale raw scores of the fitted concepts to [0, 1], ``(n, M)`` in float64; they are checked first."""
        raw = self.checked_scores(X)
        scaled: np.ndarray = self.scaling_(raw)
        return scaled

    def raw_scores(self, X: Any) -> np.ndarray:
        """Raw scores of the fitted concepts, ``(n, M)`` in float64, checked."""
        return self.checked_scores(X).astype(np.float64, copy=False)

    def checked_scores(self, X: Any) -> np.ndarray:
        """Raw scores of the fitted concepts ``(n, M)``, checked, in the precision in which they come."""
        check_is_fitted(self)
        if isinstance(X, ConceptScores):
            if not len(X):
                raise ChoqolateError("Expected scores of at least one row, but the table is empty.")
            X = inputs(self, X)
        check_columns(X)
        X = validate_data(self, X, dtype=PRECISIONS, ensure_all_finite=False, reset=False)
        check_finite(X, self.concepts_)
        checked: np.ndarray = X
        return checked

    def node_inputs(self, X: Any) -> np.ndarray:
        """Return the inputs of the nodes ``(n, M)``, one column per concept: the scaled scores."""
        return self.scale(X)

    @property
    def score_min_(self) -> np.ndarray:
        """Smallest training score of each concept ``(M,)``."""
        low: np.ndarray = self.scaling_.low
        return low

    @property
    def score_max_(self) -> np.ndarray:
        """Largest training score of each concept ``(M,)``."""
        high: np.ndarray = self.scaling_.high
        return high

    @property
    def input_names_(self) -> list[str]:
        """Names of what the nodes stand on: the concepts."""
        return list(self.concepts_)

    @property
    def concept_attributions_(self) -> np.ndarray:
        """Attributions of the nodes per concept ``(N, M)``: of a ``bipolar`` model presence and absence, added.

        Without ``bipolar`` these are the ``node_attributions_``. Choquet integrals here have no interactions beyond
        pairs, so that the sum is exactly the Shapley value of the concept with its absence as one player.
        """
        check_is_fitted(self)
        return metrics.per_concept(self.node_attributions_, len(self.concepts_))

    @property
    def one_layer_(self) -> bool:
        """Whether concepts are connected to classes directly; the nodes are the classes then."""
        return self.n_nodes is None

    @property
    def node_names_(self) -> tuple[str, ...]:
        """A name for each node, from the concepts that lead it; without nodes, the classes."""
        check_is_fitted(self)
        if self.one_layer_:
            return tuple(class_index(self.classes_))
        absence = absence_shares(self.node_attributions_, len(self.concepts_))
        return name_nodes(self.concept_attributions_, self.concepts_, absence)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of ``transform``: node0, node1, ...; without nodes, the classes."""
        check_is_fitted(self)
        names = self.classes_ if self.one_layer_ else [f"node{n}" for n in range(len(self.node_attributions_))]
        return np.asarray([str(name) for name in names], dtype=object)

    def _check_loop_parameters(self) -> None:
        for name in ("epochs", "batch_size"):
            check_number(name, getattr(self, name), minimum=1, whole=True)
        check_number("learning_rate", self.learning_rate, minimum=0, strict=True)
        if not isinstance(self.device, str):
            raise ChoqolateError(f"expected device to be text such as 'auto', 'cpu' or 'cuda:0', got {self.device!r}")

    def _seed(self) -> int:
        seed = self.random_state
        if seed is None or isinstance(seed, np.random.RandomState):
            seed = check_random_state(seed).randint(2**31 - 1)
        return check_seed(seed)

    def _validate(self, X: Any, y: Any, dtype: Any = np.float64) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Scores ``(n, M)`` and labels to train on, and the names of the concepts.

        Of several precisions in ``dtype`` scores keep theirs, which may be the memory of ``X`` itself, else they get
        the first.
        """
        X = frame_view(X) if isinstance(X, ConceptScores) else X
        check_columns(X)
        columns = getattr(X, "columns", None)
        X, y = validate_data(self, X, y, dtype=dtype, ensure_all_finite=False)
        check_classification_targets(y)
        concepts = [f"x{j}" for j in range(X.shape[1])] if columns is None else [str(name) for name in columns]
        check_finite(X, concepts)
        return X, y, concepts


def fit_scaling(X: np.ndarray, concepts: list[str]) -> tuple[MinMax, list[str]]:
    """The range of training scores, and the concepts that are constant."""
    scaling = MinMax.fit(X)
    check_ranges(scaling.low, scaling.high, concepts)
    return scaling, [name for name, still in zip(concepts, scaling.constant, strict=True) if still]


def check_seeds(seeds: Iterable[int], parameters: Container[str]) -> list[int]:
    """The seeds of several runs, which take the place of the parameter ``random_state``."""
    if not isinstance(seeds, Iterable):
        raise ChoqolateError(f"expected seeds to be several, such as range(20), got {seeds!r}")
    seeds = [check_seed(seed) for seed in seeds]
    if not seeds:
        raise ChoqolateError("expected at least one seed, got none")
    if "random_state" in parameters:
        raise ChoqolateError("expected the random states of the runs as seeds=..., got random_state")
    return seeds
