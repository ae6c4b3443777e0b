"""Figure 4 and the clouds of the appendix: what the nodes of CHOQOLATE read, beside those of PCBM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from choqolate.experiments import comparison
from choqolate.experiments.experiment import Collected, Experiment, Settings, Shown
from choqolate.experiments.methods import find_method
from choqolate.experiments.sources import Source
from choqolate.experiments.tasks import Task
from choqolate.explain import explain_model
from choqolate.plots import word_clouds
from choqolate.plots.style import scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("pcbm", "choqolate")
_SIZE = (9.0, 5.0)  # inches, of the clouds of one method


def _tasks(source: Source, settings: Settings) -> Sequence[Task]:
    """The runs tell which hyperparameters were chosen; the first is trained again to be looked at."""
    return [comparison.training(source, method, settings) for method in METHODS]


def _draw(collected: Collected, source: Source) -> Figure:
    import matplotlib.pyplot as plt

    table = source.load()
    figure, axes = plt.subplots(
        len(METHODS), 1, figsize=(_SIZE[0] * scale(), _SIZE[1] * len(METHODS) * scale()), layout="constrained"
    )
    for method, ax in zip(METHODS, axes, strict=True):
        config = comparison.config(source, method, collected.settings)
        first = collected.outcome.of(config, collected.seeds)[0]
        parameters = first.chosen | config["parameters"]
        model = find_method(method).train(table.part("train"), [first.seed], [parameters])[0][0]
        word_clouds(explain_model(model, table.part("test").frame), ax, title=find_method(method).title)
    return figure


def _show(collected: Collected) -> Shown:
    return Shown(figures={f"clouds-{source.name}": _draw(collected, source) for source in collected.sources})


EXPERIMENT = Experiment(
    name="clouds",
    title="Word clouds of CHOQOLATE and PCBM",
    paper="Figures 4, A5 to A8",
    data=("cats-dogs-cars", "monumai", "coco"),
    seeds=1,
    tasks=_tasks,
    show=_show,
)
