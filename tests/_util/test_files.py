from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from choqolate._util.files import check_new_folder, replacing, replacing_folder, write_bytes, write_new_folder
from choqolate._util.folder_lock import locked
from choqolate._util.leftovers import is_leftover, remove_leftovers, temporary_name
from choqolate.errors import ChoqolateError


def of_dead_process(target: Path) -> Path:
    """A temporary name that a process took which has ended."""
    with subprocess.Popen(["true"]) as process:
        pass
    name = temporary_name(target).name.replace(f"-{os.getpid()}-", f"-{process.pid}-")
    return target.with_name(name)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_what_a_dead_process_left_goes_with_the_next_write(tmp_path):
    target = tmp_path / "scores.parquet"
    of_dead_process(target).write_bytes(b"half")
    of_dead_process(tmp_path / "scores.csv").write_bytes(b"of another file")
    mine = temporary_name(target)
    mine.write_bytes(b"of a process that is at work")
    write_bytes(target, b"whole")
    assert target.read_bytes() == b"whole"
    assert len(names(tmp_path)) == 3
    assert mine.exists()


def test_what_other_machines_left_goes_when_it_is_old(tmp_path):
    for name in (".a.0badcafe-1-aa.tmp", ".b.1-bb.tmp"):  # the second as earlier versions named it
        (tmp_path / name).write_bytes(b"half")
        assert is_leftover(tmp_path / name)
    remove_leftovers(tmp_path)
    assert len(names(tmp_path)) == 2
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    remove_leftovers(tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", [".bashrc", "notes.tmp", ".notes.tmp", ".a.b-1-aa.tmp", ".x.1.tmp"])
def test_files_of_others_are_no_leftovers(tmp_path, name):
    (tmp_path / name).write_text("mine")
    os.utime(tmp_path / name, (0, 0))
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [name]
    with pytest.raises(ChoqolateError, match="holds other things"):
        check_new_folder(tmp_path, "the model")


def test_a_folder_of_leftovers_is_an_empty_one(tmp_path):
    of_dead_process(tmp_path / "config.json").write_text("{")
    check_new_folder(tmp_path, "the model")


def fill(folder: Path, text: str) -> None:
    (folder / "words.txt").write_text(text)


def test_a_folder_is_replaced_as_a_whole(tmp_path):
    target = tmp_path / "birds"
    for text in ("old", "new"):
        with replacing_folder(target) as folder:
            fill(folder, text)
    assert (target / "words.txt").read_text() == "new"
    assert names(tmp_path) == ["birds"]


def test_a_folder_that_lost_its_name_in_a_kill_gets_it_back(tmp_path):
    target = tmp_path / "birds"
    with replacing_folder(target) as folder:
        fill(folder, "old")
    rename, renamed = os.rename, []

    def stop_at_the_second(source, destination):
        renamed.append(destination)
        if len(renamed) == 2:
            raise KeyboardInterrupt
        rename(source, destination)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "rename", stop_at_the_second)
        with pytest.raises(KeyboardInterrupt), replacing_folder(target) as folder:
            fill(folder, "new")
    assert not target.exists()
    with pytest.raises(RuntimeError), replacing_folder(target) as folder:
        raise RuntimeError
    assert (target / "words.txt").read_text() == "old"
    assert names(tmp_path) == ["birds"]


def test_a_full_disk_is_a_sentence_with_what_was_needed_and_what_is_free(tmp_path):
    target = tmp_path / "scores.csv"
    target.write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
    try:
        with pytest.raises(
            ChoqolateError, match=r"scores\.csv cannot be written: File too large after 5\.0 kB, and .* free\. Make"
        ):
            write_bytes(target, b"x" * 9000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert target.read_text() == "old"
    assert names(tmp_path) == ["scores.csv"]


def test_errors_of_what_is_read_meanwhile_stay_as_they_are(tmp_path):
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "a") as temporary:
        temporary.write_bytes((tmp_path / "missing").read_bytes())

    def fill_busy(_: Path) -> None:
        raise OSError(errno.EBUSY, "busy")

    with pytest.raises(OSError, match="busy"):
        write_new_folder(tmp_path / "model", fill_busy)
    assert names(tmp_path) == []


def test_a_lock_is_waited_for_and_ends_with_its_process(tmp_path):
    code = (
        "import time; from pathlib import Path; from choqolate._util.folder_lock import locked\n"
        f"with locked(Path({str(tmp_path)!r})): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(take, tmp_path)
            time.sleep(0.2)
            assert not waiting.done()
            process.kill()
            assert waiting.result(timeout=30)
    assert names(tmp_path) == []


def take(folder: Path) -> bool:
    with locked(folder) as alone:
        return alone
