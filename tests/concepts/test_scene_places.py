"""Places of images: zero-shot by a real encoder that is tiny, and on the way into tables and models."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

import choqolate as cq
from choqolate.data.provenance import Provenance
from choqolate.datasets.places import places365
from tests.concepts.image_files import draw, encoded
from tests.concepts.test_scoring import by_hand

PATHS = ["train2017/1.png", "train2017/2.png", "val2017/3.png", "val2017/4.png", "val2017/5.png", "val2017/6.png"]


@pytest.fixture
def coco(tmp_path):
    """A copy of six images, and one that does not belong to it."""
    for seed, path in enumerate([*PATHS, "test2017/7.png"]):
        (tmp_path / "coco" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "coco" / path).write_bytes(encoded(draw(seed), "PNG"))
    return tmp_path / "coco"


@pytest.fixture(scope="module")
def backbone(clip_folder):
    return cq.load_backbone(clip_folder)


@pytest.fixture
def counted(backbone, monkeypatch):
    """The encoder, and how many images each of its calls encoded."""
    calls, encode = [], backbone.encode_pixels
    monkeypatch.setattr(backbone, "encode_pixels", lambda pixels: calls.append(len(pixels)) or encode(pixels))
    return backbone, calls


def test_the_most_similar_scene_name_is_the_place(coco, clip_folder):
    names = [name.replace("_", " ").replace("/", " ") for name in places365()]
    prompts = [[f"a photo of a {name}.", f"a photo of the {name}."] for name in names]
    expected = by_hand(clip_folder, [coco / path for path in PATHS], prompts).argmax(axis=1)
    found = cq.predict_places(coco, clip_folder)
    assert dict(zip(found.images, found.places, strict=True)) == {
        path: places365()[column] for path, column in zip(PATHS, expected, strict=True)
    }
    assert found.model == "clip, zero-shot on the 365 scene names"  # not where it lies on this machine


def test_images_are_encoded_once(coco, counted, tmp_path):
    backbone, calls = counted
    first = cq.predict_places(coco, backbone, embeddings=tmp_path / "kept")
    again = cq.predict_places(coco, backbone, embeddings=tmp_path / "kept")
    shutil.rmtree(coco)
    from_folder = cq.predict_places(tmp_path / "kept", backbone)
    from_memory = cq.predict_places(cq.Embeddings.load(tmp_path / "kept"), backbone)
    assert sum(calls) == len(PATHS)
    assert first == again == from_folder == from_memory


def test_a_manifest_chooses_the_images(coco, backbone):
    everything = cq.predict_places(coco, backbone)
    some = cq.predict_places(cq.Manifest(coco, PATHS[2:4]), backbone)
    assert (some.images, some.places) == (everything.images[2:4], everything.places[2:4])


def test_scores_of_a_classifier_need_no_encoder(tmp_path):
    scores = np.random.default_rng(0).random((6, 365))
    table = cq.ConceptScores(scores, places365(), paths=PATHS)
    table.save(tmp_path / "resnet18.parquet")
    found = cq.predict_places(tmp_path / "resnet18.parquet", output=tmp_path / "places.csv")
    assert found.places == tuple(places365()[best] for best in scores.argmax(axis=1))
    assert found.places == cq.predict_places(table).places
    assert (tmp_path / "places.csv").read_text().splitlines()[1] == (
        f"{PATHS[0]},{found.places[0]},the classifier behind resnet18.parquet"
    )
    with pytest.raises(cq.ChoqolateError, match="Expected no backbone or workers because the source holds scores"):
        cq.predict_places(table, "openai/clip-vit-base-patch32", workers=0)


def test_nothing_is_overwritten_and_that_is_known_before_the_work(coco, counted, tmp_path):
    (tmp_path / "places.csv").write_text("mine")
    backbone, calls = counted
    with pytest.raises(cq.ChoqolateError, match=r"places.csv exists"):
        cq.predict_places(coco, backbone, output=tmp_path / "places.csv")
    assert (calls, (tmp_path / "places.csv").read_text()) == ([], "mine")


def test_a_source_that_is_not_there(tmp_path):
    with pytest.raises(cq.ChoqolateError, match=r"Expected a copy of COCO.*nowhere does not exist"):
        cq.predict_places(tmp_path / "nowhere")
    with pytest.raises(cq.ChoqolateError, match="looked for train2017/, val2017/"):
        cq.predict_places(tmp_path)


PSEUDO = "pseudo-labels, not annotations: places predicted by ResNet-18, mapped to location types"


def read_pseudo(coco):
    kinds = ["kitchen", "office", "kitchen", "office", "kitchen", "beach"]
    cq.datasets.PlacePredictions(tuple(PATHS), tuple(kinds), "ResNet-18").save(coco / "places.csv")
    return cq.datasets.read_dataset("coco", coco, places=coco / "places.csv")


def test_pseudo_labels_are_called_so_in_scores_and_embeddings(coco, backbone, tmp_path):
    rows = read_pseudo(coco)
    images = cq.embed(rows, backbone, tmp_path / "kept")
    words = ["sea", "forest", "long bill"]
    assert cq.Embeddings.load(tmp_path / "kept").manifest.labels_from == PSEUDO
    cq.score(images, words, backbone).save(tmp_path / "one.parquet")
    cq.score_images_to_file(tmp_path / "other.parquet", tmp_path / "kept", words, backbone=backbone)
    for name in ("one", "other"):
        assert cq.ConceptScores.load(tmp_path / f"{name}.parquet").provenance.labels_from == PSEUDO
        assert cq.ConceptScores.open(tmp_path / f"{name}.parquet").provenance.labels_from == PSEUDO


def test_other_labels_are_no_pseudo_labels(coco):
    rows = read_pseudo(coco)
    named = cq.Manifest(coco, PATHS, labels=["annotated"] * len(PATHS))
    unlabelled = cq.Manifest(coco, PATHS, split=["test"] * len(PATHS))
    table = cq.ConceptScores(np.eye(len(rows)), list("abcde"), rows=rows.rows, provenance={"labels_from": PSEUDO})
    for have in (rows, table):
        assert labels_from(have.join(named)) is None
        assert labels_from(have.join(unlabelled)) == PSEUDO
        assert labels_from(have.with_columns(labels=["workplace"] * len(rows))) is None
        assert labels_from(have.with_columns(groups=["one"] * len(rows)).take([0, 1])) == PSEUDO
        assert labels_from(have.with_split()) == PSEUDO
        assert labels_from(have.join(named.take([0, 1]))) == PSEUDO  # the labels of all other images are left
    assert named.join(rows).labels_from == PSEUDO
    assert named.join(rows.take([0])).labels_from == PSEUDO
    elsewhere = replace(rows.take([0, 1]).with_columns(labels=["workplace", None]), labels_from=PSEUDO)
    assert named.take([1]).join(elsewhere).labels_from is None  # it has no label for this image


def test_a_csv_file_of_scores_does_not_keep_the_mark_and_this_is_said(tmp_path):
    table = cq.ConceptScores(np.eye(2), ["sea", "forest"], labels=["office", "kitchen"])
    table.save(tmp_path / "annotated.csv")
    with pytest.warns(cq.ChoqolateWarning, match=r"does not say what its labels are \(pseudo-labels"):
        replace(table, provenance=Provenance(labels_from=PSEUDO)).save(tmp_path / "predicted.csv")


def labels_from(have):
    return have.labels_from if isinstance(have, cq.Manifest) else have.provenance.labels_from
