"""New images for a trained model: from pixels to scores, by the encoder and the words that it was trained with."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from choqolate._util.text import listed
from choqolate.concepts.backbones import Backbone, load_backbone
from choqolate.concepts.embedding import Embeddings
from choqolate.concepts.exact_product import ExactProduct
from choqolate.concepts.preprocessing import Unreadable, decode, file_state, read_content
from choqolate.concepts.score_images import score_images
from choqolate.concepts.vocabulary import Vocabulary
from choqolate.data.manifest import Manifest
from choqolate.data.provenance import BackboneRecord, Provenance
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    from PIL.Image import Image


class ScoredModel(Protocol):
    """What has to be known of a model to score images for it: its concepts, and how its training scores were made."""

    concepts_: Any  # list[str]
    provenance_: Any  # Provenance


def read_image(path: str | os.PathLike[str], reduced_to: int | None = None) -> Image:
    """An image file, upright and in red, green and blue.

    Args:
        path: of the file.
        reduced_to: pixels that each side has at least, where fewer are faster to read; by default, all.

    Raises:
        ChoqolateError: if it cannot be read; the message says why.
    """
    try:
        return decode(read_content(os.fspath(path))[0], reduced_to)
    except Unreadable as error:
        raise _unreadable(path, error) from None


def _check_file(path: str | os.PathLike[str]) -> None:
    """What is no file at all is found out before an encoder is loaded."""
    try:
        file_state(os.fspath(path))
    except Unreadable as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str | os.PathLike[str], error: Unreadable) -> ChoqolateError:
    return ChoqolateError(f"expected an image, {os.fspath(path)} cannot be read: {error}")


def score_for_model(
    model: ScoredModel,
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    backbone: Backbone | str | os.PathLike[str] | None = None,
) -> ConceptScores:
    """Scores of images for a model's concepts, as its training scores were made.

    Args:
        model: a fitted classifier whose ``provenance_`` names its encoder and prompts, as :func:`fit_scores` notes it.
        files: one image file or several.
        backbone: the encoder, or its name or folder, if it is in another place than it was; it must have the same
            weights.

    Raises:
        ChoqolateError: if a file is no image, the model does not say how its scores were made, or the encoder cannot
            be loaded or is another one.
    """
    several = [files] if isinstance(files, str | os.PathLike) else list(files)
    if not several:
        raise ChoqolateError("expected at least one image, got none")
    vocabulary = _vocabulary(model)
    for path in several:
        _check_file(path)
    scorer = ImageScorer.of(model, backbone)
    step = scorer.encoder.batch_size
    scores = [
        scorer.score([read_image(path) for path in several[start : start + step]])
        for start in range(0, len(several), step)
    ]
    return ConceptScores(
        np.concatenate(scores),
        vocabulary.concepts,
        paths=np.array([str(Path(path)) for path in several], dtype=object),
        spurious=vocabulary.spurious,
        provenance=Provenance(backbone=scorer.encoder.describe(), vocabulary=vocabulary.as_record()),
    )


@dataclass(frozen=True, eq=False)
class ImageScorer:
    """The encoder of a model and its encoded concepts: loaded once, for images that come one by one.

    Attributes:
        encoder: of images and texts.
        concepts: vectors of the model's concepts ``(M, d)``.
    """

    encoder: Backbone
    concepts: np.ndarray

    @classmethod
    def of(cls, model: ScoredModel, backbone: Backbone | str | os.PathLike[str] | None = None) -> Self:
        """Load the encoder of a model and encode its prompts.

        Args:
            model, backbone: as in :func:`score_for_model`.

        Raises:
            ChoqolateError: if the model does not say how its scores were made, or the encoder cannot be loaded or is
                another one.
        """
        vocabulary, encoder = _vocabulary(model), _backbone(model, backbone)
        prompts = vocabulary.prompts()
        return cls(encoder, vocabulary.combine(dict(zip(prompts, encoder.encode_texts(prompts), strict=True))))

    def score(self, images: Sequence[Image]) -> np.ndarray:
        """Raw scores ``(n, M)`` of images in memory."""
        return self.compare(self.encoder.encode_images(images))

    def compare(self, vectors: np.ndarray) -> np.ndarray:
        """Raw scores ``(n, M)`` of the vectors of images ``(n, d)``."""
        return self._product(vectors)

    @cached_property
    def _product(self) -> ExactProduct:
        return ExactProduct(self.concepts.T)


def check_can_score(model: ScoredModel, backbone: Backbone | str | os.PathLike[str] | None = None) -> None:
    """Find out, without loading anything, that a model does not say how its scores were made.

    Raises:
        ChoqolateError: if images cannot be scored for it.
    """
    _vocabulary(model)
    if backbone is None and model.provenance_.backbone.name is None:
        raise _nameless()


def _nameless() -> ChoqolateError:
    return ChoqolateError("expected a model that names its encoder, this one does not: pass the backbone")


def score_source_for_model(
    model: ScoredModel,
    source: str | os.PathLike[str] | Manifest | Embeddings,
    *,
    backbone: Backbone | str | os.PathLike[str] | None = None,
    embeddings: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    on_read: Callable[[Manifest], None] | None = None,
    on_embedded: Callable[[Embeddings], None] | None = None,
    verbose: bool = False,
) -> ConceptScores:
    """Scores of many images for a model's concepts, as its training scores were made; resumable.

    Args:
        model: as in :func:`score_for_model`.
        source: a folder of images, a CSV file of them, a folder of embeddings, or a manifest or embeddings in memory.
        backbone: as in :func:`score_for_model`.
        embeddings, workers, on_read, on_embedded, verbose: as in :func:`score_images`.

    Raises:
        ChoqolateError: as :func:`score_for_model`, or if the embeddings are of another encoder.
    """
    vocabulary = _vocabulary(model)
    if not isinstance(source, Manifest | Embeddings) and Embeddings.are_in(source):
        source = Embeddings.load(source)
    if isinstance(source, Embeddings):
        _check_identity(model, source.folder.backbone)
        encoder = None if backbone is None else _backbone(model, backbone)
    else:
        encoder = _backbone(model, backbone)
    return score_images(
        source,
        vocabulary,
        backbone=encoder,
        embeddings=embeddings,
        workers=workers,
        on_read=on_read,
        on_embedded=on_embedded,
        verbose=verbose,
    )


def _vocabulary(model: ScoredModel) -> Vocabulary:
    """The model's words with their synonyms and templates."""
    record = model.provenance_.vocabulary
    if not record.templates:
        raise ChoqolateError(
            "expected a model that says how its scores were made, this one does not: train it on a table that "
            "`choqolate score` made (choqolate fit, or fit_scores)"
        )
    return Vocabulary.from_record(record, model.concepts_)


