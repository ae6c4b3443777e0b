from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from safetensors.numpy import load_file
from safetensors.numpy import save as save_arrays

import choqolate as cq
from choqolate._util.leftovers import temporary_name
from choqolate.data.provenance import Provenance
from choqolate.estimators.model_folder import check_model_folder
from tests.sealing import change_json, change_numbers, write_json
from tests.small_tables import bird_scores
from tests.trust.ledger import note, scaled


@pytest.fixture(scope="module")
def birds():
    return bird_scores(80)


@pytest.fixture(scope="module")
def model(birds):
    X, y, _ = birds
    return cq.ChoqolateClassifier(n_nodes=3, epochs=3).fit(X, y)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_nodes": None, "random_state": 4},
        {"interactions": "factored", "rank": 3, "track": True},
        {"interactions": "none", "free_weights": True},
        {"bipolar": True, "class_weight": {"landbird": 1.0, "waterbird": 2.5}, "dtype": "float64"},
        {"class_weight": "balanced", "random_state": np.random.RandomState(1)},
    ],
)
def test_a_loaded_model_is_the_saved_one(tmp_path, birds, options):
    X, y, _ = birds
    model = cq.ChoqolateClassifier(**{"n_nodes": 3, "epochs": 3} | options).fit(X, y)
    model.save(tmp_path / "model")
    assert sorted(os.listdir(tmp_path / "model")) == ["config.json", "model.safetensors"]
    back = cq.load(tmp_path / "model")
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(back.node_attributions_, model.node_attributions_)
    np.testing.assert_array_equal(back.class_attributions_, model.class_attributions_)
    assert back.history_.keys() == model.history_.keys()
    for name, values in model.history_.items():
        np.testing.assert_array_equal(back.history_[name], values)
    same = set(model.get_params()) - ({"random_state"} if not isinstance(model.random_state, int) else set())
    assert all(back.get_params()[name] == model.get_params()[name] for name in same)
    assert list(back.feature_names_in_) == list(model.feature_names_in_)
    np.testing.assert_array_equal(back.classes_, model.classes_)
    np.testing.assert_array_equal(back.fit(X, y).classes_, model.classes_)


