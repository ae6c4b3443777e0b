"""The bundle of the studio: what is in it, what is not, and where later rows come from."""

from __future__ import annotations

import json
from dataclasses import replace
from unittest.mock import ANY

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load

from choqolate.analysis.suspects import find_suspects
from choqolate.baselines import PCBM
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.studio import build_bundle
from choqolate.studio import bundle as bundles
from choqolate.studio.row_choice import AUDIT, COVERED
from tests.reports import NASTY, bird_table, nasty_table, small_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bundle")


@pytest.fixture(scope="module")
def table(folder):
    return bird_table(folder, n_rows=600)


@pytest.fixture(scope="module")
def model(table):
    return small_model(table)


@pytest.fixture(scope="module")
def bundle(model, table):
    return build_bundle(model, table, rows=200)


def opened(content, tmp_path):
    """The document and the arrays of a blob, read by the library that wrote neither."""
    (tmp_path / "blob").write_bytes(content)
    with safe_open(tmp_path / "blob", "np") as file:
        return json.loads(file.metadata()["studio"]), load(content)


def test_the_blob_holds_the_document_and_the_rows(bundle, model, table, tmp_path):
    document, arrays = opened(bundle.to_bytes(), tmp_path)
    assert document == bundle.document
    assert (document["format"], document["format_version"], document["server"]) == ("choqolate-studio", 1, None)
    assert document["names"] == {"model": "model", "scores": "scores.parquet"}
    assert document["title"] == "model"
    assert document["spurious"] == ["sea", "forest"]
    assert document["probability_temperature"] == model.probability_temperature_
    told, numbers = document["rows"], arrays["rows.number"]
    assert (told["total"], told["loaded"], len(numbers)) == (600, 200, 200)
    assert len(set(numbers.tolist())) == 200
    np.testing.assert_array_equal(arrays["rows.z"], model.scale(table.take(numbers).frame).astype(np.float32))
    names = document["model"]["classes"]
    assert [names[place] for place in arrays["rows.label"]] == table.labels[numbers].tolist()
    assert [told["splits"][place] for place in arrays["rows.split"]] == table.split[numbers].tolist()
    assert [told["groups"][place] for place in arrays["rows.group"]] == table.groups[numbers].tolist()
    assert told["paths"] == table.paths[numbers].tolist()
    assert arrays["rows.has_image"].all()
    kinds = {name: arrays[f"rows.{name}"].dtype.name for name in ("z", "label", "stratum", "role", "number")}
    assert kinds == {"z": "float32", "label": "int32", "stratum": "int32", "role": "uint8", "number": "int32"}


def test_later_rows_follow_those_that_are_loaded(bundle, model, table, tmp_path):
    told, more = opened(bundle.rows_blob(200, 150), tmp_path)
    last_told, last = opened(bundle.rows_blob(350, 1000), tmp_path)
    numbers = np.concatenate([part["rows.number"] for part in (bundle.arrays, more, last)])
    assert sorted(numbers) == list(range(600))
    assert set(more) == {name for name in bundle.arrays if name.startswith("rows.")}
    np.testing.assert_array_equal(more["rows.z"], model.scale(table.take(more["rows.number"]).frame).astype(np.float32))
    assert told["paths"] + last_told["paths"] == table.paths[numbers[200:]].tolist()
    assert opened(bundle.rows_blob(600, 10), tmp_path)[1]["rows.z"].shape == (0, 6)
    np.testing.assert_array_equal(opened(bundle.rows_blob(0, 200), tmp_path)[1]["rows.z"], bundle.arrays["rows.z"])
    for start, count in ((-1, 5), (0, -5)):
        with pytest.raises(ChoqolateError, match=r"start|count"):
            bundle.rows_blob(start, count)


def test_fewer_rows_are_chosen_again_and_it_is_said(bundle):
    fewer = bundle.shrunk(50, "There is no room.")
    assert fewer.document["rows"]["loaded"] == len(fewer.arrays["rows.z"]) == 50
    assert fewer.document["rows"]["chosen"].endswith("There is no room.")
    assert fewer.document["model"] == bundle.document["model"]


# ---------------------------------------------------------------------- suspects


