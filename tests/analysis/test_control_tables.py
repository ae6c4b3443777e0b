"""Tables of concepts that mean nothing to the task."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import choqolate as cq
from choqolate.analysis.control_tables import EVERYDAY, control_source, control_table
from choqolate.concepts.word_forms import inflection_key
from choqolate.datasets.base import words
from choqolate.datasets.birds import render_birds
from tests.concepts.image_files import write_album
from tests.reports import bird_table


def _others(table: cq.ConceptScores, names: list[str], **columns) -> cq.ConceptScores:
    scores = np.random.default_rng(7).random((len(table), len(names)))
    return cq.ConceptScores(scores, names, rows=table.rows, **columns)


@pytest.fixture(scope="module")
def table():
    return bird_table(None, 120)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    from tests.tiny import write_clip

    return cq.load_backbone(write_clip(tmp_path_factory.mktemp("controls") / "clip"))


@pytest.fixture(scope="module")
def embeddings(clip, tmp_path_factory):
    folder = tmp_path_factory.mktemp("controls")
    album = cq.Manifest(folder / "album", write_album(folder / "album", 24))
    return cq.embed(album, clip, folder / "vectors", workers=0)


@pytest.fixture(scope="module")
def scored(embeddings, clip):
    vocabulary = cq.Vocabulary.parse(["sea", "kettle", "long bill | beak"], templates=["a {}."])
    return cq.score(embeddings, vocabulary, clip)


def test_rows_stay_and_concepts_are_new(table):
    others = _others(table, [f"thing {chr(97 + j)}" for j in range(20)])
    for kind in ("names", "directions"):
        control = control_table(table, kind, seed=0, others=others)
        for column in ("labels", "split", "groups", "paths"):
            assert getattr(control, column).tolist() == getattr(table, column).tolist()
        assert control.classes == table.classes
        assert control.spurious == ()
        assert len(control.concepts) == len(table.concepts)
        assert not set(control.concepts) & set(table.concepts)
        assert control.provenance.backbone == table.provenance.backbone
        assert control.provenance.vocabulary.concepts == control.concepts


def test_scores_of_drawn_names_are_those_of_the_other_table(table):
    others = _others(table, [f"thing {chr(97 + j)}" for j in range(20)])

    control = control_table(table, "names", seed=3, others=others)

    assert (control.scores == others.select(control.concepts).scores).all()
    assert control_source(control) == "drawn from another table of scores"


def test_the_seed_decides(table):
    others = _others(table, [f"thing {chr(97 + j)}" for j in range(20)])
    for kind in ("names", "directions"):
        first, again, other = (control_table(table, kind, seed=seed, others=others) for seed in (1, 1, 2))
        assert first.fingerprint == again.fingerprint != other.fingerprint
        assert pickle.loads(pickle.dumps(first)).fingerprint == first.fingerprint


def test_concepts_and_classes_of_the_table_are_never_drawn(table):
    meaningless = ["ladle", "kites", "anvil", "moat", "riddle", "clown"]
    telling = ["Sea", "forests", "Webbed-Feet", "WATERBIRD", "landbirds", "a waterbird nest", "Kite", "ladles"]
    others = _others(table, telling[:6] + meaningless + telling[6:])

    for seed in range(5):
        assert sorted(control_table(table, "names", seed=seed, others=others).concepts) == sorted(meaningless)


def test_the_rows_of_the_other_table_are_found_by_path(table):
    others = _others(table, [f"thing {chr(97 + j)}" for j in range(8)])
    mixed = others.take(np.random.default_rng(0).permutation(len(others)))

    found = control_table(table.take(slice(0, 50)), "names", seed=0, others=mixed)

    assert (found.scores == control_table(table, "names", seed=0, others=others).scores[:50]).all()


def test_other_tables_have_to_be_of_the_same_images(table):
    names = [f"thing {chr(97 + j)}" for j in range(8)]
    others, bare = _others(table, names), table.with_columns(paths=None)
    with pytest.raises(cq.ChoqolateError, match=r"same images.*, but 20 of the 120 paths are not in it"):
        control_table(table, "names", seed=0, others=others.take(slice(20, None)))
    with pytest.raises(cq.ChoqolateError, match=r"it has 119 rows instead of 120"):
        control_table(bare, "names", seed=0, others=others.take(slice(1, None)))
    with pytest.raises(cq.ChoqolateError, match="its labels differ"):
        control_table(bare, "names", seed=0, others=others.with_columns(labels=table.labels[::-1]))
    assert len(control_table(bare, "names", seed=0, others=others)) == 120


def test_too_few_names_are_refused(table):
    with pytest.raises(cq.ChoqolateError, match=r"at least 6 random names.*only 1 that are neither"):
        control_table(table, "names", seed=0, others=_others(table, ["sea", "forest", "moat"]))


def test_names_need_scores_or_embeddings(table):
    with pytest.raises(cq.ChoqolateError, match="other names or embeddings of the images"):
        control_table(table, "names", seed=0)


def test_directions_without_embeddings_are_mixtures_of_the_scores(table):
    control = control_table(table, "directions", seed=0)

    mixtures = np.linalg.lstsq(table.scores, control.scores, rcond=None)[0]  # of 120 rows, so it need not fit
    assert np.linalg.matrix_rank(mixtures) == len(table.concepts)
    assert np.allclose(table.scores @ mixtures, control.scores)
    assert "mixtures of the scores" in control_source(control)


def test_directions_with_embeddings_are_cosines_of_vectors_of_the_space(scored, embeddings):
    control = control_table(scored, "directions", seed=0, embeddings=embeddings)

    images = embeddings.vectors()  # 24 of 16 dimensions, so it need not fit
    vectors = np.linalg.lstsq(images, control.scores, rcond=None)[0]
    assert np.allclose(images @ vectors, control.scores, atol=1e-5)
    assert np.linalg.norm(vectors, axis=0) == pytest.approx(1, abs=1e-3)
    few = control_table(scored.take([7, 3]), "directions", seed=0, embeddings=embeddings)
    assert (few.scores == control.scores[[7, 3]]).all()
    assert control_source(control) == "drawn in the embedding space"


def test_everyday_names_are_scored_by_the_backbone_with_the_templates_of_the_table(scored, embeddings, clip):
    control = control_table(scored.take([7, 3, 5]), "names", seed=1, embeddings=embeddings, backbone=clip)

    assert set(control.concepts) <= set(words(EVERYDAY)) - {"kettle"}
    vocabulary = cq.Vocabulary(control.concepts, templates=["a {}."])
    assert np.allclose(control.scores, cq.score(embeddings, vocabulary, clip).scores[[7, 3, 5]])
    assert control.provenance.vocabulary.templates == ("a {}.",)


def test_an_encoder_that_does_not_know_the_names_asks_for_another_table(tmp_path):
    rows = render_birds(tmp_path / "images", 40, parts=("train",), verbose=False)
    found = cq.embed(rows, cq.load_backbone("mini"), tmp_path / "vectors", workers=0)
    table = cq.score(found, ["sea", "forest"])

    with pytest.raises(cq.ChoqolateError, match=r"never saw .* Give others .*or use random directions"):
        control_table(table, "names", seed=0, embeddings=found)
    assert control_table(table, "directions", seed=0, embeddings=found).scores.shape == table.scores.shape


def test_unknown_kinds_are_refused(table):
    with pytest.raises(cq.ChoqolateError, match="kind to be one of names, directions"):
        control_table(table, "words", seed=0)


def test_the_list_of_everyday_names_has_each_word_once():
    names = words(EVERYDAY)

    assert len({inflection_key(name) for name in names}) == len(names) > 500
    assert list(names) == sorted(names)
