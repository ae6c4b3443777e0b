"""Choosing concepts: what is dropped and why, and that nothing but training rows counts."""

import csv

import numpy as np
import pytest

from choqolate.concepts.backbones import load_backbone
from choqolate.concepts.embedding import embed
from choqolate.concepts.vocabulary import Vocabulary
from choqolate.concepts.vocabulary_choice import choose_vocabulary, open_source
from choqolate.concepts.word_evidence import ClassRows, evidence_from_images, evidence_from_scores, find_leaders
from choqolate.concepts.word_forms import ClassNames
from choqolate.concepts.word_selection import cluster_medoids, most_relevant
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from tests.concepts.image_files import write_album


def table(n_rows=240, n_words=30, seed=0):
    """Scores of words in six families, for three classes; the last two words are constant and a copy."""
    rng = np.random.default_rng(seed)
    labels = np.array(["gull", "wren", "duck"])[rng.integers(0, 3, n_rows)]
    families = rng.normal(size=(n_rows, 6))
    families[:, :3] += 2 * (labels[:, None] == ["gull", "wren", "duck"])
    scores = families[:, np.arange(n_words) % 6] + 0.6 * rng.normal(size=(n_rows, n_words))
    scores[:, -2], scores[:, -1] = 0.2, 3 * scores[:, 0] + 1
    names = [f"{'abcdef'[i % 6]}{'ghijk'[i // 6]}" for i in range(n_words)]
    split = np.array(["train", "train", "val", "test"])[np.arange(n_rows) % 4]
    return ConceptScores(scores, names, labels=labels, split=split)


@pytest.mark.parametrize(
    ("word", "how"),
    [
        ("Dogs", "names"),
        ("dog collar", "contains"),
        ("a hot-dog", "contains"),
        ("dogma", None),
        ("laysan albatrosses", "names"),
        ("albatross", "part"),
        ("laysan", None),
        ("stripes", "names"),
        ("strip mall", "contains"),
        ("wheel chair", "names"),
        ("weelchair", "names"),
        ("wheel", None),
    ],
)
def test_words_that_give_a_class_away(word, how):
    names = ClassNames(["dog", "001.Laysan_Albatross", "striped", "wheelchair", "7"])
    assert len(names) == 4
    match = names.match(word)
    assert (match and match.how) == how


def test_text_steps_need_no_images():
    words = [
        "whiskers",
        "cat food",
        "the whisker",
        "Whiskers",
        "...",
        "a very long description of something",
        "tabby cat",
    ]
    choice = choose_vocabulary(words, classes=["cats"], max_words=4)
    assert choice.vocabulary.concepts == ("whiskers",)
    assert choice.counts() == {"repeat": 1, "no letter": 1, "length": 1, "class": 2, "duplicate": 1}
    kept = choose_vocabulary(words, classes=["cats"], keep_class_phrases=True).vocabulary.concepts
    assert "cat food" in kept
    with pytest.raises(ChoqolateError, match="all were dropped"):
        choose_vocabulary(["cat", "cats"], classes=["cat"])
    with pytest.raises(ChoqolateError, match="images to choose 3 words"):
        choose_vocabulary(words, keep=3)


