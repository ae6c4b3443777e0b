"""CBDebug: training again without the spurious concepts, with weights under which the class does not go with them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from choqolate._util.checks import find_concepts
from choqolate.concepts.backbones import Backbone
from choqolate.concepts.new_images import ImageScorer
from choqolate.data.scores import ConceptScores
from choqolate.debiasing.concept_mixup import mix_with_concepts
from choqolate.debiasing.permutation_weights import effective_rows, permutation_weights
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.estimators.table_training import fit_scores_runs
from choqolate.explain.model_protocols import ConceptModel


def cbdebug(
    models: Sequence[ChoqolateClassifier],
    table: ConceptScores,
    spurious: Iterable[str],
    *,
    weights: ArrayLike | None = None,
    keep_concepts: bool = False,
    augment: bool = False,
    backbone: Backbone | None = None,
    images: str | os.PathLike[str] | None = None,
    random_state: int = 0,
) -> list[ChoqolateClassifier]:
    """Train classifiers again without spurious concepts, with permutation weights and balanced classes.

    The method of Enouen and Galhotra (2026), with Choquet integrals in place of a linear layer. It needs no group
    labels: the scores of the spurious concepts say which rows break the correlation, and these get the weight
    (:func:`permutation_weights`). With ``augment``, rows of little weight are replaced by a mixture of their image and
    one of a spurious concept (:func:`~choqolate.debiasing.concept_mixup.mix_with_concepts`). The authors generate
    images of the concepts; here they are the training images that score highest. As in their code, a concept is drawn
    by its weight in a random class of the trained model.

    Args:
        models: classifiers trained on the table alike, which differ in their seed only.
        table: the scores that they were trained on. Concepts that they were trained without stay left out.
        spurious: names of the spurious concepts.
        weights: of the labelled training rows ``(n,)``, by default their permutation weights; ones to train without.
        keep_concepts: train with all concepts, so that the weights alone have to do it.
        augment: mix images, for which the table needs paths, prompts and an encoder.
        backbone: the encoder of the table; by default the one that it names.
        images: the folder that the paths of the table start from; by default where they were when scored.
        random_state: seed of permutations and mixtures, which all models share.

    Returns:
        New classifiers with the parameters and seeds of the given ones; ``provenance_.debiasing`` has the number of
        rows that the weights leave in effect, and how many were mixed.

    Raises:
        ChoqolateError: for models with different parameters, unknown concepts, weights for other rows, and missing
            images.

    >>> from choqolate.estimators.table_training import fit_scores
    >>> rng = np.random.default_rng(0)
    >>> y, place = rng.integers(0, 2, (2, 200))
    >>> scores = rng.random((200, 4)) + np.stack([y, 1 - y, y, place], 1)
    >>> table = ConceptScores(scores, ["bill", "crest", "webs", "sea"], labels=y)
    >>> again, = cbdebug([fit_scores(table, n_nodes=4, epochs=5)], table, ["sea"])
    >>> again.concepts_, again.class_weight, again.provenance_.debiasing["method"]
    (['bill', 'crest', 'webs'], 'balanced', 'CBDebug')
    """
    parameters, spurious = _common_parameters(models), tuple(spurious)
    places = find_concepts(spurious, table.concepts, known="this table has")
    train = table.with_split().part("train").labelled()
    if weights is None:
        weights = permutation_weights(train.labels, train.scores[:, places], random_state=random_state)
    weights = _checked(weights, len(train))
    note: dict[str, Any] = {"method": "CBDebug", "rows": len(train), "effective_rows": effective_rows(weights)}
    if augment:
        scorer = ImageScorer.of(models[0], backbone)
        mixed = mix_with_concepts(
            train.select(models[0].concepts_),
            weights,
            _spurious_shares(models, spurious),
            scorer,
            images,
            random_state=random_state,
        )
        note["mixed_rows"] = len(mixed.rows)
    trained_on = _with_scores(table, mixed.rows, mixed.scores, models[0].concepts_) if augment else table
    seeds: list[Any] = [model.random_state for model in models]
    leave_out = concepts_without(models, table, () if keep_concepts else spurious)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChoqolateWarning)  # the models' own training has said it
        runs = fit_scores_runs(trained_on, seeds, leave_out=leave_out, sample_weight=weights, **parameters)
    data = replace(
        runs[0].provenance_.data, fingerprint=table.fingerprint, split="given" if table.has_split else "made"
    )
    return [run.with_provenance(debiasing=note, data=data) for run in runs]


def concepts_without(models: Sequence[ConceptModel], table: ConceptScores, spurious: Iterable[str]) -> tuple[str, ...]:
    """The concepts of a table to leave out of another training: those that models lack, and spurious ones."""
    gone = set(spurious) | (set(table.concepts) - set(models[0].concepts_) if models else set())
    return tuple(name for name in table.concepts if name in gone)


def _checked(weights: ArrayLike, n_rows: int) -> np.ndarray:
    """Weights of rows as an array ``(n_rows,)``."""
    found = np.asarray(weights, dtype=np.float64)
    if found.shape != (n_rows,):
        raise ChoqolateError(
            f"Expected a weight for each of the {n_rows:,} labelled training rows, but got shape {found.shape}. Leave "
            "weights out, or give them in the order of the table."
        )
    if not np.isfinite(found).all() or (found < 0).any() or not found.any():
        raise ChoqolateError("Expected finite weights of at least zero, some of them above zero. Leave weights out.")
    return found


def _common_parameters(models: Sequence[ChoqolateClassifier]) -> dict[str, Any]:
    """Parameters of all models but the seed, with balanced classes."""
    every = [model.get_params() | {"random_state": None, "class_weight": "balanced"} for model in models]
    if not every or any(parameters != every[0] for parameters in every):
        raise ChoqolateError(
            "Expected trained models that differ only in their seed, but got none, or models that differ in more. Call "
            "cbdebug once for each kind of model."
        )
    del every[0]["random_state"]
    return every[0]


def _spurious_shares(models: Sequence[ChoqolateClassifier], spurious: Sequence[str]) -> np.ndarray:
    """How often each concept of the models is to be drawn ``(M,)``: by its weight in a random class."""
    concepts = models[0].concepts_
    chains = [model.class_attributions_ @ model.concept_attributions_ for model in models]  # (C, M) each
    among = np.zeros(len(concepts))
    among[find_concepts(spurious, concepts)] = 1.0
    of_classes = np.mean(chains, axis=0) * among
    totals = of_classes.sum(axis=1, keepdims=True)
    if not totals.any():
        return among
    shares: np.ndarray = (of_classes / np.where(totals > 0, totals, 1.0)).mean(axis=0)
    return shares


def _with_scores(table: ConceptScores, rows: np.ndarray, scores: np.ndarray, concepts: Sequence[str]) -> ConceptScores:
    """A copy with other scores in some of the training rows."""
    known = table.with_split()
    every = known.scores.copy()
    columns = find_concepts(concepts, known.concepts, known="this table has")
    training = np.flatnonzero((known.split == "train") & known.rows.labelled())
    every[np.ix_(training[rows], columns)] = scores
    return known.with_rows(every, known.rows)
