"""The editing side of the classifier: removing concepts, restoring them, measuring what removal would do."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from choqolate._util.checks import as_labels, check_choice, check_same_kind, find_concepts
from choqolate._util.text import listed
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.integral import Capacity
from choqolate.network.removal import (
    MODES,
    SMALL_REMAINDER,
    Edit,
    Nodes,
    Removal,
    absolute,
    mass_of_groups,
    match_shares,
    values_without_each,
)

if TYPE_CHECKING:
    import pandas as pd

_IMPACT_VALUES = 1 << 22  # node values held at a time while every concept is removed alone


class Editing:
    """Methods that return an edited copy of a fitted classifier. Edits are kept as a list over untouched parameters."""

    concepts_: list[str]
    classes_: np.ndarray
    edits_: tuple[Edit, ...]
    class_shift_: np.ndarray
    label_shares_: np.ndarray
    bipolar: bool
    removal_: Removal | None
    _nodes: Nodes
    _gone: Tensor
    _classes: Capacity | None

    # what the classifier brings along
    def _inputs(self, X: Any) -> Tensor:
        raise NotImplementedError

    def _score_nodes(self, values: Tensor) -> Tensor:
        raise NotImplementedError

    def _trained_layers(self) -> tuple[Nodes, Capacity | None]:
        raise NotImplementedError

    def remove_concepts(
        self,
        names: str | Iterable[str],
        *,
        nodes: int | Iterable[int] | None = None,
        mode: str = "rescale",
        recalibrate: Any = None,
    ) -> Self:
        """A copy of the classifier without the given concepts (CHOQ-PCR); this one is untouched.

        Args:
            names: one concept or several. With ``bipolar``, a concept's absence goes with it.
            nodes: indices of the nodes to edit; all by default.
            mode: ``"rescale"`` sets every weight that involves a concept to zero and rescales the others to sum to
                one, as the paper does; ``"canonical"`` first gives each pair's common part of b and c, which is no
                interaction, to its kept member; ``"impute"`` freezes the concept at its training mean, so that the
                decision threshold does not move.
            recalibrate: training scores. The class scores are then shifted so that the shares of the predicted
                classes on them come as near as can be to the shares of the training labels.

        Raises:
            ChoqolateError: for unknown names or nodes, and if a node would be left with no concept at all.
        """
        check_is_fitted(self)
        check_choice("mode", mode, MODES)
        concepts = tuple(self.concepts_[index] for index in find_concepts(names, self.concepts_))
        edited = copy.copy(self)
        edited.edits_ = (*self.edits_, Edit(concepts, self._check_nodes(nodes), mode))
        return edited._finish_edit(recalibrate, warn=True)

    def restore(self, names: str | Iterable[str] | None = None, *, recalibrate: Any = None) -> Self:
        """A copy with the given removed concepts back in place; with all of them by default.

        The shift of an earlier recalibration stays until everything is restored or ``recalibrate`` is given.
        """
        check_is_fitted(self)
        removed = list(dict.fromkeys(name for edit in self.edits_ for name in edit.concepts))
        if names is None:
            back = set(removed)
        elif not removed:
            raise ChoqolateError("nothing was removed from this model, so there is nothing to restore")
        else:
            back = {removed[index] for index in find_concepts(names, removed, known="removed were")}
        left = [replace(edit, concepts=tuple(c for c in edit.concepts if c not in back)) for edit in self.edits_]
        edited = copy.copy(self)
        edited.edits_ = tuple(edit for edit in left if edit.concepts)
        if not edited.edits_:
            edited.class_shift_ = np.zeros_like(self.class_shift_)
        return edited._finish_edit(recalibrate)

    def removal_impact(self, X: Any, y: Any, groups: Any = None, *, mode: str = "rescale") -> pd.DataFrame:
        """The exact effect of removing each concept alone, all concepts in one pass.

        Args:
            X: raw concept scores ``(n, M)``.
            y: labels ``(n,)``.
            groups: group of each row ``(n,)``, for the worst group's accuracy.
            mode: as in :meth:`remove_concepts`.

        Returns:
            One row a concept: ``accuracy`` after its removal and ``accuracy_change``; with groups also
            ``worst_group`` and ``worst_group_change``. NaN where the removal would leave a node with nothing.

        >>> from sklearn.datasets import load_wine
        >>> from choqolate import ChoqolateClassifier
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> impact = ChoqolateClassifier(n_nodes=4, epochs=20).fit(X, y).removal_impact(X, y)
        >>> impact.shape, list(impact.columns)
        ((13, 2), ['accuracy', 'accuracy_change'])
        """
        import pandas as pd

        check_choice("mode", mode, MODES)
        u = self._inputs(X)
        truth, members = self._check_truth(y, groups, len(u))
        inputs_of = [self._inputs_of([index]) for index in range(len(self.concepts_))]
        hits = np.zeros((len(members), 1 + len(inputs_of)))
        hits[:, 1:][:, [self._would_empty_a_node(inputs) for inputs in inputs_of]] = np.nan
        step = max(1, _IMPACT_VALUES // (len(inputs_of) * max(self._nodes.capacity.shape[0], len(self.classes_))))
        for start in range(0, len(u), step):
            rows = slice(start, start + step)
            before = self._nodes.values(u[rows])[:, :, None]
            without = values_without_each(self._nodes, u[rows], inputs_of, mode)
            hits[:, 1:][:, without.isnan().any(0).any(0).numpy()] = np.nan
            right = self._predict_nodes(torch.cat([before, without], 2)) == truth[rows, None]
            hits += np.stack([right[member[rows]].sum(0) for member in members])
        sizes = np.array([member.sum() for member in members])
        columns = {"accuracy": hits.sum(0) / sizes.sum()}
        if groups is not None:
            columns["worst_group"] = (hits / sizes[:, None]).min(0)
        table = {}
        for name, values in columns.items():
            table[name], table[f"{name}_change"] = values[1:], values[1:] - values[0]
        return pd.DataFrame(table, index=pd.Index(self.concepts_, name="concept"))

    def _predict_nodes(self, values: Tensor) -> np.ndarray:
        """Predicted class indices ``(B, G)`` from node values ``(B, N, G)``."""
        flat = values.transpose(1, 2).flatten(0, 1)
        scores = self._score_nodes(flat).numpy() + self.class_shift_
        predicted: np.ndarray = scores.argmax(1).reshape(len(values), -1)
        return predicted

    def _finish_edit(self, recalibrate: Any, *, warn: bool = False) -> Self:
        self._apply_edits(warn=warn)
        if recalibrate is not None:
            values = self._nodes.values(self._inputs(recalibrate))
            self.class_shift_ = match_shares(self._score_nodes(values).numpy(), self.label_shares_)
        if self.removal_ is not None:
            self.removal_ = replace(self.removal_, class_shift=self.class_shift_)
        return self

    def _apply_edits(self, *, warn: bool = False) -> None:
        """Derive the layers, the attributions and the report from the trained parameters and the list of edits."""
        trained, self._classes = self._trained_layers()
        nodes, retained = trained, torch.ones(trained.capacity.shape[0], dtype=torch.float64)
        kept = retained
        gone = torch.zeros_like(trained.frozen)
        for edit in self.edits_:
            removed = self._removal_mask(edit, trained.capacity.shape)
            gone |= removed
            if gone.all(1).any():
                raise ChoqolateError(
                    f"removing {listed(edit.concepts)} would leave node {int(gone.all(1).nonzero()[0])} without any "
                    "concept: keep at least one"
                )
            nodes, kept = nodes.remove(removed, edit.mode)
            retained = retained * kept
        self._check_remainder(retained, rescaled=kept < 1 if warn else None)
        self._nodes, self._gone = nodes, gone
        self.node_attributions_ = nodes.attributions().numpy()
        n_classes = len(self.classes_)
        self.class_attributions_ = np.eye(n_classes) if self._classes is None else self._classes.attributions().numpy()
        self.removal_ = self._report(trained, retained * nodes.moving_mass()) if self.edits_ else None

    def _would_empty_a_node(self, inputs: Sequence[int]) -> bool:
        gone = self._gone.clone()
        gone[:, inputs] = True
        return bool(gone.all(1).any())

    def _report(self, trained: Nodes, retained: Tensor) -> Removal:
        concepts = tuple(dict.fromkeys(name for edit in self.edits_ for name in edit.concepts))
        inputs_of = [self._inputs_of([index]) for index in find_concepts(concepts, self.concepts_)]
        gone = torch.stack([self._gone[:, inputs[0]] for inputs in inputs_of], 1)  # (N, K)
        shares = trained.capacity.attributions()
        shapley = torch.stack([shares[:, inputs].sum(1) for inputs in inputs_of], 1) * gone
        involved = mass_of_groups(absolute(trained.capacity), inputs_of) * gone
        return Removal(
            edits=self.edits_,
            concepts=concepts,
            mass_lost=(1 - retained).numpy(),
            mass_retained=retained.numpy(),
            shapley_lost=shapley.sum(1).numpy(),
            shapley=shapley.numpy(),
            involved=involved.numpy(),
            class_shift=self.class_shift_,
        )

    def _check_remainder(self, retained: Tensor, rescaled: Tensor | None) -> None:
        """A node must keep something; where the latest edit leaves little of one, say so."""
        empty = torch.nonzero(~(retained > 0))[:, 0].tolist()
        if empty:
            raise ChoqolateError(
                f"node {empty[0]} is made of the removed concepts alone, nothing is left to rescale: "
                "use mode='impute', or nodes=... without it"
            )
        if rescaled is None:
            return
        small = torch.nonzero((retained < SMALL_REMAINDER) & rescaled)[:, 0].tolist()
        if small:
            kept = ", ".join(f"node {n} keeps {retained[n]:.2%}" for n in small)
            warnings.warn(f"little is left of some nodes, now rescaled to one: {kept}", ChoqolateWarning, stacklevel=5)

    def _removal_mask(self, edit: Edit, shape: tuple[int, int]) -> Tensor:
        removed = torch.zeros(shape, dtype=torch.bool)
        inputs = self._inputs_of(find_concepts(edit.concepts, self.concepts_))
        rows = range(shape[0]) if edit.nodes is None else edit.nodes
        for node in rows:
            removed[node, inputs] = True
        return removed

    def _inputs_of(self, concepts: Sequence[int]) -> list[int]:
        """Inputs of the first layer that stand for the concepts: themselves, with ``bipolar`` their absences too."""
        absences = [len(self.concepts_) + index for index in concepts] if self.bipolar else []
        return [*concepts, *absences]

    def _check_nodes(self, nodes: int | Iterable[int] | None) -> tuple[int, ...] | None:
        if nodes is None:
            return None
        chosen = tuple(nodes) if isinstance(nodes, Iterable) else (nodes,)
        n_nodes = self._nodes.capacity.shape[0]
        wrong = [n for n in chosen if not isinstance(n, Integral) or isinstance(n, bool) or not 0 <= n < n_nodes]
        if wrong or not chosen:
            raise ChoqolateError(f"expected indices of nodes from 0 to {n_nodes - 1}, got {list(chosen)}")
        return tuple(sorted({int(n) for n in chosen}))

    def _check_truth(self, y: Any, groups: Any, n_rows: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """Class index of each row (-1 for classes the model does not know) and the rows of each group."""
        known = {label: index for index, label in enumerate(self.classes_.tolist())}
        labels = as_labels(y, "y", n_rows)
        check_same_kind(labels, list(known), "y")
        truth = np.array([known.get(label, -1) for label in labels])
        membership = [0] * n_rows if groups is None else as_labels(groups, "groups", n_rows)
        position = {group: index for index, group in enumerate(dict.fromkeys(membership))}
        index = np.array([position[group] for group in membership])
        return truth, [index == group for group in range(len(position))]
