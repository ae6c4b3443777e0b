"""The encoder that comes with the package sees what its words say, and says what it never saw."""

from __future__ import annotations

import socket
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import roc_auc_score

import choqolate as cq
from choqolate.concepts.mini_backbone import FILLERS, MiniBackbone, features, phrases
from choqolate.datasets.birds import BIRDS, FAMILIES, sample_scenes, truth
from choqolate.datasets.birds.scenes import draw_pixels, draw_scene
from choqolate.errors import ChoqolateError

SEED = 77  # neither of the data set nor of the encoder's training


@pytest.fixture(scope="module")
def mini() -> MiniBackbone:
    return cq.load_backbone("mini")


@pytest.fixture(scope="module")
def unseen(mini):
    """Scenes that the encoder was not trained on, place independent of class, and their vectors."""
    scenes = sample_scenes(750, agreement=0.5, seed=SEED)
    return scenes, mini.encode_pixels(draw_pixels(scenes, 64, workers=1))


def test_every_concept_of_the_vocabulary_is_seen(mini, unseen):
    scenes, vectors = unseen
    scores = vectors @ mini.encode_texts(BIRDS.concepts).T
    areas = {word: roc_auc_score(truth(word, scenes), scores[:, j]) for j, word in enumerate(BIRDS.concepts)}
    assert {word: area for word, area in areas.items() if area < 0.9} == {}
    assert np.mean(list(areas.values())) > 0.96


def test_words_for_the_same_thing_have_correlated_scores(mini, unseen):
    _, vectors = unseen
    report = cq.check_redundancy(vectors @ mini.encode_texts(BIRDS.concepts).T, BIRDS.concepts)
    assert report.doubtful is None
    assert report.partnered > 0.9
    place = {word: j for j, word in enumerate(BIRDS.concepts)}
    for family in FAMILIES:
        known = [place[word] for word in family.words if word in place]
        within = report.correlation[np.ix_(known, known)]
        assert (within > 0.6).all(), family.words


def test_the_place_does_not_tell_the_class_in_the_scores_of_the_bird(mini, unseen):
    """Pretraining saw places independent of classes: a bird's words hardly depend on the side behind it."""
    scenes, vectors = unseen
    scores = vectors @ mini.encode_texts(BIRDS.core).T
    on_water = np.char.endswith(scenes.groups.astype(str), "water")
    waterbird = scenes.labels == "waterbird"
    for label in (True, False):
        rows = scores[waterbird == label]
        side = on_water[waterbird == label]
        gap = np.abs(rows[side].mean(0) - rows[~side].mean(0)) / rows.std(0)
        assert gap.max() < 0.5


def test_files_and_images_in_memory_are_encoded_alike(mini, tmp_path):
    scenes = sample_scenes(4, agreement=0.5, seed=SEED)
    images = [draw_scene(scenes.scene(row), scenes.seeds[row]) for row in range(4)]
    for row, image in enumerate(images):
        image.save(tmp_path / f"{row}.png")
    encoded = cq.embed(tmp_path, mini, tmp_path / "embeddings")
    assert np.allclose(encoded.vectors(), mini.encode_images(images), atol=1e-6)
    assert mini.encode_images([Image.new("L", (300, 200), 90)]).shape == (1, mini.dim)


def test_a_folder_of_its_vectors_finds_it_again_by_name(mini, tmp_path):
    scenes = sample_scenes(3, agreement=0.5, seed=SEED)
    for row in range(3):
        draw_scene(scenes.scene(row), scenes.seeds[row]).save(tmp_path / f"{row}.png")
    cq.embed(tmp_path, mini, tmp_path / "embeddings")
    table = cq.score(cq.Embeddings.load(tmp_path / "embeddings"), ["sea", "webbed feet"])
    assert table.provenance.backbone.name == "mini"
    assert table.provenance.backbone.identity == mini.identity


def test_a_folder_of_that_name_is_found_by_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mini").mkdir()
    assert isinstance(cq.load_backbone("mini"), MiniBackbone)
    for path in ("./mini", Path("mini")):
        with pytest.raises(ChoqolateError, match=r"expected a checkpoint with config\.json"):
            cq.load_backbone(path)


def test_some_unknown_words_are_named_with_some_known_ones(mini):
    with pytest.raises(ChoqolateError) as caught:
        mini.encode_texts(["webbed feet", "a photo of a Zeppelin over Graz", "sea"])
    message = str(caught.value)
    assert "never saw 'zeppelin', 'over', 'graz':" in message
    assert f"knows '{mini.known[0]}', " in message
    with pytest.raises(ChoqolateError) as caught:
        mini.encode_texts([f"thing{k}" for k in range(20)])
    assert "'thing4' and 15 more:" in str(caught.value)
    assert len(str(caught.value)) < 400
    assert set(BIRDS.concepts) <= set(mini.known)  # which the message names


@pytest.mark.parametrize("text", ["", "  ", "a photo of the", "!?"])
def test_texts_without_a_word_are_refused(mini, text):
    with pytest.raises(ChoqolateError, match="expected texts that say how something looks"):
        mini.encode_texts([text])


@pytest.mark.parametrize("label", BIRDS.classes)
def test_the_classes_are_no_words_of_its_captions(mini, label):
    with pytest.raises(ChoqolateError, match=label):
        mini.encode_texts([label])


def test_prompts_capitals_and_punctuation_change_nothing(mini):
    plain, *others = mini.encode_texts(
        [
            *("webbed feet", "Webbed  FEET", "a photo of a bird with webbed feet.", "'webbed feet'", "webbed-feet"),
            *("webbed_feet", "this is a bird that has webbed feet", "the bird’s webbed feet"),
        ]
    )
    for other in others:
        assert np.allclose(plain, other, atol=1e-6)


def test_an_unseen_pair_of_known_words_is_read_as_its_words(mini):
    """ "spotted sea" has no vector of its own: chance buckets of the hash do not count."""
    one, other = mini.encode_texts(["spotted sea", "spotted, sea"])
    assert np.allclose(one, other, atol=1e-6)


def test_phrases_end_at_fillers_and_punctuation():
    assert phrases("long neck and short legs; the sea") == [("long", "neck"), ("short", "legs"), ("sea",)]
    assert phrases(" ".join(sorted(FILLERS))) == []
    assert len(features("long neck")) == 3  # two words and a pair
    assert len(features("long, neck")) == 2


def test_weights_are_small_and_in_half_precision():
    from safetensors.numpy import load

    content = files("choqolate.concepts").joinpath("mini.safetensors").read_bytes()
    assert len(content) < 3_000_000
    weights = load(content)
    kinds = {str(weight.dtype) for name, weight in weights.items() if "num_batches" not in name}
    assert kinds == {"float16"}
    assert sum(weight.size for weight in weights.values()) < 800_000


def test_no_network_is_asked(monkeypatch, tmp_path):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("asked for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    scenes = sample_scenes(12, agreement=0.5, seed=SEED)
    for row in range(12):
        draw_scene(scenes.scene(row), scenes.seeds[row]).save(tmp_path / f"{row}.png")
    backbone = cq.load_backbone("mini")
    assert cq.score(cq.embed(tmp_path, backbone, tmp_path / "vectors"), ["sea"], backbone).scores.shape == (12, 1)
