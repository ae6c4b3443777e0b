"""Edits that the page sends: applied, measured and saved by Python."""

from __future__ import annotations

import copy
import errno
import io
import json
import re
import signal
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score

import choqolate as cq
from choqolate.estimators import model_folder
from choqolate.estimators.calibration import model_state
from choqolate.estimators.edits_file import edits_document
from choqolate.estimators.table_inputs import inputs
from choqolate.network.edits import Note
from choqolate.studio import create_app
from choqolate.studio.edited_model import save_edited
from choqolate.studio.row_choice import choose_rows
from tests.reports import NASTY, nasty_table, small_model
from tests.studio.running import running

REVIEWED = Note("Ada", reason="the sea is background", reviewed=True)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="module")
def server(studio_place, saved):
    app = create_app(studio_place.model, studio_place.table, page=studio_place.page, save_to=saved / "edited")
    with running(app) as server:
        yield server


def document_of(edited, opened=None):
    """What the page would send for the edits that were made since a model was opened."""
    document = edits_document(edited)
    if opened is not None:
        document["edits"] = document["edits"][len(opened.edits_) :]
        document["model"]["state"] = model_state(opened.network_)
    return document


def asked(document, **more):
    return {"document": document, **more}


def expected_numbers(model, table):
    """Accuracies on the validation rows by scikit-learn and pandas."""
    rows = table.part("val")
    frame = pd.DataFrame({"truth": rows.labels, "group": rows.groups, "found": model.predict(inputs(model, rows))})
    frame["hit"] = frame.truth == frame.found
    return (
        accuracy_score(frame.truth, frame.found),
        frame.groupby("truth").hit.mean(),
        frame.groupby("group").hit.mean(),
    )


def check_measured(measured, model, table):
    accuracy, classes, groups = expected_numbers(model, table)
    assert measured["all"]["accuracy"] == pytest.approx(accuracy, abs=1e-12)
    assert {one["name"]: one["accuracy"] for one in measured["classes"]} == pytest.approx(classes.to_dict())
    assert {one["name"]: one["accuracy"] for one in measured["groups"]} == pytest.approx(groups.to_dict())
    sizes = pd.Series(table.part("val").groups).value_counts()
    known = groups[sizes[sizes >= 10].index]
    assert (measured["worst_group"] is None) == known.empty
    assert known.empty or measured["worst_group"]["accuracy"] == pytest.approx(known.min())
    assert measured["all"]["rows"] == len(table.part("val"))


# ---------------------------------------------------------------------- numbers


def test_numbers_are_those_of_the_library(server, studio_place):
    model, table = studio_place.model, studio_place.table
    edited = (
        model.remove_concepts("sea", nodes=[0, 2])
        .reweight_concepts({"webbed feet": 2.5, "forest": 0.1})
        .remove_concepts("forest", mode="impute")
        .restore("sea")
        .remove_concepts("sea", mode="canonical")
    )
    order = choose_rows(model, table).order
    answer = server.post("/api/numbers", asked(document_of(edited), rows=[0, 5, 119])).json
    check_measured(answer["audit"], edited, table)
    assert answer["covered"] is None
    rows = table.take(order[[0, 5, 119]])
    np.testing.assert_allclose(answer["node_values"], edited.transform(rows), atol=1e-12)
    np.testing.assert_allclose(answer["scores"], edited.class_scores(rows), atol=1e-12)
    assert [model.classes_[place] for place in answer["predicted"]] == edited.predict(inputs(edited, rows)).tolist()


def test_numbers_without_edits_are_those_of_the_model(server, studio_place):
    document = document_of(studio_place.model)
    assert document["edits"] == []
    answer = server.post("/api/numbers", asked(document, covered=True)).json
    check_measured(answer["audit"], studio_place.model, studio_place.table)
    test = studio_place.table.part("test")
    hits = (studio_place.model.predict(inputs(studio_place.model, test)) == test.labels).sum()
    assert (answer["covered"]["all"]["hits"], answer["covered"]["all"]["rows"]) == (hits, len(test))
    assert answer["shift"] == [0, 0]


