"""The command line: parses, calls the library, prints. Heavy packages are imported where they are used."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from choqolate.errors import ChoqolateError

app = typer.Typer(
    help="Interpretable classifiers over named concepts that people can read and correct.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from choqolate import __version__

        typer.echo(f"choqolate {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something goes wrong.")] = False,
) -> None:
    """Interpretable classifiers over named concepts that people can read and correct."""


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")] = Path("choqolate-demo"),
    data: Annotated[str, typer.Option(help="The data to run on: breast-cancer.")] = "breast-cancer",
) -> None:
    """Train, read and correct a small model.

    Example: [bold]choqolate demo -o choqolate-demo[/]
    """
    if data != "breast-cancer":
        raise ChoqolateError(f"expected --data breast-cancer, got {data!r}")
    from rich.console import Console

    from choqolate.demo import run_breast_cancer, show

    show(run_breast_cancer(output), Console())


def main() -> None:
    """Run a command; mistakes of the user end with one line and exit code 2, ours with one line and exit code 1."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]  # it may stand before or after
    debug = len(arguments) < len(sys.argv) - 1
    try:
        app(arguments, standalone_mode=False)
    except (ChoqolateError, OSError) as error:
        if debug:
            raise
        typer.secho(f"choqolate: {error}", err=True, fg="red")
        sys.exit(2)
    except typer.Abort:
        typer.secho("choqolate: stopped", err=True)
        sys.exit(130)
    except Exception as error:
        show_usage = getattr(error, "show", None)
        if show_usage is not None:  # a usage error of the command line parser
            show_usage()
            sys.exit(getattr(error, "exit_code", 2))
        if debug:
            raise
        typer.secho(
            f"choqolate: an error of ours, {type(error).__name__}: {error}; run again with --debug and report it",
            err=True,
            fg="red",
        )
        sys.exit(1)