def test_near_duplicates_are_those_of_the_whole_matrix(monkeypatch):
    monkeypatch.setattr("choqolate.concepts.word_evidence._BLOCK", 16)
    monkeypatch.setattr("choqolate.concepts.word_evidence._LEADERS", 8)
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(100, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    expected, kept = {}, []
    for word in range(100):
        near = [other for other in kept if rows[word] @ rows[other] >= 0.9]
        if near:
            expected[word] = max(near, key=lambda other: rows[word] @ rows[other])
        else:
            kept.append(word)
    found = find_leaders(rows, 0.9)
    assert {word: leader.word for word, leader in found.items()} == expected
    assert 20 < len(expected) < 100


def test_evidence_is_plain_correlation(monkeypatch):
    monkeypatch.setattr("choqolate.concepts.word_evidence._BLOCK_SCORES", 150)  # three words at a time
    rng = np.random.default_rng(0)
    images, texts = rng.normal(size=(50, 8)) + 1, rng.normal(size=(20, 8))
    labels = np.array(["a", "b", "c"])[np.arange(50) % 3]
    classes = ClassRows.of(labels)
    scores = images @ texts.T
    expected = np.corrcoef(scores.T)
    membership = np.array([[np.corrcoef(column, labels == name)[0, 1] for name in "abc"] for column in scores.T])
    for found in (
        evidence_from_scores(scores, classes),
        evidence_from_images([images[:30], images[30:]], texts, classes),
    ):
        np.testing.assert_allclose(found.directions @ found.directions.T, expected, atol=1e-5)
        np.testing.assert_allclose(found.spread, scores.std(axis=0), rtol=1e-6)
        np.testing.assert_allclose(found.relevance, membership, atol=1e-6)


def test_the_most_relevant_words_by_explicit_regression():
    """Each step against least squares on the words chosen before."""
    scores = table().scores[:, :28]
    labels = table().labels
    columns = (scores - scores.mean(0)) / scores.std(0)
    targets = np.stack([labels == name for name in np.unique(labels)], 1).astype(float)
    targets = (targets - targets.mean(0)) / targets.std(0)
    found = evidence_from_scores(scores, ClassRows.of(labels))
    chosen = most_relevant(found.relevance, found.directions, 8)
    for step, word in enumerate(chosen):
        before = columns[:, chosen[:step]]
        rest = columns - before @ np.linalg.lstsq(before, columns, rcond=None)[0] if step else columns
        gain = (np.clip(rest.T @ targets / len(rest), 0, None) ** 2).sum(1) / ((rest**2).mean(0) + 0.1)
        gain[chosen[:step]] = -1
        assert word == gain.argmax()


def test_medoids_are_members_of_their_clusters():
    rng = np.random.default_rng(0)
    centers = np.eye(4)
    rows = np.repeat(centers, 10, axis=0) + 0.1 * rng.normal(size=(40, 4))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    stands_for = cluster_medoids(rows, 4)
    kept = np.unique(stands_for)
    assert sorted(kept // 10) == [0, 1, 2, 3]
    assert (stands_for // 10 == np.arange(40) // 10).all()
    for word in kept:
        members = rows[word // 10 * 10 : word // 10 * 10 + 10]
        assert (rows[word] @ members.mean(0)) == pytest.approx((members @ members.mean(0)).max())


@pytest.mark.parametrize("by", ["medoids", "relevance"])
def test_only_training_rows_count(by):
    given = table()
    choice = choose_vocabulary(given.concepts, given, keep=6, by=by)
    assert len(choice.vocabulary) == 6
    assert choice.counts() == {"duplicate": 1, "constant": 1, "not chosen": 22}
    rng = np.random.default_rng(5)
    other = given.split != "train"
    scores, labels = given.scores.copy(), given.labels.copy()
    scores[other] = rng.permuted(scores[other], axis=0) * 7
    labels[other] = rng.permutation(labels[other])
    changed = ConceptScores(scores, given.concepts, labels=labels, split=given.split)
    again = choose_vocabulary(given.concepts, changed, keep=6, by=by)
    assert again.vocabulary == choice.vocabulary
    assert again.dropped == choice.dropped
    if by == "medoids":
        assert {name[0] for name in choice.vocabulary.concepts} == set("abcdef")  # one word of each family
    else:
        assert {name[0] for name in choice.vocabulary.concepts[:3]} & set("abc")


def test_words_without_scores_and_tables_without_labels():
    given = table()
    choice = choose_vocabulary(["nothing", "AG", "bg"], given)
    assert choice.vocabulary.concepts == ("AG", "bg")  # as the list spells it
    assert [(word.word, word.reason) for word in choice.dropped] == [("nothing", "unscored")]
    with pytest.raises(ChoqolateError, match="labels"):
        choose_vocabulary(given.concepts, given.with_columns(labels=None), keep=3, by="relevance")
    with pytest.raises(ChoqolateError, match="by"):
        choose_vocabulary(given.concepts, given, by="luck")


def test_what_is_saved_can_be_read_again(tmp_path):
    choice = choose_vocabulary(["sea | ocean", "gull", "forest"], classes=["gull"])
    choice.save(tmp_path / "concepts.txt")
    choice.save_report(tmp_path / "dropped.csv")
    assert Vocabulary.read(tmp_path / "concepts.txt") == choice.vocabulary
    with open(tmp_path / "dropped.csv", encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [
            ["word", "reason", "detail", "other"],
            ["gull", "class", "names the class 'gull'", "gull"],
        ]
    assert choice.lines()[-1] == "kept 2 of 3 words"


def test_words_are_chosen_on_embeddings_as_on_their_scores(tmp_path, clip_folder):
    for index, label in enumerate(("gull", "wren")):
        write_album(tmp_path / "photos" / label, 12, first=12 * index)
    words = [f"{a}{b} {c}" for a in "bcdfghk" for b in "aeiou" for c in ("sea", "lake")]
    encoder = load_backbone(clip_folder)
    images = open_source(tmp_path / "photos", backbone=encoder)
    relaxed = {"class_at": 2, "similar_at": 2, "correlated_at": 2, "min_spread": 0}
    found = choose_vocabulary(words, images, keep=5, by="relevance", backbone=encoder, **relaxed)
    from choqolate.concepts.scoring import score

    scores = score(images, words, encoder).with_split()
    assert found.vocabulary == choose_vocabulary(words, scores, keep=5, by="relevance", **relaxed).vocabulary
    strict = choose_vocabulary(words, images, backbone=encoder, similar_at=0.5, class_at=0.3)
    assert {"class", "duplicate"} <= set(strict.counts())
    assert any("cosine" in word.detail for word in strict.dropped)


def test_sources_are_told_apart(tmp_path, clip_folder):
    given = table()
    given.save(tmp_path / "scores.csv")
    assert open_source(tmp_path / "scores.csv").concepts == given.concepts
    write_album(tmp_path / "photos", 3)
    encoder = load_backbone(clip_folder)
    embed(tmp_path / "photos", encoder, tmp_path / "kept")
    assert len(open_source(tmp_path / "kept")) == 3
    (tmp_path / "list.csv").write_text(
        "path\n" + "".join(f"{p.relative_to(tmp_path)}\n" for p in sorted((tmp_path / "photos").iterdir()))
    )
    assert len(open_source(tmp_path / "list.csv", backbone=encoder)) == 3
    with pytest.raises(ChoqolateError, match="none\\.parquet"):
        open_source(tmp_path / "none.parquet")


def test_relevance_needs_two_classes_among_the_training_rows():
    rng = np.random.default_rng(0)
    labels, split = ["gull"] * 9 + ["wren"], ["train"] * 9 + ["test"]
    scores = ConceptScores(rng.random((10, 3)), ["sea", "sand", "wood"], labels=labels, split=split)
    with pytest.raises(ChoqolateError, match="training rows of at least two classes"):
        choose_vocabulary(scores.concepts, scores, keep=2, by="relevance")
    assert len(choose_vocabulary(scores.concepts, scores, keep=2).vocabulary) == 2
