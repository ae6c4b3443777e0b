"""Table 1: accuracy and worst group of a biased model, and of all that may free it from the bias."""

from __future__ import annotations

from dataclasses import replace

from choqolate._util.markup import CHECK
from choqolate.debiasing.registry import DEBIASING, Debiasing
from choqolate.experiments.engine.all_methods import settings_of
from choqolate.experiments.engine.experiment import Collected, Experiment, Label, Line, Options, RunSetting, Shown
from choqolate.experiments.engine.methods import find_method
from choqolate.experiments.engine.row_notes import rows_notes
from choqolate.experiments.engine.sources import Source
from choqolate.experiments.engine.training_notes import chosen
from choqolate.experiments.paper.protocol import ALL_METHODS, with_notes
from choqolate.experiments.paper.published import published

METRICS = ("accuracy", "worst_group", "reweighted_accuracy", "follows")
HEADS = ("Method", "No group labels", "No training", "Test time")
NOTE = (
    "Reweighted: groups count as often as in training. Marks, by column: needs no group labels; trains nothing (not "
    "even the last layer); can be applied to a model in use. The paper marks its oracle, which is trained without the "
    "spurious concepts, as free of fine-tuning. It does not mark the projections, although these train nothing if the "
    "weights are unchanged. Follows the bias: AUC of the class score within a class, for the group that is usual for "
    "the class in training rather than the others; 0.5 means that the model does not follow the bias."
)
AS_TRAINED, WITHOUT = "as trained", "trained without the spurious concepts"


def _line(way: Debiasing) -> Line:
    needs = way.needs
    marks = (not needs.group_labels, not needs.retraining, needs.test_time) if way.name != "baseline" else (False,) * 3
    return Line(way.name, (way.title, *(CHECK if mark else "" for mark in marks)))


def _settings(source: Source, options: Options) -> dict[Label, RunSetting]:
    """Every way out, from the same models; and methods of the user's own, with and without the spurious concepts."""
    found: dict[Label, RunSetting] = {way: RunSetting(parameters=options.common, debiasing=way) for way in DEBIASING}
    for name, setting in settings_of(options.own_methods, source, options).items():
        found |= {(name, AS_TRAINED): setting, (name, WITHOUT): replace(setting, core_only=True)}
    return found


def _own_line(name: str, how: str) -> Line:
    marks = (CHECK if how == WITHOUT else "", "", "")
    return Line((name, how), (f"{find_method(name).title}, {how}", *marks))


def _show(collected: Collected) -> Shown:
    lines = [_line(way) for way in DEBIASING.values()]
    lines += [_own_line(name, how) for name in collected.options.own_methods for how in (AS_TRAINED, WITHOUT)]
    table = collected.table("Bias mitigation", HEADS, METRICS, lines, published)
    own = [(name, how) for name in collected.options.own_methods for how in (AS_TRAINED, WITHOUT)]
    notes = [chosen(source, {label: runs[label] for label in own}) for source, runs in collected.runs.items()]
    return Shown({"mitigation": table}, notes=[NOTE, *filter(None, notes), *rows_notes(collected)])


def _misfit(source: Source) -> str | None:
    table = source.load()
    if table.groups is None:
        such_as = 'add a column "group" with values such as "landbird on water"'
        return f"{source.title} has no groups, so there is no worst group: {such_as}"
    unmarked = f"{source.title} has no concepts marked as spurious: name them in a file (--spurious words.txt)"
    return None if table.spurious else unmarked


EXPERIMENT = Experiment(
    name="mitigation",
    title="Bias mitigation",
    paper="Table 1",
    data=("waterbirds", "celeba"),
    seeds=20,
    settings=_settings,
    show=with_notes(_show, ALL_METHODS),
    misfit=_misfit,
)
