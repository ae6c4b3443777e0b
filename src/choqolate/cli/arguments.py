"""Arguments that several commands take."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

Columns = dict[str, str]
"""Names of columns as :meth:`choqolate.ConceptScores.load` takes them, such as ``{"label_column": "species"}``."""

ScoresFile = Annotated[
    Path, typer.Argument(metavar="SCORES", help="Table of concept scores, .parquet or .csv.", show_default=False)
]
Stream = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="Read the table block by block. Tables that would take more than a third of the available memory are "
        "always read this way.",
    ),
]
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of the model.", show_default=False)]


def names_columns(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name the columns of a table to a command, which takes them together as ``columns``."""

    @wraps(command)
    def with_options(**arguments: Any) -> None:
        columns = {name: arguments.pop(name) for name in options}
        command(**arguments, columns={name: column for name, column in columns.items() if column is not None})

    options = {f"{role}_column": _column_option(role) for role in ("path", "label", "split", "group")}
    signature = inspect.signature(command, eval_str=True)
    kept = [parameter for name, parameter in signature.parameters.items() if name != "columns"]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        for name, option in options.items()
    ]
    with_options.__signature__ = signature.replace(parameters=[*kept, *added])  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in (*kept, *added)}
    return with_options


def _column_option(role: str) -> Any:
    return Annotated[
        str | None,
        typer.Option(
            f"--{role}-column",
            metavar="NAME",
            help=f"Column of the {role}, if it is not called {role}.",
            show_default=False,
            rich_help_panel="Columns of CSV files and of other programs' tables",
        ),
    ]


def as_options(columns: Columns) -> list[str]:
    """The options that name columns, for a command that is proposed."""
    return [part for name, column in columns.items() for part in (f"--{name.replace('_', '-')}", column)]
