"""Table A9: is our Gini, is our coherence larger than a baseline's, or is it chance?"""

import math

from choqolate.experiments.engine import comparison
from choqolate.experiments.engine.comparison import Reading
from choqolate.experiments.engine.experiment import Collected, Experiment, Shown
from choqolate.experiments.engine.figures import QUALITIES
from choqolate.experiments.engine.markup import DASH
from choqolate.experiments.engine.methods import find_method
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.statistics import compare, show_p
from choqolate.experiments.engine.tables import Row, Table
from choqolate.experiments.paper import published as paper


def note(collected: Collected) -> str:
    """What Δ and p are."""
    ours = find_method(collected.settings.methods[0]).title
    return (
        "Δ is the distance of the medians relative to the size of the other's; p is that of the one-sided Mann-Whitney "
        f"U test that the values of {ours} are larger."
    )


def table(collected: Collected) -> Table:
    """A row for each baseline on each data set."""
    ours, *others = comparison.readings(collected)
    heads = ["Data set", "Other"]
    for name in ("Gini", "Coherence"):
        heads += [f"{name} Δ", f"{name} p", f"{name} Δ, paper", f"{name} p, paper"]
    rows = [Row(_texts(collected, source, ours, other), ()) for source in collected.sources for other in others]
    printed = [any(row.texts[k] for row in rows) for k in range(len(heads))]  # without empty columns of the paper
    kept = [Row(tuple(text for text, some in zip(row.texts, printed, strict=True) if some), ()) for row in rows]
    return Table(
        f"{ours.title} against the others",
        tuple(head for head, some in zip(heads, printed, strict=True) if some),
        (),
        kept,
    )


def _texts(collected: Collected, source: Source, ours: Reading, other: Reading) -> tuple[str, ...]:
    texts = [source.title, other.title]
    for metric in QUALITIES:
        first, second = (
            collected.values(comparison.config(source, one.method, collected.settings), one.of(metric))
            for one in (ours, other)
        )
        result = compare(first, second)
        known = source.in_paper and ours.method == "choqolate" and not other.suffix
        printed = paper.significance(metric, source.name, other.method) if known else None
        enough = min(result.n_ours, result.n_baseline) > 1
        texts += [_delta(result.delta), show_p(result.p)] if enough else [DASH, DASH]
        texts += ["", ""] if printed is None else [_delta(printed.delta), printed.p]
    return tuple(texts)


def _delta(value: float) -> str:
    return DASH if math.isnan(value) else f"{value:z.2f}"


def _show(collected: Collected) -> Shown:
    return Shown({"significance": table(collected)}, notes=[note(collected)])


EXPERIMENT = Experiment(
    name="significance",
    title="Significance of the separation",
    paper="Table A9",
    data=comparison.DATA,
    seeds=comparison.SEEDS,
    tasks=comparison.tasks,
    show=_show,
)
