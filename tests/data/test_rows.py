from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import choqolate as cq
from choqolate.data.manifest import Manifest
from choqolate.data.rows import Rows, class_index, class_places

some_text = st.none() | st.sampled_from(["gull", "wren", "auk", "7"])


@st.composite
def tables(draw):
    """The columns of some rows, each with or without gaps, or not there at all."""
    n = draw(st.integers(0, 12))
    columns = {name: draw(st.none() | st.lists(some_text, min_size=n, max_size=n)) for name in ("labels", "groups")}
    splits = st.none() | st.sampled_from(["train", "val", "test"])
    columns["split"] = draw(st.none() | st.lists(splits, min_size=n, max_size=n))
    return columns | {"paths": [f"{row}.jpg" for row in range(n)]}


def as_lists(rows):
    return {name: None if (part := getattr(rows, name)) is None else part.tolist() for name in COLUMNS}


COLUMNS = ("labels", "split", "groups", "paths")


@given(tables(), st.data())
def test_taking_rows_is_taking_them_from_every_column(columns, data):
    rows = Rows(**columns)
    index = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8) if len(rows) else st.just([]))
    taken = rows.take(index)
    assert len(taken) == len(index)
    assert taken.classes == rows.classes
    for name, column in columns.items():
        wanted = None if column is None else [column[row] for row in index]
        unknown = wanted is None or all(item is None for item in wanted)
        assert as_lists(taken)[name] == (None if unknown else wanted)
    mask = np.isin(np.arange(len(rows)), index)
    assert as_lists(rows.take(mask)) == as_lists(rows.take(sorted(set(index))))


@given(tables())
def test_a_manifest_and_a_table_hold_the_same_rows(columns):
    manifest = Manifest(Path("photos"), **columns)
    table = cq.ConceptScores(np.zeros((len(manifest), 1)), ["sea"], rows=manifest.rows)
    assert as_lists(table) == as_lists(manifest.rows)
    split = table.with_split()
    assert as_lists(split) == as_lists(manifest.with_split().rows)
    assert (split.split is None) == (table.split is None and table.labels is None)


@given(tables(), tables())
def test_joining_takes_what_the_other_says_and_leaves_the_rest(first, second):
    rows, other = Rows(**first), Rows(**second)
    if len(rows) and not len(other):
        with pytest.raises(cq.ChoqolateError, match="paths in common"):
            rows.join(other)
        return
    if not len(rows):
        return
    joined = rows.join(other)
    for name in ("labels", "split", "groups"):
        have, said = first[name] or [None] * len(rows), second[name] or []
        wanted = [said[row] if row < len(said) and said[row] is not None else item for row, item in enumerate(have)]
        assert (as_lists(joined)[name] or [None] * len(rows)) == wanted


def test_columns_can_be_changed_and_forgotten():
    table = cq.ConceptScores([[0.1], [0.2]], ["sea"], labels=["gull", "wren"], groups=["a", "b"])
    assert table.with_columns(groups=None).groups is None
    assert table.with_columns(groups=None).labels.tolist() == ["gull", "wren"]
    assert replace(table, labels=["auk", "auk"], classes=()).classes == ("auk",)
    assert table.labels.tolist() == ["gull", "wren"]
    with pytest.raises(cq.ChoqolateError, match="expected labels for 2 rows, got 1"):
        table.with_columns(labels=["gull"])


def test_a_manifest_needs_every_path_once():
    with pytest.raises(cq.ChoqolateError, match="a path for every image"):
        Manifest(Path("photos"), ["a.jpg", None])
    with pytest.raises(cq.ChoqolateError, match="every image once"):
        Manifest(Path("photos"), ["a.jpg", "a.jpg"])


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pd.Series([1, None, 0], dtype="Int64"), ["1", None, "0"]),
        (pd.Series(["1", None, "0"], dtype="string"), ["1", None, "0"]),
        (pd.Categorical(["1", None, "0"]), ["1", None, "0"]),
        (["1", pd.NA, "0"], ["1", None, "0"]),
        (torch.tensor([1, 2, 0]), ["1", "2", "0"]),
        (list(torch.tensor([1.0, 2.0, 0.0])), ["1", "2", "0"]),
        (range(3), ["0", "1", "2"]),
        ([("gull", "sea"), ("gull", "land"), None], ["('gull', 'sea')", "('gull', 'land')", None]),
    ],
)
def test_columns_come_as_whatever_holds_one_value_per_row(column, expected):
    rows = Rows(labels=column, groups=column, paths=column)
    assert rows.labels.tolist() == rows.groups.tolist() == expected
    assert [path is None for path in rows.paths] == [text is None for text in expected]


@pytest.mark.parametrize("name", ["labels", "split", "groups", "paths"])
@pytest.mark.parametrize(
    ("column", "came"),
    [
        ("ab", "got 'ab'"),
        (b"ab", "got b'ab'"),
        ({"a": 1}, "got {'a': 1}"),
        ({"a"}, "got {'a'}"),
        (3, "got 3"),
        (np.array("a"), r"got an array of shape \(\)\. Flatten it\."),
        (np.array([["a"], ["b"]]), r"got an array of shape \(2, 1\)\. Flatten it\."),
        (torch.ones(2, 1), r"got an array of shape \(2, 1\)\. Flatten it\."),
        (pd.DataFrame({"label": ["a", "b"]}), r"got an array of shape \(2, 1\)\. Flatten it\."),
        ([["a"], ["b"]], "got lists or the like"),
        ([np.array(["a"]), np.array(["b"])], "got lists or the like"),
    ],
)
def test_columns_that_are_none_are_refused(name, column, came):
    with pytest.raises(cq.ChoqolateError, match=f"xpected one text for each row as {name}, {came}$"):
        Rows(**{name: column})


def test_a_misspelt_column_is_named():
    expected = (
        r"^Expected a column among labels, split, groups, paths, classes, got 'lables'\. Did you mean 'labels'\?$"
    )
    manifest = Manifest(Path("photos"), ["a.jpg"])
    for changed in (cq.ConceptScores([[0.5]], ["sea"]), manifest):
        with pytest.raises(cq.ChoqolateError, match=expected):
            changed.with_columns(lables=["gull"])
        assert changed.with_columns(labels=["gull"]).labels.tolist() == ["gull"]


def test_places_among_the_classes_of_a_model_are_found_by_text():
    assert class_index(np.array([0, 1])) == {"0": 0, "1": 1}
    np.testing.assert_array_equal(class_places(["1", 0], np.array([0, 1])), [1, 0])
    with pytest.raises(cq.ChoqolateError, match=r"classes '0', '1', the table has '2'"):
        class_places(["2", "1"], np.array([0, 1]))
    with pytest.raises(cq.ChoqolateError, match="Expected a label for every row, but 1 of 2 rows have none"):
        class_places(["gull", None], np.array(["None", "gull"]))
