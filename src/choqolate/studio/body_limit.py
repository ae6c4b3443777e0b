"""Requests that are too large are refused while they arrive, whatever they say about their size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fastapi import HTTPException

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimit:
    """ASGI middleware that bounds the body of a request.

    Args:
        app: that answers.
        most_bytes: of a body.
        exceptions: other limits, by path.
    """

    def __init__(self, app: ASGIApp, *, most_bytes: int, exceptions: Mapping[str, int]) -> None:
        self.app, self.most_bytes, self.exceptions = app, most_bytes, exceptions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        most, received = self.exceptions.get(scope["path"], self.most_bytes), 0
        announced = dict(scope["headers"]).get(b"content-length", b"0")

        def check(size: int) -> None:
            if size > most:
                raise HTTPException(413, f"Expected at most {most / 1e6:.3g} MB, but got more.")

        async def receive_some() -> Message:
            nonlocal received
            check(int(announced) if announced.isdigit() else 0)
            message = await receive()
            received += len(message.get("body", b""))
            check(received)
            return message

        await self.app(scope, receive_some, send)
