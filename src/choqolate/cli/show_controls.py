"""Controls of a model as a table on the terminal, and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from choqolate._util.numbers import MINUS, decimal
from choqolate.analysis.control_text import accuracy_text
from choqolate.cli.terminal import cut, plain_table, printable_name

if TYPE_CHECKING:
    from rich.console import Console

    from choqolate.analysis.controls import Controls

_ROOM = 20  # cells of the name of the most frequent class


def show_controls(console: Console, controls: Controls) -> None:
    """Show accuracy, Gini, coherence and concepts per class of the model and its controls, then sentences."""
    table = plain_table("controls", "accuracy", "Gini", "coherence", "concepts")
    for row in controls.rows:
        gini, coherence = decimal(row.attribution_gini.mean, minus="-"), row.node_coherence.text(minus="-")
        table.add_row(row.name, accuracy_text(row), gini, coherence, row.concepts_per_class.text(1, minus="-"))
    if controls.majority is not None:
        name, share = controls.majority
        table.add_row(Text(f"always {cut(name, _ROOM)}"), f"{decimal(100 * share.value, 1)}%")
    console.print()
    console.print(table)
    for row in controls.rows:
        if row.source is not None:
            console.print(Text(f"{row.name}: {row.source}", style="dim"))
    runs = max(len(row.evaluations) for row in controls.rows)
    spread = f"; ±: standard deviation over {runs} draws or seeds" if runs > 1 else ""
    said = f"{controls.chosen}; in parentheses: 95% intervals{spread}; concepts: per class"
    console.print(Text(said, style="dim"))
    for line in controls.lines():
        console.print()
        console.print(Text(printable_name(line).replace(MINUS, "-")))
