"""Table A7 and Figure A2: more and more classes behind eight nodes."""

from __future__ import annotations

from choqolate.experiments.engine.experiment import Options, RunSetting
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.sweeps import SweepRow, sweep
from choqolate.experiments.paper.published import CLASSES

QUICK = 3  # numbers of classes


def _settings(source: Source, options: Options) -> dict[SweepRow, RunSetting]:
    """The paper's numbers of classes, up to those that there are."""
    counts = [count for count in CLASSES if count <= len(source.load().classes)]
    return {
        SweepRow((str(count),), f"{count} classes", CLASSES[count]): RunSetting(
            parameters=options.common, n_classes=count
        )
        for count in (counts[:QUICK] if options.quick else counts)
    }


def _misfit(source: Source) -> str | None:
    least, found = min(CLASSES), len(source.load().classes)
    return None if found >= least else f"the sweep begins with {least} classes, {source.title} has {found}"


EXPERIMENT = sweep(
    name="classes",
    title="Number of classes",
    paper="Table A7, Figure A2",
    data=("cub",),
    caption="Number of classes of {data}",
    heads=("Classes",),
    settings=_settings,
    misfit=_misfit,
)
