"""Settings on a source: which are trained together, and which runs of an earlier version are theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from choqolate.debiasing.registry import DEBIASING
from choqolate.experiments import EXPERIMENTS, Options
from choqolate.experiments.engine.experiment import RunSetting
from choqolate.experiments.engine.results import Results
from choqolate.experiments.engine.settings_runner import Declared, run_settings
from choqolate.experiments.engine.sources import Source, table_source
from choqolate.experiments.engine.tasks import Asked, pieces, unmet
from tests.experiments.test_tuning import bird_table

ABSENT = Source("birds", "Bird scenes", Path("nowhere/scores.parquet"), "883359ecfda19114" + 48 * "0")
BIRDS = '"data": {"name": "birds", "fingerprint": "883359ecfda19114"}'
LINE = (
    '{{"config": {{"protocol": 4, {config}}}, "seed": 0, "metrics": {{"accuracy": 0.875, "gini": null}}, '
    '"seconds": 1.5, "shared": 3, "versions": {{"choqolate": "0.1.0"}}, "chosen": {{}}}}\n'
)
CHOSEN = {"learning_rate": 0.1, "penalty": 0.001}
WRITTEN = {  # as this version writes them
    "a baseline": (
        f'{BIRDS}, "method": "pcbm", "parameters": {{"learning_rate": 0.1, "penalty": 0.001}}',
        RunSetting("pcbm", {"n_nodes": 8} | CHOSEN, tuned_at={"n_nodes": 8} | CHOSEN),
    ),
    "another length": (
        f'{BIRDS}, "method": "choqolate", "parameters": {{"epochs": 5}}',
        RunSetting("choqolate", {"n_nodes": 8, "epochs": 5}, tuned_at={"n_nodes": 8, "epochs": 5}),
    ),
    "a temperature": (
        f'{BIRDS}, "method": "choqolate", "parameters": {{"l1": 0.0, "temperature": 0.001}}',
        RunSetting(parameters={"n_nodes": 8, "l1": 0.0, "temperature": 0.001}),
    ),
    "fewer classes": (
        '"data": {"name": "birds", "fingerprint": "883359ecfda19114", "n_classes": 5}, "method": "choqolate", '
        '"parameters": {}',
        RunSetting(parameters={"n_nodes": 8}, n_classes=5),
    ),
}


def test_runs_that_are_written_are_found_and_nothing_is_trained(tmp_path):
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


def test_runs_with_what_was_chosen_are_those_with_the_same_parameters_given():
    left_open, given = RunSetting("pcbm", {"n_nodes": 8}), RunSetting("pcbm", {"n_nodes": 8} | CHOSEN)
    assert Asked.on(ABSENT, left_open, CHOSEN).config == Asked.on(ABSENT, given).config
    assert Asked.on(ABSENT, left_open).config != Asked.on(ABSENT, given).config


@pytest.mark.parametrize("way", ["rescale", "ortho-proj"])
def test_runs_of_debiasing_are_known_by_this_config(way):
    config = Asked.on(ABSENT, RunSetting(parameters={"n_nodes": 8}, debiasing=way)).config
    data = {"name": "birds", "fingerprint": "883359ecfda19114"}
    assert config == {"protocol": 4, "data": data, "method": "choqolate", "parameters": {}, "debiasing": way}


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
    assert sizes(source, "components") == [("choqolate", 1)] * 9  # eight rows, one of them read twice
    assert sizes(source, "seeds") == [("choqolate", 1)] * 2  # batches are shared in one of them alone
    assert sizes(source, "mitigation") == [("choqolate", len(DEBIASING))]
    methods = ("choqolate", "pcbm", "pscbm")
    assert sizes(source, "accuracy", methods=methods) == [(name, 1) for name in methods]
    assert sorted(sizes(source, "nodes", methods=methods)) == sorted([(name, 1) for name in methods] * 5)


def test_what_is_chosen_with_eight_nodes_is_chosen_once(source, tmp_path):
    settings = EXPERIMENTS["nodes"].settings(source, Options(("slr-avd",), parameters={"epochs": 1}, quick=True))
    results = Results(tmp_path / "results.jsonl")
    told = []
    (found,) = run_settings([Declared(source, settings, [0])], results, processes=1, tell=told.append, verbose=False)
    assert [text for text in told if "at a time" in text] == [
        "tuning: 54 runs in 3 batches, 1 at a time",
        "training: 3 runs in 3 batches, 1 at a time",
    ]
    assert len({tuple(runs.chosen.items()) for runs in found.values()}) == 1


def test_a_method_that_cannot_do_without_nodes_says_so(source):
    assert unmet(source, RunSetting("sparse-autoencoder", {"n_nodes": None})) == "needs nodes"
    assert unmet(source, RunSetting("pcbm", {"n_nodes": None})) is None


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
