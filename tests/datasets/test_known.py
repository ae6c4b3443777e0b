"""What is known of the data sets without a copy, and what all their readers have in common."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from choqolate.datasets import DATASETS, read_dataset
from choqolate.errors import ChoqolateError
from tests.datasets.layouts import write

PAPER = ["cats-dogs-cars", "monumai", "coco", "cub", "waterbirds", "celeba"]
NAMES = [*PAPER, "birds"]


def options(name: str, folder: Path) -> dict[str, object]:
    return {"labels": write(folder / "labels.csv", "image,class\nx.jpg,cultural\n")} if name == "coco" else {}


def test_names():
    assert list(DATASETS) == NAMES
    assert [dataset.name for dataset in DATASETS.values()] == NAMES


@pytest.mark.parametrize(
    ("name", "n_classes", "n_core", "n_spurious", "n_printed"),
    [
        ("cats-dogs-cars", 3, 39, 0, 39),
        ("monumai", 4, 15, 0, 15),
        ("coco", 6, 80, 0, 80),
        ("cub", 200, 225, 0, 226),
        ("waterbirds", 2, 48, 9, 57),
        ("celeba", 2, 35, 12, 47),
        ("birds", 2, 29, 19, 48),
    ],
)
def test_concept_lists(name, n_classes, n_core, n_spurious, n_printed):
    dataset = DATASETS[name]
    assert (dataset.n_classes, len(dataset.core), len(dataset.spurious)) == (n_classes, n_core, n_spurious)
    assert dataset.concepts == dataset.core + dataset.spurious
    assert len(set(dataset.concepts)) == len(dataset.concepts)
    assert len(dataset.printed_concepts) == n_printed
    assert all(word == word.strip() and word for word in dataset.concepts + dataset.classes)
    assert len(dataset.classes) == (0 if name == "cub" else n_classes)


def test_what_stands_in_the_lists():
    assert DATASETS["cub"].repeated == ("iridescent blue-green back",)
    assert DATASETS["cats-dogs-cars"].classes == ("cats", "dogs", "cars")
    assert DATASETS["celeba"].classes == ("not blond", "blond")
    assert "sea" in DATASETS["waterbirds"].spurious
    assert "sea" not in DATASETS["waterbirds"].core
    assert "beard" in DATASETS["celeba"].spurious


@pytest.mark.parametrize("name", NAMES)
def test_every_data_set_describes_itself(name):
    dataset = DATASETS[name]
    assert dataset.origin.startswith("published at https://" if name in PAPER else "drawn by choqolate demo")
    assert dataset.title
    assert dataset.split
    assert len(dataset.layout.splitlines()) >= 3
    assert bool(dataset.groups) == (name in ("waterbirds", "celeba", "birds"))


def test_unknown_name():
    expected = r"^Expected a data set among cats-dogs-cars, monumai, coco, cub, waterbirds, celeba, birds, got "
    with pytest.raises(ChoqolateError, match=expected + r"'waterbird'\. Did you mean 'waterbirds'\?$"):
        read_dataset("waterbird", ".")
    with pytest.raises(ChoqolateError, match=expected + r"'CUB'\. Did you mean 'cub'\?$"):
        read_dataset("CUB", ".")
    with pytest.raises(ChoqolateError, match=expected + r"'xyz'\.$"):
        read_dataset("xyz", ".")


def test_unknown_option(tmp_path):
    with pytest.raises(ChoqolateError, match="options for cub: among 'n_classes', got 'classes'"):
        read_dataset("cub", tmp_path, classes=5)
    with pytest.raises(ChoqolateError, match="options for monumai: none, got 'n_classes'"):
        read_dataset("monumai", tmp_path, n_classes=5)


LOOKED_FOR = {
    "cats-dogs-cars": ["train/cat.0.jpg", "train/dog.0.jpg", "cars_train/00001.jpg"],
    "monumai": ["Baroque/", "Gothic/", "Hispanic-Muslim/", "Renaissance/"],
    "coco": ["train2017/", "val2017/"],
    "cub": ["classes.txt", "images.txt", "image_class_labels.txt", "train_test_split.txt"],
    "waterbirds": ["metadata.csv", "img_filename"],
    "celeba": ["list_attr_celeba.txt", "list_eval_partition.txt"],
    "birds": ["birds.csv"],
}


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_folder_names_the_files_the_place_and_the_source(name, tmp_path):
    (tmp_path / "photos").mkdir()
    with pytest.raises(ChoqolateError) as error:
        read_dataset(name, tmp_path, **options(name, tmp_path))
    for part in [*LOOKED_FOR[name], str(tmp_path), DATASETS[name].origin]:
        assert part in str(error.value)


@pytest.mark.parametrize("name", NAMES)
def test_no_folder_at_all(name, tmp_path):
    more = options(name, tmp_path)
    with pytest.raises(ChoqolateError, match=rf"there is no .*nowhere; the data set is {DATASETS[name].origin}"):
        read_dataset(name, tmp_path / "nowhere", **more)
    with pytest.raises(ChoqolateError, match=r"file.txt is a file"):
        read_dataset(name, write(tmp_path / "file.txt", "x"), **more)


def test_importing_is_light():
    script = (
        "import sys, choqolate.datasets as d\n"
        "print([len(x.concepts) for x in d.DATASETS.values()])\n"
        "print([name for name in ('torch', 'pandas', 'sklearn', 'PIL', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[39, 15, 80, 225, 57, 47, 48]", "[]"]
