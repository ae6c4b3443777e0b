"""Write a file of each format in its current version, and what it says, into the folder of the version.

    python -m tests.formats.write

A version that is there already is left alone: files of a released version are never written again.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import choqolate as cq
from choqolate.analysis.evaluation import evaluate, note_numbers
from choqolate.concepts import embedding_folder
from choqolate.data import parquet_reader
from choqolate.data.manifest import Manifest
from choqolate.datasets.birds.attributes import sample_scenes
from choqolate.datasets.birds.scenes import write_scenes
from choqolate.estimators import edits_file, model_document
from choqolate.experiments.engine.results import Results, Run
from choqolate.studio.bundle import build_bundle
from tests.formats.facts import facts_of_embeddings, facts_of_model, facts_of_results, facts_of_table
from tests.small_tables import CONCEPTS, bird_scores

FORMATS = Path(__file__).parent
VERSIONS = {
    "models": model_document.FORMAT_VERSION,
    "scores": parquet_reader.FORMAT,
    "embeddings": embedding_folder.FORMAT_VERSION,
    "results": 1,  # lines do not say it
    "edits": edits_file.FORMAT_VERSION,
}
CURRENT = {kind: f"version_{number}" for kind, number in VERSIONS.items()}
# Checksums did not change the version of these: earlier code reads files that have them.
CURRENT |= {kind: f"version_{VERSIONS[kind]}_sealed" for kind in ("scores", "embeddings", "results", "edits")}
ADA = {"author": "Ada", "time": "2026-11-19T12:00:00+00:00", "reason": "Wasser, nicht Vögel", "reviewed": True}
_EXPORT = """
import { readFileSync } from "node:fs";
const { editsDocument } = await import(`${process.argv[1]}/edits.js`);
const { textWithChecksum } = await import(`${process.argv[1]}/checksum.js`);
process.stdout.write(textWithChecksum(editsDocument(...JSON.parse(readFileSync(0, "utf8")))));
"""
WORDS = ["sea", "forest", "long bill"]


def bird_table(n_rows: int = 120) -> cq.ConceptScores:
    """Scores of six concepts with all that a table can say, some labels and groups unknown."""
    X, y, groups = bird_scores(n_rows)
    rows = np.arange(n_rows)
    return cq.ConceptScores(
        X.to_numpy(dtype=np.float32),
        CONCEPTS,
        labels=[None if row % 11 == 10 else label for row, label in enumerate(y)],
        split=np.array(["train", "train", "train", "val", "test"])[rows % 5],
        groups=[None if row % 13 == 12 else group for row, group in enumerate(groups)],
        paths=[f"Vögel/{row:03}.jpg" for row in rows],
        classes=["waterbird", "landbird"],
        spurious=["sea", "forest"],
        provenance={
            "backbone": {"name": "mini", "identity": "0123456789abcdef", "precision": "float32", "dim": 64},
            "vocabulary": {"concepts": CONCEPTS, "synonyms": {"sea": ["ocean"]}, "templates": ["a photo of {}"]},
            "source": "birds",
            "root": "/data/birds",
            "labels_from": "pseudo-labels of a classifier",
            "camera": "Leica",
        },
    )


def write_models(folder: Path) -> None:
    """Models with each record and each kind of edit; of one layer, factored and bipolar."""
    table = bird_table()
    X, y, _ = bird_scores(120)
    rows = X.iloc[:6].to_numpy().tolist()
    searched = cq.fit_scores(table, n_nodes="auto", temperature="auto", epochs=4)
    stable = cq.fit_scores(table, n_nodes=3, n_runs=2, epochs=4, shuffle="seed", l1_on="parameters", init="clusters")
    stable = note_numbers(stable, {"held out": evaluate(stable, table, "test", concept_counts=())})
    note = cq.Note(**ADA)
    edited = stable.remove_concepts(["sea", "forest"], mode="canonical", note=note).restore("forest")
    edited = edited.reweight_concepts({"crest": 0.3}, nodes=[0, 2]).remove_concepts("long bill", mode="impute")
    edited = edited.simplify(max_terms=8).recalibrate(table.part("train"), note="after the removal")
    integers = np.where(y == "landbird", 3, 7)
    factored = cq.ChoqolateClassifier(
        n_nodes=2, interactions="factored", rank=2, bipolar=True, dtype="float64", epochs=3, track=True
    ).fit(X.to_numpy(), integers)
    layer = cq.ChoqolateClassifier(
        n_nodes=None, interactions="none", free_weights=True, epochs=3, class_weight="balanced"
    )
    models = {
        "searched": searched,
        "edited": edited,
        "factored": factored.remove_concepts("x4"),
        "one-layer": layer.fit(X, y),
    }
    for name, model in models.items():
        model.save(folder / name)
        _write_facts(folder / name, {"X": rows, **facts_of_model(cq.load(folder / name), rows)})


def write_scores(folder: Path) -> None:
    """A table with all that a table can say, and one of scores only."""
    full = bird_table(12)
    plain = cq.ConceptScores(full.scores.astype(np.float64) / 3, [f"Wort {name}" for name in CONCEPTS])
    tables = {"full.parquet": full, "plain.parquet": plain}
    for name, table in tables.items():
        table.save(folder / name)
    _write_facts(folder, {name: facts_of_table(cq.ConceptScores.load(folder / name)) for name in tables})


def write_embeddings(folder: Path) -> None:
    """Images by the small encoder in two shards, one of them a copy of another; texts; notes on files."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "birds"
        root.mkdir()
        names = ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]
        write_scenes(sample_scenes(4, agreement=0.5), [root / name for name in names], workers=1)
        names.append("copy.jpg")
        shutil.copy(root / "a.jpg", root / "copy.jpg")
        time.sleep(2.1)  # until the times of the files can be trusted
        labels, groups = ["gull", "wren", None, "gull", "gull"], ["x", None, "y", "x", "x"]
        split = ["train", "train", "val", "test", "train"]
        manifest = Manifest(root, names, labels, split, groups, classes=["wren", "gull"], labels_from="guesses")
        backbone = cq.load_backbone("mini", device="cpu")
        for rows in (slice(0, 2), slice(None)):
            embeddings = cq.embed(manifest.take(rows), backbone, folder / "birds", workers=0)
    cq.score(embeddings, WORDS[:2], backbone)
    cq.score(embeddings, WORDS, backbone)
    _write_facts(folder, {"words": WORDS, **facts_of_embeddings(folder / "birds", WORDS)})


