"""Does it help to use permutation weights after removal? Three ways beside plain removal and CBDebug.

    choqolate demo
    python benchmarks/remove_then_reweight.py choqolate-demo/scores.parquet

The table needs a split, groups, and concepts marked as spurious. The ways are: removal, then recalibration with the
shares that classes have under the weights; the same after imputation; and removal, then training of the second layer
alone with the weights and balanced classes. Prints Markdown, mean and standard deviation over seeds.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import choqolate as cq
from choqolate.debiasing import DEBIASING, Case
from choqolate.estimators.table_training import fit_scores_runs

COPIES = 20  # rows that stand for one, so that weights are kept as counts
PLAIN = ("rescale", "rescale-recalibrated", "impute", "impute-recalibrated", "oracle", "cbdebug")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scores", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.005, 0.02, 0.05])
    asked = parser.parse_args()
    warnings.simplefilter("ignore", cq.ChoqolateWarning)
    table = cq.ConceptScores.load(asked.scores)
    found = {}
    for temperature in asked.temperatures:
        parameters = {"temperature": temperature, "device": "cpu"}
        case = Case(fit_scores_runs(table, range(asked.seeds), **parameters), table, table.spurious, parameters)
        rows = {DEBIASING[name].title: DEBIASING[name].apply for name in PLAIN} | REWEIGHTED
        found[temperature] = {title: worst_groups(apply(case)[0], table) for title, apply in rows.items()}
    print("| worst group |", " | ".join(f"T = {temperature:g}" for temperature in found), "|")
    print("|---" * (1 + len(found)) + "|")
    for title in rows:
        cells = [f"{100 * np.mean(one[title]):.1f} ± {100 * np.std(one[title], ddof=1):.1f}" for one in found.values()]
        print(f"| {title} |", " | ".join(cells), "|")


def weighted_shift(case: Case, mode: str) -> tuple[list[Any], cq.ConceptScores]:
    """Removal, then a shift of the class scores that gives classes their shares under the permutation weights."""
    train, w = case.table.part("train"), case.weights
    places = (np.arange(COPIES * len(w)) + 0.5) / (COPIES * len(w))
    rows = train.take(np.searchsorted(np.cumsum(w) / w.sum(), places))
    return [model.recalibrate(rows) for model in DEBIASING[mode].apply(case)[0]], case.table


class SecondLayer:
    """A model whose second layer was trained again: a one-layer classifier over its node values."""

    def __init__(self, below: Any, above: cq.ChoqolateClassifier) -> None:
        self.below, self.above = below, above
        self.concepts_, self.classes_, self.feature_names_in_ = below.concepts_, below.classes_, below.concepts_
        self.concept_to_class = above.node_attributions_ @ below.node_attributions_

    def class_scores(self, X: Any) -> np.ndarray:
        """Of the layer above."""
        return self.above.class_scores(self.below.transform(X))


def weighted_classes(case: Case) -> tuple[list[Any], cq.ConceptScores]:
    """Removal, then the layer above the nodes trained again with permutation weights and balanced classes."""
    train, parameters = case.table.part("train"), {**case.parameters, "n_nodes": None, "class_weight": "balanced"}
    made = []
    for model in DEBIASING["rescale"].apply(case)[0]:
        above = cq.ChoqolateClassifier(**parameters, random_state=model.random_state)
        made.append(SecondLayer(model, above.fit(model.transform(train), train.labels, case.weights)))
    return made, case.table


REWEIGHTED = {
    "CHOQ-PCR, recalibrated under weights": partial(weighted_shift, mode="rescale"),
    "CHOQ-PCR impute, recalibrated under weights": partial(weighted_shift, mode="impute"),
    "CHOQ-PCR, second layer trained under weights": weighted_classes,
}
"""Ways that use the weights after removal: each takes a case and gives models and their table."""


def worst_groups(models: list[Any], table: cq.ConceptScores) -> list[float]:
    """Worst-group accuracy of each model on the test rows."""
    test = table.part("test")
    predicted = [model.classes_[model.class_scores(test.select(model.concepts_).frame).argmax(1)] for model in models]
    return [cq.metrics.worst_group_accuracy(test.labels, labels, test.groups) for labels in predicted]


if __name__ == "__main__":
    main()
