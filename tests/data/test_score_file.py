"""Tables that stay in their file: everything read block by block equals the table in memory."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from choqolate.data import parquet_reader
from choqolate.data.score_file import ScoreFile, open_scores
from choqolate.data.score_writer import ScoreWriter
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from tests.peak_memory import peaks_of

CONCEPTS = ["sea", "forest", "crest", "long bill"]
COLUMNS = ("labels", "split", "groups", "paths")


@st.composite
def tables(draw):
    n_rows = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    columns = {
        "labels": rng.choice(np.array(["gull", "wren", "owl", None], dtype=object), n_rows),
        "groups": rng.choice(np.array(["land", "water", None], dtype=object), n_rows),
        "paths": [f"{row}.jpg" if rng.random() < 0.8 else None for row in range(n_rows)],
    }
    known = {name: column for name, column in columns.items() if draw(st.booleans())}
    if draw(st.booleans()):
        known["split"] = rng.choice(np.array(["train", "val", "test", None], dtype=object), n_rows)
    return ConceptScores(rng.normal(size=(n_rows, 4)).astype(dtype), CONCEPTS, **known, spurious=["sea"])


def saved(folder, table, group_rows, *, wide=False):
    """A file with row groups of the given size."""
    path = folder / "table.parquet"
    if wide:
        columns = {name: table.scores[:, j] for j, name in enumerate(table.concepts)}
        names = {"labels": "label", "split": "split", "groups": "group", "paths": "path"}
        columns |= {names[name]: getattr(table, name) for name in COLUMNS if getattr(table, name) is not None}
        content = pa.table({name: pa.array(column.tolist()) for name, column in columns.items()})
        for j, name in enumerate(table.concepts):
            content = content.set_column(j, name, pa.array(table.scores[:, j]))
    else:
        table.save(path)
        content = pq.read_table(path)
    pq.write_table(content, path, row_group_size=group_rows)
    return path


def same(first, second):
    np.testing.assert_array_equal(first.scores, second.scores)
    assert first.scores.dtype == second.scores.dtype
    for name in COLUMNS:
        a, b = getattr(first, name), getattr(second, name)
        assert (a is None) == (b is None), name
        assert a is None or a.tolist() == b.tolist(), name
    assert (first.concepts, first.classes) == (second.concepts, second.classes)
    return first.fingerprint == second.fingerprint


@settings(max_examples=40, deadline=None)
@given(
    table=tables(),
    group_rows=st.integers(1, 12),
    wide=st.booleans(),
    block_rows=st.integers(1, 9),
    at_once=st.integers(1, 5),
    band=st.integers(1, 400),
)
def test_what_is_read_block_by_block_is_the_table(tmp_path_factory, table, group_rows, wide, block_rows, at_once, band):
    path = saved(tmp_path_factory.mktemp("file"), table, group_rows, wide=wide)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_reader, "BLOCK_BYTES", block_rows * 4 * table.scores.itemsize)
        patch.setattr(parquet_reader, "_COLUMNS_AT_ONCE", at_once)
        patch.setattr(parquet_reader, "_BAND_BYTES", band)
        file = ConceptScores.open(path)
        assert len(file) == len(table) == sum(file.row_groups)
        assert same(file.load(), table)
        assert file.fingerprint == table.fingerprint
        blocks = list(file.blocks())
        assert max(map(len, blocks)) <= min(block_rows, group_rows)
        np.testing.assert_array_equal(np.concatenate([block.scores for block in blocks]), table.scores)
        assert {block.concepts for block in blocks} == {table.concepts}
        split, whole = file.with_split(), table.with_split()
        assert same(split.load(), whole)
        if whole.rows.has_part("train"):
            part = split.part("train").select(["crest", "sea"])
            expected = whole.part("train").select(["crest", "sea"])
            assert part.fingerprint == expected.fingerprint
            assert same(part.load(), expected)


@settings(max_examples=20, deadline=None)
@given(table=tables(), first=st.integers(1, 12), second=st.integers(1, 12), size=st.integers(1, 45))
def test_the_sample_does_not_depend_on_the_file(tmp_path_factory, table, first, second, size):
    folder = tmp_path_factory.mktemp("file")
    samples = [ScoreFile(saved(folder, table, rows)).sample(size) for rows in (first, second)]
    assert same(samples[0], samples[1])
    assert same(samples[0], table.sample(size))
    assert len(samples[0]) == min(size, len(table)) == ScoreFile(folder / "table.parquet").sample_size(size)


def test_concepts_can_be_selected_again_and_again(tmp_path):
    table = ConceptScores(np.arange(8.0).reshape(2, 4), CONCEPTS)
    file = ScoreFile(saved(tmp_path, table, 3))
    turned = file.select(CONCEPTS[::-1])
    assert turned.select(CONCEPTS).concepts == tuple(CONCEPTS)
    np.testing.assert_array_equal(turned.select(CONCEPTS).load().scores, table.scores)
    some = turned.select([CONCEPTS[2], CONCEPTS[0]]).take(np.array([False, True]))
    np.testing.assert_array_equal(some.load().scores, [[6.0, 4.0]])


def test_parts_of_a_file_share_it(tmp_path, monkeypatch):
    """A part reads the file that was opened, though another one has its name by now."""
    table = ConceptScores(np.arange(8.0).reshape(2, 4), CONCEPTS, labels=["gull", "wren"])
    table.save(tmp_path / "table.parquet")
    monkeypatch.chdir(tmp_path)
    file = ScoreFile("table.parquet")
    ConceptScores(np.zeros((2, 4)), CONCEPTS, labels=["wren", "gull"]).save("table.parquet")
    part = file.take(np.array([True, False]))
    assert part.path == Path("table.parquet")
    np.testing.assert_array_equal(part.load().scores, table.scores[:1])
    assert part.load().labels.tolist() == ["gull"]


def test_a_dictionary_column_may_use_all_its_indices(tmp_path):
    labels = [f"bird {row}" for row in range(128)]
    column = pa.DictionaryArray.from_arrays(pa.array([*range(128), None], pa.int8()), labels)
    content = pa.table({"label": column, "sea": np.arange(129.0), "sky": np.ones(129)})
    pq.write_table(content, tmp_path / "table.parquet")
    assert ScoreFile(tmp_path / "table.parquet").load().labels.tolist() == [*labels, None]


def test_row_groups_come_in_the_order_asked_for(tmp_path):
    table = ConceptScores(np.arange(40.0).reshape(10, 4), CONCEPTS)
    file = ScoreFile(saved(tmp_path, table, 3))
    rows = [where for where, _ in file.arrays([2, 0])]
    assert rows == [slice(6, 9), slice(0, 3)]
    np.testing.assert_array_equal(next(file.arrays([2]))[1], table.scores[6:9])


def test_a_large_table_is_written_in_row_groups_that_fit_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_reader, "GROUP_BYTES", 10 * 4 * 8)
    monkeypatch.setattr(parquet_reader, "_FEWEST_ROWS", 1)
    table = ConceptScores(np.random.default_rng(0).random((35, 4)), CONCEPTS, labels=["gull"] * 35)
    table.save(tmp_path / "table.parquet")
    assert ScoreFile(tmp_path / "table.parquet").row_groups == (10, 10, 10, 5)
    with ScoreWriter(tmp_path / "pieces.parquet", CONCEPTS) as writer:
        for start in range(0, 35, 4):
            writer.add(table.take(slice(start, start + 4)))
    assert ScoreFile(tmp_path / "pieces.parquet").row_groups == (10, 10, 10, 5)
    assert same(ConceptScores.load(tmp_path / "pieces.parquet"), table)
    table.take(slice(0, 20)).save(tmp_path / "even.parquet")
    assert ScoreFile(tmp_path / "even.parquet").row_groups == (10, 10)


def test_lists_of_unequal_length_are_refused_though_their_total_is_right(tmp_path):
    path = tmp_path / "table.parquet"
    ConceptScores(np.ones((2, 4)), CONCEPTS).save(path)
    schema = pq.read_schema(path)
    ragged = pa.table({"scores": pa.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0, 5.0]])})
    pq.write_table(ragged.replace_schema_metadata(schema.metadata), path)
    with pytest.raises(ChoqolateError, match="expected 4 scores in each row"):
        ConceptScores.load(path)


def test_a_bad_score_is_named_by_its_row_in_the_file(tmp_path):
    scores = np.ones((10, 4))
    path = saved(tmp_path, ConceptScores(scores, CONCEPTS), 3, wide=True)
    content = pq.read_table(path)
    crest = pa.array([1.0] * 7 + [float("nan")] + [1.0] * 2)
    pq.write_table(content.set_column(2, "crest", crest), path, row_group_size=3)
    with pytest.raises(ChoqolateError, match="row 7, concept 'crest'") as caught:
        list(ScoreFile(path).blocks())
    assert str(path) in str(caught.value)


def test_what_is_read_block_by_block_is_a_choice(tmp_path, monkeypatch):
    table = ConceptScores(np.ones((10, 4)), CONCEPTS)
    for suffix in ("parquet", "csv"):
        table.save(tmp_path / f"table.{suffix}")
    path = tmp_path / "table.parquet"
    assert isinstance(open_scores(path), ConceptScores)
    assert isinstance(open_scores(path, stream=True), ScoreFile)
    monkeypatch.setattr("choqolate.data.score_file.available_memory", lambda: 3 * 10 * 4 * 8 - 1)
    assert isinstance(open_scores(path), ScoreFile)
    assert isinstance(open_scores(path, stream=False), ConceptScores)
    assert isinstance(open_scores(tmp_path / "table.csv"), ConceptScores)
    with pytest.raises(ChoqolateError, match=r"expected a \.parquet file to read block by block"):
        open_scores(tmp_path / "table.csv", stream=True)
    with pytest.raises(ChoqolateError, match=r"ends in \.parquet or \.csv"):
        open_scores(tmp_path / "table.txt")


def test_a_writer_that_is_killed_leaves_the_old_file(tmp_path):
    path = tmp_path / "table.parquet"
    table = ConceptScores(np.ones((3, 4)), CONCEPTS)
    table.save(path)
    script = """
        import sys, time
        import numpy as np
        from choqolate.data import parquet_reader
        from choqolate.data.rows import Rows
        from choqolate.data.score_writer import ScoreWriter
        parquet_reader.GROUP_BYTES = 1000
        with ScoreWriter(sys.argv[1], ["sea", "forest", "crest", "long bill"]) as writer:
            writer.add_scores(np.zeros((1000, 4)), Rows(n_rows=1000))
            print("written", flush=True)
            time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "written\n"
        assert len(list(tmp_path.iterdir())) == 2  # the old file, and what is written so far
        os.kill(process.pid, signal.SIGKILL)
    assert same(ConceptScores.load(path), table)


