"""No reader waits for a named pipe in place of a file."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import choqolate as cq
from choqolate.analysis.predicting import predict_source
from choqolate.concepts.vector_store import VectorStore
from choqolate.datasets import read_source
from choqolate.datasets.places import PlacePredictions
from choqolate.experiments.engine.results import Results
from tests.pipes import needs_pipes, pipe_at
from tests.tiny import write_clip

pytestmark = [pytest.mark.hostile("pipes and devices"), needs_pipes]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Files of most kinds."""
    folder = tmp_path_factory.mktemp("kept")
    scores = np.random.default_rng(0).random((20, 3))
    table = cq.ConceptScores(scores, ["sea", "oak", "bill"], labels=["duck", "owl"] * 10)
    table.save(folder / "scores.parquet")
    model = cq.ChoqolateClassifier(n_nodes=2, epochs=1).fit(table.frame, table.labels)
    model.save(folder / "model")
    VectorStore(folder / "images", 2).add([b"a" * 32], np.eye(1, 2, dtype=np.float32))
    write_clip(folder / "clip")
    return folder


READERS = {
    "scores.csv": cq.ConceptScores.load,
    "scores.parquet": cq.ConceptScores.load,
    "open.parquet": cq.ConceptScores.open,
    "images.csv": cq.datasets.read_csv,
    "source.csv": read_source,
    "predicted.csv": lambda path: predict_source(cq.load(path.parent / "model"), path),
    "words.txt": cq.Vocabulary.read,
    "places.npz": PlacePredictions.from_score_file,
    "model/config.json": lambda path: cq.load(path.parent),
    "model/model.safetensors": lambda path: cq.load(path.parent),
    "edits.json": lambda path: cq.load(path.parent / "model").apply_edits(path),
    "embeddings/embeddings.json": lambda path: cq.Embeddings.load(path.parent),
    "images/shard.parquet": lambda path: VectorStore(path.parent, 2).digests(),
    "clip/config.json": lambda path: cq.load_backbone(path.parent),
    "clip/model.safetensors": lambda path: cq.load_backbone(path.parent),
    "clip/vocab.json": lambda path: cq.load_backbone(path.parent),
    "results.jsonl": lambda path: Results(path).read(),
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_refused_with_a_sentence(kept, tmp_path, name):
    folder = shutil.copytree(kept, tmp_path / "kept")
    (folder / name).parent.mkdir(exist_ok=True)
    with pipe_at(folder / name) as path, pytest.raises(cq.ChoqolateError) as refused:
        READERS[name](path)
    assert "is a pipe. Save its content to a file." in str(refused.value)