def test_recalibrations_are_computed_again_unless_they_are_not_to_be(server, studio_place):
    model, train = studio_place.model, studio_place.table.part("train")
    right = model.remove_concepts("sea").recalibrate(train)
    document = document_of(right)
    document["edits"][1]["shift"] = [0.25, -0.25]
    answer = server.post("/api/numbers", asked(document)).json
    np.testing.assert_allclose(answer["shift"], right.class_shift_, atol=1e-12)
    answer = server.post("/api/numbers", asked(document, recalibrate=False)).json
    assert answer["shift"] == [0.25, -0.25]


@pytest.mark.parametrize("prepare", [lambda model: model, lambda model: model.simplify(max_terms=4)])
def test_edits_go_on_from_the_model_as_it_was_opened(studio_place, tmp_path, prepare):
    table = studio_place.table
    opened = prepare(studio_place.model).remove_concepts("sea").recalibrate(table.part("train"))
    later = opened.restore("sea").remove_concepts("forest", nodes=[1]).recalibrate(table.part("train"))
    with running(create_app(opened, table, page=studio_place.page, save_to=tmp_path / "edited")) as server:
        answer = server.post("/api/numbers", asked(document_of(later, opened), rows=[3])).json
        check_measured(answer["audit"], later, table)
        rows = table.take(choose_rows(opened, table).order[[3]])
        np.testing.assert_allclose(answer["scores"], later.class_scores(rows), atol=1e-12)
        stale = document_of(later, opened)
        stale["model"]["state"] = "of another day"
        assert server.post("/api/numbers", asked(stale)).status == 409


def test_small_remainders_are_told(server, studio_place):
    model = studio_place.model
    with pytest.warns(cq.ChoqolateWarning, match="little is left"):
        edited = model.reweight_concepts(dict.fromkeys(model.concepts_, 0.001))
    answer = server.post("/api/numbers", asked(document_of(edited))).json
    assert len(answer["warnings"]) == 3
    assert answer["warnings"][0].startswith("Node 0 (")
    assert answer["warnings"][0].endswith("of its trained weight.")


# ---------------------------------------------------------------------- what is refused


def changed(document, **changes):
    """A document whose first edit is another one."""
    other = copy.deepcopy(document)
    other["edits"][0] |= changes
    return other


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"concepts": ["<img src=x onerror=alert(1)>"]}, "<img src=x onerror=alert(1)>"),
        ({"concepts": []}, "at least one"),
        ({"concepts": ["sea", "sea"]}, "more than once"),
        ({"concepts": "sea"}, "valid list"),
        ({"concepts": [["sea"]]}, "valid string"),
        ({"concepts": ["x" * 10_001]}, "at most 10000 characters"),
        ({"mode": "<script>"}, "'rescale', 'canonical' or 'impute'"),
        ({"nodes": [0]}, "valid dictionary"),
        ({"nodes": []}, "indices of nodes"),
        ({"nodes": [{"node": 0, "leading": {}}]}, "not described"),
        ({"nodes": [{"node": 0, "leading": {"sea": 5}}]}, "not described"),
        ({"nodes": [{"node": 0.5, "leading": {"sea": 1.0}}]}, "valid integer"),
        ({"nodes": [{"node": -1, "leading": {"sea": 1.0}}]}, "greater than or equal to 0"),
        ({"nodes": [{"node": 0, "leading": {"unknown": 1.0}}]}, "no node of this model"),
        ({"edit": "explode"}, "expected tags"),
        ({"edit": "restore"}, "Extra inputs"),
        ({"surprise": 1}, "Extra inputs"),
        ({"note": {"reviewed": "yes"}}, "valid boolean"),
        ({"note": {"reviewed": True, "by": "me"}}, "Extra inputs"),
    ],
)
def test_edits_that_do_not_fit_are_refused_with_a_sentence(server, studio_place, changes, said):
    document = document_of(studio_place.model.remove_concepts("sea", note=REVIEWED))
    for path, body in (
        ("/api/model", changed(document, **changes)),
        ("/api/numbers", asked(changed(document, **changes))),
    ):
        answer = server.post(path, body)
        assert answer.status == 422
        assert said in answer.error
        assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "entry",
    [
        '{"edit": "reweight", "factors": {"sea": NaN}}',
        '{"edit": "reweight", "factors": {"sea": 1e999}}',
        '{"edit": "reweight", "factors": {"sea": 1e300}}',
        '{"edit": "reweight", "factors": {"sea": -1}}',
        '{"edit": "reweight", "factors": {"sea": true}}',
        '{"edit": "reweight", "factors": {"sea": 1' + "0" * 5000 + "}}",
        '{"edit": "recalibrate", "shift": [Infinity, 0]}',
        '{"edit": "recalibrate", "shift": []}',
        '{"edit": "remove", "concepts": ["\\ud800"]}',
        '{"edit": "remove", "concepts": ["sea"], "note": {"reason": "\\udfff"}}',
    ],
)
def test_numbers_and_texts_that_are_none_are_refused(server, studio_place, entry):
    document = json.dumps(document_of(studio_place.model) | {"edits": ["?"]}).replace('"?"', entry)
    body = f'{{"document": {document}, "recalibrate": false}}'.encode()
    answer = server.post("/api/numbers", body, **{"Content-Type": "application/json"})
    assert answer.status in (400, 422)
    assert answer.error


