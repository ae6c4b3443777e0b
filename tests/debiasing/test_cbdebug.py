from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import choqolate as cq
from choqolate.concepts.new_images import ImageScorer
from choqolate.datasets.birds import BIRDS, render_birds
from choqolate.debiasing import cbdebug, effective_rows, mix_with_concepts, mixing_probabilities, permutation_weights
from choqolate.estimators.table_training import fit_scores_runs
from tests.debiasing.tables import PARAMETERS, SPURIOUS, biased_table, trained


@pytest.fixture(scope="module")
def table():
    return biased_table(400, 0, 400)


@pytest.fixture(scope="module")
def models(table):
    return trained(table)


def test_it_is_a_training_without_the_concepts_with_weights_and_balanced_classes(table, models):
    made = cbdebug(models, table, SPURIOUS)
    train = table.part("train")
    w = permutation_weights(train.labels, train.select(SPURIOUS).scores)
    expected = fit_scores_runs(
        table, [0, 1], leave_out=SPURIOUS, sample_weight=w, **PARAMETERS | {"class_weight": "balanced"}
    )
    X = table.part("test").select(made[0].concepts_).frame
    for one, other in zip(made, expected, strict=True):
        assert not set(one.concepts_) & set(SPURIOUS)
        assert np.array_equal(one.class_scores(X), other.class_scores(X))
        assert one.provenance_.debiasing["effective_rows"] == pytest.approx(effective_rows(w))


def test_weights_help_the_worst_group_of_a_biased_table(table, models):
    def worst(some):
        return np.mean([cq.evaluate(model, table, "test").worst_group[1] for model in some])

    alone = cbdebug(models, table, SPURIOUS, keep_concepts=True)
    assert worst(alone) > worst(models) + 0.1
    assert set(alone[0].concepts_) == set(table.concepts)


def test_weights_can_be_given_and_are_those_of_the_labelled_training_rows(table, models):
    partly = table.with_columns(labels=[None] * 40 + table.labels[40:].tolist())
    labelled = table.take(np.arange(40, len(table)))
    ones = cbdebug(models, partly, SPURIOUS, weights=np.ones(360))
    expected = cbdebug(models, labelled, SPURIOUS, weights=np.ones(360))
    X = table.part("test").select(ones[0].concepts_).frame
    assert np.array_equal(ones[0].class_scores(X), expected[0].class_scores(X))
    with pytest.raises(cq.ChoqolateError, match=r"each of the 400 labelled training rows, but got shape \(360,\)"):
        cbdebug(models, table, SPURIOUS, weights=np.ones(360))
    for wrong in (np.zeros(400), np.full(400, -1.0), np.full(400, np.nan)):
        with pytest.raises(cq.ChoqolateError, match="finite weights of at least zero"):
            cbdebug(models, table, SPURIOUS, weights=wrong)


def test_a_split_that_was_made_for_the_models_is_that_of_the_training(table):
    bare = table.with_columns(split=None)
    models = [cq.fit_scores(bare, **PARAMETERS)]
    (made,) = cbdebug(models, bare, SPURIOUS)
    assert made.provenance_.data.split == "made"
    assert cq.evaluate(made, bare).rows == cq.evaluate(models[0], bare).rows < len(bare)


def test_concepts_that_the_models_were_trained_without_stay_left_out(table):
    gone, *others = [name for name in table.concepts if name not in SPURIOUS]
    models = fit_scores_runs(table, [0], leave_out=[gone], **PARAMETERS)
    (made,) = cbdebug(models, table, SPURIOUS)
    assert made.concepts_ == others
    assert set(made.provenance_.data.left_out) == {gone, *SPURIOUS}
    assert set(cbdebug(models, table, SPURIOUS, keep_concepts=True)[0].concepts_) == {*others, *SPURIOUS}


def test_models_of_other_kinds_and_unknown_concepts_are_refused(table, models):
    other = trained(table, 1, n_nodes=3, epochs=1)
    for several in ([*models, *other], []):
        with pytest.raises(cq.ChoqolateError, match="differ only in their seed"):
            cbdebug(several, table, SPURIOUS)
    with pytest.raises(cq.ChoqolateError, match="lake"):
        cbdebug(models, table, ["lake"])


