"""The nodes in the report of a model: a card for each, and what each counts for in every class."""

from __future__ import annotations

from typing import Any

import numpy as np

from choqolate.explain import leading
from choqolate.explain.node_stability import NodeStability
from choqolate.report.drawings import MOST_WORDS, word_cloud_svg
from choqolate.report.page_data import View

LEADING = 6  # concepts of a node with their numbers, and terms of its formula
PAIRS = 3  # interactions of a node, of either kind
MOST_NODES = 24  # with a card
MOST_CLASSES = 12  # with a column of their own
MOST_DOTS = 10  # other runs that have a dot each


def node_cards(view: View) -> list[dict[str, Any]]:
    """A card for each node: its words, its numbers, its contribution to each class, what goes together in it."""
    explanation, (concepts, _) = view.explanation, view.marked
    cards, gini, coherence = [], explanation.gini, view.coherence
    marked = np.isin(explanation.concepts, list(concepts))
    formulas = view.model.formulas(LEADING)
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
                "coherence": float(coherence[node]),
                "together": [pair for pair in pairs if pair.notable and pair.index > 0][:PAIRS],
                "either": [pair for pair in pairs if pair.notable and pair.index < 0][:PAIRS],
                "formula": formulas[node].parts(),
                "recurs": None if explanation.stability is None else _recurrence(explanation.stability, node),
            }
        )
    return cards


def _recurrence(stability: NodeStability, node: int) -> dict[str, Any]:
    """In how many of the other runs a node recurs, and whether that is stable; dots if they can be counted."""
    count, of = int(stability.counts[0, node]), stability.n_others
    dots = "●" * count + "○" * (of - count) if of <= MOST_DOTS else ""
    return {"count": count, "of": of, "stable": bool(stability.stable[0, node]), "dots": dots}


def node_shares(view: View) -> dict[str, Any] | None:
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
