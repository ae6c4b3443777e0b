from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq

from choqolate.concepts.embedding import SHARD_ROWS, Embeddings
from tests.concepts.image_files import write_album

N_IMAGES = 9 * SHARD_ROWS + 100


def start(album, output, clip_folder) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", "from choqolate.cli import main; main()", "embed", str(album), "-o", str(output)]
    options = ["--backbone", str(clip_folder), "--batch-size", "24", "--workers", "1"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*command, *options], env=environment, start_new_session=True, stdout=subprocess.DEVNULL)


def comes_true(condition, *, while_running: subprocess.Popen[bytes] | None = None, seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        ended = while_running is not None and while_running.poll() is not None
        if ended or time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def nobody_left(process_group: int) -> bool:
    try:
        os.killpg(process_group, 0)
    except ProcessLookupError:
        return True
    return False


def shard_names(folder) -> list[str]:
    return sorted(path.name for path in folder.glob("*.parquet"))


def rows_in_shards(folder) -> list[bytes]:
    return [digest for path in folder.glob("*.parquet") for digest in pq.read_table(path)["digest"].to_pylist()]


def test_killed_at_random_moments_and_run_again_the_result_is_that_of_one_run(tmp_path, clip_folder):
    album, chance = tmp_path / "album", random.Random(0)
    write_album(album, N_IMAGES)
    assert start(album, tmp_path / "whole", clip_folder).wait(120) == 0
    images = tmp_path / "killed" / "images"
    process = start(album, tmp_path / "killed", clip_folder)
    assert comes_true((tmp_path / "killed").exists, while_running=process)  # it has only just begun
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = [len(rows_in_shards(images))]
    for _ in range(3):
        if done[-1] == N_IMAGES:  # the machine was so busy that a kill came late
            break
        process = start(album, tmp_path / "killed", clip_folder)
        assert comes_true(lambda: len(shard_names(images)) * SHARD_ROWS > done[-1], while_running=process)
        time.sleep(chance.uniform(0, 0.2))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert comes_true(lambda group=process.pid: nobody_left(group)), "its workers live on"
        rows = rows_in_shards(images)
        assert len(set(rows)) == len(rows), "a row was written twice"
        assert len(rows) > done[-1], "what was finished is lost"
        done.append(len(rows))
    assert 0 < done[1] < N_IMAGES
    assert start(album, tmp_path / "killed", clip_folder).wait(120) == 0
    whole, killed = (Embeddings.load(tmp_path / name) for name in ("whole", "killed"))
    assert killed.digests == whole.digests
    assert killed.manifest.paths.tolist() == whole.manifest.paths.tolist()
    np.testing.assert_array_equal(killed.vectors(), whole.vectors())
    assert sorted(rows_in_shards(images)) == sorted(whole.digests)
    assert shard_names(images) == shard_names(tmp_path / "whole" / "images")
