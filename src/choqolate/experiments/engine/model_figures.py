"""Models that are trained to be looked at: word clouds of the nodes, and how attributions move in training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate._util.markup import DASH
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.experiments.engine.experiment import Collected, Options, Runs, Shown
from choqolate.experiments.engine.methods import find_method
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tables import Row, Table
from choqolate.explain import explain_model
from choqolate.plots import training_dynamics, word_clouds
from choqolate.plots.style import scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CLOUDS = (9.0, 5.0)  # inches, of the clouds of one method
_DYNAMICS = (5.6, 4.0)  # inches, of one node


def show_clouds(name: str, note: str) -> Callable[[Collected], Shown]:
    """Show the nodes of every method, one figure per data set."""
    return lambda collected: Shown(
        figures={f"{name}-{source.name}": _draw_clouds(source, runs) for source, runs in collected.runs.items()},
        notes=[note],
    )


def _draw_clouds(source: Source, runs: Mapping[Any, Runs]) -> Figure:
    """The first run of each method is trained again."""
    table = source.load()
    found = {method: own for method, own in runs.items() if own.runs}
    figure, axes = _subplots(len(found), 1, _CLOUDS)
    for (name, own), ax in zip(found.items(), axes, strict=True):
        method = find_method(name)
        model = method.train(table.part("train"), [own.runs[0].seed], [own.parameters])[0][0]
        title = f"{method.title} on {source.title}"
        word_clouds(explain_model(model, table.part("test").frame), ax, title=title)
    return figure


def show_dynamics(name: str, tracked: Mapping[str, Sequence[str]], note: str) -> Callable[[Collected], Shown]:
    """Show which concepts lead each node in training, and the two nodes where the tracked concepts have weight.

    Args:
        name: of the files, before that of the data set.
        tracked: the concepts to follow, by data set; elsewhere those that lead at the end, and some that lost.
        note: what is to be said about it.
    """

    def show(collected: Collected) -> Shown:
        tables, figures = {}, {}
        for source in collected.runs:
            model, concepts = _train_tracked(source, collected.options), tracked.get(source.name)
            known = concepts if concepts is not None and set(concepts) <= set(model.concepts_) else None
            tables[f"{name}-{source.name}"] = _anchors(model, source)
            figures[f"{name}-{source.name}"] = _draw_dynamics(model, known)
        return Shown(tables, figures, [note])

    return show


def _train_tracked(source: Source, options: Options) -> ChoqolateClassifier:
    rows = source.load().part("train")
    return ChoqolateClassifier(track=True, device="cpu", **options.common).fit(rows.frame, rows.labels)


def _draw_dynamics(model: ChoqolateClassifier, concepts: Sequence[str] | None) -> Figure:
    nodes = _leading_nodes(model, concepts)
    figure, axes = _subplots(1, len(nodes), _DYNAMICS)
    for node, ax in zip(nodes, axes, strict=True):
        training_dynamics(explain_model(model), node, concepts, ax=ax)
    return figure


def _leading_nodes(model: ChoqolateClassifier, concepts: Sequence[str] | None) -> list[int]:
    """The two nodes in which the tracked concepts, or any, are largest."""
    shares = model.concept_attributions_
    if concepts is not None:
        shares = shares[:, [model.concepts_.index(name) for name in concepts]]
    return np.argsort(-shares.max(axis=1), kind="stable")[:2].tolist()


def _anchors(model: ChoqolateClassifier, source: Source) -> Table:
    """For every node: which concept took the lead first and when, and which leads at the end."""
    rows = []
    even = 2 / len(model.concepts_)
    history = explain_model(model, most=0).history
    assert history is not None
    for node, shares in enumerate(np.moveaxis(history, 1, 0)):
        leads = np.flatnonzero(shares.max(axis=1) >= even)
        texts = (DASH, DASH, DASH)
        if len(leads):
            first = int(shares[leads[0]].argmax())
            texts = (model.concepts_[first], str(leads[0] + 1), f"{shares[:, first].max():.3f}")
        last = int(shares[-1].argmax())
        rows.append(Row((str(node), *texts, model.concepts_[last], f"{shares[-1, last]:.3f}"), ()))
    heads = ("Node", "First to lead", "Epoch", "Its largest share", "Leads at the end", "Its share")
    return Table(f"Anchors on {source.title}, one run", heads, (), rows)


def _subplots(rows: int, columns: int, panel: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    import matplotlib.pyplot as plt

    size = (panel[0] * columns * scale(), panel[1] * rows * scale())
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    return figure, list(axes.flat)
