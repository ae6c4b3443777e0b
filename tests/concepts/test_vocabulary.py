"""Vocabularies: what a list of concepts may look like, and how prompts become one vector a concept."""

import json
import math
import string
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from choqolate.concepts.vocabulary import Vocabulary
from choqolate.data.provenance import VocabularyRecord
from choqolate.errors import ChoqolateError, ChoqolateWarning


def test_lines_become_concepts():
    words = Vocabulary.parse(["# birds", "", "  sea|ocean | the deep ", "a short, conical bill", "\t# more"])
    assert words.concepts == ("sea", "a short, conical bill")
    assert words.synonyms == (("sea", "ocean", "the deep"), ("a short, conical bill",))
    assert words.spurious == ()
    assert words.prompts() == ["sea", "ocean", "the deep", "a short, conical bill"]
    assert len(words) == 2


def test_spurious_concepts_are_appended():
    words = Vocabulary.parse(["bill"], spurious=["sea | ocean", "forest"])
    assert words.concepts == ("bill", "sea", "forest")
    assert words.spurious == ("sea", "forest")
    with pytest.raises(ChoqolateError, match="'bill' in both"):
        Vocabulary.parse(["bill"], spurious=["bill | beak"])


def test_a_concept_listed_twice_is_used_once_and_named():
    with pytest.warns(ChoqolateWarning, match="'a bill'") as caught:
        words = Vocabulary.parse(["a bill | beak", "crest", "a bill | nib"])
    assert caught[0].filename == __file__
    assert words.concepts == ("a bill", "crest")
    assert words.synonyms[0] == ("a bill", "beak", "nib")


def test_the_warning_points_at_the_reader_of_a_file(tmp_path):
    (tmp_path / "words.txt").write_text("sea\nsea\n")
    with pytest.warns(ChoqolateWarning, match="'sea'") as caught:
        assert Vocabulary.read(tmp_path / "words.txt").concepts == ("sea",)
    assert caught[0].filename == __file__


def test_a_word_may_stand_for_two_concepts():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        words = Vocabulary.parse(["crane | bird", "gull | bird"])
    assert words.prompts() == ["crane", "bird", "gull"]


@pytest.mark.parametrize(
    "text", ["sea\r\nbirch tree\r\n", "\ufeffsea\nbirch tree", "# list\n\nsea\n  birch tree  \n\n"]
)
def test_text_files_of_every_editor(tmp_path, text):
    path = tmp_path / "words.txt"
    path.write_bytes(text.encode())
    assert Vocabulary.read(path).concepts == ("sea", "birch tree")
    assert Vocabulary.read(str(path)).concepts == ("sea", "birch tree")


def test_spurious_concepts_from_a_second_file(tmp_path):
    (tmp_path / "core.txt").write_text("bill\n")
    (tmp_path / "spurious.txt").write_text("sea\n")
    words = Vocabulary.read(tmp_path / "core.txt", spurious=tmp_path / "spurious.txt", templates=["a {}"])
    assert (words.concepts, words.spurious, words.templates) == (("bill", "sea"), ("sea",), ("a {}",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has none"),
        (b"# nothing\n\n", "has none"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "UTF-8"),
        (b"PK\x03\x04\x00\x00", "binary"),
        ("café".encode("latin-1"), "UTF-8"),
        ("sea\n".encode("utf-16"), "UTF-8"),
    ],
)
def test_files_that_hold_no_words(tmp_path, content, message):
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    with pytest.raises(ChoqolateError, match=message) as caught:
        Vocabulary.read(path)
    assert str(path) in str(caught.value)


def test_missing_files_and_folders(tmp_path):
    for path in (tmp_path / "none.txt", tmp_path):
        with pytest.raises(ChoqolateError, match="cannot be read") as caught:
            Vocabulary.read(path)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"lines": []}, "at least one concept"),
        ({"lines": ["sea |"]}, "both sides"),
        ({"lines": ["| sea"]}, "both sides"),
        ({"lines": ["sea"], "templates": []}, "at least one template"),
        ({"lines": ["sea"], "templates": ["a photo"]}, r'as in "a photo of a {}\."'),
        ({"lines": ["sea"], "templates": ["{} and {}"]}, "once in every template"),
        ({"lines": ["sea"], "templates": "a {}"}, "list"),
    ],
)
def test_what_is_no_vocabulary(kwargs, message):
    with pytest.raises(ChoqolateError, match=message):
        Vocabulary.parse(**kwargs)


