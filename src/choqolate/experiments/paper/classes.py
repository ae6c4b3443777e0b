"""Table A7 and Figure A2: more and more classes behind eight nodes."""

from __future__ import annotations

from dataclasses import replace

from choqolate.experiments.engine.all_methods import settings_of
from choqolate.experiments.engine.experiment import Options, RunSetting
from choqolate.experiments.engine.methods import find_method
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.sweeps import SweepRow, sweep
from choqolate.experiments.paper.protocol import OURS, cub_contradiction, with_notes
from choqolate.experiments.paper.published import CLASSES

QUICK = 3  # numbers of classes


def _settings(source: Source, options: Options) -> dict[SweepRow, RunSetting]:
    """The paper's numbers of classes, up to those that there are."""
    counts = [count for count in CLASSES if count <= len(source.load().classes)]
    rows = {}
    for count in counts[:QUICK] if options.quick else counts:
        texts = (str(count), find_method("choqolate").title)
        row = SweepRow(texts, f"{count} classes", CLASSES[count])
        rows[row] = RunSetting(parameters=options.common, n_classes=count)
        for name, own in settings_of(options.own_methods, source, options).items():
            title = find_method(name).title
            rows[SweepRow((str(count), title), f"{title}, {count} classes")] = replace(own, n_classes=count)
    return rows


def _misfit(source: Source) -> str | None:
    least, found = min(CLASSES), len(source.load().classes)
    return None if found >= least else f"the sweep begins with {least} classes, {source.title} has {found}"


_SWEEP = sweep(
    name="classes",
    title="Number of classes",
    paper="Table A7, Figure A2",
    data=("cub",),
    caption="Number of classes of {data}",
    heads=("Classes", "Method"),
    settings=_settings,
    note=OURS,
    misfit=_misfit,
)
EXPERIMENT = replace(_SWEEP, show=with_notes(_SWEEP.show, cub_contradiction))
