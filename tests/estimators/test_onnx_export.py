"""An exported model gives in ONNX Runtime what the classifier gives here."""

from __future__ import annotations

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from sklearn.exceptions import NotFittedError

import choqolate as cq
from choqolate.errors import ChoqolateError
from tests.small_tables import CONCEPTS, FORMS, bird_scores

OUTPUTS = ["node_values", "class_scores", "probabilities"]
EDITS = {
    "rescale": lambda clf, X: clf.remove_concepts(["sea", "crest"]),
    "rescale in some nodes": lambda clf, X: clf.remove_concepts("sea", nodes=[1, 2]),
    "canonical": lambda clf, X: clf.remove_concepts("sea", mode="canonical"),
    "impute": lambda clf, X: clf.remove_concepts(["sea", "crest"], mode="impute"),
    "impute in some nodes": lambda clf, X: clf.remove_concepts("sea", mode="impute", nodes=[0, 2]).remove_concepts(
        "forest", mode="impute", nodes=[2, 3]
    ),
    "reweight": lambda clf, X: clf.reweight_concepts({"sea": 0.1, "crest": 3.0}),
    "recalibrate": lambda clf, X: clf.remove_concepts("forest").recalibrate(X),
    "all": lambda clf, X: (
        clf.remove_concepts("sea", mode="impute", nodes=1)
        .reweight_concepts({"crest": 0.5})
        .remove_concepts("forest", mode="canonical", recalibrate=X)
    ),
}


@pytest.fixture(scope="module")
def birds():
    """Scores in single precision, so that both sides are handed the same numbers."""
    X, y, _ = bird_scores(150)
    return X.astype(np.float32), y


@pytest.fixture(scope="module")
def trained(birds):
    """A model of each form, trained when it is first asked for."""
    models = {}

    def of_form(form):
        if form not in models:
            options = {"n_nodes": 4, "epochs": 5} | FORMS[form]
            models[form] = cq.ChoqolateClassifier(**options).fit(*birds)
        return models[form]

    return of_form


def session_of(clf, file):
    clf.export_onnx(file)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def run(session, X):
    return dict(zip(OUTPUTS, session.run(OUTPUTS, {"scores": np.asarray(X, dtype=np.float32)}), strict=True))


def check_agreement(clf, session, X):
    got = run(session, X)
    wanted = [clf.transform(X), clf.class_scores(X), clf.predict_proba(X)]
    for name, values in zip(OUTPUTS, wanted, strict=True):
        assert got[name].dtype == np.float32
        np.testing.assert_allclose(got[name], values, atol=1e-6, rtol=1e-6, err_msg=name)
    np.testing.assert_array_equal(clf.classes_[got["probabilities"].argmax(1)], clf.predict(X))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_for_any_number_of_rows(tmp_path, birds, trained, form):
    X, _ = birds
    clf = trained(form)
    session = session_of(clf, tmp_path / "model.onnx")
    check_agreement(clf, session, X)
    check_agreement(clf, session, X[:1])
    check_agreement(clf, session, 20 * (X - X.mean()))  # beyond the range of training
    empty = run(session, X[:0])
    assert [empty[name].shape for name in OUTPUTS] == [(0, clf.network_.n_nodes), (0, 2), (0, 2)]


@pytest.mark.parametrize("form", ["pairwise", "factored", "none", "bipolar", "free"])
@pytest.mark.parametrize("edit", EDITS)
def test_edits_are_in_the_file(tmp_path, birds, trained, form, edit):
    X, _ = birds
    clf = trained(form)
    edited = EDITS[edit](clf, X)
    assert np.abs(edited.class_scores(X) - clf.class_scores(X)).max() > 1e-4
    check_agreement(edited, session_of(edited, tmp_path / "model.onnx"), X)


SIMPLIFICATIONS = {
    "max_terms": lambda clf, X: clf.simplify(max_terms=4),
    "mass, both layers": lambda clf, X: clf.simplify(mass=0.9, classes=True),
    "after impute": lambda clf, X: clf.remove_concepts("sea", mode="impute", nodes=[0]).simplify(max_terms=6),
    "before removal": lambda clf, X: clf.simplify(max_terms=8).remove_concepts("crest").recalibrate(X),
}


