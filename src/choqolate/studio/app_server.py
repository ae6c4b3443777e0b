"""The server of the studio: gives the page what it computes with, and does for it what a browser cannot.

It has no sessions. The page sends its edits with every request that needs them, and Python applies them to the model as
it was loaded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Depends, FastAPI, Header, HTTPException, Query, Request, Response
from fastapi import Path as PathParameter
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect

from choqolate import __version__
from choqolate._util.files import check_parent
from choqolate.concepts.new_images import check_can_score
from choqolate.errors import ChoqolateError
from choqolate.studio.access import MARK, SELF, Access, AccessRules
from choqolate.studio.body_limit import BodyLimit
from choqolate.studio.bundle import NAMES, build_bundle
from choqolate.studio.dropped_image import DroppedImages
from choqolate.studio.edited_model import AnotherModelError, Workshop, edited_folder
from choqolate.studio.messages import (
    MOST_ROWS,
    EditsDocument,
    Numbers,
    NumbersRequest,
    Problem,
    SavedModel,
    ScoredImage,
)
from choqolate.studio.one_page import PAGE
from choqolate.studio.page_files import PageFile, entity_tag, read_page
from choqolate.studio.row_choice import ROWS
from choqolate.studio.strict_json import StrictRoute
from choqolate.studio.studio_service import StudioService
from choqolate.studio.worker_threads import WorkerThreads

if TYPE_CHECKING:
    from choqolate.concepts.backbones import Backbone
    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.classifier import ChoqolateClassifier

MOST_BYTES = 8_000_000  # of edits
MOST_IMAGE_BYTES = 20_000_000
BLOB = "application/octet-stream"
_ERRORS = {
    400: "The request is not understood, or the host is not the studio's",
    401: "The token is missing or wrong",
    403: "The request does not come from the studio's page",
    404: "There is no such thing",
    409: "The edits were made to another model",
    413: "The request is too large",
    415: "The content is of another type",
    422: "The request does not fit the model",
    503: "The server is busy",
}


def create_app(
    model: ChoqolateClassifier,
    table: ConceptScores,
    *,
    title: str | None = None,
    names: tuple[str, str] = NAMES,
    images: str | os.PathLike[str] | None = None,
    rows: int = ROWS,
    save_to: str | os.PathLike[str] | None = None,
    backbone: Backbone | str | os.PathLike[str] | None = None,
    allow_hosts: Iterable[str] = (),
    token: str | None = None,
    root_path: str = "",
    frame_ancestors: str = SELF,
    page: Path = PAGE,
    verbose: bool = False,
) -> FastAPI:
    """Build the server of the studio as an ASGI application; :func:`~choqolate.studio.serve_studio` runs it.

    Args:
        model: a fitted classifier.
        table: scores of the model's concepts; labels, split, groups and paths are optional.
        title, names, images, rows: see :func:`~choqolate.studio.build_bundle`.
        save_to: folder for the edited model; by default, the name of the model with ``-edited``. If it is taken, a
            number is added.
        backbone: the encoder for images that are dropped on the page, if it is in another place than it was.
        allow_hosts: names of the server besides those of the loopback.
        token: that must be known to get an answer; none by default.
        root_path: what a proxy puts before all paths.
        frame_ancestors: pages that may show the studio in a frame, as in a content security policy.
        page: the folder of the page.
        verbose: show progress on stderr.

    Raises:
        ChoqolateError: if the table lacks concepts of the model, or an option is not valid.
    """
    rules = AccessRules.of(allow_hosts, token, root_path, frame_ancestors)
    files = read_page(page)
    target = edited_folder(names[0]) if save_to is None else Path(save_to)
    why_not_score = _why_not(check_can_score, model, backbone)
    offers = {
        "save": not _why_not(check_parent, target),
        "score": not why_not_score,
        "why_not_score": why_not_score or None,
    }
    bundle = build_bundle(
        model, table, rows=rows, images=images, names=names, title=title, server=offers, verbose=verbose
    )
    service = StudioService(
        bundle=bundle,
        blob=bundle.to_bytes(),
        workshop=Workshop(bundle),
        save_to=target,
        dropped=None if why_not_score else DroppedImages(model, backbone),
    )
    light, heavy = WorkerThreads(2, waiting=2000), WorkerThreads(2, waiting=100)
    app = FastAPI(
        title="CHOQOLATE studio",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        servers=[{"url": rules.root_path}] if rules.root_path else None,
    )
    app.router.route_class = StrictRoute
    _add_readings(app, service, light)
    _add_edits(app, service, heavy)
    _add_scoring(app, service, heavy)
    _add_page(app, files)
    _add_error_answers(app)
    app.add_middleware(BodyLimit, most_bytes=MOST_BYTES, exceptions={"/api/score": MOST_IMAGE_BYTES})
    app.add_middleware(Access, rules=rules)
    return app


def _why_not(check: Callable[..., None], *args: Any) -> str:
    """What a check has against something; nothing if it is fine."""
    try:
        check(*args)
    except ChoqolateError as error:
        return str(error)
    return ""


# ---------------------------------------------------------------------- answers


def _errors(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": Problem, "description": _ERRORS[code]} for code in sorted({400, 401, *codes})}


def _content(kind: str, *codes: int) -> dict[str, Any]:
    """A route that answers with bytes of one type, for the schema."""
    schema = {"schema": {"type": "string", "format": "binary"}}
    answers = {200: {"description": "Its content", "content": {kind: schema}}, **_errors(*codes)}
    return {"response_class": Response, "responses": answers}


async def _require_mark(mark: Annotated[Literal["1"], Header(alias=MARK)]) -> None:
    """Say in the schema that the header is needed; :class:`Access` checks it."""


_OWN = [Depends(_require_mark)]
_EDIT_ERRORS = (403, 409, 413, 422, 503)


def _add_readings(app: FastAPI, service: StudioService, threads: WorkerThreads) -> None:
    @app.get("/api/bundle", **_content(BLOB))
    async def get_bundle() -> Response:
        """Get the model and the first rows of the table as one safetensors blob."""
        return Response(service.blob, media_type=BLOB)

    @app.get("/api/rows", **_content(BLOB, 422, 503))
    async def get_rows(
        start: Annotated[int, Query(ge=0, le=2**31)], count: Annotated[int, Query(ge=0, le=MOST_ROWS)]
    ) -> Response:
        """Get further rows of the table, in the order of the bundle, as a safetensors blob."""
        return Response(await threads.run(service.bundle.rows_blob, start, count), media_type=BLOB)

    @app.get("/api/images/{number}", **_content("image/jpeg", 404, 422, 503))
    async def get_image(number: Annotated[int, PathParameter(ge=0, le=2**31)], request: Request) -> Response:
        """Get a small copy of the image of a row, by its number in the table."""
        content = await threads.run(service.thumbnail, number)
        if content is None:
            raise HTTPException(404, "This row has no image that can be read.")
        return _tagged(request, PageFile(content, "image/jpeg", entity_tag(content)), "private, no-cache")


def _add_edits(app: FastAPI, service: StudioService, threads: WorkerThreads) -> None:
    @app.post("/api/numbers", dependencies=_OWN, responses=_errors(*_EDIT_ERRORS))
    async def post_numbers(request: NumbersRequest) -> Numbers:
        """Compute what edits do: accuracies on the rows that they are judged on, and values of some rows."""
        options = {"recalibrate": request.recalibrate, "covered": request.covered}
        return Numbers(**await threads.run(service.numbers, request.document.as_file(), request.rows, **options))

    @app.post("/api/model", dependencies=_OWN, responses=_errors(*_EDIT_ERRORS))
    async def post_model(document: EditsDocument) -> SavedModel:
        """Save the edited model to a new folder; every edit must be reviewed."""
        return SavedModel(**await threads.run(service.save, document.as_file()))

    @app.post("/api/model.zip", dependencies=_OWN, **_content("application/zip", *_EDIT_ERRORS))
    async def post_archive(document: EditsDocument) -> Response:
        """Get the edited model as a ZIP archive; every edit must be reviewed."""
        content = await threads.run(service.zipped, document.as_file())
        return _download(content, "application/zip", f"{service.save_to.name}.zip")

    @app.post("/api/report", dependencies=_OWN, **_content("text/html", *_EDIT_ERRORS))
    async def post_report(document: EditsDocument) -> Response:
        """Get the report of the edited model as an HTML page."""
        content = await threads.run(service.report, document.as_file())
        return _download(content, "text/html; charset=utf-8", "report.html")


def _add_scoring(app: FastAPI, service: StudioService, threads: WorkerThreads) -> None:
    body = {"content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}, "required": True}

    @app.post(
        "/api/score",
        dependencies=_OWN,
        responses=_errors(403, 413, 415, 422, 503),
        openapi_extra={"requestBody": body},
    )
    async def post_score(request: Request) -> ScoredImage:
        """Score an image with the model's own encoder."""
        if service.dropped is None:
            raise ChoqolateError(service.bundle.document["server"]["why_not_score"])
        if not request.headers.get("content-type", "").lower().startswith("image/"):
            raise HTTPException(415, "Expected an image, but got another type of content.")
        return ScoredImage(**await threads.run(service.dropped.score, await request.body()))


