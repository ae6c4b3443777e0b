"""Tables of concept scores: what they check, how they are cut, and that no file changes them."""

import copy
import hashlib
import json
import os
import pickle
import string
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import choqolate as cq
from choqolate.data.column_roles import are_numbers, is_reserved
from choqolate.data.manifest import Manifest
from choqolate.data.score_files import describe_columns
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from tests.small_tables import CONCEPTS, bird_scores

COLUMNS = ("labels", "split", "groups", "paths")

PROVENANCE = {"backbone": "openai/clip-vit-base-patch32", "prompts": ["{}"]}  # as anyone might write it


@pytest.fixture
def birds():
    X, labels, groups = bird_scores(60)
    return ConceptScores(
        X.to_numpy(np.float32),
        X.columns,
        labels=labels,
        split=["train", "train", "test"] * 20,
        groups=groups,
        paths=[f"birds/{row:02}.jpg" for row in range(60)],
        classes=("waterbird", "landbird"),
        spurious=("sea", "forest"),
        provenance=PROVENANCE,
    )


def small(**kwargs):
    return ConceptScores([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], ["sea", "forest"], **kwargs)


def written(folder, text, name="table.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def same(first, second, *, also=("classes", "spurious", "provenance")):
    """Equal in everything, missing entries included."""
    np.testing.assert_array_equal(first.scores, second.scores)
    assert first.concepts == second.concepts
    for name in COLUMNS:
        a, b = getattr(first, name), getattr(second, name)
        assert (a is None) == (b is None), name
        assert a is None or a.tolist() == b.tolist(), name
    for name in also:
        assert getattr(first, name) == getattr(second, name), name
    assert first.fingerprint == second.fingerprint
    return True


# --- files ---

# Not in names: surrogates, which are no text, and NUL, which numpy drops at the end of labels and no CSV file can hold.
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
names = texts.filter(lambda name: name.strip())
odd = st.sampled_from(['say "cheese"', "a,b", "a;b;c", "tab\there", "two\nlines", "cr\rhere", "🦆", "NA", "0", "'"])


@st.composite
def tables(draw, concept=odd | names):
    n_rows, dtype = draw(st.integers(0, 4)), draw(st.sampled_from([np.float32, np.float64]))
    concepts = draw(st.lists(concept, min_size=1, max_size=4, unique=True))
    numbers = st.floats(allow_nan=False, allow_infinity=False, width=32 if dtype is np.float32 else 64)
    column = st.none() | st.lists(st.none() | odd | names, min_size=n_rows, max_size=n_rows)
    splits = st.lists(st.sampled_from(["train", "val", "test", None]), min_size=n_rows, max_size=n_rows)
    return ConceptScores(
        draw(arrays(dtype, (n_rows, len(concepts)), elements=numbers)),
        concepts,
        labels=draw(column),
        split=draw(st.none() | splits),
        groups=draw(column),
        paths=draw(column),
        spurious=draw(st.sets(st.sampled_from(concepts))),
        provenance=draw(st.dictionaries(texts, texts | st.integers(-(2**63), 2**63) | st.lists(texts), max_size=2)),
    )


@given(tables())
def test_parquet_keeps_everything(tmp_path_factory, table):
    path = tmp_path_factory.mktemp("round") / "table.parquet"
    table.save(path)
    back = ConceptScores.load(path)
    assert same(table, back)
    assert back.scores.dtype == table.scores.dtype


def fits_csv(name):
    return name == name.strip() and not is_reserved(name)


@given(tables(concept=(odd | names).filter(fits_csv)))
def test_csv_keeps_every_row_to_the_last_bit(tmp_path_factory, table):
    assume(not are_numbers(table.concepts))  # a header that looks like a row of scores is refused
    path = tmp_path_factory.mktemp("round") / "table.csv"
    table.save(path)
    assert same(table, ConceptScores.load(path), also=())


def test_parquet_has_the_promised_columns(birds, tmp_path):
    birds.save(tmp_path / "birds.parquet")
    schema = pq.read_schema(tmp_path / "birds.parquet")
    assert schema.names == ["path", "label", "split", "group", "scores"]
    assert pa.types.is_fixed_size_list(schema.field("scores").type)
    assert schema.field("scores").type.list_size == 6
    document = json.loads(schema.metadata[b"choqolate"])
    assert document["concepts"] == CONCEPTS
    assert document["provenance"] == birds.provenance.as_dict() == PROVENANCE
    assert [path.name for path in tmp_path.iterdir()] == ["birds.parquet"]


def test_other_programs_read_our_parquet(birds, tmp_path):
    birds.save(tmp_path / "birds.parquet")
    frame = pd.read_parquet(tmp_path / "birds.parquet")
    np.testing.assert_array_equal(np.stack(frame["scores"]), birds.scores)
    assert frame["label"].tolist() == birds.labels.tolist()


def test_a_file_in_several_pieces_is_one_table(birds, tmp_path):
    birds.save(tmp_path / "birds.parquet")
    pieces = pq.read_table(tmp_path / "birds.parquet")
    pq.write_table(pieces, tmp_path / "pieces.parquet", row_group_size=7)
    assert same(birds, ConceptScores.load(tmp_path / "pieces.parquet"))


def test_a_failed_write_leaves_the_old_file(birds, tmp_path):
    path = tmp_path / "birds.parquet"
    birds.save(path)
    with pytest.raises(ChoqolateError, match="JSON"):
        ConceptScores(birds.scores, birds.concepts, provenance={"when": object()}).save(path)
    with pytest.raises(ChoqolateError, match=r"provenance that JSON can hold: .* too large"):
        ConceptScores(birds.scores, birds.concepts, provenance={"when": 10**30}).save(path)
    assert same(birds, ConceptScores.load(path))
    assert [path.name for path in tmp_path.iterdir()] == ["birds.parquet"]


def test_folders_are_made_and_suffixes_are_checked(birds, tmp_path):
    birds.save(tmp_path / "new" / "Birds.PARQUET")
    assert same(birds, ConceptScores.load(str(tmp_path / "new" / "Birds.PARQUET")))
    with pytest.raises(ChoqolateError, match=r"ends in \.parquet or \.csv"):
        birds.save(tmp_path / "birds.xlsx")
    with pytest.raises(ChoqolateError, match=r"ends in \.parquet or \.csv"):
        ConceptScores.load(tmp_path / "birds")


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text elsewhere")
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_file_names_that_are_no_text_are_spelled_out(tmp_path, suffix):
    table = small(paths=[os.fsdecode(b"\xff.jpg"), "b", "c"], labels=[os.fsdecode(b"caf\xe9"), "x", "x"])
    table.save(tmp_path / f"table{suffix}")
    back = ConceptScores.load(tmp_path / f"table{suffix}")
    assert back.paths[0] == r"\xff.jpg"
    assert r"caf\xe9" in back.classes
    assert back.fingerprint == table.fingerprint


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"PAR1 nothing else", "another or damaged"),
        (b"path,sea\na,1\n", "another or damaged"),
    ],
)
def test_files_that_are_no_parquet(tmp_path, content, message):
    path = written(tmp_path, content, "table.parquet")
    with pytest.raises(ChoqolateError, match=message) as caught:
        ConceptScores.load(path)
    assert str(path) in str(caught.value)


