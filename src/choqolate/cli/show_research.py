"""Tables of experiments on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import wrap

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from choqolate._util.text import counted
from choqolate.cli.terminal import note, open_console, plain_table, printable_name
from choqolate.experiments import Experiment, Reproduction
from choqolate.experiments.engine.tables import Table

_GAP = 2  # cells between two columns
_HEAD = 11  # cells of a line of a head


def tell(step: str) -> None:
    """A step of a long work."""
    open_console().print(Text(printable_name(step)), style="dim", soft_wrap=True)


def show_experiments(experiments: Iterable[Experiment]) -> None:
    """What can be reproduced, and on which data."""
    console, table = open_console(), plain_table("name", "in the paper", "runs", left=2)
    for head in ("what", "data sets"):
        table.add_column(head)
    for one in experiments:
        table.add_row(one.name, one.paper, str(one.seeds), one.title, ", ".join(one.data))
    console.print(table)


def show_reproductions(done: Sequence[Reproduction], folder: Path) -> None:
    """All tables, what is missing, and where the files are."""
    console = open_console()
    for one in done:
        if one.shown is not None:
            for table in one.shown.tables.values():
                console.print()
                show_table(console, table)
            for text in one.shown.notes:
                console.print(Text(text, style="dim"))
    for reason, (names, wanting) in _lacking(done).items():
        note(f"{', '.join(wanting)} not on {', '.join(names)}: {reason}")
    files = sum(len(one.files) for one in done)
    if files:
        console.print(Text(f"\n{counted(files, 'file')} in {printable_name(folder)}: see summary.md"), soft_wrap=True)


def show_table(console: Console, table: Table) -> None:
    """Means and deviations, the best of each column bold; in several parts where the terminal is narrow."""
    printed, fixed = table.printed(), len(table.heads) if table.columns else min(len(table.heads), 2)
    console.print(Text(printed.caption, style="bold"))
    heads = ["\n".join(line for part in head.split("\n") for line in wrap(part, _HEAD)) for head in printed.heads]
    widths = [
        max(cell_len(line) for text in (head, *(row[k][0] for row in printed.rows)) for line in text.split("\n"))
        for k, head in enumerate(heads)
    ]
    for columns in _parts(widths, fixed, console.width):
        shown = plain_table(*(heads[k] for k in columns), left=fixed)
        for row in printed.rows:
            shown.add_row(*(Text(row[k][0], style="bold" if row[k][1] else "") for k in columns))
        console.print(shown)
    for text in printed.notes:
        console.print(Text(printable_name(text), style="dim"))


def _parts(widths: Sequence[int], fixed: int, room: int) -> list[list[int]]:
    """Columns that stand side by side, the first ``fixed`` repeated in every part.

    >>> _parts([6, 10, 10, 10], 1, 32)
    [[0, 1, 2], [0, 3]]
    """
    parts = [list(range(fixed))]
    for column in range(fixed, len(widths)):
        used = sum(widths[k] + _GAP for k in parts[-1])
        if len(parts[-1]) > fixed and used + widths[column] > room:
            parts.append(list(range(fixed)))
        parts[-1].append(column)
    return parts


def _lacking(done: Sequence[Reproduction]) -> dict[str, tuple[list[str], list[str]]]:
    """For each reason why something did not run: on which data sets, and what."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for one in done:
        for name, reason in one.lacking.items():
            names, wanting = found.setdefault(reason, ([], []))
            names += [name] * (name not in names)
            wanting += [one.experiment.name] * (one.experiment.name not in wanting)
    return found
