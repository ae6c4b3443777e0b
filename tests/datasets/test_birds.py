"""Bird scenes: what is drawn is what the ground truth says, in the proportions that are promised, always the same."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from choqolate.datasets import read_dataset, read_source
from choqolate.datasets.birds import (
    ATTRIBUTES,
    BIRDS,
    CLASSES,
    FAMILIES,
    GROUPS,
    read_truth,
    render_birds,
    sample_freely,
    sample_scenes,
    truth,
)
from choqolate.datasets.birds.attributes import KINDS, SIDES
from choqolate.datasets.birds.scenes import draw_scene
from choqolate.errors import ChoqolateError

BIRD = [name for name in ATTRIBUTES if name not in ("place", "light")]
PLAIN = {name: values[0] for name, values in ATTRIBUTES.items()}


def pixels(scene: dict[str, str], seed: int = 5, size: int = 96) -> np.ndarray:
    return np.asarray(draw_scene(scene, seed, size), dtype=float)


def contents(rows) -> list[bytes]:
    return [Path(file).read_bytes() for file in rows.files()]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("birds") / "images"
    return folder, render_birds(folder, 200, seed=3, workers=2)


@given(n=st.integers(2, 400), agreement=st.sampled_from([0.0, 0.5, 0.75, 0.95, 1.0]), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_groups_have_the_shares_that_were_asked_for(n, agreement, seed):
    scenes = sample_scenes(n, agreement, seed)
    classes, groups = Counter(scenes.labels), Counter(scenes.groups)
    assert abs(classes["landbird"] - classes["waterbird"]) <= 1
    for label, home in zip(CLASSES, SIDES, strict=True):
        assert groups[f"{label} on {home}"] == round(agreement * classes[label])
    assert set(groups) <= set(GROUPS)
    assert all(set(scenes.values[name]) <= set(values) for name, values in ATTRIBUTES.items())


def test_another_agreement_gives_the_same_birds_before_other_places():
    biased, fair = sample_scenes(300, 0.95, seed=1), sample_scenes(300, 0.5, seed=1)
    assert (biased.labels == fair.labels).all()
    assert (biased.seeds == fair.seeds).all()
    assert all((biased.values[name] == fair.values[name]).all() for name in BIRD)
    assert (biased.values["place"] != fair.values["place"]).any()
    assert (biased.values["bill"] != sample_scenes(300, 0.95, seed=2).values["bill"]).any()


def test_the_attributes_tell_the_class_and_no_single_one_does():
    """The class follows from the bird, with noise: naive Bayes from the true attributes is right nearly always."""
    from sklearn.naive_bayes import CategoricalNB

    train, test = (sample_scenes(4_000, 0.5, seed=seed) for seed in (1, 2))
    coded = [
        np.stack([np.searchsorted(sorted(ATTRIBUTES[name]), scenes.values[name].astype(str)) for name in BIRD], axis=1)
        for scenes in (train, test)
    ]
    together = CategoricalNB().fit(coded[0], train.labels).score(coded[1], test.labels)
    columns = [[j] for j in range(len(BIRD))]
    alone = [CategoricalNB().fit(coded[0][:, j], train.labels).score(coded[1][:, j], test.labels) for j in columns]
    assert 0.93 < together < 0.995
    assert 0.6 < max(alone) < 0.9


def test_at_half_agreement_the_place_says_nothing_of_the_bird():
    scenes = sample_scenes(6_000, 0.5, seed=1)
    on_water = np.isin(scenes.values["place"], SIDES["water"])
    for name in BIRD:
        for value in ATTRIBUTES[name]:
            has = scenes.values[name] == value
            assert abs(has[on_water].mean() - has[~on_water].mean()) < 0.05


def test_free_scenes_take_every_value_alike():
    scenes = sample_freely(9_000, seed=1)
    for name, values in ATTRIBUTES.items():
        shares = [np.mean(scenes.values[name] == value) for value in values]
        assert np.allclose(shares, 1 / len(values), atol=0.025)
    assert set(scenes.labels) == {None}


def test_kinds_are_complete_and_of_one_class_each():
    assert set(KINDS) == set(CLASSES)
    for kinds in KINDS.values():
        for look in kinds.values():
            assert all(value in ATTRIBUTES[name] for name, value in zip(BIRD, look.split(), strict=True))


@pytest.mark.parametrize(
    ("attribute", "value"), [(name, value) for name, values in ATTRIBUTES.items() for value in values[1:]]
)
def test_every_attribute_shows(attribute, value):
    """Changing one attribute of a scene changes the image, and enough to be seen at 64 pixels."""
    for seed in range(3):
        before = draw_scene(PLAIN, seed).resize((64, 64))
        after = draw_scene(PLAIN | {attribute: value}, seed).resize((64, 64))
        change = np.abs(np.asarray(after, float) - np.asarray(before, float)).max(axis=2)
        assert (change > 40).sum() >= 10


def test_the_bird_is_whole_inside_the_image():
    """A large bird with everything long: its outline touches no edge."""
    tall = PLAIN | {"size": "large", "neck": "long", "legs": "long", "tail": "long", "bill": "long", "crest": "crested"}
    for seed in range(5):
        with_bird = pixels(tall | {"colour": "black"}, seed)
        other = pixels(tall | {"colour": "yellow"}, seed)
        differs = np.abs(with_bird - other).max(axis=2) > 0
        edges = np.concatenate([differs[0], differs[-1], differs[:, 0], differs[:, -1]])
        assert differs.any()
        assert not edges.any()


def test_edges_are_smooth():
    """A white bird before a dark forest: between both there are levels of neither."""
    image = pixels(PLAIN | {"colour": "white", "place": "forest", "size": "large"}, size=96)
    brightness = image.mean(axis=2)
    assert ((brightness > 130) & (brightness < 220)).sum() > 100


def test_same_seed_same_image_and_another_seed_another_one():
    assert (pixels(PLAIN, 1) == pixels(PLAIN, 1)).all()
    assert (pixels(PLAIN, 1) != pixels(PLAIN, 2)).any()


def test_a_smaller_image_shows_the_same_scene():
    large = draw_scene(PLAIN, 1, 192).resize((24, 24), Image.Resampling.BOX)
    small = draw_scene(PLAIN, 1, 96).resize((24, 24), Image.Resampling.BOX)
    assert np.abs(np.asarray(large, float) - np.asarray(small, float)).mean() < 6


def test_rendered_folder_is_read_as_a_data_set_and_as_a_table(drawn):
    folder, rows = drawn
    assert rows.source == "birds"
    assert Counter(rows.split) == {"train": 120, "val": 20, "test": 60}
    assert rows.classes == CLASSES
    assert Counter(rows.groups[rows.split == "train"])["waterbird on land"] == 3
    assert Counter(rows.groups[rows.split == "test"]) == dict.fromkeys(GROUPS, 15)
    for path, file in zip(rows.paths, rows.files(), strict=True):
        with Image.open(file) as image:
            assert (image.size, image.mode, image.format) == ((96, 96), "RGB", "JPEG"), path
    again = read_dataset("birds", folder.parent)
    assert again.paths.tolist() == rows.paths.tolist()
    table = read_source(folder / "birds.csv")
    assert table.groups.tolist() == rows.groups.tolist()
    by_folder = read_source(folder)
    assert by_folder.classes == CLASSES
    assert Counter(by_folder.split) == {"train": 120, "val": 20, "test": 60}


def test_ground_truth_is_that_of_the_scenes(drawn):
    folder, rows = drawn
    known = read_truth(folder)
    assert set(known) == set(ATTRIBUTES)
    with open(folder / "birds.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    side = {place: name for name, places in SIDES.items() for place in places}
    for row, line in enumerate(lines):
        assert line["group"] == f"{line['label']} on {side[line['place']]}"
        assert all(known[name][row] == line[name] for name in ATTRIBUTES)
    white = [row for row in range(len(rows)) if known["colour"][row] == "white" and known["size"][row] == "large"]
    black = [row for row in range(len(rows)) if known["colour"][row] == "black" and known["size"][row] == "large"]
    middle = [brightness(rows.files()[row]) for row in (*white, *black)]
    assert np.mean(middle[: len(white)]) > np.mean(middle[len(white) :]) + 40


def brightness(file: str) -> float:
    """Of the middle of an image."""
    with Image.open(file) as image:
        return np.asarray(image)[40:70, 30:66].mean()


def test_a_folder_depends_on_the_seed_alone(drawn, tmp_path):
    folder, rows = drawn
    same = render_birds(tmp_path / "same", 200, seed=3, workers=1)
    assert contents(same) == contents(rows)
    assert (tmp_path / "same" / "birds.csv").read_bytes() == (folder / "birds.csv").read_bytes()
    other = render_birds(tmp_path / "other", 40, seed=4)
    assert contents(other)[0] != contents(rows)[0]


def test_parts_alone_are_those_of_the_whole(drawn, tmp_path):
    folder, rows = drawn
    only = render_birds(tmp_path / "test", 200, seed=3, parts=("test",))
    assert only.paths.tolist() == rows.paths[rows.split == "test"].tolist()
    assert contents(only)[7] == (folder / only.paths[7]).read_bytes()


def test_a_data_set_of_ours_is_replaced_and_nothing_else_is(tmp_path):
    render_birds(tmp_path / "images", 60)
    assert len(render_birds(tmp_path / "images", 40)) == 40
    assert len(list((tmp_path / "images").rglob("*.jpg"))) == 40
    assert [path.name for path in tmp_path.iterdir()] == ["images"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "holiday.jpg").write_bytes(b"precious")
    with pytest.raises(ChoqolateError, match="mine holds other things"):
        render_birds(tmp_path / "mine", 40)
    assert (tmp_path / "mine" / "holiday.jpg").read_bytes() == b"precious"
    (tmp_path / "mine" / "birds.csv").write_text("name,count\nrobin,3\n")
    with pytest.raises(ChoqolateError, match="mine holds other things"):
        render_birds(tmp_path / "mine", 40)
    (tmp_path / "images" / "train" / "mine.jpg").write_bytes(b"precious")
    with pytest.raises(ChoqolateError, match="images holds other things"):
        render_birds(tmp_path / "images", 40)


def test_a_link_to_a_folder_is_followed(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "images").symlink_to(tmp_path / "disk")
    for count in (40, 50):
        assert len(render_birds(tmp_path / "images", count)) == count
    assert (tmp_path / "images").is_symlink()


def test_a_run_that_is_killed_leaves_no_half_data_set(tmp_path):
    """The folder has its name only when all images are in it; the next run starts again."""
    code = (
        "import os, sys, choqolate.datasets.birds.dataset as d\n"
        "d.write_bytes = lambda *_: os._exit(9)\n"  # the power goes after the images, before the index
        "d.render_birds(sys.argv[1], 40)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "images")], check=False)
    assert done.returncode == 9
    assert not (tmp_path / "images").exists()
    (left,) = tmp_path.iterdir()
    os.utime(left, (0, 0))  # long ago
    assert len(render_birds(tmp_path / "images", 40)) == 40
    assert os.listdir(tmp_path) == ["images"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_images": 3}, "expected n_images to be a whole number of at least 40, got 3"),
        ({"n_images": 40, "agreement": 1.2}, "expected agreement to be a share between 0 and 1, got 1.2"),
        ({"n_images": 40, "parts": ("train", "tests")}, "tests"),
        ({"n_images": 40, "seed": -1}, "seed"),
        ({"n_images": 40, "parts": ()}, "expected at least one of train, val and test"),
        ({"n_images": 40, "agreement": "much"}, "expected agreement to be a number"),
        ({"n_images": 40, "workers": 0}, "expected workers to be a whole number of at least 1"),
    ],
)
def test_arguments_are_checked_before_anything_is_drawn(tmp_path, arguments, message):
    with pytest.raises(ChoqolateError, match=message):
        render_birds(tmp_path / "images", **arguments)
    assert not list(tmp_path.iterdir())


def test_every_word_means_something_and_means_one_thing():
    words = [word for family in FAMILIES for word in family.words]
    assert len(set(words)) == len(words)
    assert set(BIRDS.concepts) <= set(words)
    scenes = sample_freely(500, seed=1)
    for family in FAMILIES:
        assert set(family.values) <= set(ATTRIBUTES[family.attribute])
        for word in family.words:
            assert 0 < truth(word, scenes).mean() < 1
    assert all(truth(word, scenes).tolist() == truth("sea", scenes).tolist() for word in ("ocean", "waves"))


def test_the_spurious_concepts_are_the_places():
    by_word = {word: family for family in FAMILIES for word in family.words}
    assert {by_word[word].attribute for word in BIRDS.spurious} == {"place"}
    assert "place" not in {by_word[word].attribute for word in BIRDS.core}
    assert 40 <= len(BIRDS.concepts) <= 50
    shared = Counter(by_word[word] for word in BIRDS.concepts)
    assert min(shared.values()) >= 2  # no concept without a synonym


def test_an_unknown_value_is_named():
    with pytest.raises(ChoqolateError, match=r"expected a place out of sea, .*, got 'moon'"):
        draw_scene(PLAIN | {"place": "moon"}, 0)
