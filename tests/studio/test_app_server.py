"""What the server gives and what it refuses: paths, methods, sizes, content, images."""

from __future__ import annotations

import base64
import io
import json
import logging
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load

import choqolate as cq
from choqolate.errors import ChoqolateWarning
from choqolate.estimators.table_inputs import inputs
from choqolate.network.scaling import MinMax
from choqolate.studio import build_bundle, create_app, studio_service
from tests.studio.running import OWN, Running, running


@pytest.fixture(scope="module")
def app(studio_place, tmp_path_factory):
    return create_app(
        studio_place.model,
        studio_place.table,
        page=studio_place.page,
        names=("model", "scores.parquet"),
        save_to=tmp_path_factory.mktemp("saved") / "edited",
    )


@pytest.fixture(scope="module")
def server(app):
    with running(app) as server:
        yield server


def metadata(blob: bytes) -> dict:
    """The document in a safetensors blob, read without the library."""
    (length,) = struct.unpack("<Q", blob[:8])
    return json.loads(json.loads(blob[8 : 8 + length])["__metadata__"]["studio"])


# ---------------------------------------------------------------------- the page


def test_the_page_is_given(server):
    page = server.get("/")
    assert page.body.startswith(b"<!doctype html>")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert server.get("/index.html").body == page.body
    assert server.get("/style.css").headers["content-type"] == "text/css; charset=utf-8"
    assert server.get("/app/main.js").headers["content-type"] == "text/javascript; charset=utf-8"
    head = server.ask("HEAD", "/")
    assert (head.status, head.body) == (200, b"")


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.html",
        "/%2e%2e/secret.html",
        "/..%2fsecret.html",
        "/%2e%2e%2fsecret.html",
        "/%252e%252e/secret.html",
        "/app/../../secret.html",
        "/app/../index.html",
        "/./index.html",
        "//index.html",
        "/..\\secret.html",
        "/..%5csecret.html",
        "/app\\main.js",
        "/index.html%00",
        "/%00/index.html",
        "/index.html/",
        "/app/",
        "/app",
        "/INDEX.HTML",
        "/notes.txt",
        "//etc/passwd",
        "/etc/passwd",
        "/file:///etc/passwd",
        "/%2fetc%2fpasswd",
        "/%c0%ae%c0%ae/secret.html",
        "/\xff",
        "/" + "a/" * 4000,
        "/docs",
        "/redoc",
        "/openapi.json",
        "/api",
        "/api/",
        "/api/bundle/",
        "/api/images/",
        "/api/images/-1",
        "/api/images/1.5",
        "/api/images/0x1",
        "/api/images/1e1",
        "/api/images/..%2f..%2fsecret.html",
        "/api/images/../bundle",
        "/api/images/120",
        "/api/images/99999999999999999999999999",
        "/api/rows",
        "/api/rows?start=-1&count=1",
        "/api/rows?start=0&count=5001",
        "/api/rows?start=99999999999999999999999&count=1",
        "/api/rows?start=0&count=x",
    ],
)
def test_other_paths_lead_nowhere(server, studio_place, path):
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    head, _, body = server.raw(request.encode("latin-1")).partition(b"\r\n\r\n")
    assert int(head.split()[1]) in (400, 404, 422)
    assert b"secret" not in body
    assert str(studio_place.folder).encode() not in body


def test_paths_of_files_on_the_machine_lead_nowhere(server, studio_place):
    for path in (studio_place.page / "index.html", studio_place.folder / "secret.html"):
        assert server.get(str(path)).status == 404
        assert server.get(f"/{path}").status == 404


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "POST", "TRACE", "CONNECT", "BREW", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", "/index.html", "/api/bundle", "/api/images/0"])
def test_other_methods_are_refused(server, method, path):
    answer = server.ask(method, path, headers=OWN)
    assert answer.status == 405
    assert answer.error


def test_reading_an_operation_that_changes_is_refused(server):
    for path in ("/api/model", "/api/model.zip", "/api/report", "/api/numbers", "/api/score"):
        assert server.get(path).status in (404, 405)


# ---------------------------------------------------------------------- rows and images


def test_the_bundle_is_that_of_the_library(server, studio_place):
    blob = server.get("/api/bundle").body
    offers = {"save": True, "score": True, "why_not_score": None}
    own = build_bundle(studio_place.model, studio_place.table, names=("model", "scores.parquet"), server=offers)
    assert metadata(blob) == own.document
    assert load(blob)["rows.z"].tobytes() == own.arrays["rows.z"].tobytes()


