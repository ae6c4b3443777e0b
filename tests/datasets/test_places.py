"""The places of COCO: names of Places365, their location types, scores and files of predictions."""

from __future__ import annotations

import csv
import hashlib
from collections import Counter

import numpy as np
import pytest

from choqolate.data.scores import ConceptScores
from choqolate.datasets import DATASETS, PlacePredictions, read_dataset
from choqolate.datasets.coco import read_images
from choqolate.datasets.places import find_place, location_types, places365
from choqolate.errors import ChoqolateError
from tests.datasets.layouts import touch, write

MD5_OF_THE_PUBLISHED_LIST = "06c963b85866bd0649f97cb43dd16673"  # categories_places365.txt of Places365's authors


def test_the_names_are_the_published_ones_in_their_order():
    published = "\n".join(f"/{name[0]}/{name} {number}" for number, name in enumerate(places365()))
    assert hashlib.md5(published.encode()).hexdigest() == MD5_OF_THE_PUBLISHED_LIST


def test_location_types():
    types = location_types()
    assert len(types) == 160
    assert set(types) < set(places365())
    assert set(types.values()) == set(DATASETS["coco"].classes)
    assert (types["kitchen"], types["office"], types["library/indoor"]) == ("home or hotel", "workplace", "cultural")
    assert not set(types) & {"beach", "street", "library/outdoor", "bus_station/indoor"}


@pytest.mark.parametrize(
    "spell",
    [
        str.upper,
        lambda name: f"/{name[0]}/{name}",
        lambda name: f"{name[0]}/{name}",
        lambda name: f"/{name[0]}/{name} 7",
        lambda name: name.replace("/", "-"),
        lambda name: name.replace("/", "_"),
        lambda name: name.replace("/", " ").replace("_", " "),
        lambda name: f" {name.replace('/', ', ')}\n",
        lambda name: name.replace("/", "\\"),
    ],
)
def test_every_place_is_found_in_usual_spellings(spell):
    assert [find_place(spell(name)) for name in places365()] == list(places365())


@pytest.mark.parametrize("name", ["", " ", "moon", "/", "/a/", "library", "7", "indoor", "kitchens"])
def test_other_words_are_no_places(name):
    assert find_place(name) is None


def random_scores(n_rows=9, seed=0):
    return np.random.default_rng(seed).standard_normal((n_rows, 365)).astype(np.float32)


def best_places(scores):
    """By hand: the first of the highest."""
    return tuple(places365()[row.index(max(row))] for row in scores.tolist())


FILES = tuple(f"val2017/{row}.jpg" for row in range(9))


def write_scores(path, scores, names):
    """What another program may write: a table without anything of ours."""
    if path.suffix == ".npz":
        np.savez(path, files=np.array(FILES), places=np.array(names), scores=scores)
        return path
    import pandas as pd

    frame = pd.DataFrame(scores, columns=list(names))
    frame.insert(0, "image", FILES)
    (frame.to_csv if path.suffix == ".csv" else frame.to_parquet)(path, index=False)
    return path


@pytest.mark.parametrize("name", ["scores.npz", "scores.csv", "scores.parquet"])
def test_the_highest_score_wins_whatever_the_file_and_the_order_of_columns(tmp_path, name):
    scores, order = random_scores(), np.random.default_rng(1).permutation(365)
    scores[3, [5, 200]] = scores[3].max() + 1  # equal ones: the first column of the file
    names = [f"/{places365()[j][0]}/{places365()[j]}" for j in order]
    found = PlacePredictions.from_score_file(write_scores(tmp_path / name, scores[:, order], names))
    assert found.images == FILES
    expected = list(best_places(scores))
    expected[3] = places365()[next(j for j in order if j in (5, 200))]
    assert list(found.places) == expected
    assert found.model == f"the classifier behind {name}"


def test_scores_without_names_are_in_the_order_of_places365(tmp_path):
    scores = random_scores()
    np.savez(tmp_path / "scores.npz", files=np.array([name.encode() for name in FILES]), scores=scores)
    found = PlacePredictions.from_score_file(tmp_path / "scores.npz")
    assert (found.images, found.places) == (FILES, best_places(scores))


def test_scores_that_are_not_of_the_365_places_are_refused(tmp_path):
    def refused(names, scores=None, **more):
        table = ConceptScores(random_scores() if scores is None else scores, names, **{"paths": FILES, **more})
        with pytest.raises(ChoqolateError) as error:
            PlacePredictions.from_scores(table, "x")
        return str(error.value)

    names = list(places365())
    assert "but got 160 columns with 'airfield', 'alley', 'amphitheater' and 202 more missing" in refused(
        list(location_types()), random_scores()[:, :160]
    )
    assert "'moon', which Places365 does not have" in refused([*names[:-1], "moon"])
    assert "366 columns with some places named twice" in refused(
        [*names, "Kitchen"], np.hstack([random_scores()] * 2)[:, :366]
    )
    assert "in a column called image, but there is no such column. Add" in refused(names, paths=None)
    assert "in a column called image, but 1 of 9 rows has none" in refused(names, paths=[None, *FILES[1:]])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"scores": random_scores()}, "but it has no files"),
        ({"logits": random_scores()}, "but it has no files and no scores"),
        ({"scores": random_scores(), "files": np.array(FILES, dtype=object)}, "scores.npz, but it cannot be read"),
        (
            {"scores": random_scores()[:, :364], "files": np.array(FILES)},
            r"Expected scores of shape \(\d, 365\) in .*scores.npz, .* the 365 classes of Places365, but .* 364\)",
        ),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, arrays, message):
    np.savez(tmp_path / "scores.npz", **arrays)
    with pytest.raises(ChoqolateError, match=message):
        PlacePredictions.from_score_file(tmp_path / "scores.npz")


