"""Small tables and models for the tests of pages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from choqolate.data.scores import ConceptScores
from choqolate.estimators.table_training import fit_scores
from tests.small_tables import CONCEPTS, bird_scores

NASTY = [
    "<script>window.injected = 1</script>",
    "\"quoted\" 'feet' onload=alert(1)",
    "R&D &amp; </style><b>bold</b>",
    "🐦‍⬛ {{ 7 * 7 }} 海",
    "ים כחול \u202e rotated",
    "x" * 200,
]


def bird_table(folder: Path | None, n_rows: int = 300, concepts=CONCEPTS, agreement: float = 0.9) -> ConceptScores:
    """Scores from a formula, with a small image file for each row if there is a folder for them."""
    X, labels, groups = bird_scores(n_rows, agreement=agreement)
    paths = [f"{row % 5}/{row:03d}.png" for row in range(n_rows)]
    rng = np.random.default_rng(0)
    for path, label in zip(paths if folder else [], labels, strict=False):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shade = rng.integers(0, 90, 3) + (160 if label == "waterbird" else 40)
        Image.new("RGB", (40, 30), tuple(int(level) for level in shade)).save(folder / path)
    return ConceptScores(
        X.to_numpy(),
        concepts,
        labels=labels,
        split=np.array(["train", "train", "val", "test", "test"])[np.arange(n_rows) % 5],
        groups=groups,
        paths=paths,
        spurious=concepts[4:],
        provenance={"root": str(folder), "backbone": {"name": "mini", "identity": "abc"}, "source": "folder"},
    )


def nasty_table() -> ConceptScores:
    """Names of concepts, classes, groups and files that try to break a page."""
    X, labels, groups = bird_scores(300, agreement=0.9)
    return ConceptScores(
        X.to_numpy(),
        NASTY,
        labels=np.where(labels == "waterbird", "<b>water</b>", 'land & "sky" ${x}'),
        split=np.array(["train", "train", "train", "test", "test"])[np.arange(300) % 5],
        groups=[f"<img src=x onerror=alert(1)> {group}" for group in groups],
        paths=[f'<a href="javascript:alert({row})">{row}</a>' for row in range(300)],
        spurious=NASTY[4:],
        provenance={"backbone": {"name": "<i>mini</i>", "identity": "'\""}, "vocabulary": {"templates": ["<u>{}</u>"]}},
    )


def small_model(table: ConceptScores, **options):
    """A model that a few seconds are enough for."""
    return fit_scores(table, **{"n_nodes": 4, "epochs": 30, "temperature": 0.05, "device": "cpu", **options})