def test_a_cut_or_scratched_file_is_an_error_not_other_scores(birds, tmp_path):
    birds.save(tmp_path / "birds.parquet")
    whole, messages = (tmp_path / "birds.parquet").read_bytes(), []
    with pytest.raises(ChoqolateError, match="damaged"):
        ConceptScores.load(written(tmp_path, whole[: len(whole) // 2], "cut.parquet"))
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for position in range(4, footer, 41):
        scratched = bytearray(whole)
        scratched[position] ^= 0xFF
        path = written(tmp_path, bytes(scratched), "scratched.parquet")
        try:
            back = ConceptScores.load(path)
        except ChoqolateError as error:
            messages.append(str(error))
        else:
            assert same(birds, back)
    assert any("damaged" in message for message in messages)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(ChoqolateError, match="not there"):
        ConceptScores.load(tmp_path / "none.parquet")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ChoqolateError, match="a folder"):
        ConceptScores.load(tmp_path / "folder.csv")


def rewritten(birds, path, change):
    birds.save(path)
    table = pq.read_table(path)
    document = json.loads(table.schema.metadata[b"choqolate"])
    pq.write_table(table.replace_schema_metadata(change(document)), path)
    return path


def test_a_newer_format_asks_for_an_update(birds, tmp_path):
    newer = rewritten(birds, tmp_path / "n.parquet", lambda found: {"choqolate": json.dumps(found | {"format": 99})})
    with pytest.raises(ChoqolateError, match=r"newer choqolate \(format 99.*upgrade"):
        ConceptScores.load(newer)


@pytest.mark.parametrize("change", [{"format": "x"}, {"concepts": 5}, {"provenance": None}, {"classes": None}])
def test_damaged_metadata(birds, tmp_path, change):
    path = rewritten(birds, tmp_path / "d.parquet", lambda found: {"choqolate": json.dumps(found | change)})
    with pytest.raises(ChoqolateError, match="readable metadata"):
        ConceptScores.load(path)
    with pytest.raises(ChoqolateError, match="readable metadata"):
        ConceptScores.load(rewritten(birds, path, lambda found: {"choqolate": "{"}))


def test_scores_without_names_and_names_without_scores(birds, tmp_path):
    with pytest.raises(ChoqolateError, match="names of the concepts in the metadata"):
        ConceptScores.load(rewritten(birds, tmp_path / "lost.parquet", lambda found: None))
    other = rewritten(
        birds, tmp_path / "o.parquet", lambda found: {"choqolate": json.dumps(found | {"concepts": ["sea"]})}
    )
    with pytest.raises(ChoqolateError, match="expected 1 scores in each row"):
        ConceptScores.load(other)


def in_lists(path, lists, **how):
    """Write scores of two concepts as a column of lists."""
    document = {"format": 1, "concepts": ["sea", "forest"], "classes": [], "spurious": [], "provenance": {}}
    table = pa.table({"path": [str(row) for row in range(len(lists))], "scores": lists})
    pq.write_table(table.replace_schema_metadata({"choqolate": json.dumps(document)}), path, **how)
    return path


RAGGED = [[1.0, 2.0, 3.0], [4.0], [5.0, 6.0]]  # the right number in all


@pytest.mark.hostile("score tables")
@pytest.mark.parametrize("load", [ConceptScores.load, lambda path: list(ConceptScores.open(path).blocks())])
@pytest.mark.parametrize(
    "lists",
    [
        pa.array(RAGGED, pa.list_(pa.float32())),
        pa.array(RAGGED, pa.large_list(pa.float64())),
        pa.array([[0.0, 0.0], *RAGGED, [0.0, 0.0]], pa.list_(pa.float32())).slice(1, 3),
        pa.array([[1.0, 2.0, 3.0, 4.0], None, [5.0, 6.0]], pa.list_(pa.float32())),
        pa.array([[1.0, 2.0], None, [5.0, 6.0]], pa.list_(pa.float32(), 2)),
        pa.array([[1.0, 2.0], [3.0, None], [5.0, 6.0]], pa.list_(pa.float32(), 2)),
        pa.array([[1.0, 2.0, 3.0, 4.0]], pa.list_(pa.float32(), 4)),
    ],
)
def test_rows_with_another_number_of_scores_are_refused(tmp_path, lists, load):
    for row_group_size in (1, 2, 100):
        path = in_lists(tmp_path / "ragged.parquet", lists, row_group_size=row_group_size)
        with pytest.raises(ChoqolateError, match=r"expected 2 scores in each row of .*ragged\.parquet"):
            load(path)


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.float16()), pa.list_(pa.int64(), 2)])
def test_any_list_of_the_right_length_holds_scores(tmp_path, kind):
    lists = pa.array([[float(row), 7.0] for row in range(9)], kind).slice(2, 5)
    table = ConceptScores.load(in_lists(tmp_path / "lists.parquet", lists, row_group_size=2))
    np.testing.assert_array_equal(table.scores, [[row, 7] for row in range(2, 7)])


