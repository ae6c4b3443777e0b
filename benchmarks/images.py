"""Speed on the way from images to scores, with a CLIP of ViT-B/32's size and random weights."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from transformers import CLIPConfig

import choqolate as cq
from choqolate.concepts.embedding_folder import EmbeddingFolder

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.tiny import write_clip

IMAGES, BATCH = 256, 32
CACHED, WORDS, DIM = 100_000, 226, 768


@cache
def workplace() -> Path:
    """A folder that goes with the process."""
    folder = tempfile.TemporaryDirectory()
    workplace.__dict__["keep"] = folder
    return Path(folder.name)


@cache
def backbone():
    """CLIP ViT-B/32 by its sizes (embeddings as long as ViT-L/14's)."""
    return cq.load_backbone(write_clip(workplace() / "backbone", config=CLIPConfig(projection_dim=DIM)))


def album() -> Path:
    """JPEG files of 500 x 375 pixels, as most data sets have them."""
    folder = workplace() / "album"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for index in range(IMAGES):
        coarse = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)).resize((500, 375))
        grain = rng.integers(-12, 12, (375, 500, 3))
        Image.fromarray((np.asarray(coarse) + grain).clip(0, 255).astype(np.uint8)).save(folder / f"{index}.jpg")
    return folder


def embedding_tasks() -> tuple[Callable[[], object], Callable[[], object]]:
    """All of ``embed``, from files to shards, and a loop that only runs the encoder on ready tensors."""
    manifest, encoder, ready = cq.datasets.read_folder(album()), backbone(), torch.rand(BATCH, 3, 224, 224)

    def ours() -> None:
        with tempfile.TemporaryDirectory() as folder:
            cq.embed(manifest, encoder, folder, batch_size=BATCH)

    def bare() -> None:
        with torch.inference_mode():
            for _ in range(IMAGES // BATCH):
                encoder._model.get_image_features(pixel_values=ready)

    return ours, bare


def vocabulary_seconds() -> float:
    """New words on cached images: load the embeddings, encode the words, multiply, save the scores."""
    rng = np.random.default_rng(0)
    paths = [f"{index:06}.jpg" for index in range(CACHED)]
    digests = [rng.bytes(32) for _ in paths]
    folder = EmbeddingFolder.create(workplace() / "cached", backbone())
    for start in range(0, CACHED, 256):
        vectors = rng.standard_normal((len(digests[start : start + 256]), DIM), dtype=np.float32)
        folder.images.add(digests[start : start + 256], vectors)
    folder.write_rows(cq.Manifest(workplace(), paths), digests)
    words = cq.Vocabulary.parse([f"word {index}" for index in range(WORDS)])
    start = time.perf_counter()
    cq.score(cq.Embeddings.load(folder.path), words, backbone()).save(workplace() / "scores.parquet")
    return time.perf_counter() - start
