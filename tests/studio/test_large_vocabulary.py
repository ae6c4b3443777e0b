"""The studio of a model with thousands of concepts: what the lists do not show is found by searching."""

from __future__ import annotations

import numpy as np
import pytest

import choqolate as cq
from choqolate.studio import export_studio
from tests.studio.auditor import auditor

N_ROWS, N_CONCEPTS = 60, 3_000


@pytest.fixture(scope="module")
def large():
    """A factored model that has seen its rows once."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, N_ROWS)
    scores = rng.normal(size=(N_ROWS, N_CONCEPTS)) + rng.normal(size=(3, N_CONCEPTS))[labels]
    table = cq.ConceptScores(
        scores.astype(np.float32),
        [f"concept {j:04d}" for j in range(N_CONCEPTS)],
        labels=[f"class {label}" for label in labels],
        split=["train", "val", "test"] * (N_ROWS // 3),
    )
    return cq.fit_scores(table, n_nodes=3, epochs=1, interactions="factored", temperature=0.05), table


def test_a_concept_that_no_list_shows_is_found_and_removed(browser, large, tmp_path):
    model, table = large
    hidden = model.concepts_[np.argsort(-model.concept_shares_)[1000]]
    written = export_studio(model, table, tmp_path / "audit.html")
    assert written.path.stat().st_size < 15e6
    with auditor(browser, written.path.as_uri()) as me:
        me.open("#view=concept")
        me.press("/")
        listed = me.page.get_by_role("list", name="Concepts").get_by_role("listitem")
        assert listed.count() == 200
        assert "Showing 200 of 3,000. Search to find others." in me.page.inner_text("body")
        assert hidden not in me.page.inner_text("body")
        me.page.keyboard.type(hidden)
        me.settled()
        assert listed.count() == 1
        me.press("Enter")
        correlations = me.page.locator(".siblings").inner_text()
        selected = me.page.evaluate(
            """() => Array.from(document.querySelectorAll(".sibling-list li"),
              (item) => [item.querySelector(".amount").textContent, item.querySelector("input").checked])"""
        )
        rows = me.page.evaluate("() => studio.rows.n - studio.coveredRows.length")
        me.click("Remove everywhere")
        me.page.wait_for_function("() => document.querySelector('.residuals').innerText.includes('remaining concepts')")
        numbers, found, before = me.page.evaluate(
            """() => [studio.rows.number, studio.states.now.scores, studio.states.original.scores]
              .map((values) => Array.from(values))"""
        )
    assert f"Correlation of scores on {rows} loaded rows." in correlations
    by_chance = np.tanh(np.sqrt(2 * np.log(N_CONCEPTS * (N_CONCEPTS - 1) / 0.2) / (rows - 3)))
    amounts = [float(amount.replace("−", "-")) for amount, _ in selected]
    assert 0.6 < max(amounts) < by_chance
    assert not any(chosen for _, chosen in selected)
    assert sorted(numbers) == list(range(N_ROWS))
    for got, one in ((found, model.remove_concepts(hidden)), (before, model)):
        np.testing.assert_allclose(np.reshape(got, (N_ROWS, 3)), one.class_scores(table)[numbers], atol=1e-6)
    assert np.abs(np.subtract(found, before)).max() > 1e-5  # so that the two can be told apart
