"""Encoders of the open_clip package, where that is installed."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

from choqolate.concepts.backbones import Backbone, too_long
from choqolate.concepts.preprocessing import ImageTransform
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    import torch

_FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3}


class OpenClipBackbone(Backbone):
    """``open_clip:ARCHITECTURE/WEIGHTS``, for example ``open_clip:ViT-B-32/laion2b_s34b_b79k``."""

    def __init__(self, name: str, *, device: str = "auto", precision: str = "auto") -> None:
        super().__init__(device=device, precision=precision)
        self.name = name
        self._architecture, self._weights = _parts(name.removeprefix("open_clip:"))
        if not self._architecture:
            raise ChoqolateError(
                f"expected open_clip:ARCHITECTURE/WEIGHTS such as open_clip:ViT-B-32/openai, got {name!r}"
            )
        model = self._create()
        self.transform = transform_of(model.visual.preprocess_cfg)
        self.identity = f"open_clip-{_digest(model.state_dict(), self._architecture, repr(self.transform))}"
        self._model = model.to(self.device, self._dtype).eval().requires_grad_(False)

    @cached_property
    def _package(self) -> Any:
        try:
            import open_clip
        except Exception as error:  # its own imports may fail in many ways
            raise ChoqolateError(
                f"{self.name} needs the package open_clip, which cannot be imported ({error}): "
                "pip install open_clip_torch, or name a transformers checkpoint instead"
            ) from error
        return open_clip

    def _create(self) -> Any:
        package = self._package
        try:
            return package.create_model(self._architecture, pretrained=self._weights)
        except Exception as error:
            raise ChoqolateError(
                f"open_clip cannot load {self._architecture!r} with weights {self._weights!r} ({error}): "
                "open_clip.list_pretrained() names what there is"
            ) from error

    @cached_property
    def _tokenizer(self) -> Any:
        return self._package.get_tokenizer(self._architecture)

    @cached_property
    def dim(self) -> int:
        return int(self.text_features(["a"]).shape[1])

    def image_features(self, pixels: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self._model.encode_image(pixels)
        return features

    def text_features(self, texts: list[str]) -> torch.Tensor:
        tokens = self._tokenizer(texts)
        length = tokens.shape[1]
        whole = self._tokenizer(texts, context_length=4 * length)  # it cuts off what is too long, silently
        for text, row in zip(texts, whole, strict=True):
            if int((row != 0).sum()) > length:
                raise too_long(text, length, self.name)
        features: torch.Tensor = self._model.encode_text(tokens.to(self.device))
        return features


def _parts(name: str) -> tuple[str, str | None]:
    """Architecture and weights; a model of the hub or of a folder is one name that says both.

    >>> _parts("ViT-B-32/openai"), _parts("hf-hub:laion/CLIP-ViT-B-32")
    (('ViT-B-32', 'openai'), ('hf-hub:laion/CLIP-ViT-B-32', None))
    """
    if name.startswith(("hf-hub:", "local-dir:")):
        return name, None
    architecture, _, weights = name.rpartition("/")
    return (architecture, weights) if weights else ("", None)


def transform_of(settings: dict[str, Any]) -> ImageTransform:
    """How open_clip's ``preprocess_cfg`` wants its images.

    >>> transform_of({"size": (8, 8), "mean": (0.5,) * 3, "std": (0.5,) * 3, "resize_mode": "squash"}).size
    (8, 8)
    """
    size = settings["size"]
    height, width = (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
    mode = settings.get("resize_mode") or "shortest"
    if mode not in ("shortest", "squash") or (mode == "shortest" and height != width):
        raise ChoqolateError(
            f"images are resized by {mode!r} to {size}, which is not supported: use another checkpoint"
        )
    mean, std = (tuple(float(value) for value in settings[key]) for key in ("mean", "std"))
    return ImageTransform(
        size=height if mode == "shortest" else (height, width),
        crop=(height, width) if mode == "shortest" else None,
        mean=(mean[0], mean[1], mean[2]),
        std=(std[0], std[1], std[2]),
        resample=_FILTERS[settings.get("interpolation") or "bicubic"],
        round_half=True,
    )


def _digest(weights: dict[str, torch.Tensor], *parts: str) -> str:
    """Of the weights themselves: open_clip does not say which file they came from."""
    import torch

    sha = hashlib.sha256(" ".join(parts).encode())
    for name in sorted(weights):
        sha.update(name.encode())
        sha.update(weights[name].detach().float().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()[:24]
