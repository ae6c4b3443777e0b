"""The server as a person starts and stops it: address, token, ports, Ctrl-C."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import webbrowser
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from choqolate.cli import app
from choqolate.errors import ChoqolateError
from choqolate.studio import launch, serve_studio
from tests.studio.running import Running


@contextmanager
def served(monkeypatch, place, **options):
    """Run serve_studio in a thread; yields the server and what it told."""
    servers, told, make = [], [], launch.make_server
    monkeypatch.setattr(launch, "make_server", lambda app: servers.append(make(app)) or servers[0])
    options = {"page": place.page, "tell": told.append, "port": 0, **options}
    thread = threading.Thread(target=serve_studio, args=(place.model, place.table), kwargs=options, daemon=True)
    thread.start()
    while not (servers and servers[0].started):
        assert thread.is_alive()
        time.sleep(0.01)
    yield Running(int(re.search(r":(\d+)/", told[0])[1])), told
    servers[0].should_exit = True
    thread.join(10)
    assert not thread.is_alive()


def test_on_this_machine_no_token_is_needed(monkeypatch, studio_place):
    with served(monkeypatch, studio_place) as (server, told):
        assert told == [f"The studio is at http://127.0.0.1:{server.port}/", "Press Ctrl-C to stop it."]
        assert server.get("/").status == 200
        assert server.get("/", Host="evil.example").status == 400


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_on_other_addresses_a_token_is_told_once(monkeypatch, studio_place, host):
    with served(monkeypatch, studio_place, host=host, root_path="/studio/") as (server, told):
        name, token = re.fullmatch(
            rf"The studio is at http://(.+):{server.port}/studio/\?token=(\S{{43}})", told[0]
        ).groups()
        assert name == socket.gethostname()
        assert token not in "".join(told[1:])
        assert server.get("/studio/").status == 401
        assert server.get("/studio/", Host=name, Authorization=f"Bearer {token}").status == 200
        assert server.get(f"/studio/?token={token}").status == 303


def test_the_browser_is_opened_on_request(monkeypatch, studio_place):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    with served(monkeypatch, studio_place, open_browser=True, token="my-own-token-of-some-length") as (server, told):
        assert opened == [f"http://127.0.0.1:{server.port}/?token=my-own-token-of-some-length"]
        assert told[0].endswith(opened[0])
        assert server.get("/").status == 401


def test_the_next_free_port_is_taken_unless_one_is_asked_for():
    with launch.listen("127.0.0.1", None) as first, launch.listen("127.0.0.1", None) as second:
        ports = [one.getsockname()[1] for one in (first, second)]
        assert launch.FIRST_PORT <= ports[0] < ports[1]
        with pytest.raises(ChoqolateError, match=f"port {ports[0]} is taken. Choose another one with --port"):
            launch.listen("127.0.0.1", ports[0])


@pytest.mark.parametrize(("host", "port"), [("no.such.host.invalid", 0), ("203.0.113.7", 0), ("a" * 80, 0)])
def test_an_address_that_cannot_be_used_is_one_sentence(host, port):
    with pytest.raises(ChoqolateError, match=r"Expected an address to listen on, but .* cannot be used: .*\."):
        launch.listen(host, port)


@pytest.mark.parametrize("port", [-1, 70000])
def test_a_port_that_does_not_exist_is_refused(port):
    with pytest.raises(ChoqolateError, match="Expected a port from 0 to 65535"):
        launch.listen("127.0.0.1", port)


def test_missing_packages_are_named(monkeypatch, studio_place):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "uvicorn" else find(name, *rest)
    )
    with pytest.raises(ChoqolateError, match=r"packages of the studio's server.*'uvicorn'.*choqolate\[studio\]"):
        serve_studio(studio_place.model, studio_place.table)
    with pytest.raises(ChoqolateError, match=r"choqolate\[studio\]"):
        studio_place.model.studio(studio_place.table)


def test_nothing_is_loaded_to_say_so():
    script = (
        "import sys, choqolate.studio.launch; print([n for n in ('fastapi', 'uvicorn', 'torch') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_demo_opens_the_studio_and_ctrl_c_ends_it_well(tmp_path):
    command = [sys.executable, "-c", "from choqolate.cli import main; main()", "demo", "--images", "40", "--seeds", "1"]
    process = subprocess.Popen(
        [*command, "--studio"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"BROWSER": "true"},  # a browser that does nothing
    )
    try:
        line = next(line for line in process.stdout if "The studio is at" in line)
        server = Running(int(re.search(r":(\d+)/", line)[1]))
        assert b"app/main.js" in server.get("/").body
        assert server.get("/api/images/0").status == 200
        with socket.create_connection(("127.0.0.1", server.port)) as waiting:  # somebody has not finished asking
            head = b"POST /api/model HTTP/1.1\r\nHost: localhost\r\nX-Choqolate-Studio: 1\r\nContent-Length: 9\r\n\r\n{"
            waiting.sendall(head)
            time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=20)  # without waiting for the request to end
        assert process.returncode == 0
        assert "Traceback" not in errors
    finally:
        process.kill()


def test_the_demo_on_a_table_has_no_images_to_show(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["demo", "--data", "breast-cancer", "--studio"])
    assert isinstance(done.exception, ChoqolateError)
    assert list(tmp_path.iterdir()) == []
