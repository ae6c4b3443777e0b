"""The bird: parts in a plane of its own, facing right, the middle of its body the origin; then placed and painted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from PIL import ImageDraw

from choqolate.datasets.birds.shapes import Points, curve, disc, outline, ribbon, rotation

Colour = tuple[int, int, int]

PLUMAGE: dict[str, tuple[Colour, Colour, Colour]] = {  # body, wing, belly
    "brown": ((141, 96, 58), (103, 66, 38), (196, 158, 116)),
    "white": ((240, 240, 236), (206, 209, 212), (250, 250, 248)),
    "black": ((44, 44, 52), (26, 26, 32), (72, 72, 80)),
    "grey": ((138, 144, 152), (102, 108, 118), (186, 190, 196)),
    "blue": ((58, 104, 186), (36, 70, 140), (140, 176, 224)),
    "yellow": ((238, 196, 48), (190, 144, 30), (250, 226, 124)),
}
_HORN: tuple[Colour, ...] = ((240, 140, 30), (246, 190, 60), (84, 78, 74), (222, 120, 96))  # bills and feet
_RED, _WHITE, _INK, _PUPIL = (206, 56, 40), (250, 250, 248), (20, 18, 24), (16, 16, 18)
_SMALL = 0.64  # of a large body
_MARGIN = 0.03  # free on every side of the image
_LINE = 0.009  # of an outline

_BODY = curve(outline("-25 1.5, -14 -8.5, 2 -13, 17 -10, 23.5 0, 18 10.5, 2 13.5, -14 9"))
_NAPE = curve(outline("6 -10, 16 -14, 23 -6, 20 0, 10 -2"))
_BREAST = curve(outline("21.5 -3, 22.2 3, 16.5 9.5, 3 12.2, -5 10, 5 6, 13 0"))
_SPOTS = outline("19 0, 19 4.5, 15.5 3, 15 7.5, 11 5.2, 10 9.3, 6 7.5, 4.5 10.8, 1 9.3")
_WING = curve(outline("10 -7, 12.5 0, 2 6, -14 5, -29 4.5, -16 -3, -3 -9"))
_BARS = tuple(
    ribbon(outline(line), (0.026, 0.032, 0.026))
    for line in ("7.5 -7.5, 5.5 -1, 2.5 5", "0.5 -7.5, -1.5 -1, -4.5 5", "-6.5 -5, -8.5 -1, -11.5 5")
)
_TAILS = {
    "short": outline("-20 -3.5, -30 -3, -31.5 3, -20 5.5"),
    "long": outline("-19 -4, -40 -1.5, -55.5 3, -55 7.5, -36 7, -19 6"),
    "forked": outline("-19 -4, -32 -6, -52 -13, -36 1.5, -50 15, -31 8.5, -19 6"),
}
# Bills and the crest are measured in hundredths of the head's radius.
_BILLS = {
    "conical": outline("60 -50, 175 8, 60 62"),
    "long": outline("70 -36, 160 -10, 390 10, 160 32, 70 42"),
    "hooked": outline("60 -50, 140 -52, 200 -20, 220 40, 205 100, 175 50, 135 42, 60 50"),
    "flat": curve(outline("70 -30, 150 -6, 230 -12, 275 20, 230 62, 150 55, 70 45")),
}
_CREST = outline("55 -75, 25 -175, -10 -115, -75 -200, -75 -110, -160 -165, -115 -65, -195 -85, -90 5")
_WEB = outline("-3 -1.4, 2.5 -2.6, 15.5 3.4, 11 5.4, 6 4.2, 1.5 6.6, -1.5 4.2, -6 4.6")
_TOES = outline("11.5 0.8, 9.5 6, 2 7.8, -8 3")


@dataclass
class Figure:
    """Filled outlines, from the farthest to the nearest."""

    shapes: list[tuple[Points, Colour, bool]] = field(default_factory=list)  # points, fill, whether outlined

    def add(self, points: Points, fill: Colour, *, outlined: bool = True) -> None:
        """One more shape, before the others."""
        self.shapes.append((points, fill, outlined))

    def paint(self, draw: ImageDraw.ImageDraw, size: int, *, left: bool, at: Points, ink: Colour) -> None:
        """Paint it ``size`` pixels to the unit, inside the image, its free room shared as ``at`` says."""
        everything = np.concatenate([points for points, _, _ in self.shapes])
        low, extent = everything.min(axis=0), np.ptp(everything, axis=0)
        scale = min(1.0, float((1 - 2 * _MARGIN) / extent.max()))
        corner = _MARGIN + (1 - 2 * _MARGIN - scale * extent) * at
        width = max(1, round(_LINE * size))
        for points, fill, outlined in self.shapes:
            placed = (points - low) * scale + corner
            if left:
                placed[:, 0] = 1 - placed[:, 0]
            pixels = (placed * size).ravel().tolist()
            draw.polygon(pixels, fill=fill)
            if outlined:
                draw.line([*pixels, *pixels[:2]], fill=ink, width=width, joint="curve")


def draw_bird(draw: ImageDraw.ImageDraw, bird: Mapping[str, str], size: int, rng: np.random.Generator) -> None:
    """Paint a bird with the given attributes; what they leave open (pose, side, shades) is drawn from ``rng``.

    Args:
        draw: of an image of ``size x size`` pixels.
        bird: a value for every attribute of the bird.
        size: width of the image in pixels.
        rng: always asked for the same number of random numbers.
    """
    shades, pose = rng.uniform(-1, 1, 4), rng.uniform(-1, 1, 4)
    horn = _HORN[rng.integers(len(_HORN))]
    left, at = bool(rng.random() < 0.5), rng.uniform((0.2, 0.5), (0.8, 0.95))
    body, wing, belly = (_shaded(colour, shades) for colour in PLUMAGE[bird["colour"]])
    figure = Figure()
    s = 1.0 if bird["size"] == "large" else _SMALL
    upright = s * rotation(-0.26 - 0.09 * pose[0])  # the breast is higher than the tail
    figure.add(_TAILS[bird["tail"]] @ upright, _mixed(wing, body, 0.2))
    _add_legs(figure, bird, s, horn, pose[1])
    head, radius = _add_neck(figure, bird, s, upright, body, pose[2]), 0.086 * (0.25 + 0.75 * s)
    if bird["crest"] == "crested":
        figure.add(head + radius * _CREST, wing)
    figure.add(head + 1.2 * radius * _BILLS[bird["bill"]] @ rotation(0.08 * pose[3]), horn)
    _add_body(figure, bird, upright, s, body, belly, wing)
    figure.add(disc(head, radius), body)
    figure.add(_WING @ upright, wing)
    if bird["wings"] == "barred":
        for bar in _BARS:
            figure.add(bar @ upright, _WHITE if sum(wing) < 560 else (60, 60, 66), outlined=False)
    eye = head + radius * np.array([0.34, -0.22])
    figure.add(disc(eye, 0.30 * radius), _WHITE, outlined=False)
    figure.add(disc(eye + np.array([0.04 * radius, 0]), 0.18 * radius), _PUPIL, outlined=False)
    figure.paint(draw, size, left=left, at=at, ink=_mixed(wing, _INK, 0.6))


def _add_neck(
    figure: Figure, bird: Mapping[str, str], s: float, upright: np.ndarray, body: Colour, reach: float
) -> Points:
    """A long neck, or none; returns the middle of the head."""
    root: Points = np.array([0.17, -0.055]) @ upright
    if bird["neck"] == "short":
        return root + s * np.array([0.045, -0.075 + 0.01 * reach])
    rise = np.array([0.045 + 0.02 * reach, -0.30]) * (0.35 + 0.65 * s)
    line = curve(
        np.stack([root + s * np.array([-0.05, 0.05]), root, root + rise * [1.6, 0.45], root + rise]), closed=False
    )
    width = np.interp(np.linspace(0, 3, len(line)), range(4), (0.17, 0.12, 0.075, 0.07))
    figure.add(ribbon(line, s * width), body)
    return root + rise


def _add_body(
    figure: Figure, bird: Mapping[str, str], upright: np.ndarray, s: float, body: Colour, belly: Colour, wing: Colour
) -> None:
    figure.add(_BODY @ upright, body)
    if bird["neck"] == "short":
        figure.add(_NAPE @ upright, body, outlined=False)
    figure.add(_BREAST @ upright, _RED if bird["breast"] == "red" else belly, outlined=False)
    if bird["breast"] == "spotted":
        spot = _mixed(wing, _INK, 0.75) if sum(belly) > 260 else (236, 232, 224)
        for centre in _SPOTS @ upright:
            figure.add(disc(centre, 0.0145 * s), spot, outlined=False)


def _add_legs(figure: Figure, bird: Mapping[str, str], s: float, horn: Colour, step: float) -> None:
    length = (0.25 if bird["legs"] == "long" else 0.07) * (0.4 + 0.6 * s)
    thick, reach = 0.022 * (0.35 + 0.65 * s), 0.5 + 0.5 * s
    for x, y, colour in ((-0.045, 0.10, _mixed(horn, _INK, 0.25)), (0.055, 0.115, horn)):
        hip = s * np.array([x, y])
        foot = hip + np.array([0.02 * step + 0.35 * x, length + 0.03 * s])
        knee = (hip + foot) / 2 - [0.02 * s, 0.0]
        figure.add(ribbon(np.stack([hip, knee, foot]), (thick, thick, thick)), colour)
        if bird["feet"] == "webbed":
            figure.add(foot + reach * _WEB, colour)
            continue
        for toe in reach * _TOES:
            figure.add(ribbon(np.stack([foot, foot + toe]), (1.1 * thick, 0.4 * thick)), colour, outlined=False)


def _shaded(colour: Colour, shades: np.ndarray) -> Colour:
    """A little lighter or darker, and warmer or colder."""
    red, green, blue = np.clip(np.asarray(colour) + 10 * shades[0] + 7 * shades[1:], 0, 255).round().astype(int)
    return int(red), int(green), int(blue)


def _mixed(colour: Colour, other: Colour, share: float) -> Colour:
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(colour, other, strict=True))
    return red, green, blue
