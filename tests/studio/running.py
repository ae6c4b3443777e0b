"""The studio's server as it really runs: on a port of its own, asked through sockets."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from choqolate.studio.launch import listen, make_server

OWN = {"X-Choqolate-Studio": "1"}


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return self.json["error"]


@dataclass(frozen=True)
class Running:
    """A server that runs in a thread."""

    port: int

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """One request on a connection of its own; a body that is no bytes goes as JSON."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
        for name, value in {"Content-Length": str(len(body or b"")), **headers}.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        try:
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers=headers)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        return self.ask("POST", path, body, {**OWN, **headers})

    def raw(self, request: bytes, patience: float = 5) -> bytes:
        """Send bytes as they are; what comes back before the server closes or falls silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=patience) as connection:
            connection.sendall(request)
            got = b""
            try:
                while part := connection.recv(65536):
                    got += part
                    if b"\r\n\r\n" in got and b"content-length" in got.lower() and got.endswith(b"}"):
                        break
            except (TimeoutError, ConnectionResetError):
                pass
            return got


@contextmanager
def running(app: Any) -> Iterator[Running]:
    """Run an application until the block ends."""
    server, listening = make_server(app), listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Running(listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()


def write_page(folder: Path) -> Path:
    """A page of three files, with something beside it that is nobody's business."""
    page = folder / "page"
    (page / "app").mkdir(parents=True)
    (page / "index.html").write_text("<!doctype html><title>studio</title>")
    (page / "style.css").write_text("body {}")
    (page / "app" / "main.js").write_text("export const x = 1;")
    (page / "notes.txt").write_text("not for the browser")
    (folder / "secret.html").write_text("secret")
    return page