# ---------------------------------------------------------------- augmentation


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Scores of a few drawn birds by the bundled encoder, and the folder of the images."""
    folder = tmp_path_factory.mktemp("mixup")
    backbone = cq.load_backbone("mini", device="cpu")
    embeddings = cq.embed(render_birds(folder / "birds", 120, workers=1), backbone, folder / "vectors", workers=0)
    table = cq.score(embeddings, cq.Vocabulary.parse(BIRDS.core, BIRDS.spurious), backbone)
    parameters = dict(n_nodes=4, epochs=5, temperature=0.05, device="cpu")
    return table, fit_scores_runs(table, [3, 4], **parameters), folder / "birds"


def test_probabilities_fall_from_the_lightest_to_the_heaviest_row():
    np.testing.assert_allclose(mixing_probabilities(np.array([8.0, 2.0, 4.0, 0.0])), [0, 0.5625, 0.25, 1])


def test_a_mixture_is_scored_as_its_pixels_say(drawn):
    table, models, folder = drawn
    train = table.part("train")
    scorer = ImageScorer.of(models[0])
    shares = np.array([float(name in table.spurious[:2]) for name in table.concepts])
    weights = np.linspace(0.01, 1, len(train))
    mixed = mix_with_concepts(train, weights, shares, scorer, folder, random_state=1)
    assert 0 < len(mixed.rows) < len(train)
    assert mixed.rows.mean() < len(train) / 2  # light rows, which come first, are mixed more often
    assert len(set(mixed.rows.tolist())) == len(mixed.rows)
    best = {row for name in table.spurious[:2] for row in np.argsort(-train.frame[name].to_numpy())[:20]}
    assert set(mixed.partners.tolist()) <= best
    for row, partner, scores in list(zip(*mixed, strict=True))[:5]:
        own, other = (np.asarray(Image.open(folder / train.paths[k]).convert("RGB"), float) for k in (row, partner))
        blend = Image.fromarray((0.75 * own + 0.25 * other).round().astype(np.uint8))
        np.testing.assert_allclose(scores, scorer.score([blend])[0], atol=0.01)


def test_augmentation_trains_on_mixtures_and_leaves_test_rows_alone(drawn):
    table, models, folder = drawn
    plain = cbdebug(models, table, table.spurious)
    augmented = cbdebug(models, table, table.spurious, augment=True, images=folder)
    again = cbdebug(models, table, table.spurious, augment=True, images=folder)
    test = table.part("test").select(plain[0].concepts_).frame
    for one, two, same in zip(plain, augmented, again, strict=True):
        assert not np.array_equal(one.class_scores(test), two.class_scores(test))
        assert two.provenance_.data.fingerprint == one.provenance_.data.fingerprint == table.fingerprint
        assert np.array_equal(two.class_scores(test), same.class_scores(test))
        note = two.provenance_.debiasing
        assert 0 < note["mixed_rows"] <= note["rows"] == 72


def test_augmentation_is_a_training_on_mixtures_of_concepts_drawn_by_their_weight(drawn):
    table, models, folder = drawn
    train = table.part("train")
    w = permutation_weights(train.labels, train.select(table.spurious).scores)
    chains = sum(model.class_attributions_ @ model.node_attributions_ for model in models)
    chains[:, [name not in table.spurious for name in table.concepts]] = 0
    shares = (chains / chains.sum(1, keepdims=True)).mean(0)
    mixed = mix_with_concepts(train, w, shares, ImageScorer.of(models[0]), folder)
    scores = table.scores.copy()
    scores[np.flatnonzero(table.split == "train")[mixed.rows]] = mixed.scores
    own = replace(table, scores=scores)
    parameters = {**models[0].get_params(), "class_weight": "balanced"}
    del parameters["random_state"]
    expected = fit_scores_runs(own, [3, 4], leave_out=table.spurious, sample_weight=w, **parameters)
    made = cbdebug(models, table, table.spurious, augment=True, images=folder)
    X = table.part("test").select(made[0].concepts_).frame
    for one, other in zip(made, expected, strict=True):
        assert np.array_equal(one.class_scores(X), other.class_scores(X))


def test_missing_images_are_counted(drawn, tmp_path):
    table, models, folder = drawn
    train = table.part("train")
    (tmp_path / train.paths[0]).parent.mkdir(parents=True)
    (tmp_path / train.paths[0]).write_bytes((folder / train.paths[0]).read_bytes())
    with pytest.raises(cq.ChoqolateError, match="image files of all 72 training rows, but 71 are missing"):
        cbdebug(models, table, table.spurious, augment=True, images=tmp_path)
