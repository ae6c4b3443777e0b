"""Run the studio's server: on which address, for whom, and until when."""

from __future__ import annotations

import errno
import importlib.util
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from choqolate._util.text import listed
from choqolate.errors import ChoqolateError
from choqolate.studio.access import allowed_host, check_root_path, is_loopback

if TYPE_CHECKING:
    import uvicorn

    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.classifier import ChoqolateClassifier

LOOPBACK = "127.0.0.1"
FIRST_PORT, LAST_PORT = 8765, 8864  # of which the first free one is taken
_PACKAGES = ("fastapi", "uvicorn")


def serve_studio(
    model: ChoqolateClassifier,
    table: ConceptScores,
    *,
    host: str = LOOPBACK,
    port: int | None = None,
    allow_hosts: Iterable[str] = (),
    root_path: str = "",
    token: str | None = None,
    open_browser: bool = False,
    tell: Callable[[str], None] = print,
    **options: Any,
) -> None:
    """Serve the studio of a model until Ctrl-C is pressed.

    On an address that other machines can reach, a token is needed; the address that is told holds it.

    Args:
        model: a fitted classifier.
        table: scores of the model's concepts; labels, split, groups and paths are optional.
        host: name or address to listen on; by default, only this machine can connect.
        port: to listen on; by default, the first free one from 8765 on. 0 takes any free one.
        allow_hosts: names of the server besides those of the loopback, such as the name of a proxy.
        root_path: what a proxy puts before all paths.
        token: that must be known to get an answer. By default there is none if only this machine can connect, and a
            random one otherwise.
        open_browser: open the page in a browser.
        tell: called with sentences for the person who started it.
        **options: ``title``, ``names``, ``images``, ``rows``, ``save_to``, ``backbone`` and ``verbose``, see
            :func:`~choqolate.studio.create_app`.

    Raises:
        ChoqolateError: if the packages of the server are not installed, the port is taken, or the table does not fit
            the model.
    """
    check_packages()
    from choqolate.studio.app_server import create_app

    prefix = check_root_path(root_path)
    listening = listen(host, port)  # before the work, not after
    with listening:
        private = is_loopback(listening.getsockname()[0])
        token = secrets.token_urlsafe(32) if token is None and not private else token
        own_names = [] if private else _own_names(host)
        app = create_app(model, table, allow_hosts=(*allow_hosts, *own_names), token=token, root_path=prefix, **options)
        address = f"{base_address(host, listening)}{prefix}/"
        entrance = address if token is None else f"{address}?token={token}"
        tell(f"The studio is at {entrance}")
        tell("Press Ctrl-C to stop it.")
        if open_browser:
            threading.Thread(target=webbrowser.open, args=(entrance,), daemon=True).start()
        with suppress(KeyboardInterrupt):
            make_server(app).run(sockets=[listening])


def check_packages() -> None:
    """Find out before the work that the server cannot run.

    Raises:
        ChoqolateError: if a package is not installed.
    """
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ChoqolateError(
            f"Expected the packages of the studio's server, but {listed(missing)} cannot be found. Install them with: "
            "pip install 'choqolate[studio]'. A file of the studio (--export) needs no server."
        )


def make_server(app: Any) -> uvicorn.Server:
    """A server that is quiet, believes no headers of proxies, and ends soon when it is asked to."""
    import uvicorn

    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,  # our own errors are logged where they happen
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            ws="none",
            lifespan="off",
            timeout_graceful_shutdown=0,  # whoever presses Ctrl-C does not want to wait; nothing is ever half saved
        )
    )


def listen(host: str, port: int | None) -> socket.socket:
    """A socket that listens on an address.

    Args:
        host: name or address.
        port: 0 for any free one, ``None`` for the first free one from 8765 on.

    Raises:
        ChoqolateError: if there is no such address, or the port is taken.
    """
    if port is not None and not 0 <= port <= 65535:
        raise ChoqolateError(f"Expected a port from 0 to 65535, but got {port}.")
    ports = range(FIRST_PORT, LAST_PORT + 1) if port is None else [port]
    try:
        family, _, _, _, place = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
        for number in ports:
            try:
                both = place[0] == "::" and socket.has_dualstack_ipv6()
                return socket.create_server((place[0], number), family=family, dualstack_ipv6=both)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
    except (OSError, UnicodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise ChoqolateError(f"Expected an address to listen on, but {host} cannot be used: {said}.") from None
    which = f"port {port} is" if port is not None else f"ports {FIRST_PORT} to {LAST_PORT} are"
    raise ChoqolateError(f"Expected a free port, but {which} taken. Choose another one with --port.")


def base_address(host: str, listening: socket.socket) -> str:
    """The address of a server without a path; one that listens on all addresses is called by its name."""
    bound, port = listening.getsockname()[:2]
    name = socket.gethostname() if bound in ("0.0.0.0", "::") else host
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"


def _own_names(host: str) -> list[str]:
    """Names of this machine that a browser may ask for."""
    names = []
    for name in (host, socket.gethostname(), socket.getfqdn()):
        with suppress(ChoqolateError):  # a machine may be called anything
            names.append(allowed_host(name))
    return names
