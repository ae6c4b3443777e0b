"""Drawings inside a page: word clouds as SVG, a heat map as PNG. Colours of words are the page's, light or dark."""

from __future__ import annotations

import io
from collections.abc import Container, Sequence

import numpy as np
from markupsafe import Markup, escape

from choqolate._util.numbers import fine_decimal
from choqolate.explain.redundancy import Redundancy
from choqolate.plots.cloud_layout import place_words
from choqolate.plots.style import LONGEST

CLOUD_SIZE = (300.0, 170.0)  # of the drawing, in points; the page scales it
MOST_WORDS = 30
_HEATMAP_SIDE = 480  # pixels, about


def word_cloud_svg(words: Sequence[tuple[str, float]], marked: Container[str] = (), *, title: str = "") -> Markup:
    """A word cloud as SVG text, so that it can be searched, copied and read aloud.

    Every word has the width that the layout gave it, whatever font the reader has.

    Args:
        words: names and Shapley values, the largest first.
        marked: names to underline, in another colour.
        title: what it shows, for those who cannot see it.

    >>> drawing = word_cloud_svg([("webbed feet", 0.7), ("<sea>", 0.3)], {"<sea>"}, title="node 0")
    >>> drawing.count("<text"), "&lt;sea&gt;" in drawing, 'class="marked"' in drawing
    (2, True, True)
    """
    width, height = CLOUD_SIZE
    shown = [(name, value) for name, value in words[:MOST_WORDS] if value]
    placed = place_words([(_written(name, value), value) for name, value in shown], width, height)
    texts = []
    for word in placed:
        name, value = shown[word.index]
        kind = ' class="marked"' if name in marked else ""
        texts.append(
            f'<text{kind} x="{word.x:.1f}" y="{word.y:.1f}" font-size="{word.size:.2f}" '
            f'textLength="{word.width:.1f}" lengthAdjust="spacingAndGlyphs">'
            f"{escape(_one_line(_written(name, value)))}<title>{escape(name)}: {fine_decimal(value)}</title></text>"
        )
    names = ", ".join(shown[word.index][0] for word in placed) or "nothing"
    said = escape(f"{title}: {names}")
    head = f'<svg class="cloud" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{said}">'
    return Markup(head + "".join(texts) + "</svg>")


def correlation_png(redundancy: Redundancy) -> bytes:
    """The correlation of all pairs of concepts as an image, correlated ones side by side; constant ones are grey."""
    import matplotlib
    from PIL import Image

    order = redundancy.order
    matrix = redundancy.correlation[np.ix_(order, order)]
    colours = matplotlib.colormaps["RdBu_r"].with_extremes(bad="0.8")((matrix + 1) / 2, bytes=True)[:, :, :3]
    image = Image.fromarray(np.ascontiguousarray(colours))
    scale = _HEATMAP_SIDE / len(matrix)
    if scale > 1:
        image = image.resize([len(matrix) * round(scale)] * 2, Image.Resampling.NEAREST)
    elif scale < 1:
        image = image.resize([_HEATMAP_SIDE] * 2, Image.Resampling.BOX)
    content = io.BytesIO()
    image.save(content, "PNG", optimize=True)
    return content.getvalue()


def _written(name: str, value: float) -> str:
    return f"−{name}" if value < 0 else name


def _one_line(text: str) -> str:
    """One line, cut like the label of a figure, but with the letters that its font lacks: the browser may have them."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1].rstrip()}…"
