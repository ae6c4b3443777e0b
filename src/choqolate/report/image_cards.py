"""Images in a page: which ones, and what the model made of each."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Container, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate._util.numbers import decimals_for
from choqolate.concepts.new_images import read_image
from choqolate.errors import ChoqolateError
from choqolate.explain import Attribution, ImageExplanation
from choqolate.report import data_uri

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 240  # pixels of an image's longer side
MOST_CONCEPTS, MOST_NODES, MOST_CLASSES = 10, 5, 3


def choose(
    margins: np.ndarray, right: np.ndarray, labels: Sequence[str], best: int, worst: int
) -> tuple[list[int], list[int]]:
    """Rows that are classified best and worst, of every class in turn.

    Args:
        margins: by how much the score of the true class is ahead of the best other ``(n,)``.
        right: whether it is the one that was predicted ``(n,)``.
        labels: the true class of each row.
        best, worst: how many.

    >>> margins = np.array([0.3, -0.2, 0.1, 0.2])
    >>> choose(margins, margins > 0, ["cat", "cat", "dog", "dog"], best=2, worst=1)
    ([0, 3], [1])
    """
    order = np.argsort(margins, kind="stable")
    surest = in_turn([int(row) for row in order[::-1] if right[row]], labels)[:best]
    return surest, in_turn([int(row) for row in order if not right[row]], labels)[:worst]


def in_turn(rows: Sequence[int], labels: Sequence[str]) -> list[int]:
    """The rows in their order, but one of each class at a time."""
    waiting: dict[str, deque[int]] = {}
    for row in rows:
        waiting.setdefault(labels[row], deque()).append(row)
    chosen = []
    while any(waiting.values()):
        chosen += [queue.popleft() for queue in waiting.values() if queue]
    return chosen


def image_card(
    why: ImageExplanation, *, name: str, file: Path | None, group: str | None = None, marked: Container[str] = ()
) -> dict[str, Any]:
    """All that a page says of one image.

    Args:
        why: what the model makes of it.
        name: what to call it.
        file: the image itself, if it is at hand.
        group: its group, if known.
        marked: names to underline.
    """
    return {
        "name": name,
        "image": thumbnail(file),
        "truth": why.truth,
        "group": group,
        "predicted": why.predicted,
        "right": why.right,
        "classes": why.probabilities[:MOST_CLASSES],
        "lead": steps(why.lead, MOST_CONCEPTS, marked),
        "nodes": [] if why.node_lead is None else steps(why.node_lead, MOST_NODES),
        "counterfactual": why.counterfactual,
        "before": _before(why, marked),
        "doubt": "",
    }


def _before(why: ImageExplanation, marked: Container[str]) -> dict[str, Any] | None:
    """The same lead before the model was edited, and the class that was predicted then."""
    if why.lead_before is None:
        return None
    lead = steps(why.lead_before, MOST_CONCEPTS, marked)
    return {"predicted": why.predicted_before, "flipped": why.flipped, "lead": lead}


def steps(attribution: Attribution, most: int, marked: Container[str] = ()) -> dict[str, Any]:
    """One number as a waterfall: contributions with where they begin and end; :func:`set_scale` turns it into bars."""
    leading = attribution.leading(0, most)
    start, end = float(attribution.start[0]), float(attribution.end[0])
    n_others, others = attribution.others(0, most)
    rows: list[dict[str, Any]] = [
        {"name": s.name, "level": s.level, "value": s.value, "marked": s.name in marked} for s in leading
    ]
    if n_others > 0:
        rows.append({"name": f"{n_others:,} others", "level": None, "value": others, "marked": False})
    edges = np.cumsum([start, *(row["value"] for row in rows)]).tolist()
    for row, left, right in zip(rows, edges[:-1], edges[1:], strict=True):
        row |= {"edges": (min(left, right), max(left, right)), "against": right < left}
    subject = attribution.subjects[0]
    return {"subject": subject, "rows": rows, "start": start, "end": end, "range": (min(edges), max(edges))}


def set_scale(waterfalls: Sequence[dict[str, Any]]) -> None:
    """Give the bars of several waterfalls a place and a width in per cent of the range that all of them cover."""
    if not waterfalls:
        return
    low = min(0.0, *(one["range"][0] for one in waterfalls))
    high = max(0.0, *(one["range"][1] for one in waterfalls))
    extent = high - low or 1.0
    for one in waterfalls:
        one |= {"zero": -100 * low / extent, "digits": decimals_for(extent, 3, least=2)}
        for row in one["rows"]:
            left, right = row["edges"]
            row |= {"place": 100 * (left - low) / extent, "width": 100 * (right - left) / extent}


def waterfalls_of(card: dict[str, Any]) -> list[dict[str, Any]]:
    """All waterfalls of a card."""
    nodes = [card["nodes"]] if card["nodes"] else []
    return [card["lead"], *nodes, *([card["before"]["lead"]] if card["before"] else [])]


def shown_path(path: str) -> str:
    r"""A path as it may be shown: of one that starts at the root of somebody's machine, the file's name.

    >>> shown_path("birds/1.jpg"), shown_path("/home/ada/1.jpg"), shown_path(r"C:\Users\ada\1.jpg")
    ('birds/1.jpg', '1.jpg', '1.jpg')
    """
    absolute = (kind(path) for kind in (PurePosixPath, PureWindowsPath) if kind(path).is_absolute())
    return next((pure.name for pure in absolute), path)


def small_jpeg(file: Path | None, side: int = SIDE) -> bytes | None:
    """A small copy of an image as a JPEG file.

    Args:
        file: the image, if it is at hand.
        side: pixels of the longer side at most.

    Returns:
        The bytes of the file; ``None`` if the image cannot be read.
    """
    if file is None:
        return None
    try:
        image = read_image(file, reduced_to=2 * side)
    except ChoqolateError:
        return None
    return encode_small(image, side)


def encode_small(image: Image, side: int = SIDE) -> bytes:
    """Encode an image as a JPEG file whose longer side has at most so many pixels; the image itself shrinks."""
    image.thumbnail((side, side))
    content = io.BytesIO()
    image.save(content, "JPEG", quality=82)
    return content.getvalue()


def thumbnail(file: Path | None, side: int = SIDE) -> str | None:
    """A small copy of an image as an address that holds all of it; ``None`` if it cannot be read."""
    content = small_jpeg(file, side)
    return None if content is None else data_uri(content, "image/jpeg")
