"""A file of results: what is written is read, and no kill at any byte costs more than the line that was cut."""

import hashlib
import json
import math
import os
import resource
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from choqolate._util.json_files import json_bytes
from choqolate.errors import ChoqolateError
from choqolate.experiments.engine.results import Read, Results, Run


def run(seed=0, accuracy=0.5, **config):
    return Run({"method": "pcbm"} | config, seed, {"accuracy": accuracy}, 1.5, 3, {"numpy": "2.0"}, {"rate": 0.1})


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path / "results.jsonl")


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(), values, max_size=4)
runs = st.builds(
    Run,
    config=objects,
    seed=st.integers(0, 2**32 - 1),
    metrics=st.dictionaries(st.text(), st.none() | st.floats() | st.integers(-(2**60), 2**60), max_size=4),
    seconds=st.floats(0, 1e9),
    shared=st.integers(1, 100),
    versions=st.dictionaries(st.text(), st.text(), max_size=3),
    chosen=objects,
)


@given(runs)
def test_a_line_gives_its_run_back(one):
    line = one.to_json()
    assert "\n" not in line
    assert line.isascii()
    again = Run.from_json(line)
    assert again == one
    assert again.key == one.key == Run.key_of(one.config, one.seed)


def test_what_is_undefined_is_null_in_the_file_and_nan_in_the_run():
    one = Run({}, 0, {"a": math.nan, "b": None, "c": math.inf, "d": np.float32(0.5), "e": 3}, 0)
    assert json.loads(one.to_json())["metrics"] == {"a": None, "b": None, "c": None, "d": 0.5, "e": 3.0}
    again = Run.from_json(one.to_json())
    assert [math.isnan(again.metrics[name]) for name in "abcde"] == [True, True, True, False, False]


def test_the_key_knows_the_configuration_and_the_seed_only():
    config = {"data": {"name": "cub", "classes": (5, 10)}, "parameters": {"l1": 0.01, "nodes": 8}}
    turned = {"parameters": {"nodes": 8, "l1": 0.01}, "data": {"classes": [5, 10], "name": "cub"}}
    key = Run(config, 3, {"accuracy": 0.1}, 1.0).key
    assert Run(turned, np.int64(3), {}, 9.0, 20, {"numpy": "1"}, {"rate": 1}).key == key == Run.key_of(turned, 3)
    others = [Run(config, 4, {}, 1.0).key, Run(config | {"data": "cub"}, 3, {}, 1.0).key, Run({}, 3, {}, 1.0).key]
    assert len({key, *others}) == 4


def test_the_key_does_not_change_from_version_to_version():
    """Else all that is in a file would be run again."""
    canonical = rb'[{"b": null, "\u00e9": [1, 2.5]}, 7]'
    assert Run.key_of({"é": (1, 2.5), "b": None}, 7) == hashlib.sha256(canonical).hexdigest()[:24]


def test_numbers_as_keys_do_not_make_a_second_configuration():
    assert Run.key_of({9: "a", 10: "b"}, 0) == Run.key_of({"10": "b", "9": "a"}, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": [1]}, "config to be a dictionary"),
        (
            {"config": {"rows": 2**64}},
            "config to hold what JSON can.* 18446744073709551616 is too large: turn",
        ),
        ({"config": {"rate": math.nan}}, "config to hold what JSON can"),
        ({"config": {"rate": {1, 2}}}, "config to hold what JSON can"),
        ({"chosen": {"rate": np.float32(1)}}, "chosen to hold what JSON can"),
        ({"seed": -1}, "seed"),
        ({"seed": True}, "seed"),
        ({"metrics": {"accuracy": "0.5"}}, "'accuracy' to be a number or None, got '0.5'"),
        ({"metrics": {"accuracy": True}}, "'accuracy' to be a number"),
        ({"metrics": None}, "metrics to be a dictionary"),
        ({"seconds": -1}, "seconds"),
        ({"shared": 0}, "shared"),
    ],
)
def test_a_run_refuses_what_it_cannot_hold(changes, message):
    parts = {"config": {}, "seed": 0, "metrics": {}, "seconds": 1.0} | changes
    with pytest.raises(ChoqolateError, match=message):
        Run(**parts)


def test_no_file_has_no_runs(results):
    assert results.read() == Read([], [])
    results.append([])
    assert not results.path.exists()


def test_folders_are_made(tmp_path):
    results = Results(tmp_path / "a" / "b" / "results.jsonl")
    results.append([run()])
    results.append([run(1)])
    assert results.read() == Read([run(), run(1)], [])


def test_the_later_line_of_a_run_wins(results):
    results.append([run(0, 0.1), run(1, 0.2)])
    results.append([run(0, 0.9)])
    assert [one.metrics["accuracy"] for one in results.read().runs] == [0.9, 0.2]


def test_cut_at_every_byte_and_then_appended_to(tmp_path):
    """Whole lines stay, new runs are found, and exactly the line that was cut is reported."""
    written = [run(seed, accuracy=seed / 7, note="höhe") for seed in range(3)]
    results = Results(tmp_path / "results.jsonl")
    results.append(written)
    content, new = results.path.read_bytes(), [run(7), run(8)]
    assert content.count(b"\n") == 3
    for length in range(len(content) + 1):
        results.path.write_bytes(content[:length])
        results.append(new)
        whole = [line for line in content.splitlines() if content.index(line) + len(line) <= length]
        read = results.read()
        assert read.runs == written[: len(whole)] + new
        is_cut = length > sum(len(line) + 1 for line in whole)
        assert [number for number, _ in read.damaged] == [len(whole) + 1] * is_cut
        assert all(reason.startswith("it is not valid JSON") for _, reason in read.damaged)