@pytest.mark.parametrize("kind", [pa.string(), pa.bool_(), pa.date32(), pa.list_(pa.float32())])
def test_lists_of_something_else_are_refused(tmp_path, kind):
    path = in_lists(tmp_path / "odd.parquet", pa.array([[None, None]], pa.list_(kind)))
    with pytest.raises(ChoqolateError, match=r"expected lists of numbers as scores in .*odd\.parquet, got "):
        ConceptScores.load(path)


# --- tables of other programs ---


def test_csv_of_a_spreadsheet(tmp_path):
    path = written(tmp_path, "\ufeffImage;CLASS;Sea;two words\r\na.jpg;gull;0.5;1\r\nb.jpg;;1e-3;-2\r\n")
    table = ConceptScores.load(path, path_column="Image", label_column="CLASS")
    assert table.concepts == ("Sea", "two words")
    assert table.paths.tolist() == ["a.jpg", "b.jpg"]
    assert table.labels.tolist() == ["gull", None]
    assert table.split is None
    np.testing.assert_array_equal(table.scores, [[0.5, 1], [0.001, -2]])


def test_csv_with_tabs_and_an_index_column(tmp_path):
    table = ConceptScores.load(written(tmp_path, "\tlabel\tsea, or lake\n0\tx\t0.5\n1\ty\t0.25\n"))
    assert table.concepts == ("sea, or lake",)
    assert table.labels.tolist() == ["x", "y"]
    frame = pd.DataFrame({"label": ["x"], "sea": [0.5]})
    frame.to_csv(tmp_path / "index.csv")
    again = pd.read_csv(tmp_path / "index.csv")
    again.to_csv(tmp_path / "again.csv", index=False)
    assert "Unnamed: 0" in again.columns
    assert ConceptScores.load(tmp_path / "index.csv").concepts == ("sea",)
    assert ConceptScores.load(tmp_path / "again.csv").concepts == ("sea",)


