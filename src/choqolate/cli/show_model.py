"""Results as tables on the terminal. Names of concepts, classes and groups are user data: shown as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from choqolate._util.numbers import MINUS, decimal
from choqolate._util.text import counted
from choqolate.analysis.comparison import PairedComparison
from choqolate.analysis.evaluation import Evaluation
from choqolate.analysis.few_concepts import few_concepts_text
from choqolate.analysis.interval_text import p_text, small_groups_text
from choqolate.cli.terminal import NAME_WIDTH, cut, number, plain_table, printable_name
from choqolate.estimators.calibration import calibration_text
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.explain import ModelExplanation, explain_model, leading
from choqolate.metrics import PairedChange, Proportion
from choqolate.network.removal_report import Removal, factor_text

INTERVAL, TOO_FEW = "95% interval", "too few to tell"
TOP = 4  # leading concepts of a node
CLASS_COLUMNS = 3  # up to so many classes get a column of their own
MOST_ROWS = 20  # of a table with a row for each class or group
_SEARCHED = {"n_nodes": "nodes", "temperature": "temperature", "interactions": "interactions", "rank": "rank"}
_SMALLEST = 0.0005  # a share that is printed as more than zero
_GAP = 2  # cells between two columns
_SHARE = 27  # cells of a share with its interval, and the gaps
_CHANGE, _NARROW = 60, 12  # cells of all columns about a change; of the names beside them, at least


def show_headline(console: Console, source: Path, model: ChoqolateClassifier) -> None:
    """What was trained on what."""
    nodes = "no nodes" if model.one_layer_ else counted(model.network_.n_nodes, "node")
    sizes = f"{counted(len(model.concepts_), 'concept')}, {nodes}, {counted(len(model.classes_), 'class', 'classes')}"
    console.print(Text.assemble(("CHOQOLATE", "bold"), f" on {printable_name(source)}: {sizes}"), soft_wrap=True)


def show_plan(console: Console, parameters: Mapping[str, Any]) -> None:
    """What is about to be done, before it takes its time."""
    searched = [words for name, words in _SEARCHED.items() if parameters.get(name) == "auto"]
    if searched:
        text = f"searching on the training rows: {', '.join(searched)}; --paper trains the paper's settings instead"
        console.print(Text(text, style="dim"), soft_wrap=True)


def show_sample(console: Console, n_sampled: int, n_rows: int) -> None:
    """What is done on a sample of a table that stays in its file."""
    if n_sampled < n_rows:
        text = f"settings, start and calibration come from a sample of {n_sampled:,} of {n_rows:,} training rows"
        console.print(Text(text, style="dim"), soft_wrap=True)


def show_search(console: Console, model: ChoqolateClassifier) -> None:
    """What a search chose, what was given up, and the rule."""
    if model.search_ is not None:
        for line in model.search_.lines():
            console.print(Text(line, style="dim"), soft_wrap=True)


def show_summary(console: Console, results: dict[str, Evaluation]) -> None:
    """Accuracy, worst group, Gini and coherence, each evaluation with its intervals; the rows of the last one."""
    name, last = list(results.items())[-1]
    table = plain_table("", *(head for one in results for head in (one, INTERVAL)))
    columns = list(results.values())

    def add(what: str, cells: Iterable[str]) -> None:
        table.add_row(Text(what), *(part for cell in cells for part in (cell, "")))

    def add_shares(what: str, shares: Iterable[Proportion | None]) -> None:
        table.add_row(Text(what), *(part for share in shares for part in _share(share)))

    def add_errors(what: str, errors: Iterable[tuple[float, float]]) -> None:
        cells = (_error(*error, one.overall.too_few) for error, one in zip(errors, columns, strict=True))
        table.add_row(Text(what), *(part for cell in cells for part in cell))

    add("rows", (f"{result.rows:,}" for result in columns))
    add_shares("accuracy", (result.overall for result in columns))
    if last.majority_class is not None:
        room = min(NAME_WIDTH, max(_NARROW, console.width - len("always predict ") - _SHARE * len(columns)))
        add_shares(f"always predict {cut(last.majority_class, room)}", (result.majority for result in columns))
    if any(result.worst_group for result in columns):
        add_shares("worst group", (result.worst_share for result in columns))
    add("Attribution Gini", (number(result.attribution_gini) for result in columns))
    add("interaction mass", (number(result.interaction_mass) for result in columns))
    add("Node Coherence", (number(result.node_coherence) for result in columns))
    add("concepts per class", (decimal(result.concepts_per_class, 1, minus="-") for result in columns))
    errors = [(result.calibration_error_trained, result.calibration_error) for result in columns]
    has_errors = not all(isnan(now) for _, now in errors)
    if has_errors:
        add_errors(
            "calibration error", [(one.calibration_error_trained, one.calibration_chance_trained) for one in columns]
        )
        if any(before != now for before, now in errors):
            add_errors("  after calibration", [(one.calibration_error, one.calibration_chance) for one in columns])
    console.print(table)
    if has_errors and not last.overall.too_few:
        said = "by chance: what perfectly calibrated models stay below on as many rows (95%)"
        console.print(Text(said, style="dim"))
    few, shares = few_concepts_text(last.nec_accuracy, last.rows)
    if few:
        console.print(Text(f"{few}: {shares}", style="dim"))
    console.print(Text(f"{name or 'rows'}: {last.chosen}", style="dim"))
    if (worst := last.worst_measurable_group) is not None:
        console.print(Text(f"worst group: {cut(worst[0])}", style="dim"))
    _show_small_groups(console, last)


def _share(share: Proportion | None) -> tuple[str, str]:
    """A share and its interval."""
    if share is None or share.too_few:
        return number(None), "" if share is None else TOO_FEW
    low, high = share.interval
    return number(share.value), f"{low:.2f} – {high:.2f}"


def _error(error: float, chance: float, too_few: bool) -> tuple[str, str]:
    """A calibration error, and how large it may be by chance."""
    if too_few:
        return number(None), "" if isnan(error) else TOO_FEW
    return number(error), "" if isnan(chance) else f"{chance:.2f} by chance"


def _show_small_groups(console: Console, result: Evaluation) -> None:
    if result.small_groups:
        names = small_groups_text({cut(name): rows for name, rows in result.small_groups.items()})
        console.print(Text(f"{TOO_FEW}: {names}", style="dim"))


def show_edits(console: Console, model: ChoqolateClassifier) -> None:
    """What was done to the model since training, if anything."""
    done = [str(edit) for edit in model.network_.edits_in_force]
    if done:
        console.print(Text(printable_name(f"edited: {'; '.join(done)}"), style="dim"), soft_wrap=True)


def show_evaluation(console: Console, title: str, result: Evaluation, model: ChoqolateClassifier) -> None:
    """All of an evaluation: the summary, each class, each group, the most frequent mistakes."""
    console.print(Text(printable_name(title), style="bold"), soft_wrap=True)
    show_edits(console, model)
    show_summary(console, {"": result})
    if model.calibration_ is not None:
        advice = "" if model.calibration_is_current_ else ": calibrate it again"
        console.print(Text(calibration_text(model) + advice, style="dim"), soft_wrap=True)
    for kind, shares in (("class", result.by_class), ("group", result.by_group)):
        if not shares:
            continue
        shown = list(shares)
        if len(shown) > MOST_ROWS:
            shown = sorted(shown, key=lambda name: (shares[name].too_few, shares[name].value))[:MOST_ROWS]
        table = plain_table(kind, "rows", "accuracy", INTERVAL)
        for name in shown:
            table.add_row(_name(name), f"{shares[name].rows:,}", *_share(shares[name]))
        console.print("", table)
        if len(shown) < len(shares):
            console.print(Text(f"the lowest of {len(shares):,}: --json lists all", style="dim"))
    _show_mistakes(console, result)


def _show_mistakes(console: Console, result: Evaluation, most: int = 5) -> None:
    mistakes = result.mistakes
    if not mistakes:
        return
    table = plain_table("class", "taken for", "rows", left=2)
    width = min(NAME_WIDTH, (console.width - len("100,000") - 2 * _GAP) // 2)
    for count, truth, other in mistakes[:most]:
        table.add_row(Text(cut(truth, width)), Text(cut(other, width)), f"{count:,}")
    console.print("", table)
    if len(mistakes) > most:
        console.print(Text(f"the most frequent of {len(mistakes):,} mistakes: --json lists all", style="dim"))


def show_nodes(console: Console, model: ChoqolateClassifier) -> None:
    """What each node reads, and what it counts for."""
    classes, explanation = [cut(name) for name in model.classes_.tolist()], explain_model(model, most=0)
    concepts, recurs = "leading concepts (Shapley value)", _recurrence(explanation)
    last = ["recurs"] if recurs else []
    taken = max(map(cell_len, (*last, *recurs)), default=-_GAP) + _GAP

    def leading_of(node: int, room: int) -> Text:
        return _leading(explanation.names_in(node), explanation.node_attributions[node], room)

    if explanation.one_layer:
        table = plain_table("class", concepts, left=2)
        room = console.width - _GAP - max(map(cell_len, classes))
        for node, name in enumerate(classes):
            table.add_row(Text(name), leading_of(node, room))
    elif len(classes) <= CLASS_COLUMNS and sum(map(cell_len, classes)) <= console.width // 3:
        table = plain_table("node", concepts, *classes, *last, left=2)
        room = console.width - 4 - _GAP - sum(max(cell_len(name), len("0.000")) + _GAP for name in classes) - taken
        for node, shares in enumerate(explanation.class_attributions.T):
            counts = (f"{share:.3f}" for share in shares)
            table.add_row(str(node), leading_of(node, room), *counts, *recurs[node : node + 1])
    else:
        table = plain_table("node", concepts, "counts most for", *last, left=3)
        room = (console.width - 4 - 2 * _GAP - taken) // 2
        for node, shares in enumerate(explanation.class_attributions.T):
            most_for = _leading(classes, shares, room, most=3)
            table.add_row(str(node), leading_of(node, room), most_for, *recurs[node : node + 1])
    console.print("", table)
    if recurs:
        edited = ", as it was before the edits" if model.network_.is_edited else ""
        said = f"recurs: number of runs with other seeds that have the same node{edited}"
        console.print(Text(said, style="dim"))


def _recurrence(explanation: ModelExplanation) -> list[str]:
    """In how many other runs each node recurs; nothing if it was not measured."""
    found = explanation.stability
    return [] if found is None else [f"{count} of {found.n_others}" for count in found.counts[0].tolist()]


def show_export(console: Console, model: ChoqolateClassifier, file: Path) -> None:
    """What an exported model takes and gives, which edits are in it, where it is and how large."""
    from choqolate.network.onnx_graph import INPUT, columns

    show_edits(console, model)
    table = plain_table("", "name", "type", "shape", left=4)
    for name, size in columns(model.network_).items():
        table.add_row("input" if name == INPUT else "output", name, "float32", Text(f"[batch, {size}]"))
    console.print(table)
    size = file.stat().st_size
    console.print(Text(f"\nThe ONNX model is in {printable_name(file)} ({size / 1000:,.1f} kB)."), soft_wrap=True)


def show_removal(console: Console, model: ChoqolateClassifier, removal: Removal) -> None:
    """What every node lost."""
    if removal.concepts:
        console.print(Text(f"removed: {_several(removal.concepts)}"))
    if removal.reweighted:
        factors = [f"{cut(name)} by {factor_text(*ends)}" for name, ends in removal.reweighted.items()]
        console.print(Text(f"reweighted: {_several(factors)}"))
    one_layer = model.one_layer_
    heads = [cut(name) for name in (model.classes_.tolist() if one_layer else range(len(removal.mass_lost)))]
    table = plain_table("class" if one_layer else "node", "weight lost", "kept")
    if removal.concepts:
        table.add_column("removed concepts it read (Shapley value)")
    room = console.width - max(5, *map(cell_len, heads)) - 17 - 3 * _GAP
    rows = zip(heads, removal.mass_lost, removal.mass_retained, removal.shapley, strict=True)
    for head, lost, kept, shares in rows:
        read = [_leading(removal.concepts, shares, room)] if removal.concepts else []
        table.add_row(Text(head), f"{max(lost, 0):.1%}", f"{kept:.1%}", *read)
    console.print("", table)
    if removal.class_shift.any():
        shifts = [f"{cut(name)} {shift:+.4f}" for name, shift in zip(model.classes_, removal.class_shift, strict=True)]
        console.print(Text(f"recalibrated, class scores shifted by: {_several(shifts)}", style="dim"))


def show_comparison(console: Console, compared: PairedComparison) -> None:
    """Accuracies before and after an edit, on the same rows, and which changes are more than chance."""
    before, after = compared.before, compared.after
    table = plain_table("", "rows", "before", "after", "change", INTERVAL, "p")
    room = max(_NARROW, console.width - _CHANGE)

    def add(name: str, old: Proportion, new: Proportion, change: PairedChange) -> None:
        if change.too_few:
            table.add_row(Text(cut(name, room)), f"{change.rows:,}", "", "", "", TOO_FEW, "")
            return
        style = ("green" if change.value > 0 else "red") if change.beyond_chance else ""
        low, high = (decimal(end, 2, signed=True, minus="-") for end in change.interval)
        numbers = (number(old.value), number(new.value), Text(f"{change.value:+.3f}", style=style))
        table.add_row(
            Text(cut(name, room)), f"{change.rows:,}", *numbers, f"{low} to {high}", Text(p_text(change.p_value))
        )

    add("accuracy", before.overall, after.overall, compared.overall)
    names = sorted(compared.groups, key=lambda name: (before.by_group[name].too_few, before.group_accuracy[name]))
    for name in names[:MOST_ROWS]:
        add(f"  {name}", before.by_group[name], after.by_group[name], compared.groups[name])
    console.print("", table)
    console.print(Text(f"rows: {before.chosen}; interval and p (exact McNemar) refer to the change", style="dim"))
    if len(names) > MOST_ROWS:
        console.print(Text(f"the lowest of {len(names):,} groups: choqolate eval --json lists all", style="dim"))
    for line in compared.lines():
        console.print(Text(printable_name(line).replace(MINUS, "-")))


def _leading(names: Sequence[str], shares: np.ndarray, room: int, most: int = TOP) -> Text:
    """The names with the largest shares, each with its number on the same line, in lines of at most ``room`` cells."""
    text, used, width = Text(), 0, max(8, min(NAME_WIDTH, room - len(" 0.000,")))
    for name, value in leading(names, shares, most):
        if text and abs(value) < _SMALLEST:
            break
        entry = Text(f"{cut(name, width)} ").append(number(value), style="dim")
        fits = used + 2 + entry.cell_len + 1 <= room
        text.append("" if not text else ", " if fits else ",\n").append(entry)
        used = entry.cell_len + (used + 2 if fits and used else 0)
    return text


def _several(names: Iterable[str], most: int = 10) -> str:
    shown = [cut(name) for name in names]
    rest = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + rest


def _name(name: object) -> Text:
    return Text(cut(name))
