"""Images from disk to the pixels that an encoder takes. Light to import: worker processes need nothing else."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps

from choqolate._util.ignored_warnings import ignored_warnings

MAX_PIXELS = 178_956_970  # where Pillow itself speaks of a decompression bomb
MAX_BYTES = 1 << 30
_MAX_ELONGATION = 100  # beyond it only the middle of an image is resized, all that a centre crop shows
_INT64 = (1 << 63) - 1
_STRIP = 1 << 20  # levels brought to eight bits at a time
_SETTLED_NS = 2_000_000_000  # coarsest clock among file systems


class Unreadable(Exception):
    """Why a file gives no image."""


class FileState(NamedTuple):
    """What tells a file apart from another one of its name without reading it; times in nanoseconds.

    Two files that were written in the same tick of the clock may agree in size and times; they differ in the inode.
    """

    size: int
    modified: int
    changed: int
    inode: int


NO_STATE = FileState(-1, -1, -1, -1)


class Prepared(NamedTuple):
    """What became of one file: its pixels, unless its content is known already, or the reason why there are none."""

    digest: bytes = b""
    state: FileState | None = None
    pixels: np.ndarray | None = None
    error: str = ""


@dataclass(frozen=True)
class ImageTransform:
    """Resize, crop and normalise as the encoder was trained with.

    Attributes:
        size: length of the shorter side, or (height, width).
        crop: (height, width) of the centre that is kept; ``None`` for all.
        resample: Pillow's number of the filter (2 bilinear, 3 bicubic).
        mean, std: by channel, of values in [0, 1].
        scale: factor that brings levels 0 to 255 to [0, 1].
        round_half: where an odd margin is cut: as torchvision does (nearest even), or rounded down.

    >>> transform = ImageTransform(size=4, crop=(4, 4), mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    >>> transform(Image.new("RGB", (9, 7), "white")).shape
    (4, 4, 3)
    >>> transform.levels()[:, [0, 255]].tolist()
    [[-1.0, 1.0], [-1.0, 1.0], [-1.0, 1.0]]
    """

    size: int | tuple[int, int]
    crop: tuple[int, int] | None
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    resample: int = 3
    scale: float = 1 / 255
    round_half: bool = False

    def __call__(self, image: Image.Image) -> np.ndarray:
        """Pixels ``(H, W, 3)``, uint8, of an RGB image."""
        if isinstance(self.size, int):
            image = _middle(image, _MAX_ELONGATION)
        resized = image.resize(self._target(image.size), resample=Image.Resampling(self.resample))
        return np.asarray(resized if self.crop is None else self._centre(resized))

    def levels(self) -> np.ndarray:
        """What each of the 256 levels of a channel becomes, ``(3, 256)`` float32: (scale * level - mean) / std.

        The same operations in the same precision as in transformers, so that the numbers are the same bit for bit.
        """
        rescaled = (np.arange(256, dtype=np.float64) * self.scale).astype(np.float32)
        mean, std = (np.asarray(values, dtype=np.float32)[:, None] for values in (self.mean, self.std))
        return (rescaled - mean) / std

    def _target(self, size: tuple[int, int]) -> tuple[int, int]:
        """(width, height) to resize to."""
        if not isinstance(self.size, int):
            return self.size[1], self.size[0]
        width, height = size
        if width <= height:
            return self.size, int(self.size * height / width)
        return int(self.size * width / height), self.size

    def _centre(self, image: Image.Image) -> Image.Image:
        """The middle of an image; where it is too small, with black around it."""
        assert self.crop is not None
        height, width = self.crop
        left, top = (_margin(free, self.round_half) for free in (image.width - width, image.height - height))
        return image.crop((left, top, left + width, top + height))


def _margin(free: int, round_half: bool) -> int:
    return round(free / 2) if round_half else free // 2


def _middle(image: Image.Image, elongation: int) -> Image.Image:
    """The middle of a very long image: resized as a whole it would fill the memory."""
    width, height = image.size
    longest = elongation * min(width, height)
    if max(width, height) <= longest:
        return image
    left, top = max(0, (width - longest) // 2), max(0, (height - longest) // 2)
    return image.crop((left, top, left + min(width, longest), top + min(height, longest)))


def file_state(path: str) -> FileState:
    """Size and times of a regular file.

    Raises:
        Unreadable: if there is none. Pipes and devices are refused: reading them may never end.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise Unreadable("no such file") from None
    except (OSError, ValueError) as error:
        raise Unreadable(getattr(error, "strerror", None) or str(error)) from None
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable("not a file")
    return FileState(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino & _INT64)


def settled(state: FileState, now_ns: int) -> bool:
    """Whether a later change would show in the times: not if the file changed within one tick of a coarse clock."""
    return max(state.modified, state.changed) < now_ns - _SETTLED_NS


def read_content(path: str) -> tuple[bytes, FileState]:
    """All bytes of a file, and its state before they were read."""
    state = file_state(path)
    if state.size == 0:
        raise Unreadable("the file is empty")
    if state.size > MAX_BYTES:
        raise Unreadable(f"{state.size:,} bytes are more than an image has (at most {MAX_BYTES:,})")
    try:
        with open(path, "rb") as file:
            return file.read(), state
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from None


def decode(
    content: bytes,
    reduced_to: int | None = None,
    *,
    max_pixels: int = MAX_PIXELS,
    formats: tuple[str, ...] | None = None,
) -> Image.Image:
    """The image in a file's bytes: first frame, upright, 8 bits of red, green and blue, transparency on white.

    Args:
        content: of the file.
        reduced_to: pixels that each side has at least, where fewer are faster to decode (JPEG); by default, all.
        max_pixels: images with more are refused before they are decoded.
        formats: by Pillow's names, if it knows them; by default all that can be read safely.

    Raises:
        Unreadable: with the reason.
    """
    with ignored_warnings():  # oddities in metadata; what matters is raised
        try:
            image = Image.open(io.BytesIO(content), formats=_formats(formats))
            if image.width * image.height > max_pixels:
                raise Unreadable(
                    f"{image.width:,} x {image.height:,} pixels are more than the {max_pixels:,} that are taken"
                )
            if reduced_to is not None:
                image.draft(None, (reduced_to, reduced_to))
            image.load()
            return as_rgb(_upright(image))
        except Image.DecompressionBombError as error:
            raise Unreadable(f"too many pixels: {error}") from None
        except Image.UnidentifiedImageError:
            raise Unreadable("not an image in a known format") from None
        except (Exception, MemoryError) as error:  # decoders raise whatever they please on damaged files
            if isinstance(error, Unreadable):
                raise
            raise Unreadable(f"{error or type(error).__name__}") from None


@lru_cache(maxsize=4)
def _formats(chosen: tuple[str, ...] | None) -> tuple[str, ...]:
    """All that Pillow reads, or some of it, but PostScript, which it hands to another program to be executed."""
    Image.init()
    return tuple(name for name in Image.ID if name != "EPS" and (chosen is None or name in chosen))


def _upright(image: Image.Image) -> Image.Image:
    with suppress(Exception):  # a damaged note on the orientation does not make the image unreadable
        ImageOps.exif_transpose(image, in_place=True)
    return image


def as_rgb(image: Image.Image) -> Image.Image:
    """An image in 8 bits of red, green and blue, transparency on white."""
    if image.mode == "RGB" and not image.has_transparency_data:
        return image
    if image.mode.startswith("I") or image.mode == "F":
        return Image.fromarray(_eight_bits(np.asarray(image))).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _eight_bits(grey: np.ndarray) -> np.ndarray:
    """Grey levels of 16 or 32 bits or of floating point as 0 to 255, by the range that their values tell of."""
    finite = np.isfinite(grey) if grey.dtype.kind == "f" else True
    low = float(np.min(grey, where=finite, initial=0))
    high = float(np.max(grey, where=finite, initial=low))
    if grey.dtype.kind == "f":
        top = next((top for top in (1.0, 255.0, 65535.0) if high <= top), None)
    else:
        top = 65535.0 if grey.dtype.itemsize == 2 or 255 < high <= 65535 else 255.0 if high <= 255 else None
    if low < 0 or top is None:
        top = max(high - low, float(np.finfo(np.float64).tiny))
    else:
        low = 0.0
    levels = np.empty(grey.shape, dtype=np.uint8)
    rows = max(1, _STRIP // max(1, grey.shape[1]))
    for start in range(0, len(grey), rows):  # a strip at a time: floating point takes eight times the room
        strip = np.nan_to_num(grey[start : start + rows].astype(np.float64), posinf=0.0, neginf=0.0)
        levels[start : start + rows] = ((strip - low) * (255.0 / top)).round()
    return levels


def prepare(paths: Sequence[str], transform: ImageTransform, known: Callable[[bytes], bool]) -> list[Prepared]:
    """Read, identify and decode files; the pixels of known content are not asked for again."""
    return [_prepare(path, transform, known) for path in paths]


def _prepare(path: str, transform: ImageTransform, known: Callable[[bytes], bool]) -> Prepared:
    try:
        content, state = read_content(path)
        digest = hashlib.sha256(content).digest()
        if known(digest):
            return Prepared(digest, state)
        return Prepared(digest, state, transform(decode(content)))
    except Unreadable as error:
        return Prepared(error=str(error))
    except MemoryError:
        return Prepared(error="not enough memory to decode it")
