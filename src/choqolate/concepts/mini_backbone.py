"""The encoder that comes with the package: small, trained on bird scenes, knows the words of their captions only."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Container, Iterable, Sequence
from dataclasses import astuple
from functools import cached_property
from importlib.resources import files
from itertools import pairwise
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from choqolate._util.text import listed
from choqolate.concepts.backbones import Backbone
from choqolate.concepts.preprocessing import ImageTransform
from choqolate.errors import ChoqolateError

NAME = "mini"
WEIGHTS = "mini.safetensors"
DIM = 128
PIXELS = 64
_FILLERS = (
    "a an and at before behind bird bird's birds by has have image in is it its near of on photo photograph picture "
    "scene that the there this which with"
)
FILLERS = frozenset(_FILLERS.split())
"""Words that say nothing of how an image looks, such as those of prompt templates: left out."""

_BUCKETS = 2048
_READING = 1  # changes with the way in which texts are cut into words
_TRANSFORM = ImageTransform(size=(PIXELS, PIXELS), crop=None, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))


class MiniNetwork(nn.Module):
    """Two towers into one space: convolutions for images, a bag of hashed words and pairs of words for texts."""

    def __init__(self) -> None:
        super().__init__()
        widths = ((3, 32, 2), (32, 64, 2), (64, 128, 2), (128, 128, 1), (128, 192, 2))
        self.convolutions = nn.Sequential(*(_convolution(*width) for width in widths))
        self.image_head = nn.Linear(192, DIM)
        self.words = nn.EmbeddingBag(_BUCKETS, 64, mode="mean")
        self.text_head = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, DIM))

    def encode_pixels(self, pixels: Tensor) -> Tensor:
        """Vectors ``(B, d)`` of normalised pixels ``(B, 3, 64, 64)``."""
        vectors: Tensor = self.image_head(self.convolutions(pixels).mean((2, 3)))
        return vectors

    def encode_features(self, features: Tensor, starts: Tensor) -> Tensor:
        """Vectors ``(B, d)`` of texts, from the hashed features of all and where those of each start ``(B,)``."""
        vectors: Tensor = self.text_head(self.words(features, starts))
        return vectors


def _convolution(n_in: int, n_out: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU(inplace=True))


def phrases(text: str) -> list[tuple[str, ...]]:
    """The runs of words between fillers and punctuation.

    >>> phrases("A photo of a bird with webbed feet, by the sea.")
    [('webbed', 'feet'), ('sea',)]
    """
    found: list[tuple[str, ...]] = []
    for part in re.split(r"[^\w\s']+", text.lower().replace("’", "'").replace("-", " ").replace("_", " ")):
        run: list[str] = []
        for word in [*(word.strip("'") for word in part.split()), ""]:
            if word and word not in FILLERS:
                run.append(word)
            elif run:
                found.append(tuple(run))
                run = []
    return found


def features(text: str, pairs: Container[str] | None = None) -> list[int]:
    """Buckets of all words and pairs of neighbouring words of a text; if ``pairs`` are given, of those pairs only."""
    names: list[str] = []
    for phrase in phrases(text):
        names += [*phrase, *(pair for pair in _pairs(phrase) if pairs is None or pair in pairs)]
    return [zlib.crc32(name.encode()) % _BUCKETS for name in names]


def _pairs(words: Iterable[str]) -> list[str]:
    return [f"{first} {second}" for first, second in pairwise(words)]


def bag(texts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """The features of several texts in a row, and where those of each start."""
    lengths = torch.tensor([0, *map(len, texts[:-1])])
    return torch.tensor([bucket for text in texts for bucket in text]), lengths.cumsum(0)


class MiniBackbone(Backbone):
    """The encoder that comes with the package.

    Attributes:
        known: the words and phrases that its captions were made of.

    >>> from choqolate import load_backbone
    >>> backbone = load_backbone("mini")
    >>> backbone.encode_texts(["webbed feet", "a photo of the sea"]).shape
    (2, 128)
    >>> backbone.encode_texts(["a helicopter"])
    Traceback (most recent call last):
    ...
    choqolate.errors.ChoqolateError: the backbone mini never saw 'helicopter': ...
    """

    name = NAME
    transform = _TRANSFORM

    def __init__(self, *, device: str = "auto", precision: str = "auto") -> None:
        super().__init__(device=device, precision=precision)
        content = files("choqolate.concepts").joinpath(WEIGHTS).read_bytes()
        self.known, self._content = _read_known(content), content
        shape = json.dumps([_READING, astuple(_TRANSFORM), sorted(FILLERS)]).encode()
        self.identity = f"{NAME}-{hashlib.sha256(content + shape).hexdigest()[:24]}"

    @property
    def dim(self) -> int:
        return DIM

    @property
    def batch_size(self) -> int:
        return 64

    @cached_property
    def _network(self) -> MiniNetwork:
        network = MiniNetwork()
        network.load_state_dict({name: weight.float() for name, weight in load(self._content).items()})
        network.convolutions.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # twice as fast
        return network.to(self.device, self._dtype).eval().requires_grad_(False)

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(word for phrase in self.known for word in phrase.split())

    @cached_property
    def _pairs(self) -> frozenset[str]:
        return frozenset(pair for phrase in self.known for pair in _pairs(phrase.split()))

    def image_features(self, pixels: Tensor) -> Tensor:
        return self._network.encode_pixels(pixels.contiguous(memory_format=torch.channels_last))

    def text_features(self, texts: list[str]) -> Tensor:
        self._check(texts)
        buckets, starts = bag([features(text, self._pairs) for text in texts])
        return self._network.encode_features(buckets.to(self.device), starts.to(self.device))

    def _check(self, texts: Iterable[str]) -> None:
        """What was never seen would be noise that looks like a score."""
        words = {text: [word for phrase in phrases(text) for word in phrase] for text in texts}
        unknown = list(dict.fromkeys(word for found in words.values() for word in found if word not in self._words))
        empty = [text for text, found in words.items() if not found]
        if not unknown and not empty:
            return
        known = f'{listed(self.known)} (load_backbone("mini").known lists them)'
        unseen = listed(unknown or empty)
        if not unknown:
            raise ChoqolateError(f"expected texts that say how something looks, got {unseen}: mini knows {known}")
        raise ChoqolateError(
            f"the backbone mini never saw {unseen}: it was trained on drawn birds and knows {known}; for other words "
            "take CLIP, such as openai/clip-vit-base-patch32"
        )


def _read_known(content: bytes) -> tuple[str, ...]:
    length = int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8 : 8 + length])
    return tuple(json.loads(header["__metadata__"]["known"]))


def to_bytes(network: MiniNetwork, known: Sequence[str]) -> bytes:
    """The network as a safetensors file in half precision, with the phrases that it knows."""
    weights = network.state_dict().items()
    halves = {name: weight.half().contiguous() if weight.is_floating_point() else weight for name, weight in weights}
    return save(halves, {"known": json.dumps(list(known))})
