"""The whole way from images and words to a table of concept scores."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from choqolate._util.text import counted
from choqolate.concepts.backbones import DEFAULT_BACKBONE, Backbone, load_backbone
from choqolate.concepts.embedding import Embeddings, embed, write_quarantine
from choqolate.concepts.embedding_folder import EmbeddingFolder, cache_folder
from choqolate.concepts.scoring import encode_prompts, score, write_scores
from choqolate.concepts.vocabulary import TEMPLATES, Vocabulary
from choqolate.data.image_list import read_csv
from choqolate.data.manifest import Manifest
from choqolate.data.score_file import ScoreFile
from choqolate.data.score_files import check_target
from choqolate.data.scores import ConceptScores
from choqolate.datasets import DATASETS, find_dataset, read_dataset, read_source
from choqolate.errors import ChoqolateError, ChoqolateWarning

Place = str | os.PathLike[str]


def score_images(
    source: Place | Manifest | Embeddings,
    concepts: Vocabulary | Sequence[str] | Place | None = None,
    *,
    dataset: str | None = None,
    options: Mapping[str, Any] | None = None,
    manifest: Place | Manifest | None = None,
    backbone: Backbone | Place | None = None,
    device: str = "auto",
    precision: str = "auto",
    embeddings: Place | None = None,
    workers: int | None = None,
    batch_size: int | None = None,
    on_error: str = "skip",
    quarantine: Place | None = None,
    engine: str = "local",
    address: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
    on_read: Callable[[Manifest], None] | None = None,
    on_embedded: Callable[[Embeddings], None] | None = None,
    verbose: bool = False,
) -> ConceptScores:
    """Score images for concepts: read the source, encode what is new, and compare images with prompts.

    Mistakes in the concepts show before the images are encoded. A table without a split gets the fixed one of
    :meth:`ConceptScores.with_split`.

    Args:
        source: a folder of images, a CSV file of them, a folder of embeddings, or a manifest or embeddings in memory.
        concepts: names, a text file with one concept per line, or a :class:`Vocabulary`, which also knows synonyms,
            prompt templates and spurious concepts; by default those of the data set.
        dataset: read the source as a copy of this data set, one of ``datasets.DATASETS``; where the source is no copy
            but a manifest or embeddings, only its concepts are meant.
        options: for the data set's reader.
        manifest: labels, split and groups to join by path: a manifest or a CSV file.
        backbone: the encoder, or its name or folder; by default the one that the embeddings name, or else that of the
            paper.
        device, precision: of an encoder that is given by name, see :func:`~choqolate.load_backbone`.
        embeddings: folder to keep the vectors of images in; by default a cache that all runs with this encoder share.
        workers, batch_size, on_error, quarantine, engine, address, tell: see :func:`~choqolate.embed`.
        on_read: called with the rows of the source before anything is encoded.
        on_embedded: called with the embeddings before they are scored; by default a warning names the images that
            could not be read.
        verbose: show progress on stderr.

    Returns:
        The scores, with labels, split and groups where they are known.

    Raises:
        ChoqolateError: if there is nothing to score, the concepts are not usable, the encoder does not fit, or an
            argument has no meaning for this source.
    """
    encoded, words, encoder = _encode(**locals())  # all arguments, by name
    return score(encoded, words, encoder, verbose=verbose).with_split()


def score_images_to_file(
    output: Place,
    source: Place | Manifest | Embeddings,
    concepts: Vocabulary | Sequence[str] | Place | None = None,
    *,
    verbose: bool = False,
    **options: Any,
) -> ScoreFile | ConceptScores:
    """Write what :func:`score_images` gives to a file. The scores of a Parquet file are never in memory as a whole.

    Args:
        output: the file, ``.parquet`` or ``.csv``.
        source, concepts: as in :func:`score_images`.
        verbose: show progress on stderr.
        **options: the other arguments of :func:`score_images`.

    Returns:
        The Parquet file, to be read block by block; or the scores of the CSV file.

    Raises:
        ChoqolateError: as :func:`score_images`; also if the file cannot be written.
    """
    unknown = [name for name in options if name not in inspect.signature(score_images).parameters]
    if unknown:
        raise TypeError(f"score_images_to_file() got an unexpected keyword argument {unknown[0]!r}")
    target = Path(output)
    encoded, words, encoder = _encode(source, concepts, output=target, verbose=verbose, **options)
    if target.suffix.lower() != ".csv":
        return write_scores(target, encoded, words, encoder, verbose=verbose)
    table = score(encoded, words, encoder, verbose=verbose).with_split()
    table.save(target)
    return table


def _encode(
    source: Place | Manifest | Embeddings,
    concepts: Vocabulary | Sequence[str] | Place | None,
    *,
    dataset: str | None = None,
    options: Mapping[str, Any] | None = None,
    manifest: Place | Manifest | None = None,
    backbone: Backbone | Place | None = None,
    device: str = "auto",
    precision: str = "auto",
    embeddings: Place | None = None,
    quarantine: Place | None = None,
    on_read: Callable[[Manifest], None] | None = None,
    on_embedded: Callable[[Embeddings], None] | None = None,
    output: Path | None = None,
    verbose: bool = False,
    **how: Any,
) -> tuple[Embeddings, Vocabulary, Backbone | None]:
    """What :func:`score_images` does before the images are scored; ``how`` holds what only :func:`embed` needs.

    Concepts that could not be written to ``output`` are refused before anything is encoded.
    """
    if dataset is not None:
        find_dataset(dataset)
    encoded = _embeddings(source)
    known = encoded.manifest if encoded is not None else source if isinstance(source, Manifest) else None
    if encoded is not None:
        unused = {"embeddings": embeddings, "options": options or None}
        unused |= {name: how.get(name) for name in ("workers", "batch_size")}
        unused["engine"] = how["engine"] if how.get("engine", "local") != "local" else None
        _check_unused(unused, "embeddings")
    elif known is not None:
        _check_unused({"options": options or None}, "a manifest")
    words = _vocabulary(concepts, dataset or (known.source if known is not None else None))
    if output is not None:
        check_target(output, words.concepts)
    if backbone is None or isinstance(backbone, Backbone):
        encoder = backbone
    else:
        encoder = load_backbone(backbone, device=device, precision=precision)
    rows = _read(source, dataset, options) if known is None else known
    if manifest is not None:
        rows = rows.join(manifest if isinstance(manifest, Manifest) else read_csv(manifest))
    if on_read is not None:
        on_read(rows)
    if encoded is None:
        encoder = encoder or load_backbone(DEFAULT_BACKBONE, device=device, precision=precision)
        folder = EmbeddingFolder.create(Path(embeddings) if embeddings else cache_folder(encoder), encoder)
        encode_prompts(folder, words.prompts(), encoder, verbose=verbose)  # their mistakes show before images are read
        encoded = embed(rows, encoder, embeddings, quarantine=quarantine, verbose=verbose, **how)
    else:
        encoded = replace(encoded, manifest=rows)
        if quarantine is not None:
            write_quarantine(Path(quarantine), ())
    (on_embedded or _warn_of_failures)(encoded)
    return encoded, words, encoder


def _embeddings(source: Place | Manifest | Embeddings) -> Embeddings | None:
    if isinstance(source, Embeddings):
        return source
    is_folder = not isinstance(source, Manifest) and EmbeddingFolder.is_one(Path(source))
    return Embeddings.load(source) if is_folder else None  # type: ignore[arg-type]


def _check_unused(arguments: Mapping[str, Any], kind: str) -> None:
    """Refuse arguments for reading or encoding images where that is done already."""
    given = [name for name, value in arguments.items() if value is not None]
    if given:
        raise ChoqolateError(
            f"Expected no {' or '.join(given)} because the source is {kind}. Leave out what would have no effect."
        )


def _read(source: Any, dataset: str | None, options: Mapping[str, Any] | None) -> Manifest:
    if options and dataset is None:
        raise ChoqolateError("Expected the name of a data set with options for its reader, got none. Name it.")
    return read_source(source) if dataset is None else read_dataset(dataset, source, **(options or {}))


def _vocabulary(concepts: Vocabulary | Sequence[str] | Place | None, dataset: str | None) -> Vocabulary:
    if isinstance(concepts, Vocabulary):
        return concepts
    if concepts is None:
        return dataset_vocabulary(dataset)
    if isinstance(concepts, str | os.PathLike):
        return Vocabulary.read(Path(concepts))
    return Vocabulary.parse(concepts)


def dataset_vocabulary(name: str | None, templates: Sequence[str] = TEMPLATES) -> Vocabulary:
    """The concepts that the paper scores a data set for.

    Raises:
        ChoqolateError: if there is no such data set, so that concepts have to be named.

    >>> len(dataset_vocabulary("waterbirds"))
    57
    """
    if name not in DATASETS:
        raise ChoqolateError(
            "Expected the concepts to score for, got none. Name them, or give a text file with one per line."
        )
    return Vocabulary.parse(DATASETS[name].core, DATASETS[name].spurious, templates)


def _warn_of_failures(encoded: Embeddings) -> None:
    if encoded.failures:
        first, total = encoded.failures[0], len(encoded.failures)
        message = f"{counted(total, 'image')} could not be read, the first is {first.path}: {first.reason}"
        warnings.warn(message, ChoqolateWarning, stacklevel=4)
