"""What every figure has to keep: texts inside and apart."""

from __future__ import annotations

from matplotlib.text import Text


def assert_readable(figure, texts):
    """All texts inside the figure, and apart, up to a pixel."""
    figure.draw_without_rendering()
    texts = [text for text in texts if text.get_text()]
    boxes = [Text.get_window_extent(text) for text in texts]  # without the lines that tie names to points
    for place, box in enumerate(boxes):
        assert box.x0 >= -1, texts[place]
        assert box.y0 >= -1, texts[place]
        assert box.x1 <= figure.bbox.x1 + 1, texts[place]
        assert box.y1 <= figure.bbox.y1 + 1, texts[place]
        for number, other in enumerate(boxes[:place]):
            apart = box.x0 > other.x1 - 1 or other.x0 > box.x1 - 1 or box.y0 > other.y1 - 1 or other.y0 > box.y1 - 1
            assert apart, (texts[place], texts[number])


def texts_within(ax):
    """All texts of the axes and of those inside of them, as they are drawn: ticks beyond the limits are not."""
    found = [*ax.texts, ax.title, ax._left_title]
    if ax.axison:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            found += [axis.label, *(text for tick in ticks for text in (tick.label1, tick.label2))]
    legend = ax.get_legend()
    found += legend.get_texts() if legend else []
    found += [text for child in ax.child_axes for text in texts_within(child)]
    return [text for text in found if text.get_text() and text.get_visible()]
