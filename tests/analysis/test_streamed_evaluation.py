"""Evaluation and prediction on files: the numbers of the table in memory, in the memory of one block."""

import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from choqolate import metrics
from choqolate.analysis.evaluation import evaluate, evaluate_parts
from choqolate.analysis.predicting import predict_source
from choqolate.baselines import PCBM
from choqolate.data.score_file import ScoreFile
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError, ChoqolateWarning
from choqolate.estimators.table_training import fit_scores
from tests.peak_memory import peaks_of
from tests.small_tables import bird_scores


def in_pieces(table, path, rows):
    table.save(path)
    pq.write_table(pq.read_table(path), path, row_group_size=rows)
    return ScoreFile(path)


@pytest.fixture(scope="module")
def birds():
    X, labels, groups = bird_scores(300)
    labels, groups = labels.astype(object), groups.astype(object)
    labels[::17] = groups[::11] = None
    return ConceptScores(X.to_numpy(np.float32), X.columns, labels=labels, groups=groups)


@pytest.fixture(scope="module")
def model(birds):
    with pytest.warns(ChoqolateWarning, match="no label"):
        return fit_scores(birds, n_nodes=3, epochs=5)


def agree(streamed, whole):
    ours, theirs = streamed.as_dict(), whole.as_dict()
    rounded = [name for name, value in theirs.items() if isinstance(value, float)]
    for name in rounded:
        assert ours.pop(name) == pytest.approx(theirs.pop(name), abs=1e-12), name
    assert ours == theirs
    assert streamed.hits.tolist() == whole.hits.tolist()
    assert streamed.row_labels.tolist() == whole.row_labels.tolist()
    assert streamed.row_groups.tolist() == whole.row_groups.tolist()
    return True


@pytest.mark.parametrize("rows", [7, 64, 1000])
@pytest.mark.parametrize("split", [None, "train", "all"])
def test_a_file_gives_the_numbers_of_the_table(birds, model, tmp_path, rows, split):
    file = in_pieces(birds, tmp_path / "birds.parquet", rows)
    assert agree(evaluate(model, file, split), evaluate(model, birds, split))


def test_a_baseline_is_evaluated_on_a_file(birds, tmp_path):
    known = birds.labelled().select(birds.concepts[::-1])
    baseline = PCBM(epochs=3).fit(known, known.labels)
    file = in_pieces(birds, tmp_path / "birds.parquet", 50)
    assert agree(evaluate(baseline, file, "all"), evaluate(baseline, birds, "all"))


def test_parts_and_doubts_of_a_file(birds, model, tmp_path):
    file = in_pieces(birds, tmp_path / "birds.parquet", 40)
    whole, streamed = evaluate_parts(model, birds), evaluate_parts(model, file)
    assert list(whole) == list(streamed) == ["training", "held out"]
    assert all(agree(streamed[name], whole[name]) for name in whole)
    trained_on = in_pieces(birds.with_split().part("train").with_columns(split=None), tmp_path / "train.parquet", 40)
    with pytest.warns(ChoqolateWarning, match="64 of 64 sampled"):
        evaluate(model, trained_on)


def test_a_label_that_the_model_does_not_know(birds, model, tmp_path):
    other = birds.with_columns(labels=["penguin"] * len(birds), classes=["penguin"])
    with pytest.raises(ChoqolateError, match="penguin"):
        evaluate(model, in_pieces(other, tmp_path / "birds.parquet", 40), "all")


def test_predictions_for_a_file(birds, model, tmp_path):
    file = in_pieces(birds, tmp_path / "birds.parquet", 70)
    streamed, whole = predict_source(model, file).table, predict_source(model, birds).table
    assert streamed.columns.tolist() == whole.columns.tolist()
    assert streamed["predicted"].tolist() == whole["predicted"].tolist()
    np.testing.assert_allclose(streamed["probability"], whole["probability"], atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 60), st.integers(1, 20))
def test_coherence_of_blocks_is_that_of_the_correlation_matrix(seed, n_rows, step):
    rng = np.random.default_rng(seed)
    scores = rng.normal(3, 1, (n_rows, 5)) @ rng.normal(size=(5, 5))
    scores[:, 2] = 0.1  # constant
    W = rng.random((4, 5)) * (rng.random((4, 5)) < 0.7)
    found = metrics.node_coherence_of_blocks(W, lambda: [scores[k : k + step] for k in range(0, n_rows, step)])
    expected = metrics.node_coherence(W, metrics.concept_correlation(scores))
    np.testing.assert_allclose(found, expected, atol=1e-9)


PEAK = """
    import sys
    import numpy as np
    import choqolate as cq
    from choqolate.analysis.evaluation import evaluate
    from choqolate.data import parquet_reader
    from choqolate.data.rows import Rows
    from choqolate.data.score_writer import ScoreWriter

    parquet_reader.BLOCK_BYTES = 1 << 22
    path, concepts = sys.argv[1], [f"c{j}" for j in range(400)]
    rng = np.random.default_rng(0)
    first = rng.random((2_000, 400), dtype=np.float32)
    table = cq.ConceptScores(first, concepts)
    model = cq.ChoqolateClassifier(n_nodes=2, epochs=1, interactions="none").fit(table, ["a", "b"] * 1_000)
    for n_rows in (10_000, 100_000):
        with ScoreWriter(path, concepts, classes=["a", "b"]) as writer:
            for _ in range(n_rows // 2_000):
                writer.add_scores(first, Rows(labels=["a", "b"] * 1_000))
        evaluate(model, cq.ConceptScores.open(path), "all")
        print_peak()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of a process from /proc")
def test_ten_times_the_rows_take_the_same_memory(tmp_path):
    small, large = peaks_of(PEAK, tmp_path / "table.parquet")
    assert large < 1.2 * small  # the scores alone would be 160 MB, not 16 MB
