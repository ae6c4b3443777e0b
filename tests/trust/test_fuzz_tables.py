"""Tables of scores and lists of images and of words, as a stranger could have made them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

import choqolate as cq
from choqolate._util.sealed_parquet import seal
from choqolate.concepts.word_lists import read_words
from choqolate.data.image_list import read_csv
from choqolate.data.score_file import ScoreFile
from choqolate.estimators.table_training import fit_scores
from tests.formats.write import FORMATS
from tests.trust.fuzzing import fuzz
from tests.trust.mutations import (
    Change,
    byte_changes,
    changed_bytes,
    changed_csv,
    changed_json,
    changed_parquet,
    csv_changes,
    json_changes,
    parquet_bytes,
    parquet_changes,
    sealed_json,
)

SCORES = FORMATS / "scores" / "version_1" / "full.parquet"
OWN = pq.read_table(SCORES)
WIDE = pa.table(
    {"path": [f"{n}.jpg" for n in range(8)], "label": ["gull", "wren"] * 4, "sea": [0.1 * n for n in range(8)]}
)
WIDE = WIDE.append_column("crest", pa.array([0.5, 0.25] * 4))

pytestmark = pytest.mark.trust


def use_table(table):
    assert np.isfinite(table.scores).all()
    assert table.scores.shape == (len(table), len(table.concepts))
    assert str(table)
    repr(table.provenance)
    if len(set(table.classes)) > 1 and len(table):
        model = fit_scores(table.with_split(), n_nodes=2, epochs=1, device="cpu", calibrate=False)
        assert np.isfinite(model.predict_proba(table.scores)).all()


def test_a_changed_parquet_table(tmp_path):
    path = tmp_path / "scores.parquet"

    def use(found):
        kind, changes, flips, sealed = found
        content = parquet_bytes(changed_parquet({"own": OWN, "wide": WIDE}[kind], changes))
        path.write_bytes(changed_bytes(content, flips))
        if sealed and not flips:
            seal(path)
        table = cq.ConceptScores.load(path)
        file = ScoreFile(path)
        assert file.fingerprint == table.fingerprint
        assert sum(map(len, file.blocks())) == len(table)
        assert file.codes.classes == table.classes
        use_table(table)
        table.save(path)
        assert cq.ConceptScores.load(path).fingerprint == table.fingerprint

    def made(kind, table):
        flips = st.just([]) | st.just([]) | byte_changes(2)
        return st.tuples(st.just(kind), parquet_changes(table), flips, st.booleans())

    no_text = [("no rows", 0, None), ("metadata", 0, ([Change(("classes", 1), "replace", 1e300)],))]
    examples = [("own", [], [], True), ("wide", [], [], False)]
    examples += [("own", [("double", 3, None)], [], True), ("own", [("double", 4, None)], [], True)]
    examples += [("own", no_text, [], True)]
    fuzz("score table: Parquet", made("own", OWN) | made("wide", WIDE), use, examples=examples)


GRID = [["path", "label", "split", "group", "sea", "crest"]]
GRID += [
    [f"{n}.jpg", ("gull", "wren")[n % 2], ("train", "", "test")[n // 3], "ab"[n % 2], f"0.{n}", f"{n}e-2"]
    for n in range(8)
]


def text_table(grid):
    flips = st.just([]) | st.just([]) | byte_changes(2)
    return st.tuples(csv_changes(), flips).map(lambda found: changed_bytes(changed_csv(grid, found[0]), found[1]))


def test_a_changed_csv_table(tmp_path):
    path = tmp_path / "scores.csv"

    def use(content):
        path.write_bytes(content)
        table = cq.ConceptScores.load(path)
        use_table(table)
        table.save(tmp_path / "again.parquet")
        assert cq.ConceptScores.load(tmp_path / "again.parquet").fingerprint == table.fingerprint

    fuzz("score table: CSV", text_table(GRID) | st.binary(max_size=60), use, examples=[changed_csv(GRID, [])])


def test_a_changed_list_of_images(tmp_path):
    path = tmp_path / "images.csv"
    grid = [line[:4] for line in GRID]

    def use(content):
        path.write_bytes(content)
        rows = read_csv(path)
        assert len(rows) > 0
        assert len(rows.paths) == len(rows)
        assert str(rows)
        rows.with_split()

    examples = [changed_csv(grid, []), changed_csv(grid, [("header", 0, 0, "x" * 200_000)])]
    fuzz("list of images", text_table(grid) | st.binary(max_size=60), use, examples=examples)


WORDS = {"landbird": ["clawed feet", "Forest"], "waterbird": ["webbed_feet", "sea | ocean", "forest"]}
LINES = "webbed feet\nlong bill | long beak\n# rare\nHorseshoe Arch\nhorseshoe  arch.\nsea\n"


def test_a_changed_vocabulary(tmp_path):
    path = tmp_path / "words.txt"
    lines = st.lists(st.sampled_from(LINES.splitlines()) | st.text(max_size=9)).map(
        lambda some: "\n".join(some).encode("utf-8", "surrogatepass")
    )
    flips = byte_changes().map(lambda changes: changed_bytes(LINES.encode(), changes))

    def use(content):
        path.write_bytes(content)
        words = cq.Vocabulary.read(path)
        assert words.prompts()
        assert repr(words)
        assert len(set(words.concepts)) == len(words.concepts)
        cq.Vocabulary.parse(words.concepts)

    fuzz(
        "vocabulary",
        lines | flips | text_table([[line] for line in LINES.splitlines()]),
        use,
        examples=[LINES.encode()],
    )


def test_a_changed_word_list(tmp_path):
    documents = json_changes(WORDS).map(lambda changes: sealed_json(changed_json(WORDS, changes)))
    lists = json_changes(WORDS["waterbird"]).map(lambda changes: sealed_json(changed_json(WORDS["waterbird"], changes)))
    flips = byte_changes().map(lambda changes: changed_bytes(json.dumps(WORDS).encode(), changes))

    def use(found):
        content, name = found
        path = tmp_path / name
        path.write_bytes(content)
        words = read_words(path)
        assert words.names
        assert repr(words)
        cq.Vocabulary.parse(words.names)

    fuzz(
        "word list",
        st.tuples(documents | lists | flips, st.sampled_from(["words.json", "words.txt"])),
        use,
        examples=[(json.dumps(WORDS).encode(), "words.json")],
    )
