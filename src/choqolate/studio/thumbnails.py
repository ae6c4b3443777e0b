"""Small images of the studio: JPEG files, as large as there is room for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from choqolate._util.progress import item_bar
from choqolate.report.image_cards import small_jpeg

SIDES: tuple[int, ...] = (160, 144, 128, 112, 96)  # pixels of the longer side, the best first
SAMPLE = 40  # images that sizes are measured on
KEPT = 4096  # thumbnails that a server keeps


def thumbnail_bytes(file: Path | None, side: int = SIDES[0]) -> bytes | None:
    """A small JPEG copy of an image, ``None`` if it cannot be read.

    Args:
        file: the image, if it is at hand.
        side: pixels of its longer side at most.
    """
    return small_jpeg(file, side)


cached_thumbnail = lru_cache(maxsize=KEPT)(thumbnail_bytes)
"""The same, for a server: the latest ones are kept."""


def make_thumbnails(files: Sequence[Path | None], side: int, *, verbose: bool = False) -> list[bytes | None]:
    """Make small copies of images, several at a time.

    Args:
        files: the images; ``None`` where there is none.
        side: pixels of the longer side at most.
        verbose: show progress on stderr.

    Returns:
        A JPEG file for each, ``None`` where there is no image or it cannot be read.
    """
    made: list[bytes | None] = []
    with (
        ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool,
        item_bar(len(files), "making thumbnails", enabled=verbose) as advance,
    ):
        for content in pool.map(lambda file: thumbnail_bytes(file, side), files):
            made.append(content)
            advance(1)
    return made


def mean_bytes(files: Sequence[Path | None], side: int) -> float:
    """Mean size of a thumbnail, measured on the first images that can be read; 0 if there are none."""
    at_hand = [file for file in files if file is not None][:SAMPLE]
    sizes = [len(content) for content in make_thumbnails(at_hand, side) if content is not None]
    return sum(sizes) / len(sizes) if sizes else 0.0


def choose_side(files: Sequence[Path | None], room: float, sides: Sequence[int] = SIDES) -> int:
    """Choose the largest side at which the thumbnails of all files take no more room; the smallest if none does.

    Args:
        files: the images; ``None`` where there is none.
        room: bytes for all of them.
        sides: to choose from, the largest first.
    """
    count = sum(file is not None for file in files)
    return next((side for side in sides[:-1] if 1.03 * count * mean_bytes(files, side) <= room), sides[-1])