PEAK = """
    import sys
    import choqolate as cq
    file = cq.ConceptScores.open(sys.argv[1])
    print_peak()
    file.load()
    print_peak()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of a process from /proc")
def test_thousands_of_columns_take_little_more_memory_than_their_scores(tmp_path):
    scores = np.random.default_rng(0).random((4_000, 250), dtype=np.float32)  # 4 MB
    pq.write_table(pa.table({f"concept {j}": column for j, column in enumerate(scores)}), tmp_path / "wide.parquet")
    opened, loaded = peaks_of(PEAK, tmp_path / "wide.parquet")
    assert loaded < opened + 70_000  # 50 MB; if all columns are read at a time, 92 MB


def test_a_footer_that_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    frame = pd.DataFrame({f"concept {j}": [0.5] for j in range(100)})
    frame.to_parquet(tmp_path / "wide.parquet")
    monkeypatch.setattr(parquet_reader, "available_memory", lambda: 10_000)
    with pytest.raises(ChoqolateError, match=r"list of columns and row groups of .*wide\.parquet takes about"):
        ConceptScores.open(tmp_path / "wide.parquet")
    monkeypatch.setattr(parquet_reader, "available_memory", lambda: None)
    assert len(ConceptScores.open(tmp_path / "wide.parquet").concepts) == 100
