"""Times of the studio's engine in Chromium: how long a person waits for an edit, with its class scores and metrics.

Models are random. ``python benchmarks/studio_engine.py`` prints all times in milliseconds; ``make bench`` has the most
important ones in the section ``studio``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from timing import Row

sys.path.append(str(Path(__file__).parents[1]))  # the browser and the models of the tests

from tests.browser import open_browser
from tests.studio.engine_page import open_engine
from tests.studio.random_models import bundle_text, random_classifier, random_table

ROWS = 2_000
REPEATS = 15
SIZES = ((80, 8), (80, 16), (226, 8), (226, 16))

MEASURE = """
async ([text, repeats]) => {
  const { rows, network } = load(text);
  const median = (values) => values.sort((x, y) => x - y)[values.length >> 1];
  const timed = (task) => {
    const start = performance.now();
    task();
    return performance.now() - start;
  };
  const all = rows.label.map((_, i) => i);
  const look = (edits) => {
    const state = network.state(edits);
    engine.measureAll(network, rows, state, all);
    return state;
  };
  const remove = (name, mode = "rescale") => ({ edit: "remove", concepts: [name], nodes: null, mode });
  const start = performance.now();
  await network.prepare();
  const prepared = performance.now() - start;
  look([]);
  const edit = (make) => {
    const times = [];
    for (let k = 0; k < repeats; k++) times.push(timed(() => look([remove(network.concepts[0]), make(k + 1)])));
    return median(times);
  };
  look([remove(network.concepts[0])]);
  const removal = edit((k) => remove(network.concepts[k]));
  const slider = edit((k) => ({ edit: "reweight", factors: { [network.concepts[1]]: k / 30 }, nodes: null }));
  const imputed = edit((k) => remove(network.concepts[k], "impute"));
  const canonical = edit((k) => remove(network.concepts[k], "canonical"));
  const state = look([]);
  const impact = timed(() => finish(engine.impactOfEach(network, state, all, {})));
  const search = timed(() => finish(engine.smallestRemoval(network, state, rows.scores(0), {})));
  const local = timed(() => engine.explainOne(network, state, rows.scores(0), { baseline: "mean" }));
  return { prepared, removal, slider, imputed, canonical, impact, search, local };
}
"""


class Times(NamedTuple):
    """Milliseconds of each task at one size."""

    concepts: int
    nodes: int
    interactions: str
    prepared: float
    removal: float
    slider: float
    imputed: float
    canonical: float
    impact: float
    search: float
    local: float


def measure(sizes: Iterable[tuple[int, int]] = SIZES, interactions: str = "pairwise") -> Iterator[Times]:
    """Measure at each number of concepts and nodes, with 2,000 rows and three classes."""
    with open_browser() as browser:
        for n_concepts, n_nodes in sizes:
            concepts = tuple(f"concept {j}" for j in range(n_concepts))
            model = random_classifier(interactions, 0, 4.0, concepts=concepts, n_nodes=n_nodes)
            with open_engine(browser) as page:
                got = page.evaluate(MEASURE, [bundle_text(model, random_table(0, ROWS, n_concepts)), REPEATS])
            yield Times(n_concepts, n_nodes, interactions, **got)


def bench_studio() -> list[Row]:
    """An edit in the browser, class scores and metrics included; the nodes of all rows; every removal alone."""
    rows = []
    for times in measure():
        size = f"{times.concepts} concepts, {times.nodes} nodes, {ROWS:,} rows"
        limit = 100 if times.concepts <= 80 else 300
        rows.append(Row(f"studio, an edit, {size}", f"{times.removal:.0f} ms", target=f"<= {limit} ms"))
        rows.append(Row(f"studio, at the start, {size}", f"{times.prepared:.0f} ms", target="seconds"))
        rows.append(Row(f"studio, all removals alone, {size}", f"{times.impact:.0f} ms", target="seconds"))
    return rows


def main() -> None:
    """Print all times as a Markdown table."""
    cells = [*Times._fields]
    print(f"| {' | '.join(cells)} |\n| {' | '.join('---' for _ in cells)} |")
    for interactions in ("pairwise", "factored", "bipolar"):
        for times in measure(interactions=interactions):
            shown = (f"{value:.0f}" if isinstance(value, float) else str(value) for value in times)
            print(f"| {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
