"""Word clouds as plain data: where each word stands and how large it is, for figures and for reports alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from choqolate._util.checks import check_number
from choqolate.errors import ChoqolateError
from choqolate.plots.style import HINTED, label, shortened, text_size

SMALLEST, LARGEST = 5.0, 96.0  # points: fonts of words
_BESIDE, _ABOVE = 0.6, 0.12  # room around a word, in font sizes
_TURN = math.pi * (3 - math.sqrt(5))  # the golden angle
_SPOTS = 2500
_STEPS = 9  # of the bisection: leaves less than one per cent of the sizes


@dataclass(frozen=True)
class PlacedWord:
    """A word of a cloud.

    Attributes:
        text: as it is to be drawn, see :func:`choqolate.plots.style.label`.
        value: as it came.
        x, y: centre of the word in points, from the top left corner of the cloud; y goes down.
        size: of the font in points.
        width, height: of the written line in points.
        index: position of the word among those that came.
    """

    text: str
    value: float
    x: float
    y: float
    size: float
    width: float
    height: float
    index: int


def place_words(
    words: Sequence[tuple[str, float]],
    width: float,
    height: float,
    *,
    smallest: float = SMALLEST,
    largest: float = LARGEST,
    most: int = 40,
) -> list[PlacedWord]:
    r"""Lay out a word cloud in a box of ``width`` × ``height`` points, largest words first and in the middle.

    The font size is :math:`k \sqrt{|value|}`, so that area goes with value, with the largest k up to ``largest`` for
    which all words fit. Words stay level, never touch, and lie inside of the box. The same words always lie the same.

    Left out are words with the value zero, words beyond the ``most`` largest, and those whose share is so small that
    they would be written smaller than ``smallest``. Words that are wider than the box even at that size end in "…"; in
    a box that does not hold all leading words of the same value, those that find no room are left out.

    Args:
        words: names and values; of values below zero the size counts.
        width, height: of the box in points.
        smallest, largest: font sizes in points.
        most: how many words at most.

    >>> sea, lake = place_words([("lake", 0.1), ("sea", 0.4), ("forest", 0.0)], 200, 100)
    >>> sea.text, lake.text, sea.index, round(sea.size / lake.size, 6)
    ('sea', 'lake', 1, 2.0)
    >>> 0 < sea.x - sea.width / 2 < sea.x + sea.width / 2 < 200
    True
    """
    check_number("most", most, minimum=0, whole=True)
    check_number("smallest", smallest, minimum=0, strict=True)
    if largest < smallest:
        raise ChoqolateError(f"expected largest to be at least smallest ({smallest:g} points), got {largest:g}")
    ranked = sorted(
        (index for index, (_, value) in enumerate(words) if value != 0 and math.isfinite(value)),
        key=lambda index: -abs(words[index][1]),
    )[:most]
    if not ranked:
        return []
    longest = width - _BESIDE * smallest
    texts = [shortened(label(words[index][0]), longest, smallest) for index in ranked]
    values = np.abs([float(words[index][1]) for index in ranked])
    ratios = np.sqrt(values / values[0])
    lines = np.array([text_size(text) for text in texts])
    boxes = lines * (HINTED, 1) + (_BESIDE, _ABOVE)
    k, centres = _fit(boxes, ratios, np.array([width, height]), smallest, largest)
    centres = _centred(centres, k * ratios[: len(centres), None] * boxes[: len(centres)], np.array([width, height]))
    placed = []
    for text, index, size, line, (x, y) in zip(texts, ranked, (k * ratios).tolist(), lines, centres, strict=False):
        if not math.isnan(x):
            across, down = (size * line).tolist()
            placed.append(PlacedWord(text, float(words[index][1]), float(x), float(y), size, across, down, index))
    return placed


def _fit(
    boxes: np.ndarray, ratios: np.ndarray, room: np.ndarray, smallest: float, largest: float
) -> tuple[float, np.ndarray]:
    """The largest size k of the leading word for which all legible words fit, and their centres ``(n, 2)``.

    Args:
        boxes: room that each word takes at size one ``(n, 2)``.
        ratios: sizes relative to the leading word ``(n,)``, falling.
        room: width and height.
        smallest, largest: legible sizes.
    """
    spots = _spots(room)

    def attempt(k: float) -> np.ndarray | None:
        legible = int((k * ratios >= smallest * (1 - 1e-9)).sum())
        scaled = k * ratios[:legible, None] * boxes[:legible]
        if scaled.prod(1).sum() > room.prod():
            return None
        centres = []
        for centre in _pack(scaled, room, spots):
            if centre is None:
                return None
            centres.append(centre)
        return np.array(centres)

    low, high = smallest, max(min(largest, *(room / boxes[0])), smallest)
    found = attempt(high)
    if found is not None:
        return high, found
    k, best = low, attempt(low)
    if best is None:
        legible = ratios >= 1 - 1e-9
        centres = _pack(low * boxes[legible], room, spots)
        return low, np.array([(math.nan, math.nan) if centre is None else centre for centre in centres])
    for _ in range(_STEPS):
        middle = math.sqrt(k * high)
        found = attempt(middle)
        if found is None:
            high = middle
        else:
            k, best = middle, found
    return k, best


def _centred(centres: np.ndarray, boxes: np.ndarray, room: np.ndarray) -> np.ndarray:
    """The whole cloud in the middle of the box."""
    placed = ~np.isnan(centres[:, 0])
    if not placed.any():
        return centres
    first, last = (centres - boxes / 2)[placed].min(0), (centres + boxes / 2)[placed].max(0)
    moved: np.ndarray = centres + (room - first - last) / 2
    return moved


def _spots(room: np.ndarray) -> np.ndarray:
    """Points ``(n, 2)`` all over the box, evenly and from the centre outwards: a sunflower's spiral."""
    steps = np.arange(_SPOTS)
    radius, angle = np.sqrt(steps / _SPOTS), steps * _TURN
    circle = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    spots: np.ndarray = (0.5 + circle / math.sqrt(2)) * room
    return spots[((spots >= 0) & (spots <= room)).all(1)]


def _pack(boxes: np.ndarray, room: np.ndarray, spots: np.ndarray) -> Iterator[np.ndarray | None]:
    """For each box the first spot where it touches none before it; ``None`` where there is no room."""
    placed, halves = np.empty_like(boxes), np.empty_like(boxes)
    count = 0
    for half in boxes / 2:
        spot = None
        if (2 * half <= room + 1e-9).all():
            # Spots near the edge move inwards until the box is inside: wide words find room above each other.
            spot = _first_free(
                np.clip(spots, half, np.maximum(room - half, half)), placed[:count], halves[:count] + half
            )
        if spot is not None:
            placed[count], halves[count] = spot, half
            count += 1
        yield spot


def _first_free(spots: np.ndarray, placed: np.ndarray, apart: np.ndarray) -> np.ndarray | None:
    """The first of the spots that is ``apart`` from each of the ``placed``, in width or in height."""
    start, step = 0, 64
    while start < len(spots):
        near = spots[start : start + step]
        beside = np.abs(near[:, :1] - placed[:, 0]) < apart[:, 0]
        above = np.abs(near[:, 1:] - placed[:, 1]) < apart[:, 1]
        free = ~(beside & above).any(1)
        first = int(free.argmax())
        if free[first]:
            return np.array(near[first])
        start, step = start + step, 2 * step
    return None
