from __future__ import annotations

import pytest

from choqolate._util.json_files import parse_json
from choqolate.errors import ChoqolateError


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[" * 101 + "]" * 101, "nested too deeply"),
        ('{"a":' * 500 + "1" + "}" * 500, "nested too deeply"),
        (b"[" * 100_000, "nested too deeply"),
        ("1e999", "the number 1e999 is too large"),
        ("1" + "0" * 4000, r"the number 100000000000\.\.\. is too large"),
        ("[NaN]", "NaN is not a number"),
        ("[-Infinity]", "-Infinity is not a number"),
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        (b"\xff\xfe", "not UTF-8"),
        ("", "Expecting value"),
        ('{"a": 1} x', "Extra data"),
    ],
)
def test_json_of_a_stranger_is_read_or_refused_with_a_sentence(content, reason):
    with pytest.raises(ChoqolateError, match=f"^x is not valid JSON: .*{reason}"):
        parse_json(content, "x")


def test_json_as_deep_as_anyone_needs_is_read():
    assert str(parse_json("[" * 100 + "]" * 100, "x")) == "[" * 100 + "]" * 100


def test_large_numbers_are_taken_where_they_mean_no_limit():
    assert parse_json("[7, 1000000000000000019884624838656]", "x", large_numbers=True) == [7, 1 << 64]
