"""Every operation on files fails once, and ends the process once: run with ``faults.c`` preloaded.

    LD_PRELOAD=faults.so python -m tests.trust.fault_driver NAME FOLDER STEP

tries every operation, or every STEP-th, and prints a JSON object: how many attempts were made, and what went wrong in
those that did not end in the old or the new state.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
import warnings
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

import choqolate as cq
import choqolate.concepts.embedding as embedding
import choqolate.data.parquet_reader as parquet_reader
from choqolate.concepts.mini_backbone import MiniBackbone
from choqolate.data.manifest import Manifest
from choqolate.estimators.model_folder import check_model_folder
from choqolate.experiments.engine.results import Results, Run
from choqolate.studio.edited_model import save_edited
from tests.concepts.image_files import write_album
from tests.small_tables import CONCEPTS, bird_scores

FAIL, END = 2, 3
FAULTS = ctypes.CDLL(None)


class Change(ABC):
    """Something that takes a folder from an old state to a new one."""

    def __init__(self, place: Path) -> None:
        self.place = place  # for what is needed beside the folder

    @abstractmethod
    def begin(self, folder: Path) -> None:
        """Make the old state."""

    @abstractmethod
    def change(self, folder: Path) -> None:
        """Make the new state."""

    @abstractmethod
    def state(self, folder: Path) -> Any:
        """What a reader finds, such as can be compared."""


class SaveModel(Change):
    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.X, y, _ = bird_scores(60)
        self.model = cq.ChoqolateClassifier(n_nodes=2, epochs=1).fit(self.X, y)

    def begin(self, folder: Path) -> None:
        self.model.save(folder / "model")

    def change(self, folder: Path) -> None:
        check_model_folder(folder / "model")
        self.model.remove_concepts("sea").save(folder / "model")

    def state(self, folder: Path) -> Any:
        return cq.load(folder / "model").predict_proba(self.X).tolist()


class SaveFirstModel(SaveModel):
    def begin(self, folder: Path) -> None:
        pass

    def state(self, folder: Path) -> Any:
        if not (folder / "model" / "config.json").exists():
            return None
        return super().state(folder)


class SaveBesideOther(SaveModel):
    """As the studio does: a new folder for each edited model."""

    def change(self, folder: Path) -> None:
        save_edited(self.model.remove_concepts("sea"), folder / "model")

    def state(self, folder: Path) -> Any:
        return [super().state(folder)] + [
            cq.load(one).predict_proba(self.X).tolist() for one in sorted(folder.glob("model-*"))
        ]


class SaveEdits(SaveModel):
    def begin(self, folder: Path) -> None:
        cq.save_edits(self.model.remove_concepts("crest"), folder / "edits.json")

    def change(self, folder: Path) -> None:
        cq.save_edits(self.model.remove_concepts("sea"), folder / "edits.json")

    def state(self, folder: Path) -> Any:
        return list(map(str, self.model.apply_edits(folder / "edits.json").edits_))


class SaveScores(Change):
    suffix = ".parquet"

    def table(self, seed: int) -> cq.ConceptScores:
        parquet_reader.GROUP_BYTES = 1 << 14
        X, y, groups = bird_scores(800, seed=seed)  # three row groups
        return cq.ConceptScores(X.to_numpy(np.float64), CONCEPTS, labels=y, groups=groups)

    def begin(self, folder: Path) -> None:
        self.table(0).save(folder / f"scores{self.suffix}")

    def change(self, folder: Path) -> None:
        self.table(1).save(folder / f"scores{self.suffix}")

    def state(self, folder: Path) -> Any:
        return cq.ConceptScores.load(folder / f"scores{self.suffix}").fingerprint


class SaveCsv(SaveScores):
    suffix = ".csv"

    def table(self, seed: int) -> cq.ConceptScores:
        return super().table(seed).take(range(100))


class AppendResults(Change):
    def begin(self, folder: Path) -> None:
        Results(folder / "results.jsonl").append([Run({"data": "birds"}, 0, {"accuracy": 0.5}, 1.0)])

    def change(self, folder: Path) -> None:
        Results(folder / "results.jsonl").append(
            [Run({"data": "birds"}, seed, {"accuracy": 0.9}, 1.0) for seed in (1, 2)]
        )

    def state(self, folder: Path) -> Any:
        read = Results(folder / "results.jsonl").read()
        return [[run.seed, run.metrics] for run in read.runs], read.damaged


class Embed(Change):
    """Images are added to those that are embedded already."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        embedding.SHARD_ROWS = 1
        self.backbone = MiniBackbone()
        self.names = write_album(place / "album", 3)

    def manifest(self, n_images: int) -> Manifest:
        return Manifest(self.place / "album", self.names[:n_images], labels=["a", "b", "a"][:n_images])

    def begin(self, folder: Path) -> None:
        cq.embed(self.manifest(1), self.backbone, folder / "vectors", workers=0)

    def change(self, folder: Path) -> None:
        cq.embed(self.manifest(3), self.backbone, folder / "vectors", workers=0)

    def state(self, folder: Path) -> Any:
        found = cq.Embeddings.load(folder / "vectors")
        return [*found.manifest.paths], found.manifest.labels.tolist(), found.vectors().tolist()


