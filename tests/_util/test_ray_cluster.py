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

SESSION = """
    import os, signal, sys
    import psutil
    from choqolate._util.ray_cluster import ray_session

    def report(*facts):
        print(*facts, flush=True)

    try:
        with ray_session(n_cpus=1) as ray:
            worker = ray.get(ray.remote(lambda: os.getpid()).remote())
            report(worker, *[child.pid for child in psutil.Process().children(recursive=True)])
            how = sys.argv[1]
            if how != "end":
                os.kill(os.getpid(), getattr(signal, how))
                signal.pause()
    finally:
        report("open" if ray.is_initialized() else "closed", *[key for key in os.environ if key.startswith("RAY_AUTH")])
"""


def run(program: str, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    environment = {**os.environ, "HOME": str(home)}
    return subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment, check=False)


@pytest.mark.parametrize("how", ["end", "SIGINT"])
def test_no_process_of_ray_is_left_however_a_session_ends(how, tmp_path):
    done = run(SESSION, how, home=tmp_path)
    first, *rest = done.stdout.splitlines()
    worker, *processes = map(int, first.split())
    assert worker in processes
    assert len(processes) > 3, "the session started no processes of its own"
    deadline = time.monotonic() + 20
    while (alive := [pid for pid in processes if psutil.pid_exists(pid)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive
    assert done.returncode != 0 or how == "end"
    assert rest == ["closed"], "the environment keeps the token of the session"
    if how == "end":
        assert done.stderr == ""
    assert not list(tmp_path.iterdir()), "Ray wrote to the home folder"


def test_a_ray_that_the_program_started_itself_stays(tmp_path):
    program = """
        import os
        os.environ["RAY_AUTH_MODE"] = "disabled"
        import ray
        from choqolate._util.ray_cluster import ray_session

        ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR")
        kept = ray.put("kept")
        with ray_session() as used:
            assert used is ray
            print(ray.get(kept))
        print(ray.is_initialized(), ray.get(kept))
    """
    assert run(program, home=tmp_path).stdout.splitlines() == ["kept", "True kept"]


def test_an_address_at_which_nobody_answers_is_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    expected = rf"Expected a Ray cluster at 127.0.0.1:{port}, but cannot join one: .*refused"
    with pytest.raises(ChoqolateError, match=expected), ray_session(f"127.0.0.1:{port}"):
        pass
    with pytest.raises(ChoqolateError, match="host:port or auto, but got 'ray://head:1'"), ray_session("ray://head:1"):
        pass


def test_without_ray_one_sentence_says_what_to_install(tmp_path):
    program = """
        import sys
        sys.modules["ray"] = None
        from choqolate.cli import main

        for line in sys.argv[1:]:
            sys.argv = ["choqolate", *line.split(), "--engine", "ray"]
            try:
                main()
            except SystemExit as end:
                print(end.code, flush=True)
    """
    lines = ["embed . -o x", "score . -o x.csv", "fit x.csv -o x", "compare", "debias", "reproduce"]
    done = run(program, *lines, home=tmp_path)
    assert done.stdout.split() == ["2"] * len(lines)
    sentence = "choqolate: Expected Ray for the engine ray, but it is not installed. Run: pip install 'choqolate[ray]'"
    assert " ".join(done.stderr.split()) == " ".join([sentence] * len(lines))
