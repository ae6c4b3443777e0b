"""Word lists as they are published, and files that are something else."""

import json

import pytest

from choqolate.concepts.vocabulary import Vocabulary
from choqolate.concepts.word_lists import WordList, read_words
from choqolate.errors import ChoqolateError, ChoqolateWarning


def test_spellings_of_one_concept_are_merged():
    with pytest.warns(ChoqolateWarning, match=r"'Horseshoe Arch \(also horseshoe  arch\.\)'"):
        words = Vocabulary.parse(["Horseshoe Arch | arc", "dome", "horseshoe  arch. | Arc"])
    assert words.synonyms == (("Horseshoe Arch", "arc"), ("dome",))
    with pytest.raises(ChoqolateError, match="in both"):
        Vocabulary.parse(["Sea"], spurious=["sea"])
    assert Vocabulary(["Sea", "sea"]).concepts == ("Sea", "sea")  # columns of old tables


def test_text_lists_of_label_free_cbm_and_splice(tmp_path):
    (tmp_path / "cifar10_filtered.txt").write_text("a beak\na tail\n# note\n\nA tail\n")
    (tmp_path / "laion.txt").write_text("|@\n...#\nheat_map\nsea | ocean\n")
    words = read_words(tmp_path / "cifar10_filtered.txt", tmp_path / "laion.txt")
    assert words.concepts == (("a beak",), ("a tail",), ("@",), ("...#",), ("heat map",), ("sea", "ocean"))
    assert words.repeats == (("A tail", "a tail"),)
    assert [line.rpartition("/")[2] for line in words.sources] == [
        "cifar10_filtered.txt: text, 3 lines",
        "laion.txt: text, 4 lines",
    ]


def test_lists_per_class_of_labo_and_vlg_cbm(tmp_path):
    content = {"Laysan_Albatross": ["webbed feet", "a | b", "# big"], "Gull": ["Webbed feet", "gray back"], "Ani": []}
    (tmp_path / "class2concepts.json").write_text(json.dumps(content, indent=2))
    words = read_words(tmp_path / "class2concepts.json")
    assert words.names == ("webbed feet", "a b", "big", "gray back")
    assert words.written_for["webbed feet"] == ("Laysan Albatross", "Gull")
    assert words.classes == ("Laysan Albatross", "Gull")
    assert words.sources[0].endswith("JSON, 5 concepts of 3 classes")


def test_one_list_in_json_and_text_that_looks_like_json(tmp_path):
    (tmp_path / "words").write_text('["sea", "forest"]')
    (tmp_path / "odd.txt").write_text("{curly}\n[square]\n")
    assert read_words(tmp_path / "words").names == ("sea", "forest")
    assert read_words(tmp_path / "odd.txt").names == ("{curly}", "[square]")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", b"{", "not valid JSON.*Download"),
        ("x.json", b'{"gull": [], "gull": []}', "stands twice"),
        ("x.json", b"[" * 200_000 + b"]" * 200_000, "nested too deeply"),
        ("x.json", b"3", "holds a number"),
        ("x.json", b'{"cat": "tail"}', "has text for 'cat'"),
        ("x.json", b'{"cat": ["tail", {"a": 1}]}', "has an object in 'cat'"),
        ("x.json", b'[["sea"]]', "has a list in the list"),
        ("x.json", b'{"cat": []}', "has none"),
        ("x.txt", b"# nothing\n", "has none"),
        ("x.txt", b"PK\x03\x04\x00", "binary"),
        ("x.txt", "café".encode("latin-1"), "UTF-8"),
    ],
)
def test_files_that_are_no_word_lists(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ChoqolateError, match=message):
        read_words(tmp_path / name)


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(ChoqolateError, match="cannot be read"):
        read_words(tmp_path / "none.txt")
    with pytest.raises(ChoqolateError, match="at least one"):
        read_words()
    monkeypatch.setattr("choqolate.concepts.word_lists.MAX_BYTES", 10)
    (tmp_path / "big.txt").write_text("sea\n" * 10)
    with pytest.raises(ChoqolateError, match="larger"):
        read_words(tmp_path / "big.txt")


def test_a_vocabulary_keeps_its_synonyms():
    assert WordList.of(Vocabulary.parse(["sea | ocean"])).concepts == (("sea", "ocean"),)
