"""Controls: what a model would reach if its concepts meant nothing, and what the scores would allow at best."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from choqolate._util.checks import find_named
from choqolate._util.numbers import Spread, known
from choqolate._util.progress import item_bar
from choqolate.analysis.control_tables import DIRECTIONS, NAMES, control_source, control_table
from choqolate.analysis.control_text import AGAIN, MODEL, RANDOM, Gap, accuracy_gap, control_lines
from choqolate.analysis.evaluation import Evaluation, evaluate
from choqolate.analysis.leakage import Leakage, measure_leakage, removed_concepts
from choqolate.analysis.trade_off import CEILING, CEILING_L2
from choqolate.baselines import LogisticRidge
from choqolate.baselines.softmax_regression import LOOSE_TOLERANCE, SoftmaxRegression
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.estimators.concept_estimator import check_seeds
from choqolate.estimators.seed_runs import fit_runs
from choqolate.estimators.table_inputs import select_inputs
from choqolate.estimators.table_training import was_split_for
from choqolate.explain.model_protocols import ConceptModel, check_choquet_model
from choqolate.metrics import Proportion
from choqolate.network.scaling import MinMax

if TYPE_CHECKING:
    from choqolate.concepts.backbones import Backbone
    from choqolate.concepts.embedding import Embeddings
    from choqolate.estimators.classifier import ChoqolateClassifier

_OF_A_RUN = ("random_state", "track", "verbose")  # settings that a control does not share
_FOLDS = 3


@dataclass(frozen=True, repr=False)
class Control:
    """One way of making predictions, measured on the same images as all others.

    Attributes:
        name: what it is.
        evaluations: one per run: of a control, one per draw.
        source: what random concepts were drawn from, in words.
    """

    name: str
    evaluations: tuple[Evaluation, ...]
    source: str | None = None

    def __repr__(self) -> str:
        return f"Control({self.name}: accuracy {self.accuracy.text(3)})"

    accuracy = property(lambda self: self._over("accuracy"))
    attribution_gini = property(lambda self: self._over("attribution_gini"))
    node_coherence = property(lambda self: self._over("node_coherence"))
    concepts_per_class = property(lambda self: self._over("concepts_per_class"))

    def _over(self, name: str) -> Spread:
        return Spread.over(getattr(one, name) for one in self.evaluations)


@dataclass(frozen=True, repr=False)
class Controls:
    """A model beside what it would reach with meaningless concepts, and what its scores allow.

    Attributes:
        rows: the model, the same settings trained again on its concepts, random names and random directions where
            available, and logistic regression on all scores.
        majority: the most frequent class and how often it is right.
        n_concepts: number of concepts, real or random.
        chosen: which images were measured, in words.
        penalty: that was chosen for the logistic regression.
        leakage: what is left of removed concepts; ``None`` if none were removed.
        missing: why there are no random names, in a sentence; ``None`` if there are.
    """

    rows: tuple[Control, ...]
    majority: tuple[str, Proportion] | None
    n_concepts: int
    chosen: str
    penalty: float
    leakage: Leakage | None
    missing: str | None

    def __repr__(self) -> str:
        return f"Controls({'; '.join(f'{row.name} {row.accuracy.text(3)}' for row in self.rows)})"

    @property
    def n_images(self) -> int:
        """Number of images that all were measured on."""
        return self.rows[0].evaluations[0].rows

    def find(self, name: str) -> Control | None:
        """The row of a name, such as ``"random names"``; ``None`` if there is none."""
        return next((row for row in self.rows if row.name == name), None)

    def __getitem__(self, name: str) -> Control:
        """Get the row of a name; another name is an error."""
        return find_named(name, {row.name: row for row in self.rows}, "a control")

    def gap(self, name: str) -> Gap:
        """By how much models on the real concepts are more accurate than another row.

        These are the runs of the model's settings on its concepts; for ``"logistic regression"``, the
        model itself.
        """
        first = self[MODEL if name == CEILING else AGAIN]
        return accuracy_gap(first.evaluations, self[name].evaluations)

    def lines(self) -> list[str]:
        """What the numbers say about the concepts, in sentences; last, what is left of removed ones."""
        return control_lines(self) + ([] if self.leakage is None else self.leakage.lines())

    def as_dict(self) -> dict[str, Any]:
        """The numbers as JSON can hold them: what is not defined is ``None``."""
        columns = ("accuracy", "attribution_gini", "node_coherence", "concepts_per_class")
        rows = []
        for row in self.rows:
            runs = [{name: known(getattr(one, name)) for name in columns} for one in row.evaluations]
            interval = list(row.evaluations[0].overall.interval) if len(runs) == 1 else None
            gap = None if row.name in (MODEL, AGAIN) else self.gap(row.name)._asdict()
            rows.append(
                {"name": row.name, "source": row.source, "runs": runs, "accuracy_interval": interval}
                | {name: known(getattr(row, name).mean) for name in columns}
                | {"gap": gap and gap | {"interval": list(gap["interval"])}}
            )
        majority = self.majority and {"class": self.majority[0], "accuracy": self.majority[1].value}
        return {
            "rows": rows,
            "majority": majority,
            "concepts": self.n_concepts,
            "images": self.n_images,
            "chosen": self.chosen,
            "penalty": self.penalty,
            "leakage": None if self.leakage is None else self.leakage.as_dict(),
            "missing": self.missing,
            "lines": self.lines(),
        }


def run_controls(
    model: ChoqolateClassifier,
    table: ConceptScores,
    *,
    others: ConceptScores | None = None,
    embeddings: Embeddings | None = None,
    backbone: Backbone | None = None,
    seeds: Iterable[int] = range(3),
    verbose: bool = False,
) -> Controls:
    """Measure a model beside controls, on the same held-out images.

    The settings of the model, as a search chose them if there was one, are trained again, without sample weights: on
    the model's own concepts, and on as many random names and random directions, see :func:`choqolate.control_table`,
    once for each seed. Logistic regression on all scores is the ceiling; its penalty is chosen by cross-validation on
    the training rows. If concepts were removed from the model, what is left of them is measured as well, see
    :func:`choqolate.measure_leakage`.

    Args:
        model: a fitted classifier.
        table: scores of the model's concepts, with labels and rows for training: usually the table that it was trained
            on.
        others: scores of the same images for other names, to draw random names from.
        embeddings: vectors of the images: random names are taken from a list of everyday nouns then, and directions are
            those of the embedding space. Random names are left out without ``others`` or ``embeddings``, or if the
            encoder does not know such names.
        backbone: the encoder of the images, if it has moved.
        seeds: of the draws and of the trainings.
        verbose: show progress on stderr.

    Raises:
        ChoqolateError: if the table has no labels on training rows or on held-out rows, or ``others`` does not match.

    >>> import choqolate as cq
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random((200, 6))
    >>> labels = np.where(scores @ rng.normal(size=6) > 0, "gull", "wren")
    >>> table = cq.ConceptScores(scores, list("abcdef"), labels=labels)
    >>> controls = run_controls(cq.fit_scores(table, epochs=10), table, seeds=range(2))
    >>> [row.name for row in controls.rows]
    ['this model', 'its concepts, trained again', 'random directions', 'logistic regression']
    """
    check_choquet_model(model, "to run controls")
    seeds = check_seeds(seeds, ())
    own = select_inputs(model, _with_parts(model, table))
    settings = {name: value for name, value in model.trained_settings.items() if name not in _OF_A_RUN}

    def draw(kind: str) -> list[ConceptScores]:
        return [
            control_table(own, kind, seed=seed, others=others, embeddings=embeddings, backbone=backbone)
            for seed in seeds
        ]

    rows = [Control(MODEL, (_evaluate(model, own),))]
    leakage = measure_leakage(model, own) if removed_concepts(model) else None
    with _quiet():
        names, missing = _names_or_why(draw, others, embeddings)
        tables = {AGAIN: [own], RANDOM[NAMES]: names, RANDOM[DIRECTIONS]: draw(DIRECTIONS)}
    with item_bar(len(seeds) * sum(map(bool, tables.values())) + 1, "training controls", enabled=verbose) as advance:
        with _quiet():
            for name, drawn in tables.items():
                rows += [_trained(name, drawn, seeds, settings, advance)] if drawn else []
        ceiling = fit_ceiling(_training(own))
        rows.append(Control(CEILING, (_evaluate(ceiling, own),)))
        advance(1)
    first = rows[0].evaluations[0]
    majority = None if first.majority is None else (str(first.majority_class), first.majority)
    return Controls(tuple(rows), majority, len(own.concepts), first.chosen, ceiling.penalty, leakage, missing)


def fit_ceiling(rows: ConceptScores) -> LogisticRidge:
    """Logistic regression on all scores of training rows, with the l2 penalty that predicts best.

    The penalty is the one with the most correct predictions in threefold cross-validation; among equals, the largest.

    Args:
        rows: labelled scores, all for training.

    >>> scores = np.random.default_rng(0).random((60, 3))
    >>> rows = ConceptScores(scores, ["a", "b", "c"], labels=np.where(scores[:, 0] > 0.5, "gull", "wren"))
    >>> fit_ceiling(rows).score(rows.frame, rows.labels) > 0.9
    True
    """
    classes, targets = np.unique(rows.labels.astype(str), return_inverse=True)
    Z = MinMax.fit(rows.scores)(rows.scores)
    fold = np.random.default_rng(0).permutation(len(rows)) % _FOLDS
    hits = np.zeros(len(CEILING_L2))
    with threadpool_limits(1):  # the products are small: threads would wait for each other most of the time
        for held_out in range(_FOLDS):
            there = fold == held_out
            regression = SoftmaxRegression(Z[~there], targets[~there], len(classes))
            fits = regression.l2_fits(CEILING_L2, tolerance=LOOSE_TOLERANCE)
            hits += [(fit.predict(Z[there]) == targets[there]).sum() for fit in fits]
    return LogisticRidge(penalty=CEILING_L2[int(hits.argmax())]).fit(rows, rows.labels)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings of draws and of repeated trainings: the model's own training and evaluation give them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChoqolateWarning)
        yield


def _evaluate(model: ConceptModel, table: ConceptScores) -> Evaluation:
    """What controls show of a model: no accuracy with few concepts, which takes long with many classes."""
    return evaluate(model, table, concept_counts=())


def _with_parts(model: ConceptModel, table: ConceptScores) -> ConceptScores:
    """The table with its split, or the one that was made for training; it has rows for training, and others."""
    whole = table.with_split() if not table.has_split and was_split_for(model, table) else table
    labelled = whole.labelled()
    if not labelled.has_part("train") or not (labelled.has_part("test") or labelled.has_part("val")):
        raise ChoqolateError(
            "Expected a table with labeled training rows and labeled held-out rows, because controls are trained and "
            "measured, but this table lacks one of the two. Give the table that the model was trained on."
        )
    return whole


def _training(table: ConceptScores) -> ConceptScores:
    return table.part("train").labelled()


def _names_or_why(
    draw: Callable[[str], list[ConceptScores]], others: ConceptScores | None, embeddings: Embeddings | None
) -> tuple[list[ConceptScores], str | None]:
    """Tables of random names; none, and the reason, if they are not available and were not asked for."""
    if others is None and embeddings is None:
        return [], (
            "They need a score table of the same images for other names (others), or the embeddings of the images and "
            "a backbone that knows everyday names."
        )
    try:
        return draw(NAMES), None
    except ChoqolateError as error:
        if others is not None:
            raise
        return [], str(error)


def _trained(
    name: str,
    tables: Sequence[ConceptScores],
    seeds: Sequence[int],
    settings: dict[str, Any],
    advance: Callable[[int], None],
) -> Control:
    """One run for each seed: all of them side by side on a single table, or each on its own."""
    evaluations: list[Evaluation] = []
    for table, some in [(tables[0], seeds)] if len(tables) == 1 else zip(tables, [[s] for s in seeds], strict=True):
        rows = _training(table)
        evaluations += [_evaluate(run, table) for run in fit_runs(rows, rows.labels, some, **settings)]
        advance(len(some))
    return Control(name, tuple(evaluations), control_source(tables[0]))
