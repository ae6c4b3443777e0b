from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from choqolate.datasets import read_dataset
from choqolate.errors import ChoqolateError
from tests.datasets.layouts import (
    ATTRIBUTES,
    celeba_attributes,
    celeba_partition,
    faces,
    make_celeba,
    make_celeba_of_kaggle,
    write,
)

GROUPS = ("not blond female", "not blond male", "blond female", "blond male")
COUNTS = {"train": (40, 30, 20, 10), "val": (16, 9, 12, 2), "test": (4, 3, 2, 1)}


def group_counts(rows, split):
    found = Counter(rows.groups[rows.split == split].tolist())
    return tuple(found[group] for group in GROUPS)


def official(folder, rows):
    write(folder / "Anno/list_attr_celeba.txt", celeba_attributes(rows, end="\n"))
    write(folder / "Eval/list_eval_partition.txt", celeba_partition(rows))
    (folder / "Img/img_align_celeba").mkdir(parents=True)


@pytest.mark.parametrize(
    ("make", "images"),
    [
        (make_celeba, "img_align_celeba"),
        (official, "Img/img_align_celeba"),
        (make_celeba_of_kaggle, "img_align_celeba/img_align_celeba"),
    ],
)
@pytest.mark.parametrize("given", ["celeba", "."])
def test_all_layouts_give_the_same_rows(tmp_path, make, images, given):
    expected = faces(COUNTS)
    make(tmp_path / "celeba", expected)
    rows = read_dataset("celeba", tmp_path / given, proportions="official")
    assert rows.paths.tolist() == [f"{images}/{name}" for name, *_ in expected]
    assert rows.labels.tolist() == ["blond" if blond else "not blond" for _, blond, _, _ in expected]
    assert rows.split.tolist() == [("train", "val", "test")[split] for *_, split in expected]
    assert [group_counts(rows, split) for split in COUNTS] == list(COUNTS.values())
    assert rows.classes == ("not blond", "blond")
    assert rows.root == tmp_path / "celeba"
    assert rows.notes == ()


def test_val_and_test_get_the_proportions_of_train(tmp_path):
    make_celeba(tmp_path, faces(COUNTS))
    rows = read_dataset("celeba", tmp_path)
    assert group_counts(rows, "train") == COUNTS["train"]
    assert group_counts(rows, "val") == (8, 6, 4, 2)  # two blond men are 10%: no more than 20 rows can have them
    assert group_counts(rows, "test") == COUNTS["test"]
    assert rows.notes == ("19 of 39 rows of val were left out: its groups have the proportions of train",)
    names = rows.paths.tolist()
    assert names == sorted(names)


@pytest.mark.parametrize("val", [(50, 50, 50, 50), (400, 1, 30, 10), (7, 90, 13, 4), (1, 1, 1, 1)])
def test_no_more_rows_could_be_kept(tmp_path, val):
    train = COUNTS["train"]
    make_celeba(tmp_path, faces({"train": train, "val": val}))
    kept = group_counts(read_dataset("celeba", tmp_path), "val")
    scale = min(Fraction(have, model) for have, model in zip(val, train, strict=True))
    assert all(count <= have for count, have in zip(kept, val, strict=True))
    assert all(
        abs(count - scale * model) <= Fraction(1, 2) or count == 1 for count, model in zip(kept, train, strict=True)
    )


def test_the_same_rows_whatever_the_order(tmp_path):
    expected = faces(COUNTS)
    make_celeba(tmp_path / "a", expected)
    make_celeba(tmp_path / "b", expected[::-1])
    first, second = (read_dataset("celeba", tmp_path / name).paths.tolist() for name in "ab")
    assert first != second
    assert sorted(first) == sorted(second)


def test_a_group_that_a_split_does_not_have(tmp_path):
    make_celeba(tmp_path, faces({"train": (40, 30, 20, 10), "val": (8, 6, 9, 0), "test": (0, 0, 0, 3)}))
    rows = read_dataset("celeba", tmp_path)
    assert group_counts(rows, "val") == (8, 6, 4, 0)
    assert group_counts(rows, "test") == (0, 0, 0, 3)
    assert "val has no rows of 'blond male': the other groups have the proportions of train" in rows.notes


