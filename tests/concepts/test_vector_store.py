from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import choqolate as cq
from choqolate.concepts.vector_store import VectorStore

N_SHARDS, SHARD_ROWS, DIM = 6, 100, 16


class CountingStore(VectorStore):
    """Counts how often vectors of each shard are read."""

    def __init__(self, folder, dim):
        super().__init__(folder, dim)
        self.reads = Counter()

    def read_shard(self, path, columns):
        self.reads[path.name] += "embedding" in columns
        return super().read_shard(path, columns)


@pytest.fixture
def stored(tmp_path):
    """A store of several shards, with its digests and vectors in the order they were added."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((N_SHARDS * SHARD_ROWS, DIM)).astype(np.float32)
    digests = [hashlib.sha256(bytes([row % 256, row // 256])).digest() for row in range(len(vectors))]
    store = CountingStore(tmp_path / "store", DIM)
    for start in range(0, len(vectors), SHARD_ROWS):
        store.add(digests[start : start + SHARD_ROWS], vectors[start : start + SHARD_ROWS])
    return store, digests, vectors


@pytest.mark.parametrize("n_columns", [1, 3, 50])
def test_products_have_the_same_bits_in_every_order_and_cost_no_more(stored, n_columns):
    store, digests, vectors = stored
    matrix = np.random.default_rng(1).standard_normal((DIM, n_columns)).astype(np.float32)
    in_order = list(store.find(digests).products(matrix))
    np.testing.assert_allclose(np.concatenate(in_order), vectors.astype(np.float64) @ matrix, atol=1e-4)
    rng = np.random.default_rng(2)
    for rows in (rng.permutation(len(vectors)), rng.permutation(len(vectors))[:77], np.array([5, 5, 300, 5])):
        store.reads.clear()
        found = list(store.find([digests[row] for row in rows]).products(matrix))
        np.testing.assert_array_equal(np.concatenate(found), np.concatenate(in_order)[rows])
        assert len(found) <= len(in_order)
        assert max(store.reads.values()) == 1
    wider = list(store.find(digests).products(matrix, 600))
    assert max(map(len, wider)) == 600
    np.testing.assert_array_equal(np.concatenate(wider), np.concatenate(in_order))


def test_blocks_are_the_vectors_in_order(stored, monkeypatch):
    store, digests, vectors = stored
    rows = np.random.default_rng(0).permutation(len(vectors))
    monkeypatch.setattr("choqolate.concepts.vector_store._BLOCK_BYTES", 1)  # the smallest blocks
    blocks = list(store.find([digests[row] for row in rows]).blocks())
    assert len(blocks) > 1
    np.testing.assert_array_equal(np.concatenate(blocks), vectors[rows])
    assert list(store.find([]).blocks()) == []


def test_a_damaged_shard_that_another_process_has_set_aside_is_no_error(stored, monkeypatch):
    store, digests, _ = stored
    path = next(store.folder.glob("*.parquet"))
    path.write_bytes(b"damaged")

    def faster(source, target):
        source.unlink()
        raise FileNotFoundError(source)

    monkeypatch.setattr("choqolate.concepts.vector_store.os.replace", faster)
    with pytest.warns(cq.ChoqolateWarning, match="is damaged and set aside"):
        assert len(store.digests()) == len(digests) - SHARD_ROWS


DIGESTS = pa.array([bytes([65 + row]) * 32 for row in range(3)], pa.binary(32))
VECTORS = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2))


@pytest.mark.hostile("embeddings")
@pytest.mark.parametrize(
    "odd",
    [
        {"embedding": pa.array([[1, 2], None, [5, 6]], pa.list_(pa.float32(), 2))},
        {"embedding": pa.array([[1, 2], [3, None], [5, 6]], pa.list_(pa.float32(), 2))},
        {"embedding": pa.array([[1, 2, 3], [4], [5, 6]], pa.list_(pa.float32()))},
        {"embedding": pa.array([[1], [2, 3, 4], [5, 6]], pa.large_list(pa.float32()))},
        {"embedding": pa.array([[1, 2, 3, 4]] * 3, pa.list_(pa.float32(), 4))},
        {"embedding": pa.array([1.0, 2.0, 3.0])},
        {"digest": pa.array([b"A" * 32, None, b"C" * 32], pa.binary(32))},
        {"digest": pa.array([b"A" * 32, b"B", b"C" * 32])},
        {"digest": pa.array(["A" * 32, "é" * 32, "C" * 32])},
    ],
)
def test_a_shard_whose_rows_are_no_vectors_is_set_aside(tmp_path, odd):
    store = VectorStore(tmp_path, 2)
    pq.write_table(pa.table({"digest": DIGESTS, "embedding": VECTORS}), tmp_path / "shard.parquet")
    np.testing.assert_array_equal(store.get([b"B" * 32]), [[3, 4]])
    try:
        pq.write_table(pa.table({"digest": DIGESTS, "embedding": VECTORS} | odd), tmp_path / "shard.parquet")
    except pa.ArrowNotImplementedError as error:
        pytest.skip(f"an old pyarrow cannot write this shard: {error}")
    with (
        pytest.warns(
            cq.ChoqolateWarning, match=r"set aside: expected (a vector of 2 numbers|fixed_size_binary.32.) in"
        ),
        pytest.raises(cq.ChoqolateError, match="1 of 1 vectors are not in"),
    ):
        store.get([b"A" * 32])
    assert [path.name for path in tmp_path.iterdir()] == ["shard.damaged"]