def test_reading_half_a_line_changes_nothing(results):
    results.append([run()])
    content = results.path.read_bytes() + b'{"config": {'
    results.path.write_bytes(content)
    assert results.read().runs == [run()]
    assert results.path.read_bytes() == content


UNSEALED = json.dumps({name: value for name, value in json.loads(run().to_json()).items() if name != "checksum"})


@pytest.mark.hostile("results")
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"\x00\x00\x00", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[1, 2]", "expected an object, got list"),
        (b"{}", "without 'config', 'seed', 'metrics', 'seconds', 'shared', 'versions', 'chosen'"),
        (UNSEALED.replace('"seed": 0', '"seed": "0"').encode(), "expected a seed"),
        (UNSEALED.replace('"accuracy": 0.5', '"accuracy": "much"').encode(), "'accuracy' to be a number"),
        (UNSEALED.replace("1.5", "null").encode(), "expected seconds"),
        (UNSEALED.replace("1.5", "9" * 400).encode(), "too large"),
        (UNSEALED.replace('"seconds"', '"minutes"').encode(), "without 'seconds'"),
        (run().to_json().replace("0.5", "0.9").encode(), "its checksum does not match"),
        (b"{" + run().to_json()[1:].replace('"seconds"', '"seed": 1, "seconds"').encode(), "stands twice"),
    ],
)
def test_damaged_lines_are_told_and_the_others_read(results, line, reason):
    results.append([run(0)])
    with open(results.path, "ab") as file:
        file.write(line + b"\n\n")
    results.append([run(1)])
    read = results.read()
    assert read.runs == [run(0), run(1)]
    ((number, told),) = read.damaged
    assert number == 2
    assert reason in told


def test_fields_of_a_later_version_are_ignored(results):
    document = json.loads(run().to_json()) | {"host": "x", "checksum": ""}
    results.path.write_text(json_bytes(document).decode() + "\r\n")
    assert results.read() == Read([run()], [])


def test_lines_of_earlier_versions_have_no_checksum(results):
    results.path.write_text(UNSEALED + "\n")
    assert results.read() == Read([run()], [])


def test_a_write_that_fails_half_way_adds_nothing(results):
    results.append([run(0)])
    content = results.path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(content) + 100, limits[1]))
    try:
        with pytest.raises(ChoqolateError, match=r"results\.jsonl cannot be written: File too large"):
            results.append([run(1), run(2)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert results.path.read_bytes() == content


def test_trouble_is_one_line():
    assert Read([], []).trouble("results.jsonl") == ""
    assert Read([], [(2, "not JSON: x")]).trouble("a/r.jsonl") == "r.jsonl: line 2 skipped (not JSON: x)"
    damaged = [(7, "not JSON: x"), (8, "without 'seed'"), (9, "y")]
    assert Read([], damaged).trouble(Path("r.jsonl")) == "r.jsonl: line 7 skipped (not JSON: x); 2 more"


def test_a_folder_in_the_place_of_the_file(tmp_path):
    with pytest.raises(ChoqolateError, match="is a folder"):
        Results(tmp_path).append([run()])
    with pytest.raises(ChoqolateError, match="cannot read"):
        Results(tmp_path).read()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk(results):
    results.path.symlink_to("/dev/full")
    with pytest.raises(ChoqolateError, match="No space left"):
        results.append([run()])


# Runs the module's file, because importing all experiments would take seconds; starts when it is told to.
WRITER = """
import runpy, sys
module, path, first = runpy.run_path(sys.argv[1], run_name="results"), sys.argv[2], int(sys.argv[3])
results = module["Results"](path)
print("ready", flush=True)
sys.stdin.readline()
for seed in range(first, first + 40, 2):
    pair = (seed, "x" * 50_000), (seed + 1, "")
    results.append([module["Run"]({"note": note}, seed, {}, 1.0) for seed, note in pair])
"""


def test_two_processes_append_at_once(results):
    """Lines longer than any buffer; a cut line at the start is ended by one of the two and swallows nothing."""
    results.path.write_bytes(b'{"config"')
    command = [sys.executable, "-c", WRITER, sys.modules[Results.__module__].__file__, str(results.path)]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with subprocess.Popen([*command, "0"], **pipes) as one, subprocess.Popen([*command, "1000"], **pipes) as other:
        assert [one.stdout.readline(), other.stdout.readline()] == ["ready\n", "ready\n"]
        for process in (one, other):
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [one.wait(60), other.wait(60)] == [0, 0]
    read = results.read()
    assert sorted(run.seed for run in read.runs) == [*range(40), *range(1000, 1040)]
    assert [number for number, _ in read.damaged] == [1]
    assert results.path.read_bytes().count(b"\n") == 81


@pytest.mark.skipif(os.name != "posix", reason="locks are POSIX")
def test_who_writes_waits_for_who_reads_and_for_who_writes(results):
    import fcntl

    results.append([run(0)])
    for kind in (fcntl.LOCK_SH, fcntl.LOCK_EX):
        before = results.path.read_bytes()
        writer = threading.Thread(target=results.append, args=([run(1)],), daemon=True)
        with open(results.path, "rb") as file:
            fcntl.flock(file, kind)
            writer.start()
            writer.join(0.1)
            assert writer.is_alive()
            assert results.path.read_bytes() == before
        writer.join(10)
        assert len(results.path.read_bytes()) > len(before)
    assert results.read().runs == [run(0), run(1)]


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX")
def test_results_that_may_only_be_read_can_be_read(results):
    results.append([run()])
    results.path.chmod(stat.S_IRUSR)
    assert results.read().runs == [run()]
