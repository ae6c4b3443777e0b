"""What all figures share: colours, one font, names that fit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate._util.files import replacing
from choqolate._util.numbers import decimal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, for all kinds of colour vision; the order keeps neighbours apart. Instead of yellow, which
# is lost on white, there is a brown.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#7f4f24")
MARKERS = "osD^vPX*p"  # nine, where there are eight colours: 72 pairs differ
MAIN, OTHER = PALETTE[0], PALETTE[1]  # core and spurious, for and against, after and before
SOFT, FRAME = "#5a626b", "#d5dae0"  # of what stands back: notes, frames, zero lines
RIVALS = {  # grays, so that no method has the same look, whatever their number
    "l1 logistic regression": ("#2f353b", "x", ":"),
    "l1 logistic regression, refitted": ("#8a7f76", "+", "-."),
}
CEILING = "logistic regression on all scores"
_FACE = 0.35  # opacity of the face of a mark
POINTS = 72.0  # an inch
LONGEST = 36  # letters of a label
LEAST = 5.0  # points: the smallest letters that can be read
HINTED = 1.06  # small letters on a screen may be drawn so much wider than they are measured
_CONTRAST = 4.5  # of small text with white, at least
_UNKNOWN = "\N{WHITE VERTICAL RECTANGLE}"
_UNSEEN = ("\N{ZERO WIDTH JOINER}", "\N{VARIATION SELECTOR-15}", "\N{VARIATION SELECTOR-16}")


def save_figure(ax: Axes, path: Path) -> None:
    """Write the figure of some axes to a file, .png, .svg or .pdf, in one step, and close it."""
    import matplotlib.pyplot as plt

    figure = ax.get_figure(root=True)
    assert figure is not None
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lower().lstrip("."))
    plt.close(figure)


def colour_of(index: int) -> str:
    """The colour of a node, a class or a method, by its number."""
    return PALETTE[index % len(PALETTE)]


def marker_of(index: int) -> str:
    """The marker of a method or a class, by its number."""
    return MARKERS[index % len(MARKERS)]


def mark_of(index: int) -> dict[str, Any]:
    """Options of matplotlib for the mark of a method, by its number: a light face, so that marks below show through."""
    from matplotlib.colors import to_rgba

    colour = colour_of(index)
    face = to_rgba(colour, _FACE)
    edge: dict[str, Any] = dict(markeredgecolor=colour, markeredgewidth=1.2 * scale())
    return dict(color=colour, marker=marker_of(index), markerfacecolor=face, clip_on=False, **edge)


def ink(colour: str) -> str:
    """The colour, as much darker as it takes for small text on white.

    >>> ink("#0072b2"), ink("#56b4e9")
    ('#0072b2', '#3c7da2')
    """
    from matplotlib.colors import to_hex, to_rgb

    rgb = np.array(to_rgb(colour))
    while 1.05 / (_luminance(rgb) + 0.05) < _CONTRAST:
        rgb = rgb * 0.98
    return to_hex(tuple(rgb.tolist()))


def _luminance(rgb: np.ndarray) -> float:
    """Relative luminance of a colour, from 0 (black) to 1 (white)."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def scale() -> float:
    """How large everything is drawn: matplotlib's ``rcParams["font.size"]`` over 10, which is its default.

    >>> import matplotlib
    >>> with matplotlib.rc_context({"font.size": 7}):
    ...     round(scale(), 6), round(font(9), 6), font(6)
    (0.7, 6.3, 5.0)
    """
    from matplotlib import rcParams

    return max(float(rcParams["font.size"]) / 10, 0.5)


def font(size: float) -> float:
    """Points of letters that are ``size`` points large by default, see :func:`scale`; never too small to be read."""
    return max(size * scale(), LEAST)


def label(name: object, longest: int = LONGEST) -> str:
    r"""A name as it can be drawn: one line of at most so many letters, with a box for each letter the font lacks.

    Hand it to matplotlib with ``parse_math=False``: a name may hold dollar signs, which are no formula.

    >>> label("webbed\nfeet"), label("a very long name of a concept", 12)
    ('webbed feet', 'a very long…')
    """
    line = " ".join(str(name).split())
    for unseen in _UNSEEN:
        line = line.replace(unseen, "")
    file = _font()
    known = "".join(letter if _has_letter(file, letter) else _UNKNOWN for letter in line)
    return known if len(known) <= longest else f"{known[: longest - 1].rstrip()}…"


def new_axes(width: float, height: float) -> Axes:
    """Axes in a figure of their own, of so many inches times :func:`scale`, whose layout keeps names inside."""
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(width * scale(), height * scale()), layout="constrained")
    return ax


def size_in_points(ax: Axes) -> tuple[float, float]:
    """Width and height of the axes."""
    extent = ax.get_window_extent()
    per_pixel = POINTS / ax.figure.dpi
    return extent.width * per_pixel, extent.height * per_pixel


def text_size(text: str, size: float = 1.0) -> tuple[float, float]:
    """Width and height in points of a line that :func:`label` made, as written at ``size``.

    Unlike the outline of its letters, this is the room that matplotlib gives to the line. Hinting may make small
    letters on a screen wider: :func:`drawn_width` is the width at most.
    """
    width, height = _unit_size(_font(), text)
    return width * size, height * size


def drawn_width(text: str, size: float) -> float:
    """Points that a line needs at most, whatever hinting adds to it."""
    return HINTED * text_size(text, size)[0]


def widest(names: Iterable[str], size: float) -> float:
    """Points that the widest of some lines needs at most."""
    return max((drawn_width(name, size) for name in names), default=0.0)


def shortened(text: str, width: float, size: float) -> str:
    """A line of at most so many points, which ends in "…" where it was longer."""
    if drawn_width(text, size) <= width:
        return text
    letters = bisect_right(range(2, len(text)), width, key=lambda count: drawn_width(label(text, count), size)) + 1
    return label(text, letters) if letters > 1 else "…"


def plain_frame(ax: Axes, sides: Sequence[str] = ("left", "bottom")) -> None:
    """Leave only some sides of the frame, thin."""
    for side, spine in ax.spines.items():
        spine.set_visible(side in sides)
        spine.set_color(SOFT)
        spine.set_linewidth(0.8)


def number(value: float, decimals: int) -> str:
    """With a true minus sign; one that would be rounded to zero says that it is not.

    >>> number(-0.25, 2), number(0.0004, 2)
    ('−0.25', '<0.01')
    """
    least = 10.0**-decimals
    if abs(value) < least / 2:
        return f"<{decimal(least, decimals)}" if value > 0 else f">{decimal(-least, decimals)}"
    return decimal(value, decimals, commas=False)


def say(ax: Axes, text: str) -> None:
    """Grey words in empty axes."""
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=FRAME)
    ax.text(0.5, 0.5, text, transform=ax.transAxes, color=SOFT, fontsize=font(9), ha="center", va="center")


def _font() -> str:
    from matplotlib.font_manager import FontProperties, findfont

    return findfont(FontProperties())


@lru_cache(maxsize=16384)
def _unit_size(font: str, text: str) -> tuple[float, float]:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    prop = FontProperties(fname=font, size=100)
    width, height, _ = text_to_path.get_text_width_height_descent(text, prop, False)
    _, least, _ = text_to_path.get_text_width_height_descent("lp", prop, False)
    return width / 100, max(height, least) / 100


@lru_cache(maxsize=4096)
def _has_letter(font: str, letter: str) -> bool:
    from matplotlib.font_manager import get_font

    return get_font(font).get_char_index(ord(letter)) != 0
