"""What a fitted Choquet network does as an estimator: predict, explain, take edits, go to a file."""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from choqolate._util.checks import check_choice, find_concepts
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError, SmallRemainderWarning
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
from choqolate.estimators.table_inputs import known_rows
from choqolate.estimators.training_reference import TrainingReference
from choqolate.explain.formulas import Formulas
from choqolate.explain.impact import removal_impact
from choqolate.explain.local import LocalExplanation, explain_rows
from choqolate.explain.node_stability import NodeStability
from choqolate.network.certificate import Certificate, certify
from choqolate.network.edits import Edit, Note, Remove, Restore, Reweight, Simplify, affected_concepts
from choqolate.network.fitted import FittedNetwork, check_nodes
from choqolate.network.removal import MODES

if TYPE_CHECKING:
    import pandas as pd


class ChoquetEstimator(ConceptEstimator, ClassifierMixin, TransformerMixin, BaseEstimator):
    """An estimator around ``network_``, a :class:`~choqolate.network.fitted.FittedNetwork`; subclasses train it.

    Attributes:
        network_: the fitted network with its edits.
        search_: how the settings were chosen, if they were; else ``None``.
        stability_: how often nodes recur over seeds, if it was measured; else ``None``.
        calibration_: the temperature of the probabilities, if it was fitted; else ``None``.
        reference_: what training rows look like, a
            :class:`~choqolate.estimators.training_reference.TrainingReference`; ``None`` if not known.
    """

    search_: Search | None = None
    stability_: NodeStability | None = None
    calibration_: Calibration | None = None
    reference_: TrainingReference | None = None

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
    edits_ = property(lambda self: self.network_.edits)
    class_shift_ = property(lambda self: self.network_.class_shift)
    removal_ = property(lambda self: self.network_.removal)
    simplification_ = property(lambda self: self.network_.simplification)
    one_layer_ = property(lambda self: self.network_.one_layer)

    # ------------------------------------------------------------------ prediction

    @property
    def temperature_(self) -> float:
        """The temperature of the training."""
        raise NotImplementedError

    @property
    def probability_temperature_(self) -> float:
        """The temperature of the class probabilities: the calibrated one if there is one, else that of the training."""
        return self.temperature_ if self.calibration_ is None else self.calibration_.temperature

    @property
    def calibration_is_current_(self) -> bool:
        """Whether the model was calibrated and is still in the state in which it was: no edits were made since."""
        return self.calibration_ is not None and self.calibration_.state == model_state(self.network_)

    def transform(self, X: Any) -> np.ndarray:
        """Node values ``(n, N)`` in [0, 1]."""
        u = self._inputs(X)
        values: np.ndarray = self.network_.node_values(u).numpy()
        free = self.network_.architecture.free_weights
        return values if free else values.clip(0.0, 1.0)  # sums of weights may round to above one

    def class_scores(self, X: Any) -> np.ndarray:
        """Outputs of the second layer ``(n, C)``, with the shift of a recalibration if there was one."""
        u = self._inputs(X)
        return self.network_.class_scores(u)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities ``(n, C)``: softmax of the class scores over ``probability_temperature_``."""
        return torch.from_numpy(self.class_scores(X)).div(self.probability_temperature_).softmax(1).numpy()

    def predict_table(
        self, X: Any, *, abstain: float | None = None, reasons: int = 3, verbose: bool = False
    ) -> pd.DataFrame:
        """Predictions with reasons, and with flags that say when not to trust them.

        Args:
            X: raw concept scores ``(n, M)``; an array, a DataFrame or :class:`~choqolate.ConceptScores`.
            abstain: the accuracy that is wanted of predictions; those whose probability is too low for it abstain. The
                model must be calibrated, see :meth:`abstention`.
            reasons: how many leading reasons to give.
            verbose: show a progress bar (on a terminal).

        Returns:
            One row per row of ``X``, in the same order: ``path`` and ``label`` where known; ``predicted``,
            ``probability``, ``runner_up``, ``runner_up_probability``, ``margin`` (of the class scores); ``reason_1``,
            ``level_1``, ``contribution_1``, ...: the concepts that contribute most to the lead over the runner-up from
            the mean training image to this one, their scaled scores, and their contributions; ``distance`` from the
            training images in units of the limit; the flags ``unlike_training``, ``outside_range`` and ``abstain``
            (missing where not known); ``look``, whether a person should look, and ``why_look``.

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
        """A copy whose probabilities are calibrated on labelled rows that were not trained on.

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
            ChoqolateError: if the model is not calibrated.
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

    def _inputs(self, X: Any) -> Tensor:
        z = self.scale(X)
        return self.network_.as_inputs(z)

    # ------------------------------------------------------------------ editing

    def remove_concepts(
        self,
        names: str | Iterable[str],
        *,
        nodes: int | Iterable[int] | None = None,
        mode: str = "rescale",
        recalibrate: Any = None,
        note: Note | str | None = None,
    ) -> Self:
        """A copy of the classifier without the given concepts (CHOQ-PCR); this one is untouched.

        Args:
            names: one concept or several. With ``bipolar``, a concept's absence goes with it.
            nodes: indices of the nodes to edit; all by default.
            mode: ``"rescale"`` sets every weight that involves a concept to zero and rescales the others to sum to
                one, as the paper does; ``"canonical"`` first gives each pair's common part of b and c, which is no
                interaction, to its kept member; ``"impute"`` freezes the concept at its training mean, so that the
                decision threshold does not move.
            recalibrate: training scores to recalibrate on afterwards, see :meth:`recalibrate`.
            note: why, or who, when and why; kept with the edit.

        Raises:
            ChoqolateError: for unknown names or nodes, and if a node would be left with no concept at all.
        """
        check_is_fitted(self)
        check_choice("mode", mode, MODES)
        concepts = tuple(self.concepts_[index] for index in find_concepts(names, self.concepts_))
        edit = Remove(concepts, self._nodes(nodes), mode, note=Note.of(note))
        return self._edited(edit, recalibrate)

    def reweight_concepts(
        self,
        factors: Mapping[str, float],
        *,
        nodes: int | Iterable[int] | None = None,
        recalibrate: Any = None,
        note: Note | str | None = None,
    ) -> Self:
        """A copy in which concepts count more or less; this classifier is untouched.

        Every term that involves a concept is multiplied by its factor, a pair by both, and all terms are rescaled to
        sum to one. A factor of 0 is a removal (``"rescale"``), a factor of 1 changes nothing.

        Args:
            factors: a factor of at least 0 for each concept, by name.
            nodes, recalibrate, note: as in :meth:`remove_concepts`.

        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> from choqolate import ChoqolateClassifier
        >>> clf = ChoqolateClassifier(n_nodes=4, epochs=20).fit(X, y)
        >>> less = clf.reweight_concepts({"proline": 0.3}, note="depends on the soil")
        >>> bool((less.node_attributions_[:, -1] < clf.node_attributions_[:, -1]).all())
        True
        >>> print(less.edits_[0])
        reweighted 'proline' by 0.3
        """
        check_is_fitted(self)
        if not isinstance(factors, Mapping):
            raise ChoqolateError(f"Expected a factor for each concept, such as {{'sea': 0.3}}, got {factors!r}.")
        find_concepts(factors, self.concepts_)
        return self._edited(Reweight(factors, self._nodes(nodes), note=Note.of(note)), recalibrate)

    def simplify(
        self,
        max_terms: int | None = None,
        mass: float | None = None,
        *,
        classes: bool = False,
        note: Note | str | None = None,
    ) -> Self:
        """A copy whose nodes keep their heaviest terms, rescaled to sum to one; this classifier is untouched.

        A term is an input, or the minimum or maximum of two. ``simplification_`` says what was dropped and bounds what
        that can change; :meth:`certify` proves it for rows. Give ``max_terms`` or ``mass``.

        Args:
            max_terms: how many terms each node keeps at most.
            mass: the share of its weight that each node keeps, with as few terms as possible.
            classes: also simplify the second layer, by the same rule.
            note: as in :meth:`remove_concepts`.

        Raises:
            ChoqolateError: if both limits are given or none, if a node takes more than a million terms to keep the
                mass, and for free weights.

        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> from choqolate import ChoqolateClassifier
        >>> short = ChoqolateClassifier(n_nodes=4, temperature=0.05, epochs=50).fit(X, y).simplify(mass=0.99)
        >>> bool((short.simplification_.mass_dropped <= 0.01).all()), len(short.formulas())
        (True, 4)
        >>> short.certify(X).rows
        178
        """
        check_is_fitted(self)
        return self._edited(Simplify(max_terms, mass, classes, note=Note.of(note)), None)

    def certify(self, X: Any) -> Certificate:
        """Prove for which rows the simplification keeps the predicted class, see :class:`Certificate`.

        The model is compared with itself just before the latest simplification, with later recalibrations. Nothing but
        the weight that was dropped enters the proof, so it holds for any dropped terms.

        Args:
            X: raw concept scores ``(n, M)``.

        Raises:
            ChoqolateError: if the model is not simplified, or concepts were removed or reweighted after that.
        """
        z = self.scale(X)
        return certify(self.network_, z)

    def recalibrate(self, X: Any, *, note: Note | str | None = None) -> Self:
        """A copy whose class scores are shifted: predicted classes become as frequent as the training labels were.

        The shift needs neither labels nor training. It stays until everything is restored or another recalibration
        takes its place.

        Args:
            X: training scores ``(n, M)``.
            note: as in :meth:`remove_concepts`.
        """
        z = self.scale(X)
        fingerprint = hashlib.sha256(np.ascontiguousarray(z, dtype="<f8").tobytes()).hexdigest()
        edit = self.network_.recalibration(z, fingerprint=fingerprint, note=Note.of(note))
        return self.with_network(self.network_.edited(edit))

    def restore(
        self, names: str | Iterable[str] | None = None, *, recalibrate: Any = None, note: Note | str | None = None
    ) -> Self:
        """A copy with the given removed or reweighted concepts as they were trained; with all of them by default.

        The shift of an earlier recalibration stays until everything is restored or ``recalibrate`` is given. A
        simplification stays if ``names`` are given, and goes otherwise.
        """
        check_is_fitted(self)
        affected = affected_concepts(self.network_.edits_in_force)
        if names is None and not self.network_.is_edited:
            return copy.copy(self) if recalibrate is None else self.recalibrate(recalibrate, note=note)
        if names is not None and not affected:
            raise ChoqolateError("Nothing was removed or reweighted, so there is nothing to restore.")
        back = None if names is None else find_concepts(names, affected, known="removed or reweighted were")
        concepts = None if back is None else tuple(affected[index] for index in back)
        return self._edited(Restore(concepts, note=Note.of(note)), recalibrate)

    def undo(self) -> Self:
        """A copy without the latest edit, exactly as the model was before it.

        Raises:
            ChoqolateError: if there is no edit.
        """
        check_is_fitted(self)
        return self.with_network(self.network_.undone())

    def annotate_edit(self, index: int, note: Note | str) -> Self:
        """A copy in which an edit carries a note, such as that it was reviewed; predictions stay.

        Args:
            index: of the edit in ``edits_``.
            note: in place of the one that it had.
        """
        check_is_fitted(self)
        edits = list(self.network_.edits)
        if not edits:
            raise ChoqolateError("This model has no edits to annotate.")
        if not isinstance(index, int) or not 0 <= index < len(edits):
            raise ChoqolateError(f"Expected the index of an edit from 0 to {len(edits) - 1}, got {index!r}.")
        edits[index] = replace(edits[index], note=Note.of(note))
        return self.with_network(replace(self.network_, edits=tuple(edits)))

    def _edited(self, edit: Edit, recalibrate: Any) -> Self:
        edited = self.with_network(self.network_.edited(edit))
        if not isinstance(edit, Restore):
            edited.warn_of_small_remainders(stacklevel=4)
        return edited if recalibrate is None else edited.recalibrate(recalibrate)

    def warn_of_small_remainders(self, *, stacklevel: int = 2) -> None:
        """Warn of nodes of which the latest edit left little."""
        small = self.network_.small_remainders
        if small:
            kept = ", ".join(f"node {n} keeps {share:.2%}" for n, share in small.items())
            message = f"little is left of some nodes, now rescaled to one: {kept}"
            warnings.warn(message, SmallRemainderWarning, stacklevel=stacklevel)

    def _nodes(self, nodes: int | Iterable[int] | None) -> tuple[int, ...] | None:
        several = nodes if nodes is None or isinstance(nodes, Iterable) else (nodes,)
        return check_nodes(several, self.network_.n_nodes)

    def with_network(self, network: FittedNetwork) -> Self:
        """A copy of the classifier around another network, such as an edited one."""
        other = copy.copy(self)
        other.network_ = network
        return other

    def removal_impact(self, X: Any, y: Any = None, groups: Any = None, *, mode: str = "rescale") -> pd.DataFrame:
        """The exact effect of removing each concept alone, all concepts in one pass.

        Args:
            X: raw concept scores ``(n, M)``.
            y: labels ``(n,)``; by default those of ``X``, if it is a :class:`~choqolate.ConceptScores`, whose rows
                without a label are left out.
            groups: group of each row ``(n,)``, for the worst group's accuracy; by default those of ``X`` too, whose
                rows without a group are left out if others have one.
            mode: as in :meth:`remove_concepts`.

        Returns:
            One row per concept: ``accuracy`` after its removal and ``accuracy_change``; with groups also
            ``worst_group`` and ``worst_group_change``. NaN where the removal would leave a node with nothing.

        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> from choqolate import ChoqolateClassifier
        >>> impact = ChoqolateClassifier(n_nodes=4, epochs=20).fit(X, y).removal_impact(X, y)
        >>> impact.shape, list(impact.columns)
        ((13, 2), ['accuracy', 'accuracy_change'])
        """
        check_choice("mode", mode, MODES)
        check_is_fitted(self)
        if isinstance(X, ConceptScores):
            X, y, groups = known_rows(self, X, y, groups)
        return removal_impact(self.network_, self.scale(X), y, groups, mode=mode)

    @property
    def n_parameters_(self) -> int:
        r"""Number of trained parameters; of two pairwise layers :math:`N M^2 + C N^2`."""
        check_is_fitted(self)
        return sum(theta.numel() for theta in self.network_.parameters.values())
