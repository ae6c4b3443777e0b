"""The image itself, beside what is said about it."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate.errors import ChoqolateError
from choqolate.plots.style import POINTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def image_size(pixels: np.ndarray, width: float, height: float) -> tuple[float, float]:
    """Width and height of the image in points, the largest of its shape within those given."""
    shape = pixels.shape[1] / pixels.shape[0]
    return min(width, height * shape), min(height, width / shape)


def draw_image(ax: Axes, pixels: np.ndarray, x: float, y: float, size: tuple[float, float]) -> None:
    """Draw an image of a size in points, its lower left corner (x, y) points from the upper left one of the axes."""
    from matplotlib.transforms import ScaledTranslation

    figure: Any = ax.figure
    from_axes: Any = ax.transAxes
    corner = figure.dpi_scale_trans + ScaledTranslation(0, 1, from_axes)
    bounds = (x / POINTS, y / POINTS, size[0] / POINTS, size[1] / POINTS)
    inside = ax.inset_axes(bounds, transform=corner)
    inside.imshow(pixels, cmap="gray", interpolation="antialiased")
    inside.set_axis_off()


def read_pixels(image: Any) -> np.ndarray:
    """An image ``(height, width)`` or ``(height, width, 3 or 4)`` from a file, a PIL image or an array."""
    from PIL.Image import Image

    from choqolate.concepts.preprocessing import as_rgb

    if isinstance(image, str | PathLike):
        from choqolate.concepts.new_images import read_image

        return np.asarray(read_image(image))
    array = np.asarray(as_rgb(image) if isinstance(image, Image) else image)
    shape = array.shape
    if array.dtype.kind not in "biuf" or len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] not in (3, 4)):
        raise ChoqolateError(
            f"expected an image of shape (height, width) or (height, width, 3), got {array.dtype} of shape {shape}: "
            "pass a path, a PIL image or such an array"
        )
    if not array.size:
        raise ChoqolateError(f"expected an image with pixels, got none (shape {shape})")
    return array.astype(np.float64) if array.dtype.kind == "b" else array
