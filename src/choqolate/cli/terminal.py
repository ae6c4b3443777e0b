"""What all output shares: one console, names as they are, notes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from choqolate._util.numbers import decimal
from choqolate._util.progress import shows_bars
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    from choqolate.data.score_file import ScoreFile
    from choqolate.data.scores import ConceptScores

NAME_WIDTH = 40  # longer names are cut


def open_console() -> Console:
    """Standard output, with nothing coloured but what asks for it."""
    return Console(highlight=False)


def printable_name(name: object) -> str:
    r"""A name on one line: line breaks and other controls are spelled out, all else is left alone.

    >>> printable_name("sea\n🏄‍♀️ [red]")
    'sea\\n🏄‍♀️ [red]'
    """
    return "".join(c if c.isprintable() or c == "\u200d" else repr(c)[1:-1] for c in str(name))


def note(text: str) -> None:
    """Something worth knowing that is no result."""
    typer.secho(f"choqolate: note: {printable_name(text)}", err=True)


def show_start(path: Path) -> None:
    """A sign of life on a terminal, before libraries are loaded that take seconds."""
    if shows_bars():
        typer.secho(f"reading {printable_name(path)} ...", err=True, dim=True)


def open_table(path: Path, streaming: Sequence[str]) -> ConceptScores | ScoreFile:
    """Load a table of scores, or open it and say so if it is read block by block.

    Args:
        path: of the table.
        streaming: the options that ask for the latter, if any.
    """
    from choqolate.data.score_file import ScoreFile, open_scores

    if streaming and path.suffix.lower() != ".parquet":
        raise ChoqolateError(
            f"Expected a .parquet file with {streaming[0]}, but got {path}. Save the table as .parquet, or leave out "
            f"{' and '.join(streaming)}."
        )
    table = open_scores(path, stream=True if streaming else None)
    if isinstance(table, ScoreFile):
        note(f"reading {len(table):,} rows of {path} ({table.n_bytes / 1e6:,.1f} MB of scores) block by block")
    note_labels(path, table)
    return table


def note_labels(path: Path, table: ConceptScores | ScoreFile) -> None:
    """Say what the labels of a table are, if they are no annotations."""
    if table.provenance.labels_from is not None:
        note(f"the labels of {path}: {table.provenance.labels_from}")


def show_next(what: str, place: Path, *commands: Sequence[str | Path]) -> None:
    """Where something is, and what to do with it, as commands that can be copied."""
    console = open_console()
    console.print(Text(f"\n{what} in {printable_name(place)}. Next:"), soft_wrap=True)
    for command in commands:
        line = shlex.join(["choqolate", *map(str, command)])
        console.print(Text(f"  {printable_name(line)}"), soft_wrap=True)


def cut(name: object, width: int = NAME_WIDTH) -> str:
    """A name on one line, of at most so many cells."""
    text = Text(printable_name(name))
    text.truncate(width, overflow="ellipsis")
    return text.plain


def number(value: float | None) -> str:
    """A share or a coefficient; a dash for what is not defined."""
    return decimal(value, 3, minus="-")


def plain_table(*heads: str, left: int = 1) -> Table:
    """A table of names and, to the right of the first ``left`` columns, numbers."""
    table = Table(box=None, pad_edge=False)
    for index, head in enumerate(heads):
        table.add_column(Text(head), justify="left" if index < left else "right", no_wrap=True)
    return table
