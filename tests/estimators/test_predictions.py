"""Tables of predictions: reasons and flags, against explain and distances written out."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_torch
from safetensors.torch import save_file as save_torch
from threadpoolctl import threadpool_limits

import choqolate as cq
from choqolate.estimators import predictions
from choqolate.estimators.training_reference import TrainingReference
from choqolate.integral.native import native_status, without_native
from tests.sealing import write_json
from tests.small_tables import FORMS, bird_scores


@pytest.fixture(scope="module")
def birds():
    return bird_scores(600)


@pytest.fixture(scope="module")
def model(birds):
    X, y, _ = birds
    return cq.ChoqolateClassifier(n_nodes=3, epochs=20).fit(X, y)


def written_out(reference, z):
    """Distance of one row, from the attributes of a reference, one center after the other."""
    squares = []
    for center in reference.centers.astype(float):
        away = z - center
        along = [float(direction @ away) for direction in reference.directions.astype(float)]
        square = sum((a / s) ** 2 for a, s in zip(along, reference.spreads, strict=True))
        rest = away - sum(a * direction for a, direction in zip(along, reference.directions.astype(float), strict=True))
        if reference.rest_spread:
            square += float(rest @ rest) / reference.rest_spread**2
        squares.append(square)
    return min(squares) ** 0.5 / reference.limit


@pytest.mark.parametrize(("n_rows", "n_concepts"), [(400, 6), (60, 40), (25, 90)])
def test_distances_are_the_formula(n_rows, n_concepts):
    rng = np.random.default_rng(0)
    z, targets = rng.random((n_rows, n_concepts)), rng.integers(0, 3, n_rows)
    reference = TrainingReference.fit(z, targets)
    new = rng.normal(0.5, 0.5, (9, n_concepts))
    np.testing.assert_allclose(reference.distances(new), [written_out(reference, row) for row in new], rtol=1e-4)


def test_with_many_rows_it_is_mahalanobis_distance_to_the_nearest_class():
    rng = np.random.default_rng(0)
    z, targets = rng.random((500, 5)) @ rng.random((5, 5)), rng.integers(0, 2, 500)
    reference = TrainingReference.fit(z, targets)
    centers = [z[targets == c].mean(0) for c in (0, 1)]
    around = z - np.array(centers)[targets]
    inverse = np.linalg.inv(around.T @ around / (500 - 2))
    new = rng.normal(0.5, 1, (7, 5))
    expected = [min(((row - c) @ inverse @ (row - c)) ** 0.5 for c in centers) for row in new]
    np.testing.assert_allclose(reference.distances(new) * reference.limit, expected, rtol=1e-4)


@pytest.mark.parametrize(("n_rows", "n_concepts"), [(2_000, 10), (300, 60)])
def test_about_one_in_a_hundred_new_rows_is_flagged_and_foreign_ones_are(n_rows, n_concepts):
    rng = np.random.default_rng(1)
    mixing = rng.normal(size=(4, n_concepts))

    def draw(n):
        y = rng.integers(0, 2, n)
        return rng.normal(size=(n, 4)) @ mixing + y[:, None] + 0.3 * rng.normal(size=(n, n_concepts)), y

    X, y = draw(n_rows)
    model = cq.ChoqolateClassifier(n_nodes=2, epochs=2).fit(X, y)
    new = model.predict_table(draw(4_000)[0])
    for flag in ("unlike_training", "outside_range"):
        assert new[flag].mean() < 0.03  # 1 % expected, but the limit itself comes from few rows
    shuffled = rng.permuted(draw(500)[0], axis=0)  # each score is usual, together they are not
    foreign = model.predict_table(shuffled)
    assert foreign["unlike_training"].mean() > 0.9
    assert foreign["outside_range"].mean() < 0.05


def test_a_score_outside_the_range_is_flagged_by_name(birds, model):
    X, _, _ = birds
    usual = X.iloc[[0]]
    assert not model.predict_table(usual)["outside_range"][0]
    worst = model.concepts_[int(model.node_attributions_.sum(0).argmax())]
    for sign, side in ((1, "above"), (-1, "below")):
        moved = usual.copy()
        end = X[worst].max() if sign > 0 else X[worst].min()
        moved[worst] = end + sign * 0.5 * (X[worst].max() - X[worst].min())
        row = model.predict_table(moved).iloc[0]
        assert row["outside_range"]
        assert row["look"]
        assert f"'{worst}' is {side} its training range by 50% of the range" in row["why_look"]


def test_a_concept_that_the_model_does_not_use_is_not_flagged(birds):
    X, y, _ = birds
    model = cq.ChoqolateClassifier(n_nodes=3, epochs=20).fit(X, y).remove_concepts("sea")
    moved = X.iloc[:1].assign(sea=9.0)
    assert not model.predict_table(moved)["outside_range"][0]


@pytest.mark.parametrize("form", FORMS)
def test_the_columns_are_what_the_model_says(birds, form):
    X, y, _ = birds
    model = cq.ChoqolateClassifier(**{"n_nodes": 3, "epochs": 5} | FORMS[form]).fit(X, y).remove_concepts("sea")
    model = model.recalibrate(X)
    found = model.predict_table(X[:40])
    assert found["predicted"].tolist() == model.predict(X[:40]).tolist()
    probabilities = model.predict_proba(X[:40])
    np.testing.assert_allclose(found["probability"], probabilities.max(1), atol=1e-12)
    np.testing.assert_allclose(found["runner_up_probability"], np.sort(probabilities)[:, -2], atol=1e-12)
    scores = np.sort(model.class_scores(X[:40]))
    np.testing.assert_allclose(found["margin"], scores[:, -1] - scores[:, -2], atol=1e-12)
    lead = model.explain(X[:40], baseline="mean").contrast()
    for row in range(40):
        best = sorted(zip(lead.values[row], lead.names, strict=True), reverse=True)[:3]
        for place, (value, name) in enumerate(best, 1):
            if value > 0:
                assert found.loc[row, f"contribution_{place}"] == pytest.approx(value)
                assert found.loc[row, f"reason_{place}"] == name
                level = model.scale(X[row : row + 1])[0, model.concepts_.index(name)]
                assert found.loc[row, f"level_{place}"] == pytest.approx(level)
            else:
                assert pd.isna(found.loc[row, f"reason_{place}"])


def test_blocks_and_kinds_of_input_give_the_same(birds, model, monkeypatch):
    X, y, _ = birds
    whole = model.predict_table(X)
    monkeypatch.setattr(predictions, "_BLOCK_VALUES", 7 * 18)
    pd.testing.assert_frame_equal(model.predict_table(X), whole)
    table = cq.ConceptScores(
        X.to_numpy()[:, ::-1], list(X.columns)[::-1], labels=y, paths=[f"{i}.jpg" for i in range(600)]
    )
    of_table = model.predict_table(table)
    assert of_table["path"].tolist() == table.paths.tolist()
    assert of_table["label"].tolist() == table.labels.tolist()
    pd.testing.assert_frame_equal(of_table.drop(columns=["path", "label"]), whole)
    assert "reason_1" not in model.predict_table(X[:3], reasons=0)
    assert len(model.predict_table(X[:3], reasons=99).filter(like="reason_").columns) == 6


def test_without_reasons_no_attribution_is_computed(birds, model, monkeypatch):
    X, _, _ = birds
    usual = model.predict_table(X[:20])
    monkeypatch.setattr(predictions, "explain_rows", lambda *_, **__: pytest.fail("attributions were computed"))
    found = model.predict_table(X[:20], reasons=0)
    pd.testing.assert_frame_equal(found, usual[list(found.columns)])
    assert "reason_1" not in found


def test_numbers_as_classes_stay_numbers(birds):
    X, y, _ = birds
    model = cq.ChoqolateClassifier(n_nodes=2, epochs=2).fit(X.to_numpy(), (y == "waterbird").astype(int))
    assert model.predict_table(X.to_numpy()[:4].tolist())["predicted"].dtype.kind == "i"


@pytest.mark.parametrize("rows", [[], [[0.1, 0.2]], [[float("nan")] * 6]])
def test_rows_are_checked(birds, rows):
    X, y, _ = birds
    model = cq.ChoqolateClassifier(n_nodes=2, epochs=1).fit(X.to_numpy(), y)
    with pytest.raises(ValueError, match=r"[Ee]xpect|concept"):
        model.predict_table(rows)


@pytest.mark.parametrize("origin", ["earlier version", "few rows"])
def test_a_model_that_does_not_know_says_so(origin, birds):
    X, y, _ = birds
    if origin == "few rows":
        model = cq.ChoqolateClassifier(n_nodes=2, epochs=1).fit(X[:19], y[:19])
    else:
        model = cq.load(Path(__file__).parents[1] / "formats" / "models" / "version_3" / "stable-edited")
    assert model.reference_ is None
    with pytest.warns(cq.ChoqolateWarning, match="Flags are not available"):
        found = model.predict_table(X[:5])
    assert found[["unlike_training", "outside_range", "abstain", "distance"]].isna().all(axis=None)
    assert not found["look"].any()


def test_the_reference_is_saved_without_training_rows(tmp_path, birds, model):
    X, _, _ = birds
    model.save(tmp_path)
    back = cq.load(tmp_path)
    np.testing.assert_array_equal(back.predict_table(X)["distance"], model.predict_table(X)["distance"])
    saved = load_file(tmp_path / "model.safetensors")
    assert max(len(np.atleast_1d(array)) for array in saved.values()) < 30


@pytest.mark.parametrize("damage", ["limit", "shape", "missing"])
def test_a_damaged_reference_is_refused(tmp_path, model, damage):
    import hashlib

    model.save(tmp_path)
    tensors, config = load_torch(tmp_path / "model.safetensors"), json.loads((tmp_path / "config.json").read_text())
    if damage == "limit":
        config["reference"]["limit"] = 0
    elif damage == "shape":
        tensors["reference.centers"] = tensors["reference.centers"][:, :1].clone()
    else:
        del tensors["reference.directions"]
    save_torch(tensors, tmp_path / "model.safetensors")
    config["sha256"] = hashlib.sha256((tmp_path / "model.safetensors").read_bytes()).hexdigest()
    write_json(tmp_path / "config.json", config)
    with pytest.raises(cq.ChoqolateError, match="not a model that can be loaded"):
        cq.load(tmp_path)


def test_a_class_of_one_row_among_many_has_a_center_but_does_not_need_one():
    rng = np.random.default_rng(0)
    z, targets = rng.random((30_000, 6)), rng.integers(0, 2, 30_000)
    targets[12_346] = 2
    reference = TrainingReference.fit(z, targets)
    np.testing.assert_allclose(reference.centers[2], z[12_346], rtol=1e-6)
    arrays = {name: getattr(reference, name) for name in ("centers", "directions", "spreads")}
    for n_centers in (3, 2, 1):
        arrays["centers"] = reference.centers[:n_centers]
        assert TrainingReference.from_parts(reference.as_dict(), arrays, (3, 6)).centers.shape == (n_centers, 6)
    with pytest.raises(cq.ChoqolateError, match="centers"):
        TrainingReference.from_parts(reference.as_dict(), arrays | {"centers": reference.centers[:0]}, (3, 6))


def test_rows_that_all_lie_on_their_class_center_can_be_saved_and_recognized(tmp_path):
    X = pd.DataFrame({"sea": [0.1, 0.9] * 50, "oak": [0.7, 0.2] * 50, "red": [0.3, 0.5] * 50, "beak": [0.2, 0.4] * 50})
    model = cq.ChoqolateClassifier(n_nodes=3, epochs=2).fit(X, ["owl", "duck"] * 50)
    model.save(tmp_path)
    back = cq.load(tmp_path)
    same = back.predict_table(X + 1e-7)
    assert np.isfinite(same["distance"]).all()
    assert not same["unlike_training"].any()
    assert back.predict_table(X + 0.1)["unlike_training"].all()


def test_training_is_not_slowed_by_wide_tables():
    rng = np.random.default_rng(0)
    reference = TrainingReference.fit(rng.random((300, 2_000)), rng.integers(0, 3, 300))
    assert reference.directions.shape == (60, 2_000)
    np.testing.assert_allclose(reference.directions @ reference.directions.T, np.eye(60), atol=1e-5)


@pytest.fixture(scope="module")
def many_rows():
    """Enough for every step to be shared among threads."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 40)).astype(np.float32)
    return X, (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int) + (X[:, 3] > 1)


