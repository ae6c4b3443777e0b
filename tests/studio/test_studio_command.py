"""The command studio, in this process; with a server it is started and stopped as a person would."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from tests.cli.test_data_commands import choqolate
from tests.reports import bird_table, small_model


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio")
    table = bird_table(folder / "images")
    table.save(folder / "scores.parquet")
    small_model(table).save(folder / "model")
    return folder


@pytest.fixture
def run(place, monkeypatch):
    monkeypatch.chdir(place)
    return lambda *arguments: choqolate("studio", *arguments)


def test_a_file_is_written_and_what_is_in_it_is_told(run, place):
    code, out, err = run("model", "--scores", "scores.parquet", "--export", "audit.html", "--rows", 100)
    assert (code, err) == (0, "")
    size = (place / "audit.html").stat().st_size
    assert out.startswith("Reading model and scores.parquet ...\n")
    said = " ".join(out.split())
    assert "Rows: 100 of 300 rows: 40 of 60 validation rows, 35 of 120 test rows and 25 of 120 training rows." in said
    assert "Edits are judged on the 60 validation rows. Covered until the final check: the 120 test rows." in said
    assert "Images: 100 thumbnails of up to 160 pixels." in said
    assert f"Size: {size / 1e6:.1f} MB." in said
    assert said.endswith("The studio is in audit.html. Next: choqolate apply model edits.json -o model-edited")


def test_a_file_needs_no_packages_of_the_server(run, place, monkeypatch):
    for name in ("fastapi", "uvicorn"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    code, _, err = run("model", "--scores", "scores.parquet", "--export", "alone.html")
    assert (code, err) == (0, "")
    assert (place / "alone.html").exists()


def test_without_packages_of_the_server_the_way_out_is_told(run, monkeypatch):
    import choqolate.studio.launch as launch

    monkeypatch.setattr(launch, "_PACKAGES", ("fastapi", "no_such_package"))
    code, out, err = run("model", "--scores", "scores.parquet")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "pip install 'choqolate[studio]'" in err
    assert "--export" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("model", "--scores", "scores.parquet", "--export", "audit.pdf"), "ends in .html"),
        (("model", "--scores", "scores.parquet", "--export", "a.html", "--host", "0.0.0.0"), "A file has no server"),
        (("nothing", "--scores", "scores.parquet", "--export", "x.html"), "found none"),
        (("model", "--scores", "nothing.parquet", "--export", "x.html"), "nothing.parquet"),
        (("model", "--scores", "scores.parquet", "--export", "x.html", "--images", "model"), "expected the images"),
        (("model", "--scores", "scores.parquet", "--export", "x.html", "--port", "80"), "A file has no server"),
    ],
)
def test_mistakes_end_with_one_line_and_exit_code_2(run, place, arguments, message):
    code, _, err = run(*arguments)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert not (place / "x.html").exists()


def test_the_server_tells_its_address_and_stops_on_ctrl_c(place):
    command = [sys.executable, "-c", "from choqolate.cli import main; main()", "studio", "model"]
    options = ["--scores", "scores.parquet", "--port", "0", "--no-browser", "--title", "birds at sea", "--rows", "50"]
    options += ["--allow-host", "proxy.example", "--root-path", "/user/ada", "--save-to", "saved", "--images", "images"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    running = subprocess.Popen([*command, *options], cwd=place, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        lines = []
        while not re.search(r"http://127\.0\.0\.1:\d+/", "".join(lines)):
            lines.append(running.stdout.readline())
            assert lines[-1], "".join(lines)  # it has not ended
        assert lines[0] == "Reading model and scores.parquet ...\n"
        address = re.search(r"http://\S+", lines[-1])[0]
        asked = urllib.request.Request(f"{address}api/bundle", headers={"Host": "proxy.example"})
        content = urllib.request.urlopen(asked, timeout=20).read()  # it listens before it tells its address
        assert address.endswith("/user/ada/")
        assert b"birds at sea" in content
        assert b"50 of 300 rows" in content
    finally:
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=20) in (0, 130)
        running.stdout.close()
