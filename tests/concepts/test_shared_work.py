from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest

from choqolate.concepts.embedding import Embeddings
from tests.concepts.image_files import write_album
from tests.concepts.test_kill import N_IMAGES, comes_true, rows_in_shards, run, said_by, shard_names, start
from tests.trust.ledger import note


@pytest.mark.trust
def test_two_commands_at_once_share_the_work_and_one_that_is_killed_is_replaced(tmp_path, clip_folder):
    album = tmp_path / "album"
    write_album(album, N_IMAGES)
    assert run(album, tmp_path / "alone", clip_folder) == 0
    alone = Embeddings.load(tmp_path / "alone")

    both = [start(album, tmp_path / "shared", clip_folder) for _ in range(2)]
    for process in both:
        process.join(120)
    assert [process.exitcode for process in both] == [0, 0]
    said = [Path(said_by(tmp_path / "shared", process.pid)).read_text() for process in both]
    encoded = [int(re.search(r"(\d+) encoded now", text)[1]) for text in said]
    assert sum(encoded) == N_IMAGES, "encoded twice"

    images = tmp_path / "killed" / "images"
    first, second = (start(album, tmp_path / "killed", clip_folder) for _ in range(2))
    assert comes_true(lambda: len(shard_names(images)) >= 3, while_running=first)
    os.kill(first.pid, signal.SIGKILL)
    second.join(120)
    assert second.exitcode == 0

    for name in ("shared", "killed"):
        found = Embeddings.load(tmp_path / name)
        assert found.digests == alone.digests
        np.testing.assert_array_equal(found.vectors(), alone.vectors())
        assert sorted(rows_in_shards(tmp_path / name / "images")) == sorted(alone.digests)
        assert not list((tmp_path / name).glob("*.claims"))
    note("kills", "embed", 1)
