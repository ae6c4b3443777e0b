"""Edits of a fitted Choquet estimator: verbs that return a copy, and what they would do."""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from choqolate._util.checks import check_choice, find_concepts
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError, SmallRemainderWarning
from choqolate.estimators.choquet_estimator import ChoquetEstimator
from choqolate.estimators.table_inputs import known_rows
from choqolate.explain.impact import removal_impact
from choqolate.network.certificate import Certificate, certify
from choqolate.network.edits import Edit, Note, Remove, Restore, Reweight, Simplify, affected_concepts
from choqolate.network.fitted import check_nodes
from choqolate.network.removal import MODES

if TYPE_CHECKING:
    import pandas as pd


class EditableEstimator(ChoquetEstimator):
    """A fitted Choquet estimator that people can correct. Every edit returns a copy; this estimator is untouched.

    Attributes:
        edits_: what was done to the model since training, in order; ``undo`` takes the last one back.
        removal_: what was removed or reweighted since training, or ``None``.
        simplification_: what a simplification dropped, or ``None``.
        class_shift_: what recalibration adds to the class scores ``(C,)``.
    """

    edits_ = property(lambda self: self.network_.edits)
    class_shift_ = property(lambda self: self.network_.class_shift)
    removal_ = property(lambda self: self.network_.removal)
    simplification_ = property(lambda self: self.network_.simplification)

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
        known = self.network_.concepts
        concepts = tuple(known[index] for index in find_concepts(names, known))
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
        """Find the rows that provably keep their predicted class after simplification, see :class:`Certificate`.

        The model is compared with its state just before the latest simplification; later recalibrations apply to both.
        The proof uses only the weight that was dropped, so it holds for any dropped terms.

        Args:
            X: raw concept scores ``(n, M)``.

        Raises:
            ChoqolateError: if the model is not simplified, or concepts were removed or reweighted after that.
        """
        z = self.scale(X)
        return certify(self.network_, z)

    def recalibrate(self, X: Any, *, note: Note | str | None = None) -> Self:
        """A copy whose class scores are shifted so that predicted classes are as frequent as the training labels.

        The shift needs neither labels nor training. It stays until everything is restored or another recalibration
        takes its place.

        Args:
            X: training scores ``(n, M)``.
            note: as in :meth:`remove_concepts`.
        """
        z = self.scale(X)
        fingerprint = hashlib.sha256(np.ascontiguousarray(z, dtype="<f8").data).hexdigest()
        edit = self.network_.recalibration(z, fingerprint=fingerprint, note=Note.of(note))
        return self.with_network(self.network_.edited(edit))

    def restore(
        self, names: str | Iterable[str] | None = None, *, recalibrate: Any = None, note: Note | str | None = None
    ) -> Self:
        """A copy in which the given removed or reweighted concepts, by default all, are as trained.

        The shift of an earlier recalibration stays until everything is restored or ``recalibrate`` is given. A
        simplification is kept if ``names`` are given and undone otherwise.
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
        """Warn about nodes that the latest edit left with little weight."""
        small = self.network_.small_remainders
        if small:
            kept = ", ".join(f"node {n} keeps {share:.2%}" for n, share in small.items())
            message = f"little is left of some nodes, now rescaled to one: {kept}"
            warnings.warn(message, SmallRemainderWarning, stacklevel=stacklevel)

    def _nodes(self, nodes: int | Iterable[int] | None) -> tuple[int, ...] | None:
        several = nodes if nodes is None or isinstance(nodes, Iterable) else (nodes,)
        return check_nodes(several, self.network_.n_nodes)

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
