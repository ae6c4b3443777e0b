"""Logistic regression on all scores: the optimum of scikit-learn, behind the interface of the other baselines."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import choqolate as cq
from choqolate.baselines import LogisticLasso, LogisticRidge, fit_together
from choqolate.data.provenance import Provenance
from choqolate.data.scores import ConceptScores
from tests.baselines.methods import noisy_labels, scale
from tests.elastic_net import ELASTIC_NET
from tests.small_tables import CONCEPTS, bird_scores

MODELS = [LogisticRidge(), LogisticLasso(strength=0.3), LogisticLasso(strength=0.3, refit=1e-3)]


@parametrize_with_checks(MODELS)
@pytest.mark.filterwarnings("ignore::choqolate.ChoqolateWarning")  # constant features: on purpose
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("penalty", [1e-2, 1e-4])
def test_ridge_is_the_logistic_regression_of_scikit_learn(penalty):
    X, y = noisy_labels()
    oracle = LogisticRegression(C=1 / (len(X) * penalty), tol=1e-8, max_iter=5000).fit(scale(X, X), y)
    model = LogisticRidge(penalty=penalty).fit(X, y)
    np.testing.assert_allclose(model.node_attributions_, oracle.coef_, atol=1e-3)
    np.testing.assert_allclose(model.predict_proba(X), oracle.predict_proba(scale(X, X)), atol=1e-4)


@pytest.mark.parametrize("strength", [0.5, 0.1, 0.02])
def test_lasso_is_the_l1_regression_of_scikit_learn(strength):
    X, y = noisy_labels()
    z = scale(X, X)
    model = LogisticLasso(strength=strength).fit(X, y)
    options = {"C": 1 / (len(X) * model.penalty_), "solver": "saga", "tol": 1e-9, "max_iter": 50_000, **ELASTIC_NET}
    oracle = LogisticRegression(l1_ratio=1, **options).fit(z, y)
    np.testing.assert_allclose(model.node_attributions_, oracle.coef_, atol=3e-3)
    np.testing.assert_array_equal(model.node_attributions_ == 0, np.abs(oracle.coef_) < 1e-7)
    np.testing.assert_allclose(model.predict_proba(X), oracle.predict_proba(z), atol=1e-3)


def test_from_strength_one_on_half_of_the_classes_have_no_weights():
    X, y = noisy_labels(n_classes=4)
    used = [LogisticLasso(strength=s).fit(X, y).node_attributions_.any(axis=1).sum() for s in (1.001, 0.9, 0.01)]
    assert used[0] <= 2 < used[2]
    assert used == sorted(used)
    z, shares = scale(X, X), np.bincount(y) / len(y)
    gradient = np.abs((shares - np.eye(4)[y]).T @ (z - z.mean(0))) / len(z)
    model = LogisticLasso(strength=0.5).fit(X, y)
    assert model.penalty_ == pytest.approx(0.5 * np.median(gradient.max(axis=1)))


def test_strength_means_the_same_on_any_number_of_rows_and_any_range():
    X, y = noisy_labels()
    models = [LogisticLasso(strength=0.2).fit(*data) for data in ((X, y), (7 * np.tile(X, (2, 1)) + 3, np.tile(y, 2)))]
    np.testing.assert_allclose(models[0].node_attributions_, models[1].node_attributions_, atol=1e-6)


def test_a_refit_keeps_to_the_selected_concepts_and_undoes_the_shrinkage():
    X, y = noisy_labels()
    sparse, again = (LogisticLasso(strength=0.3, refit=refit).fit(X, y).node_attributions_ for refit in (None, 1e-4))
    assert 0.2 < (sparse == 0).mean() < 0.9
    np.testing.assert_array_equal(again != 0, sparse != 0)
    assert np.abs(again).sum() > 1.3 * np.abs(sparse).sum()


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_it_is_fitted_read_edited_and_measured_as_other_baselines_are(model):
    X, y, _ = bird_scores()
    model = model.fit(X[:300], y[:300])
    assert (model.n_parameters_, model.removed_, model.provenance_, model.one_layer_) == (14, (), Provenance(), True)
    assert (model.concepts_, model.node_names_) == (CONCEPTS, ("landbird", "waterbird"))
    np.testing.assert_array_equal(model.class_attributions_, np.eye(2))
    np.testing.assert_array_equal(model.transform(X), model.class_scores(X))
    told = model.explain(X[:20])
    np.testing.assert_allclose(told.concept_to_node.sum(2) + told.node_baseline, model.class_scores(X[:20]), atol=1e-12)
    edited = model.remove_concepts("sea")
    np.testing.assert_array_equal(edited.class_scores(X.assign(sea=0.3)), edited.class_scores(X))
    result = cq.evaluate(model, ConceptScores(X.to_numpy(), CONCEPTS, labels=y), "all")
    assert result.accuracy == model.score(X, y) > 0.85
    assert result.concepts_per_class == float(cq.metrics.concept_count(model.node_attributions_).mean())


def test_seeds_change_nothing_and_runs_can_be_fitted_together():
    X, y = noisy_labels()
    wanted = [LogisticRidge(penalty=penalty, random_state=seed) for penalty in (1e-2, 1e-4) for seed in (0, 1)]
    runs = fit_together(wanted, pd.DataFrame(X, columns=[f"c{j}" for j in range(8)]), y)
    alone = LogisticRidge(penalty=1e-4, device="cpu").fit(X, y)
    for k, same in ((1, runs[0]), (3, runs[2]), (3, alone)):
        np.testing.assert_allclose(runs[k].node_attributions_, same.node_attributions_, atol=1e-6)
    assert not np.allclose(runs[0].node_attributions_, runs[3].node_attributions_, atol=0.1)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LogisticRidge(penalty=-1), "penalty to be a number of at least 0"),
        (LogisticLasso(strength=0), "strength to be a number above 0"),
        (LogisticLasso(refit="yes"), "refit to be a number of at least 0"),
    ],
)
def test_wrong_parameters(estimator, message):
    with pytest.raises(cq.ChoqolateError, match=message):
        estimator.fit(*noisy_labels())


def test_a_constant_concept_is_told_to_the_caller():
    X, y = noisy_labels()
    X[:, 0] = 0.5
    with pytest.warns(cq.ChoqolateWarning, match="without influence: 'x0'") as caught:
        LogisticRidge().fit(X, y)
    assert caught[0].filename == __file__
