"""Models that somebody made to mislead or to do harm, with checksums that are right, are refused with a sentence."""

from __future__ import annotations

import json
import shutil
import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save

import choqolate as cq
from choqolate.explain.node_stability import node_stability
from tests.sealing import change_json, change_numbers

pytestmark = pytest.mark.hostile("models")

CONCEPTS = ["sea", "forest", "wings", "crest"]


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    labels = np.arange(80) % 2
    scores = random.random((80, 4)) + labels[:, None] * [0.6, 0.3, 0, 0]
    split = ["train" if row < 60 else "test" for row in range(80)]
    return cq.ConceptScores(scores, CONCEPTS, labels=np.array(["gull", "wren"])[labels], split=split)


@pytest.fixture(scope="module")
def whole_model(table, tmp_path_factory):
    """One with all that a model may have."""
    folder = tmp_path_factory.mktemp("crafted") / "model"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cq.ChoqolateWarning)  # there is little to choose by
        found = cq.fit_scores(table, n_nodes="auto", temperature="auto", epochs=4, random_state=0)
    settings = {"n_nodes": found.network_.n_nodes, "epochs": 2}
    found.stability_ = node_stability(cq.fit_runs(table.scores, table.labels, seeds=range(3), **settings)).of_run(0)
    found.calibrate(table, table.labels)
    found.remove_concepts("sea", note="background").reweight_concepts({"crest": 0.5}).save(folder)
    return folder


def config(*path, to):
    """Change a value in ``config.json``."""

    def change(folder):
        document = json.loads((folder / "config.json").read_bytes())
        inner = document
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = to(inner[path[-1]]) if callable(to) else to
        change_json(folder / "config.json", **document)

    return change


def array(name, to):
    """Change an array."""

    def change(folder):
        tensors = load_file(folder / "model.safetensors")
        tensors[name] = to(tensors[name]).contiguous()
        change_numbers(folder, save(tensors))

    return change


def first(value):
    def change(numbers):
        numbers = numbers.clone()
        numbers.view(-1)[0] = value
        return numbers

    return change


def without_search(settings):
    settings = {"n_nodes": 2, "temperature": 0.01, "interactions": "pairwise"} | settings

    def change(folder):
        config("search", to=None)(folder)
        config("hyperparameters", to=lambda known: known | settings)(folder)

    return change


