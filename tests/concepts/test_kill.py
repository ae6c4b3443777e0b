from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import time
from multiprocessing.process import BaseProcess

import numpy as np
import pyarrow.parquet as pq
import pytest

from choqolate.concepts.embedding import Embeddings
from tests.concepts.image_files import write_album
from tests.trust.ledger import note, scaled

SHARD_ROWS = 32  # small shards, so that few images fill many of them
N_IMAGES = 18 * SHARD_ROWS + 25
HEAVY = ["torch", "sklearn", "transformers.models.clip.modeling_clip", "choqolate.cli", "choqolate.concepts.embedding"]


def embed(*arguments: str) -> None:
    """Run the command as the first of a group of processes."""
    import torch

    import choqolate.concepts.embedding as embedding
    from choqolate.cli import main

    os.setsid()
    os.dup2(os.open(said_by(arguments[2], os.getpid()), os.O_WRONLY | os.O_CREAT), sys.__stdout__.fileno())
    torch.set_num_threads(1)
    embedding.SHARD_ROWS = SHARD_ROWS
    sys.argv = ["choqolate", "embed", *arguments]
    main()


def said_by(output: object, process: int | None) -> str:
    """The file that a command writes to instead of a terminal."""
    return f"{output}.{process}.txt"


def start(album, output, clip_folder) -> BaseProcess:
    """Start a process that has loaded the heavy packages: it is forked from one that did nothing else."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(HEAVY)
    arguments = [str(album), "-o", str(output), "--backbone", str(clip_folder), "--batch-size", "24", "--workers", "1"]
    process = processes.Process(target=embed, args=arguments)
    process.start()
    return process


def run(album, output, clip_folder) -> int | None:
    process = start(album, output, clip_folder)
    process.join(120)
    return process.exitcode


def comes_true(condition, *, while_running: BaseProcess | None = None, seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        ended = while_running is not None and not while_running.is_alive()
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


@pytest.mark.trust
def test_killed_at_random_moments_and_run_again_the_result_is_that_of_one_run(tmp_path, clip_folder):
    album, chance = tmp_path / "album", random.Random(0)
    write_album(album, N_IMAGES)
    assert run(album, tmp_path / "whole", clip_folder) == 0
    images = tmp_path / "killed" / "images"
    process = start(album, tmp_path / "killed", clip_folder)
    assert comes_true((tmp_path / "killed").exists, while_running=process)  # it has only just begun
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    done = [len(rows_in_shards(images))]
    for _ in range(scaled(3)):
        if done[-1] == N_IMAGES:  # the machine was so busy that a kill came late
            break
        process = start(album, tmp_path / "killed", clip_folder)
        assert comes_true(lambda: len(shard_names(images)) * SHARD_ROWS > done[-1], while_running=process)
        time.sleep(chance.uniform(0, 0.06))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert comes_true(lambda group=process.pid: nobody_left(group)), "its workers live on"
        rows = rows_in_shards(images)
        assert len(set(rows)) == len(rows), "a row was written twice"
        assert len(rows) > done[-1], "what was finished is lost"
        done.append(len(rows))
    assert 0 < done[1] < N_IMAGES
    assert run(album, tmp_path / "killed", clip_folder) == 0
    whole, killed = (Embeddings.load(tmp_path / name) for name in ("whole", "killed"))
    assert killed.digests == whole.digests
    assert killed.manifest.paths.tolist() == whole.manifest.paths.tolist()
    np.testing.assert_array_equal(killed.vectors(), whole.vectors())
    assert sorted(rows_in_shards(images)) == sorted(whole.digests)
    assert shard_names(images) == shard_names(tmp_path / "whole" / "images")
    note("kills", "embed", len(done))