def test_labels_stay_as_they_are_written(tmp_path):
    table = ConceptScores.load(written(tmp_path, "label,group,sea\nNA,1,0.5\n01,2,0.5\n1.0,3,1\n"))
    assert table.labels.tolist() == ["NA", "01", "1.0"]
    assert table.groups.tolist() == ["1", "2", "3"]


def test_numbered_concepts_are_fine(tmp_path):
    pd.DataFrame(np.eye(3)).to_csv(tmp_path / "plain.csv", index=False)
    assert ConceptScores.load(tmp_path / "plain.csv").concepts == ("0", "1", "2")


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (
            "label,species,sea\nx,wren,0.5\n",
            ["'species'", "'wren'", "line 2", "label_column='species' (--label-column species)"],
        ),
        ("label,sea\nx,0.5\ny,\n", ["'sea'", "line 3", "fill it in"]),
        ("label,sea\nx,0.5\ny,nan\n", ["'sea'", "row 1"]),
        ("label,sea\nx,0.5\ny,inf\n", ["'sea'", "row 1"]),
        ("label,forest,sea\nx,0.5,1\ny,0.5\n", ["3 cells", "got 2", "line 3"]),
        ("label;sea\nx;0,5\n", ["'0,5'", "decimals with a point"]),
        ("label,sea\nx,0.5,7\n", ["cells"]),
        ("label,sea\nx,0.5\ny,1,2,3\n", ["2 cells", "got 4", "line 3"]),
        ("label,Label,sea\nx,y,0.5\n", ["one column for the label", "'Label'"]),
        ("filename,sea\na.jpg,0.5\n", ["'filename'", "'a.jpg'", "path_column='filename' (--path-column filename)"]),
        ("my file,sea\na.jpg,0.5\n", ["(--label-column 'my file')"]),
        ("sea,sea\n1,2\n", ["'sea'", "more than once"]),
        ("path,label\na,b\n", ["column for each concept", "'path', 'label'"]),
        ("0.1,0.2\n0.3,0.4\n", ["names of the columns in the first line"]),
        ("\n\n", ["column for each concept"]),
        ("split,sea\nfirst,1\n", ["train, val, test", "'first'"]),
        ("label,sea\nx,caf\xe9\n".encode("latin-1"), ["UTF-8"]),
        ("label,sea\nx,1\n".encode("utf-16"), ["UTF-8"]),
        ('label,sea\nx,"1\n', ["table.csv"]),
        ("label,sea\nx\0,1\n", ["UTF-8"]),
    ],
)
def test_what_is_wrong_with_a_csv_is_named(tmp_path, text, messages):
    path = written(tmp_path, text)
    with pytest.raises(ChoqolateError) as caught:
        ConceptScores.load(path)
    for part in (*messages, str(path)):
        assert part in str(caught.value)


