"""What is trained where all pairs of concepts do not fit into memory."""

from __future__ import annotations

import pytest

import choqolate as cq
from choqolate.estimators.affordable_pairs import affordable
from tests.small_tables import CONCEPTS, bird_scores


@pytest.fixture
def memory(monkeypatch):
    """Set the memory that is available."""

    def have(n_bytes):
        monkeypatch.setattr("choqolate.estimators.affordable_pairs.available_memory", lambda: n_bytes)

    return have


def test_interactions_become_factored_exactly_where_pairs_do_not_fit(memory):
    needed = 6 * 4 * (8 * 50_000**2 + 3 * 8**2)  # six copies of all weights in single precision
    memory(needed)
    assert affordable({}, 50_000, 3) == {}
    memory(needed - 1)
    with pytest.warns(cq.ChoqolateWarning, match="because all pairs of 50,000 concepts would need 480 GB"):
        assert affordable({}, 50_000, 3) == {"interactions": "factored"}


def test_pairs_that_are_asked_for_and_do_not_fit_are_an_error(memory):
    memory(1_000)
    with pytest.raises(cq.ChoqolateError, match="Use --interactions factored"):
        affordable({"interactions": "pairwise"}, 5_000, 3, advice="--interactions factored")
    with pytest.raises(cq.ChoqolateError, match="leave out free_weights"):
        affordable({"free_weights": True}, 5_000, 3)
    assert affordable({"interactions": "none"}, 5_000, 3) == {"interactions": "none"}


def test_a_table_is_trained_with_factored_interactions(memory):
    X, y, _ = bird_scores(60)
    table = cq.ConceptScores(X.to_numpy(), CONCEPTS, labels=y)
    memory(100)
    with pytest.warns(cq.ChoqolateWarning, match="Training uses factored interactions"):
        model = cq.fit_scores(table, epochs=1, calibrate=False)
    assert model.network_.architecture.interactions == "factored"
    with pytest.raises(cq.ChoqolateError, match="Use interactions='factored'"):
        cq.fit_scores(table, epochs=1, interactions="pairwise")