class EmbedFirst(Embed):
    def begin(self, folder: Path) -> None:
        pass

    def state(self, folder: Path) -> Any:
        if not (folder / "vectors" / "rows.parquet").exists():
            return None
        return super().state(folder)


CHANGES = {
    "save": SaveModel,
    "first save": SaveFirstModel,
    "save of the studio": SaveBesideOther,
    "edits": SaveEdits,
    "score, Parquet": SaveScores,
    "score, CSV": SaveCsv,
    "results": AppendResults,
    "embed": Embed,
    "first embed": EmbedFirst,
}


def attempt(change: Change, folder: Path, number: int, mode: int) -> tuple[int, str]:
    """Let one operation fail; how many there were, and what kind of error came of it."""
    FAULTS.faults_arm(os.fsencode(folder), number, mode)
    try:
        change.change(folder)
        said = ""
    except cq.ChoqolateError as error:
        said = "sentence" if str(folder) in str(error) else f"a sentence that names no file: {error}"
    except OSError as error:
        said = f"no sentence: {error!r}"
    return FAULTS.faults_disarm(), said


def attempt_in_child(change: Change, folder: Path, number: int) -> bool:
    """Let one operation end a process; whether it was reached."""
    child = os.fork()
    if child == 0:
        attempt(change, folder, number, END)
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


def leftovers(folder: Path, *endings: str) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.name.endswith(endings)]


def run(change: Change, place: Path, step: int) -> dict[str, Any]:
    """Try every operation, or some, in both ways."""
    pristine, folder = place / "old", place / "folder"
    pristine.mkdir()
    change.begin(pristine)
    old = change.state(pristine)
    shutil.copytree(pristine, folder)
    count, _ = attempt(change, folder, 0, FAIL)
    new = change.state(folder)
    assert count
    assert old != new
    wrong: list[str] = []
    tried = 0
    for mode in (FAIL, END):
        number, reached = 1, True
        while reached:
            shutil.rmtree(folder)
            shutil.copytree(pristine, folder)
            name = f"{'failed' if mode == FAIL else 'killed'} at operation {number}"
            if mode == FAIL:
                seen, said = attempt(change, folder, number, mode)
                reached = seen >= number
                if said not in ("", "sentence"):
                    wrong.append(f"{name}: {said}")
                if left := leftovers(folder, ".tmp"):
                    wrong.append(f"{name}: left {left}")
            else:
                reached = attempt_in_child(change, folder, number)
            tried += reached
            number += step
            try:
                found = change.state(folder)
                if found not in (old, new):
                    wrong.append(f"{name}: a third state {str(found)[:200]}")
                if found == new and isinstance(change, SaveBesideOther):
                    continue
                change.change(folder)
                if change.state(folder) != new:
                    wrong.append(f"{name}: the same again does not give the new state")
                if left := leftovers(folder, ".tmp", ".next"):
                    wrong.append(f"{name}: afterwards left {left}")
            except (OSError, ValueError) as error:
                wrong.append(f"{name}: {error!r}")
    return {"tried": tried, "wrong": wrong}


def main(names: str, where: Path, step: int) -> None:
    """Try some changes and print what became of them."""
    warnings.simplefilter("ignore", cq.ChoqolateWarning)
    found = {}
    for name in names.split("; "):
        place = where / name
        place.mkdir()
        found[name] = run(CHANGES[name](place), place, step)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