def _add_page(app: FastAPI, files: dict[str, PageFile]) -> None:
    async def get_file(request: Request) -> Response:
        file = files.get(request.path_params["path"])
        if file is None:
            raise HTTPException(404, "There is no such page.")
        return _tagged(request, file, "no-cache")

    app.add_route("/{path:path}", get_file, methods=["GET"], include_in_schema=False)


def _tagged(request: Request, file: PageFile, caching: str) -> Response:
    """A file, or the remark that the browser has it already."""
    headers = {"ETag": file.tag, "Cache-Control": caching}
    if file.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.kind, headers=headers)


def _download(content: bytes, kind: str, name: str) -> Response:
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{plain}"'})


def _add_error_answers(app: FastAPI) -> None:
    @app.exception_handler(ChoqolateError)
    async def refuse(request: Request, error: ChoqolateError) -> Response:
        return _problem(409 if isinstance(error, AnotherModelError) else 422, str(error))

    @app.exception_handler(RequestValidationError)
    async def reject(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return _problem(422, f"Expected another request: {place[:200]}: {first['msg'][:500]}.")

    @app.exception_handler(StarletteHTTPException)
    async def answer(request: Request, error: StarletteHTTPException) -> Response:
        return _problem(error.status_code, str(error.detail), error.headers)

    @app.exception_handler(ClientDisconnect)
    async def give_up(request: Request, error: ClientDisconnect) -> Response:
        return _problem(400, "The request ended before it was complete.")


def _problem(status: int, sentence: str, headers: Any = None) -> Response:
    # all that is not ASCII is escaped: names in messages may hold what UTF-8 cannot
    return Response(json.dumps({"error": sentence}), status, headers=headers, media_type="application/json")