@pytest.mark.parametrize("form", ["pairwise", "factored", "none", "one layer", "bipolar"])
@pytest.mark.parametrize("edit", SIMPLIFICATIONS)
def test_simplified_models_are_exported(tmp_path, birds, trained, form, edit):
    X, _ = birds
    edited = SIMPLIFICATIONS[edit](trained(form), X)
    session = session_of(edited, tmp_path / "model.onnx")
    check_agreement(edited, session, X)
    assert run(session, X[:0])["class_scores"].shape == (0, 2)


def test_many_terms_of_a_simplified_model_are_taken_some_at_a_time(tmp_path):
    X = np.random.default_rng(0).random((20, 100), dtype=np.float32)
    clf = cq.ChoqolateClassifier(n_nodes=3, epochs=1).fit(X, X[:, 0] > X[:, 1]).simplify(max_terms=9_000)
    check_agreement(clf, session_of(clf, tmp_path / "model.onnx"), X)
    kinds = [node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node if node.name.startswith("nodes/")]
    assert 1 < kinds.count("Min") < 10


@pytest.mark.parametrize(("interactions", "loop"), [("pairwise", "Min"), ("factored", "CumSum")])
def test_many_concepts_are_taken_some_at_a_time(tmp_path, interactions, loop):
    rng = np.random.default_rng(0)
    X = rng.random((40, 130), dtype=np.float32)
    clf = cq.ChoqolateClassifier(n_nodes=5, interactions=interactions, epochs=1).fit(X, X[:, 0] > X[:, 1])
    clf = clf.remove_concepts([f"x{j}" for j in range(0, 130, 10)])
    check_agreement(clf, session_of(clf, tmp_path / "model.onnx"), X)
    kinds = [node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node if node.name.startswith("nodes/")]
    assert 1 < kinds.count(loop) < 10


@pytest.mark.parametrize("bipolar", [False, True])
def test_a_concept_that_was_constant_in_training_stays_without_influence(tmp_path, birds, bipolar):
    X, y = birds
    X = X.assign(crest=np.float32(0.3))
    with pytest.warns(cq.ChoqolateWarning, match="constant"):
        clf = cq.ChoqolateClassifier(n_nodes=4, epochs=3, bipolar=bipolar).fit(X, y)
    session = session_of(clf, tmp_path / "model.onnx")
    other = X.assign(crest=np.linspace(-1, 1, len(X), dtype=np.float32))
    check_agreement(clf, session, other)
    np.testing.assert_array_equal(run(session, X)["class_scores"], run(session, other)["class_scores"])


