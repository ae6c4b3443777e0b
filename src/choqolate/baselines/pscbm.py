"""Partially shared concept bottleneck: few concepts, owned by classes, learnt as units of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from choqolate._util.checks import check_number
from choqolate.baselines.selection import Selection, concept_labels, select_concepts
from choqolate.estimators.bottleneck import Bottleneck
from choqolate.estimators.descent import Classification, Descent, DescentObjective, apply_layer, as_arrays, draw_layers
from choqolate.network.training import History


class PSCBM(Bottleneck):
    r"""Partially shared concept bottleneck (Zhao et al. 2026), adapted to a flat vocabulary and to few nodes.

    1. A class owns the concepts whose mean score on its rows lies above the overall mean by a standard deviation; every
       concept belongs at least to the class with its best mean.
    2. A concept is dropped if the mean of its four best raw scores on rows of its classes is below ``min_score``.
    3. Concepts whose raw scores over the training rows have a cosine of at least ``merge`` become one, the largest
       group first; the representative keeps its name and gets the classes of all.
    4. All K concepts with several classes stay, and of those with one class the ``per_class`` with the largest mean
       raw score on the rows of that class.
    5. A row's label for a concept is one where its class owns the concept and its raw score reaches ``min_score``.
    6. The concept layer, :math:`g = Az + a`, learns these labels from all M scaled scores by binary cross-entropy.
    7. Its outputs, standardised to the units :math:`u`, are classified under an elastic net over both layers:
       :math:`h = Wu + b`, :math:`o = Vh + d`. The concept layer is trained on with them, its own loss in the sum.

    Steps 2 to 5 are those of the authors' code. Step 1 is ours, as the authors generate concepts for each class, and so
    is the concept layer: the published commands train two linear layers with a ReLU between them on the features of a
    backbone, while a baseline here gets nothing but the scores and stays linear in them. The layer of nodes is an
    adaptation, too; with ``n_nodes=None`` step 7 is the authors' sparse linear classifier, and the concept layer is not
    trained any further under it. Steps 6 and 7 have the whole budget of ``epochs`` or ``steps`` each. The default
    learning rate is ours: the authors take 5,000 to 30,000 steps at 1e-4 to 1e-3.

    ``node_attributions_`` has the weights W in the columns of the kept concepts, and zeros elsewhere; what nodes make
    of the scores themselves, which every unit reads, is ``score_attributions_``.
    ``explain`` attributes to units: :math:`W_{nj} (u_j - u_j^0)`. A removed concept is frozen at its mean
    twice, as an input of the concept layer and as a unit.

    Args:
        penalty, l1_ratio: λ and ρ of the elastic net, see :class:`~choqolate.baselines.PCBM`.
        min_score: a cosine, see above. With ``None``, for scores that are no cosines, no concept is dropped, a score
            passes above its concept's mean, and the best are those of the standardised scores.
        merge: see above.
        per_class: see above.

    The other parameters and attributes are those of :class:`~choqolate.baselines.Bottleneck`, and

    Attributes:
        selection_: what became of every concept, see :class:`~choqolate.baselines.selection.Selection`.
        unit_weights_: from scaled scores to units ``(K, M)``.
        unit_intercepts_: ``(K,)``.
        history_: has ``concepts`` too, the loss of step 6 ``(epochs,)``.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = PSCBM(n_nodes=4, min_score=None, per_class=3, learning_rate=0.1).fit(X, y)
    >>> model.selection_.owners["proline"], len(model.selection_.kept)
    ((0,), 6)
    >>> model.score(X, y) > 0.9
    True
    """

    selection_: Selection
    unit_weights_: np.ndarray
    unit_intercepts_: np.ndarray

    def __init__(
        self,
        n_nodes: int | None = 8,
        *,
        penalty: float = 7e-4,
        l1_ratio: float = 0.99,
        min_score: float | None = 0.20,
        merge: float = 0.9998,
        per_class: int = 5,
        epochs: int = 100,
        steps: int | None = None,
        batch_size: int = 512,
        learning_rate: float = 0.01,
        device: str = "auto",
        verbose: bool = False,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        super().__init__(
            n_nodes,
            epochs=epochs,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            device=device,
            verbose=verbose,
            random_state=random_state,
        )
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.min_score = min_score
        self.merge = merge
        self.per_class = per_class

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("per_class", self.per_class, minimum=1, whole=True)
        check_number("merge", self.merge, minimum=0, strict=True)
        if self.min_score is not None:
            check_number("min_score", self.min_score, minimum=-1)

    def _learn(self, training: Descent) -> list[dict[str, Any]]:
        X, targets = training.X, training.targets.cpu().numpy()
        selection = select_concepts(
            X,
            targets,
            self.concepts_,
            self.classes_.tolist(),
            min_score=self.min_score,
            merge=self.merge,
            per_class=self.per_class,
        )
        labels = torch.from_numpy(concept_labels(X, targets, selection, self.min_score)).to(training.z.device)
        concepts = ConceptLabels(training, labels)
        lessons = _learn_concepts(training, concepts)
        widths = self._widths(len(selection.columns))
        if self.n_nodes is None:
            A, a = concepts.standardised()
            layers, histories = training.learn_layers(
                lambda rows: apply_layer(training.z[rows], A, a), widths, self.l1_ratio
            )
        else:
            jointly = Jointly(training, concepts, widths)
            histories = training.minimise(jointly, "training", training.elastic_net(jointly.layers[::2], self.l1_ratio))
            jointly.restandardise()
            (A, a), layers = concepts.standardised(), as_arrays(jointly.layers)
        fitted = []
        for (weights, intercepts), lesson, own_layers, history in zip(
            as_arrays([A, a]), lessons, layers, histories, strict=True
        ):
            own = self._fitted(own_layers, history)
            own["node_attributions_"] = np.zeros((len(own_layers[0]), X.shape[1]))
            own["node_attributions_"][:, selection.columns] = own_layers[0]
            own["n_parameters_"] += weights.size + intercepts.size
            own["history_"]["concepts"] = np.array(lesson.loss)
            own["went_back_"] |= lesson.went_back
            own |= {"selection_": selection, "unit_weights_": weights, "unit_intercepts_": intercepts}
            fitted.append(own)
        return fitted

    @property
    def score_attributions_(self) -> np.ndarray:
        """Weights of the nodes over the scaled scores, through the concept layer ``(N, M)``."""
        check_is_fitted(self)
        W: np.ndarray = self.node_attributions_[:, self.selection_.columns] @ self.unit_weights_
        return W

    def _units(self, z: np.ndarray) -> np.ndarray:
        units = np.zeros_like(z)
        units[:, self.selection_.columns] = z @ self.unit_weights_.T + self.unit_intercepts_
        return units

    def _freeze(self, frozen: Sequence[int]) -> None:
        super()._freeze(frozen)
        self.unit_intercepts_ = self.unit_intercepts_ + self.unit_weights_[:, frozen] @ self.concept_means_[frozen]
        self.unit_weights_ = self.unit_weights_.copy()
        self.unit_weights_[:, frozen] = 0.0


def _learn_concepts(training: Descent, concepts: ConceptLabels) -> list[History]:
    """Train the concept layer of all runs; those that differ in the penalty alone share it, as it has no part here."""
    seeds = [generator.initial_seed() for generator in training.generators]
    known = list(zip(seeds, training.learning_rate.tolist(), strict=True))
    distinct = list(dict.fromkeys(known))
    first, place = [known.index(one) for one in distinct], [distinct.index(one) for one in known]
    few = replace(
        training,
        generators=[training.generators[run] for run in first],
        learning_rate=training.learning_rate[first],
        penalty=training.penalty[first],
    )
    concepts.parameters = [theta[first] for theta in concepts.parameters]
    lessons = few.minimise(concepts, "learning concepts")
    concepts.parameters = [theta.detach()[place].requires_grad_() for theta in concepts.parameters]
    return [lessons[run] for run in place]


class ConceptLabels(DescentObjective):
    """The concept layer of R runs: binary cross-entropy of labels ``(n, K)``, in the mean over rows and concepts."""

    def __init__(self, training: Descent, labels: Tensor) -> None:
        self.z, self.labels = training.z, labels
        drawn = draw_layers(training.generators, [self.z.shape[1], labels.shape[1]])
        self.parameters = [theta.to(self.z.device) for theta in drawn]

    def measure(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        outputs = apply_layer(self.z[rows], *self.parameters)
        expected = self.labels[rows].expand_as(outputs)
        return F.binary_cross_entropy_with_logits(outputs, expected, reduction="none").mean((1, 2)), None

    @torch.no_grad()
    def spreads(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the outputs on the training rows ``(R, K)``; one for a constant output."""
        means, spreads = [], []
        for A, a in zip(*self.parameters, strict=True):  # run by run: all rows of all runs may be too many
            outputs = F.linear(self.z, A, a)
            means.append(outputs.mean(0))
            spreads.append(outputs.std(0, correction=0))
        spread = torch.stack(spreads)
        return torch.stack(means), torch.where(spread > 0, spread, 1.0)

    @torch.no_grad()
    def standardised(self) -> tuple[Tensor, Tensor]:
        """Weights and intercepts whose outputs on the training rows have mean zero and standard deviation one."""
        (A, a), (means, spread) = self.parameters, self.spreads()
        return A / spread[:, :, None], (a - means) / spread


