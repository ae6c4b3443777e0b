"""Requests whose JSON is read as strictly as files are: nothing twice, no number beyond all numbers, no deep nests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute

from choqolate._util.json_files import parse_json
from choqolate.errors import ChoqolateError


class StrictRoute(APIRoute):
    """A route whose body is parsed by :func:`~choqolate._util.json_files.parse_json`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of FastAPI, given another request."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return handle_strictly


class _StrictRequest(Request):
    async def json(self) -> Any:
        try:
            return parse_json(await self.body(), "the request")
        except ChoqolateError as error:
            raise HTTPException(422, f"Expected another request: {error}") from None
