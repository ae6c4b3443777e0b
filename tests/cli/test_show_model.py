"""The table of nodes on the terminal."""

from __future__ import annotations

import copy
import io
import re

import numpy as np
import pytest
from rich.console import Console

import choqolate as cq
from choqolate.cli.show_model import show_nodes
from choqolate.explain.node_stability import NodeStability
from tests.small_tables import CONCEPTS, bird_scores


def said(model, width: int = 100) -> str:
    file = io.StringIO()
    show_nodes(Console(file=file, width=width), model)
    return file.getvalue()


@pytest.fixture(scope="module")
def birds():
    return bird_scores(200)


@pytest.mark.parametrize("n_nodes", [3, None])
def test_a_concept_is_listed_once_with_both_of_its_inputs(birds, n_nodes):
    X, y, _ = birds
    model = cq.ChoqolateClassifier(n_nodes=n_nodes, epochs=15, bipolar=True).fit(X, y)
    lines = re.split(r"\n(?=\d |landbird |waterbird )", said(model, 200))[1:]
    assert len(lines) == len(model.node_attributions_)
    for line, values in zip(lines, model.node_attributions_, strict=True):
        both = values[:6] + values[6:]
        order = np.argsort(-both)[:4]
        names = [f"{'not ' if values[6 + j] > values[j] else ''}{CONCEPTS[j]} {both[j]:.3f}" for j in order]
        assert ", ".join(names) in line


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("width", [80, 100])
def test_a_column_says_in_how_many_runs_a_node_recurs(birds, n_classes, width):
    X, _, _ = birds
    model = cq.ChoqolateClassifier(n_nodes=3, epochs=2).fit(X, np.arange(len(X)) % n_classes)
    assert "recurs" not in said(model, width)
    marked = copy.copy(model)
    marked.stability_ = NodeStability(np.array([[1.0, 0.25, 0.0]]), np.full((1, 3), 0.9), 5)
    text = said(marked, width)
    assert re.findall(r"\d of 4", text) == ["4 of 4", "1 of 4", "0 of 4"]
    assert text.split("\n")[1].rstrip().endswith("recurs")
    assert max(map(len, text.split("\n"))) <= width
    assert "edits" not in text
    assert "before the edits" in " ".join(said(marked.remove_concepts("sea"), width).split())


def test_without_nodes_nothing_recurs(birds):
    X, y, _ = birds
    model = cq.ChoqolateClassifier(n_nodes=None, epochs=2).fit(X, y)
    model.stability_ = NodeStability(np.ones((1, 2)), np.ones((1, 2)), 5)
    assert "recurs" not in said(model)
