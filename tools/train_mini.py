"""Train the encoder that comes with the package, from nothing, on drawn birds and captions of what they show.

    make mini        # or: python tools/train_mini.py

Half of the images show birds of no kind, every attribute as likely as the others; half show the birds of the data
set, with the place independent of the class. A caption names a few of the things that are true of an image, in one of
several words each; every image gets four new captions in every step. Captions are loose with places, as people are:
now and then a lake is called a river or a beach. And words for the same thing have their nuances: one is more common by
day, the other in the evening. Without that, the scores of places would have nothing to do with each other and those of
synonyms would be one and the same, which is not how real vocabularies behave. The loss is that of CLIP.

What was learned is measured on new images: the area under the ROC curve of each word's score against the truth. The
words of the data set's vocabulary must all reach 0.9, else nothing is written.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from rich.progress import track
from sklearn.metrics import roc_auc_score

import choqolate
from choqolate._util.files import write_bytes
from choqolate.concepts import mini_backbone as mini
from choqolate.datasets.base import words
from choqolate.datasets.birds.attributes import ATTRIBUTES, SIDES, Scenes, sample_freely, sample_scenes
from choqolate.datasets.birds.scenes import draw_pixels
from choqolate.datasets.birds.words import FAMILIES, MEANING, Family, truth

TARGET = Path(choqolate.__file__).parent / "concepts" / mini.WEIGHTS
TRAIN_SEED, CHECK_SEED = 1_000, 2_000  # neither is a seed of the data set
CAPTIONS = 4
MOST_NAMED = 4  # things in a caption
NAMED = {"bill": 3.0, "tail": 2.0, "colour": 0.5, "light": 0.5}  # small things are named more often than obvious ones
LOOSE = 0.2  # how often a place is called by the name of another one on the same side
NUANCE = 0.6  # how often the word for a thing is the one that suits the light
LEAST_AUC = 0.9


def mixed_scenes(n: int, seed: int) -> Scenes:
    """Half birds of no kind, half birds of the data set before places that say nothing of their class."""
    return sample_freely(n // 2, seed).join(sample_scenes(n - n // 2, agreement=0.5, seed=seed))


class Captions:
    """Captions of scenes: a few of the words that are true of each, as hashed features."""

    def __init__(self, scenes: Scenes) -> None:
        true = np.stack([truth(family.words[0], scenes) for family in FAMILIES], axis=1)
        self._true = [np.flatnonzero(row) for row in true]
        self._weight = np.array([NAMED.get(family.attribute, 1.0 / len(family.values)) for family in FAMILIES])
        self._alike = [_alike(family) for family in FAMILIES]
        self._light = [ATTRIBUTES["light"].index(light) for light in scenes.values["light"]]
        self._features = [[mini.features(word) for word in family.words] for family in FAMILIES]

    def draw(self, rows: np.ndarray, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """One caption for each row, as :func:`choqolate.concepts.mini_backbone.bag` gives them."""
        texts = []
        for row in rows:
            # a weighted draw without replacement: the largest of log(u) / weight
            order = np.log(rng.random(len(self._true[row]))) / self._weight[self._true[row]]
            families = self._true[row][np.argsort(-order)[: rng.integers(1, MOST_NAMED + 1)]]
            texts.append([bucket for family in families for bucket in self._word(family, self._light[row], rng)])
        return mini.bag(texts)

    def _word(self, family: int, light: int, rng: np.random.Generator) -> list[int]:
        if self._alike[family] and rng.random() < LOOSE:
            family = rng.choice(self._alike[family])
        words = self._features[family]
        return words[(light + family if rng.random() < NUANCE else rng.integers(len(words))) % len(words)]


def _alike(family: Family) -> list[int]:
    """The families of single places on the same side; none for all else."""
    side = next((places for places in SIDES.values() if family.values[0] in places), ())
    if len(family.values) > 1 or not side:
        return []
    return [index for index, other in enumerate(FAMILIES) if len(other.values) == 1 and other.values[0] in side]


def normalised(pixels: np.ndarray) -> torch.Tensor:
    """Levels ``(B, H, W, 3)`` as the image tower takes them ``(B, 3, H, W)``; the channels stay last in memory."""
    transform = mini.MiniBackbone.transform
    mean, std = (torch.tensor(values)[:, None, None] for values in (transform.mean, transform.std))
    return (torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255 - mean) / std


def train(pixels: np.ndarray, captions: Captions, *, epochs: int, batch_size: int, rate: float) -> mini.MiniNetwork:
    """The loss of CLIP over batches of images, each with four captions."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    network = mini.MiniNetwork().to(memory_format=torch.channels_last)
    log_scale = torch.nn.Parameter(torch.tensor(np.log(10.0), dtype=torch.float32))
    parameters = [*network.parameters(), log_scale]
    steps = len(pixels) // batch_size
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=epochs * steps, pct_start=0.15)
    target = torch.arange(batch_size)
    for epoch in range(epochs):
        order, total = rng.permutation(len(pixels))[: steps * batch_size].reshape(steps, batch_size), 0.0
        for rows in track(order, f"epoch {epoch + 1} of {epochs}", transient=True):
            images = F.normalize(network.encode_pixels(normalised(pixels[rows])))
            loss = torch.zeros(())
            for _ in range(CAPTIONS):
                texts = F.normalize(network.encode_features(*captions.draw(rows, rng)))
                logits = log_scale.exp().clamp(max=100) * images @ texts.T
                loss = loss + (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / (2 * CAPTIONS)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch + 1:2d}: loss {total / steps:.3f}, scale {log_scale.exp():.1f}", flush=True)
    return network.eval()