def test_the_constructor_checks_what_it_is_given():
    assert Vocabulary(["sea", "lake"]).synonyms == (("sea",), ("lake",))
    with pytest.raises(ChoqolateError, match="more than once"):
        Vocabulary(["sea", "sea"])
    with pytest.raises(ChoqolateError, match="name itself first"):
        Vocabulary(["sea", "lake"], [["sea"]])
    with pytest.raises(ChoqolateError, match="did you mean 'sea'"):
        Vocabulary(["sea"], spurious=["seas"])
    with pytest.raises(ChoqolateError, match="list"):
        Vocabulary("sea")


def test_templates_take_any_word():
    words = Vocabulary.parse(["{curly} {0}", "50 % \\d"], templates=["a photo of a {}.", "{}, {0}!"])
    assert words.prompts() == [
        "a photo of a {curly} {0}.",
        "{curly} {0}, {0}!",
        "a photo of a 50 % \\d.",
        "50 % \\d, {0}!",
    ]


def test_combine_is_the_mean_of_unit_vectors_by_hand():
    words = Vocabulary.parse(["sea | ocean", "tree"], templates=["{}", "a {}"])
    rng = np.random.default_rng(0)
    vectors = {prompt: rng.normal(size=5) * rng.uniform(0.1, 10) for prompt in words.prompts()}
    expected = []
    for members in (["sea", "ocean", "a sea", "a ocean"], ["tree", "a tree"]):
        total = [0.0] * 5
        for prompt in members:
            length = math.sqrt(sum(x * x for x in vectors[prompt]))
            total = [t + x / length for t, x in zip(total, vectors[prompt], strict=True)]
        length = math.sqrt(sum(t * t for t in total))
        expected.append([t / length for t in total])
    combined = words.combine(vectors)
    assert combined.dtype == np.float32
    np.testing.assert_allclose(combined, expected, rtol=1e-6)
    np.testing.assert_array_equal(words.combine(lambda prompt: vectors[prompt]), combined)


def test_one_prompt_is_only_scaled():
    vector = np.array([3.0, 4.0], dtype=np.float16)
    np.testing.assert_allclose(Vocabulary.parse(["sea"]).combine({"sea": vector}), [[0.6, 0.8]], rtol=1e-6)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ({"hot": [1.0, 0.0]}, "none for 'cold'"),
        ({"hot": [1.0, 0.0], "cold": [0.0, 0.0]}, "prompt 'cold' has length 0"),
        ({"hot": [1.0, 0.0], "cold": [np.nan, 0.0]}, "prompt 'cold'"),
        ({"hot": [1.0, 0.0], "cold": [-2.0, 0.0]}, "mean of the prompts of 'hot'"),
        ({"hot": [1.0, 0.0], "cold": [1.0, 0.0, 0.0]}, "one length"),
    ],
)
def test_vectors_that_cannot_be_combined(vectors, message):
    with pytest.raises(ChoqolateError, match=message):
        Vocabulary.parse(["hot | cold"]).combine(vectors)


word = st.text(string.ascii_letters + " äé漢🦆'\"{}#,", min_size=1, max_size=8).map(str.strip).filter(bool)


@given(st.lists(st.lists(word, min_size=1, max_size=3), min_size=1, max_size=5, unique_by=lambda words: words[0]))
def test_provenance_gives_the_vocabulary_back(concepts):
    words = Vocabulary(
        [names[0] for names in concepts], concepts, spurious=[concepts[-1][0]], templates=["{}", "a photo of {}"]
    )
    assert (
        Vocabulary.from_record(VocabularyRecord.from_dict(json.loads(json.dumps(words.as_record().as_dict())))) == words
    )


def test_provenance_has_synonyms_only_where_there_are_some():
    words = Vocabulary.parse(["sea | ocean", "tree"])
    assert words.as_record().as_dict() == {
        "concepts": ["sea", "tree"],
        "synonyms": {"sea": ["ocean"]},
        "spurious": [],
        "templates": ["{}"],
    }
    assert Vocabulary.from_record(VocabularyRecord(concepts=("sea",))) == Vocabulary(["sea"])
    for other in ({}, {"concepts": None}, {"synonyms": {"sea": ["ocean"]}}):
        with pytest.raises(ChoqolateError, match="at least one concept"):
            Vocabulary.from_record(VocabularyRecord.from_dict(other))


def test_its_repr_is_short():
    words = Vocabulary.parse(["crest", "bill"], ["sea"], templates=["{}", "a photo of {}"])
    assert repr(words) == "Vocabulary(3 concepts, 1 of them spurious; 2 templates)"
    assert repr(Vocabulary(["sea"])) == "Vocabulary(1 concept; 1 template)"
