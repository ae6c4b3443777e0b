"""Table 1: accuracy and worst group of a biased model, and of all that may free it from the bias."""

from __future__ import annotations

from choqolate._util.markup import CHECK
from choqolate.debiasing.registry import DEBIASING, Debiasing
from choqolate.experiments.engine.experiment import Collected, Experiment, Line, RunSetting, Shown
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.paper.published import published

METRICS = ("accuracy", "worst_group", "reweighted_accuracy")
HEADS = ("Method", "No group labels", "No training", "Test time")
NOTE = (
    "Reweighted: groups count as often as in training. A mark says that a method needs no group labels, trains nothing "
    "(not even the last layer), and can be applied to a model in use. The paper marks its oracle, which is a training "
    "without the words, as free of fine-tuning, and the projections not; with the same weights they train nothing."
)


def _line(way: Debiasing) -> Line:
    needs = way.needs
    marks = (not needs.group_labels, not needs.retraining, needs.test_time) if way.name != "baseline" else (False,) * 3
    return Line(way.name, (way.title, *(CHECK if mark else "" for mark in marks)))


def _show(collected: Collected) -> Shown:
    table = collected.table("Bias mitigation", HEADS, METRICS, [_line(way) for way in DEBIASING.values()], published)
    return Shown({"mitigation": table}, notes=[NOTE])


def _misfit(source: Source) -> str | None:
    table = source.load()
    if table.groups is None:
        return f'{source.title} has no groups, so no worst one: add a column "group", such as bird and background'
    unmarked = f"{source.title} has no concepts marked as spurious: name them in a file (--spurious words.txt)"
    return None if table.spurious else unmarked


EXPERIMENT = Experiment(
    name="mitigation",
    title="Bias mitigation",
    paper="Table 1",
    data=("waterbirds", "celeba"),
    seeds=20,
    settings=lambda source, options: {way: RunSetting(parameters=options.common, debiasing=way) for way in DEBIASING},
    show=_show,
    misfit=_misfit,
)