def changed_covered_rows(table, choice, seed=0):
    """The same table with other scores in the covered rows; a split that was made for training is given."""
    covered, scores = choice.role == COVERED, table.scores.copy()
    scores[covered] = np.random.default_rng(seed).permutation(scores[covered])
    split = np.array(choice.splits)[choice.split] if choice.splits else None
    return replace(table, scores=scores).with_columns(split=split)


def with_other_covered_labels(table, choice):
    """The same table with the labels of the covered rows mixed up; halves would be other ones then."""
    covered, labels = choice.role == COVERED, table.labels.copy()
    labels[covered] = np.random.default_rng(1).permutation(labels[covered])
    return table.with_columns(labels=labels)


def test_suspects_are_those_of_the_audit_rows_alone(bundle, model, table):
    found = bundle.document["suspects"]
    expected = find_suspects(model, table.take(table.split != "test"))
    assert found["chosen"] == "the 120 validation rows"
    assert (found["rows"], found["tried"]) == (expected.rows, expected.tried) == (120, found["tried"])
    assert [one["concepts"] for one in found["helpful"]] == [list(one.concepts) for one in expected.helpful]
    assert found["to_remove"] == list(expected.to_remove)
    assert found["worst_group"] == list(expected.worst_group)
    other = with_other_covered_labels(changed_covered_rows(table, bundle.rows.choice), bundle.rows.choice)
    other = build_bundle(model, other, rows=200)
    assert other.document["suspects"] == found


@pytest.mark.parametrize("parts", [("train", "test"), ("train", "val"), "made for training", "none"])
def test_covered_rows_are_never_looked_at_however_the_roles_came_about(parts):
    table = bird_table(None, n_rows=900, agreement=0.8).with_columns(paths=None)
    split = None if isinstance(parts, str) else np.where(table.split == "train", *parts)
    table = table.with_columns(split=split)
    model = small_model(table, epochs=10)
    if parts == "none":
        table = ConceptScores(table.scores + 1e-4, table.concepts, rows=table.rows)  # not the table of its training
    found = build_bundle(model, table)
    suspects, choice = found.document["suspects"], found.rows.choice
    assert suspects["rows"] == (choice.role == AUDIT).sum() > 100
    assert suspects["chosen"] == choice.audit
    assert build_bundle(model, changed_covered_rows(table, choice)).document["suspects"] == suspects | {"chosen": ANY}


def test_failing_slices_name_misclassified_images_among_the_loaded_rows():
    table = bird_table(None, n_rows=3000, agreement=0.9).with_columns(paths=None, groups=None)
    model = small_model(table)
    everything, some = build_bundle(model, table, rows=3000), build_bundle(model, table, rows=900)
    failing = everything.document["suspects"]["failing"]
    assert failing
    for one in failing:
        numbers = everything.arrays["rows.number"][one["rows"]]
        assert len(numbers) == one["mistakes"] > 0
        assert set(table.labels[numbers]) == {one["class"]}
        assert (model.predict(table.take(numbers)) != table.labels[numbers]).all()
        assert (everything.arrays["rows.role"][one["rows"]] == AUDIT).all()
        assert f"images of “{one['class']}”" in one["question"]
        assert "gap " in one["text"]
    loaded = set(some.arrays["rows.number"].tolist())
    for one, whole in zip(some.document["suspects"]["failing"], failing, strict=True):
        numbers = set(everything.arrays["rows.number"][whole["rows"]].tolist())
        assert set(some.arrays["rows.number"][one["rows"]].tolist()) == numbers & loaded


# ---------------------------------------------------------------------- precision and size


@pytest.mark.parametrize("options", [{}, {"bipolar": True}, {"interactions": "factored", "rank": 2}])
def test_scores_in_16_bits_move_node_values_by_less_than_is_said(table, monkeypatch, options):
    model = small_model(table, epochs=10, **options)
    monkeypatch.setattr(bundles, "MOST_SCORE_BYTES", 600 * 6 * 2)
    bundle = build_bundle(model, table)
    z = bundle.arrays["rows.z"]
    assert (z.dtype, len(z)) == (np.uint16, 600)
    assert "Scores are stored in 16 bits" in bundle.document["rows"]["chosen"]
    numbers, scaling = bundle.arrays["rows.number"], model.network_.scaling
    exact = model.scale(table.take(numbers).frame)
    stored = z / 65535
    assert np.abs(stored - exact).max() <= 1 / 131070 + 1e-12
    raw = replace(table.take(numbers), scores=scaling.low + stored * (scaling.high - scaling.low))
    assert np.abs(model.transform(raw) - model.transform(table.take(numbers))).max() <= 1e-5


