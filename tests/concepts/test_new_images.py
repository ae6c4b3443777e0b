"""New images for a trained model, from their pixels."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

import choqolate as cq
from choqolate.concepts.new_images import ImageScorer, find_images, read_image, score_for_model
from choqolate.estimators.table_inputs import inputs
from choqolate.estimators.table_training import fit_scores
from tests.tiny import write_clip


class Place(NamedTuple):
    """Where images are, and what was made of them."""

    folder: Path
    rows: cq.Manifest
    scores: cq.ConceptScores
    model: cq.ChoqolateClassifier


WORDS = ["webbed feet | paddle feet", "clawed feet", "sea", "forest"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Drawn birds, their scores by a tiny CLIP with synonyms and two templates, and a model trained on them."""
    folder = tmp_path_factory.mktemp("place")
    rows = cq.datasets.birds.render_birds(folder / "birds", 80, seed=1)
    backbone = cq.load_backbone(write_clip(folder / "clip"))
    vocabulary = cq.Vocabulary.parse(WORDS[:2], spurious=WORDS[2:], templates=("{}", "a photo of {}"))
    scores = cq.score(cq.embed(rows, backbone, folder / "embeddings", workers=0), vocabulary, backbone)
    return Place(folder, rows, scores, fit_scores(scores, n_nodes=3, epochs=5, device="cpu"))


def test_scores_of_an_image_are_those_it_was_trained_with(place):
    files = place.rows.files()[:5]
    found = score_for_model(place.model, files)
    assert found.concepts == place.scores.concepts
    assert found.spurious == ("sea", "forest")
    np.testing.assert_allclose(found.scores, place.scores.scores[:5], atol=1e-5)
    assert found.paths.tolist() == files
    np.testing.assert_array_equal(
        place.model.predict(inputs(place.model, found)),
        place.model.predict(inputs(place.model, place.scores.take(range(5)))),
    )


def test_the_product_of_an_image_has_the_same_bits_in_every_batch(place):
    scorer = ImageScorer.of(place.model)
    vectors = np.random.default_rng(0).standard_normal((70, scorer.encoder.dim)).astype(np.float32)
    together = scorer.compare(vectors)
    assert np.array_equal(np.concatenate([scorer.compare(vector[None]) for vector in vectors]), together)


def test_a_model_that_was_saved_and_loaded_still_knows_how(place, tmp_path):
    place.model.save(tmp_path / "model")
    found = score_for_model(cq.load(tmp_path / "model"), place.rows.files()[0])
    np.testing.assert_allclose(found.scores, place.scores.scores[:1], atol=1e-5)


def test_concepts_left_out_of_training_are_not_asked_for(place):
    without = fit_scores(place.scores, leave_out=["sea"], n_nodes=3, epochs=2, device="cpu")
    assert score_for_model(without, place.rows.files()[:1]).concepts == ("webbed feet", "clawed feet", "forest")


def test_an_encoder_that_has_moved_is_passed(place, tmp_path):
    moved = tmp_path / "moved"
    (place.folder / "clip").rename(moved)
    try:
        with pytest.raises(cq.ChoqolateError, match=r"cannot be loaded.*pass that as the backbone"):
            score_for_model(place.model, place.rows.files()[:1])
        for backbone in (moved, str(moved), cq.load_backbone(moved)):
            found = score_for_model(place.model, place.rows.files()[:1], backbone=backbone)
            np.testing.assert_allclose(found.scores, place.scores.scores[:1], atol=1e-5)
    finally:
        moved.rename(place.folder / "clip")


def test_another_encoder_is_refused(place, tmp_path):
    other = write_clip(tmp_path / "other", seed=7)
    with pytest.raises(cq.ChoqolateError, match="expected the encoder that the model was trained with"):
        score_for_model(place.model, place.rows.files()[:1], backbone=str(other))


def test_a_model_that_does_not_say_how_its_scores_were_made_is_refused(place):
    plain = cq.ChoqolateClassifier(n_nodes=2, epochs=2).fit(place.scores.frame, place.scores.labels)
    with pytest.raises(cq.ChoqolateError, match="says how its scores were made"):
        score_for_model(plain, place.rows.files()[:1])


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.write_bytes(b""), "the file is empty"),
        (lambda path: path.write_bytes(b"not an image"), "not an image"),
        (lambda path: path.mkdir(), "not a file"),
    ],
)
def test_a_file_that_is_no_image_is_named_with_the_reason(place, tmp_path, write, reason):
    path = tmp_path / "photo.jpg"
    write(path)
    with pytest.raises(cq.ChoqolateError, match=f"photo.jpg cannot be read: .*{reason}"):
        score_for_model(place.model, [path])
    with pytest.raises(cq.ChoqolateError, match="at least one image"):
        score_for_model(place.model, [])


def test_images_come_upright_and_in_colour(tmp_path):
    sideways = Image.new("L", (40, 20), 128)
    exif = sideways.getexif()
    exif[0x0112] = 6  # turned by 90 degrees
    sideways.save(tmp_path / "photo.jpg", exif=exif)
    image = read_image(tmp_path / "photo.jpg")
    assert image.size == (20, 40)
    assert image.mode == "RGB"


def test_images_of_a_table_are_found_where_they_were_or_are(place, tmp_path):
    assert all(path.is_file() for path in find_images(place.scores))
    (place.folder / "birds").rename(tmp_path / "birds")
    try:
        assert find_images(place.scores) == [None] * len(place.scores)
        assert all(find_images(place.scores, tmp_path / "birds"))
    finally:
        (tmp_path / "birds").rename(place.folder / "birds")
    with pytest.raises(cq.ChoqolateError, match="found none"):
        find_images(place.scores, tmp_path)
