"""Options of the commands that run on this machine or on a Ray cluster."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


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
    from choqolate._util import ray_cluster

    ray_cluster.check_engine(engine.value, address, option="--engine ray")
    if engine is Engine.ray:
        ray_cluster.require_ray()
