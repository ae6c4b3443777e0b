from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from choqolate._util.ray_cluster import ray_session
from choqolate.concepts import embedding
from choqolate.concepts.backbones import load_backbone
from choqolate.concepts.embedding import Embeddings, embed
from choqolate.concepts.mini_backbone import MiniBackbone
from choqolate.errors import ChoqolateError
from tests.concepts.image_files import write_album
from tests.ray_nodes import node_killed_when, two_nodes
from tests.trust.ledger import note

BLOCK = 16
N_IMAGES = 20 * BLOCK + 5


@pytest.fixture
def album(tmp_path, monkeypatch):
    """Images with copies of some of them in later blocks, and two equal files that are no images."""
    monkeypatch.setattr(embedding, "SHARD_ROWS", BLOCK)
    folder = tmp_path / "album"
    write_album(folder, N_IMAGES)
    for index in range(9):
        shutil.copy(folder / f"{index:04}.png", folder / f"{index + 100:04}copy.png")
    for name in ("0003bad.png", "0200bad.png"):
        (folder / name).write_bytes(b"not an image")
    return folder


@pytest.fixture(scope="module")
def backbone():
    return load_backbone("mini", device="cpu")


def shards(folder) -> dict[str, list[bytes]]:
    return {path.name: pq.read_table(path)["digest"].to_pylist() for path in (folder / "images").glob("*.parquet")}


def check_equal(found: Embeddings, local: Embeddings) -> None:
    """The same rows, the same bits, the same files; nothing lost or doubled."""
    assert found.digests == local.digests
    assert found.failures == local.failures
    assert found.manifest.paths.tolist() == local.manifest.paths.tolist()
    np.testing.assert_array_equal(found.vectors(), local.vectors())
    assert shards(found.folder.path) == shards(local.folder.path)
    assert sum(map(len, shards(found.folder.path).values())) == N_IMAGES
    again = Embeddings.load(found.folder.path)
    assert again.digests == local.digests


def test_one_process_per_device_gives_what_one_process_gives(album, tmp_path, backbone):
    local = embed(album, backbone, tmp_path / "local", workers=0, batch_size=6)
    split = embed(album, backbone, tmp_path / "split", workers=0, batch_size=6, devices=["cpu", "cpu"])
    check_equal(split, local)
    assert split.n_encoded == N_IMAGES


class Broken(MiniBackbone):
    """A backbone that cannot be loaded in another process, and says so in an error that cannot be sent."""

    def encode_images(self, images):
        raise _Unsendable("no room for the weights", 7)


class _Unsendable(Exception):
    def __init__(self, reason: str, code: int) -> None:
        super().__init__(f"{reason} ({code})")  # called with this text alone when it is unpickled


def test_one_device_has_a_process_too_and_its_errors_arrive(album, tmp_path):
    with pytest.raises(ChoqolateError, match="no room for the weights"):
        embed(album, Broken(device="cpu"), tmp_path / "vectors", workers=0, devices=["cpu"])


class Together(MiniBackbone):
    """A backbone that waits twice: for two processes to have loaded it, and for one of them to be killed.

    Neither does all the work alone, and what is left to do when one is killed is not done before that.
    """

    def __init__(self, signs: Path, target: Path) -> None:
        super().__init__(device="cpu")
        self.ready, self.target, self.killed = signs / "ready", target, signs / "killed"
        self.ready.mkdir(parents=True)

    def encode_images(self, images):
        vectors = super().encode_images(images)
        (self.ready / str(os.getpid())).touch()
        return vectors

    def encode_pixels(self, pixels):
        if len(pixels) > 1:  # not the image that a loaded network is tried on
            wait_until(lambda: len(list(self.ready.iterdir())) == 2)
            wait_until(lambda: not enough_written(self.target) or self.killed.exists())
        return super().encode_pixels(pixels)


class Dying(MiniBackbone):
    """A backbone whose first process is killed while it encodes its second batch."""

    def __init__(self, died: Path) -> None:
        super().__init__(device="cpu")
        self.died, self.begun = died, False

    def encode_pixels(self, pixels):
        if self.begun and not self.died.exists():
            self.died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        self.begun = len(pixels) > 1  # not the image that a loaded network is tried on
        return super().encode_pixels(pixels)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)


def enough_written(folder: Path) -> bool:
    return len(list((folder / "images").glob("*.parquet"))) >= 3


@pytest.mark.long
@pytest.mark.trust
@pytest.mark.usefixtures("one_thread")
def test_a_cluster_that_is_full_and_then_loses_a_node_gives_what_one_process_gives(album, tmp_path, backbone):
    local = embed(album, backbone, tmp_path / "local", workers=0, batch_size=6)
    target, told = tmp_path / "cluster", []
    with two_nodes() as cluster:
        with ray_session(cluster.address) as ray:
            others = [ray.remote(num_cpus=1)(Other).remote() for _ in range(2)]
            ray.get([other.start.remote() for other in others])

            def tell(line: str) -> None:
                told.append(line)
                if "waiting for room" in line:
                    for other in others:
                        ray.kill(other)

            encoders = Together(tmp_path / "signs", target)
            with node_killed_when(cluster, lambda: enough_written(target), encoders.killed):
                spread = embed(album, encoders, target, batch_size=6, engine="ray", tell=tell)
            assert encoders.killed.exists()
            assert ray.is_initialized()  # a Ray that the program joined itself stays
        assert told[0] == "waiting for room in the Ray cluster: 1 CPU needed, 0 of 2 free"
        assert told[-1] == "an encoder of the Ray cluster is lost: what it was doing is done again"
        check_equal(spread, local)
        # what one engine began the other continues: some shards are removed as if they had never been written
        for path in sorted((target / "images").glob("*.parquet"))[::2]:
            path.unlink()
        resumed = embed(album, backbone, target, workers=0, batch_size=6)
        check_equal(resumed, local)
        for path in sorted((target / "images").glob("*.parquet"))[::2]:
            path.unlink()
        dying = Dying(tmp_path / "died")
        options = {"engine": "ray", "address": cluster.address, "workers": 1, "tell": told.append}
        resumed = embed(album, dying, target, batch_size=6, **options)
        assert dying.died.exists()
        assert told[-1] == "an encoder of the Ray cluster is lost: what it was doing is done again"
        check_equal(resumed, local)
        assert 0 < resumed.n_encoded < N_IMAGES
    note("kills", "embed --engine ray", 2)


class Other:
    """Somebody else's work in the cluster."""

    def start(self) -> None:
        pass
