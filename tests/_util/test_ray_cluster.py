from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from choqolate._util.ray_cluster import ray_session
from choqolate.errors import ChoqolateError
from tests.cli.test_data_commands import choqolate

SESSION = """
    import os, signal
    import psutil
    from choqolate._util.ray_cluster import ray_session

    def report(*facts):
        print(*facts, flush=True)

    def use(how):
        try:
            with ray_session(n_cpus=1) as ray:
                worker = ray.get(ray.remote(lambda: os.getpid()).remote())
                report(worker, *[child.pid for child in psutil.Process().children(recursive=True)])
                if how == "SIGINT":
                    os.kill(os.getpid(), signal.SIGINT)
                    signal.pause()
        finally:
            token = [key for key in os.environ if key.startswith("RAY_AUTH")]
            report("open" if ray.is_initialized() else "closed", *token)

    use("end")
    use("SIGINT")
"""


def run(program: str, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    environment = {**os.environ, "HOME": str(home)}
    return subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment, check=False)


def test_no_process_of_ray_is_left_however_a_session_ends(tmp_path):
    done = run(SESSION, home=tmp_path)
    ended, closed, interrupted, closed_again = done.stdout.splitlines()
    deadline = time.monotonic() + 20
    for session in (ended, interrupted):
        worker, *processes = map(int, session.split())
        assert worker in processes
        assert len(processes) > 3, "the session started no processes of its own"
        while (alive := [pid for pid in processes if psutil.pid_exists(pid)]) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not alive
    assert closed == closed_again == "closed", "the environment keeps the token of the session"
    assert done.returncode != 0
    assert done.stderr.startswith("Traceback"), "the first session, which ended well, said something"
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")
    assert not list(tmp_path.iterdir()), "Ray wrote to the home folder"


def test_an_address_at_which_nobody_answers_is_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    expected = rf"Expected a Ray cluster at 127.0.0.1:{port}, but cannot join one: .*refused"
    with pytest.raises(ChoqolateError, match=expected), ray_session(f"127.0.0.1:{port}"):
        pass
    with pytest.raises(ChoqolateError, match="host:port or auto, but got 'ray://head:1'"), ray_session("ray://head:1"):
        pass


def test_without_ray_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for line in ("embed . -o x", "score . -o x.csv", "fit x.csv -o x", "compare", "debias", "reproduce"):
        done = choqolate(*line.split(), "--engine", "ray")
        assert done.code == 2
        sentence = "Expected Ray for the engine ray, but it is not installed. Run: pip install 'choqolate[ray]'"
        assert " ".join(done.err.split()) == f"choqolate: {sentence}"
