"""Training as it went: what a node read, epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from choqolate._util.checks import find_concepts
from choqolate.errors import ChoqolateError
from choqolate.plots import style
from choqolate.plots.axes_room import make_room
from choqolate.plots.clouds import check_node, node_name
from choqolate.plots.labels import LINE, pushed_apart, write_title
from choqolate.plots.style import drawn_width, font, scale, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from choqolate.explain.whole_model import ModelExplanation

_LEADING, _LOST = 5, 2  # concepts drawn by default
_FONT, _TITLE = 9.0, 10.0  # points, see style.font
_LEAD = 14.0  # points from the end of a line to its name
_WIDEST = 0.55  # of the axes, for names
# Five, where there are eight colours: 40 lines differ from each other.
_DASHES: tuple[tuple[int, tuple[float, ...] | None], ...] = (
    (0, None),
    (0, (5, 1.5)),
    (0, (1.2, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (9, 3)),
)


def training_dynamics(
    explanation: ModelExplanation, node: int, concepts: Sequence[str] | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw the Shapley values of some concepts in one node over the epochs of training.

    With ``bipolar``, presence and absence of a concept are added; it is called "not sea" where absence has the greater
    part at the end.

    Args:
        explanation: of a model trained with ``track=True``.
        node: which node.
        concepts: names of the concepts; by default the five that lead at the end, and up to two that were once among
            the five and lost.
        ax: where to draw; by default a new figure. Names stand at the right end of the lines; where they are more
            than fit, only the largest have one.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from sklearn.datasets import load_wine
    >>> from choqolate import ChoqolateClassifier
    >>> from choqolate.explain.whole_model import explain_model
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = ChoqolateClassifier(n_nodes=4, epochs=20, track=True).fit(X, y)
    >>> ax = training_dynamics(explain_model(model), 0, ["proline", "alcohol"])
    >>> sorted(text.get_text() for text in ax.texts), len(ax.lines[0].get_xdata())
    (['alcohol', 'proline'], 20)
    """
    history = _history(explanation, node)
    chosen = _default(history) if concepts is None else find_concepts(concepts, explanation.concepts)
    names = [style.label(explanation.names_in(node)[j]) for j in chosen]
    epochs = np.arange(len(history)) + 1
    if ax is None:
        ax = style.new_axes(6.4, max(3.6, 0.9 + len(names) * _FONT * LINE / style.POINTS))
    for place, j in enumerate(chosen):
        ax.plot(
            epochs,
            history[:, j],
            color=style.colour_of(place),
            linestyle=_DASHES[place % len(_DASHES)],
            linewidth=1.6 * scale(),
            marker="o" if len(epochs) == 1 else None,
        )
    _dress(ax, history[:, chosen])
    title = node_name(explanation, node)
    write_title(ax, title, font(_TITLE))  # so that there is room for it
    make_room(ax)
    _name_lines(ax, names, history[-1, chosen], len(epochs))
    write_title(ax, title, font(_TITLE), lines=1 + ax.get_title(loc="left").count("\n"))
    return ax


def _history(explanation: ModelExplanation, node: int) -> np.ndarray:
    """Attributions of one node ``(epochs, M)``."""
    if explanation.history is None or not len(explanation.history):
        raise ChoqolateError(
            "expected a model that kept the attributions of every epoch, this one did not: train it with "
            "ChoqolateClassifier(track=True)"
        )
    check_node(explanation, node)
    of_node: np.ndarray = explanation.history[:, node]
    return of_node


def _default(history: np.ndarray) -> list[int]:
    """The concepts that lead at the end, then those that were among the first and fell back, highest peak first."""
    ranks = np.argsort(-np.abs(history), axis=1, kind="stable")[:, :_LEADING]
    leading = ranks[-1].tolist()
    peaks = np.abs(history).max(0)
    lost = sorted(set(ranks.flat) - set(leading), key=lambda j: (-peaks[j], j))
    return [*leading, *map(int, lost[:_LOST])]


def _dress(ax: Axes, values: np.ndarray) -> None:
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    margin = 0.04 * (high - low) or 0.5
    ax.set_ylim(low - margin * (low < 0), high + margin)
    ax.set_xlabel("epoch", fontsize=font(_FONT))
    ax.set_ylabel("Shapley value", fontsize=font(_FONT))
    ax.tick_params(labelsize=font(_FONT - 1))
    style.plain_frame(ax)


def _name_lines(ax: Axes, names: list[str], ends: np.ndarray, epochs: int) -> None:
    """Write the names within the axes, right of the last epoch, pushed apart and each tied to its line."""
    from matplotlib.ticker import MaxNLocator

    width, height = style.size_in_points(ax)
    size, lead = font(_FONT), _LEAD * scale()
    fits = max(int(height / (size * LINE)), 1)
    named = sorted(np.argsort(-np.abs(ends), kind="stable")[:fits].tolist())
    room = min(max(drawn_width(names[k], size) for k in named) + lead + 2, _WIDEST * width)
    names = [shortened(name, room - lead - 1, size) for name in names]  # one of the two points is for rounding
    first, last = (1, epochs) if epochs > 1 else (0.5, 1.5)
    per_point = (last - first) / (width - room)
    ax.set_xlim(first, last + room * per_point)
    ticks = MaxNLocator(max(int((width - room) / (40 * scale())), 1), integer=True).tick_values(first, last)
    ax.set_xticks(sorted({1, epochs} | {int(t) for t in ticks if 1 < t < epochs - 0.07 * (last - first)}))
    ax.spines["bottom"].set_bounds(first, last)
    low, high = ax.get_ylim()
    wanted = (ends[named] - low) / (high - low) * height
    half = size * LINE / 2
    places = pushed_apart(wanted, 2 * half, min(half, height / 2), max(height - half, height / 2))
    for k, place in zip(named, places, strict=True):
        ax.annotate(
            names[k],
            (epochs, ends[k]),
            (last + lead * per_point, low + place / height * (high - low)),
            va="center",
            fontsize=size,
            parse_math=False,
            annotation_clip=False,
            arrowprops=dict(
                arrowstyle="-", color=style.colour_of(k), linewidth=0.7, shrinkA=1, shrinkB=0, relpos=(0, 0.5)
            ),
        )
