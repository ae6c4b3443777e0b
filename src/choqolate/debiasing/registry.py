"""All ways of mitigating a known bias, as the rows of one table: what each needs, and a function that does it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from choqolate.concepts.backbones import Backbone
from choqolate.concepts.embedding import Embeddings
from choqolate.concepts.new_images import find_images
from choqolate.data.scores import ConceptScores
from choqolate.debiasing.cbdebug import cbdebug, concepts_without
from choqolate.debiasing.dfr import dfr
from choqolate.debiasing.group_dro import group_dro
from choqolate.debiasing.orthogonal import part_of, project_scores, rescaled, text_projection, vocabulary_of
from choqolate.debiasing.permutation_weights import permutation_weights
from choqolate.errors import SmallRemainderWarning
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.estimators.table_training import fit_scores_runs
from choqolate.explain.model_protocols import ConceptModel
from choqolate.network.removal import MODES


@dataclass(frozen=True)
class Case:
    """A bias to mitigate: trained models, their scores, and what is known of the bias.

    Attributes:
        models: trained classifiers, one a seed.
        table: the scores that they were trained on, with split, labels and, if known, groups.
        spurious: names of the concepts that are known to be spurious.
        parameters: of :class:`ChoqolateClassifier`, with which the models were trained, without the seeds.
        embeddings: vectors of the images of the table.
        backbone: their encoder; by default the one that they name.
        subjects: what images show, for the prompts of Ortho-Cali; by default the classes.
        images: the folder to which the paths of the table are relative, for what mixes images.
    """

    models: Sequence[ChoqolateClassifier]
    table: ConceptScores
    spurious: Sequence[str] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    embeddings: Embeddings | None = None
    backbone: Backbone | None = None
    subjects: Sequence[str] | None = None
    images: Path | None = None

    @cached_property
    def weights(self) -> np.ndarray:
        """Permutation weights of the labelled training rows."""
        train = self.table.part("train").labelled()
        return permutation_weights(train.labels, train.select(self.spurious).scores)


@dataclass(frozen=True)
class Needs:
    """What a method asks for.

    Attributes:
        spurious_words: the names of the spurious concepts.
        group_labels: the group of training or validation rows.
        retraining: a training, if only of the last layer.
        embeddings: the vectors of the images, not only their scores.
        images: the image files of the training rows, to encode them again.
        test_time: no need but a virtue: it can be applied to a model that is already in use.
        nodes: a layer of nodes below the classes.
    """

    spurious_words: bool = False
    group_labels: bool = False
    retraining: bool = False
    embeddings: bool = False
    images: bool = False
    test_time: bool = False
    nodes: bool = False


Applied = tuple[Sequence[ConceptModel], ConceptScores]


@dataclass(frozen=True)
class Debiasing:
    """A row of the table.

    Attributes:
        name: short, for files and options.
        title: for people.
        needs: what it asks for.
        apply: gives the models after it, and the table to measure them on.
    """

    name: str
    title: str
    needs: Needs
    apply: Callable[[Case], Applied]


def missing(method: Debiasing, case: Case) -> str | None:
    """What a case lacks that a method needs, and what to do, in a sentence; ``None`` if it lacks nothing.

    >>> fields = dict(labels=["gull", "wren"], split=["train", "test"])
    >>> case = Case([], ConceptScores([[0.1, 0.2], [0.2, 0.1]], ["bill", "sea"], **fields))
    >>> missing(DEBIASING["baseline"], case) is None
    True
    >>> missing(DEBIASING["group-dro"], case)
    'Group-DRO needs the groups of training rows: add a column "group" to the table, such as class and background'
    """
    needs, table = method.needs, case.table
    lacks = None
    if not table.rows.has_part("train"):
        lacks = "a table with training rows: ConceptScores.with_split() makes the split that training makes"
    elif needs.spurious_words and not case.spurious:
        lacks = "the names of the spurious concepts: mark them in the vocabulary"
    elif needs.group_labels and not _has_groups(table):
        lacks = 'the groups of training rows: add a column "group" to the table, such as class and background'
    elif needs.embeddings and case.embeddings is None:
        lacks = (
            "the embeddings of the images, not only their scores: give the folder that `choqolate embed` made of them"
        )
    elif needs.images:
        lacks = _lacking_for_images(case)
    elif needs.nodes and any(model.one_layer_ for model in case.models):
        lacks = "models with nodes: train them with n_nodes=8, for example"
    return None if lacks is None else f"{method.title} needs {lacks}"


def _has_groups(table: ConceptScores) -> bool:
    groups = table.part("train").groups
    return groups is not None and any(group is not None for group in groups.tolist())


def _lacking_for_images(case: Case) -> str | None:
    if case.images is None:
        return "the images themselves: give the folder to which the paths of the table are relative (--images)"
    known = case.table.provenance
    if not known.vocabulary.templates or (case.backbone is None and known.backbone.name is None):
        return "a table that names its prompts and its encoder: score the images with `choqolate score`"
    files = find_images(case.table.part("train"), case.images)
    missing_files = sum(file is None for file in files)
    if missing_files:
        return f"the images of all {len(files):,} training rows: {missing_files:,} are not in {case.images}"
    return None


def _as_trained(case: Case) -> Applied:
    return list(case.models), case.table


def _without(case: Case) -> Applied:
    return _trained_again(case, case.table, case.spurious), case.table


def _remove(case: Case, *, mode: str, recalibrate: bool) -> Applied:
    train = case.table.part("train")
    with _no_news():
        models = [
            model.remove_concepts(case.spurious, mode=mode, recalibrate=train if recalibrate else None)
            for model in case.models
        ]
    return models, case.table


def _orthogonal(case: Case, *, calibrate: bool, retrain: bool) -> Applied:
    table = _projected(case, calibrate)
    if not retrain:
        return [rescaled(model, table) for model in case.models], table
    moving = np.ptp(table.part("train").scores, axis=0) > 0  # of some words the projection leaves nothing
    nothing = [name for name, moves in zip(table.concepts, moving, strict=True) if not moves]
    return _trained_again(case, table, nothing), table


def _projected(case: Case, calibrate: bool) -> ConceptScores:
    spurious = part_of(vocabulary_of(case.table), case.spurious)
    subjects = (case.table.classes if case.subjects is None else case.subjects) if calibrate else None
    projection = text_projection(case.embeddings, spurious, case.backbone, subjects=subjects)
    return project_scores(case.embeddings, case.table, projection, case.backbone)


def _trained_again(case: Case, table: ConceptScores, leave_out: Sequence[str]) -> list[ChoqolateClassifier]:
    seeds: list[Any] = [model.random_state for model in case.models]
    return fit_scores_runs(table, seeds, leave_out=concepts_without(case.models, table, leave_out), **case.parameters)


def _dfr(case: Case) -> Applied:
    return dfr(case.models, case.table), case.table


def _group_dro(case: Case) -> Applied:
    return group_dro(case.models, case.table), case.table


def _cbdebug(case: Case, *, weigh: bool = True, keep_concepts: bool = False, augment: bool = False) -> Applied:
    models = cbdebug(
        case.models,
        case.table,
        case.spurious,
        weights=case.weights if weigh else np.ones(len(case.table.part("train").labelled())),
        keep_concepts=keep_concepts,
        augment=augment,
        backbone=case.backbone,
        images=case.images,
    )
    return models, case.table


@contextmanager
def _no_news() -> Iterator[None]:
    """That some nodes read hardly anything but the bias is what is to be mitigated; ``removal_`` has it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallRemainderWarning)
        yield


