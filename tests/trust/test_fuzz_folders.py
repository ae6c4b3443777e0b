"""Folders of embeddings and files of results, as a stranger could have made them."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

import choqolate as cq
from choqolate._util.sealed_parquet import seal
from choqolate.concepts.embedding_folder import FILES, ROWS, EmbeddingFolder
from choqolate.experiments.engine.results import Results, Run
from tests.formats.write import FORMATS
from tests.trust.fuzzing import fuzz
from tests.trust.mutations import (
    Change,
    byte_changes,
    changed_bytes,
    changed_json,
    changed_parquet,
    json_changes,
    parquet_bytes,
    parquet_changes,
    sealed_json,
)

BIRDS = FORMATS / "embeddings" / "version_1" / "birds"
DESCRIPTION = json.loads((BIRDS / "embeddings.json").read_bytes())
TABLES = {path.relative_to(BIRDS).as_posix(): pq.read_table(path) for path in sorted(BIRDS.rglob("*.parquet"))}
RUNS = (FORMATS / "results" / "version_1" / "results.jsonl").read_text(encoding="utf-8").splitlines()

pytestmark = pytest.mark.trust


def use_embeddings(path):
    found = cq.Embeddings.load(path)
    folder = EmbeddingFolder.open(path)
    known, seen = folder.contents()
    assert all(len(digest) == 32 for digest in known)
    assert len(seen) < 1000
    vectors = found.vectors()
    assert vectors.shape == (len(found), folder.images.dim)
    assert vectors.dtype == np.float32
    assert str(found)
    assert repr(found.manifest)
    folder.note_files(seen)
    folder.write_rows(found.manifest, found.digests)
    assert cq.Embeddings.load(path).digests == found.digests


def test_a_changed_folder_of_embeddings(tmp_path):
    path = tmp_path / "birds"

    def made(name):
        flips = st.just([]) | st.just([]) | byte_changes(2)
        return st.tuples(st.just(name), parquet_changes(TABLES[name]), flips, st.booleans())

    def use(found):
        name, changes, flips, sealed = found
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(BIRDS, path)
        (path / name).write_bytes(changed_bytes(parquet_bytes(changed_parquet(TABLES[name], changes)), flips))
        if sealed and not flips:
            seal(path / name)
        use_embeddings(path)

    images = next(name for name in TABLES if name.startswith("images/"))
    examples = [(name, [], [], True) for name in TABLES]
    examples += [(images, [("drop", place, None)], [], True) for place in (0, 2, 6)]
    examples += [(images, [("fill", 0, "float")], [], True), (FILES, [("fill", 1, "large list")], [], True)]
    examples += [(FILES, [("nulls", place, 3), ("rows", 0, 0)], [], True) for place in (0, 2, 4)]
    examples += [(FILES, [("type", 3, "duration")], [], True), (FILES, [("fill", 2, "time")], [], True)]
    examples += [(ROWS, [("no rows", 0, None)], [], True), (ROWS, [("fill", 4, "list")], [], True)]
    fuzz("embeddings: Parquet", st.sampled_from(sorted(TABLES)).flatmap(made), use, examples=examples)


def test_a_changed_description_of_embeddings(tmp_path):
    path = tmp_path / "birds"
    document = {"checksum": ""} | DESCRIPTION

    def use(found):
        changes, flips = found
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(BIRDS, path)
        (path / "embeddings.json").write_bytes(changed_bytes(sealed_json(changed_json(document, changes)), flips))
        use_embeddings(path)

    made = st.tuples(json_changes(document), st.just([]) | st.just([]) | byte_changes(2))
    examples = [([], []), ([Change(("backbone",), "wrap")], []), ([Change(("backbone", "dim"), "near", "")], [])]
    examples += [([Change(("backbone", "dim"), "replace", 2**62)], [])]
    fuzz("embeddings: embeddings.json", made, use, examples=examples)


def test_changed_results(tmp_path):
    path = tmp_path / "results.jsonl"
    runs = [json.loads(line) for line in RUNS]

    def use(found):
        lines, flips = found
        content = b"\n".join(sealed_json(changed_json(runs[number], changes)) for number, changes in lines)
        path.write_bytes(changed_bytes(content, flips))
        results = Results(path)
        read = results.read()
        assert not read.damaged or read.trouble(path)
        results.append([*read.runs, Run({"method": "pcbm"}, 0, {"accuracy": 0.5}, 1.0)])
        again = Results(path).read()
        assert {run.key for run in again.runs} >= {run.key for run in read.runs}
        assert len(again.damaged) == len(read.damaged)
        if read.damaged and not read.runs:
            raise cq.errors.ChoqolateError(read.trouble(path))

    line = st.sampled_from(range(len(runs))).flatmap(
        lambda number: st.tuples(st.just(number), st.just([]) | json_changes({"checksum": ""} | runs[number]))
    )
    fuzz(
        "results", st.tuples(st.lists(line, max_size=4), st.just([]) | byte_changes()), use, examples=[([(0, [])], [])]
    )
