"""A model and the rows it is looked at on: everything that a page needs, computed once and when it is asked for."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate import metrics
from choqolate._util.progress import item_bar
from choqolate._util.text import counted
from choqolate.analysis.comparison import PairedComparison, compare_evaluations, gap_note
from choqolate.analysis.evaluation import Evaluation, evaluate, held_out, spurious_concepts
from choqolate.analysis.suspects import Suspects, find_suspects, leading_concepts
from choqolate.concepts.new_images import find_images
from choqolate.data.rows import class_index, class_places
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.estimators.predictions import doubt
from choqolate.estimators.table_inputs import inputs, select_inputs
from choqolate.estimators.table_training import training_rows
from choqolate.explain import ModelExplanation, explain_image, explain_model
from choqolate.explain.change import count_transitions
from choqolate.explain.redundancy import Redundancy, check_redundancy
from choqolate.report.image_cards import choose, image_card, in_turn, set_scale, shown_path, waterfalls_of

if TYPE_CHECKING:
    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.classifier import ChoqolateClassifier

BEST, WORST = 4, 8  # images shown
CHANGED = 4  # images shown that a removal moved to another class
MOST_SETS = 1_600_000  # tried for a counterfactual, over the number of nodes: with 8, all of up to 107 concepts


@dataclass(frozen=True)
class View:
    """A model, the rows that it is looked at on, and what was found."""

    model: ChoqolateClassifier
    table: ConceptScores | None
    root: str | os.PathLike[str] | None
    verbose: bool
    known_suspects: Suspects | None = None
    notes: list[str] = field(default_factory=list)

    @cached_property
    def labelled(self) -> bool:
        return self.table is not None and self.table.labels is not None

    @cached_property
    def rows(self) -> ConceptScores | None:
        """The rows that images are chosen from: held out if there are labels."""
        if self.table is None or not len(self.table):
            return None
        return held_out(self.model, self.table)[0] if self.labelled else self.table

    @cached_property
    def measured(self) -> Evaluation | None:
        """On held-out rows; what is doubtful about them goes to ``notes`` as well."""
        if not self.labelled or self.table is None:
            return None
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", ChoqolateWarning)
            result = evaluate(self.model, self.table)
        for warning in said:
            self.notes.append(str(warning.message))
            warnings.warn(warning.message, warning.category, stacklevel=2)
        return result

    @property
    def rows_called(self) -> str:
        """What the rows are called that it is measured on."""
        known = self.measured is not None and not self.measured.chosen.startswith("all")
        return "held out" if known else "all rows"

    @cached_property
    def results(self) -> dict[str, Evaluation]:
        """Evaluations by name: the rows it is measured on, before and after a removal, and the training rows."""
        if self.measured is None or self.table is None:
            return {}
        results = {f"{self.rows_called}, before": self.measure(self.trained)} if self.model.network_.is_edited else {}
        results[f"{self.rows_called}, after" if self.model.network_.is_edited else self.rows_called] = self.measured
        train = training_rows(self.model, self.table)
        with suppress(ChoqolateError):  # labels that the model does not know
            if train.labels is not None and len(train) < len(self.table):
                results["training"] = evaluate(self.model, train, "all")
                gap = gap_note(results["training"], self.measured)
                self.notes.extend([] if gap is None else [gap])
        return results

    @cached_property
    def compared(self) -> PairedComparison | None:
        """Before and after the edits, if there are any."""
        if self.measured is None or not self.model.network_.is_edited:
            return None
        return compare_evaluations(next(iter(self.results.values())), self.measured)

    def measure(self, other: ChoqolateClassifier) -> Evaluation:
        """Another version of the model on the same rows; what is doubtful about them was said already."""
        assert self.table is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ChoqolateWarning)
            return evaluate(other, self.table)

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
        rows = self._training_rows
        return None if rows is None else check_redundancy(rows, leading=leading_concepts(self.model))

    @cached_property
    def coherence(self) -> np.ndarray:
        """Node Coherence of every node ``(N,)`` on the training rows; NaN without them."""
        rows, W = self._training_rows, self.explanation.node_attributions
        return np.full(len(W), np.nan) if rows is None else metrics.node_coherence_on(W, rows.scores)

    @cached_property
    def _training_rows(self) -> ConceptScores | None:
        """The training rows of the table with the concepts of the model, if there are two at least."""
        if self.table is None:
            return None
        rows = training_rows(self.model, self.table)
        return select_inputs(self.model, rows) if len(rows) > 1 else None

    @cached_property
    def marked(self) -> tuple[set[str], str]:
        """Concepts to underline, and what they are called: spurious if some are known to be, else suspects."""
        if self.explanation.spurious or self.suspects is None:
            return set(self.explanation.spurious), "spurious"
        return set(self.suspects.suspected), "suspect"

    @cached_property
    def suspects(self) -> Suspects | None:
        if self.measured is None or self.table is None:
            return None
        if self.known_suspects is not None:
            return self.known_suspects
        return find_suspects(self.model, self.table, verbose=self.verbose)

    def examples(self) -> dict[str, list[dict[str, Any]]]:
        """The best and the worst classified images, and of an edited model those that changed sides."""
        rows = self.rows
        assert rows is not None
        scores = self.model.class_scores(self.X)
        names = list(class_index(self.model.classes_))
        labels = [names[r] for r in scores.argmax(1)] if rows.labels is None else rows.labels.tolist()
        truth = class_places(labels, self.model.classes_)
        best, worst = choose(_margins(scores, truth), scores.argmax(1) == truth, labels, BEST, WORST)
        chosen = {"worst": worst, "best": best, "changed": self._flipped[:CHANGED]}
        several = [row for some in chosen.values() for row in some]
        files = dict(zip(several, find_images(rows.take(several), self.root), strict=True))
        if rows.paths is not None:
            _warn_of_missing(list(files.values()))
        with item_bar(len(several), "explaining", items="images", enabled=self.verbose) as advance:
            cards = {name: self._cards(rows, some, files, advance) for name, some in chosen.items()}
        set_scale([fall for some in cards.values() for card in some for fall in waterfalls_of(card)])
        return cards

    @cached_property
    def transitions(self) -> dict[tuple[object, object], int]:
        """How many images a removal moved from which class to which."""
        if not self.model.network_.is_edited or self.rows is None:
            return {}
        return count_transitions(self._predictions)

    @cached_property
    def _predictions(self) -> list[tuple[object, object]]:
        """The predicted class of every row, before and after."""
        return list(zip(*(model.predict(self.X).tolist() for model in (self.trained, self.model)), strict=True))

    @cached_property
    def _flipped(self) -> list[int]:
        """Rows that a removal moved to another class, one of each class in turn."""
        if not self.transitions:
            return []
        rows = [row for row, (old, new) in enumerate(self._predictions) if old != new]
        return in_turn(rows, [str(new) for _, new in self._predictions])

    def examples_of_files(self, images: ConceptScores) -> list[dict[str, Any]]:
        """Images that were scored from their pixels."""
        assert images.paths is not None
        files = dict(enumerate(map(Path, images.paths)))
        with item_bar(len(images), "explaining", items="images", enabled=self.verbose) as advance:
            cards = self._cards(images, range(len(images)), files, advance)
        for row, card in enumerate(cards):
            card["doubt"] = doubt(self.model, images.take([row]))
        set_scale([fall for card in cards for fall in waterfalls_of(card)])
        return cards

    def _cards(
        self,
        rows: ConceptScores,
        chosen: Sequence[int],
        files: Mapping[int, Path | None],
        advance: Callable[[int], None],
    ) -> list[dict[str, Any]]:
        cards, most_sets = [], MOST_SETS // len(self.model.node_attributions_)
        for row in chosen:
            one = rows.take([row])
            truth, group, path = (None if c is None else c[0] for c in (one.labels, one.groups, one.paths))
            name = f"{self.rows_called}, row {row}" if path is None else shown_path(str(path))
            X = inputs(self.model, one)
            why = explain_image(self.model, X, truth=truth, trained=self.trained, most_sets=most_sets)
            cards.append(image_card(why, name=name, file=files[row], group=group, marked=self.marked[0]))
            advance(1)
        return cards


def _warn_of_missing(files: Sequence[Path | None]) -> None:
    missing = sum(file is None for file in files)
    if missing:
        images = counted(len(files), "image")
        message = f"{missing} of {images} to show were not found: tell where they are (--images, root=...)"
        warnings.warn(message, ChoqolateWarning, stacklevel=2)


def _margins(scores: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """By how much the score of the true class is ahead of the best other ``(n,)``."""
    rows = np.arange(len(scores))
    own, others = scores[rows, truth], scores.copy()
    others[rows, truth] = -np.inf
    margins: np.ndarray = own - others.max(1)
    return margins
