from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow.parquet as pq
import pytest

import choqolate as cq
from choqolate.concepts.backbones import load_backbone
from choqolate.concepts.embedding import SHARD_ROWS, Embeddings, embed, write_quarantine
from choqolate.concepts.embedding_folder import EmbeddingFolder, cache_folder
from choqolate.concepts.preprocessing import FileState, decode
from choqolate.concepts.vector_store import VectorStore
from choqolate.data.manifest import Manifest
from choqolate.datasets import read_folder
from tests.concepts.image_files import age, bad_files, draw, encoded, odd_files, write_album
from tests.tiny import write_clip

LOCKING = """
import fcntl, sys
file = open(sys.argv[1], "rb+")
fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)
print("!", end="", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def backbone(clip_folder):
    return load_backbone(clip_folder)


class Counting:
    """A backbone that counts what it is asked to encode."""

    def __init__(self, backbone):
        self._backbone, self.images, self.texts = backbone, 0, 0

    def __getattr__(self, name):
        return getattr(self._backbone, name)

    def encode_pixels(self, pixels):
        self.images += len(pixels)
        return self._backbone.encode_pixels(pixels)

    def encode_texts(self, texts):
        self.texts += len(texts)
        return self._backbone.encode_texts(texts)


@pytest.fixture
def counting(backbone):
    return Counting(backbone)


def by_hand(backbone, paths) -> np.ndarray:
    return np.concatenate([backbone.encode_images([decode(path.read_bytes())]) for path in paths])


def test_every_image_gets_its_vector(tmp_path, backbone):
    names = write_album(tmp_path / "album", 70)
    found = embed(Manifest(tmp_path / "album", names), backbone, tmp_path / "vectors", workers=0, batch_size=16)
    assert (len(found), found.n_encoded, found.failures) == (70, 70, ())
    expected = by_hand(backbone, [tmp_path / "album" / name for name in names])
    np.testing.assert_allclose(found.vectors(), expected, atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(found.vectors(), axis=1), 1, atol=1e-6)


def test_200_bad_and_odd_files_lose_nothing_that_is_readable(tmp_path, backbone):
    album = tmp_path / "album"
    album.mkdir()
    for name, content in (odd_files() | bad_files()).items():
        (album / name).write_bytes(content)
    raw = os.fsencode(album) + b"/caf\xe9.png"
    with open(raw, "wb") as file:
        file.write(encoded(draw(77), "PNG"))
    os.mkfifo(album / "pipe.jpg")
    manifest = read_folder(album)
    found = embed(manifest, backbone, tmp_path / "vectors", workers=2, batch_size=16)
    assert {failure.path for failure in found.failures} == set(bad_files())
    assert set(found.manifest.paths) == {*odd_files(), os.fsdecode(b"caf\xe9.png")}
    assert all(failure.reason for failure in found.failures)
    one_by_one = by_hand(backbone, [album / path for path in found.manifest.paths])
    np.testing.assert_allclose(found.vectors(), one_by_one, atol=2e-6)
    again = Embeddings.load(tmp_path / "vectors")
    assert again.digests == found.digests
    assert "caf\\xe9.png" in again.manifest.paths


@pytest.fixture
def wait_until_settled(monkeypatch):
    """Wait until the times of files can be trusted, on a clock whose ticks are short."""
    monkeypatch.setattr("choqolate.concepts.preprocessing._SETTLED_NS", 200_000_000)
    return lambda: time.sleep(0.25)


def test_the_second_run_reads_no_image(tmp_path, counting, wait_until_settled):
    album, names = tmp_path / "album", write_album(tmp_path / "album", 20)
    manifest = Manifest(album, names)
    first = embed(manifest, counting, tmp_path / "vectors", workers=0)
    embed(manifest, counting, tmp_path / "vectors", workers=0)  # the files were too new for their times to be trusted
    wait_until_settled()
    embed(manifest, counting, tmp_path / "vectors", workers=0)
    for name in names:
        os.chmod(album / name, 0)  # changes a time, so that the files must be read again
        os.chmod(album / name, 0o644)
    assert counting.images == 20
    wait_until_settled()
    embed(manifest, counting, tmp_path / "vectors", workers=0)
    opened = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("choqolate.concepts.preprocessing.read_content", lambda path: opened.append(path))
        last = embed(manifest, counting, tmp_path / "vectors", workers=0)
    assert opened == []
    assert counting.images == 20
    np.testing.assert_array_equal(last.vectors(), first.vectors())


def test_a_second_look_reads_only_what_is_new(tmp_path, backbone, wait_until_settled):
    manifest = Manifest(tmp_path / "album", write_album(tmp_path / "album", 3))
    wait_until_settled()
    folder = embed(manifest, backbone, tmp_path / "vectors", workers=0).folder
    passed: set[str] = set()
    known, seen = folder.contents(passed)
    assert (len(known), len(seen)) == (3, 3)
    assert folder.contents(passed) == (set(), {})
    folder.note_files({("another.png", FileState(1, 2, 3, 4)): b"a" * 32})
    known, seen = folder.contents(passed)
    assert (len(known), len(seen)) == (0, 4)
    assert folder.contents(passed) == (set(), {})


def test_renamed_and_copied_images_are_recognised(tmp_path, counting):
    album = tmp_path / "album"
    names = write_album(album, 6)
    before = embed(Manifest(album, names), counting, tmp_path / "vectors", workers=0)
    os.rename(album / names[0], album / "renamed.png")
    shutil.copy(album / names[1], album / "copy.png")
    moved = album.rename(tmp_path / "elsewhere")
    after = embed(Manifest(moved, ["renamed.png", "copy.png", *names[1:]]), counting, tmp_path / "vectors", workers=0)
    assert counting.images == 6
    assert after.n_encoded == 0
    np.testing.assert_array_equal(after.vectors(), before.vectors()[[0, 1, 1, 2, 3, 4, 5]])


def test_a_changed_image_is_not_trusted(tmp_path, counting):
    album = tmp_path / "album"
    names = write_album(album, 3)
    manifest = Manifest(album, names)
    embed(manifest, counting, tmp_path / "vectors", workers=0)
    old = (album / names[1]).stat()
    new = encoded(draw(99), "BMP")
    (album / names[1]).write_bytes(new.ljust(old.st_size, b"\0")[: max(old.st_size, len(new))])
    os.utime(album / names[1], ns=(old.st_atime_ns, old.st_mtime_ns))  # as a careless copy leaves it
    found = embed(manifest, counting, tmp_path / "vectors", workers=0)
    assert counting.images == 4
    np.testing.assert_allclose(found.vectors(), by_hand(counting, [album / name for name in names]), atol=2e-6)


def test_equal_images_share_a_vector_but_keep_their_rows(tmp_path, counting):
    album = tmp_path / "album"
    album.mkdir()
    names = [f"{index}.png" for index in range(40)]
    for index, name in enumerate(names):
        (album / name).write_bytes(encoded(draw(index % 3), "PNG"))
    found = embed(Manifest(album, names), counting, tmp_path / "vectors", workers=0, batch_size=8)
    assert (len(found), found.n_encoded, counting.images) == (40, 3, 3)
    np.testing.assert_array_equal(found.vectors()[3:6], found.vectors()[:3])


def test_a_stop_in_the_middle_keeps_what_is_done_and_ends_with_the_same_bits(tmp_path, backbone):
    names = write_album(tmp_path / "album", 2 * SHARD_ROWS + 90)
    manifest = Manifest(tmp_path / "album", names)
    whole = embed(manifest, backbone, tmp_path / "whole", workers=0, batch_size=50)

    class Failing(Counting):
        def encode_pixels(self, pixels):
            if self.images >= SHARD_ROWS + 60:
                raise KeyboardInterrupt
            return super().encode_pixels(pixels)

    failing = Failing(backbone)
    with pytest.raises(KeyboardInterrupt):
        embed(manifest, failing, tmp_path / "stopped", workers=2, batch_size=50)
    with pytest.raises(cq.ChoqolateError, match="unfinished"):
        Embeddings.load(tmp_path / "stopped")
    resumed = Counting(backbone)
    found = embed(manifest, resumed, tmp_path / "stopped", workers=0, batch_size=50)
    assert resumed.images == len(names) - SHARD_ROWS - 100  # two batches of the second shard were written
    np.testing.assert_array_equal(found.vectors(), whole.vectors())
    assert found.digests == whole.digests


def test_a_slow_encoder_writes_once_a_minute(tmp_path, backbone, monkeypatch):
    names = write_album(tmp_path / "album", 40)
    now = iter(range(0, 100_000, 35))
    monkeypatch.setattr("choqolate.concepts.blocks.time.monotonic", lambda: next(now))
    found = embed(Manifest(tmp_path / "album", names), backbone, tmp_path / "vectors", workers=0, batch_size=10)
    sizes = [pq.read_metadata(path).num_rows for path in (tmp_path / "vectors" / "images").iterdir()]
    assert sorted(sizes) == [20, 20]
    assert len(found.vectors()) == 40


def test_a_damaged_shard_is_set_aside_and_made_again(tmp_path, backbone):
    names = write_album(tmp_path / "album", SHARD_ROWS + 5)
    manifest = Manifest(tmp_path / "album", names)
    whole = embed(manifest, backbone, tmp_path / "vectors", workers=0)
    shard = max((tmp_path / "vectors" / "images").iterdir(), key=lambda path: path.stat().st_size)
    columns = pq.read_metadata(shard).row_group(0)
    vectors = columns.column(columns.num_columns - 1)
    content = bytearray(shard.read_bytes())
    content[vectors.data_page_offset + vectors.total_compressed_size // 2] ^= 0xFF
    shard.write_bytes(content)
    with pytest.warns(cq.ChoqolateWarning, match="damaged"), pytest.raises(cq.ChoqolateError, match="256 of 261"):
        Embeddings.load(tmp_path / "vectors").vectors()
    again = embed(manifest, backbone, tmp_path / "vectors", workers=0)
    assert again.n_encoded == SHARD_ROWS
    np.testing.assert_array_equal(again.vectors(), whole.vectors())


def test_stopping_at_the_first_bad_image(tmp_path, backbone):
    names = write_album(tmp_path, 4)
    (tmp_path / names[2]).write_bytes(b"no image")
    with pytest.raises(cq.ChoqolateError, match=rf"{names[2]} cannot be read: not an image"):
        embed(Manifest(tmp_path, names), backbone, tmp_path / "v", workers=0, on_error="fail")
    with pytest.raises(cq.ChoqolateError, match=r"gone\.png cannot be read: no such file"):
        embed(Manifest(tmp_path, ["gone.png"]), backbone, tmp_path / "v", workers=0, on_error="fail")
    with pytest.raises(cq.ChoqolateError, match="none of the 1 images can be read"):
        embed(Manifest(tmp_path, [names[2]]), backbone, tmp_path / "v", workers=0)


def test_a_folder_belongs_to_one_backbone(tmp_path, backbone):
    manifest = Manifest(tmp_path / "album", write_album(tmp_path / "album", 2))
    embed(manifest, backbone, tmp_path / "vectors", workers=0)
    other = load_backbone(write_clip(tmp_path / "other", seed=5))
    with pytest.raises(cq.ChoqolateError, match=r"holds vectors of .*clip.* not of .*other"):
        embed(manifest, other, tmp_path / "vectors", workers=0)
    with pytest.raises(cq.ChoqolateError, match="holds other things"):
        embed(manifest, backbone, tmp_path / "album", workers=0)
    assert cache_folder(other) != cache_folder(backbone)


def test_without_a_folder_the_cache_is_shared(tmp_path, counting, own_cache):
    names = write_album(tmp_path / "album", 5)
    embed(Manifest(tmp_path / "album", names), counting, workers=0)
    shutil.copytree(tmp_path / "album", tmp_path / "second")
    found = embed(Manifest(tmp_path / "second", names[::-1]), counting, workers=0)
    assert counting.images == 5
    assert found.folder.path.is_relative_to(own_cache)
    assert found.folder.path == cache_folder(counting)


def test_a_renamed_checkpoint_finds_its_vectors_in_the_cache(tmp_path, clip_folder):
    manifest = Manifest(tmp_path / "album", write_album(tmp_path / "album", 3))
    shutil.copytree(clip_folder, tmp_path / "first")
    assert embed(manifest, load_backbone(tmp_path / "first"), workers=0).n_encoded == 3
    (tmp_path / "first").rename(tmp_path / "second")
    found = embed(manifest, load_backbone(tmp_path / "second"), workers=0)
    assert found.n_encoded == 0
    assert cq.score(found, cq.Vocabulary.parse(["sea"])).provenance.backbone.name == str(tmp_path / "second")


def test_a_cache_of_an_earlier_version_is_used(tmp_path, backbone, own_cache):
    manifest = Manifest(tmp_path / "album", write_album(tmp_path / "album", 3))
    earlier = own_cache / "embeddings" / f"any-name-{backbone.identity}-{backbone.precision}"
    assert embed(manifest, backbone, earlier, workers=0).n_encoded == 3
    (own_cache / "embeddings" / f"a-file-{backbone.identity}-{backbone.precision}").touch()
    found = embed(manifest, backbone, workers=0)
    assert (found.n_encoded, found.folder.path) == (0, earlier)


def test_rows_keep_labels_split_and_groups(tmp_path, backbone):
    names = write_album(tmp_path / "album", 4)
    (tmp_path / "album" / names[1]).write_bytes(b"")
    manifest = Manifest(
        tmp_path / "album",
        names,
        labels=["a", "a", "b", None],
        split=["train", "test", "test", "val"],
        groups=["g", "h", "g", None],
        classes=("b", "a"),
        source="waterbirds",
    )
    embed(manifest, backbone, tmp_path / "vectors", workers=0)
    back = Embeddings.load(tmp_path / "vectors").manifest
    assert back.paths.tolist() == [names[0], names[2], names[3]]
    assert back.labels.tolist() == ["a", "b", None]
    assert back.split.tolist() == ["train", "test", "val"]
    assert back.groups.tolist() == ["g", "g", None]
    assert (back.classes, back.source) == (("b", "a"), "waterbirds")


def test_shards_are_parquet_files_with_the_paths_in_them(tmp_path, backbone):
    names = write_album(tmp_path / "album", 3)
    embed(Manifest(tmp_path / "album", names), backbone, tmp_path / "vectors", workers=0)
    (shard,) = (tmp_path / "vectors" / "images").glob("*.parquet")
    table = pq.read_table(shard)
    assert [os.path.basename(path) for path in table["path"].to_pylist()] == names
    assert np.stack(table["embedding"].to_pylist()).shape == (3, backbone.dim)
    assert sorted(path.name for path in (tmp_path / "vectors").iterdir()) == [
        "embeddings.json",
        "images",
        "rows.parquet",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "cannot be read"),
        ('{"format": "something"}', "not of choqolate"),
        ('{"format": "choqolate-embeddings", "format_version": 9}', "version 9"),
        ('{"format": "choqolate-embeddings", "format_version": 1, "backbone": {}}', "cannot be read"),
    ],
)
def test_a_folder_that_cannot_be_read_says_why(tmp_path, content, message):
    (tmp_path / "embeddings.json").write_text(content)
    with pytest.raises(cq.ChoqolateError, match=message):
        EmbeddingFolder.open(tmp_path)
    with pytest.raises(cq.ChoqolateError, match="embed images first"):
        Embeddings.load(tmp_path / "nothing")


def test_the_quarantine_list_goes_when_nothing_is_wrong(tmp_path, backbone):
    names = write_album(tmp_path / "album", 2)
    (tmp_path / "album" / names[0]).write_bytes(b"")
    found = embed(Manifest(tmp_path / "album", names), backbone, workers=0)
    write_quarantine(tmp_path / "list.csv", found.failures)
    assert (tmp_path / "list.csv").read_text().splitlines() == ["path,reason", f"{names[0]},the file is empty"]
    write_quarantine(tmp_path / "list.csv", ())
    assert not (tmp_path / "list.csv").exists()


def test_wrong_parameters(tmp_path, backbone):
    manifest = Manifest(tmp_path, write_album(tmp_path, 1))
    for wrong in ({"on_error": "cry"}, {"workers": -1}, {"batch_size": 0}, {"workers": 1.5}):
        with pytest.raises(cq.ChoqolateError, match=next(iter(wrong))):
            embed(manifest, backbone, **wrong)
    with pytest.raises(cq.ChoqolateError, match="no devices with engine='ray'"):
        embed(manifest, backbone, engine="ray", devices=["cuda:1"])
    with pytest.raises(cq.ChoqolateError, match="at least one image"):
        embed(Manifest(tmp_path, []), backbone)


def test_what_a_killed_process_left_half_written_is_removed(tmp_path, backbone):
    manifest = Manifest(tmp_path / "album", write_album(tmp_path / "album", 2))
    embed(manifest, backbone, tmp_path / "vectors", workers=0)
    images = tmp_path / "vectors" / "images"
    (images / ".old.parquet.1-aa.tmp").write_bytes(b"half")
    (images / ".new.parquet.1-aa.tmp").write_bytes(b"of another process at work")
    age(images)
    (images / ".new.parquet.1-aa.tmp").touch()
    abandoned, busy, fresh = (tmp_path / "vectors" / f".{name}.claims" for name in ("abandoned", "busy", "fresh"))
    for path in (abandoned, busy, fresh):
        path.write_bytes(b"1")
    for path in (abandoned, busy):
        os.utime(path, (0, 0))
    with subprocess.Popen(
        [sys.executable, "-c", LOCKING, str(busy)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.read(1) == b"!"
        embed(manifest, backbone, tmp_path / "vectors", workers=0)
        process.stdin.close()
    assert [path.name for path in images.glob(".*")] == [".new.parquet.1-aa.tmp"]
    assert [path.exists() for path in (abandoned, busy, fresh)] == [False, True, True]


def test_folders_that_change_places_are_noticed(tmp_path, counting, wait_until_settled):
    for index in range(20):  # equal sizes, written in the same tick of the clock
        for side in ("a", "b"):
            path = tmp_path / "album" / side / f"{index}.bmp"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encoded(draw(index + 100 * (side == "b"), (8, 8)), "BMP"))
    wait_until_settled()
    manifest = read_folder(tmp_path / "album")
    before = embed(manifest, counting, tmp_path / "vectors", workers=0)
    album = tmp_path / "album"
    (album / "a").rename(album / "c")
    (album / "b").rename(album / "a")
    (album / "c").rename(album / "b")
    after = embed(manifest, counting, tmp_path / "vectors", workers=0)
    assert after.digests == before.digests[20:] + before.digests[:20]
    assert counting.images == 40


def test_a_folder_can_be_begun_by_two_at_a_time_or_by_one_that_was_killed(tmp_path, backbone):
    begun = tmp_path / "begun"
    begun.mkdir()
    (begun / ".embeddings.json.1-aa.tmp").write_bytes(b"{")
    (begun / ".DS_Store").write_bytes(b"")
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: EmbeddingFolder.create(begun, backbone), range(40)))
    assert {folder.backbone.identity for folder in folders} == {backbone.identity}
    age(begun)
    EmbeddingFolder.create(begun, backbone)
    assert sorted(os.listdir(begun)) == [".DS_Store", "embeddings.json"]


def test_an_error_of_the_system_is_no_damage(tmp_path, backbone):
    embed(Manifest(tmp_path / "album", write_album(tmp_path / "album", 2)), backbone, tmp_path / "vectors", workers=0)

    images = EmbeddingFolder.open(tmp_path / "vectors").images
    shard = next(images.folder.glob("*.parquet"))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(shard) as file:
        resource.setrlimit(resource.RLIMIT_NOFILE, (file.fileno(), limits[1]))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                images.read_shard(shard, ["digest"])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert len(Embeddings.load(tmp_path / "vectors").vectors()) == 2


def test_a_shard_of_another_length_is_set_aside(tmp_path, backbone):
    found = embed(Manifest(tmp_path / "album", write_album(tmp_path / "album", 2)), backbone, tmp_path / "v", workers=0)
    VectorStore(tmp_path / "v" / "images", dim=3).add([b"x" * 32], np.ones((1, 3), np.float32))
    with pytest.warns(cq.ChoqolateWarning, match="set aside: expected a vector of 16 numbers"):
        list(found.folder.images.shards(["digest", "embedding"]))
    assert found.vectors().shape == (2, 16)


def test_the_folder_of_the_images_is_known_from_everywhere(tmp_path, backbone, monkeypatch):
    write_album(tmp_path / "album", 2)
    monkeypatch.chdir(tmp_path)
    embed("album", backbone, "vectors", workers=0)
    monkeypatch.chdir(tmp_path.parent)
    found = Embeddings.load(tmp_path / "vectors")
    assert all(os.path.exists(file) for file in found.manifest.files())
    assert repr(found).startswith("Embeddings(2 images by ")


def test_names_that_are_spelled_out_alike_stay_apart(tmp_path, backbone):
    album = os.fsencode(tmp_path / "album")
    os.mkdir(album)
    for seed, name in enumerate([b"caf\xe9.png", b"caf\\xe9.png"]):
        with open(album + b"/" + name, "wb") as file:
            file.write(encoded(draw(seed), "PNG"))
    embed(tmp_path / "album", backbone, tmp_path / "vectors", workers=0)
    assert len(Embeddings.load(tmp_path / "vectors")) == 2


def test_an_encoder_that_gives_another_length_than_it_says(tmp_path, backbone):
    class Wrong(type(backbone)):
        dim = 12

    wrong = Wrong(backbone._checkpoint)
    with pytest.raises(cq.ChoqolateError, match="expected vectors of 12 numbers for images"):
        embed(Manifest(tmp_path, write_album(tmp_path, 2)), wrong, workers=0)


@pytest.mark.parametrize("what", ["", "embeddings.json", "images"])
def test_a_folder_that_is_removed_meanwhile_is_no_success(tmp_path, backbone, what):
    target, names = tmp_path / "embeddings", write_album(tmp_path / "album", 4)
    embed(Manifest(tmp_path / "album", names[:3]), backbone, target)

    class Removing(Counting):
        def encode_pixels(self, pixels):
            gone = target / what
            gone.unlink() if gone.is_file() else shutil.rmtree(gone)
            return super().encode_pixels(pixels)

    with pytest.raises(cq.ChoqolateError, match=r"removed .* Run the embedding again"):
        embed(Manifest(tmp_path / "album", names), Removing(backbone), target, workers=0)
    if what == "embeddings.json":
        shutil.rmtree(target)
    assert target.exists() == (what == "images")
    assert len(embed(Manifest(tmp_path / "album", names), backbone, target).vectors()) == 4
