"""Times of the studio's engine in Chromium: how long a person waits for an edit.

Models are random, with the weights of a low temperature, which is the harder case for the search and the same for all
else. ``python benchmarks/studio_engine.py`` prints the table; ``make bench`` has it as the section ``studio``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).parents[1]))  # the browser and the models of the tests

from tests.browser import open_browser
from tests.studio.engine_page import open_engine
from tests.studio.random_models import bundle_text, random_classifier, random_table

ROWS = 2_000
SIZES = ((80, 8), (80, 16), (226, 8), (226, 16))

MEASURE = """
async ([text, repeats]) => {
  const { document, rows, network } = load(text);
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
  let longest = 0;
  let since = performance.now();
  const base = performance.now();
  await network.prepare(() => {
    longest = Math.max(longest, performance.now() - since);
    since = performance.now();
  });
  const prepared = performance.now() - base;
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
  return { prepared, longest, removal, slider, imputed, canonical, impact, search, local };
}
"""


class Times(NamedTuple):
    """Milliseconds."""

    concepts: int
    nodes: int
    interactions: str
    base: float
    removal: float
    slider: float
    imputed: float
    canonical: float
    impact: float
    search: float
    local: float


def measure(
    sizes: tuple[tuple[int, int], ...] = SIZES, interactions: str = "pairwise", repeats: int = 15
) -> list[Times]:
    """Measure at each number of concepts and nodes, with 2,000 rows and three classes."""
    found = []
    with open_browser() as browser:
        for n_concepts, n_nodes in sizes:
            concepts = tuple(f"concept {j}" for j in range(n_concepts))
            model = random_classifier(interactions, 0, 4.0, concepts=concepts, n_nodes=n_nodes)
            table = random_table(0, ROWS, n_concepts)
            with open_engine(browser) as page:
                got = page.evaluate(MEASURE, [bundle_text(model, table), repeats])
            names = ("prepared", "removal", "slider", "imputed", "canonical", "impact", "search", "local")
            found.append(Times(n_concepts, n_nodes, interactions, *(got[name] for name in names)))
            print(f"  longest slice {got['longest']:.0f} ms", file=sys.stderr)
    return found


def main() -> None:
    """Print one table."""
    for interactions in ("pairwise", "factored"):
        for times in measure(interactions=interactions):
            print(*(f"{value:.0f}" if isinstance(value, float) else value for value in times), sep="\t")


if __name__ == "__main__":
    main()
