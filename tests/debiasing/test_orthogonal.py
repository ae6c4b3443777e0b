from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import choqolate as cq
from choqolate.debiasing import (
    calibrated_projection,
    calibration_prompts,
    orthogonal_projection,
    project_scores,
    rescaled,
    text_projection,
)
from choqolate.debiasing.orthogonal import part_of, project, vocabulary_of
from choqolate.estimators.table_training import fit_scores
from tests.concepts.image_files import write_album
from tests.debiasing.tables import PARAMETERS, biased_table, trained

D = 6
WORDS = cq.Vocabulary.parse(["webbed feet", "long bill | bill", "crest"], spurious=["sea | ocean", "forest"])


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@st.composite
def some_vectors(draw, most=D - 1):
    """Vectors of which some may repeat or be sums of others."""
    n_free, n_more = draw(st.integers(1, most)), draw(st.integers(0, 3))
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    free = rng.normal(size=(n_free, D))
    mixed = rng.integers(1, 4, size=(n_more, n_free)) @ free
    return np.vstack([free, mixed]) * rng.uniform(0.1, 10, (n_free + n_more, 1))


@given(vectors=some_vectors())
def test_the_projection_is_that_of_the_pseudoinverse(vectors):
    P = orthogonal_projection(vectors)
    z = unit(vectors)
    np.testing.assert_allclose(P, np.eye(D) - np.linalg.pinv(z, rcond=1e-5) @ z, atol=1e-8)


@given(vectors=some_vectors(), x=arrays(float, D, elements=st.floats(-1, 1)))
def test_the_projection_is_one_and_takes_the_vectors_away(vectors, x):
    P = orthogonal_projection(vectors)
    np.testing.assert_allclose(P @ P, P, atol=1e-10)
    np.testing.assert_allclose(P, P.T, atol=1e-12)
    np.testing.assert_allclose(P @ unit(vectors).T, 0, atol=1e-8)
    assert np.linalg.norm(P @ x) <= np.linalg.norm(x) + 1e-12


@given(
    subjects=st.lists(st.integers(0, 2), min_size=2, max_size=12),
    data=st.data(),
    strength=st.sampled_from([0.0, 1.0, 1000.0]),
)
def test_calibration_is_that_of_the_listed_pairs(subjects, data, strength):
    attributes = data.draw(st.lists(st.integers(0, 2), min_size=len(subjects), max_size=len(subjects)))
    rng = np.random.default_rng(len(subjects))
    vectors, prompts = rng.normal(size=(2, D)), rng.normal(size=(len(subjects), D))
    pairs = [
        (i, j)
        for i, j in permutations(range(len(subjects)), 2)
        if subjects[i] == subjects[j] and attributes[i] != attributes[j]
    ]
    if not pairs:
        with pytest.raises(cq.ChoqolateError, match="two spurious words or more"):
            calibrated_projection(vectors, prompts, subjects, attributes, strength=strength)
        return
    z = unit(prompts)
    M = np.mean([np.outer(z[i] - z[j], z[i] - z[j]) for i, j in pairs], axis=0)
    expected = orthogonal_projection(vectors) @ np.linalg.inv(strength * M + np.eye(D))
    P = calibrated_projection(vectors, prompts, subjects, attributes, strength=strength)
    np.testing.assert_allclose(P, expected, atol=1e-9)


def test_strong_calibration_makes_prompts_equal_that_differ_in_the_attribute():
    rng = np.random.default_rng(0)
    subject, attribute = rng.normal(size=(3, D)), 0.5 * rng.normal(size=(2, D))
    z = unit(np.array([s + a for s in subject for a in attribute]))
    subjects, attributes = np.repeat(range(3), 2).tolist(), [0, 1] * 3
    P = calibrated_projection(rng.normal(size=(1, D)), z, subjects, attributes, strength=1e9)
    np.testing.assert_allclose(P @ z[0::2].T, P @ z[1::2].T, atol=1e-5)  # equal in the limit of the strength
    assert (np.linalg.norm(P @ z.T, axis=0) > 1e-3).all()


