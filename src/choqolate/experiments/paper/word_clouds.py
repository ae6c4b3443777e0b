"""Figure 4 and the clouds of the appendix: what the nodes of CHOQOLATE read, beside those of PCBM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from choqolate.experiments.engine import comparison
from choqolate.experiments.engine.experiment import Collected, Experiment, Settings, Shown
from choqolate.experiments.engine.methods import find_method
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.tasks import Task
from choqolate.explain import explain_model
from choqolate.plots import word_clouds
from choqolate.plots.style import scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("pcbm", "choqolate")
NOTE = "A minus stands before words with a negative weight. A node that reads nothing has no weights left."
_SIZE = (9.0, 5.0)  # inches, of the clouds of one method


def _tasks(source: Source, settings: Settings) -> Sequence[Task]:
    """The runs tell which hyperparameters were chosen; the first is trained again to be looked at."""
    return [comparison.training(source, method, settings) for method in METHODS]


def _draw(collected: Collected, source: Source) -> Figure:
    import matplotlib.pyplot as plt

    table = source.load()
    configs = {method: comparison.config(source, method, collected.settings) for method in METHODS}
    firsts = {method: collected.outcome.of(config, collected.seeds)[:1] for method, config in configs.items()}
    there = {method: runs[0] for method, runs in firsts.items() if runs}
    size = (_SIZE[0] * scale(), _SIZE[1] * len(there) * scale())
    figure, axes = plt.subplots(len(there), 1, figsize=size, layout="constrained", squeeze=False)
    for (name, run), ax in zip(there.items(), axes[:, 0], strict=True):
        method, parameters = find_method(name), run.chosen | configs[name]["parameters"]
        model = method.train(table.part("train"), [run.seed], [parameters])[0][0]
        title = f"{method.title} on {source.title}"
        word_clouds(explain_model(model, table.part("test").frame), ax, title=title)
    return figure


def _show(collected: Collected) -> Shown:
    figures = {f"clouds-{source.name}": _draw(collected, source) for source in collected.sources}
    return Shown(figures=figures, notes=[NOTE])


EXPERIMENT = Experiment(
    name="clouds",
    title="Word clouds of CHOQOLATE and PCBM",
    paper="Figures 4, A5 to A8",
    data=("cats-dogs-cars", "monumai", "coco"),
    seeds=1,
    tasks=_tasks,
    show=_show,
)
