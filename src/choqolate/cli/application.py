"""The application that commands are registered on, with ``@app.command()``."""

from __future__ import annotations

from typing import Annotated

import typer

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