def _backbone(model: ScoredModel, backbone: Backbone | str | os.PathLike[str] | None) -> Backbone:
    known = model.provenance_.backbone
    if backbone is None:
        name = known.name
        if name is None:
            raise _nameless()
        try:
            backbone = load_backbone(name)
        except ChoqolateError as error:
            raise ChoqolateError(
                f"the encoder of the model, {name}, cannot be loaded: {error}; if it is in another place now, pass "
                "that as the backbone"
            ) from error
    elif not isinstance(backbone, Backbone):
        backbone = load_backbone(backbone)
    _check_identity(model, backbone)
    return backbone


def _check_identity(model: ScoredModel, encoder: Backbone | BackboneRecord) -> None:
    known = model.provenance_.backbone
    if known.identity not in (None, encoder.identity):
        raise ChoqolateError(
            f"expected the encoder that the model was trained with, {known.name} ({known.identity}), got "
            f"{encoder.name} ({encoder.identity}): its scores mean something else"
        )


def find_images(table: ConceptScores, root: str | os.PathLike[str] | None = None) -> list[Path | None]:
    """The file of each row's image, ``None`` where there is none.

    Args:
        table: scores with paths.
        root: the folder to which the paths are relative; by default where they were when they were scored.

    Raises:
        ChoqolateError: if a root is given and not one image is in it.
    """
    paths: list[str | None] = [None] * len(table) if table.paths is None else table.paths.tolist()
    base = Path(root if root is not None else table.provenance.root or "")
    files = [None if path is None else base / path for path in paths]
    found = [file if file is not None and file.is_file() else None for file in files]
    if root is not None and not any(found):
        missing = listed([str(file) for file in files if file is not None][:1]) or "no paths at all"
        raise ChoqolateError(
            f"expected the images of the table in {root}, found none; the first would be {missing}: give the folder "
            "to which the paths are relative"
        )
    return found
