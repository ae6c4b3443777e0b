from __future__ import annotations

import itertools
import os
import socket
import struct
import sys
from pathlib import Path

import pytest

from choqolate.datasets import read_folder, read_source
from choqolate.errors import ChoqolateError
from tests.datasets.layouts import JPEG, touch, write


def paths(root: Path) -> list[str]:
    return read_folder(root).paths.tolist()


def test_a_folder_for_each_class(tmp_path):
    touch(tmp_path, ["dog/2.jpg", "dog/10.jpg", "cat/deep/er/a.png", "cat/z.jpg"])
    rows = read_folder(tmp_path)
    assert rows.paths.tolist() == ["cat/deep/er/a.png", "cat/z.jpg", "dog/10.jpg", "dog/2.jpg"]
    assert rows.labels.tolist() == ["cat", "cat", "dog", "dog"]
    assert rows.classes == ("cat", "dog")
    assert all(type(name) is str for name in rows.classes)
    assert (rows.split, rows.groups, rows.notes, rows.source, rows.root) == (None, None, (), "folder", tmp_path)


def test_a_folder_for_each_split(tmp_path):
    touch(tmp_path, ["Train/cat/1.jpg", "Train/dog/2.jpg", "VALIDATION/cat/deep/3.jpg", "test/4.jpg", "notes/x.txt"])
    rows = read_folder(tmp_path)
    assert rows.paths.tolist() == ["Train/cat/1.jpg", "Train/dog/2.jpg", "VALIDATION/cat/deep/3.jpg", "test/4.jpg"]
    assert rows.split.tolist() == ["train", "train", "val", "test"]
    assert rows.labels.tolist() == ["cat", "dog", "cat", None]
    assert "1 image lies in no class folder: without a label" in rows.notes


def test_one_split_alone(tmp_path):
    touch(tmp_path, ["train/cat/1.jpg", "train/dog/2.jpg", "readme.txt", "empty/.keep"])
    rows = read_folder(tmp_path)
    assert rows.split.tolist() == ["train", "train"]
    assert rows.labels.tolist() == ["cat", "dog"]


@pytest.mark.parametrize("beside", ["bus/3.jpg", "3.jpg"])
def test_one_folder_called_like_a_split_among_others_is_a_class(tmp_path, beside):
    touch(tmp_path, ["test/cat/1.jpg", beside])
    rows = read_folder(tmp_path)
    assert rows.split is None
    assert rows.classes == (("bus", "test") if "/" in beside else ("test",))


def test_images_beside_the_splits(tmp_path):
    touch(tmp_path, ["train/cat/1.jpg", "test/cat/2.jpg", "extra/cat/3.jpg", "4.jpg"])
    rows = read_folder(tmp_path)
    assert dict(zip(rows.paths.tolist(), rows.split.tolist(), strict=True)) == {
        "train/cat/1.jpg": "train",
        "test/cat/2.jpg": "test",
        "extra/cat/3.jpg": None,
        "4.jpg": None,
    }
    assert [label for label in rows.labels.tolist() if label] == ["cat", "cat"]
    assert rows.notes == (
        "2 images lie in no class folder: without a label",
        "2 images lie in none of the folders for train, val and test: without a split",
    )


def test_images_without_folders(tmp_path):
    touch(tmp_path, ["2.jpg", "1.jpg"])
    rows = read_folder(str(tmp_path))
    assert (rows.paths.tolist(), rows.labels, rows.classes, rows.notes) == (["1.jpg", "2.jpg"], None, (), ())


def test_images_beside_class_folders(tmp_path):
    touch(tmp_path, ["cat/1.jpg", "2.jpg", "3.jpg"])
    rows = read_folder(tmp_path)
    assert rows.labels.tolist() == [None, None, "cat"]
    assert rows.notes == ("2 images lie in no class folder: without a label",)


def test_the_parent_of_the_right_folder(tmp_path):
    touch(tmp_path, ["photos/cat/1.jpg", "photos/dog/2.jpg"])
    (note,) = read_folder(tmp_path).notes
    assert note == f"one class only, 'photos': if the classes are the folders in it, give {tmp_path}/photos"


def test_images_by_their_endings(tmp_path):
    names = ["a.jpg", "b.jpeg", "c.jpe", "d.jfif", "e.png", "f.gif", "g.bmp", "h.dib", "i.tif", "j.tiff", "k.webp"]
    names += ["l.ppm", "m.pgm", "n.pbm", "o.pnm", "p.tga", "q.avif", "r.jp2", "s.ico", "t.x.JPG", "u.Png"]
    touch(tmp_path, [*names, "notes.txt", "x.jpg.part", "jpg"])
    assert paths(tmp_path) == names


