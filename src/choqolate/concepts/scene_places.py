"""Which place each image shows, among the 365 of Places365: from a classifier's scores, or zero-shot by a backbone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from choqolate.concepts.backbones import Backbone
from choqolate.concepts.embedding import Embeddings
from choqolate.concepts.score_images import score_images
from choqolate.concepts.vocabulary import Vocabulary
from choqolate.data.manifest import Manifest
from choqolate.data.scores import ConceptScores
from choqolate.datasets.coco import read_images
from choqolate.datasets.places import PlacePredictions, check_predictions_file, places365
from choqolate.errors import ChoqolateError

Place = str | os.PathLike[str]

TEMPLATES = ("a photo of a {}.", "a photo of the {}.")  # those of CLIP's authors for SUN397, as the words are


def scene_vocabulary() -> Vocabulary:
    """The 365 scene names as words.

    >>> scene_vocabulary().prompts()[424]
    'a photo of a library indoor.'
    """
    return Vocabulary.parse([name.replace("_", " ").replace("/", " ") for name in places365()], templates=TEMPLATES)


def predict_places(
    source: Place | Manifest | Embeddings | ConceptScores,
    backbone: Backbone | Place | None = None,
    *,
    output: Place | None = None,
    device: str = "auto",
    precision: str = "auto",
    embeddings: Place | None = None,
    workers: int | None = None,
    batch_size: int | None = None,
    verbose: bool = False,
) -> PlacePredictions:
    """Predict the place of every image: pseudo-labels, which ``read_dataset("coco", ..., places=...)`` takes.

    Zero-shot, each image gets the scene name whose prompts are most similar to it. Encoded images are kept: after a
    kill, the same call continues.

    Args:
        source: a copy of COCO, a folder of embeddings, or a manifest or embeddings in memory; or a classifier's 365
            scores per image, as a table or a file, see :meth:`PlacePredictions.from_score_file`.
        backbone: the encoder for zero-shot predictions, as in :func:`~choqolate.score_images`.
        output: a new CSV file to write: image, place, model.
        device, precision, embeddings, workers, batch_size: see :func:`~choqolate.score_images`; for images.
        verbose: show progress on stderr.

    Raises:
        ChoqolateError: if the scores are not of the 365 places, there are no images, the file exists, or an argument
            has no meaning for this source.
    """
    if output is not None:
        check_predictions_file(Path(output))
    how = {"embeddings": embeddings, "workers": workers, "batch_size": batch_size}
    scored = _scored(source)
    if scored is None:
        predicted = _zero_shot(source, backbone=backbone, device=device, precision=precision, verbose=verbose, **how)
    else:
        given = [name for name, value in {"backbone": backbone, **how}.items() if value is not None]
        if given:
            raise ChoqolateError(
                f"Expected no {' or '.join(given)} because the source holds scores. Leave out what has no effect."
            )
        predicted = scored
    if output is not None:
        predicted.save(output)
    return predicted


def _scored(source: Any) -> PlacePredictions | None:
    """What a classifier's scores say; ``None`` if the source holds images."""
    if isinstance(source, ConceptScores):
        name = source.provenance.backbone.name
        return PlacePredictions.from_scores(source, _model_name(name) if name else "a classifier of your own")
    if isinstance(source, Manifest | Embeddings) or Path(source).is_dir():
        return None
    if not Path(source).exists():
        raise ChoqolateError(
            f"Expected a copy of COCO, a folder of embeddings or a file of scores, but {source} does not exist. Check "
            "the name."
        )
    return PlacePredictions.from_score_file(Path(source))


def _zero_shot(source: Any, **how: Any) -> PlacePredictions:
    images = source
    if not isinstance(source, Manifest | Embeddings) and not Embeddings.are_in(source):
        images = read_images(source)
    table = score_images(images, scene_vocabulary(), **how)
    named = ConceptScores(table.scores, places365(), rows=table.rows)
    name = _model_name(str(table.provenance.backbone.name))
    return PlacePredictions.from_scores(named, f"{name}, zero-shot on the 365 scene names")


def _model_name(name: str) -> str:
    """What a backbone is called; of a folder on somebody's machine the last part."""
    return Path(name).name if os.path.isabs(name) else name
