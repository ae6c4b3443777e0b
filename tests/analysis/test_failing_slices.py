"""Suspects without groups: counts and intervals against loops, what is found, and what is said where little can be."""

import warnings

import numpy as np
import pytest
from scipy.stats import fisher_exact

import choqolate as cq
from choqolate.analysis.failing_slices import find_failing_slices
from choqolate.errors import SmallRemainderWarning
from choqolate.metrics import Proportion, difference_interval
from tests.small_tables import bird_scores

BACKGROUND = {"sea", "forest"}


def table(n_rows=600, agreement=0.95, seed=0, **columns):
    X, labels, groups = bird_scores(n_rows, agreement=agreement, seed=seed)
    kept = {"labels": labels, "groups": groups, "spurious": ["sea", "forest"]} | columns
    return cq.ConceptScores(X.to_numpy(), list(X.columns), **kept)


@pytest.fixture(scope="module")
def biased():
    """Biased rows to train on, unbiased ones to test on, and a model; nobody has labelled groups."""
    train, test = table(600), table(600, agreement=0.5, seed=1)
    whole = cq.ConceptScores(
        np.concatenate([train.scores, test.scores]),
        train.concepts,
        labels=[*train.labels, *test.labels],
        split=["train"] * 600 + ["test"] * 600,
        spurious=["sea", "forest"],
    )
    return whole, cq.fit_scores(whole, n_nodes=4, epochs=40, temperature=0.02)


def test_the_background_comes_first(biased):
    scores, model = biased
    found = find_failing_slices(model, scores)
    assert set(found.ranking[:2]) == BACKGROUND
    assert set(found.concepts[:2]) == BACKGROUND
    assert all(one.spurious for one in found.suspects[:2])
    assert found.chosen == "test rows of the table"


def test_the_background_is_gone_once_it_is_removed(biased):
    scores, model = biased
    edited = model.remove_concepts(["sea", "forest"], mode="impute")
    assert not BACKGROUND & set(find_failing_slices(edited, scores).concepts)


def test_counts_and_intervals_are_those_of_loops(biased):
    scores, model = biased
    train, test = scores.part("train"), scores.part("test")
    right = model.predict(test) == test.labels
    found = find_failing_slices(model, scores)
    assert found.tried == 12  # six concepts, two classes, and many images of each kind
    for one in (one for suspect in found.suspects for one in suspect.slices):
        j = scores.concepts.index(one.concept)
        own, others = (train.scores[(train.labels == one.label) == mine, j] for mine in (True, False))
        low, high = sorted([own.mean(), others.mean()])
        assert one.present == (own.mean() < others.mean())
        counts = {True: [0, 0], False: [0, 0]}
        mistakes = []
        for row, (score, label) in enumerate(zip(test.scores[:, j], test.labels, strict=True)):
            if label == one.label:
                failing = (score > (low + high) / 2) == one.present
                counts[failing][0] += int(right[row])
                counts[failing][1] += 1
                mistakes += [row] if failing and not right[row] else []
        assert one.failing == Proportion(*counts[True])
        assert one.others == Proportion(*counts[False])
        assert list(one.mistakes) == mistakes
        assert one.interval == pytest.approx(difference_interval(one.others, one.failing, 1 - 0.05 / 12))
        (wrong, off), (missed, on) = ((n - k, n) for k, n in (one.failing, one.others))
        exact = fisher_exact([[wrong, off - wrong], [missed, on - missed]], alternative="greater").pvalue
        assert one.p_value == pytest.approx(min(1.0, 12 * exact), rel=1e-6)
        expected = np.corrcoef(train.scores[:, j], train.labels == one.label)[0, 1]
        assert one.association == pytest.approx(expected)


def test_suspects_are_worded_as_a_question(biased):
    scores, model = biased
    first = find_failing_slices(model, scores).suspects[0]
    worst = first.slices[0]
    assert first.question.startswith(f"The model fails more often on images of “{worst.label}” with")
    assert first.question.endswith(f"Should “{worst.concept}” matter?")
    right = f"it is correct on {worst.failing.hits} of {worst.failing.rows}, but on {worst.others.hits} of the other"
    assert f"{right} {worst.others.rows} images of the class." in first.question


def test_concepts_that_say_the_same_are_one_suspect(biased):
    scores, _ = biased
    rng = np.random.default_rng(0)
    doubled = np.concatenate([scores.scores, scores.scores[:, [4]] + rng.normal(0, 0.003, (len(scores), 1))], axis=1)
    names = [*scores.concepts, "ocean"]
    whole = cq.ConceptScores(doubled, names, labels=scores.labels, split=scores.split)
    model = cq.fit_scores(whole, n_nodes=4, epochs=40, temperature=0.02)
    found = find_failing_slices(model, whole)
    both = [one for one in found.suspects if "sea" in one.concepts]
    assert len(both) == 1
    assert set(both[0].concepts) == {"sea", "ocean"}
    chain = model.class_attributions_.mean(0) @ model.concept_attributions_
    assert both[0].share == pytest.approx(chain[[4, 6]].sum() / chain.sum())


def test_groups_make_no_difference(biased):
    scores, model = biased
    groups = np.random.default_rng(0).choice(["a", "b"], len(scores))
    found, other = (find_failing_slices(model, one) for one in (scores, scores.with_columns(groups=groups)))
    assert [one.question for one in found.suspects] == [one.question for one in other.suspects]


