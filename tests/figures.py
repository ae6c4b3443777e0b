"""What every figure has to keep: texts inside and apart."""

from __future__ import annotations


def assert_readable(figure, texts):
    """All texts inside the figure, and apart, up to a pixel."""
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in texts if text.get_text()]
    for place, box in enumerate(boxes):
        assert box.x0 >= -1, texts[place]
        assert box.y0 >= -1, texts[place]
        assert box.x1 <= figure.bbox.x1 + 1, texts[place]
        assert box.y1 <= figure.bbox.y1 + 1, texts[place]
        for other in boxes[:place]:
            apart = box.x0 > other.x1 - 1 or other.x0 > box.x1 - 1 or box.y0 > other.y1 - 1 or other.y0 > box.y1 - 1
            assert apart, texts[place]