HUGE = 10**15
CRAFTED = {
    "range upside down": array("score_min", lambda t: t + 100),
    "range not finite": array("score_max", first(torch.inf)),
    "means beyond one": array("concept_means", lambda t: t + 5),
    "means below zero": array("concept_means", lambda t: t - 5),
    "negative shares": array("label_shares", lambda t: torch.tensor([-0.5, 1.5], dtype=t.dtype)),
    "shares of two": array("label_shares", lambda t: t * 2),
    "shares of zero": array("label_shares", lambda t: t * 0),
    "complex shares": array("label_shares", lambda t: t.to(torch.complex64)),
    "complex weights": array("nodes.theta", lambda t: t.to(torch.complex64)),
    "whole weights": array("nodes.theta", lambda t: t.to(torch.int64)),
    "true weights": array("nodes.theta", lambda t: t > 0),
    "byte weights": array("nodes.theta", lambda t: t.to(torch.float8_e4m3fn)),
    "half weights": array("nodes.theta", lambda t: t.to(torch.float16)),
    "half range": array("score_min", lambda t: t.to(torch.bfloat16)),
    "whole range": array("score_min", lambda t: t.to(torch.int32)),
    "enormous weights": array("nodes.theta", lambda t: torch.full_like(t, 3e38)),
    "no dimensions": array("concept_means", lambda t: t.sum()),
    "no weights": array("nodes.theta", lambda t: t[:0]),
    "loss not finite": array("history.loss", first(torch.nan)),
    "accuracy beyond one": array("history.accuracy", lambda t: t + 5),
    "history of other lengths": array("history.loss", lambda t: t[:1]),
    "history without dimensions": array("history.loss", lambda t: t.sum()),
    "history is empty": array("history.loss", lambda t: t[:0]),
    "complex history": array("history.loss", lambda t: t.to(torch.complex64)),
    "confidences of two dimensions": array("calibration.confidences", lambda t: t[None]),
    "confidences not finite": array("calibration.confidences", first(torch.nan)),
    "complex confidences": array("calibration.confidences", lambda t: t.to(torch.complex64)),
    "no confidences": array("calibration.confidences", lambda t: t[:0]),
    "right is half": array("calibration.right", lambda t: t.float() / 2),
    "centers of three dimensions": array("reference.centers", lambda t: t[None]),
    "centers without dimensions": array("reference.centers", lambda t: t.sum()),
    "complex centers": array("reference.centers", lambda t: t.to(torch.complex64)),
    "spreads below zero": array("reference.spreads", lambda t: -t),
    "spreads without dimensions": array("reference.spreads", lambda t: t.sum()),
    "directions of whole numbers": array("reference.directions", lambda t: t.to(torch.int8)),
    "n_nodes enormous": without_search({"n_nodes": HUGE}),
    "n_nodes of a float": config("hyperparameters", "n_nodes", to=2.5),
    "n_nodes is a list": config("hyperparameters", "n_nodes", to=[8]),
    "n_nodes is true": config("hyperparameters", "n_nodes", to=True),
    "temperature is text": config("hyperparameters", "temperature", to="cold"),
    "temperature is a list": config("hyperparameters", "temperature", to=[]),
    "epochs is negative": config("hyperparameters", "epochs", to=-1),
    "batch_size is text": config("hyperparameters", "batch_size", to="all"),
    "dtype is code": config("hyperparameters", "dtype", to="__import__('os')"),
    "dtype is a list": config("hyperparameters", "dtype", to=["float32"]),
    "device is a list": config("hyperparameters", "device", to=[1]),
    "verbose is a list": config("hyperparameters", "verbose", to=[]),
    "free_weights is text": config("hyperparameters", "free_weights", to="no"),
    "track is text": config("hyperparameters", "track", to="no"),
    "rank enormous": without_search({"rank": HUGE, "interactions": "factored"}),
    "interactions is a list": config("hyperparameters", "interactions", to=["none"]),
    "class_weight is a number": config("hyperparameters", "class_weight", to=7),
    "class_weight of odd pairs": config("hyperparameters", "class_weight", to=[[1, 2, 3]]),
    "class_weight not a number": config("hyperparameters", "class_weight", to=[["gull", "x"]]),
    "random_state is text": config("hyperparameters", "random_state", to="x"),
    "random_state enormous": config("hyperparameters", "random_state", to=HUGE),
    "hyperparameters are a list": config("hyperparameters", to=[]),
    "hyperparameters are empty": config("hyperparameters", to={}),
    "concepts of numbers": config("concepts", to=[1, 2, 3, 4]),
    "no concepts": config("concepts", to=[]),
    "very many classes": config("classes", to=[str(k) for k in range(100_000)]),
    "one class": config("classes", to=["gull"]),
    "classes of null": config("classes", to=[None, "wren"]),
    "classes of two types": config("classes", to=["gull", 7]),
    "class_dtype of enormous texts": config("class_dtype", to="U1000000000"),
    "class_dtype that cuts texts": config("class_dtype", to="U1"),
    "class_dtype of numbers": config("class_dtype", to="<i8"),
    "class_dtype of records": config("class_dtype", to="i4,i4"),
    "class_dtype of arrays": config("class_dtype", to="(1000000,)U10"),
    "class_dtype of dates": config("class_dtype", to="M8[s]"),
    "class_dtype of bytes": config("class_dtype", to="S4"),
    "class_dtype of nothing": config("class_dtype", to="V"),
    "class_dtype of truths": config("class_dtype", to="?"),
    "class_dtype is no type": config("class_dtype", to="os.system"),
    "class_dtype is a list": config("class_dtype", to=["O"]),
    "named_concepts is text": config("named_concepts", to="yes"),
    "edits are text": config("edits", to="remove"),
    "edits are an object": config("edits", to={}),
    "edits are null": config("edits", to=None),
    "edits of a node below zero": config("edits", 0, "nodes", to=[-1]),
    "edits of a node of text": config("edits", 0, "nodes", to=["0"]),
    "edits of a node of a float": config("edits", 0, "nodes", to=[0.5]),
    "edits of a node that is true": config("edits", 0, "nodes", to=[True]),
    "edits of no node": config("edits", 0, "nodes", to=[]),
    "edits of a node enormous": config("edits", 0, "nodes", to=[HUGE]),
    "edits of all concepts": config("edits", 0, "concepts", to=CONCEPTS),
    "edits of no concept": config("edits", 0, "concepts", to=[]),
    "edits of a list": config("edits", 0, "concepts", to=[["sea"]]),
    "edits in a mode that is a list": config("edits", 0, "mode", to=[]),
    "factor is true": config("edits", 1, "factors", to={"crest": True}),
    "factor is enormous": config("edits", 1, "factors", to={"crest": 1e300}),
    "factor of an unknown concept": config("edits", 1, "factors", to={"moon": 1.0}),
    "factors are a list": config("edits", 1, "factors", to=[1]),
    "note is text": config("edits", 0, "note", to="why"),
    "note of numbers": config("edits", 0, "note", to={"author": 7}),
    "simplified to nothing": config("edits", to=[{"edit": "simplify", "max_terms": 0}]),
    "simplified to a list": config("edits", to=[{"edit": "simplify", "max_terms": [1]}]),
    "shift of text": config("edits", to=[{"edit": "recalibrate", "shift": ["a", "b"]}]),
    "shift of a truth": config("edits", to=[{"edit": "recalibrate", "shift": [True, False]}]),
    "rows of a shift below zero": config("edits", to=[{"edit": "recalibrate", "shift": [0.0, 0.1], "rows": -7}]),
    "unhashable kind": config("edits", to=[{"edit": ["remove"]}]),
    "search is a list": config("search", to=[]),
    "search without trials": config("search", "trials", to=[]),
    "search chose another": config("search", "chosen", to=99),
    "search chose below zero": config("search", "chosen", to=-1),
    "search rule is a number": config("search", "rule", to=7),
    "search rows are text": config("search", "rows", to="many"),
    "search doubts are numbers": config("search", "doubts", to=[7]),
    "search doubts are text": config("search", "doubts", to="none"),
    "search init is unknown": config("search", "init", to="x"),
    "search of an accuracy beyond one": config("search", "trials", 0, "accuracy", to=7.0),
    "search of an accuracy of text": config("search", "trials", 0, "accuracy", to="x"),
    "search of parameters of text": config("search", "trials", 0, "n_parameters", to="x"),
    "search of nodes of text": config("search", "trials", 0, "n_nodes", to="x"),
    "search of a trial of text": config("search", "trials", to=["x"]),
    "search with a paper of text": config("search", "paper", to="x"),
    "search seconds of text": config("search", "seconds", to="x"),
    "stability is a list": config("stability", to=[]),
    "stability of other nodes": config("stability", "recurrence", to=[[0.5]]),
    "stability of text": config("stability", "recurrence", to="x"),
    "stability of no runs": config("stability", "n_runs", to=1),
    "stability of runs that are true": config("stability", "n_runs", to=True),
    "stability beyond one": config("stability", "similarity", to=lambda rows: [[7.0 for _ in row] for row in rows]),
    "stability of several runs": config("stability", to=lambda s: s | {k: s[k] * 2 for k in s if k != "n_runs"}),
    "measured is a list": config("measured", to=[]),
    "measured is text": config("measured", to="x"),
    "calibration is a list": config("calibration", to=[]),
    "calibration is empty": config("calibration", to={}),
    "calibration at zero": config("calibration", "temperature", to=0),
    "calibration that is true": config("calibration", "temperature", to=True),
    "calibration of rows of text": config("calibration", "rows", to="x"),
    "reference is empty": config("reference", to={}),
    "reference limit of text": config("reference", "limit", to="x"),
    "provenance of lists": config("provenance", to=[]),
    "format version of a float": config("format_version", to=6.0),
}


def use(folder, table):
    """Load a model, and ask it whatever a person may ask a stranger's."""
    model = cq.load(folder)
    probabilities = model.predict_proba(table.scores)
    assert np.isfinite(probabilities).all()
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)
    assert set(model.predict(table.scores)) <= set(model.classes_.tolist())
    for shares in (model.node_attributions_, model.class_attributions_):
        assert np.isfinite(shares).all()
    repr(model), str(model.search_), str(model.stability_), str(model.calibration_), str(model.provenance_)
    return model


def test_a_model_with_all_that_there_can_be_is_used(whole_model, table):
    model = use(whole_model, table)
    assert None not in (model.search_, model.stability_, model.calibration_, model.reference_, model.removal_)


@pytest.mark.parametrize("kind", CRAFTED)
def test_a_crafted_model_is_refused(whole_model, tmp_path, table, kind):
    folder = shutil.copytree(whole_model, tmp_path / "model")
    CRAFTED[kind](folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cq.ChoqolateWarning)
        with pytest.raises(cq.ChoqolateError) as error:
            use(folder, table)
    assert len(str(error.value)) < 1000
