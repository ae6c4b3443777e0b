from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from choqolate.baselines import PCBM, SLRAVD
from tests.baselines.methods import noisy_labels, scale
from tests.elastic_net import ELASTIC_NET

LONG = {"epochs": 1000, "learning_rate": 0.1, "n_nodes": None}  # all rows in one batch: to the optimum


@pytest.mark.parametrize(
    ("make", "l1_ratio"),
    [(PCBM, 0.99), (lambda **options: PCBM(l1_ratio=0.5, **options), 0.5), (SLRAVD, 1.0)],
    ids=["PCBM", "PCBM with more squares", "SLR-AVD"],
)
@pytest.mark.parametrize("penalty", [0.01, 0.004])
def test_without_nodes_it_is_the_logistic_regression_of_scikit_learn(make, l1_ratio, penalty):
    X, y = noisy_labels()
    z = scale(X, X)
    options = {"C": 1 / (len(z) * penalty), "solver": "saga", "tol": 1e-10, "max_iter": 50_000, **ELASTIC_NET}
    oracle = LogisticRegression(l1_ratio=l1_ratio, **options).fit(z, y)
    model = make(penalty=penalty, **LONG).fit(X, y)

    def objective(W, b):
        scores = z @ W.T + b
        cross_entropy = np.mean(np.log(np.exp(scores).sum(1)) - scores[np.arange(len(z)), y])
        return cross_entropy + penalty * (l1_ratio * np.abs(W).sum() + (1 - l1_ratio) / 2 * (W**2).sum())

    W, b = model.node_attributions_, model.node_intercepts_
    assert objective(W, b) == pytest.approx(objective(oracle.coef_, oracle.intercept_), abs=1e-9)
    np.testing.assert_allclose(W, oracle.coef_, atol=1e-5)
    np.testing.assert_array_equal(W == 0, oracle.coef_ == 0)
    assert 0.1 < (W == 0).mean() < 0.9
    np.testing.assert_allclose(model.predict_proba(X), oracle.predict_proba(z), atol=1e-5)


def test_a_strong_penalty_leaves_the_shares_of_the_classes():
    X, y = noisy_labels()
    model = SLRAVD(penalty=1.0, **LONG).fit(X, y)
    assert not model.node_attributions_.any()
    np.testing.assert_allclose(model.predict_proba(X[:1])[0], np.bincount(y) / len(y), atol=1e-6)


def test_with_nodes_both_layers_are_penalised_and_a_stronger_penalty_leaves_fewer_weights():
    X, y = noisy_labels()
    zeros = []
    for penalty in (0.0, 0.002, 0.02):
        model = SLRAVD(n_nodes=4, penalty=penalty, learning_rate=0.05, epochs=300).fit(X, y)
        zeros.append([(W == 0).sum() for W in (model.node_attributions_, model.class_attributions_)])
    assert zeros[0] == [0, 0]
    assert zeros[1][0] < zeros[2][0]
    assert zeros[1][1] < zeros[2][1]


def test_both_methods_are_one_where_they_should_be():
    X, y = noisy_labels()
    options = {"n_nodes": 3, "penalty": 0.003, "epochs": 40}
    one, other = PCBM(l1_ratio=1.0, **options).fit(X, y), SLRAVD(**options).fit(X, y)
    np.testing.assert_array_equal(one.class_scores(X), other.class_scores(X))
    assert not np.allclose(PCBM(l1_ratio=0.2, **options).fit(X, y).class_scores(X), one.class_scores(X), atol=1e-4)
