"""Arguments that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
