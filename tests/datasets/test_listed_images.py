"""The data sets whose images are found by listing folders: MonuMAI, COCO, cats-dogs-cars."""

from __future__ import annotations

from collections import Counter

import pytest

from choqolate.data.splits import stratified_split
from choqolate.datasets import read_dataset
from choqolate.errors import ChoqolateError
from tests.datasets.layouts import touch, write

STYLES = ("Baroque", "Gothic", "Hispanic-Muslim", "Renaissance")


def check_split(rows, names):
    expected = stratified_split(names, rows.labels.tolist())
    assert rows.split.tolist() == expected
    assert any("30% of each class" in note for note in rows.notes)


@pytest.mark.parametrize("given", ["MonuMAI_dataset", "."])
def test_monumai(tmp_path, given):
    names = [f"{style}/{style}{i}.jpg" for style in STYLES for i in range(5)]
    touch(tmp_path / "MonuMAI_dataset", [*names, "Gothic/.hidden.jpg", "Gothic/Thumbs.db", "README.md"])
    touch(tmp_path / "MonuMAI_dataset", [f"{style}/xml/{style}{i}.xml" for style in STYLES for i in range(5)])
    rows = read_dataset("monumai", tmp_path / given)
    assert rows.paths.tolist() == names
    assert rows.labels.tolist() == [name.split("/")[0] for name in names]
    assert (rows.classes, rows.source, rows.root) == (STYLES, "monumai", tmp_path / "MonuMAI_dataset")
    check_split(rows, names)


def test_monumai_is_incomplete(tmp_path):
    touch(tmp_path, [f"MonuMAI_dataset/{style}/1.jpg" for style in STYLES[:3]])
    with pytest.raises(ChoqolateError, match=r"MonuMAI_dataset has all but Renaissance/; .*OD-MonuMAI"):
        read_dataset("monumai", tmp_path)
    (tmp_path / "MonuMAI_dataset/Renaissance/xml").mkdir(parents=True)
    with pytest.raises(ChoqolateError, match=r"images of every style in .*, Renaissance has none"):
        read_dataset("monumai", tmp_path)


COCO = [f"val2017/{i:012d}.jpg" for i in range(6)] + [f"train2017/{i:012d}.jpg" for i in range(6, 12)]


def test_coco_needs_labels(tmp_path):
    touch(tmp_path, COCO)
    with pytest.raises(ChoqolateError, match="COCO says what is in an image") as error:
        read_dataset("coco", tmp_path)
    assert str(error.value).splitlines()[1:3] == ["image,class", "val2017/000000000139.jpg,home or hotel"]
    assert "choqolate places COCO -o coco.places.csv" in str(error.value)


@pytest.mark.parametrize("place", ["", "coco", "coco/images"])
def test_coco(tmp_path, place):
    touch(tmp_path / "data" / place, COCO)
    written = [COCO[0], COCO[7].split("/")[1], "images\\" + COCO[1].replace("/", "\\"), COCO[2].split("/")[1]]
    kinds = ["Workplace", "home or  hotel", "CULTURAL ", "workplace"]
    lines = "".join(f"{image},{kind}\n" for image, kind in zip(written, kinds, strict=True))
    file = write(tmp_path / "places.csv", f"image,class\n{lines}")
    rows = read_dataset("coco", tmp_path / "data", labels=file)
    assert rows.paths.tolist() == [COCO[0], COCO[7], COCO[1], COCO[2]]
    assert rows.labels.tolist() == ["workplace", "home or hotel", "cultural", "workplace"]
    assert rows.root == tmp_path / "data" / place
    assert (len(rows.classes), rows.source) == (6, "coco")
    check_split(rows, rows.paths.tolist())


