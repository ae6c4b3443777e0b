"""Scores of concepts: one text encoding and one matrix product, never a second look at the images."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import islice
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

_TEXTS_AT_ONCE = 2048  # what a kill can cost at most


def score(
    embeddings: Embeddings,
    vocabulary: Vocabulary | Sequence[str],
    backbone: Backbone | None = None,
    *,
    verbose: bool = False,
) -> ConceptScores:
    r"""Cosine similarity of every image and every concept, Eq. (1): :math:`s_j = \langle f(I), g(c_j) \rangle`.

    Args:
        embeddings: images that are encoded.
        vocabulary: the concepts, with their synonyms and prompt templates; or just the words.
        backbone: the encoder; by default the one that the embeddings name, loaded only if a text is new.
        verbose: show progress on stderr while texts are encoded.

    Raises:
        ChoqolateError: if the backbone is not the one that encoded the images.
    """
    if not isinstance(vocabulary, Vocabulary):
        vocabulary = Vocabulary.parse(as_names(vocabulary, "vocabulary"))
    vectors = concept_vectors(embeddings.folder, vocabulary, backbone, verbose=verbose)
    return score_vectors(embeddings, vocabulary, vectors)


def concept_vectors(
    folder: EmbeddingFolder, vocabulary: Vocabulary, backbone: Backbone | None = None, *, verbose: bool = False
) -> np.ndarray:
    """One unit vector per concept ``(M, d)``, float32: see :meth:`Vocabulary.combine`.

    Args:
        folder: of the embeddings, which keeps the vectors of texts as well.
        vocabulary: the concepts.
        backbone: as in :func:`score`.
        verbose: show progress on stderr while texts are encoded.

    Raises:
        ChoqolateError: if the backbone is not the one that encoded the images.
    """
    if backbone is not None:
        folder.check(backbone, precision=False)
    prompts = vocabulary.prompts()
    vectors = encode_prompts(folder, prompts, backbone, verbose=verbose)
    return vocabulary.combine(dict(zip(prompts, vectors, strict=True)))


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
        verbose: show progress on stderr.

    Raises:
        ChoqolateError: as :func:`score`; also if the file cannot be written.
    """
    vectors = concept_vectors(embeddings.folder, vocabulary, backbone, verbose=verbose)
    found = embeddings.folder.images.find(embeddings.digests)
    rows = embeddings.manifest.rows.with_split()
    about = {"classes": rows.classes, "spurious": vocabulary.spurious}
    with (
        ScoreWriter(output, vocabulary.concepts, **about, provenance=_provenance(embeddings, vocabulary)) as writer,
        item_bar(len(found), "scoring", items="images", enabled=verbose) as advance,
    ):
        start = 0
        for scores in found.products(np.ascontiguousarray(vectors.T), block_rows(len(vocabulary), np.float32)):
            writer.add_scores(scores, rows.take(slice(start, start + len(scores))))
            start += len(scores)
            advance(len(scores))
    return ScoreFile(output)


def score_vectors(embeddings: Embeddings, vocabulary: Vocabulary, vectors: np.ndarray) -> ConceptScores:
    """Products of every image's vector and the vectors ``(M, d)`` that stand for the concepts of a vocabulary."""
    found = embeddings.folder.images.find(embeddings.digests)
    scores, start = np.empty((len(found), len(vectors)), dtype=np.float32), 0
    for block in found.products(np.ascontiguousarray(vectors.T)):
        scores[start : start + len(block)] = block
        start += len(block)
    return ConceptScores(
        scores,
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
        labels_from=embeddings.manifest.labels_from,
    )


def encode_prompts(
    folder: EmbeddingFolder, prompts: Sequence[str], backbone: Backbone | None = None, *, verbose: bool = False
) -> np.ndarray:
    """Unit vectors ``(T, d)`` of texts; only those that the folder does not hold yet are encoded.

    Args:
        folder: of the embeddings.
        prompts: the texts.
        backbone: as in :func:`score`.
        verbose: show progress on stderr.
    """
    digests = [hashlib.sha256(prompt.encode()).digest() for prompt in prompts]
    known = folder.texts.digests()
    fresh = {digest: prompt for digest, prompt in zip(digests, prompts, strict=True) if digest not in known}
    if fresh:
        if backbone is None:
            backbone = _named_backbone(folder)
        with item_bar(len(fresh), "encoding", items="texts", enabled=verbose) as advance:
            remaining = iter(fresh.items())
            while part := dict(islice(remaining, _TEXTS_AT_ONCE)):
                folder.texts.add(list(part), backbone.encode_texts(list(part.values())))
                advance(len(part))
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
