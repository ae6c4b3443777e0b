"""A model and the rows it is looked at on: everything that a page needs, computed once and when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate.evaluation import Evaluation, evaluate, held_out, inputs, spurious_concepts, training_rows
from choqolate.explain import ModelExplanation, explain_local_change, explain_model
from choqolate.pictures import find_pictures, score_pictures
from choqolate.progress import item_bar
from choqolate.redundancy import Redundancy, check_redundancy
from choqolate.report.examples import choose, example
from choqolate.suspects import Suspects, find_suspects

if TYPE_CHECKING:
    from choqolate.classifier import ChoqolateClassifier
    from choqolate.concepts.backbones import Backbone
    from choqolate.concepts.scores import ConceptScores

BEST, WORST = 4, 8  # pictures shown
BEFORE = "held out, before the removal"
MOST_CORRELATED = 3_000  # concepts whose pairs are looked at


@dataclass(frozen=True)
class View:
    """A model, the rows that it is looked at on, and what was found."""

    model: ChoqolateClassifier
    table: ConceptScores | None
    root: str | os.PathLike[str] | None
    verbose: bool

    @cached_property
    def labelled(self) -> bool:
        return self.table is not None and self.table.labels is not None

    @cached_property
    def rows(self) -> ConceptScores | None:
        """The rows that pictures are chosen from: held out if there are labels."""
        if self.table is None or not len(self.table):
            return None
        return held_out(self.model, self.table)[0] if self.labelled else self.table

    @cached_property
    def measured(self) -> Evaluation | None:
        return evaluate(self.model, self.table) if self.labelled and self.table is not None else None

    @cached_property
    def results(self) -> dict[str, Evaluation]:
        """Evaluations by name: held-out rows, the same before any removal, training rows."""
        if self.measured is None or self.table is None:
            return {}
        results = {"held out": self.measured}
        if self.model.edits_:
            results[BEFORE] = evaluate(self.trained, self.table)
        train = training_rows(self.model, self.table)
        if train.labels is not None and len(train) < len(self.table):
            results["training"] = evaluate(self.model, train, "all")
        return results

    @cached_property
    def trained(self) -> ChoqolateClassifier:
        """The model before anything was removed."""
        return self.model.restore()

    @cached_property
    def X(self) -> Any:
        assert self.rows is not None
        return inputs(self.model, self.rows)

    @cached_property
    def explanation(self) -> ModelExplanation:
        marked = None if self.table is None else spurious_concepts(self.model, self.table)
        return explain_model(self.model, None if self.rows is None else self.X, spurious=marked)

    @cached_property
    def redundancy(self) -> Redundancy | None:
        if self.table is None or len(self.model.concepts_) > MOST_CORRELATED:
            return None
        rows = training_rows(self.model, self.table)
        return check_redundancy(rows.select(self.model.concepts_)) if len(rows) > 1 else None

    @cached_property
    def suspects(self) -> Suspects | None:
        return find_suspects(self.model, self.table) if self.measured and self.table is not None else None

    def examples(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The best and the worst classified pictures."""
        rows = self.rows
        assert rows is not None
        scores = self.model.class_scores(self.X)
        names = [str(label) for label in self.model.classes_.tolist()]
        labels = [names[r] for r in scores.argmax(1)] if rows.labels is None else rows.labels.tolist()
        margins = _margins(scores, [names.index(label) for label in labels])
        best, worst = choose(margins, labels, BEST, WORST)
        with item_bar(len(best) + len(worst), "explaining pictures", enabled=self.verbose) as advance:
            cards = self._cards(rows, [*best, *worst], find_pictures(rows, self.root), advance)
        return cards[: len(best)], cards[len(best) :]

    def examples_of_files(
        self, images: Sequence[str | os.PathLike[str]], backbone: Backbone | str | None
    ) -> list[dict[str, Any]]:
        """Pictures from their pixels."""
        rows = score_pictures(self.model, images, backbone=backbone)
        with item_bar(len(images), "explaining pictures", enabled=self.verbose) as advance:
            files = [Path(path) for path in images]
            named = replace(rows, paths=np.array([file.name for file in files], dtype=object))
            return self._cards(named, range(len(rows)), files, advance)

    def _cards(
        self, rows: ConceptScores, chosen: Sequence[int], files: Sequence[Path | None], advance: Callable[[int], None]
    ) -> list[dict[str, Any]]:
        cards = []
        for row in chosen:
            one = rows.take([row])
            X = inputs(self.model, one)
            change = explain_local_change(X, self.trained, self.model, baseline="mean") if self.model.edits_ else None
            local = self.model.explain(X, baseline="mean") if change is None else change.after
            labels, groups, paths = (None if c is None else c[0] for c in (one.labels, one.groups, one.paths))
            name = f"row {row}" if paths is None else str(paths)
            card = example(
                self.model,
                X,
                local,
                change,
                name=name,
                file=files[row],
                truth=labels,
                group=groups,
                marked=self.explanation.spurious,
            )
            cards.append(card)
            advance(1)
        return cards


def _margins(scores: np.ndarray, truth: Sequence[int]) -> np.ndarray:
    """By how much the score of the true class is ahead of the best other ``(n,)``."""
    rows = np.arange(len(scores))
    own, others = scores[rows, truth], scores.copy()
    others[rows, truth] = -np.inf
    margins: np.ndarray = own - others.max(1)
    return margins
