"""What a stranger may send to the studio's server: it is answered with a sentence, and nothing comes of it."""

from __future__ import annotations

import io
import json
import socket
import struct
import time
import zlib
from pathlib import Path

import pytest
from hypothesis import strategies as st
from PIL import Image

import choqolate as cq
from choqolate.errors import ChoqolateError
from choqolate.estimators.edits_file import edits_document
from choqolate.network.edits import Note
from choqolate.studio import create_app
from choqolate.studio.app_server import MOST_BYTES, MOST_IMAGE_BYTES
from tests.studio.running import OWN, running
from tests.trust.fuzzing import fuzz
from tests.trust.ledger import note, scaled
from tests.trust.mutations import byte_changes, changed_bytes, changed_json, json_changes, json_text

pytestmark = pytest.mark.trust
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def saved(tmp_path):
    return tmp_path / "saved"


@pytest.fixture
def server(studio_place, saved):
    saved.mkdir()
    app = create_app(studio_place.model, studio_place.table, page=studio_place.page, save_to=saved / "edited")
    with running(app) as server:
        yield server


@pytest.fixture(scope="module")
def document(studio_place):
    reviewed = Note("Ada", reason="background", reviewed=True)
    model = studio_place.model.remove_concepts("sea", nodes=[0], note=reviewed)
    model = model.reweight_concepts({"long bill": 0.5}, note=reviewed)
    return json.loads(json.dumps(edits_document(model)))


def assert_refused(answer):
    """The answer is a sentence about the request."""
    assert 400 <= answer.status < 500, answer
    assert list(answer.json) == ["error"]
    assert answer.error


def assert_unharmed(server, document, saved, n_saved=0):
    """The server answers as before, and has written nothing else than the models that it said."""
    assert server.post("/api/numbers", {"document": document, "rows": [0]}).status == 200
    assert len(list(saved.iterdir())) == n_saved


# ---------------------------------------------------------------------- documents


@pytest.mark.parametrize("path", ["/api/numbers", "/api/model", "/api/report"])
def test_changed_documents(server, document, saved, path):
    body = {"document": document, "rows": [0, 1]} if path == "/api/numbers" else document
    n_saved = 0

    def use(found):
        nonlocal n_saved
        changes, flips = found
        answer = server.post(path, changed_bytes(json_text(changed_json(body, changes)).encode(), flips), **JSON)
        if answer.status != 200:
            assert_refused(answer)
            raise ChoqolateError(answer.error)
        if path == "/api/model":
            cq.load(saved / Path(answer.json["folder"]).name)
            n_saved += 1

    made = st.tuples(json_changes(body), st.just([]) | st.just([]) | byte_changes(2))
    fuzz(f"studio: {path}", made, use, examples=[([], [])], tries=20)
    assert_unharmed(server, document, saved, n_saved)


def test_bodies_that_are_no_documents(server, document, saved):
    text = json.dumps({"document": document, "rows": [0]})
    bodies = [
        b"",
        b"[]",
        b"null",
        b"{",
        b"\xff\xfe" + text.encode("utf-16-le"),
        text.encode().replace(b"Ada", b"\xc3("),
        text.replace('"rows": [0]', '"rows": [0], "rows": [0]').encode(),
        text.replace('"rows": [0]', '"rows": [1e999]').encode(),
        text.replace('"rows": [0]', '"rows": [NaN]').encode(),
        text.replace('"rows": [0]', f'"rows": [{"9" * 5000}]').encode(),
        text.replace('"rows": [0]', f'"rows": {"[" * 100_000}').encode(),
        text.replace('"rows": [0]', f'"rows": {"[" * 5_000}{"]" * 5_000}').encode(),
        text.replace('"rows": [0]', '"rows": [-1]').encode(),
        text.replace('"rows": [0]', '"rows": [100000]').encode(),
        text.replace('"node": 0', '"node": 10e20').encode(),
        text.replace('"sea"', '"se\\ud800a"').encode(),
        text.replace('"sea"', '"se\na"').encode(),
        text.replace('"sea"', '"no concept"').encode(),
        b'{"x":' * 3000 + b"1" + b"}" * 3000,
        b" " * (MOST_BYTES + 1),
    ]
    for body in bodies:
        assert_refused(server.post("/api/numbers", body, **JSON))
    kinds = ["text/plain", "application/xml", "image/png", "multipart/form-data; boundary=x"]
    for kind in kinds:
        assert_refused(server.post("/api/numbers", text.encode(), **{"Content-Type": kind}))
    note("hostile inputs", "studio API", len(bodies) + len(kinds))
    assert_unharmed(server, document, saved)


