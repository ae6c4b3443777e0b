"""Files that do not fit into memory are refused before they are read, or end with a sentence that names them."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import choqolate as cq
from choqolate._util import memory
from choqolate.data.score_file import ScoreFile
from choqolate.datasets.places import PlacePredictions
from choqolate.errors import ChoqolateError

pytestmark = pytest.mark.hostile("files that need too much memory")

MB = 1 << 20


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr(memory, "_system_memory", lambda: 1 * MB)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "scores.parquet"
    scores = np.random.default_rng(0).random((20_000, 20))
    cq.ConceptScores(scores, [f"c{j}" for j in range(20)], labels=np.arange(20_000) % 2).save(path)
    return path


def test_a_table_that_does_not_fit_says_what_it_needs_and_how_to_read_it(little_memory, table):
    with pytest.raises(ChoqolateError, match=r"scores.parquet needs 3.2 MB of memory, but 1.0 MB are free.*--stream"):
        cq.ConceptScores.load(table)
    assert sum(map(len, ScoreFile(table).blocks())) == 20_000
    assert len(ScoreFile(table).sample(100)) == 100


def test_scores_of_places_that_grow_when_they_are_unpacked_are_refused(little_memory, tmp_path):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, files=np.array(["a.jpg"]), scores=np.zeros((1000, 365)))
    assert path.stat().st_size < 10_000
    with pytest.raises(ChoqolateError, match=r"bomb.npz needs 2.9 MB of memory, but 1.0 MB are free"):
        PlacePredictions.from_score_file(path)


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904,), }",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
        b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        b"{'descr': '<c16', 'fortran_order': False, 'shape': (0,), }",
        b"{'descr': '<U9', 'fortran_order': False, 'shape': (0, 365), }",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (), }",
        b"__import__('os').system('x')",
        b"{" * 5000,
    ],
)
def test_arrays_that_say_what_they_are_not_are_refused(tmp_path, header):
    path = tmp_path / "crafted.npz"
    files = io.BytesIO()
    np.save(files, np.array(["a.jpg"]))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("files.npy", files.getvalue())
        archive.writestr("scores.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(ChoqolateError, match=r"crafted\.npz"):
        PlacePredictions.from_score_file(path)


SCRIPT = """
import sys
from choqolate.cli import main
import choqolate.data.scores, choqolate.estimators.model_folder  # loaded before memory is short
import resource
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)
sys.argv = ["choqolate", "compare", sys.argv[1], "-o", sys.argv[2]]
main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
def test_a_command_that_runs_out_of_memory_ends_with_one_sentence(tmp_path):
    path = tmp_path / "wide.csv"
    with path.open("w") as file:
        file.write("path,label," + ",".join(f"c{j}" for j in range(100)) + "\n")
        row = ",0.25" * 100
        file.writelines(f"{k}.png,{k % 2}{row}\n" for k in range(100_000))
    command = [sys.executable, "-c", SCRIPT, str(path), str(tmp_path / "results")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2, done.stderr
    assert "not enough memory" in done.stderr
    assert len(done.stderr.splitlines()) == 1