@pytest.mark.parametrize("form", ["pairwise", "factored", "none"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_with_a_score_that_is_not_finite_gives_nan_and_the_others_stay(tmp_path, birds, trained, form, value):
    X = birds[0].to_numpy()[:3].copy()
    session = session_of(trained(form), tmp_path / "model.onnx")
    before = run(session, X)
    X[1, 4] = value
    for name, values in run(session, X).items():
        assert np.isnan(values[1]).all()
        np.testing.assert_array_equal(values[[0, 2]], before[name][[0, 2]])


@pytest.mark.parametrize("form", ["pairwise", "factored"])
def test_a_fit_after_an_export_gives_the_same_bits(tmp_path, birds, form):
    def fit():
        return cq.ChoqolateClassifier(n_nodes=4, epochs=2, **FORMS[form]).fit(*birds)

    before = fit()
    before.export_onnx(tmp_path / "model.onnx")
    np.testing.assert_array_equal(fit().node_attributions_, before.node_attributions_)


def test_the_temperature_is_the_one_that_predictions_use(tmp_path, birds):
    warmer = cq.ChoqolateClassifier(n_nodes=4, epochs=2).fit(*birds).set_params(temperature=0.3)
    session = session_of(warmer, tmp_path / "model.onnx")
    check_agreement(warmer, session, birds[0])
    assert session.get_modelmeta().custom_metadata_map["temperature"] == "0.3"


def test_names_and_edits_are_in_the_metadata(tmp_path, birds, trained):
    X, _ = birds
    clf = trained("pairwise").remove_concepts("sea", note=cq.Note("Ada", reason="background"))
    clf = clf.remove_concepts("crest").restore("crest").recalibrate(X).with_provenance(source="csv")
    meta = session_of(clf, tmp_path / "model.onnx").get_modelmeta()
    said = meta.custom_metadata_map
    assert json.loads(said["concepts"]) == CONCEPTS
    assert json.loads(said["classes"]) == ["landbird", "waterbird"]
    assert json.loads(said["nodes"]) == list(clf.node_names_)
    assert json.loads(said["provenance"]) == {"source": "csv"}
    assert [edit["edit"] for edit in json.loads(said["edits"])] == ["remove", "recalibrate"]
    assert json.loads(said["edits"])[0]["note"]["author"] == "Ada"
    assert said["identity"] == clf.network_.identity
    assert said["choqolate_version"] == cq.__version__
    assert (meta.producer_name, meta.graph_name) == ("choqolate", "choqolate")
    assert "concept scores" in meta.description


@pytest.mark.parametrize("labels", [[3, 7], [False, True], ["Möwe", "カモメ"]])
def test_labels_keep_their_type(tmp_path, birds, labels):
    X, y = birds
    clf = cq.ChoqolateClassifier(n_nodes=None, epochs=1).fit(X, np.array(labels)[(y == "waterbird").astype(int)])
    said = session_of(clf, tmp_path / "model.onnx").get_modelmeta().custom_metadata_map
    assert repr(json.loads(said["classes"])) == repr(labels)
    assert json.loads(said["nodes"]) == [str(label) for label in labels]


def test_the_file_asks_for_no_more_than_older_runtimes_know(tmp_path, trained):
    trained("pairwise").export_onnx(tmp_path / "model.onnx")
    model = onnx.load(tmp_path / "model.onnx")
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]
    assert model.ir_version == 8
    (scores,) = model.graph.input
    assert [dim.dim_param or dim.dim_value for dim in scores.type.tensor_type.shape.dim] == ["batch", 6]


def test_a_file_is_replaced_and_folders_are_made(tmp_path, birds, trained):
    X, _ = birds
    file = tmp_path / "deep" / "down" / "model.onnx"
    trained("pairwise").export_onnx(file)
    edited = trained("pairwise").remove_concepts("sea")
    check_agreement(edited, session_of(edited, str(file)), X)
    assert [path.name for path in file.parent.iterdir()] == ["model.onnx"]


def test_an_export_that_is_cut_short_leaves_the_old_file(tmp_path, monkeypatch, trained):
    file = tmp_path / "model.onnx"
    file.write_bytes(b"older")
    monkeypatch.setattr("os.fsync", lambda handle: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        trained("pairwise").export_onnx(file)
    assert file.read_bytes() == b"older"
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def test_what_cannot_be_exported_is_said(tmp_path, monkeypatch, trained):
    clf = trained("pairwise")
    (tmp_path / "folder.onnx").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(ChoqolateError, match=r"folder\.onnx is a folder"):
        clf.export_onnx(tmp_path / "folder.onnx")
    with pytest.raises(ChoqolateError, match="file is a file"):
        clf.export_onnx(tmp_path / "file" / "model.onnx")
    with pytest.raises(ChoqolateError, match=r"Expected a file that ends in \.onnx, got .*model\.pb\."):
        clf.export_onnx(tmp_path / "model.pb")
    with pytest.raises(NotFittedError):
        cq.ChoqolateClassifier().export_onnx(tmp_path / "model.onnx")
    with pytest.raises(ChoqolateError, match="Expected edits that can be written as JSON in UTF-8"):
        clf.remove_concepts("sea", note="caf\udce9").export_onnx(tmp_path / "model.onnx")
    monkeypatch.setattr("choqolate.network.onnx_graph._LARGEST", 500)
    with pytest.raises(ChoqolateError, match="more than 2 GiB"):
        clf.export_onnx(tmp_path / "model.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ChoqolateError, match=r"needs the package onnx.*pip install 'choqolate\[onnx\]'"):
        clf.export_onnx(tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
