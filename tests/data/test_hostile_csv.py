"""CSV files that are damaged or made to do harm: a table, or one short sentence that names the file."""

from __future__ import annotations

import pytest

import choqolate as cq
from choqolate.concepts.word_lists import read_words
from choqolate.data.image_list import read_csv
from choqolate.errors import ChoqolateError

pytestmark = pytest.mark.hostile("CSV files and word lists")

LONG = "x" * 200_000
ROWS = "a.png,a,0.5\nb.png,b,0.4\n"
BROKEN = {
    "long cell": f"path,label,sea\na.png,{LONG},x\n",
    "long name of a column": f"path,label,{LONG}\n{ROWS}",
    "open quote": 'path,label,sea\n"a.png,a,0.5\nb.png,b,0.4\n',
    "open quote in the header": f'path,"label,sea\n{ROWS}',
    "many quotes": "path,label,sea\n" + '"' * 100_001 + ",a,0.5\n",
    "only quotes": '"' * 100_001 + "\n",
    "NUL": "path,label,sea\na\0.png,a,0.5\n",
    "NUL in the header": f"path,la\0bel,sea\n{ROWS[:6]}\0",
    "line ends only": "\r\r\r",
    "UTF-16": "path,label,sea\na.png,a,0.5\n".encode("utf-16"),
    "two marks": f"\ufeff\ufeffpath,label,sea\n{ROWS}",
    "a mark only": "\ufeff",
    "Latin-1": "path,label,sea\ncafé.png,a,0.5\n".encode("latin-1"),
    "half a surrogate pair": b"path,label,sea\n\xed\xa0\x80.png,a,0.1\n",
    "nothing": "",
    "blanks": "\n\n  \n",
    "a million separators": "," * 1_000_000 + "\n",
    "a row of a million cells": "path,label,sea\na.png,a,0.5" + "," * 1_000_000 + "\n",
    "a short row": "path,label,sea\na.png,a\n",
    "a column twice": "path,path,sea\na.png,a,0.5\n",
    "bytes": bytes(range(256)) * 100,
    "a page": "<!doctype html><html><body>not found</body></html>",
}
NO_NUMBERS = ["1e999", "9" * 5000, "nan", "-inf", "0x10", "=1+1", "", "0.5.5", "٣"]


@pytest.fixture
def refused(tmp_path):
    def check(read, content, name="f.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(ChoqolateError) as error:
            read(path)
        message = str(error.value)
        assert str(path) in message
        assert "\n" not in message
        assert len(message) < 600

    return check


@pytest.mark.parametrize("read", [cq.ConceptScores.load, read_csv])
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_one_sentence(refused, read, kind):
    refused(read, BROKEN[kind])


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_a_score_is_a_finite_number(refused, text):
    refused(cq.ConceptScores.load, f"path,label,sea\na.png,a,{text}\nb.png,b,0.4\n")


def test_columns_without_end_are_refused_before_they_are_read(refused):
    names = ",".join(map(str, range(300_000)))
    refused(cq.ConceptScores.load, f"path,label,{names}\n")


@pytest.mark.parametrize("kind", ["NUL", "UTF-16", "Latin-1", "half a surrogate pair", "nothing", "bytes", "blanks"])
def test_a_broken_word_list_is_one_sentence(refused, kind):
    refused(read_words, BROKEN[kind], "words.txt")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\n\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_marks_of_all_systems_are_read(tmp_path, end, mark):
    path = tmp_path / "f.csv"
    path.write_bytes((mark + f"path,label,sea\n{ROWS}".replace("\n", end)).encode())
    assert cq.ConceptScores.load(path).paths.tolist() == ["a.png", "b.png"]
    assert read_csv(path).labels.tolist() == ["a", "b"]


def test_a_long_name_of_a_class_is_read_where_nothing_limits_it(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(f"path,label,sea\na.png,{LONG},0.5\nb.png,b,0.4\n")
    assert cq.ConceptScores.load(path).labels[0] == LONG