def test_coco_with_splits_and_one_folder(tmp_path):
    touch(tmp_path, COCO[:6])
    text = f"filename;label;split\n{COCO[0]};cultural;train\n{COCO[7]};cultural;train\n{COCO[1]};workplace;validation\n"
    rows = read_dataset("coco", tmp_path, labels=str(write(tmp_path / "places.csv", text)))
    assert rows.paths.tolist() == COCO[:2]
    assert rows.split.tolist() == ["train", "val"]
    assert rows.notes == ("1 of 3 labelled images are not in val2017: left out",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"image,class\n{COCO[0]},cultural\n{COCO[1]},beach\n", "'cultural' in line 3 of .*places.csv, got 'beach'"),
        (f"image,class\n{COCO[0]},\n", "in line 2 of .*got ''"),
        (
            f"image,class\n{COCO[0]},cultural\n{COCO[0].split('/')[1]},cultural\n",
            "every image once in .*places.csv, but val2017/0.* appears on lines 2 and 3",
        ),
        ("image,class\n1.jpg,cultural\n", "in train2017 and val2017 of .*, but none of 1 is there, such as '1.jpg'"),
        ("image\n1.jpg\n", "expected a column called class or label .*got the columns 'image'"),
        ("image,class\ntwice.jpg,cultural\n", "the folder of 'twice.jpg' in line 2 .*in train2017 and in val2017"),
    ],
)
def test_coco_labels_that_do_not_fit(tmp_path, text, message):
    touch(tmp_path, [*COCO, "train2017/twice.jpg", "val2017/twice.jpg"])
    with pytest.raises(ChoqolateError, match=message):
        read_dataset("coco", tmp_path, labels=write(tmp_path / "places.csv", text))


def test_coco_labels_are_not_there(tmp_path):
    touch(tmp_path, COCO)
    with pytest.raises(ChoqolateError, match=r"places.csv: No such file"):
        read_dataset("coco", tmp_path, labels=tmp_path / "places.csv")


PETS = [f"train/{kind}.{i}.jpg" for kind in ("cat", "dog") for i in range(10)]
CARS = [f"{folder}/{i:05d}.jpg" for folder in ("cars_train", "cars_test") for i in range(5)]


@pytest.mark.parametrize(
    ("pets", "cars"),
    [("", ""), ("dogs-vs-cats/", "stanford_cars/"), ("a/b/", "a/"), ("dogs-vs-cats/train/", "archive/cars/")],
)
def test_cats_dogs_cars(tmp_path, pets, cars):
    touch(tmp_path, [f"{pets}{name}" for name in PETS] + [f"{cars}{name}" for name in CARS])
    touch(
        tmp_path, [f"{pets}train/readme.txt", f"{pets}train/cow.1.jpg", f"{pets}train/.cat.1.jpg", f"{pets}test1/1.jpg"]
    )
    rows = read_dataset("cats-dogs-cars", tmp_path)
    assert rows.paths.tolist() == [f"{pets}{name}" for name in PETS] + [f"{cars}{name}" for name in CARS]
    assert rows.labels.tolist() == ["cats"] * 10 + ["dogs"] * 10 + ["cars"] * 10
    assert (rows.classes, rows.source, rows.root) == (("cats", "dogs", "cars"), "cats-dogs-cars", tmp_path)
    check_split(rows, [*PETS, *CARS])  # the same split wherever the two data sets lie
    assert Counter(rows.split.tolist()) == {"train": 21, "test": 9}


def test_kaggle_cars_lie_in_a_folder_of_the_same_name(tmp_path):
    touch(tmp_path, [*PETS, *(f"cars/{name.split('/')[0]}/{name}" for name in CARS)])
    rows = read_dataset("cats-dogs-cars", tmp_path)
    assert Counter(rows.labels.tolist()) == {"cats": 10, "dogs": 10, "cars": 10}
    assert rows.paths[-1] == "cars/cars_test/cars_test/00004.jpg"


def test_many_links_in_a_circle_are_not_multiplied(tmp_path):
    touch(tmp_path, [*PETS, *CARS])
    for number in range(100):
        (tmp_path / f"link{number}").symlink_to(".")
    assert len(read_dataset("cats-dogs-cars", tmp_path)) == 30


def test_the_nearest_of_two_copies_is_taken(tmp_path):
    touch(tmp_path, [*PETS, *CARS, *(f"old/{name}" for name in PETS)])
    rows = read_dataset("cats-dogs-cars", tmp_path)
    assert len(rows) == 30
    assert any("old/train was left out" in note for note in rows.notes)


@pytest.mark.parametrize(
    ("names", "missing"),
    [(PETS, ["cars"]), (CARS, ["cats", "dogs"]), ([*PETS[:10], *CARS], ["dogs"]), ([*PETS[10:], *CARS], ["cats"])],
)
def test_a_class_is_missing(tmp_path, names, missing):
    touch(tmp_path, names)
    with pytest.raises(ChoqolateError) as error:
        read_dataset("cats-dogs-cars", tmp_path)
    for label in ("cats", "dogs", "cars"):
        assert (f"no {label} (" in str(error.value)) == (label in missing)
