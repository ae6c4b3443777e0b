"""DFR: a linear last layer, fitted on as many rows of one group as of any other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from choqolate._util.checks import as_labels, check_number, check_seed
from choqolate._util.text import listed
from choqolate.data.scores import ConceptScores
from choqolate.debiasing.group_rows import balanced_rows, check_bottlenecks, grouped_parts
from choqolate.errors import ChoqolateError
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.estimators.concept_estimator import ConceptEstimator
from choqolate.metrics import worst_group_accuracy

STRENGTHS = (1.0, 0.7, 0.3, 0.1, 0.07, 0.03, 0.01)
N_DRAWS = 20
ENOUGH = 50  # rows of every group to fit on, where training rows have more
_ITERATIONS = 1_000
# scikit-learn 1.8 renamed the parameter and warns of the old name
_L1: dict[str, Any] = {"l1_ratio": 1.0} if LogisticRegression().penalty == "deprecated" else {"penalty": "l1"}


class LinearHead(ConceptEstimator, ClassifierMixin, BaseEstimator):
    r"""The nodes of a trained classifier below, a linear layer above: :math:`o = V h + d`.

    V and d are means over l1-penalised logistic regressions, each fitted on a draw with equally many rows of every
    group. Node values are standardised for the fits; V and d are given for the values as they are.

    Args:
        model: a trained classifier with nodes; it stays as it is.
        C: inverse strength of the l1 penalty.
        n_draws: number of balanced draws.
        random_state: seed of the draws.

    Attributes:
        classes_, concepts_, input_names_, scaling_, node_attributions_: of the model.
        class_attributions_: V, the signed weights of the node values ``(C, N)``.
        class_intercepts_: d ``(C,)``.
        provenance_: of the model; from :func:`dfr` with ``debiasing``.

    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> head = LinearHead(ChoqolateClassifier(n_nodes=4).fit(X, y), n_draws=3).fit(X, y)
    >>> head.score(X, y) > 0.9, head.class_attributions_.shape
    (True, (3, 4))
    """

    node_attributions_: np.ndarray
    class_attributions_: np.ndarray
    class_intercepts_: np.ndarray

    n_nodes: Any = property(lambda self: self.model.n_nodes)
    one_layer_ = property(lambda self: self.model.one_layer_)
    scaling_ = property(lambda self: self.model.scaling_)
    input_names_ = property(lambda self: self.model.input_names_)

    def __init__(
        self, model: ChoqolateClassifier, *, C: float = 1.0, n_draws: int = N_DRAWS, random_state: int = 0
    ) -> None:
        self.model = model
        self.C = C
        self.n_draws = n_draws
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None, *, reference: Any = None) -> Self:
        """Fit the head.

        Args:
            X: raw concept scores ``(n, M)``.
            y: labels ``(n,)``.
            groups: group of each row ``(n,)``; by default its label.
            reference: raw scores whose node values give mean and deviation for the standardisation; by default ``X``.
        """
        check_bottlenecks([self.model])
        check_number("C", self.C, minimum=0, strict=True)
        check_number("n_draws", self.n_draws, minimum=1, whole=True)
        rng = np.random.default_rng(check_seed(self.random_state))
        values = self.transform(X)
        labels = as_labels(y, "y", len(values))
        members = labels if groups is None else as_labels(groups, "groups", len(values))
        targets = self._targets(labels)
        number = {group: index for index, group in enumerate(dict.fromkeys(members))}
        numbers = np.array([number[group] for group in members])
        centre, spread = standardisation(values if reference is None else self.transform(reference))
        V, d = mean_head((values - centre) / spread, targets, numbers, self.C, self.n_draws, rng)
        self.classes_, self.concepts_ = self.model.classes_, self.model.concepts_
        self.node_attributions_ = self.model.node_attributions_
        self.class_attributions_ = V / spread
        self.class_intercepts_ = d - self.class_attributions_ @ centre
        self.provenance_ = self.model.provenance_
        self.n_features_in_ = self.model.n_features_in_
        if hasattr(self.model, "feature_names_in_"):
            self.feature_names_in_ = self.model.feature_names_in_
        return self

    def _targets(self, labels: Sequence[Any]) -> np.ndarray:
        """Class indices ``(n,)``; every class of the model must be there."""
        known = {label: index for index, label in enumerate(self.model.classes_.tolist())}
        unknown, absent = sorted(set(labels) - set(known), key=str), sorted(set(known) - set(labels), key=str)
        if unknown or absent:
            came = f"{listed(unknown)} as well" if unknown else f"no {listed(absent)}"
            raise ChoqolateError(f"expected rows of all classes of the model and of no other, got {came}")
        return np.array([known[label] for label in labels])

    def transform(self, X: Any) -> np.ndarray:
        """Node values ``(n, N)`` of the model."""
        return np.asarray(self.model.transform(X))

    def class_scores(self, X: Any) -> np.ndarray:
        """Outputs of the linear layer ``(n, C)``: the logits."""
        scores: np.ndarray = self.transform(X) @ self.class_attributions_.T + self.class_intercepts_
        return scores

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities ``(n, C)``: softmax of the class scores."""
        probabilities: np.ndarray = softmax(self.class_scores(X), axis=1)
        return probabilities