def write_results(folder: Path) -> None:
    """Runs with and without a metric that is undefined, one of them measured again."""
    results = Results(folder / "results.jsonl")
    config = {"data": "birds", "method": "choqolate", "nodes": [4, 8], "temperature": 0.005}
    versions = {"torch": "2.13.0", "numpy": "2.4.6"}
    metrics = {"accuracy": 0.875, "coherence": float("nan"), "Größe": 3.0}
    results.append([Run(config, seed, metrics, 2.5, shared=2, versions=versions) for seed in (0, 1)])
    results.append([Run({"method": "pcbm"}, 0, {"accuracy": None}, 0.25, chosen={"penalty": 1e-3})])
    results.append([Run(config, 1, {"accuracy": 0.9}, 1.5, versions=versions)])
    _write_facts(folder, facts_of_results(results.path))


def write_edits(folder: Path) -> None:
    """A trained model, edits of it that the library saved, and edits that the page of the studio exported."""
    table = bird_table()
    model = cq.fit_scores(table, n_nodes=3, epochs=4, calibrate=False)
    model.save(folder / "model")
    edited = model.remove_concepts("sea", nodes=[1], note=cq.Note(**ADA)).reweight_concepts({"crest": 0.5, "sea": 2.0})
    edited = edited.remove_concepts("forest").restore("forest").recalibrate(table.part("train"))
    cq.save_edits(edited, folder / "saved.json")
    (folder / "studio.json").write_text(_export(model, table), encoding="utf-8")
    rows = table.scores[:6].astype(float).tolist()
    model = cq.load(folder / "model")
    applied = {name: facts_of_model(model.apply_edits(folder / name), rows) for name in ("saved.json", "studio.json")}
    _write_facts(folder, {"X": rows, **applied})


def _export(model: cq.ChoqolateClassifier, table: cq.ConceptScores) -> str:
    """What the page of the studio exports; its module runs in Node.js 20 or later."""
    edits = [
        {"edit": "remove", "concepts": ["sea"], "nodes": None, "mode": "rescale", "note": ADA},
        {"edit": "reweight", "factors": {"crest": 0.3}, "nodes": [0, 2], "note": {"author": "Grace"}},
        {"edit": "remove", "concepts": ["forest", "long bill"], "nodes": None, "mode": "canonical"},
        {"edit": "restore", "concepts": ["forest"]},
        {"edit": "recalibrate", "shift": [0.01, -0.01], "rows": 72, "fingerprint": None},
    ]
    given = json.dumps([build_bundle(model, table).document, edits])
    engine = Path(cq.__file__).parent / "studio" / "page" / "engine"
    command = ["node", "--experimental-default-type=module", "--eval", _EXPORT, str(engine)]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout


def _write_facts(folder: Path, facts: dict[str, Any]) -> None:
    (folder / "expected.json").write_text(json.dumps(facts, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


WRITERS: dict[str, Callable[[Path], None]] = {
    "models": write_models,
    "scores": write_scores,
    "embeddings": write_embeddings,
    "results": write_results,
    "edits": write_edits,
}


def main() -> None:
    """Write what is missing."""
    for kind, write in WRITERS.items():
        folder = FORMATS / kind / CURRENT[kind]
        if folder.exists():
            print(f"{folder} is there already.")
            continue
        with tempfile.TemporaryDirectory() as place:
            made = Path(place) / "made"
            made.mkdir()
            write(made)
            shutil.copytree(made, folder, ignore=shutil.ignore_patterns(".*"))
        print(f"Wrote {folder}.")


if __name__ == "__main__":
    main()
