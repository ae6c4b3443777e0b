from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

import choqolate as cq
from choqolate.estimators.table_training import fit_scores
from tests.browser import open_browser
from tests.reports import bird_table, small_model
from tests.shared import made_once
from tests.studio.running import write_page
from tests.tiny import write_clip


class Place(NamedTuple):
    """Where everything is that a studio is made of."""

    folder: Path
    page: Path
    table: cq.ConceptScores
    model: cq.ChoqolateClassifier


def _make(folder: Path) -> None:
    rows = cq.datasets.birds.render_birds(folder / "birds", 120, seed=1)
    backbone = cq.load_backbone(write_clip(folder / "clip"))
    vocabulary = cq.Vocabulary.parse(["webbed feet", "clawed feet", "long bill"], spurious=["sea", "forest"])
    table = cq.score(cq.embed(rows, backbone, folder / "embeddings", workers=0), vocabulary, backbone)
    table.save(folder / "scores.parquet")
    fit_scores(table, n_nodes=3, epochs=10, temperature=0.1, device="cpu").save(folder / "model")
    write_page(folder)


@pytest.fixture(scope="session")
def studio_place(tmp_path_factory) -> Place:
    """Drawn birds, their scores by a tiny CLIP, a model trained on them, and a small page."""
    folder = made_once(tmp_path_factory, "studio-place", _make)
    return Place(folder, folder / "page", cq.ConceptScores.load(folder / "scores.parquet"), cq.load(folder / "model"))


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return bird_table(tmp_path_factory.mktemp("images"), 900)


@pytest.fixture(scope="module")
def model(table):
    return small_model(table)
