"""Training on tables that stay in their file: the same statistics, every row, a good model, bounded memory."""

from __future__ import annotations

import sys
import warnings
from functools import partialmethod

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import choqolate as cq
from choqolate.data.sampling import sample_mask
from choqolate.data.score_file import ScoreFile
from choqolate.estimators.side_by_side import prepare_training
from choqolate.estimators.table_training import check_training, prepare_scores, training_sizes
from choqolate.estimators.training_file import FileRows, measure, warn_sorted
from choqolate.network import lanes
from choqolate.network.architecture import Architecture
from choqolate.network.lanes import LaneBatches
from tests.peak_memory import peaks_of

CONCEPTS = ["sea", "forest", "crest", "webbed feet", "sky", "sand"]


def make_table(n_rows=900):
    """Three classes by which of three concepts is highest."""
    rng = np.random.default_rng(0)
    scores = rng.normal(0.2, 0.03, (n_rows, len(CONCEPTS))).astype(np.float32)
    return cq.ConceptScores(scores, CONCEPTS, labels=np.array(["gull", "wren", "auk"])[scores[:, :3].argmax(axis=1)])


def without_some_labels(table):
    labels = table.labels.astype(object)
    labels[::50] = None
    return table.with_columns(labels=labels)


def write_in_groups(table, path, rows_per_group):
    """The table in a Parquet file with row groups of a given size."""
    import pyarrow.parquet as pq

    table.save(path)
    whole = pq.read_table(path)
    pq.write_table(whole, path, row_group_size=rows_per_group)
    return ScoreFile(path)


@settings(max_examples=15, deadline=None)
@given(rows_per_group=st.integers(1, 300), split=st.booleans(), n_lanes=st.sampled_from([1, 3, 8]))
def test_statistics_and_rows_are_those_in_memory(tmp_path_factory, rows_per_group, split, n_lanes):
    table = without_some_labels(make_table(300))
    table = table.with_split() if split else table
    file = write_in_groups(table, tmp_path_factory.mktemp("file") / "scores.parquet", rows_per_group)
    rows, expected = file.with_split().part("train").labelled(), table.with_split().part("train").labelled()
    memory = prepare_training(expected.scores.astype(np.float64), expected.labels, CONCEPTS, None, "balanced")
    found = measure(rows)
    assert found.classes.tolist() == memory.classes.tolist() == ["auk", "gull", "wren"]
    assert np.array_equal(found.scaling.low, memory.scaling.low)
    assert np.array_equal(found.scaling.high, memory.scaling.high)
    np.testing.assert_allclose(found.concept_means, memory.concept_means, rtol=1e-12)
    np.testing.assert_allclose(found.label_shares, memory.label_shares, rtol=1e-12)

    weights = 1 / (3 * found.label_shares)
    untrained = memory.fitted(Architecture(4, bipolar=True))
    source = FileRows(rows, untrained, weights, torch.device("cpu"), torch.float64)
    batches = list(next(LaneBatches(source, 37, n_lanes=n_lanes).epochs(1)))
    seen = torch.cat([torch.cat([b.inputs, b.targets[:, None], b.weights[:, None]], dim=1) for b in batches]).numpy()
    inputs = np.concatenate([memory.scaled[:], 1 - memory.scaled[:]], axis=1)
    all_rows = np.column_stack([inputs, memory.targets, memory.weights])
    np.testing.assert_allclose(seen[np.lexsort(seen.T)], all_rows[np.lexsort(all_rows.T)], rtol=1e-12)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    table = make_table()
    return table, write_in_groups(table, tmp_path_factory.mktemp("streamed") / "scores.parquet", 70)