def test_wide_parquet(tmp_path):
    frame = pd.DataFrame(
        {
            "Label": [1, 0, None],
            "Path": ["a", "b", "c"],
            "sea": np.array([0.5, 0.25, 0.1], dtype=np.float32),
            "scores": np.array([1, 2, 3], dtype=np.float32),
        }
    )
    frame.to_parquet(tmp_path / "wide.parquet")
    table = ConceptScores.load(tmp_path / "wide.parquet")
    assert table.concepts == ("sea", "scores")
    assert table.scores.dtype == np.float32
    assert table.labels.tolist() == ["1", "0", None]
    assert table.paths.tolist() == ["a", "b", "c"]
    frame.assign(scores=[1, 2, 3], flag=[True, False, True], label=frame.pop("Label").astype("category")).to_parquet(
        tmp_path / "wide.parquet"
    )
    table = ConceptScores.load(tmp_path / "wide.parquet")
    np.testing.assert_array_equal(table.scores[:, 1:], [[1, 1], [2, 0], [3, 1]])
    assert table.scores.dtype == np.float64


def stored(frame, folder, suffix):
    path = folder / f"table{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_of_other_names_are_concepts_unless_they_are_named(tmp_path, suffix):
    names = ["file", "y", "groups", "image", "target", "class", "filename"]
    frame = pd.DataFrame({name: [0.5, 1.5, j + 0.25] for j, name in enumerate(names)})
    path = stored(frame, tmp_path, suffix)
    with pytest.warns(cq.ChoqolateWarning) as told:
        table = ConceptScores.load(path)
    assert table.concepts == tuple(names)
    assert (table.labels, table.groups, table.paths) == (None, None, None)
    assert str(told[2].message).startswith(f"The column 'groups' of {path} is taken as a concept. If it is the group, ")
    assert len(told) == len(names)
    with pytest.warns(cq.ChoqolateWarning, match="'groups'"):  # the table has a label and a path, but no group
        table = ConceptScores.load(path, label_column="y", path_column="filename")
    assert table.concepts == ("file", "groups", "image", "target", "class")
    assert table.labels.tolist() == ["0.5", "1.5", "1.25"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_that_are_named(tmp_path, suffix):
    frame = pd.DataFrame({"label": [1, 2], "kind": ["x", "y"], "site": ["a", "b"], "file": ["f", "g"], "sea": [0.5, 1]})
    path = stored(frame.assign(part=["train", "test"]), tmp_path, suffix)
    columns = {"label_column": "kind", "group_column": "site", "path_column": "file", "split_column": "part"}
    loaded = [ConceptScores.load(path, **columns)]
    if suffix == ".parquet":
        loaded.append(ConceptScores.open(path, **columns).load())
        loaded.append(pickle.loads(pickle.dumps(ConceptScores.open(path, **columns))).load())
    for table in loaded:
        found = [getattr(table, name).tolist() for name in COLUMNS]
        assert found == [["x", "y"], ["train", "test"], ["a", "b"], ["f", "g"]]
        assert table.concepts == ("sea",)
    assert describe_columns(path, **columns) == (
        "path: column 'file' · label: column 'kind' · split: column 'part' · group: column 'site' · 1 concept · "
        "left out: 'label'"
    )
    with pytest.raises(
        ChoqolateError, match=r"Expected the column of the label among .*, got 'kin'\. Did you mean 'kind'"
    ):
        ConceptScores.load(path, label_column="kin")
    with pytest.raises(ChoqolateError, match="one is named twice"):
        ConceptScores.load(path, label_column="kind", group_column="kind")
    with pytest.raises(TypeError, match="labels_column"):
        ConceptScores.load(path, labels_column="kind")


def test_columns_of_our_own_files_are_not_named(birds, tmp_path):
    birds.save(tmp_path / "birds.parquet")
    assert describe_columns(tmp_path / "birds.parquet") == ""
    with pytest.raises(ChoqolateError, match="Expected no names of columns"):
        ConceptScores.load(tmp_path / "birds.parquet", label_column="path")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_measurement_is_no_group(tmp_path, suffix):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"group": [*rng.random(30), *[None] * 30], "sea": np.arange(60.0)})
    with pytest.raises(ChoqolateError, match="column 'group' has 30 different numbers in 30 rows"):
        ConceptScores.load(stored(frame, tmp_path, suffix))
    few = frame.assign(group=frame["group"].where(frame.index < 20))
    assert len(set(ConceptScores.load(stored(few, tmp_path, suffix)).groups) - {None}) == 20
    pairs = frame.assign(group=np.arange(60) // 2)
    assert len(set(ConceptScores.load(stored(pairs, tmp_path, suffix)).groups)) == 30
    named = frame.assign(group=[f"site {row}" for row in range(60)])
    assert len(set(ConceptScores.load(stored(named, tmp_path, suffix)).groups)) == 60


@pytest.mark.parametrize(
    ("column", "messages"),
    [
        (["1", "2", "wren"], ["'extra'", "row 2", "'wren'", "label"]),
        ([0.5, None, 1.0], ["'extra'", "row 1"]),
        ([True, None, False], ["'extra'", "row 1"]),
        ([None, None, None], ["'extra'", "row 0"]),
        ([[1.0], [2.0], [3.0]], ["'extra'", "row 0"]),
    ],
)
def test_what_is_wrong_with_a_wide_parquet_is_named(tmp_path, column, messages):
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table({"sea": [0.1, 0.2, 0.3], "extra": column}), path)
    with pytest.raises(ChoqolateError) as caught:
        ConceptScores.load(path)
    for part in (*messages, str(path)):
        assert part in str(caught.value)


