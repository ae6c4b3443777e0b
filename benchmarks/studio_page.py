"""Measure the studio's page: from the removal of a concept to the painted frame, 2,000 rows.

python benchmarks/studio_page.py
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser

import choqolate as cq
from choqolate.studio import export_studio

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.browser import open_browser

ROWS, CLASSES, REPEATS = 2_000, 3, 9
SIZES = ((80, 8), (80, 16), (226, 8), (226, 16))  # concepts, nodes
VIEWS = ("overview", "concept", "images", "history")
REMOVE_AND_PAINT = """async (name) => {
  await new Promise((done) => setTimeout(done, 400));
  const began = performance.now();
  window.studio.remove([name]);
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - began;
}"""


def random_table(n_concepts: int) -> cq.ConceptScores:
    """Scores of a few hidden directions, so that concepts correlate as real ones do."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, ROWS)
    hidden = rng.normal(0, 1, (ROWS, 20)) + labels[:, None] * rng.normal(0, 0.6, 20)
    scores = hidden @ rng.normal(0, 1, (20, n_concepts)) + rng.normal(0, 1, (ROWS, n_concepts))
    return cq.ConceptScores(
        scores.astype(np.float32),
        [f"concept {j}" for j in range(n_concepts)],
        labels=[f"class {label}" for label in labels],
        split=np.array(["train", "val", "val", "test"])[np.arange(ROWS) % 4],
        groups=[f"group {group}" for group in (labels + rng.integers(0, 2, ROWS)) % 4],
    )


def measure(browser: Browser, n_concepts: int, n_nodes: int) -> dict[str, float]:
    """Median milliseconds from a removal to the painted frame, by view.

    Each repetition removes one more concept, so that no state is known before.
    """
    table = random_table(n_concepts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = cq.fit_scores(table, n_nodes=n_nodes, epochs=3, temperature=0.02)
    found: dict[str, list[float]] = {view: [] for view in VIEWS}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "audit.html"
        export_studio(model, table, file)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        for view in VIEWS:
            page.goto(f"{file.as_uri()}#view={view}")
            page.reload()
            page.wait_for_selector("html[data-ready]")
            for repeat in range(REPEATS):
                found[view].append(page.evaluate(REMOVE_AND_PAINT, f"concept {7 * repeat}"))
        page.close()
    return {view: statistics.median(times) for view, times in found.items()}


def main() -> None:
    """Print one line per size."""
    print(f"| concepts | nodes | {' | '.join(VIEWS)} |")
    print("| --- " * (2 + len(VIEWS)) + "|")
    with open_browser() as browser:
        for n_concepts, n_nodes in SIZES:
            times = measure(browser, n_concepts, n_nodes)
            print(f"| {n_concepts} | {n_nodes} | {' | '.join(f'{times[view]:.0f}' for view in VIEWS)} |", flush=True)


if __name__ == "__main__":
    main()
