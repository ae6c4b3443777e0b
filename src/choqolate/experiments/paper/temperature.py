"""Table A6 and Figure A1: the temperature as the dial between accuracy and sparsity. Without the l1 penalty."""

from choqolate.experiments.engine.experiment import Options, RunSetting
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.sweeps import SweepRow, sweep
from choqolate.experiments.paper.protocol import OURS
from choqolate.experiments.paper.published import TEMPERATURES


def _settings(source: Source, options: Options) -> dict[SweepRow, RunSetting]:
    common = {"l1": 0.0} | options.common
    return {
        SweepRow((f"{value:g}",), f"T = {value:g}", paper): RunSetting(parameters=common | {"temperature": value})
        for value, paper in TEMPERATURES.items()
    }


EXPERIMENT = sweep(
    name="temperature",
    title="Effect of the temperature",
    paper="Table A6, Figure A1",
    data=("coco",),
    caption="Effect of the temperature on {data}",
    heads=("T",),
    settings=_settings,
    note=OURS,
)
