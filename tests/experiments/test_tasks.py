"""Settings on a source: which are trained together, and which runs of an earlier version are theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from choqolate.debiasing.registry import DEBIASING
from choqolate.experiments import EXPERIMENTS, Options
from choqolate.experiments.engine.experiment import RunSetting
from choqolate.experiments.engine.results import Results
from choqolate.experiments.engine.runner import Declared, run_settings
from choqolate.experiments.engine.sources import Source, table_source
from choqolate.experiments.engine.tasks import Asked, pieces, unmet
from tests.experiments.test_tuning import bird_table

ABSENT = Source("birds", "Bird scenes", Path("nowhere/scores.parquet"), "883359ecfda19114" + 48 * "0")
BIRDS = '"data": {"name": "birds", "fingerprint": "883359ecfda19114"}'
LINE = (
    '{{"config": {{"protocol": 1, {config}}}, "seed": 0, "metrics": {{"accuracy": 0.875, "gini": null}}, '
    '"seconds": 1.5, "shared": 3, "versions": {{"choqolate": "0.1.0"}}, "chosen": {{"learning_rate": 0.1}}}}\n'
)
WRITTEN = {  # as the first version wrote them
    "a baseline": (
        f'{BIRDS}, "method": "pcbm", "rule": "accuracy", "parameters": {{}}',
        RunSetting("pcbm", {"n_nodes": 8}, tuned_at={"n_nodes": 8}),
    ),
    "another rule": (
        f'{BIRDS}, "method": "choqolate", "rule": "sparsest", "parameters": {{"epochs": 5}}',
        RunSetting("choqolate", {"n_nodes": 8, "epochs": 5}, "sparsest", tuned_at={"n_nodes": 8, "epochs": 5}),
    ),
    "a temperature": (
        f'{BIRDS}, "method": "choqolate", "rule": "accuracy", "parameters": {{"l1": 0.0, "temperature": 0.001}}',
        RunSetting(parameters={"n_nodes": 8, "l1": 0.0, "temperature": 0.001}),
    ),
    "chosen with other nodes": (
        f'{BIRDS}, "method": "pcbm", "rule": "accuracy", "parameters": {{"n_nodes": 4}}, "tuned_at": {{}}',
        RunSetting("pcbm", {"n_nodes": 4}, tuned_at={"n_nodes": 8}),
    ),
    "fewer classes": (
        '"data": {"name": "birds", "fingerprint": "883359ecfda19114", "n_classes": 5}, "method": "choqolate", '
        '"rule": "accuracy", "parameters": {}',
        RunSetting(parameters={"n_nodes": 8}, n_classes=5),
    ),
}


def test_runs_that_the_first_version_wrote_are_found_and_nothing_is_trained(tmp_path):
    results = Results(tmp_path / "results.jsonl")
    results.path.write_text("".join(LINE.format(config=config) for config, _ in WRITTEN.values()))
    settings = {label: setting for label, (_, setting) in WRITTEN.items()}
    before = results.path.read_bytes()
    (found,) = run_settings([Declared(ABSENT, settings, [0])], results)  # there are no scores to train on
    assert list(found) == list(settings)
    for label, runs in found.items():
        assert runs.setting == settings[label]
        assert runs.values("accuracy") == (0.875,)
        assert runs.cell("accuracy", paper=(0.9, 0.1)).paper == (0.9, 0.1)
        assert runs.cell("gini").notes(1) == ["undefined in 1 of 1 run"]
        assert not runs.failed
    assert results.path.read_bytes() == before


@pytest.mark.parametrize("way", ["rescale", "ortho-proj"])
def test_runs_of_debiasing_that_the_first_version_wrote_are_known_by_the_same_config(way):
    config = Asked.on(ABSENT, RunSetting(parameters={"n_nodes": 8}, debiasing=way)).config
    data = {"name": "birds", "fingerprint": "883359ecfda19114"}
    assert config == {"protocol": 1, "data": data, "method": "choqolate", "parameters": {}, "debiasing": way}


@pytest.fixture
def source(tmp_path):
    bird_table().save(tmp_path / "own.parquet")
    return table_source(tmp_path / "own.parquet", spurious=("sea", "forest"))


def sizes(source, name, **options):
    settings = EXPERIMENTS[name].settings(source, Options(**options))
    work = pieces(source, [Asked.on(source, setting) for setting in settings.values()])
    return [(piece.asked[0].setting.method, len(piece.asked)) for piece in work]


def test_what_can_be_trained_together_is_one_piece_of_work(source):
    assert sizes(source, "temperature") == [("choqolate", 7)]
    assert sizes(source, "components") == [("choqolate", 1)] * 8
    assert sizes(source, "mitigation") == [("choqolate", len(DEBIASING))]
    methods = ("choqolate", "pcbm", "pscbm")
    assert sizes(source, "accuracy", methods=methods) == [(name, 1) for name in methods]
    # what is chosen with eight nodes is chosen once; nothing of ours is chosen, so its trainings are independent
    nodes = sorted(sizes(source, "nodes", methods=methods))
    assert nodes == [*[("choqolate", 1)] * 5, ("pcbm", 5), ("pscbm", 5)]
    assert sizes(source, "nodes", methods=methods[:1], rule="sparsest") == [("choqolate", 5)]


def test_what_a_source_lacks_is_a_reason_and_no_failure(source, tmp_path):
    setting = RunSetting(parameters={"n_nodes": 3, "epochs": 2}, debiasing="ortho-proj")
    assert unmet(source, RunSetting()) is None
    (found,) = run_settings([Declared(source, {"projected": setting}, [0])], Results(tmp_path / "results.jsonl"))
    assert found["projected"].runs == ()
    assert found["projected"].reason.startswith("needs the embeddings of the images")
    assert not found["projected"].failed
    assert not (tmp_path / "results.jsonl").exists()


def test_a_setting_that_fails_leaves_the_others_of_its_source(source, tmp_path):
    settings = {
        "bad": RunSetting(parameters={"n_nodes": 3, "epochs": 2, "temperature": -1}),
        "good": RunSetting("slr-avd", {"n_nodes": 3, "epochs": 2, "learning_rate": 0.1, "penalty": 1e-4}),
    }
    (found,) = run_settings(
        [Declared(source, settings, [0, 1])], Results(tmp_path / "results.jsonl"), processes=1, verbose=False
    )
    assert found["bad"].failed
    assert "temperature" in found["bad"].reason
    assert found["bad"].cell("accuracy").notes(2) == [found["bad"].reason]
    assert [run.seed for run in found["good"].runs] == [0, 1]
