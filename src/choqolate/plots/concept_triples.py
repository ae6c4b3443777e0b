"""Three concepts against each other, with the diagonal that their scores share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from choqolate._util.numbers import decimal
from choqolate.metrics import concept_correlation
from choqolate.plots import style
from choqolate.plots.labels import LINE, write_heading
from choqolate.plots.scatters import ClassMark, class_marks
from choqolate.plots.style import font, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from choqolate.data.scores import ConceptScores

_FONT = 9.0  # points, see style.font
_SIDE = 3.4  # inches of a panel
_MOST = 1_500  # rows
_TURNS = 8  # in which classes are drawn, so that none covers all others
_NAME = 24  # letters of a concept


def draw_triple(scores: ConceptScores, concepts: Sequence[str], direction: np.ndarray, title: str = "") -> Figure:
    """Draw each pair of three concepts, one point per image, by class, with a line along the shared diagonal.

    Args:
        scores: the table.
        concepts: names of three of its concepts.
        direction: of the diagonal ``(3,)``, in units of the standard deviations.
        title: of the figure.
    """
    import matplotlib.pyplot as plt

    index = [scores.concepts.index(name) for name in concepts]
    names = [style.label(name, _NAME) for name in concepts]
    rows = np.unique(np.linspace(0, len(scores) - 1, min(_MOST, len(scores))).astype(int))
    all_rows = scores.scores[:, index].astype(np.float64)
    X = all_rows[rows]
    own, grey = class_marks(scores)
    size = (3 * _SIDE * scale(), (_SIDE + 0.45) * scale())
    figure, axes = plt.subplots(1, 3, figsize=size, layout="constrained")
    correlation = concept_correlation(all_rows)
    for ax, (j, l) in zip(axes, combinations(range(3), 2), strict=True):
        for mark in grey:
            _draw(ax, X[mark.rows[rows]][:, [j, l]], mark)
        for turn in np.array_split(np.arange(len(rows)), _TURNS):
            for mark in own:
                _draw(ax, X[turn[mark.rows[rows[turn]]]][:, [j, l]], mark)
        _draw_diagonal(ax, all_rows[:, [j, l]], direction[[j, l]])
        ax.set_title(f"r = {decimal(correlation[j, l])}", loc="left", fontsize=font(_FONT + 1))
        ax.set_xlabel(f"{names[j]} (score)", fontsize=font(_FONT), parse_math=False)
        ax.set_ylabel(f"{names[l]} (score)", fontsize=font(_FONT), parse_math=False)
        ax.tick_params(labelsize=font(_FONT - 1))
        ax.locator_params(nbins=5)
        style.plain_frame(ax)
    _write_legend(figure, [*own, *grey])
    write_heading(figure, title)
    return figure


def _draw(ax: Axes, points: np.ndarray, mark: ClassMark) -> None:
    options: dict[str, Any] = dict(s=9 * scale() ** 2, alpha=0.6, linewidths=0)
    ax.scatter(*points.T, marker=mark.marker, color=mark.colour, **options)


def _draw_diagonal(ax: Axes, X: np.ndarray, direction: np.ndarray) -> None:
    """A line through the mean, along the diagonal, as long as the scores reach along it."""
    mean, step = X.mean(0), direction * X.std(0)
    if not step.any():
        return
    reach = (X - mean) @ step / (step @ step)
    ends = mean + np.array([[reach.min()], [reach.max()]]) * step
    ax.plot(*ends.T, color=style.PALETTE[6], linewidth=1.2 * scale(), dashes=(5, 2.5))


def _write_legend(figure: Figure, marks: Sequence[ClassMark]) -> None:
    """Classes and the diagonal, in lines below all panels; a class may begin with an underscore or hold a dollar."""
    from matplotlib.lines import Line2D

    dot: dict[str, Any] = dict(linestyle="none", markersize=5 * scale())
    handles = [Line2D([], [], marker=mark.marker, color=mark.colour, **dot) for mark in marks]
    handles.append(Line2D([], [], color=style.PALETTE[6], linewidth=1.2 * scale(), dashes=(5, 2.5)))
    names = [*(style.label(mark.name, _NAME) for mark in marks), "shared diagonal"]
    room = figure.get_figwidth() * style.POINTS
    columns = max(1, min(len(names), int(room / (style.widest(names, font(_FONT)) + 5 * LINE * font(_FONT)))))
    look: dict[str, Any] = dict(loc="outside lower center", ncols=columns, frameon=False, fontsize=font(_FONT))
    legend = figure.legend(handles, [" "] * len(handles), **look)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name)
