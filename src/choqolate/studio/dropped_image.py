"""An image that was dropped on the page: from its bytes to scaled scores, by the model's own encoder."""

from __future__ import annotations

import base64
import os
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any

from choqolate.concepts.new_images import ImageScorer
from choqolate.concepts.preprocessing import Unreadable, decode
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.estimators.predictions import doubt
from choqolate.report.image_cards import encode_small
from choqolate.studio.thumbnails import SIDES

if TYPE_CHECKING:
    from choqolate.concepts.backbones import Backbone
    from choqolate.estimators.classifier import ChoqolateClassifier

MOST_PIXELS = 64_000_000
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")  # those of browsers and cameras


class DroppedImages:
    """Scores images for a model; the encoder is loaded with the first.

    Args:
        model: whose provenance names the encoder and its prompts.
        backbone: the encoder, if it is in another place than it was.
    """

    def __init__(self, model: ChoqolateClassifier, backbone: Backbone | str | os.PathLike[str] | None = None) -> None:
        self.model, self.backbone = model, backbone
        self._lock = threading.Lock()

    @cached_property
    def _scorer(self) -> ImageScorer:
        return ImageScorer.of(self.model, self.backbone)

    def score(self, content: bytes) -> dict[str, Any]:
        """Scaled scores of an image, what makes them doubtful, and a small copy of it.

        Raises:
            ChoqolateError: if it is no image, or too large, or the encoder cannot be loaded.
        """
        try:
            image = decode(content, max_pixels=MOST_PIXELS, formats=FORMATS)
        except Unreadable as error:
            raise ChoqolateError(f"Expected an image, but it cannot be read: {error}.") from None
        with self._lock:
            raw = self._scorer.score([image])
        table = ConceptScores(raw, self.model.concepts_)
        why = doubt(self.model, table)
        return {
            "scores": self.model.scale(table)[0].tolist(),
            "warnings": [f"{why[:1].upper()}{why[1:]}."] if why else [],
            "thumbnail": base64.b64encode(encode_small(image, SIDES[0])).decode(),
        }
