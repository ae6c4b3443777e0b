"""Scores of concepts: one text encoding and one matrix product, never a second look at the pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from choqolate.concepts.backbones import Backbone, load_backbone
from choqolate.concepts.embedding import Embeddings
from choqolate.concepts.folder import EmbeddingFolder
from choqolate.concepts.scores import ConceptScores
from choqolate.concepts.vocabulary import Vocabulary
from choqolate.errors import ChoqolateError
from choqolate.validation import as_names


def score(
    embeddings: Embeddings, vocabulary: Vocabulary | Sequence[str], backbone: Backbone | None = None
) -> ConceptScores:
    r"""Cosine similarity of every picture and every concept, Eq. (1): :math:`s_j = \langle f(I), g(c_j) \rangle`.

    Args:
        embeddings: pictures that are encoded.
        vocabulary: the concepts, with their synonyms and prompt templates; or just the words.
        backbone: the encoder; by default the one that the embeddings name, loaded only if a text is new.

    Raises:
        ChoqolateError: if the backbone is not the one that encoded the pictures.
    """
    folder, manifest = embeddings.folder, embeddings.manifest
    if not isinstance(vocabulary, Vocabulary):
        vocabulary = Vocabulary.parse(as_names(vocabulary, "vocabulary"))
    if backbone is not None:
        folder.check(backbone, precision=False)
    prompts = vocabulary.prompts()
    vectors = dict(zip(prompts, encode_prompts(folder, prompts, backbone), strict=True))
    concepts = vocabulary.combine(vectors)
    scores = folder.images.get(embeddings.digests, through=np.ascontiguousarray(concepts.T))
    return ConceptScores(
        scores,
        vocabulary.concepts,
        labels=manifest.labels,
        split=manifest.split,
        groups=manifest.groups,
        paths=manifest.paths,
        classes=manifest.classes,
        spurious=vocabulary.spurious,
        provenance=_provenance(embeddings, vocabulary),
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
        backbone = load_backbone(folder.backbone["name"])
    except ChoqolateError as error:
        raise ChoqolateError(
            f"new words have to be encoded by the backbone of {folder.path}, which cannot be loaded: {error}; if it is "
            "in another place now, pass that as the backbone"
        ) from error
    folder.check(backbone, precision=False)
    return backbone


def _provenance(embeddings: Embeddings, vocabulary: Vocabulary) -> dict[str, Any]:
    manifest = embeddings.manifest
    return {
        "backbone": embeddings.folder.backbone,
        "vocabulary": vocabulary.as_dict(),
        "source": manifest.source,
        "root": str(manifest.root.absolute()),
    }
