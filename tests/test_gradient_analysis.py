"""The example on the gradient of one Choquet layer, on a tiny table."""

from __future__ import annotations

import numpy as np

import choqolate as cq
from tests.scripts import load_example

example = load_example("gradient_analysis")


def test_everything_on_a_tiny_table(tmp_path, capsys):
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    scores = rng.uniform(size=(60, 5))
    scores[np.arange(60), labels] += 1.0
    table = cq.ConceptScores(scores, [f"c{j}" for j in range(5)], labels=[f"k{label}" for label in labels])
    example.main(tmp_path / "new", table, epochs=4)
    said = capsys.readouterr().out
    assert "60 training rows, 5 concepts, 25 features for each of 3 classes" in said
    assert "nan" not in said
    assert "finite differences" in said
    assert "Anchors of class k2" in said
    names = ["factors", "freezing", "temperature", "anchors"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(f"{name}.png" for name in names)
    assert all(str(tmp_path / "new" / f"{name}.png") in said for name in names)
