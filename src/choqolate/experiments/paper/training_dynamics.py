"""Figure 5: how attributions move in training, in the two nodes where the tracked concepts have weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.experiments.engine.experiment import Collected, Experiment, Shown
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tables import Row, Table
from choqolate.explain import explain_model
from choqolate.plots import training_dynamics
from choqolate.plots.style import scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRACKED = {"coco": ("train", "car", "bed", "frisbee", "surfboard")}
"""The concepts that the paper follows; elsewhere those that lead at the end, and some that led once and lost."""

_PANEL = (5.6, 4.0)  # inches
NOTE = (
    "The first to lead is the concept with the largest Shapley value after the first epoch in which one has twice the "
    "share of an even start; there may be none."
)


def _train(source: Source, collected: Collected) -> ChoqolateClassifier:
    rows = source.load().part("train")
    parameters = {"n_nodes": 8} | dict(collected.settings.parameters)
    return ChoqolateClassifier(track=True, device="cpu", **parameters).fit(rows.frame, rows.labels)


def _nodes(model: ChoqolateClassifier, concepts: Sequence[str] | None) -> list[int]:
    """The two nodes in which the tracked concepts, or any, are largest."""
    shares = model.node_attributions_
    if concepts is not None:
        shares = shares[:, [model.concepts_.index(name) for name in concepts]]
    return np.argsort(-shares.max(axis=1), kind="stable")[:2].tolist()


def _draw(model: ChoqolateClassifier, concepts: Sequence[str] | None) -> Figure:
    import matplotlib.pyplot as plt

    nodes = _nodes(model, concepts)
    size = (_PANEL[0] * len(nodes) * scale(), _PANEL[1] * scale())
    figure, axes = plt.subplots(1, len(nodes), figsize=size, layout="constrained", squeeze=False)
    for node, ax in zip(nodes, axes[0], strict=True):
        training_dynamics(explain_model(model), node, concepts, ax=ax)
    return figure


def _anchors(model: ChoqolateClassifier, source: Source) -> Table:
    """For every node: which concept took the lead first and when, and which leads at the end."""
    rows = []
    even = 2 / len(model.concepts_)
    for node, shares in enumerate(np.moveaxis(model.history_["node_attributions"], 1, 0)):
        leads = np.flatnonzero(shares.max(axis=1) >= even)
        texts = ("–", "–", "–")
        if len(leads):
            first = int(shares[leads[0]].argmax())
            texts = (model.concepts_[first], str(leads[0] + 1), f"{shares[:, first].max():.3f}")
        last = int(shares[-1].argmax())
        rows.append(Row((str(node), *texts, model.concepts_[last], f"{shares[-1, last]:.3f}"), ()))
    heads = ("Node", "First to lead", "Epoch", "Its largest share", "Leads at the end", "Its share")
    return Table(f"Anchors on {source.title}, one run", heads, (), rows)


def _show(collected: Collected) -> Shown:
    tables, figures = {}, {}
    for source in collected.sources:
        model, concepts = _train(source, collected), TRACKED.get(source.name)
        known = concepts if concepts is not None and set(concepts) <= set(model.concepts_) else None
        tables[f"dynamics-{source.name}"] = _anchors(model, source)
        figures[f"dynamics-{source.name}"] = _draw(model, known)
    return Shown(tables, figures, [NOTE])


EXPERIMENT = Experiment(
    name="dynamics",
    title="Training dynamics",
    paper="Figure 5",
    data=("coco",),
    seeds=1,
    tasks=lambda source, settings: (),  # one model is trained to be looked at
    show=_show,
)