# ---------------------------------------------------------------------- images


def encoded(image, kind, **options):
    content = io.BytesIO()
    image.save(content, kind, **options)
    return content.getvalue()


def bomb():
    """A PNG of some kilobytes that takes ten gigabytes."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(bytes(1 << 22)))
        + chunk(b"IEND", b"")
    )


def test_images_that_are_none(server, document, saved):
    image = Image.linear_gradient("L").convert("RGB")
    jpeg, png = encoded(image, "JPEG"), encoded(image, "PNG")
    assert server.post("/api/score", jpeg, **{"Content-Type": "image/jpeg"}).status == 200
    bodies = [b"", b"\0" * 1000, jpeg[:100], png[: len(png) // 2], bomb(), b"<svg xmlns='http://www.w3.org/2000/svg'/>"]
    bodies += [encoded(image, kind) for kind in ("PPM", "ICO", "PCX", "PDF", "EPS")]
    bodies += [
        b"%PDF-1.4",
        b"PK\3\4" + b"\0" * 60,
        b"GIF89a" + b"\xff" * 9,
        b"RIFF\xff\xff\xff\xffWEBPVP8 ",
        b"II*\0\xff\xff\xff\xff",
    ]
    bodies += [b"\0" * (MOST_IMAGE_BYTES + 1)]
    for body in bodies:
        assert_refused(server.post("/api/score", body, **{"Content-Type": "image/jpeg"}))
    assert_refused(server.post("/api/score", jpeg, **{"Content-Type": "text/html"}))
    note("hostile inputs", "studio API", len(bodies) + 1)
    assert_unharmed(server, document, saved)


def test_changed_images(server, document, saved):
    image = Image.linear_gradient("L").convert("RGB").resize((48, 40))
    files = {kind: encoded(image, kind) for kind in ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP")}

    def use(found):
        kind, changes = found
        answer = server.post("/api/score", changed_bytes(files[kind], changes), **{"Content-Type": "image/x"})
        if answer.status != 200:
            assert_refused(answer)
            raise ChoqolateError(answer.error)

    fuzz(
        "studio: /api/score",
        st.tuples(st.sampled_from(sorted(files)), byte_changes()),
        use,
        examples=[(kind, []) for kind in files],
        tries=20,
    )
    assert_unharmed(server, document, saved)


# ---------------------------------------------------------------------- connections


def request_bytes(path, body, length=None):
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in OWN.items())
    return f"{head}Content-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body


def test_requests_that_never_end_keep_nobody_waiting(server, document, saved):
    body = json.dumps(document).encode()
    slow = [socket.create_connection(("127.0.0.1", server.port), timeout=5) for _ in range(20)]
    try:
        for number, connection in enumerate(slow):
            whole = request_bytes("/api/model", body)
            connection.sendall(whole[: (number + 1) * len(whole) // 21])
        assert_unharmed(server, document, saved)
    finally:
        for connection in slow:
            connection.close()
    note("hostile inputs", "studio API", len(slow))
    assert_unharmed(server, document, saved)


def models_in(folder):
    """The models in a folder, each of which can be loaded; nothing else is there."""
    for path in folder.iterdir():
        assert sorted(file.name for file in path.iterdir() if not file.name.startswith(".")) == [
            "config.json",
            "model.safetensors",
        ]
        assert cq.load(path).edits_
    return sorted(path.name for path in folder.iterdir())


def test_dropped_connections_in_the_middle_of_a_save(server, document, saved):
    body = json.dumps(document).encode()
    whole = request_bytes("/api/model", body)
    attempts = scaled(12)
    for number in range(attempts):
        kept = len(whole) if number % 2 else len(whole) - len(body) * (number + 1) // (attempts + 1)
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
            connection.sendall(whole[:kept])
            time.sleep(0.004 * (number % 6))
            if number % 3 == 0:  # a reset, as of a program that was killed
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    answer = server.post("/api/model", document)
    assert answer.status == 200
    deadline = time.monotonic() + 20
    while any(path.name.startswith(".") for path in saved.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    found = models_in(saved)
    assert 1 <= len(found) <= attempts // 2 + 1
    note("kills", "studio save, dropped connections", attempts)
    assert_unharmed(server, document, saved, len(found))
