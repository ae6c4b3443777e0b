"""Encoders of images and texts behind one small interface. Weights are loaded when something has to be encoded."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from choqolate._util.checks import check_choice
from choqolate.concepts.checkpoint_weights import check_tokens, load_model, naming_failures
from choqolate.concepts.checkpoints import MODEL_CLASSES, Checkpoint, find_checkpoint, weight_files
from choqolate.concepts.preprocessing import ImageTransform, as_rgb
from choqolate.data.provenance import BackboneRecord
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    import torch
    from PIL import Image

DEFAULT_BACKBONE = "openai/clip-vit-large-patch14-336"  # the paper's: OpenAI CLIP ViT-L/14 at 336 pixels
PRECISIONS = ("auto", "float32", "float16", "bfloat16")
_TEXTS_AT_ONCE = 256


class Backbone(ABC):
    """Encodes images and texts into the same space.

    Attributes:
        name: what the user calls it.
        identity: names the weights, the architecture and the preprocessing by their content.
        transform: from an image to the pixels that :meth:`encode_pixels` takes.
    """

    name: str
    identity: str
    transform: ImageTransform

    def __init__(self, *, device: str = "auto", precision: str = "auto") -> None:
        check_choice("precision", precision, PRECISIONS)
        self._device_wanted, self._precision_wanted = device, precision

    @property
    @abstractmethod
    def dim(self) -> int:
        """Length d of an embedding."""

    @abstractmethod
    def image_features(self, pixels: torch.Tensor) -> torch.Tensor:
        """Embeddings ``(B, d)`` of normalised pixels ``(B, 3, H, W)``."""

    @abstractmethod
    def text_features(self, texts: list[str]) -> torch.Tensor:
        """Embeddings ``(B, d)`` of texts."""

    @cached_property
    def device(self) -> torch.device:
        """Where encoding happens."""
        from choqolate._util.device import pick_device

        return pick_device(self._device_wanted)

    @property
    def may_use_gpu(self) -> bool:
        """Whether encoding may happen on a CUDA device, here or on another machine."""
        return self._device_wanted.partition(":")[0] in ("auto", "cuda")

    def unloaded(self, device: str | None = None) -> Self:
        """A copy without weights for another process, which loads them there, on another device if one is given."""
        twin = copy.copy(self)
        kinds = [vars(kind).items() for kind in type(self).__mro__]
        for name in [name for members in kinds for name, value in members if isinstance(value, cached_property)]:
            vars(twin).pop(name, None)
        twin._precision_wanted = self.precision
        if device is not None:
            twin._device_wanted = device
        return twin

    @property
    def precision(self) -> str:
        """Of the weights and activations; half on a GPU unless told otherwise."""
        if self._precision_wanted != "auto":
            return self._precision_wanted
        return self._half() if self.device.type == "cuda" else "float32"

    def _half(self) -> str:
        return "float16"

    @property
    def batch_size(self) -> int:
        """Images that keep the device busy."""
        return 128 if self.device.type == "cuda" else 32

    def encode_pixels(self, pixels: np.ndarray) -> np.ndarray:
        """Unit vectors ``(B, d)``, float32, of pixels ``(B, H, W, 3)``, uint8, as ``transform`` gives them."""
        import torch

        levels = torch.from_numpy(self.transform.levels()).to(self.device)
        raw = torch.from_numpy(np.ascontiguousarray(pixels)).to(self.device)
        normalised = torch.stack([levels[channel][raw[..., channel].int()] for channel in range(3)], 1)
        with torch.inference_mode():
            return self._unit(self.image_features(normalised.to(self._dtype)), "images")

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors ``(T, d)``, float32."""
        import torch

        parts = [list(texts[start : start + _TEXTS_AT_ONCE]) for start in range(0, len(texts), _TEXTS_AT_ONCE)]
        with torch.inference_mode():
            encoded = [self._unit(self.text_features(part), "texts") for part in parts]
        return np.concatenate([np.empty((0, self.dim), np.float32), *encoded])

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Unit vectors ``(B, d)`` of images in memory."""
        if not len(images):
            return np.empty((0, self.dim), np.float32)
        return self.encode_pixels(np.stack([self.transform(as_rgb(image)) for image in images]))

    def _unit(self, features: torch.Tensor, what: str) -> np.ndarray:
        vectors = features.float()
        if vectors.ndim != 2 or vectors.shape[1] != self.dim:
            came = tuple(vectors.shape)
            raise ChoqolateError(f"expected vectors of {self.dim} numbers for {what}, {self.name} gave {came}")
        norms = vectors.norm(dim=1, keepdim=True)
        if not bool((norms.isfinite() & (norms > 0)).all()):
            raise ChoqolateError(
                f"{self.name} gave no finite vector for some {what}: try precision='float32', or other weights"
            )
        result: np.ndarray = (vectors / norms).cpu().numpy()
        return result

    @property
    def _dtype(self) -> torch.dtype:
        import torch

        dtype: torch.dtype = getattr(torch, self.precision)
        return dtype

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.dim} numbers a vector)"

    def describe(self) -> BackboneRecord:
        """What has to be known to tell whether vectors can be compared."""
        return BackboneRecord(name=self.name, identity=self.identity, precision=self.precision, dim=self.dim)


class TransformersBackbone(Backbone):
    """Any CLIP or SigLIP checkpoint in the format of transformers, by hub name or folder."""

    def __init__(self, checkpoint: Checkpoint, *, device: str = "auto", precision: str = "auto") -> None:
        super().__init__(device=device, precision=precision)
        self._checkpoint = checkpoint
        self.name = checkpoint.name
        self.identity = checkpoint.identity
        self.transform = checkpoint.transform

    @property
    def dim(self) -> int:
        return self._checkpoint.dim

    def _half(self) -> str:
        import torch

        # CLIP was trained in float16; SigLIP in bfloat16, whose range its activations use
        siglip = self._checkpoint.is_siglip and torch.cuda.is_bf16_supported()
        return "bfloat16" if siglip else "float16"

    @cached_property
    def _model(self) -> Any:
        import transformers
        from transformers.utils import logging

        checkpoint = self._checkpoint
        model_class = getattr(transformers, MODEL_CLASSES[checkpoint.config["model_type"]])
        with _quiet(logging):
            model = load_model(model_class, checkpoint.folder, weight_files(checkpoint.folder))
        return model.to(self.device, self._dtype).eval().requires_grad_(False)

    @cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer
        from transformers.utils import logging

        folder = self._checkpoint.folder
        with _quiet(logging), naming_failures(f"the tokenizer in {folder} cannot be loaded"):
            return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)

    def image_features(self, pixels: torch.Tensor) -> torch.Tensor:
        model = self._model
        with naming_failures(f"{self.name} cannot encode images"):
            return _projected(model.get_image_features(pixel_values=pixels))

    def text_features(self, texts: list[str]) -> torch.Tensor:
        model, tokens = self._model, self._tokens(texts)
        with naming_failures(f"{self.name} cannot encode texts"):
            return _projected(model.get_text_features(**tokens))

    def _tokens(self, texts: list[str]) -> dict[str, torch.Tensor]:
        from transformers.utils import logging

        checkpoint, length = self._checkpoint, self._checkpoint.context_length
        with _quiet(logging), naming_failures(f"{self.name} cannot read texts"):
            counts = [len(ids) for ids in self._tokenizer(texts)["input_ids"]]
            # SigLIP was trained with full-length padding; CLIP ignores what comes after the end of the text
            padding = "max_length" if checkpoint.is_siglip else "longest"
            found = self._tokenizer(texts, padding=padding, max_length=length, truncation=True, return_tensors="pt")
        for text, count in zip(texts, counts, strict=True):
            if count > length:
                raise too_long(text, length, self.name)
        check_tokens(found["input_ids"], self._model.config.text_config, checkpoint.folder)
        names = ("input_ids",) if checkpoint.is_siglip else ("input_ids", "attention_mask")
        return {name: found[name].to(self.device) for name in names if name in found}


def load_backbone(
    name: str | os.PathLike[str] = DEFAULT_BACKBONE, *, device: str = "auto", precision: str = "auto"
) -> Backbone:
    """An encoder by name.

    Args:
        name: a hub name (``"openai/clip-vit-base-patch32"``, ``"google/siglip-base-patch16-224"``), a folder with a
            CLIP or SigLIP checkpoint, ``"open_clip:ViT-B-32/laion2b_s34b_b79k"`` if open_clip is installed, or
            ``"mini"``, the small encoder of drawn birds that comes with the package.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ...
        precision: ``"auto"`` (half on a GPU, float32 elsewhere), ``"float32"``, ``"float16"`` or ``"bfloat16"``.

    Raises:
        ChoqolateError: if there are no such weights here and none can be downloaded.
    """
    if not isinstance(name, str | os.PathLike):
        raise ChoqolateError(f"Expected the name of an encoder or the folder of its weights, got {name!r}.")
    if name == "mini":  # a folder of this name is ./mini or a Path
        from choqolate.concepts.mini_backbone import MiniBackbone

        return MiniBackbone(device=device, precision=precision)
    text = os.fspath(name)
    if text.startswith("open_clip:"):
        from choqolate.concepts.openclip import OpenClipBackbone

        return OpenClipBackbone(text, device=device, precision=precision)
    return TransformersBackbone(find_checkpoint(text), device=device, precision=precision)


def too_long(text: str, length: int, name: str) -> ChoqolateError:
    """The error for a text of which an encoder would not see the end."""
    shown = text if len(text) <= 60 else f"{text[:59]}…"
    return ChoqolateError(f"expected texts of at most {length} tokens, {name} would cut off {shown!r}: shorten it")


def _projected(output: Any) -> torch.Tensor:
    """The projected embedding: a tensor in transformers 4, ``.pooler_output`` of an object in transformers 5."""
    features: torch.Tensor = getattr(output, "pooler_output", output)
    return features


class _quiet:
    """Loading bars and advice of transformers held back for a moment."""

    def __init__(self, logging: Any) -> None:
        self._logging = logging

    def __enter__(self) -> None:
        self._level = self._logging.get_verbosity()
        self._bars = self._logging.is_progress_bar_enabled()
        self._logging.set_verbosity_error()
        self._logging.disable_progress_bar()

    def __exit__(self, *_: object) -> None:
        self._logging.set_verbosity(self._level)
        if self._bars:
            self._logging.enable_progress_bar()
