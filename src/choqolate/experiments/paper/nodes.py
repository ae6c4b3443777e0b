"""Figure A4: more and more nodes, of all methods. What is chosen on validation rows is chosen with eight."""

from choqolate.experiments.engine.experiment import Options, RunSetting
from choqolate.experiments.engine.methods import find_method
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.sweeps import SweepRow, sweep
from choqolate.experiments.paper.protocol import ALL_METHODS

NODES, QUICK = (4, 8, 12, 16, 18), (4, 8, 16)


def _settings(source: Source, options: Options) -> dict[SweepRow, RunSetting]:
    rows = {}
    for count in QUICK if options.quick else NODES:
        for method in options.methods:
            title = find_method(method).title
            own, tuned_at = (options.budgeted(source) | {"n_nodes": n} for n in (count, 8))
            row = SweepRow((str(count), title), title, panel=f"{count} nodes")
            rows[row] = RunSetting(method, own, options.rule, tuned_at)
    return rows


EXPERIMENT = sweep(
    name="nodes",
    title="Number of nodes",
    paper="Figure A4",
    data=("coco",),
    caption="Number of nodes on {data}",
    heads=("Nodes", "Method"),
    settings=_settings,
    note=ALL_METHODS,
)
