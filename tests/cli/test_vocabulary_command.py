"""The command vocabulary."""

from __future__ import annotations

import pytest

from choqolate.cli.vocabulary_command import Way
from choqolate.concepts.vocabulary_choice import WAYS
from tests.cli.test_data_commands import choqolate as run
from tests.concepts.test_vocabulary_choice import table


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table().save("scores.parquet")
    (tmp_path / "words.txt").write_text("\n".join(["wrens", "gull wing", *table().concepts, "Ag"]) + "\n")
    return tmp_path


def test_it_writes_concepts_and_says_what_it_dropped(place):
    done = run("vocabulary", "words.txt", "--for", "scores.parquet", "-k", 6, "--report", "dropped.csv")
    assert (done.code, done.err) == (0, "")
    kept = (place / "concepts.txt").read_text().splitlines()
    assert len(kept) == 6
    lines = done.out.splitlines()
    assert lines[:2] == ["words.txt: text, 33 lines", "chosen on 120 training images of 240"]
    assert "  'wrens' names the class 'wren'" in lines
    assert "  'Ag' is spelled like 'ag'" in lines
    assert "dropped 22 that were not chosen:" in lines
    assert "kept 6 of 33 words" in lines
    assert "choqolate score IMAGES --concepts concepts.txt -o scores.parquet" in done.out
    assert len((place / "dropped.csv").read_text().splitlines()) == 1 + 27


def test_a_table_alone_and_classes_from_a_file(place):
    (place / "classes.txt").write_text("cg\n")
    done = run("vocabulary", "--for", "scores.parquet", "--by", "relevance", "-k", 4, "--classes", "classes.txt")
    assert done.code == 0
    assert "  'cg' names the class 'cg'" in done.out
    assert len((place / "concepts.txt").read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Expected word lists or a table of scores"),
        (["none.txt"], "none.txt cannot be read"),
        (["words.txt", "-k", "3"], "Expected images to choose 3 words by"),
        (["words.txt", "-o", "words.txt"], "words.txt is an input"),
        (["words.txt", "--report", "concepts.txt"], "both the output and the report"),
        (["words.txt", "--for", "none.parquet"], "none.parquet"),
    ],
)
def test_mistakes_end_with_one_line(place, arguments, message):
    done = run("vocabulary", *arguments)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not (place / "concepts.txt").exists()


def test_the_ways_are_those_of_the_library():
    assert tuple(Way) == WAYS