def dfr(
    models: Sequence[ChoqolateClassifier],
    table: ConceptScores,
    *,
    strengths: Iterable[float] = STRENGTHS,
    n_draws: int = N_DRAWS,
    random_state: int = 0,
) -> list[LinearHead]:
    """Give trained classifiers a linear last layer that was fitted on group-balanced draws.

    The method of Kirichenko et al. (2022), on the node values: l1-penalised logistic regression (liblinear for two
    classes, multinomial by saga for more), standardised with the training rows. C is the value with the best
    worst-group accuracy on a half of the rows after a fit on a balanced draw from the other half; our halves have the
    same share of every group, and each is held out once. The rows are those for validation if every group has at
    least 50 of them there, as the authors have it; else those of the two whose smallest group is larger.

    Args:
        models: trained classifiers with nodes.
        table: the scores that they were trained on, with groups.
        strengths: values of C to choose from.
        n_draws: number of balanced draws that the head is averaged over.
        random_state: seed of halves and draws, the same for all models.

    Returns:
        One head for each model; ``provenance_.debiasing`` has C and says which rows were used.

    Raises:
        ChoqolateError: for models without nodes, and for a table without groups.
    """
    models, strengths = check_bottlenecks(models), list(strengths)
    if not strengths:
        raise ChoqolateError("expected values of C to choose from, got none: give at least one as strengths")
    for C in strengths:
        check_number("strengths", C, minimum=0, strict=True)
    train, val = grouped_parts(table, models[0].classes_)
    on_val = val is not None and val.sizes.min() >= min(ENOUGH, train.sizes.min())
    rows = val if val is not None and on_val else train
    names = np.array(rows.names)[rows.groups]
    heads = []
    for model in models:
        values, reference = rows.node_values([model])[0], train.node_values([model])[0]
        centre, spread = standardisation(reference)
        rng = np.random.default_rng(check_seed(random_state))
        C, worst = choose_strength((values - centre) / spread, rows.targets, rows.groups, strengths, rng)
        head = LinearHead(model, C=C, n_draws=n_draws, random_state=random_state)
        labels = model.classes_[rows.targets]
        head.fit(rows.table, labels, names, reference=train.table)
        fitted_on = "val rows" if on_val else "train rows"
        note = {"method": "DFR", "C": C, "worst_group": worst, "fitted_on": fitted_on, "rows": len(rows)}
        head.provenance_ = replace(head.provenance_, debiasing=note)
        heads.append(head)
    return heads


def choose_strength(
    values: np.ndarray, targets: np.ndarray, groups: np.ndarray, strengths: Sequence[float], rng: np.random.Generator
) -> tuple[float, float]:
    """The C with the best worst-group accuracy on held-out halves, the first of equals, and that accuracy.

    Args:
        values: standardised node values ``(n, N)``.
        targets, groups: class and group of each row, as indices ``(n,)``.
        strengths: values of C.
        rng: source of halves and draws.
    """
    first, n_classes = halves(groups, rng), int(targets.max()) + 1
    accuracy = np.zeros(len(strengths))
    for half in (first, ~first):
        rows = np.flatnonzero(half)
        rows = rows[balanced_rows(groups[rows], rng)]
        for index, C in enumerate(strengths):
            V, d = logistic_head(values[rows], targets[rows], C, n_classes)
            predicted = (values[~half] @ V.T + d).argmax(1)
            accuracy[index] += worst_group_accuracy(targets[~half], predicted, groups[~half]) / 2
    best = int(accuracy.argmax())
    return float(strengths[best]), float(accuracy[best])


def halves(groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A mask of one half of the rows, with half of every group, of odd numbers the larger one.

    >>> int(halves(np.array([0, 0, 1, 1, 1]), np.random.default_rng(0)).sum())
    3
    """
    mask = np.zeros(len(groups), dtype=bool)
    for group in np.unique(groups):
        members = rng.permutation(np.flatnonzero(groups == group))
        mask[members[: (len(members) + 1) // 2]] = True
    return mask


def mean_head(
    values: np.ndarray, targets: np.ndarray, groups: np.ndarray, C: float, n_draws: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Weights ``(C, N)`` and intercepts ``(C,)``, averaged over fits on fresh balanced draws."""
    draws, n_classes = [balanced_rows(groups, rng) for _ in range(n_draws)], int(targets.max()) + 1
    weights, intercepts = zip(
        *(logistic_head(values[rows], targets[rows], C, n_classes) for rows in draws), strict=True
    )
    return np.mean(weights, axis=0), np.mean(intercepts, axis=0)


def logistic_head(values: np.ndarray, targets: np.ndarray, C: float, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """One l1 logistic regression: weights ``(C, N)`` and intercepts ``(C,)``.

    Of two classes, liblinear's one logit s becomes the scores -s / 2 and s / 2, which have the same softmax.
    """
    if len(np.unique(targets)) < n_classes:
        raise ChoqolateError(
            f"expected all {n_classes} classes among equally many rows of every group, got fewer: let groups be class "
            "and attribute together, with more rows of the smallest"
        )
    several = n_classes > 2
    fitted = LogisticRegression(
        solver="saga" if several else "liblinear", C=C, max_iter=_ITERATIONS, random_state=0, **_L1
    ).fit(values, targets)
    if several:
        return fitted.coef_, fitted.intercept_
    return np.vstack([-fitted.coef_, fitted.coef_]) / 2, np.concatenate([-fitted.intercept_, fitted.intercept_]) / 2


def standardisation(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each node ``(N,)``; 1 instead of 0 for a node that does not move."""
    spread = values.std(axis=0)
    return values.mean(axis=0), np.where(spread > 0, spread, 1.0)
