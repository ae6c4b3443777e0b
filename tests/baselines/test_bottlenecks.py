"""What all baselines promise."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

import choqolate as cq
from choqolate.baselines import PCBM, PSCBM, SLRAVD, LinearBottleneck, SparseAutoencoder, fit_together
from choqolate.data.provenance import Provenance
from choqolate.data.scores import ConceptScores
from choqolate.estimators.descent import DescentObjective
from tests.baselines.methods import METHODS, OPTIONAL_NODES, quick, scale
from tests.small_tables import CONCEPTS, bird_scores

LAYERS = ("node_attributions_", "node_intercepts_", "class_attributions_", "class_intercepts_")
CHECKED = {"epochs": 20, "learning_rate": 0.1}


@parametrize_with_checks(
    [PCBM(**CHECKED), SLRAVD(**CHECKED), SparseAutoencoder(**CHECKED), PSCBM(min_score=None, **CHECKED)]
)
@pytest.mark.filterwarnings("ignore::choqolate.ChoqolateWarning")  # constant features: on purpose
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def birds():
    X, y, _ = bird_scores()
    return X, y


@pytest.fixture(scope="module")
def fitted(birds):
    X, y = birds
    models = {method: quick(method).fit(X[:300], y[:300]) for method in METHODS}
    return models | {(method, None): quick(method, n_nodes=None).fit(X[:300], y[:300]) for method in OPTIONAL_NODES}


ALL = [*METHODS, *((method, None) for method in OPTIONAL_NODES)]


@pytest.mark.parametrize("key", ALL)
def test_shapes_names_and_probabilities(birds, fitted, key):
    X, y = birds
    model = fitted[key]
    n_nodes = 2 if isinstance(key, tuple) else 3
    assert model.node_attributions_.shape == (n_nodes, 6)
    assert model.class_attributions_.shape == (2, n_nodes)
    assert model.transform(X).shape == (400, n_nodes)
    assert model.concepts_ == CONCEPTS
    odds = np.exp(model.class_scores(X))
    np.testing.assert_allclose(model.predict_proba(X), odds / odds.sum(1, keepdims=True), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[odds.argmax(1)])
    assert model.score(X, y) > 0.85
    assert model.history_["loss"].shape == model.history_["accuracy"].shape == (12,)
    assert model.history_["loss"][-1] < model.history_["loss"][0]
    assert (model.removed_, model.provenance_) == ((), Provenance())


@pytest.mark.parametrize("method", OPTIONAL_NODES)
def test_without_nodes_the_classes_stand_for_them(birds, fitted, method):
    X, _ = birds
    model = fitted[method, None]
    np.testing.assert_array_equal(model.class_attributions_, np.eye(2))
    np.testing.assert_array_equal(model.transform(X), model.class_scores(X))
    assert list(model.get_feature_names_out()) == ["landbird", "waterbird"]
    assert model.explain(X[:1]).nodes == ("landbird", "waterbird")
    assert list(fitted[method].get_feature_names_out()) == ["node0", "node1", "node2"]


@pytest.mark.parametrize("baseline", ["zero", "mean"])
@pytest.mark.parametrize("key", ALL)
def test_explanations_sum_up(birds, fitted, key, baseline):
    X, _ = birds
    model, rows = fitted[key], X[290:330]
    explanation = model.explain(rows, baseline=baseline)
    low, high = X[:300].min(), X[:300].max()
    start = (low if baseline == "zero" else low + model.concept_means_ * (high - low)).to_frame().T
    np.testing.assert_allclose(explanation.node_values, model.transform(rows), atol=1e-12)
    np.testing.assert_allclose(explanation.class_scores, model.class_scores(rows), atol=1e-12)
    np.testing.assert_allclose(explanation.node_baseline, model.transform(start)[0], atol=1e-9)
    np.testing.assert_allclose(explanation.class_baseline, model.class_scores(start)[0], atol=1e-9)
    np.testing.assert_allclose(
        explanation.concept_to_node.sum(2), explanation.node_values - explanation.node_baseline, atol=1e-12
    )
    np.testing.assert_allclose(
        explanation.node_to_class.sum(2), explanation.class_scores - explanation.class_baseline, atol=1e-12
    )
    np.testing.assert_array_equal(explanation.inputs, scale(rows, X[:300]))
    assert (explanation.concept_to_node[:, model.node_attributions_ == 0] == 0).all()


@pytest.mark.parametrize("key", ALL)
def test_a_removed_concept_is_frozen_at_its_training_mean(birds, fitted, key):
    X, _ = birds
    model, inside = fitted[key], X[:300]  # within the range: nothing is clipped
    before = model.class_scores(X)
    edited = model.remove_concepts(["sea", "crest"])
    assert edited.removed_ == ("sea", "crest")
    assert not edited.node_attributions_[:, [CONCEPTS.index("sea"), CONCEPTS.index("crest")]].any()
    noise = X.assign(sea=np.random.default_rng(0).normal(size=400), crest=0.3)
    np.testing.assert_array_equal(edited.class_scores(noise), edited.class_scores(X))
    np.testing.assert_array_equal(model.class_scores(X), before)
    assert model.removed_ == ()
    again = model.remove_concepts("sea").remove_concepts("crest")
    np.testing.assert_allclose(again.class_scores(X), edited.class_scores(X), atol=1e-12)
    if not isinstance(model, PSCBM):  # there the concept's unit is frozen too
        replaced = inside.assign(sea=inside["sea"].mean(), crest=inside["crest"].mean())
        np.testing.assert_allclose(edited.class_scores(inside), model.class_scores(replaced), atol=1e-12)
    with pytest.raises(cq.ChoqolateError, match="did you mean 'sea'"):
        model.remove_concepts("see")


@pytest.mark.parametrize("key", ALL)
def test_a_mean_image_does_not_notice_a_removal(birds, fitted, key):
    X, _ = birds
    model = fitted[key]
    low, high = X[:300].min(), X[:300].max()
    mean = (low + model.concept_means_ * (high - low)).to_frame().T
    edited = model.remove_concepts(["sea", "webbed feet"])
    np.testing.assert_allclose(edited.class_scores(mean), model.class_scores(mean), atol=1e-12)


def test_every_trained_number_is_counted(fitted):
    two_layers, one_layer = 3 * 6 + 3 + 2 * 3 + 2, 2 * 6 + 2
    for method in (LinearBottleneck, PCBM, SLRAVD):
        assert fitted[method].n_parameters_ == two_layers
        assert fitted[method, None].n_parameters_ == one_layer
    assert fitted[SparseAutoencoder].n_parameters_ == (3 * 6 + 3 + 6 * 3 + 6) + (2 * 3 + 2)
    kept = len(fitted[PSCBM].selection_.kept)
    assert 2 <= kept <= 4
    assert fitted[PSCBM].n_parameters_ == (kept * 6 + kept) + (3 * kept + 3 + 2 * 3 + 2)
    assert fitted[PSCBM, None].n_parameters_ == (kept * 6 + kept) + (2 * kept + 2)


@pytest.mark.parametrize("key", ALL)
def test_it_is_measured_and_read_as_ours_is(birds, fitted, key):
    X, y = birds
    model = fitted[key]
    result = cq.evaluate(model, ConceptScores(X.to_numpy(), CONCEPTS, labels=y), "all")
    assert result.accuracy == model.score(X, y)
    gini = cq.metrics.attribution_gini(model.node_attributions_)
    assert result.attribution_gini == pytest.approx(np.nanmean(gini))
    told = cq.explain_model(model)
    np.testing.assert_array_equal(told.node_attributions, model.node_attributions_)


# ---------------------------------------------------------------- side by side


@pytest.mark.parametrize("method", METHODS)
def test_a_run_is_the_same_alone_and_in_company(birds, method):
    X, y = birds
    own = [{"random_state": 3}, {"random_state": 1, "learning_rate": 0.01}, {"random_state": 3}]
    if method is not LinearBottleneck:
        own[2]["penalty"] = 0.03
    company = [quick(method, **options) for options in own]
    together = fit_together(company, X, y)
    assert all(one is other for one, other in zip(together, company, strict=True))
    for run, options in zip(together, own, strict=True):
        solo = quick(method, **options).fit(X, y)
        assert run.get_params() == solo.get_params()
        for name in LAYERS:
            np.testing.assert_allclose(getattr(run, name), getattr(solo, name), atol=1e-10)
        for name, values in solo.history_.items():
            np.testing.assert_allclose(run.history_[name], values, atol=1e-10)
        np.testing.assert_allclose(run.class_scores(X), solo.class_scores(X), atol=1e-9)
    assert not np.allclose(together[0].class_scores(X), together[1].class_scores(X), atol=1e-3)
    if method is not LinearBottleneck:
        assert not np.allclose(together[0].class_scores(X), together[2].class_scores(X), atol=1e-3)


def test_runs_are_models_of_their_own(birds):
    X, y = birds
    first, second = fit_together([quick(PCBM), quick(PCBM, random_state=1)], X, y)
    first.node_attributions_ *= 0
    first.provenance_ = {"source": "birds"}
    assert second.node_attributions_.any()
    assert second.provenance_ == Provenance()


def test_nothing_is_left_of_an_earlier_fit(birds):
    X, y = birds
    runs = [quick(PCBM, epochs=1).fit(X, y), quick(PCBM, epochs=1, random_state=1).fit(X, y)]
    for run in fit_together(runs, X.to_numpy()[:, :4], y):
        assert run.concepts_ == ["x0", "x1", "x2", "x3"]
        assert not hasattr(run, "feature_names_in_")
        assert run.predict(X.to_numpy()[:, :4]).shape == (400,)


def test_what_cannot_be_fitted_together(birds):
    X, y = birds
    with pytest.raises(cq.ChoqolateError, match="at least one estimator"):
        fit_together([], X, y)
    with pytest.raises(cq.ChoqolateError, match="of one kind, got 'PCBM', 'SLRAVD'"):
        fit_together([PCBM(), SLRAVD()], X, y)
    with pytest.raises(cq.ChoqolateError, match="of one kind, got 'ChoqolateClassifier'"):
        fit_together([cq.ChoqolateClassifier()], X, y)
    with pytest.raises(cq.ChoqolateError, match="they differ in 'l1_ratio'"):
        fit_together([PCBM(), PCBM(l1_ratio=0.5, penalty=1.0)], X, y)
    with pytest.raises(cq.ChoqolateError, match="penalty to be a number of at least 0, got -1"):
        fit_together([PCBM(), PCBM(penalty=-1)], X, y)
    model = PCBM()
    with pytest.raises(cq.ChoqolateError, match="one of them twice"):
        fit_together([model, model], X, y)
    assert fit_together([model.set_params(epochs=1), clone(model)], X, y)[1].n_parameters_ > 0


def test_a_constant_concept_is_told_to_the_caller(birds):
    X, y = birds
    for fit in (
        lambda: quick(PCBM, epochs=1).fit(X.assign(crest=0.25), y),
        lambda: fit_together([quick(PSCBM, epochs=1)], X.assign(crest=0.25), y),
        lambda: quick(SparseAutoencoder, epochs=1).fit(X.assign(crest=0.25), y),
    ):
        with pytest.warns(cq.ChoqolateWarning, match="without influence: 'crest'") as caught:
            fit()
        assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (PCBM(penalty=-1e-3), "penalty to be a number of at least 0"),
        (PCBM(l1_ratio=1.5), "l1_ratio to be a number from 0 to 1, got 1.5"),
        (SLRAVD(penalty="a lot"), "penalty to be a number"),
        (SLRAVD(n_nodes=0), "n_nodes to be a whole number of at least 1"),
        (SparseAutoencoder(n_nodes=None), "an autoencoder has hidden units"),
        (PSCBM(per_class=0), "per_class to be a whole number of at least 1"),
        (PSCBM(merge=0), "merge to be a number above 0"),
        (PSCBM(min_score="high"), "min_score to be a number"),
        (PSCBM(min_score=0.9), "use min_score=None"),
    ],
)
def test_wrong_parameters(birds, estimator, message):
    X, y = birds
    with pytest.raises(cq.ChoqolateError, match=message):
        estimator.set_params(epochs=1).fit(X, y)


# ---------------------------------------------------------------- how long


@pytest.mark.parametrize("method", METHODS)
def test_a_budget_in_steps_is_that_many_epochs(birds, method):
    X, y = birds  # 400 rows in batches of 128: four steps per epoch
    budgeted, counted = (quick(method, **options).fit(X, y) for options in ({"steps": 21}, {"epochs": 6}))
    assert {name: len(values) for name, values in budgeted.history_.items()} == dict.fromkeys(budgeted.history_, 6)
    for name in LAYERS:
        np.testing.assert_array_equal(getattr(budgeted, name), getattr(counted, name))
    company = fit_together([quick(method, steps=21, random_state=seed) for seed in (1, 0)], X, y)
    np.testing.assert_allclose(
        company[1].class_scores(X), quick(method, steps=24, random_state=0).fit(X, y).class_scores(X), atol=1e-9
    )


def test_runs_with_different_budgets_are_not_fitted_together(birds):
    X, y = birds
    with pytest.raises(cq.ChoqolateError, match="they differ in 'steps'"):
        fit_together([PCBM(steps=10), PCBM(steps=20)], X, y)
    with pytest.raises(cq.ChoqolateError, match="steps to be a whole number of at least 1, got 0"):
        PCBM(steps=0).fit(X, y)


def loss_of(model, X, y):
    """What training minimised, computed from what was fitted."""
    weights = [model.node_attributions_, model.class_attributions_]
    l1, l2 = (sum((np.abs(W) ** power).sum() for W in weights) for power in (1, 2))
    fit = log_loss(np.unique(y, return_inverse=True)[1], model.predict_proba(X))
    return fit + model.penalty * (model.l1_ratio * l1 + (1 - model.l1_ratio) / 2 * l2)


@pytest.mark.parametrize("steps", [40, 60, 80, 120])
def test_a_training_that_loses_what_it_had_reached_goes_back_to_it(birds, steps):
    X, y = birds  # all rows in each step, so that the loss of an epoch is that of the parameters at its beginning
    model = PCBM(n_nodes=4, penalty=1e-3, learning_rate=3.0, batch_size=512, steps=steps).fit(X, y)
    assert loss_of(model, X, y) <= 1.25 * model.history_["loss"].min()


@pytest.mark.parametrize(("batch_size", "epochs", "rates"), [(200, 8, (3, 1, 0.3, 0.01)), (512, 15, (3, 0.3, 0.01))])
def test_each_run_goes_back_only_where_its_loss_over_all_rows_is_much_higher(
    birds, batch_size, epochs, rates, monkeypatch
):
    X, y = birds
    options = {"n_nodes": 4, "penalty": 1e-3, "batch_size": batch_size, "epochs": epochs}
    runs = [PCBM(random_state=seed, learning_rate=rate, **options) for rate in rates for seed in (0, 1)]
    alone = [loss_of(clone(run).fit(X, y), X, y) for run in runs]
    fitted = fit_together([clone(run) for run in runs], X, y)
    together = np.array([loss_of(run, X, y) for run in fitted])
    np.testing.assert_allclose(together, alone, rtol=1e-6)
    monkeypatch.setattr(DescentObjective, "rewinds", False)
    last = np.array([loss_of(run, X, y) for run in fit_together([clone(run) for run in runs], X, y)])
    went_back = last > 1.25 * together
    np.testing.assert_allclose(together[~went_back], last[~went_back], rtol=1e-6)
    assert [run.went_back_ for run in fitted] == went_back.tolist()
    assert went_back.any()
    assert not went_back.all()


def test_a_method_with_stages_says_whether_it_went_back(birds):
    X, y = birds
    settings = {"n_nodes": 4, "penalty": 1e-3, "steps": 60}
    assert PSCBM(learning_rate=3.0, **settings).fit(X, y).went_back_
    assert not PSCBM(learning_rate=0.01, **settings).fit(X, y).went_back_


def test_the_late_decrease_says_which_stage_has_not_converged(birds):
    X, y = birds
    options = {"n_nodes": None, "penalty": 0.005, "learning_rate": 0.1}
    short, long = (PCBM(steps=steps, **options).fit(X, y) for steps in (20, 1500))
    assert short.late_decrease_ > 0.01 > 1e-4 > abs(long.late_decrease_)
    lost = PCBM(n_nodes=4, learning_rate=30.0, steps=40).fit(X, y)
    before, last = lost.history_["loss"][-8:-4], lost.history_["loss"][-4:]
    assert lost.late_decrease_ == pytest.approx(1 - np.median(last) / np.median(before))  # of all that was recorded
    model = PSCBM(n_nodes=3, per_class=2, steps=40).fit(X, y)
    curves = {name: model.history_[name] for name in ("loss", "concepts")}
    expected = {name: 1 - np.median(curve[-4:]) / np.median(curve[-8:-4]) for name, curve in curves.items()}
    assert model.late_decrease_ == pytest.approx(max(expected.values()))
    assert expected["loss"] != pytest.approx(expected["concepts"], rel=0.01)
