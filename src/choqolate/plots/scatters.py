"""Methods and concepts side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from choqolate._util.checks import check_number, find_concepts
from choqolate._util.numbers import decimal
from choqolate.errors import ChoqolateError
from choqolate.metrics import concept_correlation
from choqolate.plots import style
from choqolate.plots.axes_room import make_room
from choqolate.plots.labels import LINE, NAMED, Box, beside, legend_beside, write_title
from choqolate.plots.style import drawn_width, font, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from choqolate.data.scores import ConceptScores

_FONT = 9.0  # points, see style.font
_TITLE = 10.0
_LEAST_RANGE = 4.0  # per cent of accuracy that the axis spans at least
_ALL, _ABOVE = 100.0, 0.4  # per cent, and room above for markers
_POINT = 7.0  # points: a marker
_FAINT = "#b9c0c7"
_ALONG_EDGE = 24  # letters of a name in three dimensions


def accuracy_against_quality(
    runs: Mapping[str, tuple[Any, Any]],
    ax: Axes | None = None,
    *,
    quality: str = "Attribution Gini",
    spread: float = 1.0,
    legend: bool = True,
) -> Axes:
    r"""Draw accuracy against a quality of explanations: a point for the mean of each method over its runs.

    Around the mean :math:`\mu` lies the ellipse :math:`(x - \mu)^\top \Sigma^{-1} (x - \mu) = s^2` of the runs'
    covariance :math:`\Sigma`, at s standard deviations. Methods without runs are left out.

    Args:
        runs: for each method its quality ``(r,)`` and its accuracy ``(r,)``, from 0 to 1, over r runs. A method in the
            same place has the same look in every figure.
        ax: where to draw; by default a new figure.
        quality: what the quality is.
        spread: s; 0 draws no ellipses.
        legend: whether to name the methods; one legend for several axes is written by :func:`legend_below`.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> runs = {"CHOQOLATE": ([0.88, 0.9], [0.82, 0.84]), "linear": ([0.39, 0.4], [0.76, 0.76])}
    >>> ax = accuracy_against_quality(runs)
    >>> [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in ax.lines]
    [(0.89, 83.0), (0.395, 76.0)]
    """
    from matplotlib.patches import Ellipse

    check_number("spread", spread, minimum=0)
    measured = {str(name): run_points(name, pair) for name, pair in runs.items() if not _without_runs(pair)}
    if not measured:
        raise ChoqolateError("expected the runs of at least one method, got none")
    new = ax is None
    if ax is None:
        ax = style.new_axes(5.8, 4.2)
    handles, boxes = [], []
    places = {str(name): place for place, name in enumerate(runs)}
    for name, points in measured.items():
        mean, colour = points.mean(0), style.colour_of(places[name])
        width, height, angle = _ellipse(points, spread)
        if width > 0:
            ellipse = Ellipse(
                (mean[0], mean[1]), width, height, angle=angle, facecolor=(colour, 0.15), edgecolor=colour, linewidth=1
            )
            ax.add_patch(ellipse)
        half = spread * points.std(0, ddof=1) if len(points) > 1 else np.zeros(2)
        boxes.append(Box(mean - half, mean + half))
        look = style.mark_of(places[name]) | dict(markersize=_POINT * scale(), linestyle="none")
        handles += ax.plot(*mean[:, None], label=name, gid=NAMED, **look)
    _set_limits(ax, boxes)
    ax.set_xlabel(style.label(quality), fontsize=font(_FONT + 1), parse_math=False)
    ax.set_ylabel("accuracy (%)", fontsize=font(_FONT + 1))
    ax.tick_params(labelsize=font(_FONT))
    style.plain_frame(ax)
    if spread > 0:
        _explain_ellipses(ax, [len(points) for points in measured.values()], spread)
    make_room(ax)
    _few_ticks(ax)
    no_ticks_beyond_all(ax)
    if legend:
        _name_points(ax, list(measured), handles, boxes, new)
    return ax


def _explain_ellipses(ax: Axes, runs: Sequence[int], spread: float) -> None:
    """A small note below, if it is the same for all methods."""
    if len(set(runs)) == 1 and runs[0] > 1:
        deviations = f"{spread:g} standard deviation{'s' * (spread != 1)}"
        below = (0, -LINE * (font(_FONT) + font(_FONT + 1)) - 12)  # ticks and the name of the axis lie between
        note = f"ellipses: {deviations} of {runs[0]} runs"
        place: dict[str, Any] = dict(xytext=below, textcoords="offset points", ha="right", va="top")
        ax.annotate(note, (1, 0), xycoords="axes fraction", fontsize=font(_FONT - 2), color=style.SOFT, **place)


def _few_ticks(ax: Axes) -> None:
    """Ticks that do not run together, on both axes."""
    width, height = style.size_in_points(ax)
    ax.locator_params(axis="x", nbins=max(int(width / (4.5 * font(_FONT))), 1))
    ax.locator_params(axis="y", nbins=max(int(height / (2.5 * font(_FONT))), 1))


def no_ticks_beyond_all(ax: Axes) -> None:
    """An ellipse may lead beyond all images, an accuracy may not."""
    low, high = ax.get_ylim()
    if high > _ALL:
        ax.set_yticks([tick for tick in ax.get_yticks() if low <= tick <= _ALL])
        ax.set_ylim(low, high)


def _without_runs(pair: Any) -> bool:
    return isinstance(pair, (tuple, list)) and len(pair) == 2 and not any(np.size(values) for values in pair)


def run_points(name: str, pair: Any, quality: str = "quality") -> np.ndarray:
    """Quality and accuracy in per cent of one method's runs ``(r, 2)``, checked."""
    try:
        x, y = (np.atleast_1d(np.asarray(values, dtype=np.float64)) for values in pair)
    except (TypeError, ValueError) as error:
        raise ChoqolateError(
            f"{name}: expected {quality} and accuracy as two lists of numbers, got others: {error}"
        ) from None
    if x.shape != y.shape or x.ndim != 1 or not len(x):
        raise ChoqolateError(
            f"{name}: expected {quality} and accuracy of the same runs, got shapes {x.shape} and {y.shape}"
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ChoqolateError(f"{name}: expected numbers, got NaN or infinity: leave out runs that were not measured")
    if y.min() < 0 or y.max() > 1:
        raise ChoqolateError(
            f"{name}: expected accuracy from 0 to 1, got {y.min():g} to {y.max():g}: divide per cent by 100"
        )
    return np.column_stack([x, 100 * y])


def _ellipse(points: np.ndarray, spread: float) -> tuple[float, float, float]:
    """Width, height and angle in degrees of the covariance ellipse; no width where nothing varies."""
    if len(points) < 2 or not np.ptp(points, axis=0).any():
        return 0.0, 0.0, 0.0
    squares, axes = np.linalg.eigh(np.cov(points.T))
    height, width = 2 * spread * np.sqrt(np.maximum(squares, 0.0))
    return float(width), float(height), float(np.degrees(np.arctan2(axes[1, 1], axes[0, 1])))


def _set_limits(ax: Axes, boxes: list[Box]) -> None:
    """Limits around all ellipses, with room for names, that do not blow up small differences of the accuracy."""
    low, high = np.min([box.low for box in boxes], axis=0), np.max([box.high for box in boxes], axis=0)
    flat = high - low <= 1e-9
    margin = np.where(flat, (0.05, 1.0), 0.12 * (high - low))
    margin[1] = max(margin[1], (_LEAST_RANGE - (high - low)[1]) / 2)
    ax.set_xlim(low[0] - margin[0], high[0] + margin[0])
    top = min(high[1] + margin[1], max(_ALL, high[1]) + _ABOVE)  # no axis leads far beyond all
    ax.set_ylim(min(low[1] - margin[1], top - _LEAST_RANGE), top)


def _name_points(ax: Axes, names: list[str], handles: list[Any], boxes: list[Box], new: bool) -> None:
    """Names beside their points; where one finds no place, a legend of all."""
    per_pixel, size = style.POINTS / ax.figure.dpi, font(_FONT)

    def in_points(point: np.ndarray) -> np.ndarray:
        return np.asarray(ax.transData.transform(point)) * per_pixel

    shown = [style.label(name) for name in names]
    sizes = [np.array([drawn_width(name, size), size * LINE]) for name in shown]
    means = [in_points((box.low + box.high) / 2) for box in boxes]
    clouds = [Box(in_points(box.low), in_points(box.high)) for box in boxes]
    frame = Box(np.asarray(ax.bbox.min) * per_pixel, np.asarray(ax.bbox.max) * per_pixel)
    corners = beside(means, clouds, sizes, frame, _POINT * scale())
    if corners is None:
        legend_beside(ax, handles, names, new, size)
        return
    for name, box, mean, low, room in zip(shown, boxes, means, corners, sizes, strict=True):
        ax.annotate(
            name,
            tuple((box.low + box.high) / 2),
            xytext=tuple(low + room / 2 - mean),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=size,
            parse_math=False,
        ).set_in_layout(False)


def concept_scores(scores: ConceptScores, concepts: Sequence[str], ax: Axes | None = None, *, most: int = 2000) -> Axes:
    """Draw the scores of two or three concepts against each other, a mark an image, by class.

    The correlation, over all rows, stands in the title. Rows without a label, and classes beyond the eight most
    frequent, are grey.

    Args:
        scores: the table.
        concepts: names of two or three of its concepts.
        ax: where to draw, three-dimensional for three concepts; by default a new figure.
        most: rows to draw, evenly spread over the table.

    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from choqolate import ConceptScores
    >>> table = ConceptScores([[0.1, 0.2], [0.3, 0.5], [0.2, 0.3]], ["sea", "lake"], labels=["gull", "gull", "wren"])
    >>> ax = concept_scores(table, ["sea", "lake"])
    >>> ax.get_title(loc="left"), [text.get_text() for text in ax.get_legend().get_texts()]
    ('correlation 0.98', ['gull', 'wren'])
    """
    check_number("most", most, minimum=1, whole=True)
    index = find_concepts(concepts, scores.concepts, known="this table has")
    if len(index) not in (2, 3):
        raise ChoqolateError(f"expected the names of two or three concepts, got {len(index)}")
    if not len(scores):
        raise ChoqolateError("expected a table with rows, this one has none")
    new = ax is None
    if ax is None:
        ax = _score_axes(len(index))
    if len(index) == 3 and ax.name != "3d":
        raise ChoqolateError(
            "expected three-dimensional axes for three concepts, got flat ones: make them with "
            'plt.figure().add_subplot(projection="3d")'
        )
    names = [style.label(scores.concepts[j], style.LONGEST if len(index) == 2 else _ALONG_EDGE) for j in index]
    handles, classes = _scatter(ax, scores, index, most)
    for name, axis in zip(names, "xyz", strict=False):
        getattr(ax, f"set_{axis}label")(f"{name} (score)", fontsize=font(_FONT + 1), parse_math=False)
    ax.tick_params(labelsize=font(_FONT - 1))
    title = _correlations(scores.scores[:, index], names)
    write_title(ax, title, font(_TITLE))  # so that there is room for it
    if len(index) == 2:
        style.plain_frame(ax)
    if new and classes:
        legend_beside(ax, handles, classes, new, font(_FONT), markerscale=1.5)
    make_room(ax)
    if len(index) == 2:
        _few_ticks(ax)
        _cut_labels(ax, names)
    if not new and classes:
        legend_beside(ax, handles, classes, new, font(_FONT - 1), markerscale=2.0)
    write_title(ax, title, font(_TITLE), lines=1 + ax.get_title(loc="left").count("\n"))
    return ax


def _cut_labels(ax: Axes, names: Sequence[str]) -> None:
    """Names of concepts as long as their sides."""
    size = font(_FONT + 1)
    for axis, name, room in zip((ax.xaxis, ax.yaxis), names, style.size_in_points(ax), strict=True):
        axis.label.set_text(f"{style.shortened(name, room - drawn_width(' (score)', size), size)} (score)")


def _score_axes(dimensions: int) -> Axes:
    import matplotlib.pyplot as plt

    if dimensions == 2:
        return style.new_axes(5.2, 4.2)
    figure = plt.figure(figsize=(6.0 * scale(), 5.0 * scale()), layout="constrained")
    axes: Any = figure.add_subplot(projection="3d")
    axes.set_box_aspect(None, zoom=0.92)  # long names along the edges stay inside
    return cast("Axes", axes)


class ClassMark(NamedTuple):
    """How the rows of a class are drawn.

    Attributes:
        name: of the class, or what the rows have in common that are grey.
        rows: mask ``(n,)``.
        marker, colour: of its points.
    """

    name: str
    rows: np.ndarray
    marker: str
    colour: str


def class_marks(scores: ConceptScores) -> tuple[list[ClassMark], list[ClassMark]]:
    """Marks of the eight most frequent classes; and grey ones, to be drawn below, of rows that are in none of them."""
    labels = np.array([None] * len(scores) if scores.labels is None else scores.labels, dtype=object)
    frequent = Counter(label for label in labels.tolist() if label is not None)
    coloured = {name for name, _ in frequent.most_common(len(style.PALETTE))}
    own = [
        ClassMark(name, labels == name, style.marker_of(place), style.colour_of(place))
        for place, name in enumerate(name for name in scores.classes if name in coloured)
    ]
    other = np.array([label is not None and label not in coloured for label in labels])
    unlabelled = np.array([label is None for label in labels])
    grey = [ClassMark("other classes", other, "o", _FAINT), ClassMark("without a label", unlabelled, "d", _FAINT)]
    return own, [mark for mark in grey if mark.rows.any()]


def _scatter(ax: Axes, scores: ConceptScores, index: list[int], most: int) -> tuple[list[Any], list[str]]:
    """Marks by class, grey ones below; handles and names for the legend, none without labels."""
    rows = np.unique(np.linspace(0, len(scores) - 1, min(most, len(scores))).round().astype(int))
    own, grey = class_marks(scores)
    width, height = style.size_in_points(ax)
    size = float(np.clip(0.24 * width * height / len(rows), 4, 36 * scale()))

    def draw(mark: ClassMark) -> Any:
        columns: Any = scores.scores[np.ix_(rows[mark.rows[rows]], index)].T
        scatter: Any = ax.scatter  # of two or three dimensions
        return scatter(*columns, s=size, marker=mark.marker, color=mark.colour, alpha=0.75, linewidths=0)

    below = [draw(mark) for mark in grey if mark.rows[rows].any()]
    handles = [draw(mark) for mark in own] + below
    names = [mark.name for mark in [*own, *(mark for mark in grey if mark.rows[rows].any())]]
    return (handles, names) if own else ([], [])


def _correlations(columns: np.ndarray, names: list[str]) -> str:
    if len(columns) < 2:
        return "correlation not defined: one row"
    matrix = concept_correlation(columns)
    pairs = list(combinations(range(len(names)), 2))
    said = ["not defined" if np.isnan(matrix[pair]) else decimal(matrix[pair]) for pair in pairs]
    if len(pairs) == 1:
        return f"correlation {said[0]}"
    each = [f"{names[j]} and {names[l]} {value}" for (j, l), value in zip(pairs, said, strict=True)]
    return f"correlation: {', '.join(each)}"