@pytest.mark.parametrize("name", ["label", "Class", "GROUP", "image", "Unnamed: 0", " sea", "s\0ea"])
def test_csv_refuses_names_that_it_would_read_as_something_else(tmp_path, name):
    table = ConceptScores([[1.0]], [name])
    with pytest.raises(ChoqolateError, match=r"\.parquet"):
        table.save(tmp_path / "table.csv")
    assert list(tmp_path.iterdir()) == []
    table.save(tmp_path / "table.parquet")
    assert ConceptScores.load(tmp_path / "table.parquet").concepts == (name,)


# --- what a table checks ---


@pytest.mark.parametrize(
    ("scores", "concepts", "kwargs", "message"),
    [
        ([[1.0, 2.0]], ["sea"], {}, "one name for each column"),
        ([1.0, 2.0], ["sea", "forest"], {}, "shape"),
        (np.empty((2, 0)), [], {}, "one name for each column"),
        ([["a"]], ["sea"], {}, "numbers"),
        ([[1.0, 2.0]], ["sea", "sea"], {}, "more than once"),
        ([[1.0]], [" "], {}, "have a name"),
        ([[1.0]], "sea", {}, "list of names"),
        ([[1.0], [np.nan]], ["sea"], {}, "row 1, concept 'sea'"),
        ([[1.0]], ["sea"], {"spurious": ["seas"]}, "did you mean 'sea'"),
        ([[1.0]], ["sea"], {"labels": ["a", "b"]}, "labels for 1 rows, got 2"),
        ([[1.0]], ["sea"], {"labels": ["a"], "classes": ["b"]}, "labels among"),
        ([[1.0]], ["sea"], {"split": ["holdout"]}, "train, val, test"),
    ],
)
def test_what_does_not_fit_is_an_error(scores, concepts, kwargs, message):
    with pytest.raises(ChoqolateError, match=message):
        ConceptScores(scores, concepts, **kwargs)