def test_a_streamed_model_is_as_good_and_remembers_the_same(place):
    table, file = place
    options = {"n_nodes": 6, "epochs": 60, "temperature": 0.02, "batch_size": 128}
    streamed, memory = cq.fit_scores(file, **options), cq.fit_scores(table, **options)
    assert streamed.provenance_.as_dict() == memory.provenance_.as_dict()
    assert streamed.calibration_.source == memory.calibration_.source
    assert len(streamed.history_["loss"]) == 60
    test = table.labelled().with_split().part("test")
    ours, theirs = (model.score(test, test.labels) for model in (streamed, memory))
    assert ours > theirs - 0.05
    assert ours > 0.8
    assert streamed.predict(test.frame).tolist() == streamed.predict(test).tolist()


def test_settings_are_searched_on_the_sample_and_nodes_compared_on_it(place):
    _, file = place
    with pytest.warns(cq.ChoqolateWarning):
        model = cq.fit_scores(file, n_nodes=8, interactions="none", temperature="auto", epochs=5, n_runs=2)
    assert model.search_ is not None
    assert model.temperature_ in {trial.temperature for trial in model.search_.trials}
    assert model.stability_ is not None
    assert model.reference_ is not None


@pytest.fixture
def small_samples(monkeypatch):
    monkeypatch.setattr(ScoreFile, "sample", partialmethod(ScoreFile.sample, n_rows=120))


def test_a_class_that_is_rare_is_part_of_the_sample(tmp_path, small_samples):
    """Three of 900 rows are auks, none of them among the 120 rows that a sample without labels has."""
    table = make_table()
    blind = sample_mask(np.arange(900), np.full(900, -1), n_rows=120, row_bytes=1, n_bytes=900)
    labels = np.where(table.scores[:, 0] > table.scores[:, 1], "gull", "wren").astype(object)
    labels[np.flatnonzero(~blind)[[5, 300, 600]]] = "auk"
    file = write_in_groups(table.with_columns(labels=labels, split=["train"] * 900), tmp_path / "scores.parquet", 100)
    assert file.sample().labels.tolist().count("auk") == 3
    model = cq.fit_scores(file, n_nodes=4, epochs=2, n_runs=2)
    assert model.classes_.tolist() == ["auk", "gull", "wren"]
    assert model.calibration_.rows == 120
    assert model.stability_ is not None


def test_a_model_is_kept_where_the_sample_is_too_small_to_calibrate_it(tmp_path, small_samples):
    labels, split = [f"bird {row % 30}" for row in range(900)], ["train"] * 900
    table = cq.ConceptScores(make_table().scores, CONCEPTS, labels=labels, split=split)
    with pytest.warns(cq.ChoqolateWarning, match="not calibrated.*120 rows of 30 classes"):
        model = cq.fit_scores(write_in_groups(table, tmp_path / "scores.parquet", 100), epochs=1, n_nodes=8)
    assert model.calibration_ is None
    assert len(model.classes_) == 30


@pytest.mark.parametrize("is_sorted", [True, False])
def test_steps_that_cannot_mix_the_classes_of_a_file_are_worth_a_warning(tmp_path, monkeypatch, is_sorted):
    labels = np.array([f"bird {row // 30 if is_sorted else row % 30}" for row in range(900)])
    table = cq.ConceptScores(make_table().scores, CONCEPTS, labels=labels, split=["train"] * 900)
    rows = write_in_groups(table, tmp_path / "scores.parquet", 15).part("train")

    def said():
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            warn_sorted(rows, n_lanes=8)
        return [str(warning.message) for warning in found]

    assert said() == []  # all of it fits into the pools
    monkeypatch.setattr(lanes, "POOL_BYTES", 15 * rows.row_bytes)  # one row group in each
    assert len(said()) == is_sorted
    assert not is_sorted or "mix only about 7 of 30 classes" in said()[0]
    monkeypatch.setattr(lanes, "POOL_BYTES", 75 * rows.row_bytes)
    assert said() == []


