from __future__ import annotations

import numpy as np
import pytest

from choqolate._util import memory
from choqolate.errors import ChoqolateError

GIB = 1 << 30


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Control groups of our own; returns a function that says which ones this process is in."""
    monkeypatch.setattr(memory, "_CONTROL_GROUPS", tmp_path)
    monkeypatch.setattr(memory, "_OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(memory, "_system_memory", lambda: 100 * GIB)
    return lambda *lines: (tmp_path / "own").write_text("\n".join(lines) + "\n")


def write(folder, limit, used, droppable, version=2):
    folder.mkdir(parents=True, exist_ok=True)
    names = ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    for name, value in zip(names, (limit, used), strict=True):
        (folder / name).write_text(f"{value}\n")
    prefix = "" if version == 2 else "total_"
    (folder / "memory.stat").write_text(f"anon 5\n{prefix}inactive_file {droppable}\n")


def test_the_limit_of_a_job_holds_and_those_above_it(tmp_path, groups):
    groups("0::/slurm/job_7/step_0")
    assert memory.available_memory() == 100 * GIB
    write(tmp_path / "slurm" / "job_7" / "step_0", "max", 1 * GIB, 0)
    assert memory.available_memory() == 100 * GIB
    write(tmp_path / "slurm" / "job_7", 8 * GIB, 3 * GIB, 1 * GIB)
    assert memory.available_memory() == 6 * GIB
    write(tmp_path / "slurm" / "job_7" / "step_0", 4 * GIB, 1 * GIB, 0)
    assert memory.available_memory() == 3 * GIB
    write(tmp_path / "slurm" / "job_8", 1 * GIB, 0, 0)  # somebody else's
    assert memory.available_memory() == 3 * GIB


def test_limits_of_version_1(tmp_path, groups):
    groups("5:cpu,cpuacct:/elsewhere", "4:memory:/slurm/job_7", "0::/")
    write(tmp_path / "memory", 9223372036854771712, 60 * GIB, 0, version=1)  # no limit
    write(tmp_path / "memory" / "slurm" / "job_7", 8 * GIB, 3 * GIB, 1 * GIB, version=1)
    assert memory.available_memory() == 6 * GIB


def test_a_container_that_sees_its_own_group_as_the_topmost(tmp_path, groups):
    groups("0::/docker/0123456789ab")
    write(tmp_path, 2 * GIB, 3 * GIB, 0)
    assert memory.available_memory() == 0
    (tmp_path / "own").unlink()
    assert memory.available_memory() == 0


def test_what_does_not_fit_is_refused_with_what_is_needed_and_free(groups, tmp_path):
    groups("0::/job")
    write(tmp_path / "job", 3 * GIB, 1 * GIB, 0)
    memory.check_memory("x.parquet", 2 * GIB)
    with pytest.raises(ChoqolateError, match=r"^x.parquet needs 4.3 GB of memory, but 2.1 GB are free. Buy more\.$"):
        memory.check_memory("x.parquet", 4 * GIB, "Buy more.")
    with (
        pytest.raises(ChoqolateError, match=r"not enough memory for big.npz, 2.1 GB are free \(Unable to allocate"),
        memory.naming_memory("big.npz"),
    ):
        np.empty(1 << 62, dtype=np.uint8)
