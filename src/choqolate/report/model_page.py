"""The report of a model: all that is known of it, on one page."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate import metrics
from choqolate._util.files import check_output, write_bytes
from choqolate._util.text import counted
from choqolate.analysis.evaluation import Evaluation, spurious_concepts
from choqolate.analysis.suspects import Suspects, without
from choqolate.concepts.new_images import score_for_model
from choqolate.data.rows import class_index
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.explain import ModelChange, explain_change, leading
from choqolate.explain.model_protocols import check_choquet_model
from choqolate.explain.node_stability import NodeStability
from choqolate.network.edits import Remove
from choqolate.network.removal_report import Removal, factor_text
from choqolate.report import data_uri, render, share
from choqolate.report.drawings import MOST_WORDS, correlation_png, word_cloud_svg
from choqolate.report.model_origin import commands, facts, removal_command, words
from choqolate.report.page_data import View

if TYPE_CHECKING:
    from choqolate.concepts.backbones import Backbone
    from choqolate.estimators.classifier import ChoqolateClassifier

LEADING = 6  # concepts of a node with their numbers
PAIRS = 3  # interactions of a node, of either kind
WEAKEST = 0.001  # change of a Shapley value that is shown
MOST_NODES = 24  # with a card
MOST_ROWS = 20  # of a table with a row for each class or group
MOST_CLASSES = 12  # with a column of their own
MOST_DOTS = 10  # other runs that have a dot each


def write_report(
    model: ChoqolateClassifier,
    table: ConceptScores | None,
    path: str | os.PathLike[str],
    *,
    images: ConceptScores | Sequence[str | os.PathLike[str]] = (),
    root: str | os.PathLike[str] | None = None,
    backbone: Backbone | str | None = None,
    title: str = "A model explained",
    names: tuple[str, str] = ("model", "scores.parquet"),
    suspects: Suspects | None = None,
    verbose: bool = False,
) -> Path:
    """Write a page that explains a model; it needs nothing but itself.

    Args:
        model: a fitted classifier.
        table: scores to measure it on; without labels, or without a table, what needs them is left out.
        path: of the page, which ends in ``.html``.
        images: image files to explain, from their pixels; they need not be in the table. Or what
            :func:`choqolate.score_for_model` made of them.
        root: the folder that the table's paths start from, if the images have moved.
        backbone: the encoder for ``images``, if it has moved.
        title: of the page.
        names: of the model and of the scores, in the commands that the page proposes.
        suspects: what :func:`choqolate.find_suspects` found, if it was asked already.
        verbose: show a progress bar (on a terminal).

    Returns:
        The path of the page.

    Raises:
        ChoqolateError: if the table lacks concepts of the model, an image cannot be read, or the path does not end in
            ``.html``.
    """
    target = Path(path)
    check_choquet_model(model, "to write a report")
    check_page(target)
    view = View(model, table, root, verbose, suspects)
    if not isinstance(images, ConceptScores):
        images = score_for_model(model, images, backbone=backbone) if len(images) else images
    own = view.examples_of_files(images) if isinstance(images, ConceptScores) else []
    write_bytes(target, _page(view, own, title, names).encode())
    return target


def check_page(path: Path) -> None:
    """Find out before the work that a page cannot be written, or would be taken for something else."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ChoqolateError(f"expected a file that ends in .html, got {path}: the report is a page")
    check_output(path)


def _page(view: View, own: list[dict[str, Any]], title: str, names: tuple[str, str]) -> str:
    model, results = view.model, view.results
    shown = view.examples() if view.rows is not None else {"worst": [], "best": [], "changed": []}
    suspects = _suspects(view, names)
    return render(
        "model.html",
        title=title,
        summary=_summary(view, suspects),
        own=own,
        shown=shown,
        labelled=view.measured is not None,
        temperature=f"{model.probability_temperature_:.4g}{'' if model.calibration_ is None else ', calibrated,'}",
        metrics=_metrics(results),
        nodes=_nodes(view),
        one_layer=model.one_layer_,
        stability=view.explanation.stability,
        absences=view.explanation.absence is not None,
        duplicates=[(pair, [view.explanation.nodes[n] for n in pair[:2]]) for pair in view.explanation.duplicates][:10],
        n_duplicates=len(view.explanation.duplicates),
        n_nodes=len(view.explanation.nodes),
        notes=view.notes,
        rows_called=view.rows_called,
        marked=bool(view.marked[0]),
        marked_as=view.marked[1],
        flows=_flows(view),
        classes=_classes(view),
        groups=_groups(view),
        suspects=suspects,
        edits=_edits(view),
        redundancy=None if view.redundancy is None else view.redundancy.lines(),
        heatmap=None if view.redundancy is None else data_uri(correlation_png(view.redundancy), "image/png"),
        order=[] if view.redundancy is None else [view.redundancy.concepts[j] for j in view.redundancy.order],
        facts=facts(model),
        words=words(model),
        commands=commands(model),
    )


# ---------------------------------------------------------------------- sentences and tables


