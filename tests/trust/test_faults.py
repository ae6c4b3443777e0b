"""A disk that fails, and a process that ends, at any operation: then the old state is there, or the new one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trust.ledger import note, scaled

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
CHANGES = {  # what is tried in one process, and of the operations every so many in the tests
    "save; first save; save of the studio; edits; results; score, CSV": 1,
    "score, Parquet; embed; first embed": 10,
}
NAMES = {"save of the studio": "save, studio", "first save": "save, first", "first embed": "embed, first"}


@pytest.mark.trust
@pytest.mark.skipif(COMPILER is None or sys.platform != "linux", reason="needs a C compiler and LD_PRELOAD")
@pytest.mark.parametrize("changes", CHANGES)
def test_a_fault_at_any_operation_leaves_the_old_state_or_the_new_one(tmp_path, changes):
    library = tmp_path / "faults.so"
    source = Path(__file__).with_name("faults.c")
    subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", source, "-o", library, "-ldl"], check=True)
    step = max(1, CHANGES[changes] // scaled(1))
    command = [sys.executable, "-m", "tests.trust.fault_driver", changes, tmp_path, str(step)]
    environment = os.environ | {"LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr
    for name, found in json.loads(done.stdout).items():
        note("faults", NAMES.get(name, name), found["tried"], silent=len(found["wrong"]))
        assert found["wrong"] == []
        assert found["tried"] >= 4
