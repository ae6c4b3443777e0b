"""Model folders and files of edits, as a stranger could have made them."""

from __future__ import annotations

import hashlib
import json
import shutil

import numpy as np
import pytest
from hypothesis import strategies as st

import choqolate as cq
from tests.formats.write import FORMATS
from tests.trust.fuzzing import fuzz
from tests.trust.mutations import (
    byte_changes,
    changed_bytes,
    changed_json,
    changed_tensors,
    json_changes,
    sealed_json,
    tensor_header,
)

MODELS = sorted((FORMATS / "models" / "version_6").iterdir())
CONFIGS = {folder.name: json.loads((folder / "config.json").read_bytes()) for folder in MODELS}
NUMBERS = {folder.name: (folder / "model.safetensors").read_bytes() for folder in MODELS}
EDITS = FORMATS / "edits" / "version_1"
DOCUMENTS = {file: json.loads((EDITS / file).read_bytes()) for file in ("saved.json", "studio.json")}

pytestmark = pytest.mark.trust


def use_model(folder, again):
    model = cq.load(folder)
    rows = np.random.default_rng(0).random((5, model.n_features_in_))
    if hasattr(model, "feature_names_in_"):
        rows = cq.ConceptScores(rows, model.concepts_)
    probabilities = model.predict_proba(rows)
    assert np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert set(model.predict(rows).tolist()) <= set(model.classes_.tolist())
    assert str(model)
    assert repr(model.provenance_)
    model.explain(rows)
    model.remove_concepts(model.concepts_[0])
    model.save(again)
    np.testing.assert_array_equal(cq.load(again).predict_proba(rows), probabilities)


def test_a_changed_document_of_a_model(tmp_path):
    made = st.sampled_from(sorted(CONFIGS)).flatmap(lambda name: st.tuples(st.just(name), json_changes(CONFIGS[name])))

    def use(found):
        name, changes = found
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "model.safetensors").write_bytes(NUMBERS[name])
        (tmp_path / "model" / "config.json").write_bytes(sealed_json(changed_json(CONFIGS[name], changes)))
        use_model(tmp_path / "model", tmp_path / "again")

    fuzz("model: config.json", made, use, examples=[(name, []) for name in CONFIGS])


def test_changed_numbers_of_a_model(tmp_path):
    def changes(name):
        header = json_changes(tensor_header(NUMBERS[name]))
        return st.tuples(st.just(name), st.just([]) | header, st.just([]) | byte_changes(how=["overwrite"]))

    def use(found):
        name, header, numbers = found
        content = changed_tensors(NUMBERS[name], header, numbers)
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "model.safetensors").write_bytes(content)
        config = CONFIGS[name] | {"sha256": hashlib.sha256(content).hexdigest()}
        (tmp_path / "model" / "config.json").write_bytes(sealed_json(config))
        use_model(tmp_path / "model", tmp_path / "again")

    made = st.sampled_from(sorted(NUMBERS)).flatmap(changes)
    fuzz("model: model.safetensors", made, use, examples=[(name, [], []) for name in NUMBERS])


def test_changed_edits(tmp_path):
    model = cq.load(EDITS / "model")
    rows = np.random.default_rng(0).random((5, model.n_features_in_))
    made = st.sampled_from(sorted(DOCUMENTS)).flatmap(
        lambda name: st.tuples(
            st.just(name), json_changes(DOCUMENTS[name]), st.just([]) | byte_changes(2), st.booleans()
        )
    )

    def use(found):
        name, changes, flips, recalibrate = found
        content = sealed_json(changed_json({"checksum": ""} | DOCUMENTS[name], changes))
        (tmp_path / "edits.json").write_bytes(changed_bytes(content, flips))
        edited = model.apply_edits(tmp_path / "edits.json", recalibrate=rows if recalibrate else None)
        assert np.isfinite(edited.predict_proba(rows)).all()
        assert all(map(str, edited.edits_))
        edited.save(tmp_path / "edited")
        cq.load(tmp_path / "edited")
        if edited.edits_:
            cq.save_edits(edited, tmp_path / "again.json")

    fuzz("edits", made, use, examples=[("saved.json", [], [], True), ("studio.json", [], [], False)])
