from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import choqolate as cq
from choqolate.estimators import side_by_side
from tests.small_tables import bird_scores


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_nodes": None},
        {"interactions": "factored", "rank": 2},
        {"interactions": "none"},
        {"bipolar": True, "n_nodes": 3},
        {"l1_on": "all"},
        {"l1_on": "parameters", "l1": 1e-5},
        {"l1_on": "parameters", "l1": 1e-5, "interactions": "factored", "rank": 2, "n_nodes": None},
        {"shuffle": "seed"},
        {"shuffle": "seed", "n_nodes": None, "interactions": "none"},
    ],
)
def test_a_run_is_the_same_alone_and_in_company(options):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300, X[:300].std(0) > 1][:, ::2], y[:300]
    shared = {"epochs": 15, "batch_size": 128, "dtype": "float64"} | options
    together = cq.fit_runs(X, y, seeds=[3, 1, 4], **shared)
    alone = [cq.ChoqolateClassifier(random_state=seed, **shared).fit(X, y) for seed in (3, 1, 4)]
    for run, solo in zip(together, alone, strict=True):
        assert run.random_state == solo.random_state
        np.testing.assert_allclose(run.node_attributions_, solo.node_attributions_, atol=1e-9)
        np.testing.assert_allclose(run.class_scores(X), solo.class_scores(X), atol=1e-9)
        np.testing.assert_allclose(run.history_["loss"], solo.history_["loss"], atol=1e-9)
    assert not np.allclose(together[0].node_attributions_, together[1].node_attributions_, atol=1e-3)


def test_runs_at_several_temperatures_are_the_same_as_alone():
    X, y, _ = bird_scores(150)
    shared = {"epochs": 12, "batch_size": 64, "dtype": "float64"}
    together = cq.fit_runs(X, y, seeds=[5, 2], temperatures=[0.005, 0.1], **shared)
    wanted = [(0.005, 5), (0.005, 2), (0.1, 5), (0.1, 2)]
    assert [(run.temperature, run.random_state) for run in together] == wanted
    for run, (temperature, seed) in zip(together, wanted, strict=True):
        solo = cq.ChoqolateClassifier(temperature=temperature, random_state=seed, **shared).fit(X, y)
        np.testing.assert_allclose(run.node_attributions_, solo.node_attributions_, atol=1e-9)
        np.testing.assert_allclose(run.predict_proba(X), solo.predict_proba(X), atol=1e-7)
        np.testing.assert_allclose(run.history_["loss"], solo.history_["loss"], atol=1e-9)
    assert not np.allclose(together[0].node_attributions_, together[2].node_attributions_, atol=1e-3)


def test_with_an_order_of_its_own_a_seed_is_the_same_at_every_temperature_alone_and_in_company():
    X, y, _ = bird_scores(150)
    shared = {"epochs": 8, "batch_size": 64, "dtype": "float64", "shuffle": "seed"}
    for run in cq.fit_runs(X, y, seeds=[5, 2], temperatures=[0.005, 0.1], **shared):
        own = {"temperature": run.temperature, "random_state": run.random_state}
        solo = cq.ChoqolateClassifier(**own, **shared).fit(X, y)
        np.testing.assert_allclose(run.node_attributions_, solo.node_attributions_, atol=1e-9)
        np.testing.assert_allclose(run.history_["loss"], solo.history_["loss"], atol=1e-9)


def test_the_order_of_a_seed_counts_only_where_there_are_several_batches():
    X, y, _ = bird_scores(150)

    def losses(**options):
        return cq.ChoqolateClassifier(epochs=4, dtype="float64", **options).fit(X, y).history_["loss"]

    np.testing.assert_array_equal(losses(shuffle="seed"), losses(shuffle="common"))  # 150 rows are one batch
    assert np.abs(losses(shuffle="seed", batch_size=32) - losses(shuffle="common", batch_size=32)).max() > 1e-6


def test_runs_that_do_not_fit_together_are_trained_in_turns(monkeypatch):
    X, y, _ = bird_scores(100)
    expected = cq.fit_runs(X, y, seeds=range(3), epochs=3, dtype="float64")
    monkeypatch.setattr(side_by_side, "_SIDE_BY_SIDE_BYTES", 1)
    for run, same in zip(cq.fit_runs(X, y, seeds=range(3), epochs=3, dtype="float64"), expected, strict=True):
        np.testing.assert_allclose(run.node_attributions_, same.node_attributions_, atol=1e-9)


def test_runs_are_classifiers_of_their_own():
    X, y, _ = bird_scores(100)
    runs = cq.fit_runs(X, y, seeds=(7, 8), epochs=2, track=True)
    edited = runs[0].remove_concepts("sea")
    assert runs[1].removal_ is None
    assert edited.random_state == 7
    assert runs[1].history_["node_attributions"].shape == (2, 8, 6)
    assert not torch.equal(runs[0].parameters_["nodes.theta"], runs[1].parameters_["nodes.theta"])


def test_wrong_calls():
    X, y, _ = bird_scores(20)
    with pytest.raises(cq.ChoqolateError, match=r"got both: leave one out"):
        cq.fit_runs(X, y, seeds=[1], temperature=0.1, temperatures=[0.1])
    with pytest.raises(cq.ChoqolateError, match="at least one temperature"):
        cq.fit_runs(X, y, seeds=[1], temperatures=[])
    with pytest.raises(cq.ChoqolateError, match="expected temperatures to be a number above 0, got 0"):
        cq.fit_runs(X, y, seeds=[1], temperatures=[0.1, 0])
    with pytest.raises(cq.ChoqolateError, match="at least one seed"):
        cq.fit_runs(X, y, seeds=[])
    with pytest.raises(cq.ChoqolateError, match=r"such as range\(20\), got 5"):
        cq.fit_runs(X, y, seeds=5)
    with pytest.raises(cq.ChoqolateError, match="seeds="):
        cq.fit_runs(X, y, seeds=[0], random_state=1)
    with pytest.raises(TypeError, match="n_node"):
        cq.fit_runs(X, y, seeds=[0], n_node=1)