def test_all_rows_can_be_had_in_parts(studio_place):
    app = create_app(studio_place.model, studio_place.table, page=studio_place.page, rows=30)
    with running(app) as server:
        blobs = [server.get("/api/bundle").body]
        blobs += [server.get(f"/api/rows?start={start}&count=40").body for start in (30, 70, 110, 150)]
    parts = [load(blob) for blob in blobs]
    paths = [
        path for blob in blobs for path in metadata(blob).get("paths", metadata(blob).get("rows", {}).get("paths"))
    ]
    numbers = np.concatenate([part["rows.number"] for part in parts])
    assert sorted(numbers.tolist()) == list(range(120))
    assert paths == studio_place.table.paths[numbers].tolist()
    z = studio_place.model.scale(inputs(studio_place.model, studio_place.table))[numbers]
    np.testing.assert_array_equal(np.concatenate([part["rows.z"] for part in parts]), z.astype(np.float32))


def test_images_are_small_copies_of_those_of_the_table(server, studio_place):
    for number in (0, 7, 119):
        answer = server.get(f"/api/images/{number}")
        assert answer.headers["content-type"] == "image/jpeg"
        small = Image.open(io.BytesIO(answer.body)).convert("RGB")
        whole = Image.open(studio_place.folder / "birds" / studio_place.table.paths[number]).convert("RGB")
        assert max(small.size) <= 160
        difference = np.abs(np.asarray(small, float) - np.asarray(whole.resize(small.size), float)).mean()
        assert difference < 6


def test_rows_without_an_image_have_none(studio_place, tmp_path):
    (tmp_path / "birds").mkdir()
    table = studio_place.table.part("test").take([0, 1, 2])
    Image.new("RGB", (20, 20)).save(tmp_path / "birds" / "here.png")
    (tmp_path / "birds" / "broken.png").write_bytes(b"no image")
    (tmp_path / "outside.png").write_bytes((tmp_path / "birds" / "here.png").read_bytes())
    table = table.with_columns(paths=["here.png", "broken.png", None])
    with pytest.warns(ChoqolateWarning, match="1 of 3 images were not found"):
        app = create_app(studio_place.model, table, page=studio_place.page, images=tmp_path / "birds")
    with running(app) as server:
        assert [server.get(f"/api/images/{number}").status for number in range(4)] == [200, 404, 404, 404]
        assert load(server.get("/api/bundle").body)["rows.has_image"].sum() == 2


