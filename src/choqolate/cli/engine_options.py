"""Options of the commands that run on this machine or on a Ray cluster."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from choqolate.errors import ChoqolateError


class Engine(StrEnum):
    """Where the work is done."""

    local = "local"
    ray = "ray"


EngineName = Annotated[
    Engine,
    typer.Option("--engine", metavar="NAME", help="local, or ray (pip install 'choqolate\\[ray]')."),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="Ray cluster to join, or auto for the one that this machine is part of; by default Ray runs on this "
        "machine alone.",
        show_default=False,
    ),
]


def check_engine(engine: Engine, address: str | None) -> None:
    """Find mistakes before anything heavy is loaded: an address without Ray, or Ray not installed."""
    if engine is Engine.ray:
        from choqolate._util.ray_cluster import require_ray

        require_ray()
    elif address is not None:
        raise ChoqolateError("Expected --engine ray with --address, but the engine is local. Add --engine ray.")