def test_text_is_text_and_what_is_missing_is_none():
    table = small(
        labels=[1, 0, None], split=["Training", "valid", ""], groups=[None, "", float("nan")], paths=["a", None, "c"]
    )
    assert table.labels.tolist() == ["1", "0", None]
    assert table.classes == ("0", "1")
    assert {type(name) for name in small(labels=["a", "b", "b"]).classes} == {str}
    assert table.split.tolist() == ["train", "val", None]
    assert table.groups is None
    assert table.paths.tolist() == ["a", None, "c"]
    assert repr(table) == "ConceptScores(3 rows, 2 concepts, 2 classes, split into train, val)"


@pytest.mark.parametrize(("given_dtype", "kept"), [("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("i8", "f8"), ("?", "f8")])
def test_scores_are_single_or_double(given_dtype, kept):
    assert ConceptScores(np.ones((2, 1), given_dtype), ["sea"]).scores.dtype == kept


# --- cutting ---


def test_parts_are_the_rows_of_the_split(birds):
    train, test = birds.part("train"), birds.part("TESTING")
    assert (len(train), len(test)) == (40, 20)
    np.testing.assert_array_equal(test.scores, birds.scores[2::3])
    assert test.paths.tolist() == birds.paths[2::3].tolist()
    assert test.classes == birds.classes
    assert test.provenance == birds.provenance
    with pytest.raises(ChoqolateError, match="'val', this table has rows for 'train', 'test' only"):
        birds.part("val")
    with pytest.raises(ChoqolateError, match=r"has no split: with_split\(\)"):
        small().part("train")
    with pytest.raises(ChoqolateError, match="train, val, test"):
        birds.part("holdout")


def test_take_by_index_mask_and_slice(birds):
    rows = [5, 3, 3]
    assert birds.take(rows).paths.tolist() == [f"birds/{row:02}.jpg" for row in rows]
    mask = np.arange(60) < 4
    assert same(birds.take(mask), birds.take(slice(4)))
    assert same(birds.take(mask), birds.take(range(4)))
    assert same(birds.take(mask), birds.take(mask.tolist()))
    assert len(birds.take([])) == 0
    with pytest.raises(ChoqolateError, match="60"):
        birds.take([60])


def test_select_reorders_and_forgets_what_it_drops(birds):
    chosen = birds.select(["sea", "crest"])
    assert chosen.concepts == ("sea", "crest")
    assert chosen.spurious == ("sea",)
    np.testing.assert_array_equal(chosen.scores, birds.scores[:, [4, 3]])
    assert birds.select("crest").concepts == ("crest",)
    with pytest.raises(ChoqolateError, match="did you mean 'crest'"):
        birds.select(["crests"])
    with pytest.raises(ChoqolateError, match="this table has 'webbed feet'"):
        birds.select(["zzz"])


def test_labelled_rows(birds):
    assert birds.labelled() is birds
    some = small(labels=["a", None, "b"])
    assert some.labelled().scores[:, 0].tolist() == [1, 5]
    with pytest.raises(ChoqolateError, match="expected labels"):
        small().labelled()


def test_with_split_follows_the_path_not_the_row(birds):
    assert birds.with_split() is birds
    plain = ConceptScores(birds.scores, birds.concepts, labels=birds.labels, paths=birds.paths)
    split = plain.with_split()
    backwards = plain.take(np.arange(60)[::-1]).with_split()
    assert dict(zip(split.paths, split.split, strict=True)) == dict(zip(backwards.paths, backwards.split, strict=True))
    for name in birds.classes:
        members = split.labels == name
        assert (split.split[members] == "test").sum() == round(0.3 * members.sum())
    as_manifest = Manifest(Path("x"), birds.paths, labels=birds.labels).with_split()
    assert split.split.tolist() == as_manifest.split.tolist()


def test_with_split_without_paths_or_labels():
    table = ConceptScores(np.zeros((40, 1)), ["sea"], labels=["a", "b"] * 20)
    split = table.with_split(test_share=0.5).split
    assert [(split[offset::2] == "test").sum() for offset in (0, 1)] == [10, 10]
    assert split.tolist() == table.with_split(test_share=0.5).split.tolist()
    assert small().with_split().split is None
    assert small(labels=["a", "a", None]).with_split().split[2] is None


def test_join_takes_what_the_manifest_knows():
    table = small(paths=["a", "b", "c"], labels=["x", "x", "old"], split=["train", "train", "test"])
    manifest = Manifest(
        Path("photos"),
        ["b", "a", "elsewhere"],
        labels=["y", None, "z"],
        split=["test", "val", "val"],
        classes=["z", "y", "x"],
    )
    joined = table.join(manifest)
    assert joined.labels.tolist() == ["x", "y", "old"]
    assert joined.split.tolist() == ["val", "test", "test"]
    assert joined.groups is None
    assert joined.classes == ("z", "y", "x", "old")
    assert table.labels.tolist() == ["x", "x", "old"]


def test_join_keeps_labels_where_the_manifest_has_none():
    table = small(paths=["a", "b", "c"], labels=["x", "y", "x"], classes=["y", "x"])
    joined = table.join(Manifest(Path("photos"), ["a", "b", "c"], groups=["1", "2", "3"]))
    assert joined.labels.tolist() == ["x", "y", "x"]
    assert joined.classes == ("y", "x")
    assert joined.groups.tolist() == ["1", "2", "3"]


def test_join_without_anything_in_common():
    with pytest.raises(ChoqolateError, match="these rows have 'a' and those to join 'photos/a'"):
        small(paths=["a", "b", "c"]).join(Manifest(Path("x"), ["photos/a"]))
    with pytest.raises(ChoqolateError, match="with a path in every row"):
        small().join(Manifest(Path("x"), ["a"]))


def test_fingerprint_is_of_scores_concepts_and_labels_only(birds):
    single, double = ConceptScores([[0.5]], ["a"]), ConceptScores(np.array([[0.5]], np.float32), ["a"], paths=["x"])
    assert single.fingerprint == double.fingerprint
    content = json.dumps([["a"], None]).encode() + np.array([0.5], "<f8").tobytes()
    assert single.fingerprint == hashlib.sha256(content).hexdigest()
    others = [
        ConceptScores([[0.25]], ["a"]),
        ConceptScores([[0.5]], ["b"]),
        ConceptScores([[0.5]], ["a"], labels=["x"]),
    ]
    assert len({table.fingerprint for table in (single, *others)}) == 4
    assert birds.take(range(60)[::-1]).fingerprint != birds.fingerprint


def test_a_loaded_table_trains_a_classifier(birds, tmp_path):
    birds.save(tmp_path / "birds.parquet")
    train = ConceptScores.load(tmp_path / "birds.parquet").part("train")
    frame = train.frame
    assert list(frame.columns) == CONCEPTS
    clf = cq.ChoqolateClassifier(n_nodes=3, epochs=3).fit(frame, train.labels)
    assert clf.concepts_ == CONCEPTS
    frame.iloc[0, 0] = 7.0
    assert train.scores[0, 0] != 7.0


letters = st.text(string.ascii_lowercase, min_size=1, max_size=3)


@given(st.lists(letters, min_size=1, max_size=6, unique=True), st.randoms(use_true_random=False))
def test_select_finds_the_column_of_every_name(concepts, random):
    table = ConceptScores(np.arange(2 * len(concepts)).reshape(2, -1), concepts)
    shuffled = random.sample(concepts, len(concepts))
    chosen = table.select(shuffled)
    for name in concepts:
        np.testing.assert_array_equal(chosen.frame[name], table.frame[name])


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda table: pickle.loads(pickle.dumps(table))])
def test_copies_are_protected_like_the_table(birds, copied):
    fingerprint = birds.fingerprint
    other = copied(birds)
    assert "fingerprint" not in vars(other)
    assert other.fingerprint == fingerprint
    assert (other.concepts, other.labels.tolist(), other.spurious) == (
        birds.concepts,
        birds.labels.tolist(),
        birds.spurious,
    )
    with pytest.raises(ValueError, match="read-only"):
        other.scores[0, 0] = 1
