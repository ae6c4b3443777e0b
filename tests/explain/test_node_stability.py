from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import choqolate as cq
from choqolate.explain.node_stability import NodeStability
from tests.small_tables import bird_scores


class Fitted(BaseEstimator):
    """What a fitted model is for the comparison: its nodes, and the names of its concepts."""

    def fit(self, rows):
        self.node_attributions_ = np.array(rows, dtype=float)
        self.concepts_ = [f"concept {j}" for j in range(self.node_attributions_.shape[1])]
        return self


def run(rows):
    return Fitted().fit(rows)


A, B, C, D = np.eye(4)


def test_recurrence_by_hand():
    found = cq.node_stability([run([A, B]), run([B, A]), run([C, A]), run([C, D])])
    assert found.n_runs == 4
    assert found.n_others == 3
    assert found.counts.tolist() == [[2, 1], [1, 2], [1, 2], [1, 0]]
    np.testing.assert_allclose(found.recurrence, found.counts / 3)
    assert not found.stable.any()


def test_one_run_knows_with_how_many_it_was_compared():
    found = cq.node_stability([run([A, B])] * 5 + [run([A, C])])
    first = found.of_run(0)
    assert (first.n_runs, first.n_others) == (6, 5)
    assert first.recurrence.tolist() == [[1.0, 0.8]]
    assert first.counts.tolist() == [[5, 4]]
    assert first.stable.tolist() == [[True, True]]
    assert found.of_run(-1).counts.tolist() == [[5, 0]]
    assert repr(first).startswith("NodeStability(6 runs, 2 nodes")
    back = NodeStability.from_dict(json.loads(json.dumps(first.as_dict())))
    assert back.n_runs == 6
    np.testing.assert_array_equal(back.recurrence, first.recurrence)
    np.testing.assert_array_equal(back.similarity, first.similarity)


def test_one_run_alone_is_no_comparison():
    with pytest.raises(cq.ChoqolateError, match="Expected n_runs to be at least 2 but got 1"):
        NodeStability(np.ones((1, 2)), np.ones((1, 2)))


def test_a_saved_model_and_its_edits_keep_the_count(tmp_path):
    X, y, _ = bird_scores(100)
    runs = cq.fit_runs(X, y, seeds=range(3), n_nodes=2, epochs=3)
    model = runs[0]
    model.stability_ = cq.node_stability(runs).of_run(0)
    model.remove_concepts("sea").save(tmp_path / "model")
    back = cq.load(tmp_path / "model").stability_
    assert back.n_others == 2
    np.testing.assert_array_equal(back.counts, model.stability_.counts)
    assert model.fit(X, y).stability_ is None