def _summary(view: View, suspects: dict[str, Any] | None) -> list[str]:
    """What it is, how good it is, and what to do about it, in whole sentences."""
    model = view.model
    nodes = "" if model.one_layer_ else f" through {counted(model.network_.n_nodes, 'node')}"
    names = list(class_index(model.classes_))
    n_removed = len(model.removal_.concepts) if model.removal_ else 0
    concepts = counted(len(model.concepts_), "concept")
    sentences = [f"The model tells {len(names)} classes apart ({_first(names, 5)}) by {concepts}{nodes}."]
    if n_removed:
        sentences.append(
            f"{counted(n_removed, 'concept')} {'was' if n_removed == 1 else 'were'} removed after training."
        )
    result = view.measured
    if result is not None:
        sentence = f"It is right on {share(result.accuracy)} of {counted(result.rows, 'image')} ({result.chosen})"
        if result.worst_group is not None:
            sentence += f", and on {share(result.worst_group[1])} of its worst group, “{result.worst_group[0]}”"
        sentences.append(f"{sentence}.")
    elif view.table is not None:
        sentences.append("The scores have no labels, so it could not be measured on them.")
    sentences += [_hope(outcome) for outcome in (suspects["together"] if suspects and suspects["helpful"] else [])[:1]]
    half = [_needed(values) for values in np.abs(model.concept_attributions_)]
    low, high = min(half), max(half)
    number = f"{low}" if low == high else f"{low} to {high}"
    what = "class" if model.one_layer_ else "node"
    sentences.append(f"Half of what a {what} reads comes from {number} concept{'s' if high > 1 else ''}.")
    return sentences


def _hope(outcome: dict[str, Any]) -> str:
    """What the first proposal of a removal would do."""
    old, new = outcome["before"].worst_group, outcome["after"].worst_group
    concepts = outcome["concepts"]
    without_them = f"Without {counted(len(concepts), 'suspected concept')} ({_first(concepts, 4)})"
    return f"{without_them} it would be right on {share(new[1])} of its worst group instead of {share(old[1])}."


def _first(names: Sequence[str], most: int) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def _needed(values: np.ndarray) -> int:
    """How many concepts have half of a node's attributions."""
    running = np.cumsum(np.sort(values)[::-1])
    return int(np.searchsorted(running, running[-1] / 2 - 1e-12)) + 1


def _metrics(results: dict[str, Evaluation]) -> dict[str, Any] | None:
    if not results:
        return None
    columns = list(results.values())
    rows: list[tuple[str, list[float | None]]] = [
        ("accuracy", [one.accuracy for one in columns]),
        ("mean accuracy of the classes", [float(np.mean(list(one.class_accuracy.values()))) for one in columns]),
    ]
    if any(one.worst_group for one in columns):
        rows.append(
            ("accuracy of the worst group", [one.worst_group[1] if one.worst_group else None for one in columns])
        )
    quality = [
        ("Attribution Gini", [one.attribution_gini for one in columns]),
        ("Node Coherence", [one.node_coherence for one in columns]),
    ]
    return {
        "names": list(results),
        "rows": [one.rows for one in columns],
        "shares": rows,
        "quality": quality,
        "chosen": columns[0].chosen,
    }


def _nodes(view: View) -> list[dict[str, Any]]:
    """A card for each node: its words, its numbers, what it counts for, what goes together in it."""
    explanation, (concepts, _) = view.explanation, view.marked
    coherence = [math.nan] * len(explanation.nodes)
    if view.redundancy is not None:
        coherence = metrics.node_coherence(explanation.node_attributions, view.redundancy.correlation).tolist()
    cards, gini = [], explanation.gini
    marked = np.isin(explanation.concepts, list(concepts))
    for node, name in enumerate(explanation.nodes[:MOST_NODES]):
        words, pairs = explanation.leading(node, MOST_WORDS), explanation.interactions[node]
        names = explanation.names_of(concepts, node)
        cards.append(
            {
                "name": name,
                "cloud": word_cloud_svg(words, names, title=f"node {node}"),
                "leading": [(concept, value, concept in names) for concept, value in words[:LEADING]],
                "marked": float(explanation.node_attributions[node, marked].sum()) if marked.any() else None,
                "classes": leading(explanation.classes, explanation.class_attributions[:, node], PAIRS),
                "n_classes": len(explanation.classes),
                "gini": float(gini[node]),
                "coherence": coherence[node],
                "together": [pair for pair in pairs if pair.notable and pair.index > 0][:PAIRS],
                "either": [pair for pair in pairs if pair.notable and pair.index < 0][:PAIRS],
                "recurs": None if explanation.stability is None else _recurrence(explanation.stability, node),
            }
        )
    return cards


def _recurrence(stability: NodeStability, node: int) -> dict[str, Any]:
    """In how many of the other runs a node recurs, and whether that is stable; dots if they can be counted."""
    count, of = int(stability.counts[0, node]), stability.n_others
    dots = "●" * count + "○" * (of - count) if of <= MOST_DOTS else ""
    return {"count": count, "of": of, "stable": bool(stability.stable[0, node]), "dots": dots}


