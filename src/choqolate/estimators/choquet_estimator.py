"""What a fitted Choquet network does as an estimator: predict, calibrate, explain."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from choqolate.estimators.calibration import (
    Abstention,
    Calibration,
    abstain_by,
    calibrate_on,
    model_state,
    with_calibration,
)
from choqolate.estimators.concept_estimator import ConceptEstimator
from choqolate.estimators.search_record import Search
from choqolate.estimators.training_reference import TrainingReference
from choqolate.explain.formulas import Formulas
from choqolate.explain.local import LocalExplanation, explain_rows
from choqolate.explain.node_stability import NodeStability
from choqolate.integral.expected_minimum import slices
from choqolate.network.fitted import FittedNetwork

if TYPE_CHECKING:
    import pandas as pd

_BLOCK_VALUES = 1 << 24  # scores in float64 at a time: 128 MB


class ChoquetEstimator(ConceptEstimator, ClassifierMixin, TransformerMixin, BaseEstimator):
    """An estimator around ``network_``, a :class:`~choqolate.network.fitted.FittedNetwork`; subclasses train it.

    Attributes:
        network_: the fitted network with its edits.
        search_: how the settings were chosen, if they were; else ``None``.
        stability_: how often nodes recur over seeds, if it was measured; else ``None``.
        calibration_: the temperature of the probabilities, if it was fitted; else ``None``.
        reference_: what training rows look like, a
            :class:`~choqolate.estimators.training_reference.TrainingReference`; ``None`` if not known.
        measured_: numbers of the model as trained, on held-out rows, as :meth:`Evaluation.as_dict` gives them; ``None``
            if they were not recorded.
    """

    search_: Search | None = None
    stability_: NodeStability | None = None
    calibration_: Calibration | None = None
    reference_: TrainingReference | None = None
    measured_: dict[str, Any] | None = None

    network_: FittedNetwork
    history_: dict[str, np.ndarray]

    concepts_ = property(lambda self: list(self.network_.concepts))
    classes_ = property(lambda self: self.network_.classes)
    scaling_ = property(lambda self: self.network_.scaling)
    parameters_ = property(lambda self: self.network_.parameters)
    concept_means_ = property(lambda self: self.network_.concept_means)
    label_shares_ = property(lambda self: self.network_.label_shares)
    input_names_ = property(lambda self: list(self.network_.input_names))
    node_attributions_ = property(lambda self: self.network_.node_attributions)
    class_attributions_ = property(lambda self: self.network_.class_attributions)
    one_layer_ = property(lambda self: self.network_.one_layer)

    @property
    def concept_shares_(self) -> np.ndarray:
        """Share of each concept in the model ``(M,)``: attributions through both layers, mean over the classes."""
        chain = self.class_attributions_.mean(axis=0) @ self.concept_attributions_
        shares: np.ndarray = chain / (chain.sum() or 1.0)
        return shares

    # ------------------------------------------------------------------ prediction

    @property
    def temperature_(self) -> float:
        """The training temperature."""
        raise NotImplementedError

    @property
    def probability_temperature_(self) -> float:
        """The temperature of the class probabilities: the calibrated one if any, else the training temperature."""
        return self.temperature_ if self.calibration_ is None else self.calibration_.temperature

    @property
    def calibration_is_current_(self) -> bool:
        """Whether the model is calibrated and has not been edited since."""
        return self.calibration_ is not None and self.calibration_.state == model_state(self.network_)

    def transform(self, X: Any) -> np.ndarray:
        """Node values ``(n, N)`` in [0, 1]."""
        values = np.concatenate([self.network_.node_values(u).numpy() for u in self._inputs(X)])
        free = self.network_.architecture.free_weights
        return values if free else values.clip(0.0, 1.0)  # sums of weights may round to above one

    def class_scores(self, X: Any) -> np.ndarray:
        """Outputs of the second layer ``(n, C)``, with the shift of a recalibration if there was one."""
        return np.concatenate([self.network_.class_scores(u) for u in self._inputs(X)])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities ``(n, C)``: softmax of the class scores over ``probability_temperature_``.

        With the native kernel they are the same bit for bit for any number of threads; without it, within 1e-12.
        """
        return torch.from_numpy(self.class_scores(X)).div(self.probability_temperature_).softmax(1).numpy()

    def predict_table(
        self, X: Any, *, abstain: float | None = None, reasons: int = 3, verbose: bool = False
    ) -> pd.DataFrame:
        """Predict classes with reasons, and with flags for predictions that a person should review.

        Args:
            X: raw concept scores ``(n, M)``; an array, a DataFrame or :class:`~choqolate.ConceptScores`.
            abstain: target accuracy; the model abstains on rows whose probability is too low to reach it. The model
                must be calibrated, see :meth:`abstention`.
            reasons: number of reasons to list.
            verbose: show progress on stderr.

        Returns:
            One row per row of ``X``, in the same order: ``path`` and ``label`` where known; ``predicted``,
            ``probability``, ``runner_up``, ``runner_up_probability``, ``margin`` (of the class scores); ``reason_1``,
            ``level_1``, ``contribution_1``, ...: the concepts that contribute most to the lead over the runner-up from
            the mean training image to this one, their scaled scores, and their contributions; ``distance`` from the
            training images in units of the limit; the flags ``unlike_training``, ``outside_range`` and ``abstain``
            (missing if not available); ``look``, whether any flag is raised, and ``why_look``.

        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> from choqolate import ChoqolateClassifier
        >>> table = ChoqolateClassifier(n_nodes=4, epochs=30).fit(X, y).predict_table(X)
        >>> table["reason_1"].value_counts().index[0]
        'proline'
        >>> bool(table["look"].mean() < 0.1)
        True
        """
        from choqolate.estimators.predictions import predict_table

        return predict_table(self, X, abstain=abstain, reasons=reasons, verbose=verbose)

    def calibrate(self, X: Any, y: Any = None, *, source: str = "rows given to calibrate") -> Self:
        """A copy whose probabilities are calibrated on labeled rows that were not used for training.

        One temperature is fitted for all classes, so that class scores and predicted classes stay as they are.
        ``temperature_``, that of the training, stays too.

        Args:
            X: raw concept scores ``(n, M)`` of at least ten rows.
            y: labels ``(n,)``; by default those of ``X``, if it is a :class:`~choqolate.ConceptScores`, whose rows
                without a label are left out.
            source: where the rows come from, in words; kept with the calibration.

        Raises:
            ChoqolateError: if there are too few rows, or no labels.

        >>> from sklearn.datasets import load_breast_cancer
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> from choqolate import ChoqolateClassifier
        >>> clf = ChoqolateClassifier(n_nodes=4, epochs=30).fit(X[::2], y[::2])
        >>> calibrated = clf.calibrate(X[1::4], y[1::4])
        >>> calibrated.calibration_
        Calibration(temperature ..., 142 rows, calibration error ... -> ...)
        >>> bool((calibrated.predict(X) == clf.predict(X)).all())
        True
        """
        return with_calibration(self, calibrate_on(self, X, y, source))

    def abstention(self, accuracy: float) -> Abstention:
        """Choose the probability below which to abstain, by the rows that the model was calibrated on.

        Args:
            accuracy: wanted of the predictions that are kept, such as 0.95.

        Returns:
            The threshold, how many of the calibration rows it keeps, and how many of those are right.

        Raises:
            ChoqolateError: if the model is not calibrated, or was edited since.
        """
        return abstain_by(self, accuracy)

    def explain(self, X: Any, *, baseline: str = "zero") -> LocalExplanation:
        """Exact local attributions of each row, relative to a baseline: ``"zero"``, or the training ``"mean"``."""
        z = self.scale(X)
        return explain_rows(self.network_, z, self.node_names_, baseline=baseline)

    def formulas(self, max_terms: int | None = 10, *, layer: str = "nodes") -> Formulas:
        """The nodes, or the classes, as formulas to print: weighted inputs, minima and maxima, the heaviest first.

        Args:
            max_terms: how many terms to list; ``None`` lists all, so that ``evaluate`` gives the value itself.
            layer: ``"nodes"`` (of concepts), or ``"classes"`` (of nodes; without nodes, of concepts).

        Returns:
            A sequence of :class:`~choqolate.explain.formulas.Formula`, one line each when printed.

        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> X.columns = ["sepal length", "sepal width", "petal length", "petal width"]
        >>> from choqolate import ChoqolateClassifier
        >>> clf = ChoqolateClassifier(n_nodes=2, temperature=0.1, epochs=100).fit(X, y == 0)
        >>> print(clf.formulas(max_terms=2))
        node 0 = 0.5... petal length + 0.4... max(petal length, petal width) + 0.0... (14 smaller terms)
        node 1 = 0.97 sepal width + 0.01 min(sepal length, sepal width) + 0.0... (14 smaller terms)
        """
        check_is_fitted(self)
        return Formulas(self.network_, max_terms, layer)

    def _inputs(self, X: Any) -> Iterator[Tensor]:
        """Inputs of the first layer, some rows at a time: in float64 they take several times the memory of ``X``."""
        raw = self.checked_scores(X)
        for rows in slices(len(raw), _BLOCK_VALUES // raw.shape[1]):
            yield self.network_.as_inputs(self.scaling_(raw[rows]))

    def with_network(self, network: FittedNetwork) -> Self:
        """A copy of the classifier around another network, such as an edited one."""
        other = copy.copy(self)
        other.network_ = network
        return other

    @property
    def n_parameters_(self) -> int:
        r"""Number of trained parameters; of two pairwise layers :math:`N M^2 + C N^2`."""
        check_is_fitted(self)
        return sum(theta.numel() for theta in self.network_.parameters.values())
