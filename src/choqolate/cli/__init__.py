"""The command line: parses, calls the library, prints. Heavy packages are imported where they are used.

A module of commands takes ``app`` from :mod:`choqolate.cli.application` and is imported here; ``ORDER`` is that of
``--help``.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import warnings
from typing import NoReturn, TextIO

import typer

import choqolate.cli.card_command
import choqolate.cli.data_commands
import choqolate.cli.explain_command
import choqolate.cli.fit_command
import choqolate.cli.model_commands
import choqolate.cli.places_command
import choqolate.cli.predict_commands
import choqolate.cli.research_commands
import choqolate.cli.simplify_command
import choqolate.cli.studio_command
import choqolate.cli.vocabulary_command  # noqa: F401
from choqolate._util.memory import is_lack_of_memory, lack_of_memory
from choqolate._util.text import visible
from choqolate.cli.application import app
from choqolate.errors import ChoqolateError, ChoqolateWarning

__all__ = ["app", "main"]

ORDER = [
    *("demo", "datasets", "places", "vocabulary", "embed", "score", "fit", "eval", "predict", "drift", "explain"),
    *("card", "studio", "remove", "simplify", "apply", "export", "compare", "debias", "reproduce"),
]
app.registered_commands.sort(key=lambda command: ORDER.index(command.name or command.callback.__name__))  # type: ignore[union-attr]
for _command in app.registered_commands:  # help breaks lines at the width of the terminal, not where the source does
    _paragraphs = inspect.cleandoc(_command.callback.__doc__ or "").split("\n\n")
    _command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in _paragraphs)

_LONGEST_NAME = 200  # of a file in a message
_STOPPED = 130  # what Ctrl-C ends with


def _wait_politely() -> None:
    """Threads of PyTorch wait a moment for each other, then sleep: spinning, they stall beside a busy program.

    It is read when torch is loaded.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")


def main() -> None:
    """Run a command; mistakes of the user end with one line and exit code 2, ours with one line and exit code 1."""
    _wait_politely()
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]  # it may stand before or after
    debug = len(arguments) < len(sys.argv) - 1
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot spell stops nothing
    try:
        with warnings.catch_warnings():
            _print_warnings_as_notes()
            exit_code = app(arguments, standalone_mode=False, prog_name="choqolate")
        if exit_code == _STOPPED:
            raise typer.Abort
        if isinstance(exit_code, int) and exit_code:
            sys.exit(exit_code)
    except (ChoqolateError, OSError) as error:
        if debug:
            raise
        _fail(_sentence(error), 2)
    except typer.Abort:
        typer.secho("choqolate: stopped", err=True)
        sys.exit(_STOPPED)
    except Exception as error:
        show_usage = getattr(error, "show", None)
        if show_usage is not None:  # a usage error of the command line parser
            show_usage()
            sys.exit(getattr(error, "exit_code", 2))
        if debug:
            raise
        if is_lack_of_memory(error):
            _fail(lack_of_memory(error), 2)
        _fail(f"an error of ours, {type(error).__name__}: {error}; run again with --debug and report it", 1)


def _print_warnings_as_notes() -> None:
    """Print each warning of ours once, as one line; other packages' warnings look as they always do."""
    told: set[str] = set()
    show_others = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not issubclass(category, ChoqolateWarning):
            show_others(visible(str(message)), category, filename, lineno, file, line)
        elif str(message) not in told:
            told.add(str(message))
            typer.secho(f"choqolate: note: {_one_line(message)}", err=True)

    warnings.simplefilter("always", ChoqolateWarning)
    warnings.showwarning = show


def _fail(sentence: str, exit_code: int) -> NoReturn:
    typer.secho(f"choqolate: {_one_line(sentence)}", err=True, fg="red")
    sys.exit(exit_code)


def _sentence(error: Exception) -> str:
    if is_lack_of_memory(error):
        return lack_of_memory(error)
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        name = os.fsdecode(error.filename)
        shown = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
        return f"{shown} cannot be used: {error.strerror}. Choose another path."
    return re.sub(r"^\[Errno \d+\] ", "", str(error))


def _one_line(message: object) -> str:
    return visible(" ".join(str(message).split("\n")))