@pytest.mark.parametrize("mode", ["rescale", "canonical", "impute"])
def test_edits_are_saved_and_can_be_undone_after_loading(tmp_path, birds, model, mode):
    X, _, _ = birds
    edited = model.remove_concepts(["sea"], mode=mode, recalibrate=X).remove_concepts("crest", nodes=[1])
    edited.save(tmp_path)
    back = cq.load(tmp_path)
    np.testing.assert_array_equal(back.predict_proba(X), edited.predict_proba(X))
    np.testing.assert_array_equal(back.removal_.mass_lost, edited.removal_.mass_lost)
    assert back.removal_.edits == edited.removal_.edits
    np.testing.assert_array_equal(back.restore().predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(back.restore("crest").predict_proba(X), edited.restore("crest").predict_proba(X))


def test_the_config_is_readable(tmp_path, model):
    model.remove_concepts("sea").save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["format_version"] == 6
    assert config["concepts"] == model.concepts_
    assert config["classes"] == ["landbird", "waterbird"]
    assert config["hyperparameters"]["temperature"] == 0.005
    assert config["edits"] == [{"edit": "remove", "concepts": ["sea"], "nodes": None, "mode": "rescale"}]
    assert config["training"]["epochs"] == 3


def test_provenance_is_kept_through_saving_and_editing_and_reset_by_training(tmp_path, birds):
    X, y, _ = birds
    model = cq.ChoqolateClassifier(n_nodes=3, epochs=1).fit(X, y)
    assert model.provenance_ == Provenance()
    model.provenance_ = {"backbone": {"name": "ViT-B/32"}, "vocabulary": {"prompts": ["a photo of {}"]}}
    model.remove_concepts("sea").save(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["provenance"] == model.provenance_.as_dict()
    back = cq.load(tmp_path)
    assert back.provenance_ == back.restore().provenance_ == model.provenance_
    assert back.fit(X, y).provenance_ == Provenance()
    assert all(run.provenance_ == Provenance() for run in cq.fit_runs(X, y, seeds=range(2), n_nodes=3, epochs=1))


def test_models_without_provenance_load_and_save(tmp_path, birds, model):
    model.save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config.pop("provenance") == {}
    write_json(tmp_path / "config.json", config)
    back = cq.load(tmp_path)
    assert back.provenance_ == Provenance()
    back.provenance_ = None
    back.save(tmp_path)
    assert cq.load(tmp_path).provenance_ == Provenance()


@pytest.mark.parametrize("provenance", [{"a": object()}, {"a": float("nan")}, {("a", "b"): 1}, ["a"]])
def test_provenance_that_json_cannot_hold_is_not_saved(tmp_path, model, provenance):
    other = model.remove_concepts("sea")

    def set_and_save():
        other.provenance_ = provenance
        other.save(tmp_path / "model")

    with pytest.raises(cq.ChoqolateError, match="expected provenance to"):
        set_and_save()
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("labels", [[3, 7], [True, False], [0.0, 2.0], ["ü", "\U0001f426"]])
def test_labels_keep_their_type(tmp_path, birds, labels):
    X, _, _ = birds
    y = np.array(labels)[np.arange(80) % 2]
    cq.ChoqolateClassifier(epochs=1).fit(X.to_numpy(), y).save(tmp_path)
    back = cq.load(tmp_path)
    assert back.classes_.dtype == y.dtype
    assert sorted(back.classes_.tolist()) == sorted(labels)
    assert back.concepts_ == [f"x{j}" for j in range(6)]
    assert not hasattr(back, "feature_names_in_")


def test_saving_again_replaces_and_leaves_other_files_alone(tmp_path, model):
    (tmp_path / "notes.txt").write_text("mine")
    model.save(tmp_path)
    model.remove_concepts("sea").save(tmp_path)
    assert cq.load(tmp_path).removal_.concepts == ("sea",)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["config.json", "model.safetensors", "notes.txt"]


@pytest.mark.trust
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_at_any_moment_leaves_the_old_model_or_the_new_one(tmp_path, birds, model):
    X, _, _ = birds
    versions = [model, model.remove_concepts("sea")]
    expected = [version.predict_proba(X) for version in versions]
    folder = tmp_path / "model"
    start = time.perf_counter()
    versions[0].save(folder)
    one_save = time.perf_counter() - start
    seen, least = set(), scaled(30)
    rng = random.Random(0)
    for kill in range(10 * least):
        child = os.fork()
        if child == 0:
            while True:
                for version in versions:
                    version.save(folder)
        # on any disk, however busy: from within the first save to after several
        time.sleep(rng.uniform(0.2, 6) * one_save * (1 + kill / least))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found = cq.load(folder).predict_proba(X)
        matches = [index for index, wanted in enumerate(expected) if np.array_equal(found, wanted)]
        assert matches
        seen.update(matches)
        if kill >= least and seen == {0, 1}:
            break
    assert seen == {0, 1}
    note("kills", "save", kill + 1)


@pytest.mark.parametrize("name", ["model-{}.safetensors.next", "model.safetensors.next"])  # of today, and before
def test_a_save_cut_short_after_its_config_is_still_found(tmp_path, birds, model, name):
    X, _, _ = birds
    model.save(tmp_path / "old")
    edited = model.remove_concepts("sea")
    edited.save(tmp_path / "new")
    (tmp_path / "old" / "config.json").write_bytes((tmp_path / "new" / "config.json").read_bytes())
    numbers = (tmp_path / "new" / "model.safetensors").read_bytes()
    (tmp_path / "old" / "model.safetensors").write_bytes(b"an older model's numbers")
    (tmp_path / "old" / name.format(hashlib.sha256(numbers).hexdigest())).write_bytes(numbers)
    np.testing.assert_array_equal(cq.load(tmp_path / "old").predict_proba(X), edited.predict_proba(X))
    model.save(tmp_path / "old")
    assert sorted(os.listdir(tmp_path / "old")) == ["config.json", "model.safetensors"]


def test_two_saves_cut_short_one_after_the_other_lose_nothing(tmp_path, birds, model, monkeypatch):
    X, _, _ = birds
    model.save(tmp_path)
    second, third = model.remove_concepts("sea"), model.remove_concepts("crest")
    rename = os.replace

    def cut_before(target):
        def replace(source, destination):
            if str(destination).endswith(target):
                raise KeyboardInterrupt
            rename(source, destination)

        return replace

    for version, target in ((second, "model.safetensors"), (third, "config.json")):
        monkeypatch.setattr(os, "replace", cut_before(target))
        with pytest.raises(KeyboardInterrupt):
            version.save(tmp_path)
        monkeypatch.undo()
        if version is second:
            np.testing.assert_array_equal(cq.load(tmp_path).predict_proba(X), second.predict_proba(X))
    np.testing.assert_array_equal(cq.load(tmp_path).predict_proba(X), second.predict_proba(X))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_processes_that_save_to_one_folder_at_a_time_lose_nothing(tmp_path, birds, model):
    X, _, _ = birds
    versions = [model.remove_concepts(name) for name in ("sea", "crest", "forest")]
    expected = [version.predict_proba(X) for version in versions]
    folder = tmp_path / "model"
    children = []
    for version in versions:
        children.append(os.fork())
        if children[-1] == 0:
            try:
                for _ in range(15):
                    version.save(folder)
            except BaseException:
                os._exit(1)
            os._exit(0)
    seen = set()
    while children:
        if folder.exists() and (folder / "config.json").exists():  # a reader beside the writers
            found = cq.load(folder).predict_proba(X)
            seen.add(next(k for k, wanted in enumerate(expected) if np.array_equal(found, wanted)))
        process, status = os.waitpid(children[0], os.WNOHANG)
        if process:
            assert status == 0
            children.pop(0)
    assert len(seen) > 1
    assert sorted(os.listdir(folder)) == ["config.json", "model.safetensors"]


def test_a_first_save_that_was_killed_is_no_model_and_no_obstacle(tmp_path, model):
    folder = tmp_path / "model"
    model.save(folder)
    numbers = (folder / "model.safetensors").read_bytes()
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / f"model-{hashlib.sha256(numbers).hexdigest()}.safetensors.next").write_bytes(numbers)
    with subprocess.Popen(["true"]) as ended:
        pass
    left = temporary_name(folder / "config.json")
    (folder / left.name.replace(str(os.getpid()), str(ended.pid))).write_bytes(b"{")
    check_model_folder(folder)
    with pytest.raises(cq.ChoqolateError, match=r"with config\.json"):
        cq.load(folder)
    model.save(folder)
    assert sorted(os.listdir(folder)) == ["config.json", "model.safetensors"]


def test_a_change_by_hand_is_found_and_a_sentence_says_how_to_make_it(tmp_path, birds, model):
    X, _, _ = birds
    model.save(tmp_path)
    config = tmp_path / "config.json"
    written = config.read_text()
    config.write_text(written.replace('"landbird"', '"wren"'))
    with pytest.raises(cq.ChoqolateError, match=r"edited after it was saved.* delete the line \"checksum\""):
        cq.load(tmp_path)
    lines = config.read_text().splitlines(keepends=True)
    config.write_text("".join(line for line in lines if '"checksum"' not in line))
    with pytest.warns(cq.ChoqolateWarning, match=r"has no checksum.* Save the model again"):
        edited = cq.load(tmp_path)
    assert "wren" in edited.predict(X)
    edited.save(tmp_path)
    assert cq.load(tmp_path).classes_.tolist() == edited.classes_.tolist()
    config.write_bytes(b"\xef\xbb\xbf" + config.read_bytes().replace(b"\n", b"\r\n"))  # as some editors do
    cq.load(tmp_path)


def test_what_could_not_be_loaded_is_not_saved(tmp_path, birds, model):
    X, y, _ = birds
    changed = cq.ChoqolateClassifier(n_nodes=3, epochs=1).fit(X, y).set_params(n_nodes=9)
    assert len(changed.get_feature_names_out()) == 3
    with pytest.raises(cq.ChoqolateError, match=r"nodes.theta of shape \(9, 6, 6\), found \(3, 6, 6\)"):
        changed.save(tmp_path / "model")
    odd = cq.ChoqolateClassifier(n_nodes=3, epochs=1).fit(X, np.where(y == "landbird", "\ud800", "b"))
    with pytest.raises(cq.ChoqolateError, match="UTF-8"):
        odd.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def change_config(folder, **changes):
    change_json(folder / "config.json", **changes)


def change_arrays(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    change_numbers(folder, save_arrays(tensors))


class Trap:
    """What would run if anything here were unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (os.mkdir, (str(self.marker),))


def hyperparameters(**changes):
    return cq.ChoqolateClassifier(n_nodes=3, epochs=3).get_params() | changes


DAMAGE = {
    "config.json is missing": (lambda f: (f / "config.json").unlink(), "expected a model folder with config.json"),
    "config.json is empty": (lambda f: (f / "config.json").write_text(""), "not valid JSON"),
    "config.json is not text": (lambda f: (f / "config.json").write_bytes(b"\xff\xfe\x00"), "not UTF-8"),
    "config.json is a deep nest": (lambda f: (f / "config.json").write_text("[" * 100_000), "nested too deeply"),
    "config.json is a list": (lambda f: (f / "config.json").write_text("[]"), "expected config.json to say format"),
    "config.json is another program's": (lambda f: (f / "config.json").write_text('{"a": 1}'), "to say format"),
    "from a newer version": (lambda f: change_config(f, format_version=99), "format version 99.*upgrade"),
    "no concepts": (lambda f: change_config(f, concepts=None), "incomplete or damaged"),
    "too few concepts": (lambda f: change_config(f, concepts=["a"]), "expected nodes.theta of shape"),
    "concepts twice": (lambda f: change_config(f, concepts=["sea"] * 6), "every concept once"),
    "concepts in one word": (lambda f: change_config(f, concepts="abcdef"), "list of names"),
    "classes twice": (lambda f: change_config(f, classes=["a", "a"]), "text or number classes"),
    "nested classes": (lambda f: change_config(f, classes=[["a"], ["b"]]), "text or number classes"),
    "version true": (lambda f: change_config(f, format_version=True), "format version True"),
    "no history": (lambda f: change_arrays(f, lambda t: t.pop("history.loss")), "has no 'history.loss'"),
    "classes of a strange type": (lambda f: change_config(f, class_dtype="V8"), "text or number classes"),
    "classes that are objects": (lambda f: change_config(f, class_dtype="datetime64[s]"), "text or number classes"),
    "unknown hyperparameter": (
        lambda f: change_config(f, hyperparameters=hyperparameters(evil=1)),
        "incomplete or damaged.*evil",
    ),
    "impossible hyperparameter": (
        lambda f: change_config(f, hyperparameters=hyperparameters(temperature=-1)),
        "temperature",
    ),
    "edit of an unknown concept": (
        lambda f: change_config(f, edits=[{"edit": "remove", "concepts": ["moon"]}]),
        "moon",
    ),
    "removal in an unknown mode": (
        lambda f: change_config(f, edits=[{"edit": "remove", "concepts": ["sea"], "mode": "x"}]),
        "mode of removal among .*'x'",
    ),
    "edit of an unknown kind": (lambda f: change_config(f, edits=[{"edit": "paint"}]), "'paint'.*Upgrade choqolate"),
    "edit without a kind": (lambda f: change_config(f, edits=[{}]), "Expected an edit among remove"),
    "edit without concepts": (
        lambda f: change_config(f, edits=[{"edit": "remove"}]),
        "edit 'remove' has missing or unknown fields: concepts",
    ),
    "edit of text": (lambda f: change_config(f, edits=["remove"]), "Expected an edit among remove"),
    "edit of nodes that are not there": (
        lambda f: change_config(f, edits=[{"edit": "remove", "concepts": ["sea"], "nodes": [7]}]),
        "nodes from 0 to 2",
    ),
    "factor below zero": (
        lambda f: change_config(f, edits=[{"edit": "reweight", "factors": {"sea": -1.0}}]),
        "factor from 0 to 1,000,000 for 'sea'",
    ),
    "shift of too few classes": (
        lambda f: change_config(f, edits=[{"edit": "recalibrate", "shift": [0.1]}]),
        "shift of 2 class scores, got 1",
    ),
    "provenance is text": (lambda f: change_config(f, provenance="me"), "provenance to be a dictionary, found str"),
    "provenance is null": (lambda f: change_config(f, provenance=None), "provenance to be a dictionary"),
    "no checksum": (lambda f: change_config(f, sha256=None), "truncated or not the one"),
    "numbers are missing": (lambda f: (f / "model.safetensors").unlink(), "model.safetensors is missing"),
    "numbers are truncated": (
        lambda f: os.truncate(f / "model.safetensors", 100),
        "truncated or not the one that config.json names",
    ),
    "one array is missing": (lambda f: change_arrays(f, lambda t: t.pop("score_min")), "has no 'score_min'"),
    "one array is too long": (
        lambda f: change_arrays(f, lambda t: t.update(class_shift=np.zeros(9))),
        r"class_shift of shape \(2,\)",
    ),
    "one number is not finite": (
        lambda f: change_arrays(f, lambda t: t["nodes.theta"].fill(np.nan)),
        "nodes.theta holds numbers that are not",
    ),
}


@pytest.mark.hostile("models")
@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_an_error_that_says_so(tmp_path, model, kind):
    damage, message = DAMAGE[kind]
    model.save(tmp_path)
    damage(tmp_path)
    with pytest.raises(cq.ChoqolateError, match=message):
        cq.load(tmp_path)


def test_nothing_in_a_folder_is_executed(tmp_path, model):
    folder, marker = tmp_path / "model", tmp_path / "executed"
    model.save(folder)
    trap = pickle.dumps(Trap(marker))
    change_numbers(folder, trap)
    with pytest.raises(cq.ChoqolateError, match="not a safetensors file"):
        cq.load(folder)
    assert not marker.exists()


def test_a_save_does_not_overwrite_what_is_not_a_model(tmp_path, model):
    (tmp_path / "config.json").write_text('{"mine": true}')
    with pytest.raises(cq.ChoqolateError, match="not a model's and would be overwritten"):
        model.save(tmp_path)
    assert (tmp_path / "config.json").read_text() == '{"mine": true}'
    message = r"Expected a folder for the model, but .*config.json is a file\. Choose another name\."
    with pytest.raises(cq.ChoqolateError, match=message):
        model.save(tmp_path / "config.json")
    with pytest.raises(cq.ChoqolateError, match=r"config.json is a file: choose another path"):
        model.save(tmp_path / "config.json" / "model")


def test_a_model_may_ask_for_a_folder_of_its_own(tmp_path, model):
    check_model_folder(tmp_path / "new")
    check_model_folder(tmp_path)
    (tmp_path / "gull.jpg").write_bytes(b"")
    message = r"Expected a new or empty folder for the model, but .* holds other things\. Choose another one\."
    with pytest.raises(cq.ChoqolateError, match=message):
        check_model_folder(tmp_path)
    model.save(tmp_path)  # whoever does not ask may keep it beside other things
    check_model_folder(tmp_path)
    (tmp_path / "config.json").write_text('{"mine": true}')
    with pytest.raises(cq.ChoqolateError, match="not a model's and would be overwritten"):
        check_model_folder(tmp_path)