@pytest.mark.parametrize(
    ("start", "is_image"),
    [
        (JPEG, True),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", True),
        (b"GIF89a\x01\0", True),
        (b"GIF87a\x01\0", True),
        (b"II*\0\x08\0\0\0", True),
        (b"MM\0*\0\0\0\x08", True),
        (b"RIFF\x24\0\0\0WEBPVP8 ", True),
        (b"\0\0\0\x1cftypavif\0\0\0\0", True),
        (b"BM" + struct.pack("<IHHII", 100, 0, 0, 54, 40), True),
        (b"BMW, Mercedes and other cars", False),
        (b"RIFF\x24\0\0\0WAVEfmt ", False),
        (b"\0\0\0\x1cftypmp42\0\0\0\0", False),
        (b"plain text", False),
        (b"\xff\xd8", False),
        (b"", False),
    ],
)
@pytest.mark.parametrize("name", ["cat/0001", "cat/photo.old"])
def test_images_by_their_first_bytes(tmp_path, start, is_image, name):
    touch(tmp_path, ["cat/a.jpg"])
    touch(tmp_path, [name], start)
    assert paths(tmp_path) == (sorted(["cat/a.jpg", name]) if is_image else ["cat/a.jpg"])


def test_what_is_left_out(tmp_path):
    touch(
        tmp_path,
        ["cat/._1.jpg", ".cache/2.jpg", "__MACOSX/cat/3.jpg", "cat/.hidden/4.jpg", "dog/scores/sub/5.jpg", "dog/6.jpg"],
        JPEG,
    )
    touch(tmp_path, ["dog/scores/embeddings.json", "dog/scores/7.jpg", "cat/.DS_Store"])
    assert paths(tmp_path) == ["dog/6.jpg"]
    assert read_folder(tmp_path).notes == ()


def test_other_files_are_counted_in_one_note(tmp_path):
    touch(tmp_path, ["cat/1.jpg", *(f"cat/{i}.txt" for i in range(10)), "Thumbs.db", "dog/thumbs.DB"])
    assert read_folder(tmp_path).notes == ("12 files that are no images were left out (.txt 10, .db 2)",)
    touch(tmp_path / "b", ["1.jpg", "LICENSE"])
    assert read_folder(tmp_path / "b").notes == ("1 file that is no image was left out (no ending 1)",)
    touch(tmp_path / "c", ["1.jpg", *(f"x.{ending}" for ending in "abcdefg")])
    assert read_folder(tmp_path / "c").notes[0].endswith("(.a 1, .b 1, .c 1, .d 1, .e 1, others 2)")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_and_sockets_are_never_opened(tmp_path, monkeypatch):
    touch(tmp_path, ["1.jpg"])
    os.mkfifo(tmp_path / "pipe.jpg")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        (tmp_path / "link").symlink_to("pipe")
        assert paths(tmp_path) == ["1.jpg"]


def test_links(tmp_path):
    touch(tmp_path / "far", ["cats/1.jpg", "one.jpg"])
    photos = touch(tmp_path / "photos", ["dog/2.jpg"])
    (photos / "cat").symlink_to(tmp_path / "far/cats")
    (photos / "dog/3.jpg").symlink_to(tmp_path / "far/one.jpg")
    (photos / "dog/broken.jpg").symlink_to("nowhere")
    (photos / "dog/self").symlink_to("self")
    (photos / "dog/up").symlink_to("..")
    rows = read_folder(photos)
    assert rows.paths.tolist() == ["cat/1.jpg", "dog/2.jpg", "dog/3.jpg", "dog/broken.jpg"]
    assert rows.notes == ("1 file that is no image was left out (no ending 1)",)


def test_links_in_a_circle(tmp_path):
    touch(tmp_path, ["photos/a/1.jpg", "photos/b/2.jpg"])
    (tmp_path / "photos/a/x").symlink_to(tmp_path / "photos/b")
    (tmp_path / "photos/b/y").symlink_to(tmp_path / "photos/a")
    (tmp_path / "photos/b/top").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to("photos")
    found = read_folder(tmp_path / "again")
    assert found.paths.tolist() == ["a/1.jpg", "b/2.jpg"]
    assert found.notes == (
        "4 folders that links lead to a second time were left out (a/x, b/top/again, b/top/photos, b/y)",
    )


