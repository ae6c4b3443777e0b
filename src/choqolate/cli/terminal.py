"""What all output shares: one console, names as they are, first lines, notes."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from choqolate._util.text import visible
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    from choqolate.cli.arguments import Columns
    from choqolate.data.score_file import ScoreFile
    from choqolate.data.scores import ConceptScores

NAME_WIDTH = 40  # longer names are cut


class _Console(Console):
    """A console whose text is never obeyed: names come from files that others have made."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(_visible_lines(segment.text), segment.style)


def open_console() -> Console:
    """Standard output, with nothing coloured but what asks for it."""
    return _Console(highlight=False, markup=False, emoji=False)


def say(text: object, *, err: bool = False, end: str = "\n", **style: Any) -> None:
    """Print lines of text; control characters are spelled out.

    Args:
        text: of one or several lines.
        err: on the standard error stream.
        end: what follows.
        style: as typer's ``secho`` takes it.
    """
    typer.secho(_visible_lines(str(text)) + end, err=err, nl=False, **style)


def say_json(document: Any) -> None:
    """Print a document as JSON; control characters, and what turns the direction of writing, are spelled out."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    typer.echo("\n".join("".join(map(_json_character, line)) for line in text.split("\n")))


def _json_character(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]


def _visible_lines(text: str) -> str:
    return "\n".join(map(visible, text.split("\n")))


def printable_name(name: object) -> str:
    r"""A name on one line: line breaks and other controls are spelled out, all else is left alone.

    >>> printable_name("sea\n🏄‍♀️ [red]")
    'sea\\n🏄‍♀️ [red]'
    """
    return visible(str(name))


def note(text: str) -> None:
    """Something worth knowing that is no result."""
    say(f"choqolate: note: {printable_name(text)}", err=True)


def show_start(doing: str, *paths: Path) -> None:
    """Say on stderr what a command begins with, before libraries are loaded that take seconds, unless they are already.

    Args:
        doing: such as ``"reading"``.
        paths: what it is done to.
    """
    if sys.modules.get("torch") is not None:
        return
    names = " and ".join(printable_name(path) for path in dict.fromkeys(paths))
    say(f"{doing} {names} ...", err=True, dim=True)


def note_existing(*outputs: Path | None, continued: bool = False) -> None:
    """Say of outputs that exist when they were saved, right before they are replaced or the work that ends so.

    Args:
        outputs: files or folders; empty folders do not count.
        continued: whether what is there is used, as embeddings and finished runs are.
    """
    for path in outputs:
        times = [] if path is None else _saved_at(path)
        if times:
            saved = datetime.fromtimestamp(max(times)).strftime("%Y-%m-%d %H:%M")
            note(f"{'continues' if continued else 'replaces'} {path}, saved {saved}")


def _saved_at(path: Path) -> list[float]:
    """When a file, or what is in a folder, was written last."""
    try:
        return [entry.stat().st_mtime for entry in (path.iterdir() if path.is_dir() else [path])]
    except OSError:
        return []


def load_table(path: Path, columns: Columns) -> ConceptScores:
    """Load a table of scores, and say what its columns were taken as unless it is our own.

    Args:
        path: of the table.
        columns: those that were named.
    """
    from choqolate.data.scores import ConceptScores

    table = ConceptScores.load(path, **columns)
    note_columns(path, columns)
    return table


def open_table(path: Path, streaming: Sequence[str], columns: Columns) -> ConceptScores | ScoreFile:
    """Load a table of scores, or open it and say so if it is read block by block.

    Args:
        path: of the table.
        streaming: the options that ask for the latter, if any.
        columns: those that were named.
    """
    from choqolate.data.score_file import ScoreFile, open_scores

    if streaming and path.suffix.lower() != ".parquet":
        raise ChoqolateError(
            f"Expected a .parquet file with {streaming[0]}, but got {path}. Save the table as .parquet, or leave out "
            f"{' and '.join(streaming)}."
        )
    table = open_scores(path, stream=True if streaming else None, **columns)
    note_columns(path, columns)
    if isinstance(table, ScoreFile):
        note(f"reading {len(table):,} rows of {path} ({table.n_bytes / 1e6:,.1f} MB of scores) block by block")
    note_labels(path, table)
    return table


def note_columns(path: Path, columns: Columns) -> None:
    """Say what the columns of a table were taken as, unless it is our own."""
    from choqolate.data.score_files import describe_columns

    if said := describe_columns(path, **columns):
        note(f"{path}: {said}")


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
    from choqolate._util.numbers import decimal  # the first line of a command does not wait for numpy

    return decimal(value, 3, minus="-")


def plain_table(*heads: str, left: int = 1) -> Table:
    """A table of names and, to the right of the first ``left`` columns, numbers."""
    table = Table(box=None, pad_edge=False)
    for index, head in enumerate(heads):
        table.add_column(Text(head), justify="left" if index < left else "right", no_wrap=True)
    return table