def predicted_with(folder, X, n_threads, *, native=True):
    """All that is said of some rows by a model that is loaded and used with so many threads."""
    before = torch.get_num_threads()
    with threadpool_limits(n_threads), nullcontext() if native else without_native():
        torch.set_num_threads(n_threads)
        try:
            model = cq.load(folder)
            why, table = model.explain(X[:200]), model.predict_table(X[:200])
            arrays = {name: getattr(why, name) for name in ("concept_to_node", "node_to_class", "class_scores")}
            arrays |= {"probabilities": model.predict_proba(X), "nodes": model.transform(X)}
            arrays |= {"attributions": model.node_attributions_, "distance": table["distance"].to_numpy()}
            return model.predict(X), arrays
        finally:
            torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("interactions", ["pairwise", "factored"])
def test_the_number_of_threads_does_not_change_a_prediction(tmp_path, many_rows, interactions, dtype):
    X, y = many_rows
    cq.ChoqolateClassifier(n_nodes=4, epochs=1, interactions=interactions, dtype=dtype).fit(X, y).save(tmp_path / "m")
    labels, one = predicted_with(tmp_path / "m", X, 1)
    for native in (True, False):
        same_labels, two = predicted_with(tmp_path / "m", X, 2, native=native)
        np.testing.assert_array_equal(same_labels, labels)
        for name, values in two.items():
            exact = native and native_status().in_use and name != "distance"
            np.testing.assert_allclose(values, one[name], rtol=0, atol=0 if exact else 1e-12, err_msg=name)
