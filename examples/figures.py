"""Every kind of figure, from what `choqolate demo` left behind: python examples/figures.py choqolate-demo figures"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np

import choqolate as cq
from choqolate.baselines import LinearBottleneck


def main() -> None:
    """Draw all figures of the demo's first run into a folder."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("demo", type=Path, help="folder of `choqolate demo`")
    parser.add_argument("figures", type=Path, help="folder for the figures")
    places = parser.parse_args()
    places.figures.mkdir(parents=True, exist_ok=True)

    def save(ax: plt.Axes, name: str) -> None:
        ax.figure.savefig(places.figures / f"{name}.png", dpi=100, pil_kwargs={"optimize": True})
        plt.close(ax.figure)
        print(places.figures / f"{name}.png")

    table = cq.ConceptScores.load(places.demo / "scores.parquet")
    model, edited = cq.load(places.demo / "model"), cq.load(places.demo / "model-edited")
    train, test = table.part("train"), table.part("test")
    whole = cq.explain_model(model, test.frame)

    # what the nodes read and what they count for
    save(whole.plot_words(colour="kind"), "words")
    save(whole.plot_bars(1), "bars")
    save(whole.plot_flow(), "flow")
    save(whole.plot_interactions(7), "interactions")

    # a baseline beside ours
    linear = LinearBottleneck().fit(train.frame, train.labels)
    _, (left, right) = plt.subplots(1, 2, figsize=(14, 5), layout="constrained")
    cq.plots.word_clouds(cq.explain_model(linear), ax=left, title="linear bottleneck")
    cq.plots.word_clouds(whole, ax=right, title="CHOQOLATE")
    save(left, "beside")

    # one image that the removal put right
    wrong = np.flatnonzero((model.predict(test.frame) != test.labels) & (edited.predict(test.frame) == test.labels))
    row = int(wrong[0]) if len(wrong) else 0
    image = places.demo / "images" / test.paths[row]
    why = model.explain(test.frame.iloc[[row]], baseline="mean")
    save(why.contrast().plot_waterfall(image=image), "waterfall")
    change = cq.explain_local_change(test.frame.iloc[[row]], model, edited, baseline="mean")
    save(change.plot_waterfalls(image=image), "change")
    print(cq.find_counterfactual(model, test.frame.iloc[[row]]))

    # how it came about, and how it compares
    tracked = cq.ChoqolateClassifier(**model.get_params() | {"track": True}).fit(train.frame, train.labels)
    save(cq.explain_model(tracked).plot_dynamics(1), "dynamics")
    outcomes = json.loads((places.demo / "demo.json").read_text())["outcomes"]
    runs = {
        name: tuple([run[value] for run in outcome["as trained"]] for value in ("attribution_gini", "accuracy"))
        for name, outcome in outcomes.items()
    }
    save(cq.plots.accuracy_against_quality(runs), "quality")
    save(train.plot_scores(["sea", "ocean", "waves"]), "scores")
    save(cq.check_redundancy(train).plot_heatmap(), "correlation")
    results = {"as trained": cq.evaluate(model, table), "background removed": cq.evaluate(edited, table)}
    save(cq.plots.group_accuracy(results), "groups")


if __name__ == "__main__":
    main()