def test_prompts_are_subjects_with_spurious_words_and_synonyms_are_one_attribute():
    prompts = calibration_prompts(
        ["gull", "wren"], cq.Vocabulary.parse(["sea | ocean", "forest"]), "{subject}, {spurious}"
    )
    assert prompts.texts == [
        "gull, sea", "gull, ocean", "gull, forest", "wren, sea", "wren, ocean", "wren, forest"
    ]  # fmt: skip
    assert prompts.subjects == ["gull"] * 3 + ["wren"] * 3
    assert prompts.attributes == ["sea", "sea", "forest"] * 2
    with pytest.raises(cq.ChoqolateError, match="in the template"):
        calibration_prompts(["gull"], ["sea"], "a {subject}")
    with pytest.raises(cq.ChoqolateError, match="expected subjects"):
        calibration_prompts([], ["sea"])


def test_what_has_no_direction_is_refused():
    with pytest.raises(cq.ChoqolateError, match="none of them zero"):
        orthogonal_projection(np.zeros((1, 3)))
    with pytest.raises(cq.ChoqolateError, match="span all 3"):
        orthogonal_projection(np.eye(3))
    with pytest.raises(cq.ChoqolateError, match="a subject and an attribute for each of the 3 prompts"):
        calibrated_projection(np.ones((1, 3)), np.eye(3), ["a"], ["b"])


# ---------------------------------------------------------------- scores


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    from tests.tiny import write_clip

    return cq.load_backbone(write_clip(tmp_path_factory.mktemp("orthogonal") / "clip"))


@pytest.fixture(scope="module")
def embeddings(backbone, tmp_path_factory):
    folder = tmp_path_factory.mktemp("orthogonal")
    album = cq.Manifest(folder / "album", write_album(folder / "album", 30))
    return cq.embed(album, backbone, folder / "vectors", workers=0)


@pytest.fixture(scope="module")
def projection(embeddings, backbone):
    return text_projection(embeddings, part_of(WORDS, WORDS.spurious), backbone)


def test_scores_are_products_with_projected_unit_vectors(embeddings, backbone, projection):
    table = project_scores(embeddings, WORDS, projection, backbone)
    vectors = {prompt: backbone.encode_texts([prompt])[0] for prompt in WORDS.prompts()}
    spurious = unit(np.array([vectors[word] for word in ("sea", "ocean", "forest")]).astype(float))
    P = np.eye(spurious.shape[1]) - np.linalg.pinv(spurious) @ spurious
    images = embeddings.vectors().astype(float)
    for name, words in zip(WORDS.concepts[:3], (["webbed feet"], ["long bill", "bill"], ["crest"]), strict=True):
        mean = np.mean([unit(vectors[word].astype(float)) for word in words], axis=0)
        np.testing.assert_allclose(table.frame[name], images @ unit(P @ unit(mean)), atol=1e-4)
    assert table.spurious == ("sea", "forest")
    assert table.provenance.projection == {"dimensions": 16, "kept": 13}


def test_spurious_words_themselves_score_nothing(embeddings, backbone, projection):
    table = project_scores(embeddings, WORDS, projection, backbone)
    assert not table.frame[["sea", "forest"]].to_numpy().any()
    assert (np.ptp(table.frame[["webbed feet", "long bill", "crest"]].to_numpy(), axis=0) > 0).all()


@given(vectors=some_vectors(), seed=st.integers(0, 99))
def test_projected_vectors_have_unit_length_or_none(vectors, seed):
    others = np.random.default_rng(10_001 + seed).normal(size=(3, D))
    concepts = np.vstack([others, vectors])
    lengths = np.linalg.norm(project(concepts, orthogonal_projection(vectors)), axis=1)
    np.testing.assert_allclose(lengths, [1.0] * 3 + [0.0] * len(vectors), atol=1e-6)


def test_vectors_are_multiplied_from_the_left():
    P = np.array([[0.0, 2.0], [0.0, 0.0]])  # as calibrated projections, not symmetric
    np.testing.assert_allclose(project([[0.6, 0.8], [1.0, 0.0]], P), [[1.0, 0.0], [0.0, 0.0]], atol=1e-7)


def test_a_table_gives_its_words_rows_and_labels(embeddings, backbone, projection):
    whole = cq.score(embeddings, WORDS, backbone)
    chosen = replace(whole, labels=["gull", "wren"] * 15).take([7, 3, 20]).select(["long bill", "sea"])
    assert vocabulary_of(chosen).synonyms == (("long bill", "bill"), ("sea", "ocean"))
    table = project_scores(embeddings, chosen, projection, backbone)
    expected = project_scores(embeddings, WORDS, projection, backbone).take([7, 3, 20]).select(["long bill", "sea"])
    assert np.array_equal(table.scores, expected.scores)
    assert table.labels.tolist() == ["wren", "wren", "gull"]
    assert table.paths.tolist() == chosen.paths.tolist()
    assert table.provenance.backbone == chosen.provenance.backbone