def test_edits_of_another_model_are_refused(server, studio_place):
    document = document_of(studio_place.model.remove_concepts("sea", note=REVIEWED))
    document["model"]["identity"] = "0" * 64
    for path, body in (("/api/model", document), ("/api/report", document), ("/api/numbers", asked(document))):
        answer = server.post(path, body)
        assert (answer.status, "Reload the page" in answer.error) == (409, True)


def test_too_many_edits_or_rows_are_refused(server, studio_place):
    document = document_of(studio_place.model.remove_concepts("sea"))
    many = document | {"edits": document["edits"] * 301}
    assert "at most 300" in server.post("/api/numbers", asked(many)).error
    assert "at most 500" in server.post("/api/numbers", asked(document, rows=[0] * 501)).error
    assert "from 0 to 119" in server.post("/api/numbers", asked(document, rows=[120])).error
    assert server.post("/api/numbers", asked(document, rows=[-1])).status == 422


# ---------------------------------------------------------------------- saving


def test_a_model_is_saved_as_the_library_would(server, studio_place, saved):
    train = studio_place.table.part("train")
    edited = studio_place.model.remove_concepts("sea", note=REVIEWED).recalibrate(train, note=REVIEWED)
    document = document_of(edited)
    document["edits"][1]["shift"] = [1.0, -1.0]  # Python knows better
    answer = server.post("/api/model", document).json
    found = cq.load(saved / answer["folder"])
    np.testing.assert_allclose(found.class_scores(studio_place.table), edited.class_scores(studio_place.table), atol=0)
    assert found.edits_ == edited.edits_
    check_measured(answer["audit"], edited, studio_place.table)
    again = server.post("/api/model", document).json
    assert again["folder"] != answer["folder"]
    assert studio_place.model.edits_ == ()


def test_saving_overwrites_nothing(studio_place, tmp_path):
    (tmp_path / "edited").write_text("a file")
    (tmp_path / "edited-2").mkdir()
    (tmp_path / "edited-2" / "config.json").write_text("somebody's")
    (tmp_path / "edited-3").symlink_to(tmp_path / "nowhere")
    document = document_of(studio_place.model.remove_concepts("sea", note=REVIEWED))
    app = create_app(studio_place.model, studio_place.table, page=studio_place.page, save_to=tmp_path / "edited")
    with running(app) as server, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: server.post("/api/model", document), range(8)))
    assert {Path(answer.json["folder"]).name for answer in answers} == {f"edited-{n}" for n in range(4, 12)}
    assert (tmp_path / "edited").read_text() == "a file"
    assert (tmp_path / "edited-2" / "config.json").read_text() == "somebody's"
    assert all(cq.load(tmp_path / f"edited-{n}").edits_ for n in range(4, 12))
    assert len(list(tmp_path.iterdir())) == 11


