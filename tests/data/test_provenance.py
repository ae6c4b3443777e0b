from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import choqolate as cq
from choqolate.data.provenance import BackboneRecord, Provenance, TrainingRecord

plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
anything = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
names = st.sampled_from(
    ["backbone", "vocabulary", "data", "source", "root", "versions", "debiasing", "name", "rows", "templates", "other"]
)


@given(st.dictionaries(names, st.dictionaries(names, anything, max_size=3) | anything, max_size=5))
def test_whatever_was_written_is_read_and_written_back(said):
    known = Provenance.of(said)
    for record, fields in ((known.backbone, ("name", "identity")), (known.data, ("split", "fingerprint"))):
        assert all(isinstance(getattr(record, name), str | None) for name in fields)
    written = json.loads(json.dumps(known.as_dict()))
    assert written == {name: value for name, value in said.items() if value != {} or name not in SECTIONS}
    assert Provenance.of(written) == known


SECTIONS = ("backbone", "vocabulary", "data")


def test_what_is_known_has_names():
    known = Provenance.of({"backbone": {"name": "mini", "dim": 64}, "data": {"rows": 12, "who": "me"}, "source": 5})
    assert known.backbone == BackboneRecord(name="mini", dim=64)
    assert known.data == TrainingRecord(rows=12, other={"who": "me"})
    assert (known.source, known.other) == (None, {"source": 5})
    assert repr(known) == "Provenance(backbone 'mini', training rows 12)"
    assert replace(known, source="birds").as_dict()["source"] == "birds"


def test_only_a_dictionary_is_a_provenance():
    assert Provenance.of(None) == Provenance() == Provenance.of({})
    with pytest.raises(cq.ChoqolateError, match="expected provenance to be a dictionary, found list"):
        Provenance.of(["mini"])