def _flows(view: View) -> dict[str, Any] | None:
    """Share of every node in every class, as a table with shades; the classes that differ most if there are many."""
    explanation = view.explanation
    if explanation.one_layer:
        return None
    shares = explanation.class_attributions
    shown = list(range(len(explanation.classes)))
    if len(shown) > MOST_CLASSES:
        spread = np.abs(shares - shares.mean(0)).sum(1)
        shown = sorted(np.argsort(-spread, kind="stable")[:MOST_CLASSES].tolist())
    largest = float(np.abs(shares).max()) or 1.0
    rows = [
        {
            "node": node,
            "name": name,
            "cells": [(float(shares[r, node]), float(shares[r, node]) / largest) for r in shown],
        }
        for node, name in enumerate(explanation.nodes)
    ]
    return {"classes": [explanation.classes[r] for r in shown], "rows": rows, "n_classes": len(explanation.classes)}


def _classes(view: View) -> dict[str, Any] | None:
    """Accuracy of the classes, the lowest first if there are many, and the most frequent mistakes."""
    result = view.measured
    if result is None:
        return None
    names = list(result.class_accuracy)
    if len(names) > MOST_ROWS:
        names = sorted(names, key=lambda name: result.class_accuracy[name])[:MOST_ROWS]
    return {
        "rows": [(name, result.class_rows[name], result.class_accuracy[name]) for name in names],
        "n_classes": len(result.class_accuracy),
        "mistakes": result.mistakes[:10],
    }


def _groups(view: View) -> dict[str, Any] | None:
    result = view.measured
    if result is None or not result.group_accuracy:
        return None
    before = next(iter(view.results.values())) if view.model.network_.is_edited else None
    names = sorted(result.group_accuracy, key=lambda name: result.group_accuracy[name])
    rows = [
        {
            "name": name,
            "rows": result.group_rows[name],
            "accuracy": result.group_accuracy[name],
            "before": None if before is None else before.group_accuracy[name],
        }
        for name in names[:MOST_ROWS]
    ]
    return {"rows": rows, "n_groups": len(names)}


def _suspects(view: View, names: tuple[str, str]) -> dict[str, Any] | None:
    """The suspects, what it would do to remove them together, and the command that does it."""
    found = view.suspects
    if found is None or view.table is None or view.measured is None:
        return None
    gone = set(view.model.removal_.concepts) if view.model.removal_ else set()
    marked = [name for name in spurious_concepts(view.model, view.table) if name not in gone]
    proposals = {"all that help the worst group": found.to_remove, "all marked as spurious": tuple(marked)}
    together: list[dict[str, Any]] = []
    for name, concepts in proposals.items():
        edited = without(view.model, concepts) if concepts else None
        if edited is not None and view.measured.worst_group is not None:
            after = view.measure(edited)
            together.append({"name": name, "concepts": concepts, "before": view.measured, "after": after})
    chosen: Sequence[str] = next((one["concepts"] for one in together), ("CONCEPT",))
    return {
        "helpful": found.helpful[:MOST_ROWS],
        "idle": found.idle[:MOST_ROWS],
        "n_helpful": len(found.helpful),
        "n_idle": len(found.idle),
        "chosen": found.chosen,
        "rows": found.rows,
        "needed": found.needed,
        "too_few": found.too_few,
        "together": together,
        "peeked": found.chosen == view.measured.chosen,
        "command": shlex.join(removal_command(names[0], chosen, "-o", f"{names[0]}-edited", "--scores", names[1])),
    }


def _edits(view: View) -> dict[str, Any] | None:
    """What edits since training changed: their history, what each node lost, and what it reads instead."""
    network, removal = view.model.network_, view.model.removal_
    if not network.edits:
        return None
    change = explain_change(view.trained, view.model)
    shifts = list(zip(class_index(view.model.classes_), change.class_shift.tolist(), strict=True))
    modes = dict.fromkeys(edit.mode for edit in network.edits_in_force if isinstance(edit, Remove))
    return {
        "concepts": removal.concepts if removal else (),
        "reweighted": {name: factor_text(*ends) for name, ends in removal.reweighted.items()} if removal else {},
        "history": [(str(edit), edit.note) for edit in network.edits],
        "transitions": [(str(old), str(new), number) for (old, new), number in view.transitions.items()][:6],
        "rows": _changed_nodes(change, removal) if removal else [],
        "shifts": shifts if change.class_shift.any() else [],
        "modes": list(modes),
    }


def _changed_nodes(change: ModelChange, removal: Removal) -> list[dict[str, Any]]:
    return [
        {
            "node": node,
            "before": change.before.nodes[node],
            "after": change.after.nodes[node],
            "lost": max(float(removal.mass_lost[node]), 0.0),
            "kept": float(removal.mass_retained[node]),
            "losses": [pair for pair in change.losses(node, 3) if pair[1] <= -WEAKEST],
            "gains": [pair for pair in change.gains(node, 3) if pair[1] >= WEAKEST],
        }
        for node in range(len(change.before.nodes))
    ]
