"""Outlines of points, a unit to the image's width, x to the right and y down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Points = np.ndarray  # (k, 2)
_STEPS = 5  # points between two knots of a curve
_CORNERS = 14  # of a disc


def _catmull_rom() -> np.ndarray:
    """Weights ``(steps, 4)`` of four knots, from the second towards the third."""
    t = np.linspace(0, 1, _STEPS, endpoint=False)[:, None]
    return 0.5 * np.hstack([-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, -(t**2) + t**3])


_SPLINE = _catmull_rom()
_ANGLES = np.linspace(0, 2 * np.pi, _CORNERS, endpoint=False)
_CIRCLE = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=1)


def outline(text: str) -> Points:
    """Points from text: ``x y`` between commas, in hundredths of the unit.

    >>> outline("0 10, 25 -5").tolist()
    [[0.0, 0.1], [0.25, -0.05]]
    """
    return np.array([[float(number) for number in pair.split()] for pair in text.split(",")]) / 100


def curve(knots: Points, *, closed: bool = True) -> Points:
    """A smooth line through knots."""
    before, after = (knots[-1:], knots[:2]) if closed else (knots[:1], knots[-1:])
    windows = np.lib.stride_tricks.sliding_window_view(np.concatenate([before, knots, after]), 4, axis=0)
    smooth: Points = (windows @ _SPLINE.T).transpose(0, 2, 1).reshape(-1, 2)
    return smooth if closed else np.concatenate([smooth, knots[-1:]])


def disc(centre: Points, radius: float) -> Points:
    """A circle."""
    return centre + radius * _CIRCLE


def ribbon(line: Points, width: Sequence[float] | np.ndarray) -> Points:
    """The outline of a line with a width at each of its points."""
    along = np.empty_like(line)
    along[1:-1], along[0], along[-1] = line[2:] - line[:-2], line[1] - line[0], line[-1] - line[-2]
    half = along[:, ::-1] * [-0.5, 0.5] * (np.asarray(width) / np.sqrt((along**2).sum(axis=1)))[:, None]
    return np.concatenate([line + half, (line - half)[::-1]])


def rotation(angle: float) -> np.ndarray:
    """The matrix to multiply points with, from the right, that turns them clockwise on the screen."""
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([[cos, sin], [-sin, cos]])
