"""Two models side by side on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from choqolate._util.text import counted
from choqolate.analysis.interval_text import judged_text, share_text
from choqolate.analysis.model_difference import Disagreements, ModelDifference, NodeMatch
from choqolate.cli.terminal import cut, number, plain_table
from choqolate.estimators.classifier import ChoqolateClassifier

MOST_NODES = 24
MOST_TRANSITIONS, MOST_IMAGES, MOST_GROUPS = 5, 10, 20
MOST_CHANGES = 3  # concepts of a node that have more or less weight


def show_difference(console: Console, found: ModelDifference, names: tuple[str, str]) -> None:
    """Show which nodes are the same and which differ and, with a table, which model is correct where they disagree."""
    first, second = (cut(name) for name in names)
    console.print(Text.assemble(("CHOQOLATE", "bold"), f" {first} and {second}, side by side"), soft_wrap=True)
    if found.disagreements is not None:
        _show_rows(console, found.disagreements, first, second)
    _show_nodes(console, found, first, second)
    for name, concepts in ((first, found.only_first), (second, found.only_second)):
        if concepts:
            rest = f" and {len(concepts) - 10} more" if len(concepts) > 10 else ""
            console.print(Text(f"only in {name}: {', '.join(map(cut, concepts[:10]))}{rest}", style="dim"))


def _show_rows(console: Console, rows: Disagreements, first: str, second: str) -> None:
    console.print(
        Text(f"same prediction ({rows.chosen}, {counted(len(rows.rows), 'image')}): {share_text(rows.agreement)}")
    )
    if rows.right is not None and rows.change is not None:
        for name, share in zip((first, second), rows.right, strict=True):
            console.print(Text(f"accuracy of {name}: {share_text(share)}"))
        console.print(Text(f"from {first} to {second}: {judged_text(rows.change)}"))
        for group, change in list(rows.groups.items())[:MOST_GROUPS]:
            console.print(Text(f"  {cut(group)}: {judged_text(change)}"))
    if not rows.where:
        return
    table = plain_table(first, second, "images", left=2)
    for (one, other), count in list(rows.transitions.items())[:MOST_TRANSITIONS]:
        table.add_row(Text(cut(one, 30)), Text(cut(other, 30)), f"{count:,}")
    console.print("", table)
    if rows.rows.paths is not None:
        console.print(Text("\nthe clearest disagreements", style="dim"))
        table = plain_table("image", first, second, "label", left=4)
        for row in rows.where[:MOST_IMAGES]:
            truth = "" if rows.rows.labels is None else str(rows.rows.labels[row])
            path = _end(str(rows.rows.paths[row]), max(20, console.width - 60))
            table.add_row(Text(path), *(Text(cut(one, 16)) for one in (rows.first[row], rows.second[row], truth)))
        console.print(table)


def _end(path: str, width: int) -> str:
    """A path on one line, cut at its beginning."""
    line = cut(path, 10_000)
    return line if len(line) <= width else f"…{line[1 - width :]}"


def _show_nodes(console: Console, found: ModelDifference, first: str, second: str) -> None:
    table = plain_table(first, second, "cosine", left=2)
    table.add_column(Text(f"gained (+) and lost (−) weight in {second}"))
    ordered = sorted(found.matches, key=lambda match: match.similarity)
    for match in ordered[:MOST_NODES]:
        names = [_node(model, node) for model, node in ((found.first, match.first), (found.second, match.second))]
        table.add_row(*map(Text, names), number(match.similarity), Text(_changes(match)))
    console.print("", table)
    same = sum(match.same for match in found.matches)
    what = "classes" if found.first.one_layer_ else "nodes"
    console.print(Text(f"{same} of {len(found.matches)} {what} are the same (cosine of at least 0.8)", style="dim"))


def _node(model: ChoqolateClassifier, node: int | None) -> str:
    if node is None:
        return "–"
    return cut(model.classes_[node], 20) if model.one_layer_ else str(node)


def _changes(match: NodeMatch) -> str:
    return ", ".join(f"{cut(name, 20)} {change:+.3f}" for name, change in match.changes[:MOST_CHANGES])
