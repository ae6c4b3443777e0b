"""One image explained: everything that a terminal or a page says about it, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from choqolate.data.rows import class_index
from choqolate.explain.change import explain_local_change
from choqolate.explain.counterfactual import MOST_SETS, Counterfactual, find_counterfactual
from choqolate.explain.local import Attribution
from choqolate.explain.model_protocols import ChoquetModel, check_choquet_model


@dataclass(frozen=True, repr=False)
class ImageExplanation:
    """The prediction for one image, and why it was made.

    Attributes:
        probabilities: names and probabilities of all classes ``(C,)``, the predicted class first.
        truth: the true class; ``None`` if it is not known.
        lead: contributions of the concepts to the lead of the predicted class over the true one, or over the runner-up
            if the prediction is right or the true class is not known. The baseline is the mean training image.
        node_lead: contributions of the nodes to the same lead; ``None`` if concepts are connected to classes directly.
        counterfactual: the smallest set of concepts whose removal changes the prediction.
        predicted_before: the class that was predicted before the model was edited; ``None`` if it never was.
        lead_before: contributions of the concepts to the same lead before the model was edited; ``None`` if it
            never was.
    """

    probabilities: tuple[tuple[str, float], ...]
    truth: str | None
    lead: Attribution
    node_lead: Attribution | None
    counterfactual: Counterfactual
    predicted_before: str | None
    lead_before: Attribution | None

    def __repr__(self) -> str:
        return f"ImageExplanation({self.lead.subjects[0]}, probability {self.probabilities[0][1]:.3f})"

    @property
    def predicted(self) -> str:
        """The predicted class."""
        return self.probabilities[0][0]

    @property
    def right(self) -> bool | None:
        """Whether the prediction is right; ``None`` if the true class is not known."""
        return None if self.truth is None else self.truth == self.predicted

    @property
    def flipped(self) -> bool:
        """Whether edits of the model changed the prediction."""
        return self.predicted_before not in (None, self.predicted)


def explain_image(
    model: ChoquetModel,
    x: Any,
    *,
    truth: object = None,
    trained: ChoquetModel | None = None,
    most_sets: int = MOST_SETS,
) -> ImageExplanation:
    """Explain the prediction for one image.

    Args:
        model: a fitted classifier.
        x: raw scores of the image ``(1, M)``; also as a :class:`~choqolate.ConceptScores` with one row.
        truth: its class, if known.
        trained: the model before any edit, if it is at hand; otherwise the edits of ``model`` are taken back.
        most_sets: how many sets of concepts to try at most, as in :func:`find_counterfactual`.

    >>> from sklearn.datasets import load_wine
    >>> from choqolate import ChoqolateClassifier
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = ChoqolateClassifier(n_nodes=4, epochs=30).fit(X, y)
    >>> wine = explain_image(model, X.iloc[:1], truth=0)
    >>> wine
    ImageExplanation(0 rather than 1, probability ...)
    >>> wine.right, wine.lead.leading(most=1)[0].name, wine.predicted_before
    (True, 'alcohol', None)
    """
    check_choquet_model(model, "to explain an image")
    change = None
    if model.network_.is_edited:
        before = model.with_network(model.network_.as_trained()) if trained is None else trained
        change = explain_local_change(x, before, model, baseline="mean")
    why = model.explain(x, baseline="mean") if change is None else change.after
    names = list(class_index(why.classes))
    probabilities = model.predict_proba(x)[0]
    ranked = tuple((names[r], float(probabilities[r])) for r in why.ranking[0])
    known = None if truth is None else str(truth)
    (predicted, _), (runner_up, _) = ranked[:2]
    pair = (predicted, known if known in names and known != predicted else runner_up)
    return ImageExplanation(
        probabilities=ranked,
        truth=known,
        lead=why.contrast(*pair),
        node_lead=None if model.network_.class_layer is None else why.contrast(*pair, by="nodes"),
        counterfactual=find_counterfactual(model, x, most_sets=most_sets),
        predicted_before=None if change is None else str(change.before.predicted[0]),
        lead_before=None if change is None else change.before.contrast(*pair),
    )
