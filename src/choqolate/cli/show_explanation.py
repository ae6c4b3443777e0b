"""Explanations on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from choqolate._util.text import capital, counted
from choqolate.analysis.evaluation import evaluate
from choqolate.analysis.failing_slices import FailingSlices
from choqolate.analysis.interval_text import p_text, point_range
from choqolate.analysis.suspects import Suspects
from choqolate.cli import show_model as show
from choqolate.cli.show_formulas import show_formulas
from choqolate.cli.terminal import cut, number, plain_table, printable_name, show_next
from choqolate.data.scores import ConceptScores
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.estimators.predictions import doubt
from choqolate.estimators.table_inputs import inputs
from choqolate.explain import Attribution, ImageExplanation, ModelExplanation, explain_image, explain_model
from choqolate.report import share as share_text
from choqolate.report.model_origin import removal_command

MOST_CLASSES, MOST_CONCEPTS, MOST_NODES, MOST_PAIRS, MOST_SUSPECTS = 3, 8, 4, 3, 10
MOST_QUESTIONS, MOST_SIBLINGS = 5, 12
_BAR = 20  # cells of the longest bar
_NUMBERS = 29  # cells of the two columns of numbers and the gaps


def show_images(console: Console, model: ChoqolateClassifier, rows: ConceptScores) -> None:
    """What the model makes of images, one after the other."""
    assert rows.paths is not None
    for row, path in enumerate(rows.paths):
        if row:
            console.print()
        one = rows.take([row])
        show_image(console, str(path), explain_image(model, inputs(model, one)), doubt(model, one))


def show_image(console: Console, name: str, why: ImageExplanation, doubts: str = "") -> None:
    """Predicted classes, the concepts and nodes that decided, and what would change the prediction."""
    console.print(Text(printable_name(name), style="bold"), soft_wrap=True)
    table = plain_table("class", "probability")
    for label, probability in why.probabilities[:MOST_CLASSES]:
        table.add_row(Text(cut(label)), f"{probability:.1%}")
    console.print(table)
    if doubts:
        console.print(Text(f"Look twice: {printable_name(doubts)}.", style="yellow"), soft_wrap=True)
    console.print(Text(f"\nWhy {printable_name(why.lead.subjects[0])}", style="bold"), soft_wrap=True)
    _show_steps(console, "concept", why.lead, MOST_CONCEPTS)
    if why.node_lead is not None:
        console.print()
        _show_steps(console, "node", why.node_lead, MOST_NODES)
    start, end = float(why.lead.start[0]), float(why.lead.end[0])
    console.print(
        Text(f"lead: {start:+.4f} for the mean training image, {end:+.4f} for this one; █ for, ▒ against", style="dim")
    )
    console.print(Text(f"\n{printable_name(capital(str(why.counterfactual)))}."), soft_wrap=True)
    if why.predicted_before is not None:
        said = printable_name(why.predicted_before) if why.flipped else "the same class"
        console.print(Text(f"Before the edits it was taken for {said}."), soft_wrap=True)


def _show_steps(console: Console, what: str, attribution: Attribution, most: int) -> None:
    """The leading contributions to a lead, with bars, and the others together."""
    table = plain_table(what, "score" if what == "concept" else "value", "adds to the lead")
    table.add_column("")
    leading = attribution.leading(0, most)
    width = max((cell_len(cut(share.name)) for share in leading), default=0)
    room = max(3, min(_BAR, console.width - max(width, 10) - _NUMBERS))
    longest = max((abs(share.value) for share in leading), default=1.0)
    for share in leading:
        length = round(room * abs(share.value) / longest)
        bar = ("█" if share.value > 0 else "▒") * max(length, 1)
        table.add_row(Text(cut(share.name)), f"{share.level:.2f}", f"{share.value:+.4f}", bar)
    n_rest, rest = attribution.others(0, most)
    if n_rest:
        table.add_row(Text(f"{n_rest:,} others", style="dim"), "", f"{rest:+.4f}", "")
    console.print(table)


def show_model(
    console: Console,
    folder: Path,
    model: ChoqolateClassifier,
    table: ConceptScores | None,
    suspects: Suspects | None,
    *,
    brief: bool = False,
) -> None:
    """Nodes, interactions and near duplicates; with scores, how good it is and the suspects. Briefly, those alone."""
    show.show_headline(console, folder, model)
    show.show_edits(console, model)
    if suspects is not None and table is not None:
        show.show_summary(console, {"": evaluate(model, table)})
    if not brief:
        show.show_nodes(console, model)
        show_formulas(console, model)
        explanation = explain_model(model, None if table is None else inputs(model, table))
        _show_interactions(console, explanation)
        for pair in explanation.duplicates:
            console.print(Text(f"nodes {pair.first} and {pair.second} are nearly the same", style="yellow"))
    if suspects is not None:
        _show_suspects(console, suspects)
        if suspects.failing is not None and not suspects.helpful:
            _show_failing_slices(console, suspects.failing)


def show_next_steps(
    folder: Path,
    model: ChoqolateClassifier,
    scores: Path | None,
    suspects: Suspects | None,
    *,
    page: bool,
    given: Sequence[str] = (),
) -> None:
    """A page, if there is none yet; a removal of the suspects, or of whatever should not count; a new image."""
    commands: list[list[str | Path]] = []
    if page:
        commands.append(["explain", folder, "--scores", scores or "SCORES", "-o", "report.html", *given])
    if suspects is not None and scores is not None:
        suspected = [name for name in suspects.suspected if name == printable_name(name)]
        options = ("-o", f"{folder}-edited", "--scores", str(scores), *given)
        commands.append([*removal_command(str(folder), suspected or ["CONCEPT"], *options)[1:]])
    if model.provenance_.vocabulary.templates:
        commands.append(["explain", folder, "--image", "PHOTO"])
    if commands:
        show_next("The model is", folder, *commands)


def _show_interactions(console: Console, explanation: ModelExplanation) -> None:
    table = plain_table("class" if explanation.one_layer else "node", "strongest pairs of concepts", left=2)
    for node, pairs in enumerate(explanation.interactions):
        signs = [
            f"{cut(p.first)} {'and' if p.index > 0 else 'or'} {cut(p.second)} {p.index:+.3f}"
            for p in pairs[:MOST_PAIRS]
            if p.notable
        ]
        if signs:
            table.add_row(
                Text(cut(explanation.nodes[node]) if explanation.one_layer else str(node)), Text("\n".join(signs))
            )
    if table.row_count:
        console.print("", table)
        console.print(Text("and, above zero: it takes both; or, below zero: one stands in for the other", style="dim"))


def _show_suspects(console: Console, suspects: Suspects) -> None:
    """Removals that help the worst group, or why nothing is known of it."""
    if suspects.unclear and suspects.worst_group is not None:
        name, rows = suspects.worst_group
        said = (
            f"the worst group, {cut(name)}, has only {counted(rows, 'image')}: too few to tell whether a removal helps"
        )
        console.print(Text(f"\n{said}", style="dim"))
        return
    if suspects.needed is None or suspects.worst_group is None:
        return
    least = f"{100 * suspects.needed:.1f} points"
    if not suspects.helpful:
        said = f"no removal of a concept, or of related ones, lifts the worst group by {least} or more"
        console.print(Text(f"\n{said}", style="dim"))
        return
    table = plain_table("without", "share", "accuracy", "worst group", "95% interval", "p")
    for one in suspects.helpful[:MOST_SUSPECTS]:
        names = cut(", ".join(map(printable_name, one.concepts)), max(20, console.width - 62))
        changes = (f"{100 * change:+.1f}" for change in (one.accuracy_change, one.worst_group_change))
        test = one.paired
        judged = ("", number(None)) if test is None else (point_range(test.interval), p_text(test.p_value))
        table.add_row(Text(names), share_text(one.share), *changes, *judged)
    console.print("", table)
    measured = f"{counted(suspects.rows, 'image')} ({suspects.chosen})"
    console.print(Text(f"change in points on {measured}; removals that help by {least} or more", style="dim"))
    name, size = suspects.worst_group
    said = f"interval and p: paired, on the {counted(size, 'image')} of the group that is worst now, {cut(name)}"
    console.print(Text(f"{said}; too favorable, as the best of {suspects.tried:,} removals are shown", style="dim"))


def _show_failing_slices(console: Console, failing: FailingSlices) -> None:
    """Concepts that separate the misclassified images of a class, as questions; or why none was found."""
    console.print(Text("\nWhere does the model fail?", style="bold"))
    questions = Table.grid(padding=(0, 1))
    for place, one in enumerate(failing.suspects[:MOST_QUESTIONS], start=1):
        worst = one.slices[0]
        facts = [f"gap {100 * worst.gap:.1f} points ({point_range(worst.interval)}), p {p_text(worst.p_value)}"]
        facts += [f"correlation with the class {worst.association:+.2f}", f"share in the model {share_text(one.share)}"]
        siblings = [cut(name) for name in one.concepts if name != worst.concept]
        more = f" and {len(siblings) - MOST_SIBLINGS:,} more" if len(siblings) > MOST_SIBLINGS else ""
        facts += [f"correlated with {', '.join(siblings[:MOST_SIBLINGS])}{more}"] if siblings else []
        questions.add_row(f"{place}.", Text(printable_name(one.question)))
        questions.add_row("", Text("; ".join(facts), style="dim"))
    console.print(questions)
    rest = len(failing.suspects) - MOST_QUESTIONS
    more = f" The first {MOST_QUESTIONS} are listed; the report shows more." if rest > 0 else ""
    corrected = " Intervals are corrected for the number of slices." if failing.suspects else ""
    console.print(Text(f"{failing.verdict()}{corrected}{more}", style="dim"))