def test_a_table_that_does_not_know_its_prompts_is_scored_by_its_names(embeddings, backbone, projection):
    table = replace(cq.score(embeddings, ["long bill", "sea"], backbone), provenance={"vocabulary": {"concepts": 7}})
    assert vocabulary_of(table) == cq.Vocabulary(("long bill", "sea"))
    assert not project_scores(embeddings, table, projection, backbone).frame["sea"].any()


def test_without_projection_scores_are_as_they_were(embeddings, backbone):
    table = cq.score(embeddings, WORDS, backbone)
    np.testing.assert_allclose(
        project_scores(embeddings, table, np.eye(16), backbone).scores, table.scores, rtol=0, atol=1e-6
    )


def test_calibrated_projection_of_words(embeddings, backbone):
    spurious = part_of(WORDS, WORDS.spurious)
    P = text_projection(embeddings, spurious, backbone, subjects=["gull", "wren"], template="{subject} {spurious}")
    texts = ["gull sea", "gull ocean", "gull forest", "wren sea", "wren ocean", "wren forest"]
    expected = calibrated_projection(
        backbone.encode_texts(["sea", "ocean", "forest"]),
        backbone.encode_texts(texts),
        ["gull"] * 3 + ["wren"] * 3,
        ["sea", "sea", "forest"] * 2,
    )
    np.testing.assert_allclose(P, expected, atol=1e-3)


def test_embeddings_are_needed(embeddings, backbone, projection):
    table = cq.score(embeddings, WORDS, backbone)
    with pytest.raises(cq.ChoqolateError, match=r"embeddings of the images, got none.*choqolate.embed"):
        project_scores(None, table, projection)
    with pytest.raises(cq.ChoqolateError, match="embeddings of the images, got none"):
        text_projection(None, WORDS)
    with pytest.raises(cq.ChoqolateError, match="by path 30 have none"):
        project_scores(embeddings, replace(table, paths=None), projection, backbone)
    elsewhere = replace(table, paths=["other.jpg", *table.paths[1:]])
    with pytest.raises(cq.ChoqolateError, match="by path 1 have none"):
        project_scores(embeddings, elsewhere, projection, backbone)


# ---------------------------------------------------------------- the same weights on another scale


def test_a_rescaled_model_is_the_same_on_scores_of_another_scale():
    table = biased_table(200, 0, 100)
    model = fit_scores(table, **PARAMETERS)
    other = replace(table, scores=0.3 * table.scores - 5.0)
    again = rescaled(model, other)
    X, Z = table.part("test").frame, other.part("test").frame
    np.testing.assert_allclose(again.class_scores(Z), model.class_scores(X), rtol=0, atol=1e-9)
    np.testing.assert_allclose(again.concept_means_, model.concept_means_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        again.remove_concepts("sea", mode="impute").class_scores(Z),
        model.remove_concepts("sea", mode="impute").class_scores(X),
        rtol=0,
        atol=1e-9,
    )
    assert again.provenance_.data == model.provenance_.data
    assert np.array_equal(model.score_max_, table.part("train").scores.max(0))


def test_the_range_is_that_of_the_training_rows_and_a_constant_concept_stands_at_its_mean(tmp_path):
    table = biased_table(200, 0, 100)
    model = trained(table, 1)[0].remove_concepts("crest", mode="impute")
    scores = table.scores.copy()
    scores[:, -1] = 0.0
    scores[table.split == "test"] *= 10
    again = rescaled(model, replace(table, scores=scores))
    train = scores[table.split == "train"]
    assert np.array_equal(again.score_min_[:-1], train.min(0)[:-1])
    assert np.array_equal(again.score_max_[:-1], train.max(0)[:-1])
    assert again.concept_means_[-1] == pytest.approx(model.concept_means_[-1], abs=1e-12)
    frozen = model.remove_concepts(table.concepts[-1], mode="impute")
    same = replace(table, scores=np.where(np.arange(len(table.concepts)) < 5, table.scores, 0.0))
    X = table.part("test")
    np.testing.assert_allclose(
        rescaled(model, same).class_scores(same.part("test").frame), frozen.class_scores(X.frame), atol=1e-9
    )
    assert again.removal_.concepts == ("crest",)
    again.save(tmp_path / "model")
    X = table.part("test").frame
    assert np.array_equal(cq.load(tmp_path / "model").class_scores(X), again.class_scores(X))
