"""Control tables: the same images with as many concepts, but concepts that mean nothing to the task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from textwrap import shorten
from typing import TYPE_CHECKING

import numpy as np

from choqolate._util.checks import check_choice, check_seed
from choqolate.concepts.scoring import score, score_vectors
from choqolate.concepts.vocabulary import Vocabulary
from choqolate.concepts.word_forms import ClassNames, inflection_key
from choqolate.data.provenance import VocabularyRecord
from choqolate.data.scores import ConceptScores
from choqolate.datasets.base import words
from choqolate.debiasing.orthogonal import embedded_rows, vocabulary_of
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    from choqolate.concepts.backbones import Backbone
    from choqolate.concepts.embedding import Embeddings

NAMES, DIRECTIONS = "names", "directions"
KINDS = (NAMES, DIRECTIONS)
EVERYDAY = "everyday.names"  # the list of ordinary nouns that comes with the package
_SAID = 120  # characters of what an encoder says
RECORD = "control"  # where the provenance says what a table is

FROM_TABLE = "drawn from another table of scores"
FROM_WORDS = "drawn from a list of everyday nouns, encoded by the backbone of the images"
FROM_SPACE = "drawn in the embedding space"
FROM_SPAN = "random mixtures of the scores, which are directions in the span of the concepts' text vectors"


def control_table(
    table: ConceptScores,
    kind: str,
    *,
    seed: int,
    others: ConceptScores | None = None,
    embeddings: Embeddings | None = None,
    backbone: Backbone | None = None,
) -> ConceptScores:
    r"""Scores of the same images for as many concepts that mean nothing to the task.

    - ``"names"``: names drawn at random, from ``others`` if given, else from a list of some 600 everyday nouns that
      comes with the package, which takes ``embeddings``. A name that is a concept or names a class of the table, in
      singular or plural, is never drawn.
    - ``"directions"``: with ``embeddings``, cosine scores of random Gaussian directions. Without them, random mixtures
      of the scores, :math:`s'_j = \sum_k g_{kj} s_k / \sqrt{M}` with g from a standard normal distribution. As scores
      are linear in the text vector, :math:`s_k = \langle x, t_k \rangle`, these are scores of random directions in the
      span of the concepts' text vectors.

    Args:
        table: the scores to control for.
        kind: ``"names"`` or ``"directions"``.
        seed: of the draw; the same seed gives the same table.
        others: scores of the same images for other names.
        embeddings: vectors of the images.
        backbone: the encoder of the images, for names that have not been encoded yet; by default the one that the
            embeddings name.

    Returns:
        A table with the rows, classes and backbone of ``table``, and no spurious concepts. Its ``provenance.other``
        has what it is under ``"control"``: ``kind``, ``seed`` and ``source``, see :func:`control_source`.

    Raises:
        ChoqolateError: if something is lacking for random names, there are too few, or the rows do not match.

    >>> table = ConceptScores([[0.2, 0.1], [0.1, 0.3]], ["sea", "forest"], labels=["gull", "wren"])
    >>> others = ConceptScores([[0.3, 0.1, 0.2], [0.2, 0.2, 0.4]], ["Seas", "ladle", "kite"], labels=["gull", "wren"])
    >>> sorted(control_table(table, "names", seed=0, others=others).concepts)
    ['kite', 'ladle']
    >>> control_table(table, "directions", seed=0).concepts
    ('direction 1', 'direction 2')
    """
    check_choice("kind", kind, KINDS)
    rng = np.random.default_rng([check_seed(seed), KINDS.index(kind)])
    if kind == DIRECTIONS:
        concepts = tuple(f"direction {j + 1}" for j in range(len(table.concepts)))
        source = FROM_SPAN if embeddings is None else FROM_SPACE
        scores = _mixtures(table, rng) if embeddings is None else _directions(table, concepts, embeddings, rng)
        record = VocabularyRecord(concepts=concepts)
    elif others is not None:
        concepts, source = _drawn(table, others.concepts, "the other table", rng), FROM_TABLE
        scores = others.select(concepts).scores[_same_rows(table, others)]
        record = replace(others.provenance.vocabulary, concepts=concepts, synonyms=None, spurious=None)
    elif embeddings is not None:
        concepts, source = _drawn(table, words(EVERYDAY), "the list of everyday names", rng), FROM_WORDS
        vocabulary = Vocabulary(concepts, templates=vocabulary_of(table).templates)
        scores, record = _named(table, vocabulary, embeddings, backbone), vocabulary.as_record()
    else:
        raise ChoqolateError(
            "Expected scores for other names or embeddings of the images to draw random names, but got neither. Give "
            "others (a score table of the same images) or embeddings (the folder that choqolate embed made), or use "
            "random directions."
        )
    said = {RECORD: {"kind": kind, "source": source, "seed": int(seed)}}
    known = table.provenance
    return ConceptScores(
        scores,
        concepts,
        rows=table.rows,
        provenance=replace(known, vocabulary=record, other={**known.other, **said}),
    )


def control_source(table: ConceptScores) -> str | None:
    """What a control table is made of, in words; ``None`` for any other table."""
    said = table.provenance.other.get(RECORD)
    return str(said["source"]) if isinstance(said, dict) and "source" in said else None


def _drawn(table: ConceptScores, names: Iterable[str], whose: str, rng: np.random.Generator) -> tuple[str, ...]:
    """As many names as the table has concepts; none that is one of them, names a class or was drawn before."""
    classes, taken = ClassNames(table.classes), {inflection_key(name) for name in table.concepts}
    left = []
    for name in names:
        key = inflection_key(name)
        if key not in taken and classes.match(name) is None:
            taken.add(key)
            left.append(name)
    wanted = len(table.concepts)
    if len(left) < wanted:
        raise ChoqolateError(
            f"Expected at least {wanted:,} random names, as many as there are concepts, but {whose} has only "
            f"{len(left):,} that are neither concepts nor classes. Give scores of more names, or use random directions."
        )
    return tuple(left[place] for place in rng.choice(len(left), wanted, replace=False))


def _same_rows(table: ConceptScores, others: ConceptScores) -> list[int]:
    """Where the rows of a table are in another one: by path, or in the same order if paths are not known."""
    if table.paths is not None and others.paths is not None:
        found = [place for place in table.rows.find_in(others.rows) if place is not None]
        if len(found) == len(table):
            return found
        came = f"{len(table) - len(found):,} of the {len(table):,} paths are not in it"
    elif len(table) != len(others):
        came = f"it has {len(others):,} rows instead of {len(table):,}"
    elif table.labels is not None and others.labels is not None and (table.labels != others.labels).any():
        came = "its labels differ"
    else:
        return list(range(len(table)))
    raise ChoqolateError(
        f"Expected another score table of the same images for random names, but {came}. Score these images for other "
        "names."
    )


def _mixtures(table: ConceptScores, rng: np.random.Generator) -> np.ndarray:
    size = len(table.concepts)
    mixed: np.ndarray = table.scores @ (rng.normal(size=(size, size)) / np.sqrt(size))
    return mixed.astype(table.scores.dtype)


def _directions(
    table: ConceptScores, concepts: tuple[str, ...], embeddings: Embeddings, rng: np.random.Generator
) -> np.ndarray:
    vectors = rng.normal(size=(len(concepts), embeddings.folder.images.dim))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scored = score_vectors(embeddings, Vocabulary(concepts), vectors.astype(np.float32))
    return scored.scores[embedded_rows(table, embeddings)]


def _named(
    table: ConceptScores, vocabulary: Vocabulary, embeddings: Embeddings, backbone: Backbone | None
) -> np.ndarray:
    rows = embedded_rows(table, embeddings)
    try:
        return score(embeddings, vocabulary, backbone).scores[rows]
    except ChoqolateError as error:
        said = shorten(str(error), _SAID, placeholder=" …")
        raise ChoqolateError(
            f"Expected a backbone that can encode everyday names, but {said}. Give "
            "others (a score table of the same images for other names), or use random directions."
        ) from error