def test_concepts_left_out_and_class_weights(place):
    table, file = place
    options = {"n_nodes": None, "interactions": "none", "epochs": 3, "calibrate": False, "dtype": "float64"}
    options |= {"leave_out": ["sky"], "class_weight": {"gull": 3.0}, "batch_size": 10_000, "n_runs": 1}
    streamed, memory = cq.fit_scores(file, **options), cq.fit_scores(table, **options)
    assert streamed.concepts_ == [name for name in CONCEPTS if name != "sky"]
    # one batch has all rows, in whatever order: the same training up to rounding
    for name, theta in memory.parameters_.items():
        torch.testing.assert_close(streamed.parameters_[name], theta, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(streamed.history_["loss"], memory.history_["loss"], rtol=1e-10)
    np.testing.assert_array_equal(streamed.history_["accuracy"], memory.history_["accuracy"])


def test_what_is_searched_on_is_the_sample_without_the_concepts_left_out(place):
    table, file = place
    options = {"leave_out": ["sky"], "interactions": "none"}
    streamed, memory = prepare_scores(file, **options), prepare_scores(table, **options)
    np.testing.assert_array_equal(streamed.data.scaled[:], memory.data.scaled[:])
    assert streamed.data.targets.tolist() == memory.data.targets.tolist()
    assert training_sizes(file) == (630, 630)


def test_rows_without_a_label_are_left_out_with_a_warning(place, tmp_path):
    file = write_in_groups(without_some_labels(place[0]), tmp_path / "scores.parquet", 100)
    with pytest.warns(cq.ChoqolateWarning, match="18 of 900 rows have no label"):
        model = cq.fit_scores(file, epochs=1, calibrate=False)
    assert model.provenance_.data.rows == len(file.with_split().part("train").labelled())


def test_mistakes_are_found_before_the_scores_are_read(place, tmp_path):
    table, file = place
    with pytest.raises(cq.ChoqolateError, match="epochs"):
        cq.fit_scores(file, epochs=0)
    with pytest.raises(cq.ChoqolateError, match="epochs"):
        check_training(file, epochs=0)
    with pytest.raises(cq.ChoqolateError, match=r"Save it as \.parquet"):
        cq.fit_scores(table, workers=2)
    with pytest.raises(cq.ChoqolateError, match="engine"):
        cq.fit_scores(file, engine="slurm")
    with pytest.raises(cq.ChoqolateError, match="address"):
        cq.fit_scores(file, address="auto")
    with pytest.raises(cq.ChoqolateError, match="workers"):
        cq.fit_scores(file, workers=0)
    table.with_columns(labels=["gull"] * len(table)).save(tmp_path / "one.parquet")
    with pytest.raises(cq.ChoqolateError, match="two classes"):
        check_training(ScoreFile(tmp_path / "one.parquet"))


PEAK = """
import sys
from choqolate.data.score_file import ScoreFile
from choqolate.estimators.table_training import fit_scores
from choqolate.network import lanes
lanes.POOL_BYTES = 1 << 19
options = {"n_nodes": None, "interactions": "none", "epochs": 1, "calibrate": False, "batch_size": 4096}
for path in sys.argv[1:]:
    fit_scores(ScoreFile(path), **options)
    print_peak()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of a process from /proc")
def test_memory_does_not_grow_with_the_rows(tmp_path):
    """With ten times the rows (8 MB of scores, then 80 MB) the peak of a process rises by less than half of them.

    Both tables have more training rows than the pools of all lanes, which hold 4 MB.
    """
    rng = np.random.default_rng(0)
    paths = []
    for n_rows in (20_000, 200_000):
        scores = rng.random((n_rows, 100), dtype=np.float32)
        labels = np.where(scores[:, 0] > scores[:, 1], "left", "right")
        paths.append(tmp_path / f"{n_rows}.parquet")
        split = np.where(np.arange(n_rows) % 4 > 0, "train", "test")
        table = cq.ConceptScores(scores, [f"c{j}" for j in range(100)], labels=labels, split=split)
        write_in_groups(table, paths[-1], 1_000)
    small, large = peaks_of(PEAK, *paths)
    assert large < 1.2 * small
    assert large - small < 30_000