def test_links_that_fan_out_end(tmp_path):
    levels = [touch(tmp_path / f"levels/{level:02}", [f"{level}.jpg"]) for level in range(17)]
    for level, below in itertools.pairwise(levels):
        for name in ("left", "right"):
            (level / name).symlink_to(below)
    found = read_folder(levels[0])
    assert len(found) == 17
    assert "left/" * 16 + "16.jpg" in found.paths
    assert found.notes[-1].startswith("16 folders that links lead to a second time were left out (left/left/")


def test_a_folder_is_visited_where_it_lies_or_through_the_nearest_link(tmp_path):
    touch(tmp_path / "far", ["1.jpg", "deep/2.jpg"])
    photos = touch(tmp_path / "photos", ["z/3.jpg", "a/4.jpg"])
    (photos / "a/deep").symlink_to(tmp_path / "far/deep")
    (photos / "a/z").symlink_to(photos / "z")
    (photos / "near").symlink_to(tmp_path / "far")
    (photos / "nearer").symlink_to(tmp_path / "far")
    found = read_folder(photos)
    assert found.paths.tolist() == ["a/4.jpg", "near/1.jpg", "near/deep/2.jpg", "z/3.jpg"]
    assert found.notes == ("3 folders that links lead to a second time were left out (a/deep, a/z, nearer)",)


def test_links_to_one_image_are_rows_of_their_own_like_copies(tmp_path):
    photos = touch(tmp_path / "photos", ["cat/1.jpg"])
    (photos / "best").mkdir()
    (photos / "best/1.jpg").symlink_to("../cat/1.jpg")
    assert paths(photos) == ["best/1.jpg", "cat/1.jpg"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_names_that_are_no_utf8(tmp_path):
    os.mkdir(os.fsencode(tmp_path) + b"/caf\xe9")
    with open(os.fsencode(tmp_path) + b"/caf\xe9/\xff.jpg", "wb") as file:
        file.write(JPEG)
    touch(tmp_path, ["zoo/é \n.jpg"])
    rows = read_folder(tmp_path).with_split()
    assert [os.fsencode(path) for path in rows.paths] == [b"caf\xe9/\xff.jpg", "zoo/é \n.jpg".encode()]
    assert rows.labels.tolist() == ["caf\\xe9", "zoo"]
    assert all(os.path.exists(file) for file in rows.files())


def test_deep_folders(tmp_path):
    deep = "/".join(["d"] * 400)
    touch(tmp_path, [f"cat/{deep}/1.jpg"])
    assert paths(tmp_path) == [f"cat/{deep}/1.jpg"]


def test_folders_that_may_not_be_read(tmp_path, monkeypatch):
    touch(tmp_path, ["cat/1.jpg", "dog/2.jpg"])
    scandir = os.scandir

    def guarded(folder):
        if "dog" in str(folder):
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", guarded)
    assert read_folder(tmp_path).notes == ("1 folder could not be read and was left out (dog)",)
    (tmp_path / "cat/1.jpg").unlink()
    with pytest.raises(ChoqolateError, match="1 folder could not be read: check the permissions"):
        read_folder(tmp_path)


def test_no_images(tmp_path):
    with pytest.raises(ChoqolateError, match=r"below .*, the folder is empty: check the path"):
        read_folder(tmp_path)
    touch(tmp_path, ["a.txt", "b/c.txt", ".x.jpg"])
    with pytest.raises(ChoqolateError, match=r"got 2 other files \(\.txt 2\): check the path"):
        read_folder(tmp_path)
    touch(tmp_path, ["embeddings.json"])
    with pytest.raises(ChoqolateError, match="folder of embeddings: give the folder of the images"):
        read_folder(tmp_path)


def test_no_folder(tmp_path):
    with pytest.raises(ChoqolateError, match=r"expected a folder of images, there is no .*nowhere"):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(ChoqolateError, match=r"x.jpg is a file"):
        read_folder(write(tmp_path / "x.jpg", "x"))


def test_read_source(tmp_path):
    touch(tmp_path, ["photos.csv/cat/1.jpg"])
    assert read_source(tmp_path / "photos.csv").source == "folder"
    assert read_source(write(tmp_path / "a.CSV", "path\n1.jpg\n")).source == "csv"
    assert read_source(str(write(tmp_path / "a.tsv", "path\tlabel\n1.jpg\tx\n"))).labels.tolist() == ["x"]
    with pytest.raises(ChoqolateError, match=r"a folder of images or a CSV file, there is no .*nowhere"):
        read_source(tmp_path / "nowhere")
    with pytest.raises(ChoqolateError, match=r"ends in \.csv or \.tsv, got .*a\.xlsx"):
        read_source(write(tmp_path / "a.xlsx", "x"))
