"""Figures that several experiments share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from choqolate.plots import accuracy_against_quality
from choqolate.plots.style import scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points = Mapping[str, tuple[Sequence[float], Sequence[float]]]
"""Quality and accuracy of the runs of each method."""

_PANEL = (4.6, 3.6)  # inches


def trade_off_grid(panels: Mapping[str, Mapping[str, Points]], *, down: bool = False) -> Figure:
    """Accuracy against each quality, one panel for each data set or setting.

    Args:
        panels: from the panel's title to a quality's name to its runs; those with NaN are left out.
        down: titles run down, qualities across, as with a single title; else the other way round.
    """
    import matplotlib.pyplot as plt

    down = down or len(panels) == 1
    titles, qualities = list(panels), list(dict.fromkeys(name for panel in panels.values() for name in panel))
    rows, columns = (len(titles), len(qualities)) if down else (len(qualities), len(titles))
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(_PANEL[0] * columns * scale(), _PANEL[1] * rows * scale()),
        layout="constrained",
        squeeze=False,
    )
    for place, title in enumerate(titles):
        for other, quality in enumerate(qualities):
            ax = axes[place, other] if down else axes[other, place]
            runs = {name: _defined(pair) for name, pair in panels[title][quality].items()}
            runs = {name: pair for name, pair in runs.items() if len(pair[0])}
            if not runs:
                ax.set_axis_off()
                continue
            if other == 0:
                ax.set_title(title, loc="left", parse_math=False)
            accuracy_against_quality(runs, ax, quality=quality)
    figure.set_layout_engine("none")  # room was made for every panel, nothing moves any more
    return figure


def _defined(pair: tuple[Sequence[float], Sequence[float]]) -> tuple[list[float], list[float]]:
    """The runs of which both numbers are defined."""
    kept = [(x, y) for x, y in zip(*pair, strict=True) if math.isfinite(x) and math.isfinite(y)]
    return [x for x, _ in kept], [y for _, y in kept]
