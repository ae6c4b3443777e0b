"""What all output shares: one console, names as they are, notes."""

from __future__ import annotations

import typer
from rich.console import Console


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
