"""Ray, when it is asked for: a session that joins a cluster or runs on this machine, and leaves no process behind."""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from choqolate._util.checks import check_choice
from choqolate._util.processes import n_cores
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ENGINES = ("local", "ray")
_ANSWER_SECONDS = 10
_ROOM_SECONDS = 5  # what was given back a moment ago takes some time to show
_QUIET = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}  # or Ray announces that this will be the default


def check_engine(engine: str, address: str | None, *, option: str = "engine='ray'") -> None:
    """Find mistakes before the work.

    Args:
        engine: where it is to be done.
        address: of a cluster.
        option: how the caller asks for Ray.

    Raises:
        ChoqolateError: if there is no such engine, or an address without Ray.
    """
    check_choice("engine", engine, ENGINES)
    if address is not None and engine != "ray":
        raise ChoqolateError(f"Expected {option} with an address, but the engine is {engine}. Add {option}.")


def require_ray() -> ModuleType:
    """Import Ray.

    Raises:
        ChoqolateError: if it is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise ChoqolateError(
            "Expected Ray for the engine ray, but it is not installed. Run: pip install 'choqolate[ray]'"
        ) from error
    return ray


@contextmanager
def ray_session(
    address: str | None = None, n_cpus: int | None = None, *, tell: Callable[[str], None] = lambda _: None
) -> Iterator[ModuleType]:
    """Connect to Ray for the time of a block, and yield the module ``ray``.

    A Ray that this program is already connected to is used and stays connected. Otherwise the session ends with the
    block, whatever happens in it, and with it every process that was started for it.

    Args:
        address: of a cluster to join, ``"host:port"`` or ``"auto"``; by default Ray is started on this machine alone.
        n_cpus: number of CPU slots of a Ray that is started here; by default one per core.
        tell: called with a sentence before something slow.

    Raises:
        ChoqolateError: if Ray is not installed, or does not start, or there is no cluster at the address.
    """
    ray = require_ray()
    if ray.is_initialized():
        yield ray
        return
    tell("starting Ray on this machine" if address is None else f"joining the Ray cluster at {address}")
    with _handlers_restored(), _started(ray, n_cpus) if address is None else _joined(ray, address):
        yield ray


def say_if_full(ray: ModuleType, resources: Mapping[str, float], tell: Callable[[str], None]) -> None:
    """Say so if a cluster has no room for a task or an actor, nor gets any within some seconds.

    Args:
        ray: the module, in a session.
        resources: what one of them takes, such as ``{"CPU": 1}``.
        tell: called with a sentence.
    """
    deadline = time.monotonic() + _ROOM_SECONDS
    while any(ray.available_resources().get(kind, 0) < amount for kind, amount in resources.items()):
        if time.monotonic() > deadline:
            tell(f"waiting for room in the Ray cluster: {room(ray, resources)}")
            return
        time.sleep(0.2)


@contextmanager
def reserved(
    ray: ModuleType, number: int, resources: Mapping[str, float], tell: Callable[[str], None]
) -> Iterator[PlacementGroupSchedulingStrategy]:
    """Wait until a cluster has room for some actors at once, and keep it for them for the time of a block.

    Actors that ask for their room one by one could each hold some of it and wait for the rest forever.

    Args:
        ray: the module, in a session.
        number: of actors.
        resources: what each of them takes, such as ``{"CPU": 1}``.
        tell: called with a sentence if there is no room within some seconds.

    Yields:
        What to give the actors as their ``scheduling_strategy``.
    """
    from ray.util import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = placement_group([dict(resources)] * number)
    try:
        if not group.wait(_ROOM_SECONDS):
            needed = {kind: number * amount for kind, amount in resources.items()}
            tell(f"waiting for room in the Ray cluster: {room(ray, needed)}")
            while not group.wait(_ROOM_SECONDS):
                pass
        yield PlacementGroupSchedulingStrategy(group)
    finally:
        remove_placement_group(group)


def room(ray: ModuleType, resources: Mapping[str, float]) -> str:
    """What a task or an actor takes, and what there is, in words: ``1 CPU needed, 0 of 2 free``."""
    free, total = ray.available_resources(), ray.cluster_resources()
    return ", ".join(
        f"{amount:g} {kind} needed, {free.get(kind, 0):g} of {total.get(kind, 0):g} free"
        for kind, amount in resources.items()
    )


@contextmanager
def _started(ray: ModuleType, n_cpus: int | None) -> Iterator[None]:
    """A Ray on this machine, with a temporary folder and a token that no one else knows.

    Ray listens on all interfaces; the token keeps others out. That of the user in ``~/.ray`` is not touched.
    """
    environment = _QUIET | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(16),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    folder = tempfile.mkdtemp(prefix="cq-ray-")
    try:
        with _environment(environment):
            read_environment()
            options = {"num_cpus": n_cpus or n_cores(), "include_dashboard": False, "_temp_dir": folder}
            with _connected(ray, "local", options):
                yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        read_environment()


@contextmanager
def _joined(ray: ModuleType, address: str) -> Iterator[None]:
    """A cluster that others run: its token is the user's, where Ray looks for it."""
    _check_address(address)
    with _environment(_QUIET):
        read_environment()
        with _connected(ray, address, {}):
            yield


@contextmanager
def _connected(ray: ModuleType, address: str, options: Mapping[str, Any]) -> Iterator[None]:
    try:
        _connect(ray, address, options)
        yield
    finally:
        ray.shutdown()


def _connect(ray: ModuleType, address: str, options: Mapping[str, Any]) -> None:
    try:
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, **options)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        if address == "local":
            raise ChoqolateError(f"Ray does not start on this machine: {_first_sentence(error)}") from error
        raise _unreachable(address, error) from error


def _check_address(address: str) -> None:
    """Find out within seconds that nobody answers; Ray itself tries for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal() and "/" not in host):
        raise ChoqolateError(f"Expected the address of a Ray cluster as host:port or auto, but got {address!r}.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from error


def _unreachable(address: str, error: Exception) -> ChoqolateError:
    where = "on this machine" if address == "auto" else f"at {address}"
    return ChoqolateError(
        f"Expected a Ray cluster {where}, but cannot join one: {_first_sentence(error)} Start one with `ray start "
        "--head`, or leave out the address to use this machine alone."
    )


def _first_sentence(error: Exception) -> str:
    """The part of a message that says what happened, without advice on Ray's own options."""
    return re.split(r"\n|(?<=\.) ", str(error).strip() or type(error).__name__)[0].rstrip(".") + "."


def read_environment() -> None:
    """Let Ray read the token and the mode in the environment again; it did when it was imported or last connected."""
    with suppress(ImportError, AttributeError):  # no Ray, or one before 2.52, which has no tokens
        _raylet = import_module("ray._raylet")
        _raylet.Config.initialize("")
        _raylet.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for the time of a block; processes started in it inherit them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _handlers_restored() -> Iterator[None]:
    """Ray takes over SIGTERM; afterwards the program has its own handler again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)