def test_a_group_that_train_does_not_have(tmp_path):
    make_celeba(tmp_path, faces({"train": (40, 30, 20, 0), "val": (4, 3, 2, 5), "test": (0, 0, 0, 3)}))
    rows = read_dataset("celeba", tmp_path)
    assert group_counts(rows, "val") == (4, 3, 2, 0)
    assert group_counts(rows, "test") == (0, 0, 0, 3)
    assert "test has no group in common with train: left as it is" in rows.notes


def test_a_rare_group_is_never_lost(tmp_path):
    make_celeba(tmp_path, faces({"train": (1000, 100, 100, 1), "val": (100, 50, 10, 2)}))
    assert group_counts(read_dataset("celeba", tmp_path), "val") == (100, 10, 10, 1)


def test_splits_without_rows(tmp_path):
    make_celeba(tmp_path / "a", faces({"train": (3, 2, 1, 1)}))
    assert len(read_dataset("celeba", tmp_path / "a")) == 7
    make_celeba(tmp_path / "b", faces({"val": (3, 2, 1, 1), "test": (1, 1, 1, 5)}))
    rows = read_dataset("celeba", tmp_path / "b")
    assert group_counts(rows, "test") == (1, 1, 1, 5)


def test_rows_in_one_file_only(tmp_path):
    rows = faces({"train": (6, 2, 1, 1)})
    make_celeba(tmp_path, rows)
    write(tmp_path / "list_attr_celeba.txt", celeba_attributes(rows[:7]).replace("7\r\n", "202599\r\n", 1))
    write(tmp_path / "list_eval_partition.txt", celeba_partition(rows[2:]))
    (tmp_path / "img_align_celeba").rmdir()
    found = read_dataset("celeba", tmp_path)
    assert found.paths.tolist() == [f"img_align_celeba/{name}" for name, *_ in rows[2:7]]
    assert found.notes == (
        "list_attr_celeba.txt announces 202599 images and has 7",
        "2 of 7 images stand in list_attr_celeba.txt only: left out",
        "3 of 8 images stand in list_eval_partition.txt only: left out",
        "no folder img_align_celeba was found: the images are expected there",
    )
    write(tmp_path / "list_eval_partition.txt", celeba_partition(rows[7:]))
    with pytest.raises(ChoqolateError, match="they have none in common"):
        read_dataset("celeba", tmp_path)


HEAD = f"1\n{' '.join(ATTRIBUTES)}\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("list_attr_celeba.txt", f"{HEAD}000001.jpg 1 1 1\n", "a file name and 5 values in line 3 .*got 4 parts"),
        ("list_attr_celeba.txt", f"{HEAD}000001.jpg 1 yes 1 1 1\n", "1 or -1 .* in line 3 of .*got 'yes'"),
        ("list_attr_celeba.txt", "1\nBald Young\n000001.jpg 1 1\n", "Blond_Hair and Male .*got 'Bald Young'"),
        ("list_attr_celeba.txt", "", "expected Blond_Hair and Male"),
        ("list_eval_partition.txt", "000001.jpg 3\n", "0, 1 or 2 for the split in line 1 of .*got '3'"),
        ("list_eval_partition.txt", "000001.jpg\n", r"expected '000001\.jpg 0' in line 1 of"),
    ],
)
def test_files_that_do_not_fit(tmp_path, name, text, message):
    make_celeba(tmp_path, faces(COUNTS))
    write(tmp_path / name, text)
    with pytest.raises(ChoqolateError, match=message):
        read_dataset("celeba", tmp_path)


def test_kaggle_cells_that_do_not_fit(tmp_path):
    make_celeba_of_kaggle(tmp_path, faces(COUNTS))
    write(tmp_path / "list_eval_partition.csv", "image_id,partition\n000001.jpg,train\n")
    with pytest.raises(ChoqolateError, match=r"split in line 2 of .*partition.csv, got 'train'"):
        read_dataset("celeba", tmp_path)
    write(tmp_path / "list_attr_celeba.csv", "image_id,Blond_Hair\n000001.jpg,1\n")
    with pytest.raises(ChoqolateError, match=r"a column called male .* got the columns 'image_id', 'Blond_Hair'"):
        read_dataset("celeba", tmp_path)


def test_unknown_proportions(tmp_path):
    with pytest.raises(ChoqolateError, match="proportions to be one of train, official, got 'equal'"):
        read_dataset("celeba", tmp_path, proportions="equal")
