"""Table A8 and Figure A3: what each component of CHOQOLATE contributes."""

from typing import Any

from choqolate._util.markup import CHECK
from choqolate.experiments.engine.experiment import Options, RunSetting
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.sweeps import SweepRow, sweep
from choqolate.experiments.paper.protocol import OURS
from choqolate.experiments.paper.published import COMPONENTS, Component

NOTE = (
    "Without the softmax, weights are free: they need not be in [0, 1] or sum to one, and attributions are absolute "
    'Shapley values. "l1 all" penalizes the interactions of both layers and, with free weights, the first order too; '
    "under the softmax, a penalty on every weight would be a constant. The paper's row 7, where all weights are alike, "
    "has a second interpretation: an l1 penalty on the parameters of both layers before the softmax. This is a "
    "conjecture. Free weights start from N(0, 1/number of weights)."
)
READ_TWICE = 7


def parameters(row: Component) -> dict[str, Any]:
    """The classifier of a row of the table.

    >>> parameters(COMPONENTS[5])
    {'interactions': 'pairwise', 'free_weights': False, 'l1': 0.01, 'l1_on': 'first'}
    """
    return {
        "interactions": "pairwise" if row.second_order else "none",
        "free_weights": not row.softmax,
        "l1": 0.01 if row.l1_inter or row.l1_all else 0.0,
        "l1_on": "all" if row.l1_all else "first",
    }


def _row(number: int, row: Component) -> SweepRow:
    said = ["1st and 2nd" if row.second_order else "1st", "softmax" if row.softmax else "free"]
    said += ["l1"] * row.l1_inter + ["l1 all"] * row.l1_all
    marks = (row.first_order, row.second_order, row.softmax, row.l1_inter, row.l1_all)
    texts = (str(number), *(CHECK if mark else "" for mark in marks))
    return SweepRow(texts, f"{number}: {', '.join(said)}", row.quality)


def _settings(source: Source, options: Options) -> dict[SweepRow, RunSetting]:
    settings = {}
    for number, row in enumerate(COMPONENTS, start=1):
        usual, own = _row(number, row), options.common | parameters(row)
        settings[usual] = RunSetting(parameters=own)
        if number == READ_TWICE:
            other = f"{number}, l1 on parameters"
            again = usual._replace(texts=(other, *usual.texts[1:]), legend=other)
            settings[again] = RunSetting(parameters=own | {"l1_on": "parameters"})
    return settings


EXPERIMENT = sweep(
    name="components",
    title="Components of CHOQOLATE",
    paper="Table A8, Figure A3",
    data=("coco",),
    caption="Components of CHOQOLATE on {data}",
    heads=("Row", "1st order", "2nd order", "Softmax weights", "l1 inter", "l1 all"),
    settings=_settings,
    note=f"{NOTE} {OURS}",
)
