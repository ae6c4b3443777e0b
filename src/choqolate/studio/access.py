"""Who may talk to the studio's server: checks before any answer, and headers on every one.

The page is for the person who started it. Other sites in the same browser can send requests to this machine, and a name
of theirs can be made to point at it. So the host must be an expected one, only the page itself can ask for changes,
and no other site can read an answer.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MARK = "X-Choqolate-Studio"
"""A header that only the page itself can send: browsers ask before they let another site send it."""

SELF = "'self'"
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[A-Za-z0-9._-]{1,253}))(?::[0-9]{1,5})?", re.ASCII)
_SAFE = ("GET", "HEAD", "OPTIONS")
_LOG = logging.getLogger("choqolate.studio")


@dataclass(frozen=True)
class AccessRules:
    """Who gets an answer.

    Attributes:
        hosts: names of the server besides those of the loopback; ports do not matter.
        token: that must be known; with one, addresses in digits are allowed as hosts too, as these cannot be made to
            point elsewhere.
        root_path: what a proxy puts before all paths, whether it removes it again or not.
        frame_ancestors: pages that may show the studio in a frame, as in a content security policy.
    """

    hosts: frozenset[str] = frozenset()
    token: str | None = None
    root_path: str = ""
    frame_ancestors: str = SELF

    @classmethod
    def of(cls, allow_hosts: Iterable[str], token: str | None, root_path: str, frame_ancestors: str) -> Self:
        """Check the rules.

        Raises:
            ChoqolateError: if a host, the token or the path cannot be one.
        """
        hosts = frozenset(allowed_host(host) for host in allow_hosts)
        checked = None if token is None else check_token(token)
        return cls(hosts, checked, unquote(check_root_path(root_path)), frame_ancestors)

    @property
    def cookie(self) -> str:
        """Name of the cookie that holds the token. All ports of a host share cookies: each server has its own."""
        return f"choqolate-studio-{hashlib.sha256((self.token or '').encode()).hexdigest()[:12]}"


class Access:
    """ASGI middleware that refuses what does not come from the studio's own page.

    Args:
        app: that answers what is allowed.
        rules: what is allowed.
    """

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self.app = app
        self.rules = rules
        self.headers = _security_headers(rules.frame_ancestors)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, _Guarded(send, self.headers))
        else:  # the studio has no use for web sockets
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: _Guarded) -> None:
        try:
            refused = self._refusal(scope)
            if refused is not None:
                await _say(send, *refused)
            elif (place := self._redirection(scope)) is not None:
                await _redirect(send, *place)
            else:
                await self.app(self._below_root(scope), receive, send)
        except Exception:
            _LOG.exception("The studio's server failed on %s %r.", scope["method"], scope["path"])
            if not send.started:
                await _say(send, 500, "Internal error of the studio's server. Its log says more.")

    # ------------------------------------------------------------------ what is refused

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and sentence for a request that is not answered."""
        host = self._host(scope)
        if host is None:
            said = "Expected the address of the studio as the host. Open the address that it printed"
            return 400, f"{said}, or start it with --allow-host for another name."
        if self.rules.token is not None and not self._is_known(scope):
            return 401, "Expected the token of the studio. Open the address that it printed when it started."
        if scope["method"] not in _SAFE and not self._is_own(scope, host):
            return 403, "Expected the request to come from the studio's own page."
        return None

    def _host(self, scope: Scope) -> str | None:
        """The host that was asked for, in lowercase, with its port; ``None`` if it is not allowed."""
        given = _header(scope, b"host")
        match = _HOST.fullmatch(given or "")
        if given is None or match is None:
            return None
        name = _canonical(match["v6"] or match["name"])
        fine = (
            name in self.rules.hosts
            or is_loopback(name)
            or (self.rules.token is not None and _address(name) is not None)
        )
        return given.lower() if fine else None

    def _is_known(self, scope: Scope) -> bool:
        scheme, _, bearer = (_header(scope, b"authorization") or "").partition(" ")
        given = [bearer.strip()] if scheme.lower() == "bearer" else []
        given += [value for name, value in _cookies(scope) if name == self.rules.cookie]
        given += [value for name, value in _query(scope) if name == "token" and scope["method"] in ("GET", "HEAD")]
        return sum(self._is_token(one) for one in given) > 0  # all are compared: the time tells nothing

    def _is_token(self, given: str) -> bool:
        return self.rules.token is not None and hmac.compare_digest(given.encode(), self.rules.token.encode())

    def _is_own(self, scope: Scope, host: str) -> bool:
        """Whether the page itself asks: no other site can send our header, and browsers say where a request is from."""
        if _header(scope, MARK.lower().encode()) != "1":
            return False
        if (_header(scope, b"sec-fetch-site") or "same-origin") not in ("same-origin", "none"):
            return False
        origin = _header(scope, b"origin")
        if origin is None:
            return True
        try:
            there = urlsplit(origin)
            named = there.hostname is not None and _canonical(there.hostname) in self.rules.hosts
        except ValueError:
            return False
        return named or there.netloc.lower() == host  # a proxy may have put another host in place of the one named

    def _below_root(self, scope: Scope) -> Scope:
        """The request as if the root path were not there; a proxy may have removed it already."""
        path = scope["path"]
        inside = bool(self.rules.root_path) and path.startswith(f"{self.rules.root_path}/")
        return {**scope, "path": path.removeprefix(self.rules.root_path)} if inside else scope

    # ------------------------------------------------------------------ where to look instead

    def _redirection(self, scope: Scope) -> tuple[str, str | None] | None:
        """The address to go to instead, as seen from the one asked for, and a cookie to take along."""
        if scope["method"] not in ("GET", "HEAD"):
            return None
        given = _query(scope)
        query = [pair for pair in given if pair[0] != "token"]
        at_root = (
            bool(self.rules.root_path) and scope["path"] == self.rules.root_path
        )  # relative addresses start from a folder
        if len(query) == len(given) and not at_root:
            return None
        place = f"./{quote(scope['path'].rpartition('/')[2])}{'/' * at_root}{'?' * bool(query)}{urlencode(query)}"
        return place, None if self.rules.token is None else self._set_cookie()

    def _set_cookie(self) -> str:
        return f"{self.rules.cookie}={self.rules.token}; Path={quote(self.rules.root_path)}/; HttpOnly; SameSite=Strict"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and nothing else, by name or address.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "localhost.evil.example")]
    [True, True, True, False, False]
    """
    address = _address(host)
    return host.lower() == "localhost" or (address is not None and address.is_loopback)


def allowed_host(host: str) -> str:
    """Check a name or address of the server, without a port, and spell it as hosts are compared.

    Raises:
        ChoqolateError: if it is none.

    >>> allowed_host("Hub.Example.org"), allowed_host("0:0::1")
    ('hub.example.org', '::1')
    """
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if _address(bare) is None and (_HOST.fullmatch(bare) is None or ":" in bare):
        raise ChoqolateError(f"Expected the name of a host, such as hub.example.org, but got {host!r}.")
    return _canonical(bare)


def check_root_path(root_path: str) -> str:
    """Check the path that a proxy puts before all others: ``""``, or with a slash at the start and none at the end.

    Raises:
        ChoqolateError: if it is no path.

    >>> check_root_path("/user/ada/"), check_root_path("/")
    ('/user/ada', '')
    """
    bare = root_path.rstrip("/")
    if bare and re.fullmatch(r"(/[A-Za-z0-9._~@%+-]+)+", bare) is None:
        raise ChoqolateError(f"Expected a root path such as /user/ada/studio, but got {root_path!r}.")
    return bare


def check_token(token: str) -> str:
    """Check that a token is long enough not to be guessed, and can be part of an address and a cookie.

    Raises:
        ChoqolateError: if not.
    """
    if re.fullmatch(r"[A-Za-z0-9_-]{16,200}", token) is None:
        raise ChoqolateError("Expected a token of at least 16 letters and digits.")
    return token


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _canonical(host: str) -> str:
    address = _address(host)
    return host.lower() if address is None else str(address)


def _header(scope: Scope, name: bytes) -> str | None:
    """The value of a header that is there once."""
    found = [value for key, value in scope["headers"] if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else None


def _cookies(scope: Scope) -> list[tuple[str, str]]:
    lines = [value.decode("latin-1") for key, value in scope["headers"] if key == b"cookie"]
    pairs = (part.partition("=") for line in lines for part in line.split(";"))
    return [(name.strip(), value.strip().strip('"')) for name, _, value in pairs]


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)


# ---------------------------------------------------------------------- answers


def _security_headers(frame_ancestors: str) -> dict[bytes, bytes]:
    policy = {
        "default-src": "'none'",
        "script-src": SELF,
        "style-src": SELF,
        "img-src": f"{SELF} data: blob:",
        "connect-src": SELF,
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": frame_ancestors,
    }
    headers = {
        "content-security-policy": "; ".join(f"{name} {sources}" for name, sources in policy.items()),
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
    }
    return {name.encode(): value.encode() for name, value in headers.items()}


class _Guarded:
    """Sends an answer with the headers that every answer has, unless it brings its own."""

    def __init__(self, send: Send, headers: dict[bytes, bytes]) -> None:
        self._send, self._headers = send, headers
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            own = {name.lower() for name, _ in message.get("headers", ())}
            added = [(name, value) for name, value in self._headers.items() if name not in own]
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await self._send(message)


async def _say(send: Any, status: int, sentence: str) -> None:
    headers = [(b"content-type", b"application/json")]
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    await _send_all(send, status, headers, json.dumps({"error": sentence}).encode())


async def _redirect(send: Any, place: str, cookie: str | None) -> None:
    headers = [(b"location", place.encode("ascii"))]
    headers += [] if cookie is None else [(b"set-cookie", cookie.encode("latin-1"))]
    await _send_all(send, 303, headers, b"")


async def _send_all(send: Any, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