def word_aucs(network: mini.MiniNetwork, scenes: Scenes, pixels: np.ndarray, chosen: Sequence[str]) -> dict[str, float]:
    """Area under the ROC curve of each word's score, against the truth."""
    with torch.inference_mode():
        parts = (normalised(pixels[start : start + 256]) for start in range(0, len(pixels), 256))
        images = torch.cat([F.normalize(network.encode_pixels(part)) for part in parts])
        texts = F.normalize(network.encode_features(*mini.bag([mini.features(word) for word in chosen])))
    scores = (images @ texts.T).numpy()
    return {word: float(roc_auc_score(truth(word, scenes), scores[:, j])) for j, word in enumerate(chosen)}


def count(*parts: torch.nn.Module) -> int:
    """Number of parameters."""
    return sum(parameter.numel() for part in parts for parameter in part.parameters())


def main() -> None:
    """Draw, train, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=30_000)
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--least-auc", type=float, default=LEAST_AUC, help="what every word must reach")
    parser.add_argument("-o", "--output", type=Path, default=TARGET)
    arguments = parser.parse_args()
    start = time.perf_counter()
    scenes = mixed_scenes(arguments.images, TRAIN_SEED)
    pixels = draw_pixels(scenes, mini.PIXELS, verbose=True)
    print(f"{len(scenes):,} images drawn in {time.perf_counter() - start:.0f} s", flush=True)
    network = train(
        pixels, Captions(scenes), epochs=arguments.epochs, batch_size=arguments.batch_size, rate=arguments.rate
    )
    new = sample_scenes(3_000, agreement=0.5, seed=CHECK_SEED)
    aucs = word_aucs(network, new, draw_pixels(new, mini.PIXELS, verbose=True), list(MEANING))
    print("\n".join(f"{auc:.3f}  {word}" for word, auc in sorted(aucs.items(), key=lambda item: item[1])))
    images, texts = (count(network.convolutions, network.image_head), count(network.words, network.text_head))
    print(f"mean {np.mean(list(aucs.values())):.3f}; parameters: {images:,} for images, {texts:,} for texts")
    vocabulary = words("birds.core") + words("birds.spurious")
    blind = {word: round(aucs[word], 3) for word in vocabulary if aucs[word] < arguments.least_auc}
    if blind:
        raise SystemExit(f"nothing is written: the vocabulary has words that the encoder hardly sees: {blind}")
    known = [word for word, auc in aucs.items() if auc >= arguments.least_auc]
    write_bytes(arguments.output, mini.to_bytes(network, known))
    seconds = time.perf_counter() - start
    print(f"{arguments.output}: {arguments.output.stat().st_size / 1e6:.2f} MB, {len(known)} phrases, {seconds:.0f} s")


if __name__ == "__main__":
    main()
