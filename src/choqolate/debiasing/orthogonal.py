"""Ortho-Proj and Ortho-Cali: concept vectors without the directions of the spurious words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from choqolate._util.checks import as_names, check_number, find_concepts
from choqolate.concepts.backbones import Backbone
from choqolate.concepts.embedding import Embeddings
from choqolate.concepts.scoring import concept_vectors, encode_prompts, score_vectors
from choqolate.concepts.vocabulary import Vocabulary
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.estimators.table_inputs import inputs
from choqolate.estimators.table_training import training_rows
from choqolate.network.scaling import MinMax

STRENGTH = 1000.0
TEMPLATE = "a photo of a {subject} and {spurious}"
_SAME = 1e-5  # relative size below which a direction is rounding: vectors are kept in float32


class Prompts(NamedTuple):
    """Texts ``(T,)`` with the subject and the spurious attribute of each."""

    texts: list[str]
    subjects: list[str]
    attributes: list[str]


def orthogonal_projection(vectors: ArrayLike) -> np.ndarray:
    r"""The projection onto what is orthogonal to some vectors (Ortho-Proj; Chuang et al. 2023).

    With V ``(d, r)`` the right singular vectors of the vectors at unit length,

    .. math:: P_0 = I - V (V^\top V)^{-1} V^\top = I - V V^\top

    where directions whose singular value is zero up to rounding are left out.

    Args:
        vectors: texts ``(S, d)``.

    Returns:
        The matrix ``(d, d)``.

    Raises:
        ChoqolateError: if a vector is zero, or they span the whole space.

    >>> orthogonal_projection([[2.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    array([[0., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    units = _units(vectors)
    _, sizes, directions = np.linalg.svd(units, full_matrices=False)
    basis = directions[sizes > _SAME * sizes[0]]
    if len(basis) == units.shape[1]:
        raise ChoqolateError(
            f"expected vectors that leave some directions, these {len(units)} span all {len(basis)}: pass fewer words"
        )
    projection: np.ndarray = np.eye(units.shape[1]) - basis.T @ basis
    return projection


def calibrated_projection(
    vectors: ArrayLike,
    prompts: ArrayLike,
    subjects: Sequence[object],
    attributes: Sequence[object],
    *,
    strength: float = STRENGTH,
) -> np.ndarray:
    r"""The projection that also makes prompts equal which differ in nothing but a spurious attribute (Ortho-Cali).

    With S the pairs of prompts of the same subject and different attributes, z their vectors at unit length, and
    :math:`\lambda` the strength (Chuang et al. 2023),

    .. math:: P = P_0 (\lambda M + I)^{-1}, \qquad M = \frac{1}{|S|} \sum_{(i, j) \in S} (z_i - z_j)(z_i - z_j)^\top

    Args:
        vectors: spurious texts ``(S, d)``, see :func:`orthogonal_projection`.
        prompts: vectors of the prompts ``(T, d)``.
        subjects, attributes: of each prompt ``(T,)``.
        strength: :math:`\lambda`.

    Returns:
        The matrix ``(d, d)``.

    Raises:
        ChoqolateError: if there is no such pair.

    >>> P = calibrated_projection([[1, 0, 0]], [[0, 1, 0], [0, 0, 1]], ["gull", "gull"], ["sea", "forest"])
    >>> float(abs(P @ [0, 1, -1]).max()) < 1e-3, P @ [0, 1, 1]
    (True, array([0., 1., 1.]))
    """
    check_number("strength", strength, minimum=0)
    z = _units(prompts)
    if not len(z) == len(subjects) == len(attributes):
        came = f"{len(subjects)} subjects and {len(attributes)} attributes"
        raise ChoqolateError(f"expected a subject and an attribute for each of the {len(z)} prompts, got {came}")
    within, n_within = _spread_of_pairs(z, list(subjects))
    alike, n_alike = _spread_of_pairs(z, list(zip(subjects, attributes, strict=True)))
    if n_within == n_alike:
        raise ChoqolateError(
            "expected prompts of one subject with different attributes, got none: pass two spurious words or more"
        )
    M = (within - alike) / (n_within - n_alike)
    projection: np.ndarray = np.linalg.solve(strength * M + np.eye(len(M)), orthogonal_projection(vectors)).T
    return projection


def _spread_of_pairs(z: np.ndarray, keys: Sequence[object]) -> tuple[np.ndarray, int]:
    r"""The sum of (z_i - z_j)(z_i - z_j)' over ordered pairs of rows with equal keys, and the number of these pairs.

    For the n rows of one key with sum s it is :math:`2 (n \sum_i z_i z_i^\top - s s^\top)`: no pair is listed.
    """
    number = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    member = np.array([number[key] for key in keys])
    sizes, sums = np.bincount(member), np.zeros((len(number), z.shape[1]))
    np.add.at(sums, member, z)
    return 2 * ((z * sizes[member, None]).T @ z - sums.T @ sums), int((sizes**2).sum())


def calibration_prompts(
    subjects: Sequence[str], spurious: Vocabulary | Sequence[str], template: str = TEMPLATE
) -> Prompts:
    """Every subject with every spurious word; synonyms are one attribute.

    >>> calibration_prompts(["gull"], ["sea", "forest"]).texts
    ['a photo of a gull and sea', 'a photo of a gull and forest']
    """
    if "{subject}" not in template or "{spurious}" not in template:
        raise ChoqolateError(
            f"expected {{subject}} and {{spurious}} in the template, got {template!r}: see {TEMPLATE!r}"
        )
    if not isinstance(spurious, Vocabulary):
        spurious = Vocabulary(as_names(spurious, "spurious"))
    found = [
        (template.replace("{subject}", subject).replace("{spurious}", word), subject, words[0])
        for subject in as_names(subjects, "subjects")
        for words in spurious.synonyms
        for word in words
    ]
    if not found:
        raise ChoqolateError("expected subjects such as the names of the classes, got none")
    return Prompts(*map(list, zip(*found, strict=True)))


def text_projection(
    embeddings: Embeddings | None,
    spurious: Vocabulary,
    backbone: Backbone | None = None,
    *,
    subjects: Sequence[str] | None = None,
    template: str = TEMPLATE,
    strength: float = STRENGTH,
) -> np.ndarray:
    """The projection ``(d, d)`` for spurious words: orthogonal, and with subjects calibrated as well.

    Args:
        embeddings: the images' vectors, whose folder keeps the vectors of texts as well.
        spurious: the spurious concepts; all their prompts are projected away.
        backbone: the encoder; by default the one that the embeddings name, loaded only if a text is new.
        subjects: what images show, to make prompts with the spurious words of: see :func:`calibration_prompts`.
        template, strength: of the calibration.

    Raises:
        ChoqolateError: if there are no embeddings.
    """
    folder = _needed(embeddings).folder
    if backbone is not None:
        folder.check(backbone, precision=False)
    vectors = encode_prompts(folder, spurious.prompts(), backbone)
    if subjects is None:
        return orthogonal_projection(vectors)
    prompts = calibration_prompts(subjects, spurious, template)
    encoded = encode_prompts(folder, prompts.texts, backbone)
    return calibrated_projection(vectors, encoded, prompts.subjects, prompts.attributes, strength=strength)


def project_scores(
    embeddings: Embeddings | None,
    scored: ConceptScores | Vocabulary,
    projection: np.ndarray,
    backbone: Backbone | None = None,
) -> ConceptScores:
    r"""Scores of projected concepts, :math:`s_j = \langle f(I), P t_j / \lVert P t_j \rVert \rangle`.

    A concept of which nothing is left, such as a spurious word itself, scores 0 for every image.

    Args:
        embeddings: the images' vectors.
        scored: a table of scores of these images (found by path), which gives the concepts, labels, split and groups;
            or a vocabulary, for all images.
        projection: the matrix P ``(d, d)``.
        backbone: the encoder; by default the one that the embeddings name, loaded only if a text is new.

    Raises:
        ChoqolateError: if there are no embeddings, or they lack an image of the table.
    """
    embeddings = _needed(embeddings)
    vocabulary = scored if isinstance(scored, Vocabulary) else vocabulary_of(scored)
    vectors = project(concept_vectors(embeddings.folder, vocabulary, backbone), projection)
    table = score_vectors(embeddings, vocabulary, vectors)
    note = {"dimensions": len(projection), "kept": int(np.linalg.matrix_rank(projection))}
    if isinstance(scored, Vocabulary):
        return replace(table, provenance=replace(table.provenance, projection=note))
    provenance = replace(scored.provenance, projection=note)
    return replace(scored, scores=table.scores[embedded_rows(scored, embeddings)], provenance=provenance)


def project(vectors: ArrayLike, projection: np.ndarray) -> np.ndarray:
    """Vectors ``(M, d)`` projected and scaled to unit length, float32; zeros where nothing is left of one.

    >>> project([[1.0, 0.0], [0.6, 0.8]], orthogonal_projection([[1.0, 0.0]]))
    array([[0., 0.],
           [0., 1.]], dtype=float32)
    """
    projected = _units(vectors) @ projection.T
    lengths = np.linalg.norm(projected, axis=1, keepdims=True)
    units = np.divide(projected, lengths, out=np.zeros_like(projected), where=lengths > _SAME)
    return units.astype(np.float32)


def rescaled(model: ChoqolateClassifier, table: ConceptScores) -> ChoqolateClassifier:
    """A copy with the min-max range and the means of the training rows of another table; the weights stay.

    A concept that has become constant, such as a spurious word of which the projection leaves nothing, stands at the
    mean that it had when the model was trained: at 0 it would move all nodes that read it.

    Args:
        model: a fitted classifier.
        table: scores of all its concepts, such as those of :func:`project_scores`.
    """
    rows = training_rows(model, table)
    X = np.asarray(inputs(model, rows), dtype=np.float64)
    note = {"method": "min-max range fitted again", "rows": len(rows), **(table.provenance.projection or {})}
    scaling, network = MinMax.fit(X), model.network_
    stand_in = X[0] - network.concept_means
    scaling = MinMax(
        np.where(scaling.constant, stand_in, scaling.low), np.where(scaling.constant, stand_in + 1.0, scaling.high)
    )
    again = replace(network, scaling=scaling, concept_means=scaling(X).mean(axis=0))
    return model.with_network(again).with_provenance(debiasing=note)


def vocabulary_of(table: ConceptScores) -> Vocabulary:
    """The concepts of a table with the synonyms and templates that they were scored with, where it knows them."""
    record = table.provenance.vocabulary
    known = set(table.concepts) <= set(record.concepts or ())
    whole = Vocabulary.from_record(record, table.concepts) if known else Vocabulary(table.concepts)
    return replace(whole, spurious=table.spurious)


def part_of(vocabulary: Vocabulary, names: Sequence[str]) -> Vocabulary:
    """Some concepts of a vocabulary, with their synonyms and the templates."""
    index = find_concepts(names, vocabulary.concepts, known="this vocabulary has")
    return Vocabulary(
        tuple(vocabulary.concepts[j] for j in index),
        tuple(vocabulary.synonyms[j] for j in index),
        templates=vocabulary.templates,
    )


def _needed(embeddings: Embeddings | None) -> Embeddings:
    if embeddings is None:
        raise ChoqolateError(
            "expected the embeddings of the images, got none: scores alone do not tell what images score for other "
            "vectors; embed the images with choqolate.embed, or load their folder with choqolate.Embeddings.load"
        )
    return embeddings


def embedded_rows(table: ConceptScores, embeddings: Embeddings) -> list[int]:
    """Where the images of a table are among the embedded ones, found by path.

    Raises:
        ChoqolateError: if some are not among them.
    """
    found = table.rows.find_in(embeddings.manifest.rows)
    rows = [row for row in found if row is not None]
    if len(rows) < len(found):
        raise ChoqolateError(
            f"expected embeddings of all {len(found):,} images of the table, by path {len(found) - len(rows):,} have "
            "none: embed the images that the table was made of"
        )
    return rows


def _units(vectors: ArrayLike) -> np.ndarray:
    """Rows at length 1, float64."""
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    if rows.ndim != 2 or not len(rows) or not np.isfinite(lengths).all() or not (lengths > 0).all():
        raise ChoqolateError(
            f"expected vectors of shape (number, d), finite and none of them zero, got shape {rows.shape}: leave out "
            "those without a direction"
        )
    units: np.ndarray = rows / lengths
    return units
