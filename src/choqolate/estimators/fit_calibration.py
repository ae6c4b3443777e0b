"""Calibration after training on a table: on rows for validation, or on training rows that a second run held out."""

from __future__ import annotations

import math
import warnings

import numpy as np

from choqolate.data.rows import class_index
from choqolate.data.score_file import ScoreFile
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.estimators.calibration import Calibration, model_state, with_calibration
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.estimators.side_by_side import RunSpec, Statistics, runs_at_once, train_network
from choqolate.estimators.validation import stratified_folds

VALIDATION = "val rows of the table"
SECOND_RUN = "training rows held out of a second run"
_ENOUGH_ROWS = 100  # for validation, to calibrate on
_HELD_OUT_ROWS = 500  # of the training rows; of fewer, thresholds for abstaining are too optimistic
_FEWEST_ROWS = 50  # for training; of fewer, the rows held out say nothing
_N_FOLDS = 5


def validation_rows(model: ChoqolateClassifier, table: ConceptScores | ScoreFile) -> ConceptScores | None:
    """The labeled validation rows of a table, if there are at least 100 of two or more classes of the model.

    Of a file, they are a sample of bounded size.
    """
    labeled = table.labelled()
    if not labeled.has_part("val"):
        return None
    part = labeled.part("val")
    rows = part.sample() if isinstance(part, ScoreFile) else part
    known = class_index(model.classes_)
    rows = rows.take(np.array([label in known for label in rows.labels.tolist()], dtype=bool))
    return rows if len(rows) >= _ENOUGH_ROWS and len(set(rows.labels.tolist())) > 1 else None


def calibrate_on_second_run(model: ChoqolateClassifier, rows: ConceptScores) -> ChoqolateClassifier:
    """Calibrate a copy of the model on training rows that a second network held out.

    A network is overconfident on rows that it was trained on. So another one is trained with the same settings on four
    fifths of the rows, and the temperature is fitted to its scores on the rest. If these are fewer than 500 rows, up to
    five networks are trained side by side, each holding out a different fifth. With fewer than 50 training rows, the
    model is returned unchanged.

    Args:
        model: a classifier that was just trained, without edits.
        rows: the rows that it was trained on, or a sample of them.

    Raises:
        ChoqolateError: if a sample has fewer than five rows per class.
    """
    if len(rows) < _FEWEST_ROWS:
        return model
    if len(rows) < (model.provenance_.data.rows or 0) and len(rows) < _N_FOLDS * len(model.classes_):
        raise ChoqolateError(
            f"Expected at least {_N_FOLDS} training rows per class in memory, but the sample has {len(rows):,} rows of "
            f"{len(model.classes_):,} classes. Give the table rows for validation, of split val."
        )
    settings = model.trained_settings | {"track": False}
    if not isinstance(settings["random_state"], int | np.integer):
        settings["random_state"] = 0
    again = ChoqolateClassifier(**settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChoqolateWarning)  # the model's own training has said it
        data, seed = again.prepare(rows, rows.labels, known=Statistics.of(model.network_))
    folds = stratified_folds(data.targets, _N_FOLDS)
    held_out = range(min(_N_FOLDS, math.ceil(_HELD_OUT_ROWS * _N_FOLDS / len(rows))))
    together = runs_at_once(again, len(data.concepts), len(data.classes))
    scores, targets = [], []
    for start in range(0, len(held_out), together):
        some = held_out[start : start + together]
        specs = [RunSpec(seed, again.temperature_, fold) for fold in some]
        trained, _ = train_network(again, data, specs, folds=folds, label="calibrating")
        for run, fold in enumerate(some):
            network, own = data.fitted(again.architecture, trained.parameters_of(run)), folds == fold
            scores.append(network.class_scores(network.as_inputs(data.scaled[own])))
            targets.append(data.targets[own])
    measured = Calibration.fit(
        np.concatenate(scores),
        np.concatenate(targets),
        model.temperature_,
        source=SECOND_RUN,
        state=model_state(model.network_),
    )
    return with_calibration(model, measured)
