"""The studio in a notebook: a frame, an address, and an end."""

from __future__ import annotations

import re
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from choqolate.errors import ChoqolateError
from choqolate.studio import show_studio
from tests.browser import open_browser
from tests.studio.running import Running, running


@pytest.fixture
def frame(studio_place):
    frame = studio_place.model.studio(studio_place.table, height=640, page=studio_place.page)
    yield frame
    frame.close()


def test_a_frame_shows_the_page(frame):
    server = Running(urlsplit(frame.url).port)
    assert server.get("/").status == 200
    assert repr(frame) == f"Studio at {frame.url}"
    shown = frame._repr_html_()
    assert re.search(rf'<iframe src="{frame.url}" width="100%" height="640"', shown)
    assert "http://localhost:*" in server.get("/").headers["content-security-policy"].split("frame-ancestors ")[1]


def test_a_notebook_on_another_port_may_show_it(frame):
    async def notebook(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body", "body": frame._repr_html_().encode()})

    with running(notebook) as server, open_browser() as browser:
        page = browser.new_page()
        page.goto(f"http://localhost:{server.port}/")
        inner = page.frame(url=frame.url)
        assert inner is not None
        assert inner.title() == "studio"


def test_a_closed_studio_answers_nobody(frame):
    frame.close()
    frame.close()
    assert repr(frame) == "Studio (closed)"
    assert "iframe" not in frame._repr_html_()
    with pytest.raises(ConnectionRefusedError):
        HTTPConnection("127.0.0.1", urlsplit(frame.url).port).request("GET", "/")


def test_several_run_side_by_side_and_take_files(studio_place):
    frames = [
        show_studio(studio_place.model, studio_place.folder / "scores.parquet", page=studio_place.page)
        for _ in range(2)
    ]
    try:
        assert frames[0].url != frames[1].url
        assert all(Running(urlsplit(one.url).port).get("/api/bundle").status == 200 for one in frames)
    finally:
        for one in frames:
            one.close()


def test_a_height_that_shows_nothing_is_refused(studio_place):
    with pytest.raises(ChoqolateError, match="height"):
        studio_place.model.studio(studio_place.table, height=0)
