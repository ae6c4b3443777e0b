"""Edits of one model on another: by names and by what nodes stand for, or not at all."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import choqolate as cq
from choqolate.errors import ChoqolateError
from choqolate.estimators.calibration import model_state
from choqolate.estimators.edits_file import apply_document, edits_document
from choqolate.network.edits import Recalibrate, Remove
from tests.small_tables import CONCEPTS, bird_scores


@pytest.fixture(scope="module")
def birds():
    return bird_scores(120)


@pytest.fixture(scope="module")
def model(birds):
    X, y, _ = birds
    return cq.ChoqolateClassifier(n_nodes=4, epochs=20, temperature=0.1).fit(X, y)


def shuffled(model, order):
    """The same model with its nodes in another order."""
    theta = model.parameters_["classes.theta"][:, order][:, :, order]
    upper = theta.clone()
    n_nodes = len(order)
    for j in range(n_nodes):  # b of a pair stands above the diagonal, c below, whichever node comes first
        for l in range(j + 1, n_nodes):
            if order[j] > order[l]:
                upper[:, j, l], upper[:, l, j] = theta[:, l, j], theta[:, j, l]
    parameters = {"nodes.theta": model.parameters_["nodes.theta"][order], "classes.theta": upper}
    return model.with_network(replace(model.network_, parameters=parameters))


def test_nodes_are_found_by_what_they_stand_for(tmp_path, birds, model):
    X, _, _ = birds
    order = [2, 0, 3, 1]
    other = shuffled(model, order)
    np.testing.assert_allclose(other.class_scores(X), model.class_scores(X), atol=1e-12)
    edited = model.remove_concepts("sea", nodes=[0, 3]).reweight_concepts({"forest": 0.2}, nodes=[2])
    cq.save_edits(edited, tmp_path / "edits.json")
    again = other.apply_edits(tmp_path / "edits.json")
    assert [edit.nodes for edit in again.edits_] == [(1, 2), (0,)]
    np.testing.assert_allclose(again.class_scores(X), edited.class_scores(X), atol=1e-12)


def test_nodes_that_another_model_does_not_have_are_refused(tmp_path, birds, model):
    X, y, _ = birds
    other = cq.ChoqolateClassifier(n_nodes=4, epochs=20, temperature=0.1, random_state=5).fit(X.iloc[:, ::-1], y)
    theta = other.parameters_["nodes.theta"].clone()
    theta[:] = 0.0
    theta[:, 0, 0] = 20.0  # every node stands for "forest" alone
    other = other.with_network(replace(other.network_, parameters={**other.parameters_, "nodes.theta": theta}))
    cq.save_edits(model.remove_concepts("sea", nodes=1), tmp_path / "edits.json")
    with pytest.raises(
        ChoqolateError,
        match=r"Edit 1 of .*edits\.json does not fit.*node 1 \(.*the closest, node ., shares",
    ):
        other.apply_edits(tmp_path / "edits.json")
    assert other.edits_ == ()


def test_edits_that_name_the_state_of_the_model_go_on_from_there(birds, model):
    X, _, _ = birds
    opened = model.remove_concepts("sea").recalibrate(X)
    later = opened.restore("sea").remove_concepts("forest").recalibrate(X)
    document = edits_document(later) | {"edits": edits_document(later)["edits"][2:]}
    document["model"]["state"] = model_state(opened.network_)
    np.testing.assert_array_equal(apply_document(opened, document).class_scores(X), later.class_scores(X))
    assert apply_document(opened, document).edits_ == later.edits_
    document["model"]["state"] = model_state(model.network_)
    with pytest.raises(ChoqolateError, match="another state of this one"):
        apply_document(opened, document)


def test_a_recalibration_of_another_state_is_computed_again(tmp_path, birds, model):
    X, _, _ = birds
    cq.save_edits(model.remove_concepts("sea").recalibrate(X), tmp_path / "edits.json")
    elsewhere = model.remove_concepts("forest")
    with pytest.raises(ChoqolateError, match=r"Edit 2 .* another state of this one.*--recalibrate SCORES"):
        elsewhere.apply_edits(tmp_path / "edits.json")
    again = elsewhere.apply_edits(tmp_path / "edits.json", recalibrate=X)
    by_hand = elsewhere.remove_concepts("sea").recalibrate(X)
    np.testing.assert_array_equal(again.class_shift_, by_hand.class_shift_)
    cq.save_edits(model.remove_concepts("sea"), tmp_path / "plain.json")
    shifted = model.apply_edits(tmp_path / "plain.json", recalibrate=X)
    np.testing.assert_array_equal(shifted.class_shift_, model.remove_concepts("sea", recalibrate=X).class_shift_)


def test_a_restoration_in_a_file_leaves_the_edits_of_the_model_alone(tmp_path, model):
    cq.save_edits(model.remove_concepts("sea").restore().remove_concepts("crest"), tmp_path / "edits.json")
    again = model.remove_concepts("forest").apply_edits(tmp_path / "edits.json")
    assert again.removal_.concepts == ("forest", "crest")
    assert model.apply_edits(tmp_path / "edits.json").removal_.concepts == ("crest",)


def test_edits_made_on_top_of_others_find_these_again(tmp_path, birds, model):
    X, _, _ = birds
    begun = model.remove_concepts(["sea", "forest"], recalibrate=X)
    whole = begun.restore("sea").remove_concepts("crest").recalibrate(X)
    document = edits_document(whole)
    document["edits"] = document["edits"][len(begun.edits_) :]
    document["model"]["state"] = model_state(begun.network_)
    (tmp_path / "edits.json").write_text(json.dumps(document))
    again = begun.apply_edits(tmp_path / "edits.json")
    np.testing.assert_array_equal(again.class_scores(X), whole.class_scores(X))
    assert again.edits_ == whole.edits_
    elsewhere = model.remove_concepts("forest")
    with pytest.raises(ChoqolateError, match="another state of this one"):
        elsewhere.apply_edits(tmp_path / "edits.json")
    with pytest.raises(ChoqolateError, match=r"Edit 1 .*nothing to restore"):
        model.apply_edits(tmp_path / "edits.json", recalibrate=X)


def test_without_nodes_a_class_is_found_by_its_name(tmp_path, birds):
    X, y, _ = birds
    model = cq.ChoqolateClassifier(n_nodes=None, epochs=5).fit(X, y)
    other = cq.ChoqolateClassifier(n_nodes=None, epochs=5).fit(X, np.where(y == "landbird", "zebra", y))
    cq.save_edits(model.remove_concepts("sea", nodes=[1]), tmp_path / "edits.json")
    assert other.classes_.tolist() == ["waterbird", "zebra"]
    assert other.apply_edits(tmp_path / "edits.json").edits_[0].nodes == (0,)
    cq.save_edits(model.remove_concepts("sea", nodes=[0]), tmp_path / "edits.json")
    with pytest.raises(ChoqolateError, match="the class 'landbird', and this model has 'waterbird', 'zebra'"):
        other.apply_edits(tmp_path / "edits.json")


def test_little_that_is_left_is_said_when_a_file_is_applied(tmp_path, birds, model):
    X, _, _ = birds
    with pytest.warns(cq.ChoqolateWarning, match="little is left"):
        edited = model.reweight_concepts(dict.fromkeys(model.concepts_[:5], 1e-4), recalibrate=X)
    cq.save_edits(edited, tmp_path / "edits.json")
    with pytest.warns(cq.ChoqolateWarning, match="little is left") as said:
        model.apply_edits(tmp_path / "edits.json")
    assert [warning.filename for warning in said] == [__file__]


def test_a_baseline_has_no_edits_to_save(tmp_path, birds):
    X, y, _ = birds
    with pytest.raises(ChoqolateError, match="Expected a ChoqolateClassifier to save edits, but got a PCBM"):
        cq.save_edits(cq.baselines.PCBM(epochs=1).fit(X, y), tmp_path / "edits.json")


def test_edits_of_all_nodes_fit_any_model_with_these_concepts(tmp_path, birds, model):
    X, y, _ = birds
    cq.save_edits(model.remove_concepts("sea", mode="impute", note="background"), tmp_path / "edits.json")
    turned = X[CONCEPTS[::-1]]
    other = cq.ChoqolateClassifier(n_nodes=2, epochs=2, interactions="factored").fit(turned, y)
    again = other.apply_edits(tmp_path / "edits.json")
    np.testing.assert_array_equal(
        again.class_scores(turned), other.remove_concepts("sea", mode="impute").class_scores(turned)
    )
    assert again.edits_[0].note.reason == "background"
    fewer = cq.ChoqolateClassifier(n_nodes=2, epochs=2).fit(X.drop(columns="sea"), y)
    with pytest.raises(ChoqolateError, match=r"Edit 1 .*'sea'"):
        fewer.apply_edits(tmp_path / "edits.json")


def test_a_recalibration_belongs_to_its_model(tmp_path, birds, model):
    X, y, _ = birds
    edited = model.remove_concepts("sea", recalibrate=X)
    cq.save_edits(edited, tmp_path / "edits.json")
    other = cq.ChoqolateClassifier(n_nodes=4, epochs=3, random_state=1).fit(X, y)
    with pytest.raises(ChoqolateError, match=r"Edit 2 .*recalibration of another model.*training scores"):
        other.apply_edits(tmp_path / "edits.json")
    again = other.apply_edits(tmp_path / "edits.json", recalibrate=X)
    assert [type(edit) for edit in again.edits_] == [Remove, Recalibrate]
    np.testing.assert_array_equal(again.class_scores(X), other.remove_concepts("sea", recalibrate=X).class_scores(X))


def test_edits_go_on_top_of_those_that_are_there(tmp_path, birds, model):
    X, _, _ = birds
    cq.save_edits(model.remove_concepts("sea"), tmp_path / "edits.json")
    both = model.remove_concepts("crest").apply_edits(tmp_path / "edits.json")
    np.testing.assert_array_equal(
        both.class_scores(X), model.remove_concepts("crest").remove_concepts("sea").class_scores(X)
    )


def test_the_file_is_readable(tmp_path, model):
    cq.save_edits(model.remove_concepts("sea", nodes=1), tmp_path / "edits.json")
    document = json.loads((tmp_path / "edits.json").read_text())
    assert (document["format"], document["format_version"]) == ("choqolate-edits", 1)
    (edit,) = document["edits"]
    assert edit["concepts"] == ["sea"]
    (node,) = edit["nodes"]
    assert node["node"] == 1
    assert node["leading"] == pytest.approx(dict(zip(CONCEPTS, model.node_attributions_[1], strict=True)))


@pytest.mark.hostile("edits")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist. Check the path"),
        (b"", "is not valid JSON"),
        (b"[]", "is not a file of edits. Create one with choqolate.save_edits"),
        (b'{"format": "choqolate-model"}', "is not a file of edits"),
        (b'{"format": "choqolate-edits", "format_version": 9}', "format version 9.*Upgrade"),
        (b'{"format": "choqolate-edits", "format_version": true}', "format version True"),
        (b'{"format": "choqolate-edits", "format_version": 1}', "incomplete or damaged"),
        (b'{"format": "choqolate-edits", "format_version": 1, "model": {}, "edits": [7]}', "Edit 1 .*got 7"),
        (
            b'{"format": "choqolate-edits", "format_version": 1, "model": {}, "edits": '
            b'[{"edit": "remove", "concepts": ["sea"], "nodes": [0]}]}',
            "not described by its leading concepts",
        ),
        (
            b'{"format": "choqolate-edits", "format_version": 1, "model": {}, "edits": '
            b'[{"edit": "remove", "concepts": "sea"}]}',
            "list of concepts, got 'sea'",
        ),
        *(
            (b'{"format": "choqolate-edits", "format_version": 1, "model": {}, "edits": ' + edits + b"}", message)
            for edits, message in (
                (b"[]", "incomplete or damaged"),
                (b"NaN", "NaN is not a number that JSON can hold"),
                (b'[{"edit": ["remove"]}]', "an edit among remove"),
                (b'[{"edit": "reweight", "factors": null}]', "a factor for each concept"),
                (b'[{"edit": "reweight", "factors": {"sea": 1e200}}]', "from 0 to 1,000,000"),
                (b'[{"edit": "restore", "concepts": ["sea"]}]', "nothing to restore"),
                (b'[{"edit": "recalibrate", "shift": [0, 0], "rows": "many"}]', "number of rows of a recalibration"),
                (b'[{"edit": "remove", "concepts": ["sea"], "colour": 1}]', "unknown fields: colour"),
                (b'[{"edit": "remove", "concepts": ["sea"], "note": ["Ada"]}]', "a note with author"),
                *(
                    (
                        b'[{"edit": "remove", "concepts": ["sea"], "nodes": [{"node": 1, "leading": {"sea": %s}}]}]'
                        % share,
                        "the file is damaged",
                    )
                    for share in (b"0", b'"x"', b"-1", b"true")
                ),
            )
        ),
    ],
)
def test_what_is_no_file_of_edits_is_refused(tmp_path, model, content, message):
    if content is not None:
        (tmp_path / "edits.json").write_bytes(content)
    with pytest.raises(ChoqolateError, match=message):
        model.apply_edits(tmp_path / "edits.json")


def test_a_change_by_hand_is_found_and_a_sentence_says_how_to_make_it(tmp_path, model):
    cq.save_edits(model.reweight_concepts({"sea": 0.3}), tmp_path / "edits.json")
    written = (tmp_path / "edits.json").read_text()
    (tmp_path / "edits.json").write_text(written.replace("0.3", "0.9"))
    with pytest.raises(ChoqolateError, match=r"checksum does not match.* delete the line \"checksum\" from it"):
        model.apply_edits(tmp_path / "edits.json")
    (tmp_path / "edits.json").write_text(re.sub(r'  "checksum": .*\n', "", written.replace("0.3", "0.9")))
    assert model.apply_edits(tmp_path / "edits.json").edits_[0].factors == {"sea": 0.9}
