"""Scenes to images, on all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from choqolate._util.processes import n_cores
from choqolate._util.progress import item_bar
from choqolate.datasets.birds.attributes import Scenes
from choqolate.datasets.birds.backdrops import draw_backdrop
from choqolate.datasets.birds.figure import draw_bird

SIZE = 96  # pixels of an image's side
_FINER = 3  # drawn so many times as large, then reduced: edges come out smooth
_TASK = 40  # scenes handed to a process at a time
_JPEG = {"quality": 92, "subsampling": 0}


def draw_scene(scene: Mapping[str, str], seed: int, size: int = SIZE) -> Image.Image:
    """The image of a scene, ``size x size``, RGB.

    Args:
        scene: a value for every attribute.
        seed: of what the attributes leave open: pose, shades, the place's details.
        size: pixels of a side.

    >>> from choqolate.datasets.birds.attributes import sample_scenes
    >>> scenes = sample_scenes(2, agreement=1.0)
    >>> draw_scene(scenes.scene(0), scenes.seeds[0]).size
    (96, 96)
    """
    rng = np.random.default_rng(seed)
    large = _FINER * size
    image = draw_backdrop(scene["place"], scene["light"], large, rng)
    draw_bird(ImageDraw.Draw(image), scene, large, rng)
    return image.reduce(_FINER)


def write_scenes(scenes: Scenes, files: Sequence[Path], *, workers: int | None = None, verbose: bool = False) -> None:
    """Draw every scene into its file, as JPEG; the folders are there."""
    for _ in _mapped(_write, scenes, [str(file) for file in files], workers, "drawing birds", verbose):
        pass


def draw_pixels(scenes: Scenes, size: int, *, workers: int | None = None, verbose: bool = False) -> np.ndarray:
    """All scenes as pixels ``(n, size, size, 3)``, uint8, drawn at the usual size and then resized."""
    parts = _mapped(_pixels, scenes, [size] * len(scenes), workers, "drawing birds", verbose)
    return np.concatenate([np.empty((0, size, size, 3), np.uint8), *parts])


def _mapped(
    task: Callable[..., Any], scenes: Scenes, extra: Sequence[Any], workers: int | None, label: str, verbose: bool
) -> Iterator[Any]:
    """A task for some scenes at a time, in order, in processes of their own unless there is little to do."""
    from joblib import Parallel, delayed

    rows = [range(start, min(start + _TASK, len(scenes))) for start in range(0, len(scenes), _TASK)]

    def job(part: range) -> Any:
        seeds = scenes.seeds[part.start : part.stop].tolist()
        return delayed(task)([scenes.scene(row) for row in part], seeds, extra[part.start : part.stop])

    n_jobs = 1 if len(rows) < 4 else workers or n_cores()
    with item_bar(len(scenes), label, enabled=verbose) as advance:
        for part, result in zip(rows, Parallel(n_jobs, return_as="generator")(map(job, rows)), strict=True):
            advance(len(part))
            yield result


def _write(scenes: Sequence[Mapping[str, str]], seeds: Sequence[int], files: Sequence[str]) -> None:
    for scene, seed, file in zip(scenes, seeds, files, strict=True):
        draw_scene(scene, seed).save(file, "JPEG", **_JPEG)


def _pixels(scenes: Sequence[Mapping[str, str]], seeds: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    images = (draw_scene(scene, seed) for scene, seed in zip(scenes, seeds, strict=True))
    side = (sizes[0], sizes[0])
    return np.stack([np.asarray(image.resize(side, Image.Resampling.BICUBIC)) for image in images])