def test_a_save_that_is_killed_leaves_no_half_model(studio_place, tmp_path):
    script = (
        "import os, shutil, signal\n"
        "from pathlib import Path\n"
        "from choqolate._util.files import write_new_folder\n"
        "def fill(folder):\n"
        f"    shutil.copy({str(studio_place.folder / 'model' / 'config.json')!r}, folder)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        f"write_new_folder(Path({str(tmp_path / 'edited')!r}), fill)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [path.name.startswith(".edited.") for path in tmp_path.iterdir()] == [True]
    assert save_edited(studio_place.model, tmp_path / "edited") == tmp_path / "edited"
    assert cq.load(tmp_path / "edited").edits_ == ()


def test_a_folder_that_cannot_be_written_is_known_at_the_start(studio_place, tmp_path):
    (tmp_path / "file").write_text("")
    document = document_of(studio_place.model.remove_concepts("sea", note=REVIEWED))
    app = create_app(studio_place.model, studio_place.table, page=studio_place.page, save_to=tmp_path / "file" / "x")
    with running(app) as server:
        assert b'\\"save\\": false' in server.get("/api/bundle").body
        answer = server.post("/api/model", document)
        assert (answer.status, "is a file" in answer.error) == (422, True)
        assert server.post("/api/model.zip", document).status == 200


def test_a_disk_that_fails_is_one_sentence(server, studio_place, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(model_folder, "write_bytes", fail)
    answer = server.post("/api/model", document_of(studio_place.model.remove_concepts("sea", note=REVIEWED)))
    assert answer.status == 422
    assert re.fullmatch(
        r"\S+/edited cannot be written: No space left on device, and .+ are free\. Make .+", answer.error
    )


@pytest.mark.parametrize("reviewed", [None, False])
def test_edits_that_nobody_reviewed_are_not_saved(server, studio_place, saved, reviewed):
    edited = studio_place.model.remove_concepts("sea", note=REVIEWED).remove_concepts(
        "forest", note=Note(reviewed=reviewed)
    )
    before = sorted(saved.iterdir())
    for path in ("/api/model", "/api/model.zip"):
        answer = server.post(path, document_of(edited))
        assert answer.status == 422
        assert "1 of 2 are not" in answer.error
        assert "edit 2" in answer.error
    assert sorted(saved.iterdir()) == before
    assert server.post("/api/report", document_of(edited)).status == 200


def test_a_model_without_edits_is_not_saved(server, studio_place):
    answer = server.post("/api/model", document_of(studio_place.model))
    assert (answer.status, "there are none" in answer.error) == (422, True)


def test_an_archive_holds_the_model(server, studio_place, tmp_path):
    edited = studio_place.model.remove_concepts("sea", note=REVIEWED)
    answer = server.post("/api/model.zip", document_of(edited))
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == 'attachment; filename="edited.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        assert sorted(archive.namelist()) == ["edited/config.json", "edited/model.safetensors"]
        archive.extractall(tmp_path)
    found = cq.load(tmp_path / "edited")
    np.testing.assert_array_equal(found.class_scores(studio_place.table), edited.class_scores(studio_place.table))


def test_markup_in_names_does_nothing(tmp_path, studio_place):
    table = nasty_table()
    model = small_model(table, epochs=2)
    edited = model.remove_concepts(NASTY[:2], note=Note("<b>Ada</b>", reason=NASTY[0], reviewed=True))
    with pytest.warns(cq.ChoqolateWarning, match="300 of 300 images were not found"):
        app = create_app(model, table, page=studio_place.page, save_to=tmp_path / '<i>"ed"', title=NASTY[0])
    with running(app) as server:
        answer = server.post("/api/model", document_of(edited))
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/json"
        assert cq.load(tmp_path / '<i>"ed"').edits_ == edited.edits_
        report = server.post("/api/report", document_of(edited))
        assert report.headers["content-disposition"] == 'attachment; filename="report.html"'
        assert NASTY[0].encode() not in report.body
        assert b"&lt;script&gt;window.injected" in report.body
        archive = server.post("/api/model.zip", document_of(edited))
        assert archive.headers["content-disposition"] == 'attachment; filename="_i__ed_.zip"'


def test_two_people_do_not_see_each_other_s_edits(server, studio_place):
    model = studio_place.model
    edits = {name: document_of(model.remove_concepts(name)) for name in ("sea", "forest")}
    rows = studio_place.table.take(choose_rows(model, studio_place.table).order[:20])
    bundle = server.get("/api/bundle").body

    def ask(name):
        return name, server.post("/api/numbers", asked(edits[name], rows=list(range(20)))).json["scores"]

    with ThreadPoolExecutor(4) as pool:
        for name, scores in pool.map(ask, ["sea", "forest"] * 10):
            np.testing.assert_allclose(scores, model.remove_concepts(name).class_scores(rows), atol=1e-12)
    assert server.get("/api/bundle").body == bundle
