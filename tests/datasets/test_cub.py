from __future__ import annotations

import pytest

from choqolate.datasets import read_dataset
from choqolate.errors import ChoqolateError
from tests.datasets.layouts import make_cub, write


def columns(rows):
    return list(zip(rows.paths.tolist(), rows.labels.tolist(), rows.split.tolist(), strict=True))


@pytest.mark.parametrize("given", ["CUB_200_2011", "."])
def test_rows_are_joined_by_number(tmp_path, given):
    expected = make_cub(tmp_path / "CUB_200_2011")
    rows = read_dataset("cub", tmp_path / given)
    assert columns(rows) == expected
    assert rows.root == tmp_path / "CUB_200_2011"
    assert rows.classes == tuple(f"Grey kind {number}" for number in range(1, 13))  # 10 after 9, not after 1
    assert rows.source == "cub"
    assert rows.groups is None
    assert rows.notes == ("'iridescent blue-green back' stands twice in the list: used once",)


def test_readable_names(tmp_path):
    make_cub(tmp_path)
    write(tmp_path / "classes.txt", "".join(f"{n} {n:03d}.St._{n}_Black_footed-bird\n" for n in range(1, 13)))
    assert read_dataset("cub", tmp_path).classes[0] == "St. 1 Black footed-bird"


@pytest.mark.parametrize("k", [2, 5, 12])
def test_the_first_classes_by_number(tmp_path, k):
    expected = make_cub(tmp_path)
    kept = {f"Grey kind {number}" for number in range(1, k + 1)}
    rows = read_dataset("cub", str(tmp_path), n_classes=k)
    assert columns(rows) == [row for row in expected if row[1] in kept]
    assert set(rows.classes) == kept


@pytest.mark.parametrize(
    ("k", "message"), [(1, "at least 2, got 1"), (13, "at most 12.*got 13"), (2.5, "whole number"), (True, "got True")]
)
def test_a_number_of_classes_that_does_not_exist(tmp_path, k, message):
    make_cub(tmp_path)
    with pytest.raises(ChoqolateError, match=message):
        read_dataset("cub", tmp_path, n_classes=k)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("images.txt", "1 a/x.jpg\n2\n", r"expected '1 001\.Name/x\.jpg' in line 2 of .*images.txt, got '2'"),
        ("images.txt", "1 a/x.jpg\n1 a/y.jpg\n", "a new number at the start of line 2 .*got '1'"),
        ("images.txt", "one a/x.jpg\n", "start of line 1 .*got 'one'"),
        ("image_class_labels.txt", "1 13\n", "from 1 to 12 for image 1 in .*labels.txt, got '13'"),
        ("train_test_split.txt", "1 2\n", "from 0 to 1 for image 1 .*got '2'"),
        ("train_test_split.txt", "1 1\n2 0\n", "every image of images.txt in .*split.txt, 58 are missing, .*image 3"),
    ],
)
def test_files_that_do_not_fit(tmp_path, name, content, message):
    make_cub(tmp_path)
    write(tmp_path / name, content)
    with pytest.raises(ChoqolateError, match=message):
        read_dataset("cub", tmp_path)


def test_a_file_that_is_no_text(tmp_path):
    make_cub(tmp_path)
    (tmp_path / "images.txt").write_bytes(b"\x1f\x8b\x08\xff\xff")
    with pytest.raises(ChoqolateError, match=r"expected text .* in .*images.txt"):
        read_dataset("cub", tmp_path)


def test_one_file_is_missing(tmp_path):
    make_cub(tmp_path / "CUB_200_2011")
    (tmp_path / "CUB_200_2011/train_test_split.txt").unlink()
    with pytest.raises(
        ChoqolateError, match=r"CUB_200_2011 has all but train_test_split.txt; the data set is published"
    ):
        read_dataset("cub", tmp_path)


def test_two_copies(tmp_path):
    make_cub(tmp_path / "new")
    make_cub(tmp_path / "old")
    with pytest.raises(ChoqolateError, match=r"expected one copy of CUB-200-2011 .* got 2: give one of new, old"):
        read_dataset("cub", tmp_path)