class Jointly(DescentObjective):
    """Nodes, classes and the concept layer below of R runs: cross-entropy plus the concept layer's own loss.

    While they are trained, the standardisation between them stays that of the concept layer before.
    """

    def __init__(self, training: Descent, concepts: ConceptLabels, widths: Sequence[int]) -> None:
        self.concepts, (self.means, self.spread) = concepts, concepts.spreads()
        drawn = draw_layers(training.generators, widths)
        self.layers = [theta.to(training.z.device) for theta in drawn]
        self.parameters = [*concepts.parameters, *self.layers]
        self.head = Classification(self._units_of, training.targets, self.layers)

    def _units_of(self, rows: Tensor) -> Tensor:
        outputs = apply_layer(self.concepts.z[rows], *self.concepts.parameters)
        return (outputs - self.means[:, None]) / self.spread[:, None]

    def measure(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        losses, hits = self.head.measure(rows)
        return losses + self.concepts.measure(rows)[0], hits

    @torch.no_grad()
    def restandardise(self) -> None:
        """Let the units have mean zero and standard deviation one again; the first layer makes up for it."""
        means, spread = self.concepts.spreads()
        W, b = self.layers[:2]
        b += (W @ ((means - self.means) / self.spread)[:, :, None])[:, :, 0]
        W *= (spread / self.spread)[:, None]
        self.means, self.spread = means, spread
