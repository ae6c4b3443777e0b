"""How much of the deviation is that of the initial parameters, and how much that of the order of the batches."""

from __future__ import annotations

from dataclasses import replace

from choqolate.experiments.engine.all_methods import SEEDS
from choqolate.experiments.engine.experiment import Collected, Options, RunSetting
from choqolate.experiments.engine.methods import USUAL_BATCH
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.sweeps import SweepRow, sweep
from choqolate.experiments.paper.protocol import OURS, with_notes
from choqolate.experiments.paper.published import DATA, QUALITY, Quality, accuracy

ROWS = {"common": ("common to all seeds", "common order"), "seed": ("the seed's own", "own order of each seed")}
NOTE = (
    "In all other tables all seeds share the order of the batches, so deviations come from the initial parameters "
    "alone. If each seed has its own order, they come from both. The paper does not say which it uses. A standard "
    "deviation over n runs is itself known to about 1/√(2(n − 1)) of its size: 16% for 20 runs."
)


def _settings(source: Source, options: Options) -> dict[SweepRow, RunSetting]:
    printed = accuracy(source.name, "choqolate")
    known = QUALITY.get(source.name, {}).get("choqolate")
    paper = None if printed is None or known is None else Quality(printed, *known)
    return {
        SweepRow((text,), legend, paper): RunSetting(parameters=options.common | {"shuffle": shuffle})
        for shuffle, (text, legend) in ROWS.items()
    }


def _single_batches(collected: Collected) -> str:
    """Where there is no order of batches."""
    sizes = {source.title: len(source.load().part("train").labelled()) for source in collected.runs}
    small = [f"{title} ({size:,} training rows)" for title, size in sizes.items() if size <= USUAL_BATCH]
    return f"All rows fit in one batch, so there is no order of batches: {', '.join(small)}." if small else ""


_SWEEP = sweep(
    name="seeds",
    title="Deviation over seeds",
    paper="Tables A3, A4",
    data=DATA,
    caption="Deviation over seeds on {data}",
    heads=("Order of the batches",),
    settings=_settings,
    note=f"{NOTE} {OURS}",
    seeds=SEEDS,
    rivals=False,
)
EXPERIMENT = replace(_SWEEP, show=with_notes(_SWEEP.show, _single_batches))