def test_validation_rows_are_used_if_there_are_enough(biased):
    scores, model = biased
    split = scores.split.copy().astype(object)
    split[600:700] = "val"
    assert find_failing_slices(model, scores.with_columns(split=split)).chosen == "val rows of the table"
    split[620:700] = "test"
    assert find_failing_slices(model, scores.with_columns(split=split)).chosen == "test rows of the table"


def test_too_few_images_are_said_not_computed(biased):
    scores, model = biased
    few = find_failing_slices(model, scores.take(np.r_[:600, 600:612]))
    assert (few.suspects, few.strongest, few.tried) == ((), None, 0)
    assert few.verdict() == (
        "Too few images: at least 10 images of a class with a concept and 10 without it are needed."
    )


def test_a_model_without_mistakes_has_no_suspects(biased):
    scores, model = biased
    right = np.r_[
        np.arange(600), 600 + np.flatnonzero(model.predict(scores.part("test")) == scores.part("test").labels)
    ]
    found = find_failing_slices(model, scores.take(right))
    assert found.suspects == ()
    assert found.verdict().startswith("No image is misclassified (")


def without_influence(model, concepts):
    """A model in which concepts count next to nothing; removed ones would not be looked at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallRemainderWarning)
        return model.reweight_concepts(dict.fromkeys(concepts, 1e-9))


def test_removed_concepts_are_not_asked_about(biased):
    scores, model = biased
    edited = find_failing_slices(model.remove_concepts(["sea", "crest"], mode="impute"), scores)
    assert not {"sea", "crest"} & set(edited.ranking)
    assert edited.tried == 8
    assert "sea" in find_failing_slices(model.remove_concepts("sea", nodes=[0], mode="impute"), scores).ranking


def test_concepts_that_have_nothing_to_do_with_the_mistakes_are_rarely_suspects():
    rng, false_alarms = np.random.default_rng(0), 0
    noise = [f"noise {j}" for j in range(30)]
    train = table(600, agreement=0.5)

    def with_noise(scores):
        return np.concatenate([scores, rng.random((len(scores), 30))], axis=1)

    whole = cq.ConceptScores(with_noise(train.scores), [*train.concepts, *noise], labels=train.labels)
    whole = whole.with_columns(split=["train"] * 600)
    model = without_influence(cq.fit_scores(whole, n_nodes=4, epochs=20), noise)
    for seed in range(20):
        test = table(400, agreement=0.5, seed=seed + 2)
        both = cq.ConceptScores(
            np.concatenate([whole.scores, with_noise(test.scores)]),
            whole.concepts,
            labels=[*train.labels, *test.labels],
            split=["train"] * 600 + ["test"] * 400,
        )
        false_alarms += bool(set(find_failing_slices(model, both).concepts) & set(noise))
    assert false_alarms <= 3  # one in twenty is expected at most; four or more come in 16 of 1,000 such tests


def test_small_slices_and_few_mistakes_raise_no_false_alarm():
    """One in a hundred labels is wrong by a coin, and fifty concepts are rare: intervals alone would see patterns."""
    rng, false_alarms = np.random.default_rng(1), 0
    noise = [f"noise {j}" for j in range(50)]

    def draw(n_rows):
        y = rng.integers(0, 2, n_rows)
        scores = np.column_stack([y + rng.normal(0, 0.05, n_rows), 1 - y, rng.random((n_rows, 50)) < 0.015])
        return scores.astype(float), y

    X, y = draw(1_000)
    train = cq.ConceptScores(X, ["crest", "bill", *noise], labels=np.array(["wren", "gull"])[y])
    model = cq.fit_scores(train.with_columns(split=["train"] * 1_000), n_nodes=2, epochs=10, calibrate=False)
    model = without_influence(model, noise)
    for _ in range(20):
        Z, z = draw(2_000)
        given = np.where(rng.random(2_000) < 0.01, 1 - z, z)
        both = cq.ConceptScores(
            np.concatenate([X, Z]),
            train.concepts,
            labels=[*train.labels, *np.array(["wren", "gull"])[given]],
            split=["train"] * 1_000 + ["test"] * 2_000,
        )
        found = find_failing_slices(model, both)
        assert found.tried > 60
        false_alarms += bool(set(found.concepts) & set(noise))
    assert false_alarms <= 3  # one in twenty is expected at most


@pytest.mark.parametrize("trouble", ["no labels", "unknown label", "unknown in validation"])
def test_training_and_validation_rows_need_no_perfect_labels(biased, trouble):
    scores, model = biased
    labels, split = scores.labels.astype(object), scores.split.astype(object)
    if trouble == "no labels":
        labels[:600] = None
    elif trouble == "unknown label":
        labels[0] = "penguin"
    else:
        split[600:800], labels[600] = "val", "penguin"
    changed = scores.with_columns(labels=labels, split=split, classes=[])
    found = find_failing_slices(model, changed)
    assert found.chosen == "test rows of the table"
    assert set(found.ranking[:2]) == BACKGROUND


def test_many_classes_and_classes_that_have_no_rows():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 800)
    scores = np.eye(4)[y] + rng.normal(0, 0.4, (800, 4))
    labels = np.array(["ant", "bee", "cow", "doe"])[y]
    whole = cq.ConceptScores(scores, ["a", "b", "c", "d"], labels=labels)
    model = cq.fit_scores(whole, n_nodes=4, epochs=30)
    kept = whole.with_split().take(labels != "doe")
    found = find_failing_slices(model, kept)
    assert 0 < found.tried <= 12
    assert {one.label for suspect in found.suspects for one in suspect.slices} <= {"ant", "bee", "cow"}