def _removals() -> Iterator[Debiasing]:
    titles = {"rescale": "CHOQ-PCR", "canonical": "CHOQ-PCR canonical", "impute": "CHOQ-PCR impute"}
    needs = Needs(spurious_words=True, test_time=True)
    for mode in MODES:
        yield Debiasing(mode, titles[mode], needs, partial(_remove, mode=mode, recalibrate=False))
        title, name = f"{titles[mode]}, recalibrated", f"{mode}-recalibrated"
        yield Debiasing(name, title, needs, partial(_remove, mode=mode, recalibrate=True))


def _projections() -> Iterator[Debiasing]:
    for name, title, calibrate in (("ortho-proj", "Ortho-Proj", False), ("ortho-cali", "Ortho-Cali", True)):
        for retrain in (False, True):
            yield Debiasing(
                f"{name}-retrained" if retrain else name,
                f"{title}, retrained" if retrain else title,
                Needs(spurious_words=True, embeddings=True, retraining=retrain, test_time=not retrain),
                partial(_orthogonal, calibrate=calibrate, retrain=retrain),
            )


def _retrainings() -> Iterator[Debiasing]:
    needs = Needs(spurious_words=True, retraining=True)
    yield Debiasing("cbdebug-unweighted", "CBDebug, unweighted", needs, partial(_cbdebug, weigh=False))
    yield Debiasing("cbdebug", "CBDebug, weighted", needs, _cbdebug)
    augmented = replace(needs, images=True)
    yield Debiasing("cbdebug-augmented", "CBDebug, weighted and augmented", augmented, partial(_cbdebug, augment=True))
    alone = partial(_cbdebug, keep_concepts=True)
    yield Debiasing("permutation-weights", "Permutation weights, all concepts", needs, alone)


_LAST_LAYER = Needs(group_labels=True, retraining=True, test_time=True, nodes=True)

_ROWS = (
    Debiasing("baseline", "As trained", Needs(), _as_trained),
    Debiasing("oracle", "Concept removal (oracle)", Needs(spurious_words=True, retraining=True), _without),
    *_removals(),
    *_projections(),
    *_retrainings(),
    Debiasing("dfr", "DFR", _LAST_LAYER, _dfr),
    Debiasing("group-dro", "Group-DRO", _LAST_LAYER, _group_dro),
)
DEBIASING: dict[str, Debiasing] = {row.name: row for row in _ROWS}
"""All rows of the table by name, in its order."""
