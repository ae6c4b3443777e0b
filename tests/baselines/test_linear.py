from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import choqolate as cq
from choqolate.baselines import LinearBottleneck, fit_linear_runs
from choqolate.data.provenance import Provenance
from choqolate.data.scores import ConceptScores
from tests.small_tables import CONCEPTS, bird_scores


@parametrize_with_checks([LinearBottleneck(epochs=20, learning_rate=0.1)])
@pytest.mark.filterwarnings("ignore::choqolate.ChoqolateWarning")  # constant features: on purpose
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def birds():
    return bird_scores()


@pytest.fixture(scope="module")
def model(birds):
    X, y, _ = birds
    return LinearBottleneck(n_nodes=3, epochs=30).fit(X[:300], y[:300])


def scale(X, train):
    low, high = train.min(axis=0).to_numpy(), train.max(axis=0).to_numpy()
    return np.clip((X.to_numpy() - low) / (high - low), 0, 1)


def noisy_labels(n_rows=300, n_classes=3, seed=0):
    """Scores and labels drawn from a softmax of them: classes overlap, so the optimum is finite."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, 4))
    logits = 2 * X @ rng.normal(size=(4, n_classes))
    return X, (logits + rng.gumbel(size=logits.shape)).argmax(1)


def test_wide_enough_it_is_logistic_regression():
    X, y = noisy_labels()
    z = (X - X.min(0)) / (X.max(0) - X.min(0))
    oracle = LogisticRegression(C=np.inf, tol=1e-10, max_iter=2000).fit(z, y)
    model = LinearBottleneck(n_nodes=3, epochs=1500).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), oracle.predict_proba(z), atol=1e-4)
    np.testing.assert_array_equal(model.predict(X), oracle.predict(z))
    assert model.score(X, y) == oracle.score(z, y)


def test_one_node_is_a_bottleneck():
    X, y = noisy_labels()
    scores = LinearBottleneck(n_nodes=1, epochs=50).fit(X, y).class_scores(X)
    assert np.linalg.matrix_rank(scores - scores.mean(0), tol=1e-9) == 1
    wide = LinearBottleneck(n_nodes=3, epochs=50).fit(X, y).class_scores(X)
    assert np.linalg.matrix_rank(wide - wide.mean(0), tol=1e-9) == 3


def test_outputs_are_the_two_linear_layers_of_scaled_and_clipped_scores(birds, model):
    X, y, _ = birds
    z = scale(X, X[:300])
    assert ((X < X[:300].min()) | (X > X[:300].max())).to_numpy().any()  # some new scores are beyond the range
    nodes = z @ model.node_attributions_.T + model.node_intercepts_
    scores = nodes @ model.class_attributions_.T + model.class_intercepts_
    odds = np.exp(scores)
    np.testing.assert_allclose(model.transform(X), nodes, atol=1e-12)
    np.testing.assert_allclose(model.class_scores(X), scores, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X), odds / odds.sum(1, keepdims=True), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), np.array(["landbird", "waterbird"])[scores.argmax(1)])
    np.testing.assert_allclose(model.concept_means_, z[:300].mean(0))
    assert model.score(X, y) == (model.predict(X) == y).mean() > 0.9
    assert model.node_attributions_.shape == (3, 6)
    assert model.class_attributions_.shape == (2, 3)


def test_names_and_records(birds, model):
    X, y, _ = birds
    assert model.concepts_ == CONCEPTS
    assert list(model.classes_) == ["landbird", "waterbird"]
    assert model.provenance_ == Provenance()
    assert model.removed_ == ()
    nameless = LinearBottleneck(n_nodes=2, epochs=1).set_output(transform="pandas").fit(X.to_numpy(), y)
    assert nameless.concepts_ == [f"x{j}" for j in range(6)]
    assert list(nameless.transform(X.to_numpy()).columns) == ["node0", "node1"]
    assert nameless.class_scores(X.to_numpy()).shape == (400, 2)


def test_the_first_loss_is_that_of_the_initial_weights_and_the_last_is_lower(birds):
    X, y, _ = birds
    model = LinearBottleneck(n_nodes=4, epochs=25, random_state=3).fit(X, y)
    assert model.history_["loss"].shape == model.history_["accuracy"].shape == (25,)
    start = LinearBottleneck(n_nodes=4, epochs=1, learning_rate=1e-12, random_state=3).fit(X, y)
    truth = (y == "waterbird").astype(int)
    loss = -np.log(start.predict_proba(X)[np.arange(400), truth]).mean()
    assert model.history_["loss"][0] == pytest.approx(loss, abs=1e-9)
    assert model.history_["accuracy"][0] == start.score(X, y)
    assert model.history_["loss"][-1] < 0.8 * loss


def test_the_loss_of_an_epoch_counts_every_row_once(birds):
    X, y, _ = birds
    options = dict(epochs=1, learning_rate=1e-12)
    whole, uneven = (LinearBottleneck(batch_size=size, **options).fit(X, y).history_ for size in (400, 150))
    assert uneven["loss"][0] == pytest.approx(whole["loss"][0], abs=1e-9)
    assert uneven["accuracy"][0] == whole["accuracy"][0]


def test_the_initial_weights_are_spread_as_in_a_linear_layer_of_torch():
    X, y = np.random.default_rng(0).random((20, 400)), np.arange(20) % 10
    model = LinearBottleneck(n_nodes=100, epochs=1, learning_rate=1e-12).fit(X, y)
    torch.manual_seed(0)
    layers = torch.nn.Linear(400, 100), torch.nn.Linear(100, 10)
    ours = [(model.node_attributions_, model.node_intercepts_), (model.class_attributions_, model.class_intercepts_)]
    for layer, (weight, bias) in zip(layers, ours, strict=True):
        bound = layer.in_features**-0.5
        assert weight.shape == layer.weight.shape
        assert 0.97 * bound < np.abs(weight).max() < 1.0001 * bound
        assert np.abs(bias).max() < 1.0001 * bound
        assert weight.std() == pytest.approx(float(layer.weight.detach().std()), rel=0.1)
        assert weight.mean() == pytest.approx(0, abs=0.1 * bound)
        assert len(np.unique(bias)) == len(bias)


def test_constant_concepts_count_as_zero(birds):
    X, y, _ = birds
    X = X.assign(crest=0.25)
    with pytest.warns(cq.ChoqolateWarning, match="without influence: 'crest'") as caught:
        model = LinearBottleneck(epochs=2).fit(X, y)
    assert caught[0].filename == __file__
    assert model.concept_means_[CONCEPTS.index("crest")] == 0
    np.testing.assert_array_equal(model.class_scores(X.assign(crest=0.9)), model.class_scores(X))


@pytest.mark.parametrize("names", ["sea", ["forest", "sea"], CONCEPTS])
def test_removing_concepts_freezes_them_at_their_training_mean(birds, model, names):
    X, _, _ = birds
    before = model.class_scores(X)
    edited = model.remove_concepts(names)
    gone = [names] if isinstance(names, str) else names
    columns = [CONCEPTS.index(name) for name in gone]
    z = scale(X, X[:300])
    z[:, columns] = z[:300, columns].mean(0)
    nodes = z @ model.node_attributions_.T + model.node_intercepts_
    np.testing.assert_allclose(edited.transform(X), nodes, atol=1e-12)
    np.testing.assert_allclose(
        edited.class_scores(X), nodes @ model.class_attributions_.T + model.class_intercepts_, atol=1e-12
    )
    noise = X.assign(**{name: np.random.default_rng(0).normal(size=400) for name in gone})
    np.testing.assert_array_equal(edited.class_scores(noise), edited.class_scores(X))
    assert edited.removed_ == tuple(gone)
    kept = [j for j in range(6) if j not in columns]
    assert not edited.node_attributions_[:, columns].any()
    np.testing.assert_array_equal(edited.node_attributions_[:, kept], model.node_attributions_[:, kept])
    assert model.removed_ == ()
    assert model.node_attributions_.all()
    np.testing.assert_array_equal(model.class_scores(X), before)


def test_removal_is_replacing_the_raw_column_by_its_training_mean(birds):
    X, y, _ = birds  # nothing is clipped here: all rows are for training
    model = LinearBottleneck(epochs=10).fit(X, y)
    replaced = X.assign(sea=X["sea"].mean(), crest=X["crest"].mean())
    edited = model.remove_concepts(["sea", "crest"])
    np.testing.assert_allclose(edited.predict_proba(X), model.predict_proba(replaced), atol=1e-12)
    assert not np.allclose(edited.predict_proba(X), model.predict_proba(X), atol=1e-3)


def test_removals_add_up(birds, model):
    X, _, _ = birds
    one_by_one = model.remove_concepts("sea").remove_concepts("forest")
    np.testing.assert_allclose(
        one_by_one.class_scores(X), model.remove_concepts(["sea", "forest"]).class_scores(X), atol=1e-12
    )
    again = one_by_one.remove_concepts("sea")
    assert again.removed_ == ("sea", "forest")
    np.testing.assert_array_equal(again.class_scores(X), one_by_one.class_scores(X))


@pytest.mark.parametrize("names", ["see", ["sea", "snow"], ["sea", "sea"], [], 7])
def test_a_wrong_name_is_the_same_error_as_for_ours(birds, model, names):
    X, y, _ = birds
    messages = []
    for fitted in (model, cq.ChoqolateClassifier(epochs=1).fit(X, y)):
        with pytest.raises(cq.ChoqolateError) as error:
            fitted.remove_concepts(names)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_a_run_is_the_same_alone_and_in_company():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300, X[:300].std(0) > 1], y[:300]
    shared = {"epochs": 15, "batch_size": 128, "n_nodes": 5}
    together = fit_linear_runs(X, y, seeds=[3, 1, 4], **shared)
    for run, seed in zip(together, (3, 1, 4), strict=True):
        solo = LinearBottleneck(random_state=seed, **shared).fit(X, y)
        assert run.get_params() == solo.get_params()
        for name in ("node_attributions_", "node_intercepts_", "class_attributions_", "class_intercepts_"):
            np.testing.assert_allclose(getattr(run, name), getattr(solo, name), atol=1e-9)
        np.testing.assert_allclose(run.history_["loss"], solo.history_["loss"], atol=1e-9)
        np.testing.assert_array_equal(run.history_["accuracy"], solo.history_["accuracy"])
    assert not np.allclose(together[0].node_attributions_, together[1].node_attributions_, atol=1e-3)


def test_runs_are_models_of_their_own(birds):
    X, y, _ = birds
    runs = fit_linear_runs(X, y, seeds=(7, 8), epochs=2)
    runs[0].provenance_ = {"source": "birds"}
    runs[0].node_attributions_ *= 0
    assert runs[1].provenance_ == Provenance()
    assert runs[1].node_attributions_.all()


def test_same_seed_same_weights_bit_for_bit(birds):
    X, y, _ = birds
    options = dict(epochs=3, batch_size=64)
    first, again, other = (LinearBottleneck(random_state=seed, **options).fit(X, y) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.class_scores(X), again.class_scores(X))
    assert not np.allclose(first.class_scores(X), other.class_scores(X), atol=1e-3)
    drawn = [LinearBottleneck(random_state=np.random.RandomState(3), **options).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(drawn[0].class_scores(X), drawn[1].class_scores(X))
    fresh = [LinearBottleneck(random_state=None, **options).fit(X, y).node_attributions_ for _ in range(2)]
    assert not np.array_equal(*fresh)


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        ("n_nodes", 0, "n_nodes to be a whole number of at least 1, got 0"),
        ("epochs", 1.5, "epochs to be a whole number"),
        ("batch_size", 0, "batch_size to be a whole number"),
        ("learning_rate", 0, "learning_rate to be a number above 0, got 0"),
        ("device", 0, "device to be text"),
        ("device", "abacus", "device='abacus' is not to be had here"),
        ("random_state", -1, "a seed from 0"),
    ],
)
def test_wrong_parameters(birds, parameter, value, message):
    X, y, _ = birds
    with pytest.raises(cq.ChoqolateError, match=message):
        LinearBottleneck(**{"epochs": 1, parameter: value}).fit(X, y)


def test_wrong_data(birds, model):
    X, y, _ = birds
    holed = X.copy()
    holed.loc[7, "crest"] = np.nan
    for call in (lambda: LinearBottleneck(epochs=1).fit(holed, y), lambda: model.predict(holed)):
        with pytest.raises(cq.ChoqolateError, match=r"contains NaN: row 7, concept 'crest'"):
            call()
    with pytest.raises(cq.ChoqolateError, match="one class only: 'a'"):
        LinearBottleneck().fit(X, ["a"] * 400)
    with pytest.raises(cq.ChoqolateError, match="'sea' more than once"):
        LinearBottleneck().fit(pd.concat([X, X[["sea"]]], axis=1), y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[CONCEPTS[::-1]])
    with pytest.raises(cq.ChoqolateError, match="not finite: lower learning_rate"):
        LinearBottleneck(epochs=5, learning_rate=1e300).fit(X, y)


def test_wrong_seeds():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(cq.ChoqolateError, match="at least one seed"):
        fit_linear_runs(X, y, seeds=[])
    with pytest.raises(cq.ChoqolateError, match=r"such as range\(20\), got 5"):
        fit_linear_runs(X, y, seeds=5)
    with pytest.raises(cq.ChoqolateError, match="seeds="):
        fit_linear_runs(X, y, seeds=[0], random_state=1)


def test_it_is_evaluated_as_ours_is(birds):
    X, y, groups = birds
    split = np.where(np.arange(400) % 2, "train", "test")
    table = ConceptScores(X.to_numpy(), CONCEPTS, labels=y, groups=groups, split=split)
    train, test = table.part("train"), table.part("test")
    model = LinearBottleneck(n_nodes=3, epochs=20).fit(train.frame, train.labels)
    result = cq.evaluate(model, table)
    right = model.predict(test.frame) == test.labels
    assert result.chosen == "test rows of the table"
    assert result.accuracy == right.mean()
    assert result.group_accuracy == pytest.approx({g: right[test.groups == g].mean() for g in np.unique(groups)})
    sizes = np.abs(model.node_attributions_)
    pairs = np.abs(sizes[:, :, None] - sizes[:, None]).sum((1, 2)) / (2 * 6 * sizes.sum(1))
    assert result.attribution_gini == pytest.approx(pairs.mean())
    R = np.corrcoef(test.scores.T)
    products = sizes[:, :, None] * sizes[:, None] * ~np.eye(6, dtype=bool)
    assert result.node_coherence == pytest.approx(((products * R).sum((1, 2)) / products.sum((1, 2))).mean())
    shuffled = table.select(CONCEPTS[::-1])
    assert cq.evaluate(model, shuffled) == result
    nameless = LinearBottleneck(n_nodes=3, epochs=20).fit(train.scores, train.labels)
    unnamed = ConceptScores(table.scores, nameless.concepts_, labels=y, groups=groups, split=split)
    assert cq.evaluate(nameless, unnamed, "test") == result