def test_files_that_are_no_scores(tmp_path):
    with pytest.raises(ChoqolateError, match=r"ends in .npz, .parquet, .csv, but got .*scores.txt"):
        PlacePredictions.from_score_file(write(tmp_path / "scores.txt", "x"))
    with pytest.raises(ChoqolateError, match=r"scores.npz, but it cannot be read"):
        PlacePredictions.from_score_file(write(tmp_path / "scores.npz", "x"))
    np.savez(tmp_path / "whole.npz", scores=random_scores(), files=np.array(FILES))
    whole = (tmp_path / "whole.npz").read_bytes()
    np.save(tmp_path / "array.npy", random_scores())
    for content in (b"", whole[: len(whole) // 2], (tmp_path / "array.npy").read_bytes()):
        (tmp_path / "damaged.npz").write_bytes(content)
        with pytest.raises(ChoqolateError, match=r"damaged.npz, but it cannot be read as .npz"):
            PlacePredictions.from_score_file(tmp_path / "damaged.npz")


def test_tables_that_are_no_scores_of_places(tmp_path):
    def refused(head, *rows):
        file = write(tmp_path / "scores.csv", "\n".join(",".join(map(str, row)) for row in [head, *rows]))
        with pytest.raises(ChoqolateError) as error:
            PlacePredictions.from_score_file(file)
        assert str(file) in str(error.value)
        return str(error.value)

    scores = random_scores().tolist()
    rows = [[file, *row] for file, row in zip(FILES, scores, strict=True)]
    assert "in a column called image, but there is no such column" in refused(places365(), *scores)
    headless = refused(*rows)
    assert f"but got 366 columns with '{FILES[0]}', " in headless
    assert "Name the columns as Places365 does" in headless
    predicted = refused(["image", "place"], [FILES[0], "kitchen"])
    assert "it has predicted places already. Use the file as it is: choqolate score COCO" in predicted
    np.savez(tmp_path / "scores.npz", files=np.array(FILES), scores=np.full((9, 365), np.nan))
    with pytest.raises(ChoqolateError, match=r"scores\.npz: .*NaN"):
        PlacePredictions.from_score_file(tmp_path / "scores.npz")


def test_an_image_has_one_row_of_scores(tmp_path):
    np.savez(tmp_path / "scores.npz", scores=random_scores(), files=np.array([*FILES[:-1], FILES[0]]))
    with pytest.raises(ChoqolateError, match=r"found several rows of 1 image, such as .*val2017/0.jpg"):
        PlacePredictions.from_score_file(tmp_path / "scores.npz")


def test_predictions_are_written_once(tmp_path):
    found = PlacePredictions(("a, b.jpg", "c.jpg"), ("kitchen", "beach"), "ResNet-18")
    found.save(tmp_path / "new" / "places.csv")
    with open(tmp_path / "new" / "places.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [["image", "place", "model"], ["a, b.jpg", "kitchen", "ResNet-18"], ["c.jpg", "beach", "ResNet-18"]]
    before = (tmp_path / "new" / "places.csv").read_bytes()
    with pytest.raises(ChoqolateError, match=r"places.csv exists. Choose another name"):
        PlacePredictions(("d.jpg",), ("kitchen",), "x").save(tmp_path / "new" / "places.csv")
    assert (tmp_path / "new" / "places.csv").read_bytes() == before
    with pytest.raises(ChoqolateError, match=r"ends in .csv, but got .*places.parquet"):
        found.save(tmp_path / "places.parquet")


COCO = [f"val2017/{i:012d}.jpg" for i in range(8)] + [f"train2017/{i:012d}.jpg" for i in range(8, 10)]


def test_places_become_classes(tmp_path):
    """One image of each kind: with a class, without one, of no known place, not in the copy."""
    touch(tmp_path / "coco", [*COCO, "test2017/x.jpg"])
    lines = [
        f"{COCO[0]},/k/kitchen",
        f"{COCO[8].split('/')[1]},library-indoor",
        f"{COCO[1]},beach",
        f"{COCO[2]},library/outdoor",
        f"{COCO[3]},moon",
        "val2017/gone.jpg,office",
        f"{COCO[4]},Home Office",
        f"{COCO[5]}, ",
        "val2017/gone too.jpg,beach",
    ]
    file = write(tmp_path / "places.csv", "image,place\n" + "\n".join(lines) + "\n")
    rows = read_dataset("coco", tmp_path, places=file)
    assert dict(zip(rows.paths, rows.labels, strict=True)) == {
        COCO[0]: location_types()["kitchen"],
        COCO[8]: location_types()["library/indoor"],
        COCO[4]: location_types()["home_office"],
    }
    assert rows.classes == DATASETS["coco"].classes
    source = (
        "pseudo-labels, not annotations: places predicted by the classifier behind places.csv, mapped to location types"
    )
    assert rows.labels_from == source
    assert rows.notes[:-1] == (
        source,
        "3 of 9 images show none of the 160 indoor places: left out",
        "1 image with a place that is not among the 365 ('moon'): left out",
        "1 image without a place: left out",
        "1 of 4 labelled images are not in train2017 or val2017: left out",
    )
    assert set(rows.split) <= {"train", "test"}


def test_split_and_model_of_places_are_kept(tmp_path):
    touch(tmp_path, COCO)
    lines = [f"{COCO[i]},{place},{split},{model}\n" for i, (place, split, model) in enumerate(ROWS)]
    file = write(tmp_path / "places.csv", "image,scene,split,model\n" + "".join(lines))
    rows = read_dataset("coco", tmp_path, places=file)
    assert rows.paths.tolist() == [COCO[0], COCO[2], COCO[3]]
    assert rows.split.tolist() == ["train", "test", "val"]
    assert "places predicted by ResNet-18 and CLIP, mapped" in rows.labels_from
    assert rows.notes == (rows.labels_from, "1 of 4 images show none of the 160 indoor places: left out")


ROWS = [
    ("kitchen", "train", "ResNet-18"),
    ("beach", "train", "ResNet-18"),
    ("kitchen", "test", "CLIP"),
    ("museum/indoor", "val", ""),
]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,place\na.jpg,beach\nb.jpg,moon\n", r"such as 'airplane_cabin'.*, but got 'beach', 'moon'\. Write"),
        ("image,place\na.jpg,\n", r"but got none at all\. Write"),
        ("image,class\na.jpg,kitchen\n", "expected a column called place or scene in .*: rename one"),
        ("photo,place\na.jpg,kitchen\n", "called image or path or file or filename or img_filename or image_path in "),
        ("a.jpg,kitchen\n", "got the columns 'a.jpg', 'kitchen': add a header"),
        ("image,place\na.jpg,kitchen\n", "none of 1 is there, such as 'a.jpg'"),
        ("image,place\nb.jpg,beach\na.jpg,kitchen\n", "none of 1 is there, such as 'a.jpg'"),
        ("image,place\ntwice.jpg,kitchen\n", "the folder of 'twice.jpg' in line 2 .*in train2017 and in val2017"),
    ],
)
def test_places_that_do_not_fit(tmp_path, text, message):
    touch(tmp_path, [*COCO, "train2017/twice.jpg", "val2017/twice.jpg"])
    with pytest.raises(ChoqolateError, match=message):
        read_dataset("coco", tmp_path, places=write(tmp_path / "places.csv", text))


def test_an_image_in_both_folders_does_not_matter_if_its_place_has_no_class(tmp_path):
    touch(tmp_path, [*COCO, "train2017/twice.jpg", "val2017/twice.jpg"])
    file = write(tmp_path / "places.csv", f"image,place\ntwice.jpg,beach\n{COCO[0]},kitchen\n")
    assert read_dataset("coco", tmp_path, places=file).paths.tolist() == [COCO[0]]


def test_classes_or_places_but_not_both(tmp_path):
    touch(tmp_path, COCO)
    file = write(tmp_path / "places.csv", f"image,place,class\n{COCO[0]},kitchen,workplace\n")
    with pytest.raises(ChoqolateError, match="but got both"):
        read_dataset("coco", tmp_path, places=file, labels=file)
    rows = read_dataset("coco", tmp_path, labels=file)
    assert rows.labels.tolist() == ["workplace"]
    assert rows.labels_from == "classes given in places.csv, not annotations of COCO"


def test_images_of_a_copy(tmp_path):
    touch(tmp_path / "data/coco", [*COCO, "test2017/x.jpg", "unlabeled2017/y.jpg", "val2017/notes.txt"])
    rows = read_images(tmp_path)
    assert Counter(rows.paths.tolist()) == Counter(COCO)
    assert (rows.root, rows.labels, rows.source) == (tmp_path / "data/coco", None, "coco")
    (tmp_path / "empty/val2017").mkdir(parents=True)
    with pytest.raises(ChoqolateError, match=r"Expected images in val2017 of .*, but there are none"):
        read_images(tmp_path / "empty")
    (tmp_path / "other").mkdir()
    with pytest.raises(ChoqolateError, match="looked for train2017/, val2017/"):
        read_images(tmp_path / "other")
