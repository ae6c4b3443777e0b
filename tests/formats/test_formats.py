from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import choqolate as cq
from choqolate.data.score_file import ScoreFile
from choqolate.errors import ChoqolateError
from choqolate.experiments.engine.results import Results, Run
from tests.formats.facts import facts_of_embeddings, facts_of_model, facts_of_results, facts_of_table
from tests.formats.write import CURRENT, FORMATS, VERSIONS
from tests.sealing import change_json

# What models of earlier versions hold besides their network; files of later ones say it themselves.
RECORDS = {
    "version_3/searched-bipolar": {"search"},
    "version_3/stable-edited": {"stability"},
    "version_4/calibrated-removed": {"calibration", "reference"},
}


def released(pattern: str) -> list[str]:
    found = sorted(path.relative_to(FORMATS).as_posix() for path in FORMATS.glob(pattern))
    assert found
    return found


def expected(folder: str) -> dict:
    return json.loads((FORMATS / folder / "expected.json").read_text(encoding="utf-8"))


def assert_says(found: object, wanted: object, where: str = "") -> None:
    """Everything that a file said when it was written, it says still; numbers up to rounding."""
    if isinstance(wanted, dict):
        assert isinstance(found, dict), where
        assert wanted.keys() <= found.keys(), where
        for name, value in wanted.items():
            assert_says(found[name], value, f"{where}.{name}")
    elif isinstance(wanted, list):
        assert isinstance(found, list | tuple), where
        assert len(found) == len(wanted), where
        for place, value in enumerate(wanted):
            assert_says(found[place], value, f"{where}[{place}]")
    elif isinstance(wanted, float):
        assert math.isclose(found, wanted, rel_tol=1e-11, abs_tol=1e-11), (where, found, wanted)
    else:
        assert type(found) is type(wanted), where
        assert found == wanted, where


@pytest.mark.parametrize("kind", CURRENT)
def test_every_format_has_files_of_its_current_version(kind):
    folder = FORMATS / kind / CURRENT[kind]
    assert folder.is_dir(), f"{folder} is missing: run python -m tests.formats.write"


@pytest.mark.parametrize("folder", released("models/version_*/*"))
def test_a_model_predicts_what_it_did_and_does_so_saved_again(tmp_path, folder):
    wanted = expected(folder)
    rows = wanted.pop("X")
    if "records" not in wanted:
        wanted.pop("concepts")  # of the rows; models of arrays have none
    model = cq.load(FORMATS / folder)
    model.save(tmp_path)
    for again in (model, cq.load(tmp_path)):
        found = facts_of_model(again, rows)
        assert_says(found, wanted)
        records = RECORDS.get(folder.removeprefix("models/"), set(wanted.get("records", ())))
        assert found["records"].keys() == records
    assert json.loads((tmp_path / "config.json").read_text())["format_version"] == VERSIONS["models"]


@pytest.mark.parametrize("folder", released("scores/version_*"))
def test_a_table_of_scores_holds_what_it_did(folder):
    for name, wanted in expected(folder).items():
        file = FORMATS / folder / name
        assert_says(facts_of_table(cq.ConceptScores.load(file)), wanted)
        assert_says(facts_of_table(ScoreFile(file).load()), wanted)
        assert ScoreFile(file).fingerprint == wanted["fingerprint"]


@pytest.mark.parametrize("folder", released("embeddings/version_*"))
def test_embeddings_hold_what_they_did(tmp_path, folder):
    wanted = expected(folder)
    copy = shutil.copytree(FORMATS / folder / "birds", tmp_path / "birds")
    before = sorted(copy.rglob("*"))
    assert_says(facts_of_embeddings(copy, wanted.pop("words")), wanted)
    assert sorted(copy.rglob("*")) == before  # nothing is set aside, and no text is encoded again


@pytest.mark.parametrize("folder", released("results/version_*"))
def test_results_are_what_they_were_and_are_added_to(tmp_path, folder):
    wanted = expected(folder)
    file = Path(shutil.copy(FORMATS / folder / "results.jsonl", tmp_path))
    assert_says(facts_of_results(file), wanted)
    Results(file).append([Run({"method": "new"}, 0, {"accuracy": 0.5}, 1.0)])
    found = facts_of_results(file)
    assert_says(found["runs"][:-1], wanted["runs"])
    assert (found["runs"][-1]["config"], found["damaged"]) == ({"method": "new"}, wanted["damaged"])


@pytest.mark.parametrize("folder", released("edits/version_*"))
def test_edits_do_what_they_did(folder):
    wanted = expected(folder)
    rows = wanted.pop("X")
    model = cq.load(FORMATS / folder / "model")
    for name, facts in wanted.items():
        assert_says(facts_of_model(model.apply_edits(FORMATS / folder / name), rows), facts)


def newest(kind: str, name: str, place: Path) -> Path:
    """A copy of a file or folder in its current version."""
    original = FORMATS / kind / CURRENT[kind] / name
    return Path((shutil.copytree if original.is_dir() else shutil.copy)(original, place / name))


@pytest.mark.parametrize("later", [1, 94])
def test_a_model_of_a_newer_version_is_refused_with_advice_to_upgrade(tmp_path, later):
    model = newest("models", "edited", tmp_path)
    change_json(model / "config.json", format_version=VERSIONS["models"] + later)
    with pytest.raises(ChoqolateError, match=rf"version {VERSIONS['models'] + later}.*[Uu]pgrade choqolate"):
        cq.load(model)


@pytest.mark.parametrize("later", [1, 94])
def test_a_table_of_a_newer_version_is_refused_with_advice_to_upgrade(tmp_path, later):
    file = FORMATS / "scores" / "version_1" / "full.parquet"
    table = pq.read_table(file)
    document = json.loads(table.schema.metadata[b"choqolate"]) | {"format": VERSIONS["scores"] + later}
    pq.write_table(table.replace_schema_metadata({"choqolate": json.dumps(document)}), tmp_path / "scores.parquet")
    for load in (cq.ConceptScores.load, ScoreFile):
        with pytest.raises(ChoqolateError, match=rf"format {VERSIONS['scores'] + later}.*[Uu]pgrade choqolate"):
            load(tmp_path / "scores.parquet")


@pytest.mark.parametrize("later", [1, 94])
def test_embeddings_of_a_newer_version_are_refused_with_advice_to_upgrade(tmp_path, later):
    folder = newest("embeddings", "birds", tmp_path)
    change_json(folder / "embeddings.json", format_version=VERSIONS["embeddings"] + later)
    with pytest.raises(ChoqolateError, match=rf"version {VERSIONS['embeddings'] + later}.*[Uu]pgrade choqolate"):
        cq.Embeddings.load(folder)


@pytest.mark.parametrize("name", ["saved.json", "studio.json"])
@pytest.mark.parametrize("later", [1, 94])
def test_edits_of_a_newer_version_are_refused_with_advice_to_upgrade(tmp_path, name, later):
    file, model = newest("edits", name, tmp_path), cq.load(newest("edits", "model", tmp_path))
    change_json(file, format_version=VERSIONS["edits"] + later)
    with pytest.raises(ChoqolateError, match=rf"version {VERSIONS['edits'] + later}.*[Uu]pgrade choqolate"):
        model.apply_edits(file)