def test_an_internal_error_is_one_sentence_and_the_log_says_more(server, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(studio_service, "cached_thumbnail", fail)
    with caplog.at_level(logging.ERROR):
        answer = server.get("/api/images/3")
    assert answer.status == 500
    assert answer.json == {"error": "Internal error of the studio's server. Its log says more."}
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "a secret detail" in caplog.text
    monkeypatch.undo()
    assert server.get("/api/images/3").status == 200


# ---------------------------------------------------------------------- sizes and content


def test_bodies_over_the_limit_are_refused_while_they_arrive(server):
    for path, most in (("/api/model", 8_000_000), ("/api/score", 20_000_000)):
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nX-Choqolate-Studio: 1\r\nContent-Type: image/png\r\n"
        for size in (most + 1, 10**18):
            answer = server.raw(f"{head}Content-Length: {size}\r\n\r\n".encode())
            assert answer.split()[1] == b"413"
            assert b'"error"' in answer
        piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        chunked = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + piece * (most // 0x100000 + 1)
        assert server.raw(chunked).split()[1] == b"413"


@pytest.mark.parametrize("length", ["-1", "x", "1, 2", "0x10", "١"])
def test_lengths_that_are_no_numbers_are_refused(server, length):
    head = (
        f"POST /api/model HTTP/1.1\r\nHost: localhost\r\nX-Choqolate-Studio: 1\r\nContent-Length: {length}\r\n\r\n{{}}"
    )
    assert server.raw(head.encode()).split()[1] == b"400"


def test_a_length_that_is_not_the_body_s_harms_nobody(server):
    head = "POST /api/model HTTP/1.1\r\nHost: localhost\r\nX-Choqolate-Studio: 1\r\nContent-Type: application/json\r\n"
    short = server.raw(f'{head}Content-Length: 3\r\nConnection: close\r\n\r\n{{"format": 1}}'.encode())
    assert short.split()[1] in (b"400", b"422")  # what is left over may be read as a request first
    assert server.raw(f"{head}Content-Length: 300\r\n\r\n{{}}".encode(), patience=0.3) == b""
    both = f"{head}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{{}}"
    assert server.raw(both.encode(), patience=0.5).split()[1:2] in ([], [b"400"], [b"422"])
    assert server.get("/").status == 200


@pytest.mark.parametrize(
    ("body", "statuses"),
    [
        (b"", (422,)),
        (b"{", (422,)),
        (b"null", (422,)),
        (b"[]", (422,)),
        (b"\xff\xfe{}", (400, 422)),
        (b"[" * 100_000, (400, 422)),
        (b'{"a":' * 100_000, (400, 422)),
        (b'{"format_version": 1' + b"0" * 10_000 + b"}", (400, 422)),
        (b'{"format": NaN}', (422,)),
    ],
)
@pytest.mark.parametrize("path", ["/api/model", "/api/numbers"])
def test_what_is_no_document_is_refused(server, path, body, statuses):
    answer = server.post(path, body, **{"Content-Type": "application/json"})
    assert answer.status in statuses
    assert answer.error


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_content_of_other_types_is_refused(server, kind):
    """These are what a form of another site could send."""
    assert server.post("/api/model", b"{}", **{"Content-Type": kind}).status == 422
    assert server.post("/api/score", b"{}", **{"Content-Type": kind}).status == 415


# ---------------------------------------------------------------------- dropped images


def score(server: Running, content: bytes):
    return server.post("/api/score", content, **{"Content-Type": "image/png"})


def encoded(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    content = io.BytesIO()
    image.save(content, kind, **options)
    return content.getvalue()


def png_of_size(width: int, height: int) -> bytes:
    """A few bytes that say they are a large image."""
    body = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + body
    data = b"IDAT" + zlib.compress(b"\0" * 1000)
    parts = b"".join(struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in (chunk, data))
    return b"\x89PNG\r\n\x1a\n" + parts


def test_an_image_gets_the_scores_that_it_has_in_the_table(server, studio_place):
    path = studio_place.folder / "birds" / studio_place.table.paths[4]
    answer = score(server, path.read_bytes())
    assert answer.status == 200
    expected = studio_place.model.scale(cq.score_for_model(studio_place.model, path))[0]
    np.testing.assert_allclose(answer.json["scores"], expected, atol=1e-12)
    z = studio_place.model.scale(studio_place.table)[4]
    np.testing.assert_allclose(answer.json["scores"], z, atol=1e-3)
    small = Image.open(io.BytesIO(base64.b64decode(answer.json["thumbnail"])))
    assert small.format == "JPEG"
    assert max(small.size) <= 160


def test_an_image_unlike_those_of_the_training_is_doubted(server, studio_place):
    image = encoded(Image.new("RGB", (40, 30), "green"))
    assert score(server, image).json["warnings"] == []
    network = studio_place.model.network_
    elsewhere = MinMax(network.scaling.low + 10, network.scaling.high + 10)
    model = studio_place.model.with_network(replace(network, scaling=elsewhere))
    with running(create_app(model, studio_place.table, page=studio_place.page)) as other:
        (warning,) = score(other, image).json["warnings"]
    assert warning.startswith("Unlike any training image")
    assert warning.endswith(".")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not an image"),
        (b"hello", "not an image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "not an image"),
        (png_of_size(60_000, 60_000), "pixels"),
        (png_of_size(9_000, 9_000), "pixels are more than the 64,000,000"),
        (png_of_size(0, 5), "cannot be read"),
        (encoded(Image.new("RGB", (300, 300)), "JPEG")[:400], "cannot be read"),
        (encoded(Image.new("RGB", (9, 9)), "PCX"), "not an image"),
    ],
)
def test_what_is_no_fair_image_is_refused(server, content, said):
    answer = score(server, content)
    assert answer.status == 422
    assert said in answer.error


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
def test_images_of_all_usual_formats_are_scored(server, kind):
    assert score(server, encoded(Image.new("RGB", (40, 30), "green"), kind)).status == 200


def test_a_model_that_cannot_score_says_why(studio_place):
    plain = cq.ChoqolateClassifier(n_nodes=2, epochs=2).fit(studio_place.table.frame, studio_place.table.labels)
    with running(create_app(plain, studio_place.table, page=studio_place.page)) as server:
        offers = metadata(server.get("/api/bundle").body)["server"]
        assert (offers["save"], offers["score"]) == (True, False)
        assert "says how its scores were made" in offers["why_not_score"]
        answer = score(server, encoded(Image.new("RGB", (40, 30))))
        assert (answer.status, answer.error) == (422, offers["why_not_score"])


def test_an_encoder_that_is_gone_is_an_error_of_the_request_not_of_the_server(studio_place, tmp_path):
    app = create_app(studio_place.model, studio_place.table, page=studio_place.page, backbone=tmp_path / "nowhere")
    with running(app) as server:
        answer = score(server, encoded(Image.new("RGB", (40, 30))))
        assert answer.status == 422
        assert "nowhere" in answer.error
