"""One byte of a file is another one: then reading says so, or gives what it gave before."""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import choqolate as cq
from choqolate.concepts.mini_backbone import MiniBackbone
from choqolate.data.manifest import Manifest
from choqolate.estimators.model_document import arrays_of_model, document_of_model
from choqolate.experiments.engine.results import Results, Run
from tests.concepts.image_files import write_album
from tests.small_tables import CONCEPTS, bird_scores
from tests.trust.ledger import note, scaled

Reader = Callable[[Path], Any]


def read_model(folder: Path) -> Any:
    model = cq.load(folder / "model")
    arrays = {name: array.numpy().tobytes() for name, array in arrays_of_model(model).items()}
    return document_of_model(model), arrays


def read_edits(folder: Path) -> Any:
    return cq.load(folder / "trained").apply_edits(folder / "edits.json").network_.edits


def rows_of(rows: Any) -> Any:
    return [
        None if column is None else column.tolist() for column in (rows.labels, rows.split, rows.groups, rows.paths)
    ]


def read_scores(folder: Path) -> Any:
    table = cq.ConceptScores.load(folder / "scores.parquet")
    return table.scores.tobytes(), table.concepts, rows_of(table), table.classes, table.spurious, table.provenance


def read_embeddings(folder: Path) -> Any:
    found = cq.Embeddings.load(folder / "vectors")
    return found.vectors().tobytes(), rows_of(found.manifest), found.manifest.classes, found.folder.backbone


def embed_again(folder: Path) -> Any:
    """What is damaged is encoded again."""
    manifest = cq.Embeddings.load(folder / "vectors").manifest
    found = cq.embed(manifest, MiniBackbone(), folder / "vectors", workers=0)
    return found.vectors().tobytes(), found.digests


def score_again(folder: Path) -> Any:
    found = cq.Embeddings.load(folder / "vectors")
    return cq.score(found, cq.Vocabulary(["sea", "forest"]), MiniBackbone()).scores.tobytes()


def read_results(folder: Path) -> Any:
    read = Results(folder / "results.jsonl").read()
    if read.damaged:
        raise cq.ChoqolateError(read.trouble("results.jsonl"))
    return read.runs


KINDS: dict[str, tuple[str, tuple[Reader, ...]]] = {
    "model, config.json": ("model/config.json", (read_model,)),
    "model, model.safetensors": ("model/model.safetensors", (read_model,)),
    "edits.json": ("edits.json", (read_edits,)),
    "scores.parquet": ("scores.parquet", (read_scores,)),
    "embeddings, embeddings.json": ("vectors/embeddings.json", (read_embeddings,)),
    "embeddings, rows.parquet": ("vectors/rows.parquet", (read_embeddings, embed_again)),
    "embeddings, files.parquet": ("vectors/files.parquet", (read_embeddings, embed_again)),
    "embeddings, shard of images": ("vectors/images/*.parquet", (read_embeddings, embed_again)),
    "embeddings, shard of texts": ("vectors/texts/*.parquet", (score_again,)),
    "results.jsonl": ("results.jsonl", (read_results,)),
}


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    """One file of each kind, with all that it can hold."""
    folder = tmp_path_factory.mktemp("pristine")
    X, y, groups = bird_scores(120)
    split = np.array(["train", "train", "val", "test"])[np.arange(120) % 4]
    paths = [f"{row}.jpg" for row in range(120)]
    facts = {"source": "birds", "note": "a" * 40}
    table = cq.ConceptScores(
        X.to_numpy(np.float32), CONCEPTS, y, split, groups, paths, spurious=["sea"], provenance=facts
    )
    table.save(folder / "scores.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cq.ChoqolateWarning)
        model = cq.fit_scores(table, n_nodes=3, epochs=2)
    edited = model.remove_concepts("sea", note="background").reweight_concepts({"crest": 0.5}).recalibrate(table)
    edited.save(folder / "model")
    model.save(folder / "trained")
    cq.save_edits(edited.remove_concepts("forest", nodes=[1]), folder / "edits.json")
    album = tmp_path_factory.mktemp("album")
    names = write_album(album, 6)
    manifest = Manifest(album, names, labels=["a", "b"] * 3, split=["train", "test"] * 3, groups=["x", "y", "z"] * 2)
    cq.embed(manifest, MiniBackbone(), folder / "vectors", workers=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("choqolate.concepts.preprocessing._SETTLED_NS", 200_000_000)
        time.sleep(0.25)  # now the times of the files can be trusted, and files are noted beside the shards
        found = cq.embed(manifest, MiniBackbone(), folder / "vectors", workers=0)
    cq.score(found, cq.Vocabulary(["sea", "forest"]), MiniBackbone())
    metrics = {"accuracy": 0.875, "worst group": None}
    Results(folder / "results.jsonl").append(
        [Run({"data": "birds", "rate": 0.1}, seed, metrics, 1.5) for seed in range(4)]
    )
    return folder


@pytest.mark.trust
@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_byte_is_found_or_does_no_harm(tmp_path, pristine, kind):
    pattern, readers = KINDS[kind]
    (name,) = (path.relative_to(pristine) for path in pristine.glob(pattern))
    content = (pristine / name).read_bytes()
    folder = tmp_path / "flipped"
    rng = np.random.default_rng(len(content))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cq.ChoqolateWarning)
        shutil.copytree(pristine, folder)
        expected = [reader(folder) for reader in readers]
        silent, n_flips = [], scaled(25)
        for _ in range(n_flips):
            place, change = int(rng.integers(len(content))), int(rng.integers(1, 256))
            for reader, wanted in zip(readers, expected, strict=True):
                shutil.rmtree(folder)
                shutil.copytree(pristine, folder)
                (folder / name).write_bytes(content[:place] + bytes([content[place] ^ change]) + content[place + 1 :])
                try:
                    found = reader(folder)
                except cq.ChoqolateError:
                    continue
                if found != wanted:
                    silent.append((place, change))
    note("flips", kind, n_flips, silent=len(set(silent)))
    assert silent == []
