"""What all pictures share: colours, one font, names that fit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, for all kinds of colour vision; the order keeps neighbours apart. Yellow is left out: it
# cannot be read on white.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
MAIN, OTHER = PALETTE[0], PALETTE[1]  # core and spurious, for and against, after and before
SOFT, LINE = "#5a626b", "#d5dae0"  # of what stands back: notes, frames, zero lines
POINTS = 72.0  # an inch
LONGEST = 36  # letters of a label
_UNKNOWN = "\N{WHITE VERTICAL RECTANGLE}"
_UNSEEN = ("\N{ZERO WIDTH JOINER}", "\N{VARIATION SELECTOR-15}", "\N{VARIATION SELECTOR-16}")


def colour_of(index: int) -> str:
    """The colour of a node, a class or a method, by its number."""
    return PALETTE[index % len(PALETTE)]


def label(name: object, longest: int = LONGEST) -> str:
    r"""A name as it can be drawn: one line of at most so many letters, with a box for each letter the font lacks.

    Hand it to matplotlib with ``parse_math=False``: a name may hold dollar signs, which are no formula.

    >>> label("webbed\nfeet"), label("a very long name of a concept", 12)
    ('webbed feet', 'a very long…')
    """
    line = " ".join(str(name).split())
    for unseen in _UNSEEN:
        line = line.replace(unseen, "")
    known = "".join(letter if _has_letter(_font(), letter) else _UNKNOWN for letter in line)
    return known if len(known) <= longest else f"{known[: longest - 1].rstrip()}…"


def new_axes(width: float, height: float) -> Axes:
    """Axes in a figure of their own, of so many inches, whose layout keeps names inside."""
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    return ax


def size_in_points(ax: Axes) -> tuple[float, float]:
    """Width and height of the axes."""
    extent = ax.get_window_extent()
    scale = POINTS / ax.figure.dpi
    return extent.width * scale, extent.height * scale


def text_size(text: str, size: float) -> tuple[float, float]:
    """Width and height in points of a text that :func:`label` made, in the font of figures, as drawn at ``size``."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    if not text.strip():
        return 0.0, size
    box = TextPath((0, 0), text, size=100, prop=FontProperties(), usetex=False).get_extents()
    return box.x1 * size / 100, size


def plain_frame(ax: Axes, sides: Sequence[str] = ("left", "bottom")) -> None:
    """Leave only some sides of the frame, thin."""
    for side, spine in ax.spines.items():
        spine.set_visible(side in sides)
        spine.set_color(SOFT)
        spine.set_linewidth(0.8)


def _font() -> str:
    from matplotlib.font_manager import FontProperties, findfont

    return findfont(FontProperties())


@lru_cache(maxsize=4096)
def _has_letter(font: str, letter: str) -> bool:
    from matplotlib.font_manager import get_font

    return get_font(font).get_char_index(ord(letter)) != 0