def test_rows_that_do_not_fit_are_left_out_and_it_is_said(model, table, monkeypatch):
    monkeypatch.setattr(bundles, "MOST_SCORE_BYTES", 100 * 6 * 2)
    bundle = build_bundle(model, table)
    assert bundle.loaded == 100
    assert "Fewer than 600 rows, as each has scores of 6 concepts." in bundle.document["rows"]["chosen"]
    free = small_model(table, epochs=5, free_weights=True, temperature=1.0)  # no bound: not rounded
    bundle = build_bundle(free, table)
    assert (bundle.loaded, bundle.arrays["rows.z"].dtype) == (50, np.float32)
    assert "16 bits" not in bundle.document["rows"]["chosen"]


# ---------------------------------------------------------------------- names, paths, odd tables


def test_no_path_of_the_machine_is_in_the_bundle(model, table, folder):
    paths = [str(folder / path) for path in table.paths]
    paths[0] = r"C:\Users\ada\secret\0.png"
    moved = table.with_columns(paths=paths)
    with pytest.warns(ChoqolateWarning, match=r"1 of 600 images were not found: tell where they are"):
        bundle = build_bundle(model, moved, names=(f"{folder}/my model", f"{folder}/scores.parquet"))
    content = bundle.to_bytes() + bundle.rows_blob(0, 10)
    assert str(folder).encode() not in content
    assert b"secret" not in content
    assert bundle.document["names"] == {"model": "my model", "scores": "scores.parquet"}
    assert bundle.document["title"] == "my model"
    assert "000.png" not in bundle.document["rows"]["paths"]
    assert {"0.png", "001.png"} <= set(bundle.document["rows"]["paths"])
    assert bundle.arrays["rows.has_image"].sum() == 599


def test_images_that_have_moved_are_found_in_their_folder(model, table, folder, tmp_path):
    lost = replace(table, provenance=replace(table.provenance, root="/nowhere"))
    with pytest.warns(ChoqolateWarning, match="600 of 600 images were not found"):
        assert not build_bundle(model, lost).arrays["rows.has_image"].any()
    found = build_bundle(model, lost, images=folder)
    assert found.arrays["rows.has_image"].all()
    numbers = found.arrays["rows.number"]
    assert found.rows.files(3, 2) == [folder / table.paths[number] for number in numbers[3:5]]
    with pytest.raises(ChoqolateError, match="expected the images of the table in"):
        build_bundle(model, lost, images=tmp_path)


def test_names_with_markup_come_back_as_they_are(tmp_path):
    table = nasty_table()
    with pytest.warns(ChoqolateWarning, match="were not found"):
        bundle = build_bundle(small_model(table), table, title="</script><script>alert(1)</script>")
    document, _ = opened(bundle.to_bytes(), tmp_path)
    assert document["model"]["concepts"] == NASTY
    assert document["title"] == "</script><script>alert(1)</script>"
    assert document["rows"]["groups"] == sorted(set(table.groups))


def test_labels_are_optional_and_need_not_be_known(model, table):
    plain = ConceptScores(table.scores, table.concepts)
    bundle = build_bundle(model, plain)
    assert bundle.document["suspects"] is None
    assert bundle.document["rows"]["paths"] == []
    assert (bundle.arrays["rows.label"] == -1).all()
    assert (bundle.arrays["rows.role"] == AUDIT).all()
    labels = table.labels.astype(object)
    labels[:100] = "ostrich"
    bundle = build_bundle(model, table.with_columns(labels=labels, classes=()))
    assert (bundle.arrays["rows.label"] == -1).sum() == 100
    assert bundle.document["suspects"]["rows"] == 100


def test_training_rows_among_those_to_judge_on_are_reported(model, table):
    with pytest.warns(ChoqolateWarning, match="some of these rows were used for training"):
        build_bundle(model, table.with_columns(split=None))


def test_other_models_and_tables_are_refused(model, table):
    with pytest.raises(ChoqolateError, match="Expected a ChoqolateClassifier to open the studio, but got a PCBM"):
        build_bundle(PCBM(), table)
    with pytest.raises(ChoqolateError, match="the table has no 'crest'"):
        build_bundle(model, table.select([name for name in table.concepts if name != "crest"]))
