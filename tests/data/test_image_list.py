from __future__ import annotations

import os
from pathlib import Path

import pytest

from choqolate.datasets import read_csv
from choqolate.errors import ChoqolateError
from tests.datasets.layouts import touch, write


@pytest.fixture
def table(tmp_path):
    return lambda text: write(tmp_path / "photos.csv", text)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("path_name", ["path", "Image", "FILE", "filename", "img_filename", "image_path"])
@pytest.mark.parametrize("label_name", ["label", "Class", "y", "TARGET"])
def test_columns(table, separator, path_name, label_name):
    header = ["id", label_name, path_name, "Split", "groups"]
    rows = [["1", "cat", "a.jpg", "train", "g1"], ["2", "dog", "b/c d.jpg", "Valid", ""]]
    file = table("\n".join(separator.join(row) for row in [header, *rows]))
    found = read_csv(file)
    assert found.paths.tolist() == ["a.jpg", "b/c d.jpg"]
    assert found.labels.tolist() == ["cat", "dog"]
    assert found.split.tolist() == ["train", "val"]
    assert found.groups.tolist() == ["g1", None]
    assert (found.source, found.root, found.notes) == ("csv", file.parent, ())
    assert all(type(name) is str for name in found.classes)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_marks_ends_and_blank_lines(table, mark, end):
    rows = read_csv(table(end.join([f"{mark}path,label", "a.jpg,cat", "", "é.jpg,dog", ","])))
    assert rows.paths.tolist() == ["a.jpg", "é.jpg"]


def test_quoted_cells(table):
    rows = read_csv(table('"path","label"\n"a, b.jpg","the ""big"" cat"\n"two\nlines.jpg",dog\n'))
    assert rows.paths.tolist() == ["a, b.jpg", "two\nlines.jpg"]
    assert rows.labels.tolist() == ['the "big" cat', "dog"]


def test_words_that_look_like_nothing_are_classes(table):
    names = ["NA", "None", "null", "nan", "1", "1.0", "True"]
    rows = read_csv(table("path,label\n" + "".join(f"{i}.jpg,{name}\n" for i, name in enumerate(names))))
    assert rows.labels.tolist() == names


def test_spaces_around_labels_but_not_around_paths(table):
    rows = read_csv(table("path , label, split\n a.jpg, cat, train\nb.jpg,cat ,test\nc.jpg, ,\n"))
    assert rows.paths.tolist() == [" a.jpg", "b.jpg", "c.jpg"]
    assert rows.labels.tolist() == ["cat", "cat", None]
    assert rows.split.tolist() == ["train", "test", None]


def test_splits_and_groups_without_labels(table):
    rows = read_csv(table("path,split,group\na.jpg,train,x\nb.jpg,test,y\n"))
    assert (rows.labels, rows.classes, rows.groups.tolist()) == (None, (), ["x", "y"])


def test_the_folder_that_paths_start_from(table, tmp_path):
    absolute = str(tmp_path / "elsewhere/b.jpg")
    file = table(f"path\n./sub/a.jpg\n{absolute}\n")
    (tmp_path / "photos").mkdir()
    rows = read_csv(file, root=tmp_path / "photos")
    assert rows.paths.tolist() == ["sub/a.jpg", absolute]
    assert rows.files() == [str(tmp_path / "photos/sub/a.jpg"), absolute]
    with pytest.raises(ChoqolateError, match=r"paths of .*photos.csv are relative, but .*nowhere is not a folder"):
        read_csv(file, root=tmp_path / "nowhere")


@pytest.mark.skipif(os.sep != "/", reason="backslashes are right there")
def test_backslashes(table, tmp_path):
    touch(tmp_path, ["odd\\name.jpg", "cat/1.jpg"])
    rows = read_csv(table("path\nodd\\name.jpg\ncat\\1.jpg\n"))
    assert rows.paths.tolist() == ["odd\\name.jpg", "cat/1.jpg"]
    assert rows.notes == ("backslashes were read as slashes in 1 of the paths",)


def test_the_first_name_counts(table):
    rows = read_csv(table("image,path,class,label\nx,a.jpg,1,cat\n"))
    assert (rows.paths.tolist(), rows.labels.tolist()) == (["a.jpg"], ["cat"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a header and rows in .*photos.csv, the file is empty"),
        ("\n \n", "the file is empty"),
        ("path,label\n", "rows below the header of .*, there are none"),
        ("path,label\n\n,\n\n", "rows below the header of .*, there are none"),
        ("photo,label\na.jpg,cat\n", "column called path or image or .*got the columns 'photo', 'label': rename"),
        ("a.jpg,cat\nb.jpg,dog\n", "got the columns 'a.jpg', 'cat'"),
        ("path,label\na.jpg,cat\n\nb.jpg\n", "expected 2 cells .*line 4 has 1"),
        ("path,label\na.jpg,big,cat\n", "line 2 has 3: quote cells that contain ','"),
        ("path,label\na.jpg,cat\n ,dog\n", "expected a path in line 3 of"),
        ("path,label\na.jpg,cat\nb.jpg,cat\n./a.jpg,cat\n", "'a.jpg' stands in line 2 and in line 4: drop one"),
        ("path,split\na.jpg,train\nb.jpg,extra\n", "split called train, val, test in line 3 of .*got 'extra'"),
        ('path,label\n"a.jpg,cat\nb.jpg,dog\n', "expected CSV in .*photos.csv, line 3"),
        ("path,Path\na.jpg,b.jpg\n", "one column 'path' in .*, got 2"),
    ],
)
def test_tables_that_do_not_fit(table, text, message):
    with pytest.raises(ChoqolateError, match=message):
        read_csv(table(text))


@pytest.mark.parametrize("content", ["path,label\na.jpg,café\n".encode("latin-1"), "path\na.jpg\n".encode("utf-16")])
def test_other_encodings(tmp_path, content):
    (tmp_path / "photos.csv").write_bytes(content)
    with pytest.raises(ChoqolateError, match=r"expected text in UTF-8, .*save it as 'CSV UTF-8'"):
        read_csv(tmp_path / "photos.csv")


def test_no_table(tmp_path):
    with pytest.raises(ChoqolateError, match=r"nowhere.csv: No such file"):
        read_csv(tmp_path / "nowhere.csv")
    with pytest.raises(ChoqolateError, match="can be read"):
        read_csv(Path(tmp_path))
