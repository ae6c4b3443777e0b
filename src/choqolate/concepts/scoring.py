"""Scores of concepts: one text encoding and one matrix product, never a second look at the images."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from choqolate._util.checks import as_names
from choqolate._util.progress import item_bar
from choqolate.concepts.backbones import Backbone, load_backbone
from choqolate.concepts.embedding import Embeddings
from choqolate.concepts.embedding_folder import EmbeddingFolder
from choqolate.concepts.vocabulary import Vocabulary
from choqolate.data.parquet_reader import block_rows
from choqolate.data.provenance import Provenance
from choqolate.data.score_file import ScoreFile
from choqolate.data.score_writer import ScoreWriter
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError

_WINDOW_BLOCKS = 8  # of scores in memory at a time: neighboring parts read the same shards again


def score(
    embeddings: Embeddings, vocabulary: Vocabulary | Sequence[str], backbone: Backbone | None = None
) -> ConceptScores:
    r"""Cosine similarity of every image and every concept, Eq. (1): :math:`s_j = \langle f(I), g(c_j) \rangle`.

    Args:
        embeddings: images that are encoded.
        vocabulary: the concepts, with their synonyms and prompt templates; or just the words.
        backbone: the encoder; by default the one that the embeddings name, loaded only if a text is new.

    Raises:
        ChoqolateError: if the backbone is not the one that encoded the images.
    """
    if not isinstance(vocabulary, Vocabulary):
        vocabulary = Vocabulary.parse(as_names(vocabulary, "vocabulary"))
    return score_vectors(embeddings, vocabulary, concept_vectors(embeddings.folder, vocabulary, backbone))


def concept_vectors(folder: EmbeddingFolder, vocabulary: Vocabulary, backbone: Backbone | None = None) -> np.ndarray:
    """One unit vector a concept ``(M, d)``, float32: see :meth:`Vocabulary.combine`.

    Args:
        folder: of the embeddings, which keeps the vectors of texts as well.
        vocabulary: the concepts.
        backbone: as in :func:`score`.

    Raises:
        ChoqolateError: if the backbone is not the one that encoded the images.
    """
    if backbone is not None:
        folder.check(backbone, precision=False)
    prompts = vocabulary.prompts()
    return vocabulary.combine(dict(zip(prompts, encode_prompts(folder, prompts, backbone), strict=True)))


def write_scores(
    output: str | Path,
    embeddings: Embeddings,
    vocabulary: Vocabulary,
    backbone: Backbone | None = None,
    *,
    verbose: bool = False,
) -> ScoreFile:
    """Write what :func:`score` gives to a Parquet file, with a split, without ever holding it whole.

    Memory does not grow with the number of images but for the rows of the manifest.

    Args:
        output: the file, ``.parquet``.
        embeddings: images that are encoded.
        vocabulary: the concepts.
        backbone: as in :func:`score`.
        verbose: show a progress bar (on a terminal).

    Raises:
        ChoqolateError: as :func:`score`; also if the file cannot be written.
    """
    through = np.ascontiguousarray(concept_vectors(embeddings.folder, vocabulary, backbone).T)
    found = embeddings.folder.images.find(embeddings.digests)
    rows = embeddings.manifest.rows.with_split()
    about = {"classes": rows.classes, "spurious": vocabulary.spurious}
    step = _WINDOW_BLOCKS * block_rows(len(vocabulary), np.float32)
    with (
        ScoreWriter(output, vocabulary.concepts, **about, provenance=_provenance(embeddings, vocabulary)) as writer,
        item_bar(len(found), "scoring", enabled=verbose) as advance,
    ):
        for start in range(0, len(found), step):
            part = slice(start, start + step)
            scores = found.get(part, through)
            writer.add_scores(scores, rows.take(part))
            advance(len(scores))
    return ScoreFile(output)


def score_vectors(embeddings: Embeddings, vocabulary: Vocabulary, vectors: np.ndarray) -> ConceptScores:
    """Products of every image's vector and the vectors ``(M, d)`` that stand for the concepts of a vocabulary."""
    return ConceptScores(
        embeddings.folder.images.get(embeddings.digests, through=np.ascontiguousarray(vectors.T)),
        vocabulary.concepts,
        rows=embeddings.manifest.rows,
        spurious=vocabulary.spurious,
        provenance=_provenance(embeddings, vocabulary),
    )


def _provenance(embeddings: Embeddings, vocabulary: Vocabulary) -> Provenance:
    return Provenance(
        backbone=embeddings.folder.backbone,
        vocabulary=vocabulary.as_record(),
        source=embeddings.manifest.source,
        root=str(embeddings.manifest.root.absolute()),
    )


def encode_prompts(folder: EmbeddingFolder, prompts: Sequence[str], backbone: Backbone | None = None) -> np.ndarray:
    """Unit vectors ``(T, d)`` of texts; only those that the folder does not hold yet are encoded."""
    digests = [hashlib.sha256(prompt.encode()).digest() for prompt in prompts]
    known = folder.texts.digests()
    fresh = {digest: prompt for digest, prompt in zip(digests, prompts, strict=True) if digest not in known}
    if fresh:
        if backbone is None:
            backbone = _named_backbone(folder)
        folder.texts.add(list(fresh), backbone.encode_texts(list(fresh.values())))
    return folder.texts.get(digests)


def _named_backbone(folder: EmbeddingFolder) -> Backbone:
    try:
        backbone = load_backbone(str(folder.backbone.name))
    except ChoqolateError as error:
        raise ChoqolateError(
            f"new words have to be encoded by the backbone of {folder.path}, which cannot be loaded: {error}; if it is "
            "in another place now, pass that as the backbone"
        ) from error
    folder.check(backbone, precision=False)
    return backbone
